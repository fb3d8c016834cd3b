"""What rows with hidden chains would tell if their states were seen: counts by state, and what is expected of them."""

import dataclasses
import math
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import PADDING
from bayesgen.distributions import hidden_chains
from bayesgen.errors import FitError
from bayesgen.records import record
from bayesgen.runtime import chunks, pad, padded_size, placed
from bayesgen.statistics import KeptRows, Statistic, Summary
from bayesgen.typing import Array, Bool, Float, Int, Real

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
    def of_rows(cls, rows: KeptRows, part: slice = slice(None)) -> "Steps":
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

    def by_state(self, statistic: Statistic, states: Float[np.ndarray, "m T S"], has_holes: bool) -> Summary:
        """The summary of the steps by state, given how much each step counts in each state."""
        observed = np.ones(self.cells.shape, bool) if self.observed is None and has_holes else self.observed
        return statistic.summarize(self.cells, states[self.is_seen], states.shape[-1], observed=observed)


def expected_counts(
    log_initial: Float[Array, " S"],
    log_transition: Float[Array, "S S"],
    statistic: Statistic,
    emissions: Mapping[str, Array],
    rows: KeptRows,
    has_holes: bool,
) -> tuple[float, HiddenCounts]:
    """The log-likelihood of rows of one class, and what they are expected to count, by forward-backward.

    Args:
        log_initial, log_transition: log probabilities of states.
        statistic: that of the emissions.
        emissions: their parameters, as the statistic takes them, with the states first.
        rows: of one class.
        has_holes: whether some steps of these rows, or of others, are seen in part.

    Raises:
        FitError: rows of probability zero.
    """
    density, num_states = statistic.density(emissions), len(log_initial)
    total, counts = 0.0, nothing(statistic, rows, num_states, has_holes)
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
        counts = counts.merge(HiddenCounts(initial, transition, steps.by_state(statistic, states, has_holes)))
    return total, counts


def nothing(statistic: Statistic, rows: KeptRows, num_states: int, has_holes: bool) -> HiddenCounts:
    """Counts of no rows, of the form of these."""
    none = Steps.of_rows(rows, slice(0, 0))
    emissions = none.by_state(statistic, np.zeros((*none.is_seen.shape, num_states)), has_holes)
    return HiddenCounts(np.zeros(num_states), np.zeros((num_states, num_states)), emissions)


def has_holes(rows: KeptRows) -> bool:
    """Whether some steps are seen in part."""
    if rows.observed is None or rows.values.ndim < 3:
        return False
    observed = np.asarray(rows.observed)
    return bool((observed.any(-1) & ~observed.all(-1)).any())


def stacked(parts: list[HiddenCounts]) -> HiddenCounts:
    """Counts of all classes, of those of each."""
    return jax.tree.map(lambda *arrays: np.stack(arrays), *parts)


def _parts(rows: KeptRows, num_states: int) -> Iterator[slice]:
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
