"""One order of the components for all draws of a mixture, whose names mean nothing: by matching responsibilities."""

import numpy as np
import scipy.optimize
import scipy.special

from bayesgen.typing import Float, Int, Shaped

MOST_ROUNDS = 20  # of matching all draws to the mean of the matched ones
FLOOR = 1e-12  # of a mean responsibility, whose log is a cost


def matching_orders(
    log_joint: Float[np.ndarray, "draws n K"], weights: Float[np.ndarray, " n"], pivot: int
) -> Int[np.ndarray, "draws K"]:
    """The order of the components of each draw that makes responsibilities of all draws agree best.

    Draws are matched to the pivot first, then to the mean responsibilities of the matched draws until no draw changes
    its order. Each step, for each draw, is an assignment problem: the components of the draw are given the names for
    which the Kullback-Leibler divergence of its responsibilities from the mean ones, summed over rows, is smallest.

    Args:
        log_joint: log p(x_i, component k | Q_s), up to a constant of each row and draw.
        weights: of the rows.
        pivot: the draw that is matched first.

    Returns:
        orders[s, k]: which component of draw s is the k-th.

    Source: Stephens (2000), Dealing with label switching in mixture models, algorithm 2 of section 4.1; the pivot as in
    Marin, Mengersen and Robert (2005), Bayesian modelling and inference on mixtures of distributions, section 4.3.
    """
    responsibilities = scipy.special.softmax(log_joint, axis=2)
    orders = _orders(responsibilities, weights, responsibilities[pivot])
    for _ in range(MOST_ROUNDS):
        mean = np.take_along_axis(responsibilities, orders[:, None], axis=2).mean(axis=0)
        previous, orders = orders, _orders(responsibilities, weights, mean)
        if np.array_equal(orders, previous):
            break
    return orders


def _orders(
    responsibilities: Float[np.ndarray, "draws n K"], weights: Float[np.ndarray, " n"], target: Float[np.ndarray, "n K"]
) -> Int[np.ndarray, "draws K"]:
    """The orders in which the responsibilities of each draw are nearest to a target."""
    # of names for components; what depends on the component alone, and not on its name, is left out
    gains = np.log(np.maximum(target, FLOOR)).T @ (weights[:, None] * responsibilities)
    return np.stack([_best_assignment(gain) for gain in gains])


def _best_assignment(gain: Float[np.ndarray, "K K"]) -> Int[np.ndarray, " K"]:
    """For each name (row) the component (column), each given once, of the largest sum of gains."""
    _, components = scipy.optimize.linear_sum_assignment(gain, maximize=True)
    return components


def in_order(
    values: Shaped[np.ndarray, "chains draws ..."], orders: Int[np.ndarray, "chains draws K"], axis: int
) -> Shaped[np.ndarray, "chains draws ..."]:
    """The values of each draw, the entries along the axis of the components in the order of the draw.

    Args:
        values: of the draws.
        orders: of the components.
        axis: of the components, among those of one draw.
    """
    places = np.expand_dims(orders, tuple(place for place in range(2, values.ndim) if place != axis + 2))
    return np.take_along_axis(values, places, axis=axis + 2)
