"""Jointly normal columns of which cells are missing: EM by the family's two steps, against direct maximisation."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import invwishart, multivariate_normal

from bayesgen.errors import FitError
from bayesgen.families import DirichletCategorical, Names, NormalInverseWishart, Scale
from bayesgen.program import Block, Conjugate
from bayesgen.statistics import Moments, SufficientStatistics, expected_moments

CLASSES, COLUMNS, ROWS = 2, 3, 45
NAMES = Names("real", ["a", "b"], ["x", "y", "z"])
close = np.testing.assert_allclose


def data(seed=5, classes=CLASSES, rows=ROWS):
    """Correlated rows with an offset, a quarter of whose cells are missing; codes, and weights."""
    rng = np.random.default_rng(seed)
    codes = np.arange(rows) % classes
    factors = np.tril(rng.normal(size=(classes, COLUMNS, COLUMNS)), -1) + np.eye(COLUMNS)
    X = np.einsum("nij,nj->ni", factors[codes], rng.normal(size=(rows, COLUMNS))) + 3.0 * codes[:, None] + 100.0
    observed = rng.random(X.shape) < 0.75
    return np.where(observed, X, np.nan), observed, codes, rng.integers(1, 3, rows) + 0.0


def family_of(tied):
    rng = np.random.default_rng(1)
    half = rng.normal(size=(COLUMNS, COLUMNS))
    prior = NormalInverseWishart(mean=rng.normal(101, 1, COLUMNS), kappa=0.7, df=6.5, scale=half @ half.T, tied=tied)
    return prior.resolve(Scale(CLASSES, COLUMNS))


def summarized(tied=False):
    family, (rows, observed, codes, weights) = family_of(tied), data()
    return family, family.likelihood.summarize(rows, codes, CLASSES, weights, observed)


def patterns(rows, observed, codes, weights):
    """Class, columns that are there, rows and weights, for every class and pattern."""
    for pattern in np.unique(observed, axis=0):
        for k in range(CLASSES):
            members, there = (observed == pattern).all(1) & (codes == k), np.flatnonzero(pattern)
            if members.any() and len(there):
                yield k, there, rows[np.ix_(members, there)], weights[members]


def log_likelihood(groups, mean, covariance):
    """Log densities of what is there, by Cholesky factors of its covariances."""
    total = 0.0
    for k, there, rows, weights in groups:
        factor = np.linalg.cholesky(covariance[k][np.ix_(there, there)])
        whitened = np.linalg.solve(factor, (rows - mean[k, there]).T)
        constant = np.log(np.diagonal(factor)).sum() + 0.5 * len(there) * np.log(2 * np.pi)
        total -= weights @ (constant + 0.5 * (whitened**2).sum(0))
    return total


def log_prior(family, mean, covariance, tied):
    """SciPy's, over means and covariances."""
    shared = covariance[:1] if tied else covariance
    total = sum(invwishart.logpdf(matrix, float(family.df[0]), family.scale[0]) for matrix in shared)
    widths = covariance / family.kappa[:, None, None]
    return total + sum(map(multivariate_normal.logpdf, mean, family.location, widths))


def maximum(family, tied, with_prior):
    """The highest value by SciPy's BFGS on differences, over means and factors with logs of diagonals."""
    groups = list(patterns(*data()))
    number, lower = 1 if tied else CLASSES, np.tril_indices(COLUMNS)

    def unpack(vector):
        mean = 100.0 + vector[: CLASSES * COLUMNS].reshape(CLASSES, COLUMNS)
        factor = np.zeros((number, COLUMNS, COLUMNS))
        factor[:, lower[0], lower[1]] = vector[CLASSES * COLUMNS :].reshape(number, -1)
        diagonal = np.arange(COLUMNS)
        factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
        covariance = factor @ np.swapaxes(factor, -1, -2)
        return mean, np.broadcast_to(covariance, (CLASSES, COLUMNS, COLUMNS))

    def loss(vector):
        mean, covariance = unpack(vector)
        value = log_likelihood(groups, mean, covariance)
        return -value - (log_prior(family, mean, covariance, tied) if with_prior else 0.0)

    start = np.zeros(CLASSES * COLUMNS + number * len(lower[0]))
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-4})
    return -found.fun, *unpack(found.x)


