"""`Draws`: a posterior by draws of Markov chains; label switching, and diagnostics of convergence."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats
from numpyro.distributions import constraints

from bayesgen.data import Rows
from bayesgen.errors import ConvergenceWarning, LabelSwitchingWarning, warn
from bayesgen.generative import GenerativeProgram
from bayesgen.program import Conjugate, Densities
from bayesgen.records import by_content
from bayesgen.statistics import bulk_sizes, errors_and_tail_sizes, rhats_and_sizes
from bayesgen.typing import Bool, Float, Int, PRNGKeyArray, Shaped

from .base import ParameterArrays, ParameterSummaries, ProcessPosterior, chains_joined, numbers_of_draws

# Label switching in mixtures: one order of the components for all draws, by matching responsibilities.

MATCHED_ROWS = 500  # of data, or simulated time steps, by which the components or states of draws are matched


def matching_orders(
    log_joint: Float[np.ndarray, "draws n K"], weights: Float[np.ndarray, " n"], pivot: int
) -> Int[np.ndarray, "draws K"]:
    """The order of the components of each draw that makes responsibilities of all draws agree best.

    Draws are matched to the pivot first, then to the mean responsibilities of the matched draws until no draw changes
    its order. Matching a draw is an assignment problem: the order of its components minimises the Kullback-Leibler
    divergence of its responsibilities from the mean ones, summed over rows.

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
    for _ in range(20):
        mean = np.take_along_axis(responsibilities, orders[:, None], axis=2).mean(axis=0)
        previous, orders = orders, _orders(responsibilities, weights, mean)
        if np.array_equal(orders, previous):
            break
    return orders


def _orders(
    responsibilities: Float[np.ndarray, "draws n K"], weights: Float[np.ndarray, " n"], target: Float[np.ndarray, "n K"]
) -> Int[np.ndarray, "draws K"]:
    """The orders in which the responsibilities of each draw are nearest to a target."""
    # minus the divergence, without terms that do not depend on the order
    gains = np.log(np.maximum(target, 1e-12)).T @ (weights[:, None] * responsibilities)
    return np.stack([scipy.optimize.linear_sum_assignment(gain, maximize=True)[1] for gain in gains])


def reordered(
    values: Shaped[np.ndarray, "chains draws ..."], orders: Int[np.ndarray, "chains draws K"], axis: int
) -> Shaped[np.ndarray, "chains draws ..."]:
    """The values of each draw, with the entries along the component axis in the order of the draw.

    Args:
        values: of the draws.
        orders: of the components.
        axis: of the components, among those of one draw.
    """
    indices = np.expand_dims(orders, tuple(place for place in range(2, values.ndim) if place != axis + 2))
    return np.take_along_axis(values, indices, axis=axis + 2)


# Diagnostics of draws of a mixture that are invariant under permutations of its components.


@by_content
class ExchangeableComponents:
    """Components that are exchangeable, so that draws may swap them.

    Attributes:
        rows: some of the training rows, by whose responsibilities components are matched.
        invariants: name -> (chain, draw, ...), functions of draws that do not depend on the order of components.
    """

    rows: Rows
    invariants: dict[str, np.ndarray]


def warn_of_switching() -> None:
    """Warn that draws may swap the names of components."""
    warn(
        "The components of this mixture are exchangeable, and draws may swap their names: means, R-hat and plots of "
        "its parameters, and responsibilities, mean nothing before fit.relabel(). Densities of rows are not affected.",
        LabelSwitchingWarning,
    )


def label_invariants(
    log_joint: Float[np.ndarray, "all_draws n K"],
    weights: Float[np.ndarray, " n"],
    pairs: Int[np.ndarray, "pairs 2"],
    num_chains: int,
) -> dict[str, Float[np.ndarray, "chains draws ..."]]:
    """Functions of draws that do not depend on the order of components.

    Args:
        log_joint: log p(x_i, component k | Q_s), chains one after another.
        weights: of the rows.
        pairs: positions of two rows each.
        num_chains: number of chains.

    Returns:
        "log density of rows"; "rows in one component", the probability of each pair to come from one, given Q;
        "shares of components", expected numbers of rows, the largest first.
    """
    log_marginal = scipy.special.logsumexp(log_joint, axis=2)
    responsibilities = np.exp(log_joint - log_marginal[..., None])
    first, second = responsibilities[:, pairs[:, 0]], responsibilities[:, pairs[:, 1]]
    by_draw = {
        "log density of rows": log_marginal @ weights,
        "rows in one component": (first * second).sum(axis=2),
        "shares of components": -np.sort(-np.einsum("snk,n->sk", responsibilities, weights / weights.sum()), axis=1),
    }
    shape = (num_chains, len(log_joint) // num_chains)
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in by_draw.items()}


