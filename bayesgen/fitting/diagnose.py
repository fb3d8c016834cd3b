"""Convergence of chains: R-hat, effective sample size, divergences, and a warning that says what to do."""

import numpy as np
from arviz_stats.base import array_stats

from ..errors import ConvergenceWarning, warn

MAX_RHAT = 1.01
MIN_ESS_PER_CHAIN = 100
FEWEST_DRAWS = 4  # of a chain, for which the figures are defined


def worst(values):
    """(largest R-hat, smallest bulk ESS) over all entries of draws (chain, draw, ...); NaN where undefined.

    Entries that do not vary (a corner of a Cholesky factor) are left out, and those that are there twice (the halves
    of a covariance) are looked at once.
    """
    rhats, sizes = [np.nan], [np.nan]
    for value in values.values():
        flat = np.asarray(value).reshape(*value.shape[:2], -1)
        moving = _distinct(flat[:, :, np.ptp(flat, axis=(0, 1)) > 0])
        if moving.shape[2]:
            if flat.shape[0] > 1:
                rhats.append(np.nanmax(array_stats.rhat(moving, chain_axis=0, draw_axis=1)))
            sizes.append(np.nanmin(array_stats.ess(moving, chain_axis=0, draw_axis=1, method="bulk")))
    return float(np.nanmax(rhats)) if len(rhats) > 1 else np.nan, float(np.nanmin(sizes)) if len(sizes) > 1 else np.nan


def _distinct(draws):
    """Draws (chain, draw, entry) without entries that are copies of others, by a few of the draws."""
    few = draws[:, :: max(1, draws.shape[1] // 8)].reshape(-1, draws.shape[2])
    return draws[:, :, np.sort(np.unique(few, axis=1, return_index=True)[1])]


def quick_rhat(draws):
    """The largest split R-hat of draws (chain, draw, dimension), without ranks: to judge a sampler in passing."""
    half = draws.shape[1] // 2
    split = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    within = split.var(axis=1, ddof=1).mean(0)
    between = split.mean(axis=1).var(axis=0, ddof=1)
    return float(np.sqrt(1 - 1 / half + between / np.where(within > 0, within, 1.0)).max())


def problems(values, stats):
    """What is wrong with the chains, in words; an empty list if nothing is."""
    rhat, size = worst(values)
    num_chains = stats["diverging"].shape[0]
    found = []
    divergent = int(stats["diverging"].sum())
    if divergent:
        found.append(
            f"{divergent} of {stats['diverging'].size} draws diverged: raise target_accept_prob, or reparametrise"
        )
    if rhat > MAX_RHAT:
        found.append(
            f"R-hat is {rhat:.3f} (more than {MAX_RHAT}): the chains disagree; raise num_warmup and num_samples"
        )
    if size < MIN_ESS_PER_CHAIN * num_chains:
        found.append(
            f"the smallest bulk effective sample size is {size:.0f} (less than {MIN_ESS_PER_CHAIN} a chain): raise "
            "num_samples"
        )
    return found


def warn_of(found):
    """One warning for all problems."""
    if found:
        warn("NUTS: " + "; ".join(found) + ".", ConvergenceWarning)
