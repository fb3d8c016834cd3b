"""Summaries against the rows themselves: NumPyro's own `log_prob`, summed row by row, is the oracle."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.sparse
from scipy.stats import multivariate_normal, norm

from bayesgen.errors import DataError
from bayesgen.families import PiecewiseUniform
from bayesgen.runtime import Traced
from bayesgen.runtime.chunking import CACHE_ROWS
from bayesgen.sequences import HiddenMarkov, MarkovChain, ProbabilisticGrammar
from bayesgen.statistics import Likelihood, LinearNormal, Moments, moments, read_conditional
from bayesgen.statistics.arrays import log_linear, safe_product
from bayesgen.statistics.base import _TABLE
from bayesgen.statistics.discrete import CategoricalLikelihood
from bayesgen.statistics.histogram import HistogramLikelihood
from bayesgen.statistics.moments import class_moments
from bayesgen.statistics.table import MULTINOMIAL, MULTIVARIATE_NORMAL, NORMAL

CLASSES, ROWS, COLUMNS, LENGTH, TOTAL = 3, 43, 2, 5, 11
EMPTY = 1  # the class without rows
TABLE = (CLASSES, COLUMNS)


class Case(NamedTuple):
    """A distribution: its type, how it is built, parameters (K, columns, ...), rows (n, columns, ...)."""

    type: type
    build: Callable
    parameters: Callable
    rows: Callable


def positive(rng, *names):
    return {name: rng.gamma(3.0, 0.7, TABLE) + 0.1 for name in names}


def location_scale(rng):
    return {"loc": rng.normal(0.3, 2.0, TABLE), "scale": rng.gamma(3.0, 0.5, TABLE)}


def binary(rng):
    return rng.integers(0, 2, (ROWS, COLUMNS)).astype(float)


def counts(rng):
    return rng.poisson(3.0, (ROWS, COLUMNS)).astype(float)


def reals(rng):
    return rng.normal(1.0, 2.0, (ROWS, COLUMNS))


def lines(rng):
    return {
        "coefficients": rng.normal(0, 1, (*TABLE, 3)),
        "intercept": rng.normal(0, 2, TABLE),
        "scale": rng.gamma(3.0, 0.5, TABLE),
    }


def positives(rng):
    return rng.gamma(2.0, 1.5, (ROWS, COLUMNS))


def simplex(rng, shape=TABLE):
    return rng.dirichlet(np.full(LENGTH, 2.0), shape)


def unit(rng):
    return {"probs": rng.uniform(0.05, 0.95, TABLE)}


def logits(rng):
    return {"logits": rng.normal(0, 2, TABLE)}


def vector_logits(rng):
    return {"logits": rng.normal(0, 2, (*TABLE, LENGTH))}


def covariances(rng):
    factor = np.tril(rng.normal(0, 1, (*TABLE, LENGTH, LENGTH)))
    factor[..., range(LENGTH), range(LENGTH)] = rng.gamma(4.0, 0.4, (*TABLE, LENGTH))
    return rng.normal(0, 2, (*TABLE, LENGTH)), factor


def normal_by(name):
    def parameters(rng):
        loc, factor = covariances(rng)
        matrix = factor @ np.swapaxes(factor, -1, -2)
        value = {"scale_tril": factor, "covariance_matrix": matrix, "precision_matrix": np.linalg.inv(matrix)}
        return {"loc": loc, name: value[name]}

    return Case(dist.MultivariateNormal, lambda **p: dist.MultivariateNormal(**p), parameters, vectors)


def low_rank(num_factors):
    def parameters(rng):
        return {
            "loc": rng.normal(0, 2, (*TABLE, LENGTH)),
            "cov_factor": rng.normal(0, 1.5, (*TABLE, LENGTH, num_factors)),
            "cov_diag": rng.gamma(3.0, 0.2, (*TABLE, LENGTH)) + 0.1,
        }

    kind = dist.LowRankMultivariateNormal
    return Case(kind, lambda **p: kind(**p), parameters, vectors)


def vectors(rng):
    return rng.normal(0, 1, (ROWS, COLUMNS, LENGTH)) @ rng.normal(0, 1, (LENGTH, LENGTH)) + 2.0


def categories(rng):
    return rng.integers(0, LENGTH, (ROWS, COLUMNS))


def words(rng):
    return rng.multinomial(TOTAL, np.full(LENGTH, 1 / LENGTH), (ROWS, COLUMNS)).astype(float)


def probabilities(rng):
    return {"probs": simplex(rng)}


def some_of_total(rng):
    return rng.integers(0, TOTAL + 1, (ROWS, COLUMNS)).astype(float)


def chains(rng):
    """Of order 2."""
    return {"initial": rng.dirichlet(np.ones(3), (*TABLE, 4)), "transition": rng.dirichlet(np.ones(3), (*TABLE, 9))}


def sequences(rng):
    steps = rng.integers(0, 3, (ROWS, COLUMNS, TOTAL))
    return np.where(np.arange(TOTAL) < rng.integers(0, TOTAL + 1, (ROWS, COLUMNS, 1)), steps, -1)


def multinomial(**p):
    return dist.Multinomial(TOTAL, **p)


EDGES, TAILS = np.array([-np.inf, -0.2, 0.9, 1.7, 2.4, 4.0]), np.array([0.4, 1.3])

CASES = {
    "Bernoulli, probs": Case(dist.BernoulliProbs, dist.Bernoulli, unit, binary),
    "Bernoulli, logits": Case(dist.BernoulliLogits, dist.Bernoulli, logits, binary),
    "Binomial, probs": Case(dist.BinomialProbs, functools.partial(dist.Binomial, TOTAL), unit, some_of_total),
    "Binomial, logits": Case(dist.BinomialLogits, functools.partial(dist.Binomial, TOTAL), logits, some_of_total),
    "Geometric, probs": Case(dist.GeometricProbs, dist.Geometric, unit, counts),
    "Geometric, logits": Case(dist.GeometricLogits, dist.Geometric, logits, counts),
    "Categorical, probs": Case(dist.CategoricalProbs, dist.Categorical, probabilities, categories),
    "Categorical, logits": Case(dist.CategoricalLogits, dist.Categorical, vector_logits, categories),
    "Multinomial, probs": Case(dist.MultinomialProbs, multinomial, probabilities, words),
    "Multinomial, logits": Case(dist.MultinomialLogits, multinomial, vector_logits, words),
    "Poisson": Case(dist.Poisson, dist.Poisson, lambda rng: positive(rng, "rate"), counts),
    "Exponential": Case(dist.Exponential, dist.Exponential, lambda rng: positive(rng, "rate"), positives),
    "Gamma": Case(dist.Gamma, dist.Gamma, lambda rng: positive(rng, "concentration", "rate"), positives),
    "Chi2": Case(dist.Chi2, dist.Chi2, lambda rng: positive(rng, "df"), positives),
    "InverseGamma": Case(
        dist.InverseGamma, dist.InverseGamma, lambda rng: positive(rng, "concentration", "rate"), positives
    ),
    "Beta": Case(
        dist.Beta,
        dist.Beta,
        lambda rng: positive(rng, "concentration1", "concentration0"),
        lambda rng: rng.beta(2.0, 3.0, (ROWS, COLUMNS)),
    ),
    "Dirichlet": Case(
        dist.Dirichlet,
        dist.Dirichlet,
        lambda rng: {"concentration": rng.gamma(3.0, 0.7, (*TABLE, LENGTH)) + 0.1},
        lambda rng: simplex(rng, (ROWS, COLUMNS)),
    ),
    "HalfNormal": Case(dist.HalfNormal, dist.HalfNormal, lambda rng: positive(rng, "scale"), positives),
    "Laplace": Case(  # its location is known: the same in every class
        dist.Laplace,
        lambda scale: dist.Laplace(np.array([0.7, -1.1]), scale),
        lambda rng: positive(rng, "scale"),
        reals,
    ),
    "Normal": Case(dist.Normal, dist.Normal, location_scale, reals),
    "LogNormal": Case(dist.LogNormal, dist.LogNormal, location_scale, positives),
    "LinearNormal": Case(  # the same features in every row; those that differ are in test_linear_normal
        LinearNormal, functools.partial(LinearNormal, np.array([0.7, -1.1, 2.3])), lines, reals
    ),
    "PiecewiseUniform": Case(  # in bins that all columns share; those of each are in test_histogram
        PiecewiseUniform, lambda probs: PiecewiseUniform(EDGES, probs, TAILS), probabilities, reals
    ),
    "MarkovChain": Case(MarkovChain, functools.partial(MarkovChain, length=TOTAL), chains, sequences),
    "MultivariateNormal, scale_tril": normal_by("scale_tril"),
    "MultivariateNormal, covariance_matrix": normal_by("covariance_matrix"),
    "MultivariateNormal, precision_matrix": normal_by("precision_matrix"),
    "LowRankMultivariateNormal": low_rank(2),
}
every_case = pytest.mark.parametrize("name", CASES)
OURS = ("numpyro.", "bayesgen.families.dirichlet_hist", "bayesgen.sequences.", "bayesgen.statistics.linear_")
OWN = [kind for kind in _TABLE if kind.__module__.startswith(OURS)]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def codes(rng):
    return rng.choice([0, 2], ROWS)


class Read(NamedTuple):
    """What is read from the distributions of a case, and NumPyro's log density of each cell, (n, K, columns)."""

    likelihood: Likelihood
    parameters: dict
    row_parameters: dict
    cells: np.ndarray