def steps(family, summary, maximize, number):
    """EM from the cells that are there: after every step, the parameters and the log-likelihood of those before it."""
    parameters = maximize(family.initial_summary(summary))
    for _ in range(number):
        mean = parameters["mean"]
        factor = np.broadcast_to(np.linalg.cholesky(parameters["covariance"]), (*mean.shape, COLUMNS))
        yield parameters, expected_moments(summary, mean, factor)[1].sum()
        parameters = maximize(family.e_step(summary, parameters)[1])


@pytest.mark.parametrize(
    ("tied", "with_prior"),
    [
        (True, True),
        pytest.param(False, False, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
)
def test_em_never_falls_and_ends_at_the_maximum(tied, with_prior):
    family, summary = summarized(tied)

    def maximize(moments):
        return family.update(moments).mode() if with_prior else family.maximum_likelihood(moments, NAMES)

    objectives = []
    for parameters, value in steps(family, summary, maximize, 150):
        covariance = np.broadcast_to(parameters["covariance"], (CLASSES, COLUMNS, COLUMNS))
        if with_prior:
            value += log_prior(family, parameters["mean"], covariance, tied)
        objectives.append(value)
    close(np.minimum(np.diff(objectives), 0.0), 0.0, atol=1e-9)
    assert objectives[-1] - objectives[-2] < 1e-10 * ROWS
    best, mean, expected = maximum(family, tied, with_prior)
    close(objectives[-1], best, rtol=0, atol=1e-5)
    close(parameters["mean"], mean, rtol=0, atol=2e-3)
    close(covariance, expected, rtol=5e-3, atol=2e-3)


def test_em_begins_with_the_cells_that_are_there():
    family, summary = summarized()
    rows, observed, codes, weights = data()
    start = family.initial_summary(summary)
    assert isinstance(start, Moments)
    for k, column in np.ndindex(CLASSES, COLUMNS):
        there = observed[:, column] & (codes == k)
        cells, of_cells = rows[there, column], weights[there]
        close(start.mean[k, column], np.average(cells, weights=of_cells), rtol=1e-12)
        variance = np.average((cells - start.mean[k, column]) ** 2, weights=of_cells)
        close(start.scatter[k, column, column], variance * weights[codes == k].sum(), rtol=1e-10)
    nothing = observed.copy()
    nothing[codes == 1, 2] = False
    start = family.initial_summary(family.likelihood.summarize(rows, codes, CLASSES, weights, nothing))
    close(start.mean[1, 2], family.location[1, 2])
    close(start.scatter[1, 2, 2] / start.count[1], family.mode()["covariance"][1, 2, 2])


def test_whole_rows_are_as_they_are():
    family, (rows, _, codes, weights) = family_of(False), data()
    summary = family.likelihood.summarize(np.nan_to_num(rows), codes, CLASSES, weights)
    labels = DirichletCategorical(np.full(CLASSES, 2.0)).resolve(Scale(num_categories=CLASSES))
    prior = Conjugate(labels, (Block("real", family, ("x", "y", "z")),), tuple(range(CLASSES)))
    statistics = SufficientStatistics(np.asarray(summary.count), {"real": summary})
    assert summary.is_complete and prior.incomplete(statistics) == []
    for same in (prior.initial_statistics(statistics), prior.e_step(statistics, prior.mode())):
        assert same.summaries["real"] is summary
    prior.check_estimable(statistics)


@pytest.mark.parametrize("tied", [False, True])
def test_what_no_cell_tells_is_refused_by_name(tied):
    family, (rows, observed, codes, _) = family_of(tied), data()

    def check(seen):
        family.check_estimable(family.likelihood.summarize(rows, codes, CLASSES, None, seen), NAMES)

    check(observed)
    without = observed.copy()
    without[codes == 1, 2] = False
    with pytest.raises(FitError, match=r"Block 'real': no cell is observed at class 'b', column 'z'.*Use MAP\(\)"):
        check(without)
    apart = observed.copy()
    apart[apart[:, 0], 2] = False
    who = "all classes together" if tied else "class 'a'"
    with pytest.raises(FitError, match=f"no row of {who} has both column 'x' and column 'z'"):
        check(apart)
