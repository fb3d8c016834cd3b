"""What rows with hidden chains would tell if their states were seen: counts by state, and what is expected of them."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from sklearn.cluster import KMeans

from bayesgen.data import PADDING
from bayesgen.distributions import hidden_chains
from bayesgen.errors import FitError, ModelError
from bayesgen.records import record
from bayesgen.runtime import chunks, generator, pad, padded_size, placed
from bayesgen.statistics import Likelihood, RetainedRows, Summary
from bayesgen.typing import Array, Bool, Float, Int, Real

from .base import Key, Parameters
from .dirichlet_categorical import DirichletCategorical
from .hyperparameters import Names, Stated, as_number, refuse_mode

CHUNK_NUMBERS = 1 << 21  # of tables of steps and states that are made at once: 16 MB each


@record
class HiddenCounts(Summary):
    """Sufficient statistics of sequences and of the states that made them. Classes lead, where there are any.

    Attributes:
        initial: how many sequences begin in each state.
        transition: how often a state is followed by another one.
        emissions: the summary of the steps, by state.
    """

    initial: Float[Array, "*K S"]
    transition: Float[Array, "*K S S"]
    emissions: Summary

    def merge(self, other: Summary) -> "HiddenCounts":
        """Add the counts."""
        assert isinstance(other, HiddenCounts)
        return HiddenCounts(
            self.initial + other.initial, self.transition + other.transition, self.emissions.merge(other.emissions)
        )

    def pooled(self) -> "HiddenCounts":
        """Sum the class axis out; states stay."""
        return HiddenCounts(
            self.initial.sum(0, keepdims=True), self.transition.sum(0, keepdims=True), self.emissions.pooled()
        )

    def of_class(self, index: int) -> "HiddenCounts":
        """Take one class."""
        return jax.tree.map(lambda array: array[index, ...], self)


@dataclasses.dataclass(frozen=True)
class Steps:
    """The steps of some rows of one class, in an array of one length.

    Attributes:
        cells: of the steps that are seen, one after another.
        observed: the cells of these that are there; None where all are.
        is_seen: which steps are seen, wholly or in part.
        weights: of the rows.
    """

    cells: Real[np.ndarray, "seen D"]
    observed: Bool[np.ndarray, "seen D"] | None
    is_seen: Bool[np.ndarray, "m T"]
    weights: Float[np.ndarray, " m"]

    @classmethod
    def of_rows(cls, rows: RetainedRows, part: slice = slice(None)) -> "Steps":
        """The steps of some of the entries."""
        places = np.asarray(rows.places[part])
        values = np.asarray(rows.values)[places]
        there = np.ones(values.shape, bool) if rows.observed is None else np.asarray(rows.observed)[places]
        if np.issubdtype(values.dtype, np.integer):
            there = there & (np.cumsum((values == PADDING) & there, 1) == 0)
        shape = (*values.shape[:2], math.prod(values.shape[2:]))
        cells, there = values.reshape(shape), there.reshape(shape)
        is_seen: Bool[np.ndarray, "m T"] = np.asarray(there.any(-1))
        mask = there[is_seen]
        return cls(cells[is_seen], None if mask.all() else mask, is_seen, np.asarray(rows.weights[part]))

    @property
    def lengths(self) -> Int[np.ndarray, " m"]:
        """The number of steps of each row up to the last one that is seen: what follows tells nothing."""
        numbers = np.arange(1, self.is_seen.shape[1] + 1)
        return np.where(self.is_seen, numbers, 0).max(1, initial=0)

    def by_state(self, likelihood: Likelihood, states: Float[np.ndarray, "m T S"], has_holes: bool) -> Summary:
        """The summary of the steps by state, given how much each step counts in each state."""
        observed = np.ones(self.cells.shape, bool) if self.observed is None and has_holes else self.observed
        return likelihood.summarize(self.cells, states[self.is_seen], states.shape[-1], observed=observed)


def expected_counts(
    log_initial: Float[Array, " S"],
    log_transition: Float[Array, "S S"],
    likelihood: Likelihood,
    emissions: Mapping[str, Array],
    rows: RetainedRows,
    has_holes: bool,
) -> tuple[float, HiddenCounts]:
    """The log-likelihood of rows of one class, and what they are expected to count, by forward-backward.

    Args:
        log_initial, log_transition: log probabilities of states.
        likelihood: that of the emissions.
        emissions: their parameters, as the likelihood takes them, with the states first.
        rows: of one class.
        has_holes: whether some steps of these rows, or of others, are seen in part.

    Raises:
        FitError: rows of probability zero.
    """
    density, num_states = likelihood.density(emissions), len(log_initial)
    total, counts = 0.0, nothing(likelihood, rows, num_states, has_holes)
    for part in _parts(rows, num_states):
        steps = Steps.of_rows(rows, part)
        table = np.zeros((*steps.is_seen.shape, num_states))
        if len(steps.cells):
            table[steps.is_seen] = density.log_prob(steps.cells, steps.observed)
        log_probs, initial, transition, states = _forward_backward(log_initial, log_transition, table, steps)
        if not np.isfinite(log_probs).all():
            raise FitError(
                f"{int((~np.isfinite(log_probs)).sum())} sequences have probability zero in every state: a start with "
                "positive probabilities would not have that. Leave starts= out, or change it."
            )
        total += float(log_probs @ steps.weights)
        counts = counts.merge(HiddenCounts(initial, transition, steps.by_state(likelihood, states, has_holes)))
    return total, counts


def nothing(likelihood: Likelihood, rows: RetainedRows, num_states: int, has_holes: bool) -> HiddenCounts:
    """Counts of no rows, of the form of these."""
    none = Steps.of_rows(rows, slice(0, 0))
    emissions = none.by_state(likelihood, np.zeros((*none.is_seen.shape, num_states)), has_holes)
    return HiddenCounts(np.zeros(num_states), np.zeros((num_states, num_states)), emissions)


def has_holes(rows: RetainedRows) -> bool:
    """Whether some steps are seen in part."""
    if rows.observed is None or rows.values.ndim < 3:
        return False
    observed = np.asarray(rows.observed)
    return bool((observed.any(-1) & ~observed.all(-1)).any())


def stacked(parts: list[HiddenCounts]) -> HiddenCounts:
    """Counts of all classes, of those of each."""
    return jax.tree.map(lambda *arrays: np.stack(arrays), *parts)


def _parts(rows: RetainedRows, num_states: int) -> Iterator[slice]:
    """Entries of whose steps tables are made at once."""
    numbers_per_row = rows.values.shape[1] * (math.prod(rows.values.shape[2:]) + 6 * num_states)
    yield from chunks(len(rows.places), max(int(CHUNK_NUMBERS / max(numbers_per_row, 1)), 1))


def _forward_backward(
    log_initial: Float[Array, " S"],
    log_transition: Float[Array, "S S"],
    table: Float[np.ndarray, "m T S"],
    steps: Steps,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " S"], Float[np.ndarray, "S S"], Float[np.ndarray, "m T S"]]:
    """Log densities of rows; and, weighted, expected initial states, transitions, and states at each step."""
    num_rows, num_steps, _ = table.shape
    size, longest = padded_size(max(num_rows, 1)), padded_size(max(num_steps, 1))
    filled = pad(np.pad(table, [(0, 0), (0, longest - num_steps), (0, 0)]), size)
    weights = np.pad(steps.weights, (0, size - num_rows))
    with jax.enable_x64(True), placed(float(filled.size * table.shape[-1])):
        found = _compiled(
            np.asarray(log_initial), np.asarray(log_transition), filled, pad(steps.lengths, size), weights
        )
    log_probs, initial, transition, states = (np.asarray(array) for array in found)
    return log_probs[:num_rows], initial, transition, states[:num_rows, :num_steps]


@jax.jit
def _compiled(
    log_initial: Float[Array, " S"],
    log_transition: Float[Array, "S S"],
    table: Float[Array, "m T S"],
    lengths: Int[Array, " m"],
    weights: Float[Array, " m"],
) -> tuple[Float[Array, " m"], Float[Array, " S"], Float[Array, "S S"], Float[Array, "m T S"]]:
    def total(initial: Array, transition: Array, emissions: Array) -> tuple[Float[Array, ""], Float[Array, " m"]]:
        log_probs = hidden_chains.log_density(initial, transition, emissions, lengths)
        return jnp.where(weights > 0, weights * log_probs, 0.0).sum(), log_probs

    counts, log_probs = jax.grad(total, (0, 1, 2), has_aux=True)(log_initial, log_transition, table)
    return log_probs, *counts


# Where EM begins for hidden chains: at states that are groups of steps, by k-means of these or of means of several.

MOST_STEPS = 20_000  # that states are grouped by; others are told by the nearest centre
RADII = (0, 0, 1, 2, 4, 8)  # of the windows that steps are averaged over
SHARE = 0.9  # of a step in the state of its group; the rest is spread over all, so that nothing is impossible


def grouped(
    likelihood: Likelihood, rows: RetainedRows, num_states: int, has_holes: bool, rng: np.random.Generator | None
) -> HiddenCounts:
    """Counts of rows of one class if the groups that its steps fall into were the states.

    Groups are those of k-means; for all but the first beginning, of averages over windows of random widths, or, where
    there are not as many different steps as states, at random. States are in the order of the means of the first
    column.

    Args:
        likelihood: that of the emissions.
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
    return HiddenCounts(weighted[:, :1].sum((0, 1)), transition, steps.by_state(likelihood, weighted, has_holes))


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