@functools.cache
def reader(name):
    """A function a case, traced once and evaluated by NumPy: one by one, NumPyro's operations would be compiled."""
    likelihoods, traced = [], {}

    def run(parameters, values):
        distribution = CASES[name].build(**parameters)
        conditional = read_conditional(distribution, -2)
        likelihoods.append(conditional.likelihood)
        return conditional.parameters, conditional.row_parameters, distribution.log_prob(values[:, None])

    def evaluate(*arguments):
        kinds = str(jax.tree.map(lambda array: (np.shape(array), np.asarray(array).dtype), arguments))
        if kinds not in traced:
            traced[kinds] = Traced.of(run, *arguments)
        return traced[kinds](*arguments)

    return evaluate, likelihoods


def read(name, parameters, values):
    """A case's distributions at parameters, and the densities of rows under them."""
    run, likelihoods = reader(name)
    arrays = jax.tree.map(np.asarray, run(parameters, values))
    return Read(likelihoods[0], *arrays)


def likelihood_of(name, rng):
    """The likelihood of a case, and its row parameters."""
    found = read(name, CASES[name].parameters(rng), CASES[name].rows(np.random.default_rng(0)))
    return found.likelihood, by_row(found.row_parameters)


def by_row(per_row):
    """Row parameters: they are the same in all classes."""
    return {k: np.broadcast_to(v[:1], (ROWS, *v.shape[1:])) for k, v in per_row.items()}


