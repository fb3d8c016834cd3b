"""Jointly normal rows of which cells are missing: groups, expected moments and likelihoods, against row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bayesgen.statistics import (
    MultivariateNormalLikelihood,
    PatternMoments,
    SufficientStatistics,
    expected_moments,
    merged,
    patterns,
)
from bayesgen.statistics.conditioning import Ellipsoids, block_factors, solve_lower, solve_transposed

NORMAL = MultivariateNormalLikelihood()
CLASSES, ROWS, COLUMNS = 3, 61, 5
close, compiled = np.testing.assert_allclose, jax.jit(NORMAL.log_likelihood)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(23)


def parameters(rng, scale=1.0, num_columns=COLUMNS):
    """Means and Cholesky factors of correlated classes, in the units of the columns."""
    factor = (
        np.tril(rng.normal(size=(CLASSES, num_columns, num_columns))) * (COLUMNS / max(num_columns, COLUMNS)) ** 0.5
    )
    factor[:, range(num_columns), range(num_columns)] = rng.gamma(4.0, 0.3, (CLASSES, num_columns))
    scale = np.broadcast_to(scale, num_columns)
    return rng.normal(size=(CLASSES, num_columns)) * scale, factor * scale[:, None]


def data(rng, missing=0.4, scale=1.0, num_columns=COLUMNS):
    """Rows with holes, repeated patterns among them, codes of classes 0 and 2, and weights, some of which are 0."""
    rows = rng.normal(size=(ROWS, num_columns)) @ rng.normal(size=(num_columns, num_columns)) * scale
    observed = rng.random((ROWS, num_columns)) > missing
    observed[:9], observed[9] = True, False
    weights = np.where(rng.random(ROWS) < 0.1, 0.0, rng.gamma(2.0, 0.5, ROWS))
    return np.where(observed, rows, np.nan), observed, rng.choice([0, 2], ROWS), weights


def expected_by_row(rows, observed, codes, weights, loc, factor):
    """Sums over rows by the regression of what is missing on what is there, and SciPy's log-likelihood."""
    covariance = factor @ np.swapaxes(factor, -1, -2)
    num_columns = loc.shape[1]
    count, first = np.zeros(CLASSES), np.zeros((CLASSES, num_columns))
    second, logs = np.zeros((CLASSES, num_columns, num_columns)), np.zeros(CLASSES)
    for row, seen, k, weight in zip(rows, observed, codes, weights, strict=True):
        there, gone = np.flatnonzero(seen), np.flatnonzero(~seen)
        within, between = covariance[k][np.ix_(there, there)], covariance[k][np.ix_(gone, there)]
        whole, spread = row - loc[k], np.zeros((num_columns, num_columns))
        whole[gone] = between @ np.linalg.solve(within, whole[there])
        spread[np.ix_(gone, gone)] = covariance[k][np.ix_(gone, gone)] - between @ np.linalg.solve(within, between.T)
        count[k] += weight
        first[k] += weight * whole
        second[k] += weight * (np.outer(whole, whole) + spread)
        if len(there):
            unit = np.sqrt(np.diagonal(within))  # in which SciPy is asked, lest it takes small variances for none
            law = multivariate_normal(loc[k, there] / unit, within / np.outer(unit, unit))
            logs[k] += weight * (law.logpdf(row[there] / unit) - np.log(unit).sum())
    shift = first / np.maximum(count, 1e-300)[:, None]
    scatter = second - count[:, None, None] * shift[:, :, None] * shift[:, None, :]
    return count, np.where(count[:, None] > 0, loc + shift, 0.0), scatter, logs


