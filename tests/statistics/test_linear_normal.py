"""`LinearNormal`: SciPy's normal density row by row is the oracle, of the distribution and of its statistic."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive
from scipy import stats

from bayesgen import GenerativeProgram, LinearNormal
from bayesgen.errors import DataError
from bayesgen.statistics import LINEAR_NORMAL

ROWS, CLASSES, COLUMNS, FEATURES = 47, 2, 5, 3
close = np.testing.assert_allclose


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def parameters(rng):
    return {
        "coefficients": rng.normal(0, 1, (CLASSES, COLUMNS, FEATURES)),
        "intercept": rng.normal(0, 2, (CLASSES, COLUMNS)),
        "scale": rng.gamma(3.0, 0.5, (CLASSES, COLUMNS)),
    }


def cell_log_probs(features, values, codes, of_classes):
    """Log densities (n, columns) by SciPy; features (n, columns, F)."""
    coefficients, intercept, scale = (of_classes[name][codes] for name in ("coefficients", "intercept", "scale"))
    return stats.norm.logpdf(values, intercept + np.einsum("ndf,ndf->nd", features, coefficients), scale)


def test_it_is_numpyros_normal_about_the_line(rng):
    given = parameters(rng)
    features = rng.normal(0, 1, (ROWS, CLASSES, 1, FEATURES))
    lines = LinearNormal(features, **given)
    plain = dist.Normal(
        given["intercept"] + np.einsum("nkdf,kdf->nkd", features + 0 * given["coefficients"], given["coefficients"]),
        given["scale"],
    )
    values = rng.normal(0, 3, plain.batch_shape)
    assert lines.batch_shape == plain.batch_shape == (ROWS, CLASSES, COLUMNS) and lines.event_shape == ()

    @jax.jit
    def known(lines, values, key):
        of_values = lines.log_prob(values), lines.cdf(values), lines.icdf(0.3), lines.sample(key, (7,))
        return of_values, (lines.mean, lines.variance)

    ours, theirs = (known(each, values, jax.random.key(1)) for each in (lines, plain))
    for rtol, *pairs in zip((1e-10, 1e-12), ours, theirs, strict=True):
        for found, expected in zip(*pairs, strict=True):
            close(found, expected, rtol=rtol)
    made = jax.vmap(lambda one: LinearNormal(one, given["coefficients"][0, 0]))(features[:, 0, 0])
    close(jax.vmap(lambda line: line.log_prob(0.5))(made), LinearNormal(made.features, made.coefficients).log_prob(0.5))
    with pytest.raises(ValueError, match="last axis of one length"):
        LinearNormal(np.zeros((4, 3)), np.zeros(2))
    with pytest.raises(ValueError, match="scale"):
        LinearNormal(np.zeros((4, 3)), np.zeros(3), 0.0, -1.0, validate_args=True)


@pytest.mark.parametrize(
    ("shared", "soft", "holes", "traced"),
    [  # by NumPy all; traced all at once, and none
        pytest.param(*flags, marks=[pytest.mark.slow] * (flags[3] and len(set(flags[:3])) > 1))
        for flags in itertools.product((False, True), repeat=4)
    ],
)
def test_the_summary_gives_the_sum_over_rows_whose_features_differ(shared, soft, holes, traced, rng):
    features = rng.normal([1.0, 0.0, 30.0], 1, (ROWS, FEATURES) if shared else (ROWS, COLUMNS, FEATURES))
    whole = np.broadcast_to(features[:, None], (ROWS, COLUMNS, FEATURES)) if shared else features
    values, weights, given = rng.normal(1, 2, (ROWS, COLUMNS)), rng.gamma(1.0, 1.0, ROWS), parameters(rng)
    codes = rng.integers(0, CLASSES, ROWS)
    classes = rng.dirichlet(np.ones(CLASSES), ROWS) if soft else codes
    observed = rng.random(values.shape) < 0.6 if holes else None
    if holes:
        observed[:, 1] = True
        features = np.where(observed.any(1)[(...,) + (None,) * (features.ndim - 1)], features, np.nan)
        values = np.where(observed, values, np.nan)
    summarize = functools.partial(LINEAR_NORMAL.summarize, num_classes=CLASSES)
    run = jax.jit(summarize) if traced else summarize
    summary = run(
        values=values, classes=classes, weights=weights, observed=observed, row_parameters={"features": features}
    )
    shares = np.eye(CLASSES)[codes] if not soft else classes
    cells = [np.full(ROWS, k) for k in range(CLASSES)]
    tables = np.stack([cell_log_probs(whole, np.nan_to_num(values), k, given) for k in cells])
    if holes:
        tables = np.where(observed, tables, 0.0)
    close(LINEAR_NORMAL.log_likelihood(given, summary), np.einsum("knd,nk,n->kd", tables, shares, weights), rtol=1e-10)


def test_far_off_features_of_unlike_scales_lose_no_digits(rng):
    """Against long doubles: an offset of a million, and scales a million apart."""
    features = rng.normal([1e6, 0.0, -3e4], [1.0, 1e-6, 1e6], (ROWS, FEATURES))
    coefficients = np.array([2.0, 1e6, -1e-6])
    values = features @ coefficients - 2e6 + rng.normal(0, 0.5, ROWS)
    codes = np.zeros(ROWS, int)
    parts = [slice(0, 19), slice(19, None)]
    one, two = (
        LINEAR_NORMAL.summarize(values[p], codes[p], 1, row_parameters={"features": features[p]}) for p in parts
    )
    both = (one + two).scatter[0]
    rows = np.column_stack([features, values]).astype(np.longdouble)
    residuals = rows - rows.mean(0)
    units = np.sqrt((residuals**2).sum(0))
    found, expected = ((matrix / units / units[:, None]).astype(float) for matrix in (both, residuals.T @ residuals))
    close(found, expected, rtol=0, atol=1e-11)  # means near 1e6 have ten digits


# --- programs of one's own ----------------------------------------------------------------------------------------


def chain(n, *, dose):
    slope = numpyro.sample("slope", dist.Normal(0, 2).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.LogNormal(0, 1))
    with numpyro.plate("rows", n):
        first = numpyro.sample("first", LinearNormal(dose[:, None], slope[:1], 0.3, noise))
        features = jnp.stack([first, first**2], -1)
        numpyro.sample("second", LinearNormal(features, slope, -1.0, 2 * noise))


def by_latent(n):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        first = numpyro.sample("first", dist.Normal(0, 1))
        numpyro.sample("second", LinearNormal((slope * first)[:, None], jnp.ones(1)))


def by_attribute(n):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        first = numpyro.sample("first", dist.Normal(0, 1))
        numpyro.sample("second", LinearNormal(jnp.ones((n, 1)), (slope * first)[:, None]))


def test_features_may_be_covariates_and_other_attributes(rng):
    program = GenerativeProgram(chain, label=None)
    assert program.plan.rowwise == () and program.plan.row_parameters == ("first", "second")
    dose = rng.normal(1e3, 2, ROWS)
    latents = {"slope": np.array([0.7, -0.4]), "noise": np.array(0.6)}
    rows = program.simulate(ROWS, seed=4, latents=latents, dose=dose)
    expected = stats.norm.logpdf(rows["first"], 0.3 + 0.7 * dose, 0.6).sum()
    mean = -1.0 + 0.7 * rows["first"] - 0.4 * rows["first"] ** 2
    expected += stats.norm.logpdf(rows["second"], mean, 1.2).sum()
    expected += stats.norm.logpdf(latents["slope"], 0, 2).sum() + stats.lognorm.logpdf(0.6, 1)
    close(program.log_density(latents, rows), expected, rtol=1e-9)
    close(
        program.log_joint(latents, rows).sum() + 0,
        expected - stats.norm.logpdf(latents["slope"], 0, 2).sum() - stats.lognorm.logpdf(0.6, 1),
        rtol=1e-9,
    )


def test_what_depends_on_a_missing_feature_is_refused_unless_it_is_missing_too(rng):
    program = GenerativeProgram(chain, label=None)
    latents = {"slope": np.array([0.7, -0.4]), "noise": np.array(0.6)}
    rows = program.simulate(ROWS, seed=4, latents=latents, dose=rng.normal(0, 2, ROWS))
    kept = {name: np.delete(values, [2, 5]) for name, values in rows.items()}
    both = {name: np.where(np.isin(np.arange(ROWS), [2, 5]) & (name != "dose"), np.nan, v) for name, v in rows.items()}
    close(program.log_density(latents, both), program.log_density(latents, kept), rtol=1e-12)
    lone = {**both, "second": rows["second"]}
    with pytest.raises(DataError, match="'first' is missing in 2 rows"):
        program.log_density(latents, lone)


@pytest.mark.parametrize(
    ("function", "reason"),
    [(by_latent, "depends on a latent"), (by_attribute, "depends on attribute first")],
)
def test_features_of_latents_and_coefficients_of_attributes_go_row_by_row(function, reason, rng):
    program = GenerativeProgram(function, label=None)
    assert program.plan.rowwise == ("second",) and reason in dict(program.plan.reasons)["second"]
    rows = {"first": rng.normal(0, 1, 7), "second": rng.normal(0, 1, 7)}
    expected = stats.norm.logpdf(rows["first"]).sum() + stats.norm.logpdf(1.3, 0, 2)
    expected += stats.norm.logpdf(rows["second"], 1.3 * rows["first"]).sum()
    close(program.log_density({"slope": np.array(1.3)}, rows), expected, rtol=1e-9)


def test_programs_run_under_numpyros_predictive():
    draws = Predictive(chain, num_samples=3)(jax.random.key(0), 11, dose=jnp.arange(11.0))
    assert draws["second"].shape == (3, 11)