@functools.cache
def compiled(name):
    """One compiled function a case: sums over rows by NumPyro, and from the summary, in every wrapping and plainly."""
    case = CASES[name]
    mask = jnp.array([True, False])

    def wrap(parameters):
        narrow = {k: v[:, :1] for k, v in parameters.items()}
        plain, size = case.build(**parameters), len(next(iter(parameters.values())))
        wrapped = {
            "plain": (plain, -2),
            "to_event": (plain.to_event(1), -1),
            "mask, to_event": (plain.mask(mask).to_event(1), -1),
            "expand, mask": (case.build(**narrow).expand((size, COLUMNS)).mask(mask), -2),
        }
        return wrapped

    @jax.jit
    def run(parameters, values, codes, weights, summary):
        rows = wrap({k: v[codes] for k, v in parameters.items()})
        sums = {kind: (d.log_prob(values).reshape(ROWS, -1).sum(-1) * weights).sum() for kind, (d, _) in rows.items()}
        conditionals = {kind: read_conditional(d, axis) for kind, (d, axis) in wrap(parameters).items()}
        table = conditionals["plain"]
        return (
            sums,
            {kind: one.log_likelihood(summary) for kind, one in conditionals.items()},
            table.likelihood.log_likelihood(table.parameters, summary),
        )

    return run


def test_every_registered_distribution_has_a_case():
    kept = {HiddenMarkov, ProbabilisticGrammar}  # rows are their statistic: see test_kept_rows
    assert {case.type for case in CASES.values()} == set(OWN) - kept
    assert dist.StudentT not in _TABLE


