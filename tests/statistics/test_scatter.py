"""Scatter is a sum of squares: never negative, and right to the last digits where nearly all of it has no weight."""

from fractions import Fraction

import numpy as np
import pytest

import bayesgen as bg
from bayesgen.statistics.moments import class_moments


def exact_scatter(values, weights):
    """The matrix of a class by rational arithmetic."""
    values, weights = [[Fraction(x) for x in row] for row in values.tolist()], [Fraction(w) for w in weights.tolist()]
    mean = [
        sum(w * x for w, x in zip(weights, column, strict=True)) / sum(weights) for column in zip(*values, strict=True)
    ]
    centred = [[x - m for x, m in zip(row, mean, strict=True)] for row in values]
    size = range(len(mean))
    return np.array(
        [[float(sum(w * row[i] * row[j] for w, row in zip(weights, centred, strict=True))) for j in size] for i in size]
    )


def light_rows(rng, size, light, exponent):
    """Rows that are all alike but for a few of hardly any weight, and these come first."""
    values = np.tile(rng.normal(size=(1, 3)), (size, 1))
    values[:light] += rng.normal(size=(light, 3)) * 10.0 ** rng.integers(0, 6)
    weights = np.ones(size)
    weights[:light] = 10.0 ** -(exponent * rng.uniform(0.9, 1.0, light))
    return values, weights


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("exponent", [300, 100, 30, 17])
def test_rows_without_weight_make_no_negative_scatter(matrix, exponent):
    rng = np.random.default_rng(exponent)
    for size in range(5, 41):
        values, weights = light_rows(rng, size, 1 + size % 3, exponent)
        found = class_moments(values, np.zeros(size, int), 1, weights, matrix).scatter[0]
        expected = exact_scatter(values, weights)
        assert (np.diagonal(expected) > 0).all()
        np.testing.assert_allclose(np.diagonal(found) if matrix else found, np.diagonal(expected), rtol=1e-12)
        if matrix:
            spread = np.outer(np.sqrt(np.diagonal(expected)), np.sqrt(np.diagonal(expected)))
            np.testing.assert_allclose(found / spread, expected / spread, atol=1e-12)


def test_classes_have_heaviest_rows_of_their_own():
    rng = np.random.default_rng(3)
    parts = [light_rows(rng, size, 2, exponent) for size, exponent in ((7, 200), (5, 40), (11, 90))]
    codes = np.repeat([2, 0, 3], [7, 5, 11])  # and class 1 is empty, class 4 without weight
    values, weights = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    weights[codes == 0] *= 1e-50
    order = rng.permutation(len(codes) + 1)
    values, weights, codes = (
        np.append(array, extra, 0)[order] for array, extra in ((values, [[9.0] * 3]), (weights, [0.0]), (codes, [4]))
    )
    found = class_moments(values, codes, 5, weights)
    for k in (0, 2, 3):
        expected = np.diagonal(exact_scatter(values[codes == k], weights[codes == k]))
        np.testing.assert_allclose(found.scatter[k], expected, rtol=1e-12)
    assert (found.scatter[[1, 4]] == 0).all()
    assert (found.mean[[1, 4]] == 0).all()


@pytest.mark.parametrize("matrix", [False, True])
def test_cells_in_single_precision_are_summed_in_double(matrix):
    rng = np.random.default_rng(3)
    values, codes = rng.normal(300.0, 1.0, (1009, 3)).astype(np.float32), rng.integers(0, 2, 1009)
    for observed in (None, rng.random(values.shape) < 0.9):
        single, double = (
            class_moments(cells, codes, 2, None, matrix, observed) for cells in (values, values.astype(float))
        )
        np.testing.assert_allclose(single.mean, double.mean, rtol=1e-15)
        np.testing.assert_allclose(single.scatter, double.scatter, rtol=1e-12, atol=1e-10)


def test_columns_whose_cross_products_do_not_fit_memory_are_refused():
    values = np.broadcast_to(0.0, (2, 10_000_000))
    with pytest.raises(bg.DataError, match=r"10,000,000 columns .* GB.*covariance='diag'"):
        class_moments(values, np.arange(2), 2, matrix=True)


def test_maximum_likelihood_of_a_nearly_constant_class():
    """The variance is that of the light row, (1 - w / W) w d^2 / W, and no rounding of the others."""
    values = np.concatenate([[[1e5]], np.full((6, 1), 0.3), [[-1.0], [0.5], [2.0]]])
    y, weight = np.repeat(["a", "b"], [7, 3]), 1e-30
    weights = np.append(weight, np.ones(9))
    fit = bg.fit(bg.NaiveBayes(), values, y, method=bg.MLE(), sample_weight=weights)
    expected = float(Fraction(weight) * (Fraction(1e5) - Fraction(0.3)) ** 2 / 6)
    assert fit.parameters["real_variance"][0, 0] == pytest.approx(expected, rel=1e-12)
