"""Families and rows with missing cells: updates, evidences and predictives of what is observed, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.families import CASES, CLASSES, COLUMNS, ROWS, matrix
from scipy import stats
from test_laws import assert_maximum

from bayesgen.errors import DataError, ModelError
from bayesgen.families.counts import DirichletMultinomialDensity, NegativeBinomialDensity
from bayesgen.families.student_t import MultivariateStudentTDensity, SphericalStudentTDensity, StudentTDensity

close = np.testing.assert_allclose
WHOLE_ROWS = ("DirichletMultinomial", "NormalInverseWishart", "DirichletMarkov")  # chains: see test_missing_steps
CELLWISE = [name for name in CASES if not name.startswith(WHOLE_ROWS)]
every_case = pytest.mark.parametrize("name", CELLWISE)


@pytest.fixture
def rng():
    return np.random.default_rng(17)


@pytest.fixture
def codes(rng):
    return rng.integers(0, CLASSES, ROWS)


def with_holes(rows, rng):
    observed = rng.random(rows.shape) < 0.6
    return np.where(observed, rows, np.nan), observed


def summarize(family, rows, codes, observed=None, weights=None):
    return family.likelihood.summarize(rows, codes, CLASSES, weights, observed)


def likelihood(prior, parameters, rows, codes, observed):
    return prior.row_density(parameters).log_prob(rows, observed)[np.arange(len(rows)), codes]


@every_case
def test_densities_of_cells_add_up_to_those_of_rows(name, rng, codes):
    """SciPy's density of whole rows is the sum over cells, each the density of what alone is observed."""
    case = CASES[name]
    rows, parameters = case.rows(rng, ROWS), case.parameters(rng)
    cells = [
        likelihood(case.table(), parameters, rows, codes, np.tile(np.arange(COLUMNS) == column, (ROWS, 1)))
        for column in range(COLUMNS)
    ]
    close(np.sum(cells, axis=0), case.log_likelihood(parameters, rows, codes), rtol=1e-11)
    changed = rows.copy()
    changed[:, 1] = case.rows(rng, ROWS)[:, 1]
    mask = np.tile(np.arange(COLUMNS) == 1, (ROWS, 1))
    found = likelihood(case.table(), parameters, changed, codes, mask) - cells[1]
    before, after = (case.log_likelihood(parameters, each, codes) for each in (rows, changed))
    close(found, after - before, rtol=1e-9, atol=1e-11)


@every_case
def test_bayes_rule_of_what_is_observed(name, rng, codes):
    case = CASES[name]
    prior, weights = case.table(), rng.integers(0, 4, ROWS) + 0.0
    rows, observed = with_holes(case.rows(rng, ROWS), rng)
    summary = summarize(prior, rows, codes, observed, weights)
    posterior, evidence = prior.update(summary), prior.log_evidence(summary)
    for _ in range(3):
        parameters = case.parameters(rng)
        expected = weights @ likelihood(prior, parameters, rows, codes, observed)
        expected += case.log_prior(prior, parameters) - case.log_prior(posterior, parameters)
        close(evidence, expected, rtol=1e-10)


@every_case
def test_the_predictive_of_what_is_observed_is_the_ratio_of_two_evidences(name, rng, codes):
    case = CASES[name]
    prior = case.table()
    rows, observed = with_holes(case.rows(rng, ROWS), rng)
    new, seen = case.rows(rng, 8), np.array(np.meshgrid(*[[False, True]] * COLUMNS)).reshape(COLUMNS, -1).T
    summary = summarize(prior, rows, codes, observed)
    density = prior.update(summary).row_predictive()
    found, before = density.log_prob(np.where(seen, new, np.nan), seen), prior.log_evidence(summary)
    for row, mask, given in zip(new, seen, found, strict=True):
        added = [summary + summarize(prior, row[None], np.array([k]), mask[None]) for k in range(CLASSES)]
        close(given, [prior.log_evidence(one) - before for one in added], rtol=1e-10, atol=1e-10)
    whole = density.log_prob(new)
    close(density.log_prob(new, np.ones(new.shape, bool)), whole, rtol=1e-12)
    close(found[seen.all(1)], whole[seen.all(1)], rtol=1e-12)