@functools.partial(jax.jit, static_argnums=0)
def by_reference(likelihood, parameters, values):
    """Log densities of rows under many processes, (K, draws, n), by the linear form."""
    reference = likelihood.reference(parameters)
    log_probs, features = reference.features(values)
    natural_parameters, constant = reference.natural_parameters(parameters)
    deviations = jnp.einsum("skf,kfn->ksn", natural_parameters, features) + constant.T[..., None]
    return log_probs[:, None] + deviations


def of_many(likelihood, parameters, values):
    """Log densities of rows under many processes, (K, draws, n), by the linear form where there is one."""
    if type(likelihood).reference is Likelihood.reference:
        return likelihood.log_prob_of_many(parameters, values)
    with jax.enable_x64(True):
        return np.asarray(by_reference(likelihood, parameters, values.astype(float)))


@every_case
def test_the_summary_gives_the_sum_over_rows(name, rng, codes):
    case = CASES[name]
    for _ in range(2):
        parameters, values = case.parameters(rng), case.rows(rng)
        weights = rng.gamma(1.0, 1.0, ROWS)
        likelihood, arrays, per_row, cells = read(name, parameters, values)
        summary = likelihood.summarize(values, codes, CLASSES, weights, row_parameters=by_row(per_row))
        sums, found, by_class = compiled(name)(parameters, values, codes, weights, summary)
        for kind, expected in sums.items():
            np.testing.assert_allclose(found[kind], expected, rtol=1e-9, err_msg=kind)
        weighted = weights[:, None] * cells[np.arange(ROWS), codes]
        expected = [weighted[codes == k].sum(0) for k in range(CLASSES)]
        np.testing.assert_allclose(by_class, expected, rtol=1e-9, atol=1e-12)
        assert (np.asarray(by_class)[EMPTY] == 0).all()
        assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(summary))
        if not likelihood.has_row_parameters:
            rows = likelihood.density(arrays).log_prob(values)
            assert isinstance(rows, np.ndarray)
            np.testing.assert_allclose(rows, cells.sum(-1), rtol=1e-9, atol=1e-9)
            many = of_many(likelihood, jax.tree.map(lambda a: np.stack([a, a[::-1]]), arrays), values)
            np.testing.assert_allclose(many[:, 0].T, cells.sum(-1), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(many[:, 1], many[::-1, 0], rtol=1e-9, atol=1e-9)


def test_what_needs_inert_parameters_says_so():
    told = {name for name in CASES if likelihood_of(name, np.random.default_rng(0))[0].has_row_parameters}
    assert told == {"Binomial, probs", "Binomial, logits", "Laplace", "LinearNormal"}


@every_case
def test_summaries_merge_and_weights_are_repetitions(name, rng, codes):
    case = CASES[name]
    values = case.rows(rng)
    likelihood, per_row = likelihood_of(name, rng)

    def summarize(rows, weights=None):
        of_rows = {k: v[rows] for k, v in per_row.items()}
        given = None if weights is None else weights[rows]
        return likelihood.summarize(values[rows], codes[rows], CLASSES, given, row_parameters=of_rows)

    def same(one, two):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), one, two)

    everything, index = summarize(np.arange(ROWS)), np.arange(ROWS)
    for cut in (0, 1, 17):
        same(summarize(index[:cut]) + summarize(index[cut:]) if cut else everything, everything)
    parts = [summarize(np.flatnonzero(codes == k)) for k in (2, 0)]
    same(parts[0] + parts[1], everything)
    weights = rng.integers(0, 4, ROWS).astype(float)
    same(summarize(index, weights), summarize(np.repeat(index, weights.astype(int))))
    swapped = likelihood.summarize(values, np.where(codes == 0, 0, 1), 2, row_parameters=per_row)
    same(swapped.pooled().select_class(0), everything.pooled().select_class(0))
    same(swapped.select_class(1), everything.select_class(2))


@every_case
def test_an_empty_part_merges_as_nothing(name, rng, codes):
    case = CASES[name]
    values = case.rows(rng)
    likelihood, per_row = likelihood_of(name, rng)
    nothing = likelihood.summarize(
        values[:0], codes[:0], CLASSES, row_parameters={k: v[:0] for k, v in per_row.items()}
    )
    everything = likelihood.summarize(values, codes, CLASSES, row_parameters=per_row)
    for merged in (nothing + everything, everything + nothing):
        jax.tree.map(np.testing.assert_array_equal, merged, everything)


