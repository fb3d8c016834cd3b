"""Convergence of chains: R-hat, effective sample size, divergences, and a warning that says what to do."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from arviz_stats.base import array_stats

from bayesgen.errors import ConvergenceWarning, warn
from bayesgen.typing import Bool, Float, Int, Shaped

Place = tuple[str, tuple[int, ...]]  # of an entry: site and index
NameOf = Callable[[str, tuple[int, ...]], str]  # what to call an entry, by site and index

MAX_RHAT = 1.01
FALSE_ALARMS = 1e-3  # how often chains with nothing wrong may be said to disagree
MIN_ESS_PER_CHAIN = 100
MORE_DRAWS = "raise num_warmup and num_samples"
FEWEST_DRAWS = 4  # of a chain, of which R-hat and effective sample sizes are defined


@dataclasses.dataclass(frozen=True)
class Entries:
    """Diagnostics of the entries of all parameters that vary, each looked at once.

    Attributes:
        places: (site, index) of each.
        draws: the draws of each.
        rhats: rank-normalised split R-hat; NaN for one chain.
        sizes: bulk effective sample sizes.
    """

    places: list[Place]
    draws: Float[np.ndarray, "entries chains draws"]
    rhats: Float[np.ndarray, " entries"]
    sizes: Float[np.ndarray, " entries"]

    @classmethod
    def of(cls, values: Mapping[str, Float[np.ndarray, "chains draws ..."]]) -> "Entries":
        """Those of draws by parameter, (chain, draw, ...).

        Entries that do not vary (a corner of a Cholesky factor) are left out, and those that are there twice (the
        halves of a covariance) are looked at once.
        """
        places, parts = [], []
        for name, value in values.items():
            flat = np.asarray(value).reshape(*value.shape[:2], -1)
            moving = np.flatnonzero(np.ptp(flat, axis=(0, 1)) > 0)
            moving = _distinct(flat, moving) if len(moving) else moving
            places += [(name, tuple(map(int, np.unravel_index(index, value.shape[2:])))) for index in moving]
            parts.append(flat[:, :, moving])
        draws = np.moveaxis(np.concatenate(parts, axis=2), 2, 0)
        axes = {"chain_axis": 1, "draw_axis": 2}
        several = draws.shape[1] > 1 and len(draws)
        rhats = array_stats.rhat(draws, **axes) if several else np.full(len(draws), np.nan)
        sizes = array_stats.ess(draws, **axes, method="bulk") if len(draws) else np.empty(0)
        return cls(places, draws, rhats, sizes)

    def disagreeing(self) -> Bool[np.ndarray, " entries"]:
        """Which entries have an R-hat that is too large, and larger than chance makes it."""
        flags = self.rhats > MAX_RHAT
        for entry in np.flatnonzero(flags):
            flags[entry] = self.rhats[entry] > rhat_by_chance(self.draws[entry], len(self.draws))
        return flags

    def short(self) -> Bool[np.ndarray, " entries"]:
        """Which entries have a bulk effective sample size that is too small."""
        return self.sizes < MIN_ESS_PER_CHAIN * self.draws.shape[1]


def _distinct(
    flat: Float[np.ndarray, "chains draws all_entries"], entries: Int[np.ndarray, " entries"]
) -> Int[np.ndarray, " distinct"]:
    """Which of these entries of draws are no copies of others, by a few of the draws."""
    few = flat[:, :: max(1, flat.shape[1] // 8), entries].reshape(-1, len(entries))
    return entries[np.sort(np.unique(few, axis=1, return_index=True)[1])]


def rhat_by_chance(draws: Float[np.ndarray, "chains draws"], num_entries: int) -> float:
    """The R-hat that chains of one distribution exceed with probability FALSE_ALARMS in any entry.

    The means of M half chains, each of effective size S / M, vary by F = chi2(M - 1) / (M - 1) times var / (S / M), so
    R-hat^2 is about 1 + F M / S. The effective size S is that within chains: where these disagree, they are still
    known to. There are two R-hats for each entry, of the draws and of their distances from the median.
    """
    num_halves = 2 * len(draws)
    folded = np.abs(draws - np.median(draws))
    size = min(sum(_size_within(chain) for chain in some) for some in (draws, folded))
    freedom = num_halves - 1
    factor = scipy.stats.chi2.isf(FALSE_ALARMS / (2 * num_entries), freedom) / freedom
    return float(np.sqrt(1 + factor * num_halves / size))


def _size_within(chain: Float[np.ndarray, " draws"]) -> float:
    return float(array_stats.ess(chain[None], chain_axis=0, draw_axis=1, method="bulk"))


def problems(
    values: Mapping[str, Float[np.ndarray, "chains draws ..."]],
    stats: Mapping[str, Shaped[np.ndarray, "chains draws"]],
    name_of: NameOf,
    if_disagreeing: str | None = None,
) -> list[str]:
    """What is wrong with the chains, in words; an empty list if nothing is.

    Args:
        values: draws by parameter.
        stats: what the sampler recorded, by name.
        name_of: function (site, index) of what to call an entry.
        if_disagreeing: what to do where chains disagree, if it is not to draw more.
    """
    num_draws = stats["diverging"].shape[1]
    if num_draws < FEWEST_DRAWS:
        return [f"num_samples={num_draws} tells nothing of convergence: draw hundreds a chain"]
    entries, messages = Entries.of(values), []
    divergent = int(stats["diverging"].sum())
    if divergent:
        messages.append(
            f"{divergent} of {stats['diverging'].size} draws diverged: raise target_accept_prob, or reparametrise"
        )
    disagreeing, short = entries.disagreeing(), entries.short()
    if disagreeing.any():
        worst = int(np.argmax(np.where(disagreeing, entries.rhats, -np.inf)))
        messages.append(
            f"R-hat is {entries.rhats[worst]:.3f} for {name_of(*entries.places[worst])} (more than {MAX_RHAT}, and "
            f"than chance, for {_count(disagreeing)}): the chains disagree; {if_disagreeing or MORE_DRAWS}"
        )
    if short.any():
        worst = int(np.nanargmin(entries.sizes))
        messages.append(
            f"the smallest bulk effective sample size is {entries.sizes[worst]:.0f}, of "
            f"{name_of(*entries.places[worst])} (less than {MIN_ESS_PER_CHAIN} a chain for {_count(short)}): raise "
            "num_samples"
        )
    return messages


def _count(flags: Bool[np.ndarray, " entries"]) -> str:
    return f"{int(flags.sum())} of {len(flags)} entries"


def entry_names(coords: Mapping[str, Sequence[Any]], dims: Mapping[str, Sequence[str]]) -> NameOf:
    """A function (site, index) of what to call an entry: by its classes, columns or categories where it has any.

    Args:
        coords, dims: as `export.axes` gives them.
    """

    def name_of(site: str, index: tuple[int, ...]) -> str:
        labels = [coords.get(dim, ()) for dim in dims.get(site, ())] or [()] * len(index)
        parts = [str(names[at]) if len(names) else str(at) for names, at in zip(labels, index, strict=True)]
        return repr(site + (f"[{', '.join(parts)}]" if parts else ""))

    return name_of


def warn_of(found: Sequence[str]) -> None:
    """One warning for all problems."""
    if found:
        warn("NUTS: " + "; ".join(found) + ".", ConvergenceWarning)
