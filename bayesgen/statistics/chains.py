"""How well Markov chains have mixed: R-hat, effective sample sizes and errors of many quantities, by ArviZ."""

import numpy as np
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
    return array_stats.rhat(draws, **AXES), bulk_sizes(draws)


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