@every_case
def test_float32_rows_lose_nothing_beyond_their_own_rounding(name, rng, codes):
    case = CASES[name]
    values = case.rows(rng).astype(np.float32)
    likelihood, per_row = likelihood_of(name, rng)
    narrow = likelihood.summarize(values, codes, CLASSES, row_parameters=per_row)
    wide = likelihood.summarize(values.astype(np.float64), codes, CLASSES, row_parameters=per_row)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), narrow, wide)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].rows in (binary, counts, some_of_total, words)])
def test_small_integers_lose_nothing(name, rng, codes):
    case = CASES[name]
    values = case.rows(rng).astype(np.uint8)
    likelihood, per_row = likelihood_of(name, rng)
    narrow = likelihood.summarize(values, codes, CLASSES, row_parameters=per_row)
    wide = likelihood.summarize(values.astype(np.float64), codes, CLASSES, row_parameters=per_row)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), narrow, wide)


@pytest.mark.parametrize("matrix", [False, True])
def test_large_offsets_and_many_chunks_cost_no_digits(rng, matrix):
    size = 2 * CACHE_ROWS + 19
    small = rng.normal(0, 1, (size, 3)).round(6) @ np.array([[1, 0, 0], [0.5, 1, 0], [-0.25, 0.5, 1]])
    labels = rng.integers(0, 2, size)
    offset = np.array([1e8, -3e8, 0.0])
    moments = class_moments(small + offset, labels, 2, None, matrix)
    for k in range(2):
        rows = ((small + offset) - offset)[labels == k]  # what float64 left of them
        scatter = np.cov(rows.T, bias=True) * len(rows)
        np.testing.assert_allclose(moments.mean[k] - offset, rows.mean(0), atol=1e-7)
        np.testing.assert_allclose(
            moments.scatter[k], scatter if matrix else np.diagonal(scatter), rtol=1e-7, atol=1e-4
        )


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("first_weight", [0.0, 1e-9, 1.0])
def test_a_first_row_far_off_costs_no_digits(rng, matrix, first_weight):
    values = rng.normal(0, 1, (2 * CACHE_ROWS + 19, 3)) @ np.array([[1, 0, 0], [0.5, 1, 0], [-0.25, 0.5, 1]])
    values[0] += 3e6
    weights = np.append(first_weight, rng.gamma(1.0, 1.0, len(values) - 1))
    moments = class_moments(values, np.zeros(len(values), int), 1, weights, matrix)
    wide, exact = values.astype(np.longdouble), weights.astype(np.longdouble)[:, None]
    mean = (exact * wide).sum(0) / exact.sum()
    scatter = (exact * (wide - mean)).T @ (wide - mean)
    np.testing.assert_allclose(moments.mean[0], mean.astype(float), rtol=1e-12, atol=1e-14)
    expected = scatter if matrix else np.diagonal(scatter)
    np.testing.assert_allclose(moments.scatter[0], expected.astype(float), rtol=3e-12, atol=1e-10)


@pytest.mark.parametrize("matrix", [False, True])
def test_the_heaviest_row_far_off_costs_no_digits(rng, matrix):
    """Moments begin about the heaviest row, from which 30,000 others are a thousand variances away, squared."""
    values, weights = rng.normal(size=(30_000, 2)), rng.uniform(0.5, 1.0, 30_000)
    values[7], weights[7] = 1e6, 1.0
    moments = class_moments(values, np.zeros(len(values), int), 1, weights, matrix)
    wide, exact = values.astype(np.longdouble), weights.astype(np.longdouble)[:, None]
    mean = (exact * wide).sum(0) / exact.sum()
    scatter = (exact * (wide - mean)).T @ (wide - mean)
    np.testing.assert_allclose(moments.mean[0], mean.astype(float), rtol=1e-12)
    expected = scatter if matrix else np.diagonal(scatter)
    np.testing.assert_allclose(moments.scatter[0], expected.astype(float), rtol=1e-12)


def test_a_number_beyond_ends_without_tails_is_named():
    likelihood = HistogramLikelihood(2, np.array([0.0, 2.0, 5.0]), np.zeros(2))
    with pytest.raises(DataError, match="9 in row 1 lies beyond the ends of its bins, 0 and 5, which have no tails"):
        likelihood.summarize(np.array([[1.0, 2.0], [3.0, 9.0], [4.0, 0.0]]), np.zeros(3, int), 1)


