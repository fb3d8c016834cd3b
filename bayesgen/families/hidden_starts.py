"""Where EM begins for hidden chains: at states that are groups of steps, by k-means of these or of means of several."""

import numpy as np
from sklearn.cluster import KMeans

from bayesgen.statistics import KeptRows, Statistic
from bayesgen.typing import Float, Int

from .hidden_counts import HiddenCounts, Steps

MOST_STEPS = 20_000  # that states are grouped by; others are told by the nearest centre
RADII = (0, 0, 1, 2, 4, 8)  # of the windows that steps are averaged over
SHARE = 0.9  # of a step in the state of its group; the rest is spread over all, so that nothing is impossible


def grouped(
    statistic: Statistic, rows: KeptRows, num_states: int, has_holes: bool, rng: np.random.Generator | None
) -> HiddenCounts:
    """Counts of rows of one class if the groups that its steps fall into were the states.

    Groups are those of k-means; for all but the first beginning, of averages over windows of random widths, or, where
    there are not as many different steps as states, at random. States are in the order of the means of the first
    column.

    Args:
        statistic: that of the emissions.
        rows: of one class.
        num_states: S.
        has_holes: whether steps are seen in part.
        rng: random numbers; None for the beginning that needs no luck.
    """
    steps = Steps.of_rows(rows)
    states = np.zeros((*steps.is_seen.shape, num_states))
    if len(steps.cells):
        luck = np.random.default_rng(0) if rng is None else rng
        radius = 0 if rng is None else int(luck.choice(RADII))
        groups = _groups(_features(steps, radius), num_states, luck)
        groups = _in_order(groups, np.asarray(steps.cells[:, 0], np.float64), num_states)
        states[steps.is_seen] = SHARE * np.eye(num_states)[groups] + (1 - SHARE) / num_states
    weighted = states * steps.weights[:, None, None]
    transition = np.einsum("mti,mtj->ij", weighted[:, :-1], states[:, 1:])
    return HiddenCounts(weighted[:, :1].sum((0, 1)), transition, steps.by_state(statistic, weighted, has_holes))


def _features(steps: Steps, radius: int) -> Float[np.ndarray, "seen F"]:
    """Numbers in units of their deviations, or indicators of symbols, averaged over the steps about each."""
    cells = steps.cells
    if np.issubdtype(cells.dtype, np.integer):
        features = (cells[:, :1] == np.arange(cells.max() + 1)).astype(np.float64)
    else:
        numbers = cells if steps.observed is None else np.where(steps.observed, cells, np.nan)
        residuals = numbers - _mean(numbers)
        deviation = np.sqrt(_mean(residuals**2))
        features = np.nan_to_num(residuals / np.where(deviation > 0, deviation, 1.0))
    if not radius:
        return features
    table = np.zeros((*steps.is_seen.shape, features.shape[1]))
    table[steps.is_seen] = features
    sums = np.pad(table.cumsum(1), [(0, 0), (1, 0), (0, 0)])
    counts = np.pad(steps.is_seen.cumsum(1), [(0, 0), (1, 0)])
    places = np.arange(table.shape[1])
    first, last = np.maximum(places - radius, 0), np.minimum(places + radius + 1, table.shape[1])
    means = (sums[:, last] - sums[:, first]) / np.maximum(counts[:, last] - counts[:, first], 1)[..., None]
    return means[steps.is_seen]


def _mean(numbers: Float[np.ndarray, "seen D"]) -> Float[np.ndarray, " D"]:
    """Means of the columns, of the cells that are there; 0 of none."""
    known = ~np.isnan(numbers)
    return np.where(known, numbers, 0.0).sum(0) / np.maximum(known.sum(0), 1)


def _groups(
    features: Float[np.ndarray, "seen F"], num_states: int, rng: np.random.Generator
) -> Int[np.ndarray, " seen"]:
    """The group of each step."""
    size = len(features)
    some = features if size <= MOST_STEPS else features[rng.choice(size, MOST_STEPS, replace=False)]
    if len(np.unique(some, axis=0)) < num_states:
        return rng.integers(0, num_states, size)
    means = KMeans(num_states, n_init=1, random_state=int(rng.integers(2**31))).fit(some)
    return np.asarray(means.predict(features), np.int64)


def _in_order(
    groups: Int[np.ndarray, " seen"], column: Float[np.ndarray, " seen"], num_states: int
) -> Int[np.ndarray, " seen"]:
    """The groups, numbered in the order of their means of a column."""
    count = np.maximum(np.bincount(groups, minlength=num_states), 1)
    means = np.bincount(groups, column, num_states) / count
    return np.argsort(np.argsort(means, kind="stable"), kind="stable")[groups]