# Dirichlet priors on the first state of a hidden chain and on its transitions, and their algebra.

WHAT = {"initial": "first states", "transition": "transitions"}


@dataclasses.dataclass(frozen=True)
class ChainPrior:
    """Concentrations of the probabilities of first states and of transitions. Classes lead, where there are any."""

    initial: Float[Array, "*K S"]
    transition: Float[Array, "*K S S"]

    def updated(self, counts: HiddenCounts) -> Self:
        """Given the states."""
        return dataclasses.replace(
            self, initial=self.initial + counts.initial, transition=self.transition + counts.transition
        )

    def mean(self) -> Parameters:
        """Normalised concentrations."""
        return {name: prior.mean()["probs"] for name, prior in self._families.items()}

    def variance(self) -> Parameters:
        """p (1 - p) / (total + 1)."""
        return {name: prior.variance()["probs"] for name, prior in self._families.items()}

    def mode(self, names: Names) -> Parameters:
        """(alpha - 1) / sum(alpha - 1); a `FitError` where it is unbounded or not unique."""
        modes: Parameters = {}
        for name, prior in self._families.items():
            above = np.asarray(prior.concentration) - 1
            bad = (above < 0).any(-1) | (above.sum(-1) <= 0)
            if bad.any():
                why = (
                    f"probabilities of {WHAT[name]} are unbounded with a concentration below 1."
                    if (above < 0).any()
                    else f"no {WHAT[name]} were seen, and with a concentration of 1 all probabilities are as good."
                )
                size = above.shape[-1]
                remedy = (
                    f"Give concentrations above 1, DirichletHiddenMarkov({size}, concentration=2.0, initial=2.0), or "
                    "fewer states."
                )
                refuse_mode(_of_chain(names, name), bad, why, remedy)
            modes[name] = above / above.sum(-1, keepdims=True)
        return modes

    def sample(self, key: Key, shape: tuple[int, ...]) -> Parameters:
        """Independent draws."""
        rng = generator(key)
        return {name: prior.sample(rng, shape)["probs"] for name, prior in self._families.items()}

    def log_density(self, parameters: Mapping[str, Array]) -> float:
        """Of given probabilities."""
        return sum(prior._log_prior({"probs": parameters[name]}) for name, prior in self._families.items())

    @property
    def _families(self) -> dict[str, DirichletCategorical]:
        pairs = {"initial": self.initial, "transition": self.transition}
        return {name: DirichletCategorical(value).replace(batch_shape=value.shape) for name, value in pairs.items()}


