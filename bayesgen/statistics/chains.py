"""How well Markov chains have mixed: R-hat, effective sample sizes and errors of many quantities, by ArviZ."""

import numpy as np
import scipy.special
from arviz_stats.base import array_stats

from bayesgen.typing import Float

AXES = {"chain_axis": 1, "draw_axis": 2}
# chains that do not move have no variance within, which is told elsewhere
_quietly = np.errstate(divide="ignore", invalid="ignore", over="ignore")


@_quietly
def rhats_and_sizes(
    draws: Float[np.ndarray, "entries chains draws"],
) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
    """Rank-normalised split R-hat and bulk effective sample size of each entry; no R-hat, NaN, of one chain.

    Source: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and localization: an
    improved R-hat for assessing convergence of MCMC, section 4.
    """
    half, (rhats, sizes) = draws.shape[2] // 2, np.empty((2, len(draws)))
    for index, chains in enumerate(draws):
        halves = np.delete(chains, slice(half, draws.shape[2] - half), axis=1)  # of all chains, beside each other
        scores, tail_scores = _normal_scores(halves), _normal_scores(np.abs(halves - np.median(halves)))
        rhats[index] = np.fmax(*split_rhats(np.stack([scores, tail_scores])))
        sizes[index] = array_stats.ess(scores, method="mean")
    return np.where(draws.shape[1] > 1, rhats, np.nan), sizes


def _normal_scores(values: Float[np.ndarray, "chains draws"]) -> Float[np.ndarray, "chains draws"]:
    """Normal quantiles at the ranks of all values; of equal values, at their mean rank."""
    order, scores = np.argsort(values, axis=None), np.empty(values.size)
    first = np.flatnonzero(np.diff(values.ravel()[order], prepend=-np.inf))  # of equal values
    counts = np.diff(first, append=values.size)
    # the mean rank is first + (counts + 1) / 2, and quantiles are those of Blom (1958): (rank - 3/8) / (size + 1/4)
    scores[order] = np.repeat(scipy.special.ndtri((first + counts / 2 + 1 / 8) / (values.size + 1 / 4)), counts)
    return scores.reshape(values.shape)


@_quietly
def bulk_sizes(draws: Float[np.ndarray, "entries chains draws"]) -> Float[np.ndarray, " entries"]:
    """Bulk effective sample size of each entry."""
    return array_stats.ess(draws, method="bulk", **AXES)


@_quietly
def errors_and_tail_sizes(
    draws: Float[np.ndarray, "entries chains draws"],
) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
    """Monte Carlo standard error of the mean of each entry, and its tail effective sample size.

    The tail size is the least of those of the indicators of the lowest and the highest 5 % of the draws.
    """
    tail_sizes = array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **AXES)
    reach = np.ptp(draws, axis=(1, 2))
    units = np.where(reach > 0, reach, 1.0)  # ArviZ takes draws within 1e-15 for constant
    return units * array_stats.mcse(draws / units[:, None, None], method="mean", **AXES), tail_sizes


@_quietly
def split_rhats(draws: Float[np.ndarray, "entries chains draws"]) -> Float[np.ndarray, " entries"]:
    """Split R-hat of each entry, without ranks; NaN where draws do not vary. All entries at once, for solvers."""
    half = draws.shape[2] // 2
    halves = np.concatenate([draws[:, :, :half], draws[:, :, draws.shape[2] - half :]], axis=1)
    between, within = halves.mean(2).var(1, ddof=1), halves.var(2, ddof=1).mean(1)
    return np.sqrt(between / within + (half - 1) / half)