def random_pairs(num_rows: int, rng: np.random.Generator) -> Int[np.ndarray, "pairs 2"]:
    """Positions of eight random pairs of different rows; none of a single row."""
    if num_rows < 2:
        return np.empty((0, 2), np.int64)
    return np.stack([rng.choice(num_rows, 2, replace=False) for _ in range(8)])


# Convergence of chains: R-hat, effective sample size, divergences, and a warning that says what to do.

Place = tuple[str, tuple[int, ...]]  # site and index of an entry
NameOf = Callable[[str, tuple[int, ...]], str]  # site and index -> name of an entry in messages

MAX_RHAT = 1.01
MIN_ESS_PER_CHAIN = 100
MORE_DRAWS = "raise num_warmup and num_samples"
FEWEST_DRAWS = 4  # of a chain, for R-hat and effective sample sizes to be defined


@dataclasses.dataclass(frozen=True)
class EntryDiagnostics:
    """Diagnostics of all entries of parameters that vary.

    Attributes:
        locations: (site, index) of each.
        draws: the draws of each.
        rhats: rank-normalised split R-hat; NaN for one chain.
        sizes: bulk effective sample sizes.
        entry_of: site -> the entry that each of its numbers is equal to, -1 for those that are left out.
    """

    locations: list[Place]
    draws: Float[np.ndarray, "entries chains draws"]
    rhats: Float[np.ndarray, " entries"]
    sizes: Float[np.ndarray, " entries"]
    entry_of: dict[str, Int[np.ndarray, "..."]]

    def by_site(self, diagnostics: Float[np.ndarray, " entries"]) -> dict[str, Float[np.ndarray, "..."]]:
        """Site -> a diagnostic of each of its numbers; NaN for constants."""
        return {name: np.append(diagnostics, np.nan)[entry] for name, entry in self.entry_of.items()}

    @classmethod
    def of(cls, values: Mapping[str, Float[np.ndarray, "chains draws ..."]]) -> "EntryDiagnostics":
        """The diagnostics of draws, parameter -> (chain, draw, ...).

        Constant entries (a corner of a Cholesky factor) and those with draws that are not finite are left out, and of
        duplicates (the halves of a covariance) all but one.
        """
        locations: list[Place] = []
        parts, entry_of = [], {}
        for name, value in values.items():
            flat = np.asarray(value).reshape(*value.shape[:2], -1)
            moving = np.flatnonzero((flat.max((0, 1)) != flat.min((0, 1))) & np.isfinite(flat).all((0, 1)))
            few = np.concatenate(flat[:, :: max(1, flat.shape[1] // 8), moving])  # by which they are compared
            entries = np.full(flat.shape[2], -1)
            if len(moving):
                _, first, copy_of = np.unique(few, axis=1, return_index=True, return_inverse=True)
                order = np.argsort(first)
                entries[moving] = len(locations) + np.argsort(order)[np.ravel(copy_of)]
                moving = moving[first[order]]
            entry_of[name] = entries.reshape(value.shape[2:])
            locations += [(name, tuple(map(int, np.unravel_index(index, value.shape[2:])))) for index in moving]
            parts.append(flat[:, :, moving])
        draws = np.moveaxis(np.concatenate(parts, axis=2), 2, 0)
        return cls(locations, draws, *rhats_and_sizes(draws), entry_of)

    @property
    def columns(self) -> dict[str, Float[np.ndarray, " entries"]]:
        """R-hat, effective sample sizes, and the Monte Carlo standard error of the mean."""
        errors, tails = errors_and_tail_sizes(self.draws)
        return {"r_hat": self.rhats, "ess_bulk": self.sizes, "ess_tail": tails, "mcse_mean": errors}

    def disagreeing(self) -> Bool[np.ndarray, " entries"]:
        """Which entries have an R-hat above `MAX_RHAT`, and above `rhat_by_chance`."""
        flags = self.rhats > MAX_RHAT
        for entry in np.flatnonzero(flags):
            flags[entry] = self.rhats[entry] > rhat_by_chance(self.draws[entry], len(self.draws))
        return flags

    def short(self) -> Bool[np.ndarray, " entries"]:
        """Which entries have too small a bulk effective sample size, or too few draws for any."""
        return ~(self.sizes >= MIN_ESS_PER_CHAIN * self.draws.shape[1])


def rhat_by_chance(draws: Float[np.ndarray, "chains draws"], num_entries: int) -> float:
    """The R-hat that chains of one distribution exceed with probability 0.001 in any entry.

    The means of M half chains, each of effective size S / M, vary by F = chi2(M - 1) / (M - 1) times var / (S / M), so
    R-hat^2 is about 1 + F M / S. S is the effective size within chains, which does not shrink where chains disagree.
    There are two R-hats for each entry, of the draws and of their distances from the median.
    """
    num_halves = 2 * len(draws)
    folded = np.abs(draws - np.median(draws))
    size = min(bulk_sizes(some[:, None]).sum() for some in (draws, folded))
    freedom = num_halves - 1
    factor = scipy.stats.chi2.isf(0.001 / (2 * num_entries), freedom) / freedom
    return float(np.sqrt(1 + factor * num_halves / size))


def convergence_problems(
    values: Mapping[str, Float[np.ndarray, "chains draws ..."]],
    stats: Mapping[str, Shaped[np.ndarray, "chains draws"]],
    name_of: NameOf,
    if_disagreeing: str | None = None,
    entries: EntryDiagnostics | None = None,
) -> list[str]:
    """Sentences about failed diagnostics of convergence; none if there are none.

    Args:
        values: parameter -> draws.
        stats: name -> the sampler's statistics.
        name_of: (site, index) -> name of an entry.
        if_disagreeing: the remedy where chains disagree; None for more draws.
        entries: diagnostics of the draws, if they are known already.
    """
    num_draws = stats["diverging"].shape[1]
    if num_draws < FEWEST_DRAWS:
        return [f"num_samples={num_draws} tells nothing of convergence: draw hundreds a chain"]
    entries, messages = entries or EntryDiagnostics.of(values), [*_motionless(values), *_undefined(values, name_of)]
    divergent = int(stats["diverging"].sum())
    if divergent:
        messages.append(
            f"{divergent} of {stats['diverging'].size} draws diverged: raise target_accept_prob, or reparametrise"
        )
    disagreeing, short = entries.disagreeing(), entries.short()
    if disagreeing.any():
        worst = int(np.argmax(np.where(disagreeing, entries.rhats, -np.inf)))
        messages.append(
            f"R-hat is {entries.rhats[worst]:.3f} for {name_of(*entries.locations[worst])} (more than {MAX_RHAT}, and "
            f"than chance, for {_count(disagreeing)}): the chains disagree; {if_disagreeing or MORE_DRAWS}"
        )
    if short.any():
        worst = int(np.argmin(np.nan_to_num(entries.sizes)))
        messages.append(
            f"the smallest bulk effective sample size is {entries.sizes[worst]:.0f}, of "
            f"{name_of(*entries.locations[worst])} (less than {MIN_ESS_PER_CHAIN} a chain for {_count(short)}): raise "
            "num_samples"
        )
    return messages


def _motionless(values: Mapping[str, Float[np.ndarray, "chains draws ..."]]) -> list[str]:
    """A sentence about chains in which no number of any parameter ever changes, if there are any."""
    still = np.all([(value == value[:, :1]).reshape(len(value), -1).all(1) for value in values.values()], axis=0)
    if not still.any():
        return []
    return [
        f"{int(still.sum())} of {len(still)} chains never moved, and their draws are one point: standardise the data, "
        "or give priors that rule out values at which the density is not finite"
    ]


def _undefined(values: Mapping[str, Float[np.ndarray, "chains draws ..."]], name_of: NameOf) -> list[str]:
    """A sentence about parameters that are NaN in some draws, or infinite in a part of them, if there are any."""
    shares: dict[Place, float] = {}
    for name, value in values.items():
        is_infinite = np.isinf(value)
        undefined = np.isnan(value) | (is_infinite & ~is_infinite.all((0, 1)))
        shares |= {(name, place): float(share) for place, share in np.ndenumerate(undefined.mean((0, 1))) if share > 0}
    if not shares:
        return []
    worst = max(shares, key=lambda place: shares[place])
    return [
        f"{name_of(*worst)} is not a finite number in {shares[worst]:.1%} of the draws, so that it has no mean there "
        f"({len(shares)} such entries in all): look where the program computes it (a root or a logarithm of a negative "
        "number, a division by zero)"
    ]


def _count(flags: Bool[np.ndarray, " entries"]) -> str:
    return f"{int(flags.sum())} of {len(flags)} entries"


def entry_names(coords: Mapping[str, Sequence[Any]], dims: Mapping[str, Sequence[str]]) -> NameOf:
    """A function (site, index) -> name of an entry, by classes, columns or categories where it has any.

    Args:
        coords, dims: as `export.axes` gives them.
    """

    def name_of(site: str, index: tuple[int, ...]) -> str:
        labels = [coords.get(dim, ()) for dim in dims.get(site, ())] or [()] * len(index)
        parts = [str(names[at]) if len(names) else str(at) for names, at in zip(labels, index, strict=True)]
        return repr(site + (f"[{', '.join(parts)}]" if parts else ""))

    return name_of


def warn_of_convergence(problems: Sequence[str], method: str = "NUTS") -> None:
    """Warn of all problems of the draws by a method at once."""
    if problems:
        warn(f"{method}: " + "; ".join(problems) + ".", ConvergenceWarning)


CHOLESKY = tuple(
    type(support)
    for support in (
        constraints.corr_cholesky,
        constraints.lower_cholesky,
        constraints.scaled_unit_lower_cholesky,
        constraints.softplus_lower_cholesky,
    )
)


@by_content
class Draws(ProcessPosterior):
    """Draws from the posterior by Markov chains.

    Attributes:
        program: the bound program.
        latents: site -> (chain, draw, ...).
        values: parameter -> (chain, draw, ...), covariances in place of Cholesky factors.
        sample_stats: name -> (chain, draw), the sampler's statistics.
        components: of draws of a mixture with exchangeable components in no common order; else None.
    """

    program: GenerativeProgram
    latents: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    sample_stats: dict[str, Any]
    components: ExchangeableComponents | None = None
    conjugate = None
    refusals: ClassVar[Mapping[str, str]] = {
        "mode": "Draws do not tell the posterior mode. Use PlugIn(at='mean'), or fit with MAP() and use PlugIn().",
        "predictive": "Draws have no closed-form predictive; use rule=BMA(), which averages over them.",
    }

    @functools.cached_property
    def described(self) -> str:  # type: ignore[override]
        diverging = self.sample_stats["diverging"]
        chains, draws = diverging.shape
        text = f"{chains} chains of {draws}, {diverging.sum()} divergent"
        entries = self.entries
        if entries is None or not len(entries.sizes):
            return text
        agreement = f", R-hat at most {entries.rhats.max():.3f}" if chains > 1 else ""
        return f"{text}{agreement}, bulk ESS at least {entries.sizes.min():,.0f}"

    @property
    def is_identified(self) -> bool:  # type: ignore[override]
        return self.components is None

    @property
    def diagnosed(self) -> dict[str, np.ndarray]:
        """Draws for diagnostics of convergence: the parameters, or functions invariant under switched labels."""
        return self.values if self.components is None else self.components.invariants

    @functools.cached_property
    def entries(self) -> EntryDiagnostics | None:
        """Diagnostics of the draws; None of too few."""
        return EntryDiagnostics.of(self.diagnosed) if self.sample_stats["diverging"].shape[1] >= FEWEST_DRAWS else None

    @property
    def parameters(self) -> ParameterArrays:
        return self.values

    @functools.cached_property
    def mean(self) -> ParameterArrays:
        """Means of the draws; of Cholesky factors L, the factor of the mean of L L^T.

        Of discrete latents it is the most frequent joint value, and the means of all others are of the draws with it.

        Warns where components are in no common order, so that means mix them.
        """
        if not self.is_identified:
            warn_of_switching()
        supports, values, finite = (
            self.program.latent_supports,
            chains_joined(self.values),
            self.program.structure.finite,
        )
        if finite:
            codes = np.concatenate([values[site.name].reshape(-1, math.prod(site.shape)) for site in finite], axis=1)
            _, value_of_draw, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
            values = {name: value[np.ravel(value_of_draw) == counts.argmax()] for name, value in values.items()}
        means = {
            name: _mean_factor(value[None]) if isinstance(supports.get(name), CHOLESKY) else np.asarray(value.mean(0))
            for name, value in values.items()
        }
        return means | {site.name: values[site.name][0] for site in finite}

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        """The densities at 200 of the draws, at even distances."""
        flat = chains_joined(self.values)
        total = len(next(iter(flat.values())))
        chosen = np.linspace(0, total - 1, min(total, 200)).round().astype(int)
        return [conjugate.densities_at({name: value[index] for name, value in flat.items()}) for index in chosen]

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        return self.latents

    def parameter_draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        return self.values

    def with_values(self, values: ParameterArrays) -> Self:
        return dataclasses.replace(self, values=self.values | values)

    def numbers(self, prob: float) -> ParameterSummaries:
        """Means, and R-hat and bulk ESS where chains are long enough for them."""
        numbers = numbers_of_draws(chains_joined(self.values), prob)
        if self.entries is not None and self.is_identified:
            numbers |= {name: self.entries.by_site(value) for name, value in self.entries.columns.items()}
        return numbers


def _mean_factor(factors: Float[np.ndarray, "chains draws *batch D D"]) -> Float[np.ndarray, "*batch D D"]:
    """The Cholesky factor of the mean of L L^T over the chains and draws.

    The mean is A A^T, where A has the factors beside each other; A^T = Q R gives R^T without squaring anything.
    """
    *_, dimension = factors.shape
    draws = np.moveaxis(factors.reshape(-1, *factors.shape[2:]), 0, -3)
    side_by_side = np.swapaxes(draws, -1, -2).reshape(*factors.shape[2:-2], -1, dimension)
    lower = np.swapaxes(np.linalg.qr(side_by_side / draws.shape[-3] ** 0.5, mode="r"), -1, -2)
    return lower * np.sign(np.diagonal(lower, axis1=-2, axis2=-1))[..., None, :]