def test_likelihood_far_from_the_origin(rng, codes):
    values = rng.normal(1e8, 1.0, (ROWS, COLUMNS))
    parameters = {"loc": np.full(TABLE, 1e8), "scale": np.ones(TABLE)}
    summary = NORMAL.summarize(values, codes, CLASSES)
    expected = norm(1e8, 1.0).logpdf(values).sum()
    np.testing.assert_allclose(NORMAL.log_likelihood(parameters, summary).sum(), expected, rtol=1e-9)


def test_constant_columns_have_scatter_exactly_zero(rng):
    values = np.full((ROWS, 2), [0.1, 1e150 / 3])
    for matrix in (False, True):
        moments = class_moments(values, rng.integers(0, 3, ROWS), 3, rng.gamma(1.0, 1.0, ROWS), matrix)
        assert (moments.scatter == 0).all()
        np.testing.assert_array_equal(moments.mean, values[:3])


def test_columns_constant_within_a_class_have_scatter_exactly_zero_there(rng):
    codes = rng.integers(0, 3, 2 * CACHE_ROWS + 19)
    values = np.array([[0.1, 0.0], [0.7, 0.0], [1e9 / 3, 0.0]])[codes] + rng.normal(size=(len(codes), 1)) * [
        0,
        1,
    ]
    for matrix in (False, True):
        moments = class_moments(values, codes, 3, rng.gamma(1.0, 1.0, len(codes)), matrix)
        assert (moments.scatter[:, 0] == 0).all()
        assert (moments.scatter.reshape(3, -1)[:, -1] > 0).all()


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_counts_are_the_dense_ones(kind, rng, codes):
    dense = rng.poisson(0.4, (ROWS, LENGTH)).astype(float)
    likelihood = MULTINOMIAL
    weights = rng.gamma(1.0, 1.0, ROWS)
    for given in (None, weights):
        expected = likelihood.summarize(dense, codes, CLASSES, given)
        found = likelihood.summarize(kind(dense), codes, CLASSES, given)
        assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, expected)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12), found, expected)
    parameters = {"log_probs": np.log(simplex(rng, CLASSES))}
    rows = likelihood.density(parameters).log_prob(kind(dense))
    np.testing.assert_allclose(rows, likelihood.density(parameters).log_prob(dense), rtol=1e-12)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters", "rows", "expected"),
    [
        (
            "Bernoulli, probs",
            {"log_one": [-np.inf, 0.0], "log_zero": [0.0, -np.inf]},
            [0, 1],
            [[0, -np.inf], [-np.inf, 0]],
        ),
        ("Geometric, probs", {"log_one": [0.0], "log_zero": [-np.inf]}, [0, 3], [[0], [-np.inf]]),
        ("Poisson", {"rate": [0.0], "log_rate": [-np.inf]}, [0, 1], [[0], [-np.inf]]),
        (
            "Categorical, probs",
            {"log_probs": [[-np.inf, 0.0], [0.0, -np.inf]]},
            [0, 1],
            [[-np.inf, 0], [0, -np.inf]],
        ),
        ("Multinomial, probs", {"log_probs": [[-np.inf, 0.0]]}, [[0, 3], [1, 2]], [[0], [-np.inf]]),
    ],
)
def test_the_impossible_is_exactly_minus_infinity(traced, name, parameters, rows, expected, rng):
    likelihood = likelihood_of(name, rng)[0]
    if name.startswith("Categorical"):
        likelihood = type(likelihood)(2)
    rows, expected = np.asarray(rows, float), np.asarray(expected, float)
    summaries = [likelihood.summarize(rows[i : i + 1], np.zeros(1, int), 1) for i in range(len(rows))]

    def run(arrays, rows, summaries):
        first = {k: v[:1] for k, v in arrays.items()}
        return likelihood.density(arrays).log_prob(rows), [likelihood.log_likelihood(first, one) for one in summaries]

    arrays = {k: np.asarray(v) for k, v in parameters.items()}
    table, log_likelihoods = (jax.jit(run) if traced else run)(arrays, rows, summaries)
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal([np.sum(one) for one in log_likelihoods], expected[:, 0])