@pytest.mark.parametrize("missing", [0.0, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("scale", [1.0, (1e-5, 1.0, 1e4, 3.0, 1e-2)])
def test_expected_moments_are_those_of_every_row(missing, scale, rng):
    scale = np.array(scale)
    rows, observed, codes, weights = data(rng, missing, scale)
    loc, factor = parameters(rng, scale)
    summary = PatternMoments.from_rows(rows, codes, CLASSES, weights, observed)
    moments, log_likelihood = expected_moments(summary, loc, factor)
    count, mean, scatter, logs = expected_by_row(rows, observed, codes, weights, loc, factor)
    units = np.broadcast_to(scale, COLUMNS)
    close(moments.count, count, rtol=1e-12)
    close(moments.mean / units, mean / units, rtol=1e-9, atol=1e-10)
    close(moments.scatter / np.outer(units, units), scatter / np.outer(units, units), rtol=1e-8, atol=1e-8)
    close(log_likelihood, logs, rtol=1e-9, atol=1e-8)
    if missing == 0.4:
        close(compiled({"loc": loc, "scale_tril": factor}, summary.padded()), logs, rtol=1e-9, atol=1e-8)


def test_expected_moments_far_from_the_origin(rng):
    """Rows are taken about their means: an offset of a million deviations costs the digits that the rows lose by it."""
    rows, observed, codes, weights = data(rng)
    loc, factor = parameters(rng)
    near, logs = expected_moments(NORMAL.summarize(rows, codes, CLASSES, weights, observed), loc, factor)
    offset = 2.0**20
    summary = NORMAL.summarize(rows + offset, codes, CLASSES, weights, observed)
    far, far_logs = expected_moments(summary, loc + offset, factor)
    close(far.scatter, near.scatter, rtol=1e-7, atol=1e-7)
    close(far_logs, logs, rtol=1e-8)


def test_gradients_are_those_of_expected_complete_rows(rng):
    """Fisher's identity: the slope of the log-likelihood of what is there is the expected slope of that of all."""
    rows, observed, codes, weights = data(rng)
    loc, factor = parameters(rng)
    summary = NORMAL.summarize(rows, codes, CLASSES, weights, observed)
    moments, _ = expected_moments(summary, loc, factor)

    def total(of_data):
        return lambda at: NORMAL.log_likelihood(at, of_data).sum()

    at = {"loc": jnp.asarray(loc), "scale_tril": jnp.asarray(factor)}
    found, expected = jax.jit(jax.grad(total(summary)))(at), jax.jit(jax.grad(total(moments)))(at)
    close(found["loc"], expected["loc"], rtol=1e-8, atol=1e-8)
    close(np.tril(found["scale_tril"]), np.tril(expected["scale_tril"]), rtol=1e-7, atol=1e-7)


def test_curvatures_are_differences_of_slopes(rng):
    rows, observed, codes, weights = data(rng)
    loc, factor = parameters(rng)
    summary = NORMAL.summarize(rows, codes, CLASSES, weights, observed).padded()
    towards = tuple(0.1 * rng.normal(size=array.shape) for array in (loc, np.tril(factor)))

    def total(loc, scale_tril):
        return NORMAL.log_likelihood({"loc": loc, "scale_tril": scale_tril}, summary).sum()

    slope = jax.jit(jax.grad(total, (0, 1)))
    _, found = jax.jit(lambda *at: jax.jvp(jax.grad(total, (0, 1)), at, towards))(loc, factor)
    ends = [
        slope(*(at + step * move for at, move in zip((loc, factor), towards, strict=True))) for step in (1e-5, -1e-5)
    ]
    for curvature, one, other in zip(found, *ends, strict=True):
        close(curvature, (one - other) / 2e-5, rtol=1e-5, atol=1e-4)


def test_padded_groups_weigh_nothing(rng):
    rows, observed, codes, weights = data(rng)
    loc, factor = parameters(rng)
    at = {"loc": loc, "scale_tril": factor}
    found = []
    for stop in (ROWS - 1, ROWS - 3, ROWS - 5):
        part = slice(0, stop)
        summary = NORMAL.summarize(rows[part], codes[part], CLASSES, weights[part], observed[part])
        padded = summary.padded()
        assert padded.num_groups == 32 >= summary.num_groups > 24
        close(compiled(at, padded), expected_moments(summary, loc, factor)[1], rtol=1e-11)
        close(expected_moments(padded, loc, factor)[1], expected_moments(summary, loc, factor)[1], rtol=1e-12)
        found.append(jax.tree.map(np.shape, padded))
    assert found[0] == found[1]
    empty = NORMAL.summarize(rows[:0], codes[:0], CLASSES, None, observed[:0])
    close(compiled(at, empty.padded()), np.zeros(CLASSES))


def scatter_of(summary):
    """The scatter matrix of each group."""
    matrices = np.zeros((summary.num_groups, *summary.mean.shape[1:], summary.mean.shape[-1]))
    np.add.at(matrices, summary.spread_groups, summary.spread[..., :, None] * summary.spread[..., None, :])
    return matrices


def test_groups_have_few_rows_for_their_scatter(rng):
    rows, observed, codes, _ = data(rng)
    summary = PatternMoments.from_rows(rows, codes, CLASSES, None, observed)
    keys, numbers = np.unique(np.concatenate([codes[:, None], observed], 1), axis=0, return_counts=True)
    assert summary.num_groups == len(keys)
    assert len(summary.spread) == np.minimum(numbers - 1, COLUMNS).sum() == len(summary.spread_groups)
    for scatter, mask, k in zip(scatter_of(summary), summary.observed, summary.classes, strict=True):
        members = np.where(mask, rows, 0.0)[(observed == mask).all(1) & (codes == k)]
        close(scatter, np.cov(members.T, ddof=0) * len(members), atol=1e-12)
    sums = np.stack([summary.classes, (~summary.observed).sum(1)])
    assert (np.diff(sums[0] * 100 + sums[1]) >= 0).all()


def test_a_class_without_rows_changes_no_other(rng):
    rows, observed, codes, weights = data(rng)
    loc, factor = parameters(rng)
    summary = NORMAL.summarize(rows, codes // 2, 2, weights, observed).with_empty_class(1)
    expected = NORMAL.summarize(rows, codes, CLASSES, weights, observed)
    assert summary == expected
    found, logs = expected_moments(summary, loc, factor)
    assert logs[1] == found.count[1] == 0 and (found.mean[1] == 0).all()


@pytest.mark.parametrize("num_columns", [1, 7, 70])
def test_any_number_of_columns(num_columns, rng):
    """Patterns of more columns than fit into a machine word are told apart, too."""
    observed = np.ones((30, num_columns), bool)
    observed[10:20, -1] = observed[20:, 0] = False
    rows = rng.normal(size=(30, num_columns))
    codes = np.tile([0, 1], 15)
    summary = PatternMoments.from_rows(rows, codes, 2, None, observed)
    assert summary.num_groups == (4 if num_columns == 1 else 6)
    loc, factor = parameters(rng, num_columns=num_columns)
    expected = expected_by_row(rows, observed, codes, np.ones(30), loc, factor)
    moments, logs = expected_moments(summary, loc[:2], factor[:2])
    close(moments.scatter, expected[2][:2], rtol=1e-6, atol=1e-6)
    close(logs, expected[3][:2], rtol=1e-9)


def test_blocks_are_factorised_and_solved(rng):
    _, factor = parameters(rng, num_columns=11)
    precision = np.linalg.inv(factor[:2] @ np.swapaxes(factor[:2], 1, 2))
    for size in (0, 1, 4, 11):
        columns = np.stack([rng.permutation(11)[:size] for _ in range(6)], 1).astype(np.int64)
        blocks, values = block_factors(precision, columns), rng.normal(size=(2, size, 6))
        assert blocks.shape == (2, size, size, 6)
        solved = solve_transposed(blocks, solve_lower(blocks, values.copy()))
        for k, index in np.ndindex(2, 6):
            block = precision[k][np.ix_(columns[:, index], columns[:, index])]
            close(np.tril(blocks[k, :, :, index]), np.linalg.cholesky(block), atol=1e-12)
            close(block @ solved[k, :, index], values[k, :, index], atol=1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.999999])
def test_nearly_singular_covariances_keep_their_digits(correlation, rng):
    """Distances are sums of squares of whitened rows: nothing is subtracted from anything."""
    covariance = np.full((4, 4), correlation) + (1 - correlation) * np.eye(4)
    factor = np.linalg.cholesky(covariance)
    rows = (rng.normal(size=(50, 4)) @ factor.T) * np.array([1, 1, 1, 1.0])
    observed = rng.random((50, 4)) < 0.6
    observed[0] = False
    found = Ellipsoids.of(np.zeros((1, 4)), factor[None]).distances(np.where(observed, rows, np.nan), observed)
    halves = found.half_log_det[:, 0, 0]
    for row, seen, square, half in zip(rows, observed, found.squares[:, 0, 0], halves, strict=True):
        there = np.flatnonzero(seen)
        if not len(there):
            close([square, half], [0.0, 0.0], atol=1e-7)
            continue
        within = np.linalg.cholesky(covariance[np.ix_(there, there)])
        close(square, (np.linalg.solve(within, row[there]) ** 2).sum(), rtol=1e-7)
        close(half, np.log(np.diagonal(within)).sum(), rtol=1e-7, atol=1e-7)


def test_patterns_of_many_chunks_are_sorted_few_times(rng, monkeypatch):
    """There may be as many patterns as rows: merging chunk after chunk would sort all rows so far each time."""
    num_chunks, size = 150, 4
    rows = rng.normal(size=(num_chunks * size, 11))
    observed, codes = rng.random(rows.shape) < 0.5, rng.integers(0, 2, len(rows))
    observed[:size] = True  # the first chunk is complete
    chunks = [slice(start, start + size) for start in range(0, len(rows), size)]
    parts = [
        SufficientStatistics(
            np.bincount(codes[part], minlength=2) + 0.0,
            {"x": NORMAL.summarize(rows[part], codes[part], 2, observed=None if number == 0 else observed[part])},
        )
        for number, part in enumerate(chunks)
    ]
    assert parts[0].summaries["x"].is_complete
    sorted_rows, plain = [], patterns._groups
    monkeypatch.setattr(
        patterns, "_groups", lambda mask, classes: sorted_rows.append(len(mask)) or plain(mask, classes)
    )
    total = merged(parts)
    assert sum(sorted_rows) < 5 * len(rows)
    at_once = NORMAL.summarize(rows, codes, 2, observed=observed)
    close(total.class_weights, np.bincount(codes))
    for name in ("observed", "classes", "count", "mean"):
        close(getattr(total.summaries["x"], name), getattr(at_once, name), atol=1e-12)
    close(scatter_of(total.summaries["x"]), scatter_of(at_once), atol=1e-12)