@every_case
def test_dropped_cells_are_never_seen(name, rng, codes):
    """Columns on their own, where they do not share a variance: the posterior of each is that of its observed rows."""
    case = CASES[name]
    prior = case.table()
    rows, observed = with_holes(case.rows(rng, ROWS), rng)
    posterior = prior.update(summarize(prior, rows, codes, observed))
    if prior.traits.joint:
        return
    for column in range(COLUMNS):
        kept = observed[:, column]
        whole = case.rows(rng, kept.sum())
        whole[:, column] = rows[kept, column]
        expected = prior.update(summarize(prior, whole, codes[kept]))
        for key, value in posterior.mean().items():
            axis = prior.parameter_axes()[key].index("feature")
            close(value.take(column, axis), expected.mean()[key].take(column, axis), rtol=1e-12)


@every_case
def test_a_column_without_observed_cells_keeps_its_prior(name, rng, codes):
    case = CASES[name]
    prior = case.table()
    rows = case.rows(rng, ROWS)
    observed = np.ones(rows.shape, bool)
    observed[:, 1] = False
    summary = summarize(prior, rows, codes, observed)
    posterior = prior.update(summary)
    if prior.traits.joint:
        close(posterior.mean()["mean"][:, 1], prior.mean()["mean"][:, 1], rtol=1e-14)
    else:
        for key, value in prior.mean().items():
            axis = prior.parameter_axes()[key].index("feature")
            close(posterior.mean()[key].take(1, axis), value.take(1, axis), rtol=1e-14)
    nothing = summarize(prior, rows, codes, np.zeros(rows.shape, bool))
    close(prior.log_evidence(nothing), 0.0, atol=1e-12)


@every_case
def test_maximum_likelihood_of_what_is_observed(name, rng, codes):
    case = CASES[name]
    prior, codes = case.table(), np.tile(codes, 7)
    rows, observed = with_holes(case.rows(rng, len(codes)), rng)
    point = prior.maximum_likelihood(summarize(prior, rows, codes, observed))
    assert_maximum(lambda p: likelihood(prior, p, rows, codes, observed).sum(), case, point, rng)


