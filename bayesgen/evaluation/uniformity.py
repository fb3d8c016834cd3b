"""Tests that numbers are uniform over the unit interval: the band of their distribution function, and normal scores."""

import functools

import numpy as np
from scipy import optimize, special, stats

from bayesgen.typing import Bool, Float

LEAST_TAIL = 1e-9  # probability of a tail, below which the union bound is as good as the recursion
MOST_POINTS = 100  # at which distribution functions are compared


def grid(num_values: int) -> Float[np.ndarray, " points"]:
    """The points inside the unit interval at which empirical distribution functions are compared."""
    num_steps = min(num_values, MOST_POINTS)
    return np.arange(1, num_steps) / num_steps


def counts_below(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " points"]:
    """How many of the values are at most each point of the grid."""
    return np.searchsorted(np.sort(values), grid(len(values)), side="right")


@functools.lru_cache(maxsize=8)
def _tails(num_values: int) -> Float[np.ndarray, "points counts"]:
    """Two-sided tail probability of each count 0..N at each point, 2 min(P(R <= r), P(R >= r)), R ~ Binomial(N, z)."""
    counts, points = np.arange(num_values + 1), grid(num_values)[:, None]
    below, above = stats.binom.cdf(counts, num_values, points), stats.binom.sf(counts - 1, num_values, points)
    return 2 * np.minimum(below, above)


def coverage(tail: float, num_values: int) -> float:
    """Probability that at every point the count of uniform values has a two-sided tail probability above `tail`.

    Counts R_i at successive points z_i are a Markov chain: given R_i, R_{i+1} - R_i is binomial, of N - R_i values and
    the probability (z_{i+1} - z_i) / (1 - z_i). The chain is run forward through the counts that are allowed::

        P_{i+1}(s) = sum over allowed r of P_i(r) Binomial(s - r | N - r, (z_{i+1} - z_i) / (1 - z_i))

    Source: Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its applications in
    goodness-of-fit evaluation and multiple sample comparison, section 2.
    """
    log_factorials = special.gammaln(np.arange(num_values + 1) + 1.0)
    counts, probabilities, before = np.zeros(1, int), np.ones(1), 0.0
    for point, tails in zip(grid(num_values), _tails(num_values), strict=True):
        allowed, share = np.flatnonzero(tails > tail), (point - before) / (1 - before)
        left, added = num_values - counts[:, None], allowed - counts[:, None]
        is_possible = added >= 0
        added = np.where(is_possible, added, 0)
        log_steps = log_factorials[left] - log_factorials[added] - log_factorials[left - added]
        log_steps += added * np.log(share) + (left - added) * np.log1p(-share)
        probabilities = probabilities @ np.where(is_possible, np.exp(log_steps), 0.0)
        counts, before = allowed, point
    return float(probabilities.sum())


def band(num_values: int, level: float) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """The lowest and highest share of values at most each point, which hold simultaneously with this probability."""
    log_tail = optimize.bisect(
        lambda middle: coverage(np.exp(middle), num_values) - level, np.log(LEAST_TAIL), 0.0, xtol=1e-5
    )
    is_inside = _tails(num_values) > np.exp(log_tail - 1e-5)
    highest = num_values - np.argmax(is_inside[:, ::-1], axis=1)
    return np.argmax(is_inside, axis=1) / num_values, highest / num_values


def ecdf_test(values: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """The smallest two-sided tail probability of a count over the grid, and its p-value: see `coverage`."""
    tails = _tails(len(values))
    smallest = float(tails[np.arange(len(tails)), counts_below(values)].min())
    if smallest < LEAST_TAIL:
        return smallest, len(tails) * smallest
    return smallest, float(np.clip(1 - coverage(smallest, len(values)), 0.0, 1.0))


def normal_scores_test(values: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """The sum of squared normal quantiles of the values, chi-square with N degrees of freedom, and its p-value.

    Source: Cook, Gelman and Rubin (2006), Validation of software for Bayesian models using posterior quantiles,
    section 2.2; the p-value here is two-sided, as posteriors may be too wide, too.
    """
    statistic = float((special.ndtri(values) ** 2).sum())
    below, above = stats.chi2.cdf(statistic, len(values)), stats.chi2.sf(statistic, len(values))
    return statistic, float(min(1.0, 2 * min(below, above)))


def rejected_by_holm(p_values: Float[np.ndarray, " tests"], level: float) -> Bool[np.ndarray, " tests"]:
    """Which hypotheses are rejected, with at most this probability of any false rejection."""
    order = np.argsort(p_values, kind="stable")
    passes = p_values[order] > level / np.arange(len(order), 0, -1)
    rejected = np.zeros(len(order), bool)
    rejected[order[: np.argmax(passes) if passes.any() else len(order)]] = True
    return rejected