def test_zero_times_minus_infinity_is_zero_with_finite_gradients():
    @jax.jit
    def run(values, log_weights):
        gradient = jax.grad(lambda w: safe_product(np.array([3.0, 0.0]), w).sum())(log_weights)
        return log_linear(values, log_weights[None]), gradient

    table, gradient = run(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([-1.0, -np.inf]))
    np.testing.assert_array_equal(table, [[-2.0], [-np.inf]])
    np.testing.assert_array_equal(gradient, [3.0, 0.0])


def test_moments_know_their_form(rng):
    values = rng.normal(size=(ROWS, 3))
    codes = np.zeros(ROWS, int)
    assert class_moments(values, codes, 1, None, True).is_matrix
    assert not class_moments(values, codes, 1).is_matrix
    assert isinstance(class_moments(values, codes, 1), Moments)


@pytest.mark.parametrize(
    "distribution",
    [
        dist.StudentT(3.0, np.zeros(3)),
        dist.HalfCauchy(np.ones(3)),
        dist.TruncatedNormal(np.zeros(3), low=0.0),
    ],
)
def test_what_has_no_statistic_is_not_read(distribution):
    assert read_conditional(distribution, -1) is None


def test_a_subclass_is_not_covered_by_its_parent():
    class Shifted(dist.Normal):
        def log_prob(self, value):
            return super().log_prob(value - 1.0)

    assert read_conditional(Shifted(np.zeros(3), np.ones(3)), -1) is None


@jax.jit
def plain_density(parameters, rows):
    """The traced form of the log density of jointly normal rows."""
    return MULTIVARIATE_NORMAL.density(parameters).log_prob(rows)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("many", [False, True])
def test_classes_far_apart_cost_no_digits(rng, offset, many):
    factor = np.tril(rng.normal(size=(3, 5, 5))) + 2 * np.eye(5)
    loc = rng.normal(size=(3, 5)) + offset * np.array([[0.0], [1.0], [-3.0]])
    rows = rng.normal(size=(17, 5))  # near the first class
    expected = multivariate_normal(loc[0], factor[0] @ factor[0].T).logpdf(rows)
    likelihood, parameters = MULTIVARIATE_NORMAL, {"loc": loc, "scale_tril": factor}
    if many:
        stacked = {name: np.stack([value, value]) for name, value in parameters.items()}
        found = of_many(likelihood, stacked, rows)[0, 1]
    else:
        found = likelihood.density(parameters).log_prob(rows)[:, 0]
        plain = plain_density(parameters, rows)
        np.testing.assert_allclose(plain[:, 0], expected, rtol=1e-11)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("num_classes, num_categories", [(3, 2), (2, 5), (5, 10), (2, 1), (3, 11_000)])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_counted_one_column_at_a_time_or_many(num_classes, num_categories, weighted):
    rng = np.random.default_rng(num_categories)
    rows, codes = rng.integers(0, num_categories, (97, 7)), rng.integers(0, num_classes, 97)
    weights = rng.exponential(size=97) if weighted else None
    expected = np.zeros((num_classes, 7, num_categories))
    np.add.at(expected, (codes[:, None], np.arange(7), rows), 1.0 if weights is None else weights[:, None])
    for given in (rows, np.asfortranarray(rows)):
        found = CategoricalLikelihood(num_categories).summarize(given, codes, num_classes, weights)
        np.testing.assert_allclose(found.totals[0], expected, rtol=1e-12)


@pytest.mark.parametrize("matrix", [False, True])
def test_moments_of_very_many_classes_and_chunks(matrix, monkeypatch):
    monkeypatch.setattr(moments, "CACHED_CELLS", 101)
    monkeypatch.setattr(moments, "LEAST_ROWS", 2)
    monkeypatch.setattr(moments, "CACHE_ROWS", 3)
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 29, 997)
    rows = rng.normal(size=(997, 3)) + 1e3 * codes[:, None]
    found = class_moments(rows, codes, 31, matrix=matrix)
    for k in range(29):
        covariance = np.cov(rows[codes == k].T, bias=True) * (codes == k).sum()
        np.testing.assert_allclose(found.mean[k], rows[codes == k].mean(0), rtol=1e-12)
        np.testing.assert_allclose(found.scatter[k], covariance if matrix else np.diagonal(covariance), rtol=1e-9)
    assert (found.count[29:] == 0).all()
    assert (found.scatter[29:] == 0).all()