@pytest.mark.parametrize("name", ["BetaBernoulli", "GammaPoisson", "NormalInverseGamma"])
def test_hyperparameters_come_from_the_cells_that_are_there(name, rng):
    family = type(CASES[name].family)()
    rows, observed = with_holes(CASES[name].rows(rng, ROWS), rng)
    summary = family.likelihood.summarize(rows, np.zeros(ROWS, int), 1, None, observed).select_class(0)
    together = family.update(summary)
    for column in range(COLUMNS):
        alone = family.update(rows[observed[:, column], column])
        for key, value in together.hyperparameters.items():
            close(value[column], alone.hyperparameters[key], rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("tied", ["", ", tied"])
def test_joint_normals_refuse_by_name(tied, rng, codes):
    prior = CASES[f"NormalInverseWishart{tied}"].table()
    rows, observed = with_holes(rng.normal(size=(ROWS, COLUMNS)), rng)
    summary = summarize(prior, rows, codes, observed)
    for work in (prior.update, prior.log_evidence, prior.maximum_likelihood):
        with pytest.raises(
            ModelError, match=r"NormalInverseWishart: .* closed form: cells .* missing.*leave those rows"
        ):
            work(summary)


def test_counts_of_one_total_refuse_by_name(rng, codes):
    prior = CASES["DirichletMultinomial"].table()
    rows, observed = with_holes(CASES["DirichletMultinomial"].rows(rng, ROWS), rng)
    with pytest.raises(DataError, match="a multinomial distribution have missing cells"):
        summarize(prior, rows, codes, observed)
    for density in (prior.row_predictive(), prior.row_density(CASES["DirichletMultinomial"].parameters(rng))):
        with pytest.raises(DataError, match="multinomial distribution have missing cells"):
            density.log_prob(rows, observed)


# --- predictive densities, against SciPy's ----------------------------------------------------------------------


def tables(rng, number=3, num_columns=5):
    """df, loc, scale (K, D) and a correlated factor (K, D, D)."""
    df = rng.uniform(1, 5, (number, num_columns))
    factor = np.stack([np.linalg.cholesky(matrix(num_columns, seed)) for seed in range(number)])
    return df, rng.normal(size=(number, num_columns)), rng.uniform(0.5, 2, (number, num_columns)), factor


def marginal(rows, observed, of_columns):
    """(n, K) of `of_columns(class, row, seen)`, zero where nothing is seen."""
    table = np.zeros((len(rows), 3))
    for i, k in np.ndindex(*table.shape):
        seen = np.flatnonzero(observed[i])
        table[i, k] = of_columns(k, rows[i, seen], seen) if len(seen) else 0.0
    return table


def predictive_densities(rng):
    df, loc, scale, factor = tables(rng)
    shared = np.repeat(df[:, :1], 5, 1)
    covariance = factor @ np.swapaxes(factor, -1, -2)
    reals, counts = rng.normal(0, 3, (11, 5)), rng.poisson(4.0, (11, 5)) + 0.0
    shape, rate = rng.gamma(3.0, 1.0, (2, 3, 5))
    student, joint = stats.t.logpdf, stats.multivariate_t.logpdf
    return {
        "Student t": (
            StudentTDensity(df, loc, scale),
            reals,
            lambda k, x, s: student(x, df[k, s], loc[k, s], scale[k, s]).sum(),
        ),
        "Student t, one df": (
            StudentTDensity(shared, loc, scale),
            reals,
            lambda k, x, s: student(x, df[k, 0], loc[k, s], scale[k, s]).sum(),
        ),
        "concentric": (
            SphericalStudentTDensity(shared, loc, scale),
            reals,
            lambda k, x, s: joint(x, loc[k, s], np.diag(scale[k, s] ** 2), df[k, 0]),
        ),
        "joint": (
            MultivariateStudentTDensity.of(df[:, 0], loc, factor),
            reals,
            lambda k, x, s: joint(x, loc[k, s], covariance[k][np.ix_(s, s)], df[k, 0]),
        ),
        "negative binomial": (
            NegativeBinomialDensity(shape, rate),
            counts,
            lambda k, x, s: stats.nbinom.logpmf(x, shape[k, s], rate[k, s] / (1 + rate[k, s])).sum(),
        ),
    }


@pytest.mark.parametrize("kind", predictive_densities(np.random.default_rng(0)))
def test_predictive_densities_are_marginals(kind, rng):
    density, rows, of_columns = predictive_densities(rng)[kind]
    observed = rng.random(rows.shape) < 0.6
    observed[0], observed[1] = True, False
    expected = marginal(rows, observed, of_columns)
    holes = np.where(observed, rows, np.nan)
    close(density.log_prob(holes, observed), expected, rtol=1e-10, atol=1e-11)
    with jax.enable_x64(True):
        traced = jax.jit(lambda d, x, mask: d.log_prob(x, mask))(jax.tree.map(jnp.asarray, density), holes, observed)
    close(traced, expected, rtol=1e-9, atol=1e-9)


def test_mixtures_of_columns_and_of_rows_leave_missing_cells_out(rng):
    for kind, (density, rows, _) in predictive_densities(rng).items():
        other = predictive_densities(rng)[kind][0]
        observed = rng.random(rows.shape) < 0.6
        columnwise = kind in ("Student t", "Student t, one df", "negative binomial")
        weight = rng.uniform(0.2, 0.8, 5) if columnwise else rng.uniform(0.2, 0.8)
        mixed = density.mixed(other, np.log(weight), np.log1p(-weight))
        if columnwise:
            masks = [observed & (np.arange(5) == column) for column in range(5)]
            parts = [(density.log_prob(rows, mask), other.log_prob(rows, mask)) for mask in masks]
            expected = sum(np.log(w * np.exp(a) + (1 - w) * np.exp(b)) for w, (a, b) in zip(weight, parts, strict=True))
        else:
            one, two = density.log_prob(rows, observed), other.log_prob(rows, observed)
            expected = np.log(weight * np.exp(one) + (1 - weight) * np.exp(two))
        close(mixed.log_prob(rows, observed), expected, rtol=1e-10, atol=1e-12, err_msg=kind)


def test_vectors_of_counts_refuse(rng):
    with pytest.raises(DataError, match="Dirichlet-multinomial"):
        DirichletMultinomialDensity(np.ones((2, 3))).log_prob(np.ones((1, 3)), np.ones((1, 3), bool))