def check_shape(name: str, concentration: Stated, shape: tuple[int, ...]) -> None:
    """Refuse a concentration that is neither a number nor broadcasts to a table of the states, after classes if any.

    Raises:
        ModelError: with both shapes.
    """
    if isinstance(concentration, dist.Distribution):
        return
    stated = np.shape(as_number(concentration))
    states = stated[-len(shape) :]
    if any(size not in (1, wanted) for size, wanted in zip(reversed(states), reversed(shape), strict=False)):
        raise ModelError(
            f"DirichletHiddenMarkov: the hyperparameter {name} has shape {stated}, and for {shape[-1]} states it is a "
            f"number, or an array of shape {shape}."
        )


def relative_frequencies(counts: HiddenCounts, names: Names) -> Parameters:
    """Of first states and of transitions; a `FitError` where nothing was counted."""
    found: Parameters = {}
    for name, of_chain in {"initial": counts.initial, "transition": counts.transition}.items():
        table = np.asarray(of_chain)
        total = table.sum(-1, keepdims=True)
        if (total == 0).any():
            raise FitError(
                f"Block {names.block!r}: no {WHAT[name]} at {_of_chain(names, name).where(total[..., 0] == 0)}, so "
                "maximum likelihood has no estimate. Use MAP() with a concentration above 1, fewer states, or leave "
                "that class out."
            )
        found[name] = table / total
    return found


def _of_chain(names: Names, parameter: str) -> Names:
    """Names of a table of the chain: of transitions, rows are the states before."""
    return dataclasses.replace(names, has_states=parameter == "transition")
