"""Deterministic sites that depend on rows, and latents of rows, are what NumPyro's `MCMC` and `Predictive` have."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from generative import written
from numpyro import handlers

import bayesgen as bg

pytestmark = pytest.mark.filterwarnings("ignore:NUTS:bayesgen.errors.ConvergenceWarning")
N = 30
X = np.random.default_rng(0).normal([3.0, -5.0], size=(N, 2))
Y = 1.0 + X @ [2.0, -1.0] + 0.3 * np.random.default_rng(1).normal(size=N)


def line(X, y=None):
    a = numpyro.sample("a", dist.Normal(0, 10))
    b = numpyro.sample("b", dist.Normal(0, 10).expand([2]).to_event(1))
    numpyro.deterministic("of latents", a + b.sum())
    mean = numpyro.deterministic("line", a + X @ b)
    numpyro.deterministic("average", mean.mean())
    numpyro.deterministic("share", a / len(X))
    with numpyro.plate("rows", len(X)):
        y = numpyro.sample("y", dist.Normal(mean, 0.3), obs=y)
    numpyro.deterministic("R2", 1 - jnp.square(y - mean).sum() / jnp.square(y - y.mean()).sum())


SITES = "of latents", "average", "share", "R2"


def by_numpyro(model, data, parameters, *args):
    """Deterministic sites of a model with its data and parameters, as NumPyro records them."""
    with jax.enable_x64(True):
        trace = handlers.trace(handlers.substitute(handlers.seed(model, 0), parameters | data)).get_trace(*args)
    return {name: np.asarray(site["value"]) for name, site in trace.items() if site["type"] == "deterministic"}


@pytest.fixture(scope="module")
def program():
    return bg.GenerativeProgram.from_model(line, X, Y, label="y")


@pytest.fixture(scope="module")
def point(program):
    return bg.fit(program, *program.read(X, Y), method=bg.MAP())


def check_sites(fit, expected, names=SITES):
    assert {*fit.parameters} == {"a", "b", *names}
    for name in names:
        np.testing.assert_allclose(fit.parameters[name], expected[name], rtol=1e-8)


def test_sites_that_depend_on_rows_are_evaluated_at_those_of_the_training(point):
    latents = {name: point.parameters[name] for name in ("a", "b")}
    expected = by_numpyro(line, {}, latents, X, Y)
    check_sites(point, expected)
    assert {*point.summary()["parameter"]} == {*SITES, "a", "b"}
    made = point.predictive(3, {"X": X[:4] + 1}, seed=1)
    for draw in range(3):
        here = by_numpyro(line, {"y": made["y"][draw]}, latents, X[:4] + 1)
        for name, value in here.items():
            np.testing.assert_allclose(made[name][draw], value, rtol=1e-8)


@pytest.mark.slow
def test_rows_of_whole_weights_are_repeated_and_others_left_out_with_a_sentence(program, point):
    latents = {name: point.parameters[name] for name in ("a", "b")}
    again = bg.fit(program, *program.read(X, Y), sample_weight=np.full(N, 2.0), method=bg.MAP())
    twice = by_numpyro(line, {}, {n: again.parameters[n] for n in latents}, np.repeat(X, 2, 0), np.repeat(Y, 2))
    check_sites(again, twice)
    rows, y = program.read(X, Y)
    with pytest.warns(bg.BayesgenWarning, match="'average', 'share', 'R2' out, .* no whole numbers"):
        fit = bg.fit(program, rows, y, sample_weight=np.full(N, 0.5), method=bg.MAP())
    assert {*fit.parameters} == {"a", "b", "of latents"}
    with pytest.warns(bg.BayesgenWarning, match="not in chunks or as Summaries"):
        bg.fit(program, bg.summarize(program, rows, y), method=bg.MAP())


@pytest.mark.slow
def test_sites_of_draws_and_of_files_are_those_of_numpyro(program, tmp_path):
    fit = bg.fit(program, *program.read(X, Y), method=bg.NUTS(num_chains=2, num_samples=40), progress=False)
    samples = fit.samples()
    for draw in (0, 41, 79):
        expected = by_numpyro(line, {}, {name: samples[name][draw] for name in ("a", "b")}, X, Y)
        for name in SITES:
            np.testing.assert_allclose(samples[name][draw], expected[name], rtol=1e-8)
    assert {"R2", "average"} <= {*fit.diagnose().table["parameter"]} & {*fit.to_datatree()["posterior"].data_vars}
    fit.save(tmp_path / "fit.nc")
    loaded = bg.load(tmp_path / "fit.nc", program=program)
    np.testing.assert_array_equal(loaded.parameters["R2"], fit.parameters["R2"])


def mixed(n, *, x):
    b = numpyro.sample("b", dist.Normal(0, 2))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(logits=b * x))
        numpyro.sample("z", dist.Normal(y + b, 1.0))
    numpyro.deterministic("share", y.mean())


@pytest.mark.slow
def test_what_is_not_known_of_rows_is_told():
    program = bg.GenerativeProgram(mixed, classes=2)
    rows = {"x": X[:, 0], "z": Y}
    y = (Y.mean() < Y).astype(int)
    fit = bg.fit(program, rows, y, method=bg.MAP())
    np.testing.assert_allclose(fit.parameters["share"], y.mean())
    with pytest.warns(bg.BayesgenWarning, match="'share' out, .*some rows have no label"):
        assert "share" not in bg.fit(program, rows, np.where(y, 1.0, np.nan), method=bg.MAP()).parameters


@pytest.fixture(scope="module")
def schools():
    args = len(written.SIGMA), written.SIGMA, written.ESTIMATES
    program = bg.GenerativeProgram.from_model(written.schools, *args, label="obs")
    rows, y = program.read(*args)
    return bg.fit(program, rows, y, method=bg.NUTS(num_chains=2, num_samples=200), progress=False, seed=1), rows, y


@pytest.mark.slow
def test_latents_of_the_training_rows_generate_them_and_others_are_told(schools):
    fit, rows, y = schools
    samples = fit.samples()
    assert samples["theta"].shape == (400, 8) and {*samples} == {"mu", "tau", "theta"}
    np.testing.assert_array_equal(fit.samples(group_by_chain=True)["theta"], fit.parameters["theta"])
    made = numpyro.infer.Predictive(written.schools, samples)(jax.random.key(0), 8, written.SIGMA)["obs"]
    ours = fit.predictive(400, rows, seed=1)
    error = np.asarray(made).std(0) / 20
    assert (np.abs(ours["obs"].mean(0) - np.asarray(made).mean(0)) < 6 * error).all()
    assert np.isin(ours["theta"], samples["theta"]).all()
    tree = fit.to_datatree(rows, y, predictive=True)
    np.testing.assert_array_equal(tree["posterior_predictive"]["theta"], tree["posterior"]["theta"])
    with pytest.warns(bg.BayesgenWarning, match=r"other rows than those of training, so their latents 'theta'"):
        others = fit.predictive(50, {"sigma": written.SIGMA[::-1]}, seed=1)
    assert not np.isin(others["theta"], samples["theta"]).any()
    assert not np.isin(fit.predictive(50, rows, new_rows=True, seed=1)["theta"], samples["theta"]).any()
    later = dataclasses.replace(fit)
    assert np.isin(later.predictive(50, rows, seed=1)["theta"], samples["theta"]).all()


def test_sites_that_are_computed_from_observed_arguments_are_left_out_and_told():
    def model(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.deterministic("twice", 2 * slope)
        if y is not None:
            numpyro.deterministic("variance", jnp.var(y))
            numpyro.deterministic("residual", y - slope * x)
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

    with pytest.warns(bg.BayesgenWarning, match="sites 'residual', 'variance' are left out: .*numpyro.sample returns"):
        program = bg.GenerativeProgram.from_model(model, X[:, 0], Y, label="y")
    fit = bg.fit(program, *program.read(X[:, 0], Y), method=bg.MAP())
    assert {*fit.parameters} == {"slope", "twice"} and {*fit.predictive(2, {"x": X[:, 0]})} == {"y", "twice"}
