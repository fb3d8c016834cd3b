"""Draws of a mixture in one order: against every order there is, and against what was undone."""

import itertools

import numpy as np
import pytest
import scipy.special

from bayesgen.posteriors import label_invariants, matching_orders, random_pairs, reordered

DRAWS, ROWS, COMPONENTS = 23, 17, 3


@pytest.fixture(scope="module")
def named():
    """Log-joints of draws whose components have one order: rows belong mostly to one component, in all draws."""
    rng = np.random.default_rng(1)
    base = rng.normal(0, 3, (ROWS, COMPONENTS))
    return base + rng.normal(0, 0.5, (DRAWS, ROWS, COMPONENTS))


@pytest.fixture(scope="module")
def shuffles():
    rng = np.random.default_rng(2)
    return np.stack([rng.permutation(COMPONENTS) for _ in range(DRAWS)])


def shuffled(table, orders):
    return np.take_along_axis(table, orders[:, None], axis=2)


def test_orders_undo_any_shuffle_of_the_draws(named, shuffles):
    weights = np.random.default_rng(3).uniform(0.5, 2.0, ROWS)
    for pivot in (0, 11):
        orders = matching_orders(shuffled(named, shuffles), weights, pivot)
        restored = shuffled(shuffled(named, shuffles), orders)
        expected = named[..., shuffles[pivot]]  # all in the order that the pivot has
        np.testing.assert_array_equal(restored, expected)


def test_each_draw_has_the_best_of_all_orders(named, shuffles):
    """Among all K! orders, by the divergence from the mean of the ordered responsibilities."""
    noisy = named + np.random.default_rng(4).normal(0, 3, named.shape)  # overlapping: not every order is plain
    weights = np.random.default_rng(5).integers(1, 4, ROWS).astype(float)
    orders = matching_orders(shuffled(noisy, shuffles), weights, 5)
    responsibilities = scipy.special.softmax(shuffled(noisy, shuffles), axis=2)
    mean = shuffled(responsibilities, orders).mean(axis=0)
    for draw, chosen in zip(responsibilities, orders, strict=True):
        divergences = {
            order: weights @ scipy.special.rel_entr(draw[:, order], mean).sum(axis=1)
            for order in itertools.permutations(range(COMPONENTS))
        }
        assert divergences[tuple(chosen)] == pytest.approx(min(divergences.values()), rel=1e-12)


def test_values_follow_their_components():
    orders = np.asarray([[[1, 0, 2], [2, 1, 0]]])
    values = np.arange(2 * 3 * 5).reshape(1, 2, 3, 5)
    np.testing.assert_array_equal(reordered(values, orders, 0)[0, 0], values[0, 0][[1, 0, 2]])
    np.testing.assert_array_equal(reordered(values, orders, 0)[0, 1], values[0, 1][[2, 1, 0]])
    square = np.arange(2 * 3 * 3).reshape(1, 2, 3, 3)  # the axis is said, not guessed
    np.testing.assert_array_equal(reordered(square, orders, 1)[0, 1], square[0, 1][:, [2, 1, 0]])
    np.testing.assert_array_equal(reordered(np.asarray([[[7, 8, 9], [4, 5, 6]]]), orders, 0), [[[8, 7, 9], [6, 5, 4]]])


def test_invariants_do_not_depend_on_names_and_parameters_do(named, shuffles):
    weights = np.random.default_rng(6).uniform(0.5, 2.0, ROWS)
    pairs = random_pairs(ROWS, np.random.default_rng(7))
    assert (pairs[:, 0] != pairs[:, 1]).all() and len(pairs) > 3
    ours, theirs = (label_invariants(table, weights, pairs, 1) for table in (named, shuffled(named, shuffles)))
    for name, value in ours.items():
        assert value.shape[:2] == (1, DRAWS)
        np.testing.assert_allclose(theirs[name], value, rtol=1e-12, err_msg=name)
    joint = np.exp(named[4])
    shares = joint / joint.sum(axis=1, keepdims=True)
    i, j = pairs[2]
    assert ours["rows in one component"][0, 4, 2] == pytest.approx((shares[i] * shares[j]).sum())
    assert ours["log density of rows"][0, 4] == pytest.approx(weights @ np.log(joint.sum(axis=1)))
    sizes = weights @ shares
    np.testing.assert_allclose(ours["shares of components"][0, 4], np.sort(sizes)[::-1] / sizes.sum(), rtol=1e-12)


def test_one_row_has_no_pairs(named):
    pairs = random_pairs(1, np.random.default_rng(0))
    assert pairs.shape == (0, 2)
    assert label_invariants(named[:22, :1], np.ones(1), pairs, 2)["rows in one component"].shape == (2, 11, 0)
