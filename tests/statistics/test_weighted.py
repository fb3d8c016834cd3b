"""Moments of rows that belong to every class in part, in one pass, against the plain formulas and exact arithmetic."""

import numpy as np
import pytest

from bayesgen.statistics import moments
from bayesgen.statistics.moments import class_moments, two_pass_moments

every_form = pytest.mark.parametrize("matrix", [False, True], ids=["squares", "products"])


def shares_of(rng, num_rows, num_classes=3):
    return rng.dirichlet(np.full(num_classes, 0.3), num_rows)


def close(found, expected, rtol):
    np.testing.assert_allclose(found.count, expected.count, rtol=rtol)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=rtol, atol=rtol)
    scale = np.abs(expected.scatter).max((-1, -2) if found.is_matrix else -1, keepdims=True)
    np.testing.assert_allclose(found.scatter / scale, expected.scatter / scale, atol=rtol)
    assert found.log_base.shape == expected.log_base.shape


@every_form
@pytest.mark.parametrize("weighing", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_chunks_add_up_to_the_plain_formulas(monkeypatch, matrix, weighing, offset):
    monkeypatch.setattr(moments, "CACHED_CELLS", 5 * 17)
    rng = np.random.default_rng(1)
    values = offset + rng.normal(size=(89, 5)) @ rng.normal(size=(5, 5))
    shares, weights = shares_of(rng, 89), rng.gamma(1.0, 1.0, 89) if weighing else None
    found = class_moments(values, shares, 3, weights, matrix)
    close(found, two_pass_moments(values, shares, 3, weights, matrix), 1e-9 if offset else 1e-12)
    in_single = class_moments(values.astype(np.float32), shares, 3, weights, matrix)
    close(in_single, two_pass_moments(values.astype(np.float32).astype(float), shares, 3, weights, matrix), 1e-9)


@every_form
def test_classes_far_apart_keep_their_digits(matrix):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 211)
    values = 1e6 * np.array([0.0, 1.0, -3.0])[codes, None] + rng.normal(size=(211, 2))
    shares = (codes[:, None] == np.arange(3)) * 1.0
    close(class_moments(values, shares, 3, None, matrix), class_moments(values, codes, 3, None, matrix), 1e-9)


@every_form
def test_what_is_constant_has_no_scatter(matrix):
    """Also in a class alone, the rest of whose rows have no weight: by such a zero, singular classes are told."""
    rng = np.random.default_rng(3)
    values = np.stack([np.full(40, 0.1), rng.normal(size=40), rng.normal(size=40)], 1)
    values[5:12, 1] = 1 / 3
    shares = shares_of(rng, 40, 2)
    shares[:, 1] = (np.arange(40) >= 5) & (np.arange(40) < 12)
    shares[:, 0] = 1 - shares[:, 1]
    found = class_moments(values, shares, 2, None, matrix)
    squares = np.diagonal(found.scatter, axis1=1, axis2=2) if matrix else found.scatter
    assert (squares[:, 0] == 0).all() and squares[1, 1] == 0 and squares[0, 1] > 1 and (squares[:, 2] > 1).all()


@every_form
def test_no_rows_and_classes_without_weight(matrix):
    empty = class_moments(np.empty((0, 2)), np.empty((0, 3)), 3, None, matrix)
    assert not empty.count.any() and not empty.mean.any() and not empty.scatter.any()
    shares = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = class_moments(np.array([[1.0, 2.0], [2.0, 5.0], [4.0, 1.0]]), shares, 2, None, matrix)
    assert found.count.tolist() == [3, 0] and not found.mean[1].any() and not found.scatter[1].any()
