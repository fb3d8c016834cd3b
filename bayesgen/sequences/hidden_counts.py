"""Hidden Markov chains: counts by state, their expectations, starts of EM, and Dirichlet priors on the chain."""

import dataclasses
import functools
import math
from collections.abc import Mapping

import jax
import numpy as np
import numpyro.distributions as dist
from sklearn.cluster import KMeans

from bayesgen.errors import FitError, ModelError
from bayesgen.families import Stated, as_number, broadcasts_to
from bayesgen.records import record
from bayesgen.runtime import FAST_CELLS, LATENT_CELLS, LEAST_ROWS, chunks, over_chunks, padded_size, placed
from bayesgen.statistics import Likelihood, RetainedRows, Summary
from bayesgen.typing import Array, Bool, Float, Int, Real

from .hidden_chains import ExpectedCounts, expected_counts
from .hidden_markov import num_observed_steps, steps_of_symbols


@record
class HiddenCounts(Summary):
    """Sufficient statistics of sequences and their states. The axis of classes comes first, if there is one.

    Attributes:
        initial: numbers of sequences that begin in each state.
        transition: numbers of transitions between states.
        emissions: the summary of the time steps, by state.
    """

    initial: Float[Array, "*K S"]
    transition: Float[Array, "*K S S"]
    emissions: Summary

    def merge(self, other: Summary) -> "HiddenCounts":
        assert isinstance(other, HiddenCounts)
        return HiddenCounts(
            self.initial + other.initial, self.transition + other.transition, self.emissions.merge(other.emissions)
        )

    def pooled(self) -> "HiddenCounts":
        """Sum the class axis out; states stay."""
        return HiddenCounts(
            self.initial.sum(0, keepdims=True), self.transition.sum(0, keepdims=True), self.emissions.pooled()
        )


@dataclasses.dataclass(frozen=True)
class ObservedSteps:
    """The observed time steps of some rows of one class.

    Attributes:
        cells: of the time steps with an observed cell, one after another.
        observed: mask of the observed cells among these; None where all are.
        is_observed: mask of the time steps with an observed cell.
        weights: of the rows.
    """

    cells: Real[np.ndarray, "observed D"]
    observed: Bool[np.ndarray, "observed D"] | None
    is_observed: Bool[np.ndarray, "m T"]
    weights: Float[np.ndarray, " m"]

    @classmethod
    def from_rows(cls, rows: RetainedRows, part: slice = slice(None)) -> "ObservedSteps":
        """The time steps of some of the entries."""
        row_numbers = np.asarray(rows.row_of_entry[part])
        values = np.asarray(rows.values)[row_numbers]
        observed = np.ones(values.shape, bool) if rows.observed is None else np.asarray(rows.observed)[row_numbers]
        if np.issubdtype(values.dtype, np.integer):
            values, observed = steps_of_symbols(values, observed)
        shape = (*values.shape[:2], math.prod(values.shape[2:]))
        cells, observed = values.reshape(shape), observed.reshape(shape)
        is_observed: Bool[np.ndarray, "m T"] = np.asarray(observed.any(-1))
        mask = observed[is_observed]
        return cls(cells[is_observed], None if mask.all() else mask, is_observed, np.asarray(rows.weights[part]))

    @property
    def lengths(self) -> Int[np.ndarray, " m"]:
        """The number of time steps of each row up to the last observed one; later ones have factor 1."""
        return np.asarray(num_observed_steps(self.is_observed, 0))

    def by_state(self, likelihood: Likelihood, states: Float[np.ndarray, "m T S"], has_partial: bool) -> Summary:
        """The summary of the time steps by state, given the weight of each in each state."""
        observed = np.ones(self.cells.shape, bool) if self.observed is None and has_partial else self.observed
        return likelihood.summarize(self.cells, states[self.is_observed], states.shape[-1], observed=observed)


def expected_hidden_counts(
    log_initial: Float[Array, " S"],
    log_transition: Float[Array, "S S"],
    likelihood: Likelihood,
    emissions: Mapping[str, Array],
    rows: RetainedRows,
    has_partial: bool,
) -> tuple[float, HiddenCounts]:
    """The log-likelihood of rows of one class, and their expected counts, by forward-backward.

    Args:
        log_initial, log_transition: log probabilities of states.
        likelihood: that of the emissions.
        emissions: their parameters, as the likelihood takes them, with the states first.
        rows: of one class.
        has_partial: whether time steps of these or other rows have both observed and missing cells.

    Raises:
        FitError: rows of probability zero.
    """
    density, num_states = likelihood.density(emissions), len(log_initial)
    total, parts = 0.0, list[HiddenCounts]()
    cells_per_row = rows.values.shape[1] * (math.prod(rows.values.shape[2:]) + 6 * num_states)
    for part in chunks(max(len(rows.row_of_entry), 1), int(LATENT_CELLS / max(cells_per_row, 1))):
        steps = ObservedSteps.from_rows(rows, part)
        table = np.zeros((*steps.is_observed.shape, num_states))
        if len(steps.cells):
            table[steps.is_observed] = density.log_prob(steps.cells, steps.observed)
        expected = _forward_backward(log_initial, log_transition, table, steps.lengths)
        is_possible = np.isfinite(expected.log_density)
        if not is_possible.all():
            raise FitError(
                f"{int((~is_possible).sum())} sequences have probability zero in every state: a start with "
                "positive probabilities would not have that. Leave starts= out, or change it."
            )
        total += float(expected.log_density @ steps.weights)
        initial, transition = (
            np.tensordot(steps.weights, table, 1) for table in (expected.initial, expected.transition)
        )
        states = np.asarray(expected.states) * steps.weights[:, None, None]
        parts.append(HiddenCounts(initial, transition, steps.by_state(likelihood, states, has_partial)))
    return total, functools.reduce(HiddenCounts.merge, parts)


def has_partial_steps(rows: RetainedRows) -> bool:
    """Whether some time steps have both observed and missing cells."""
    if rows.observed is None or rows.values.ndim < 3:
        return False
    observed = np.asarray(rows.observed)
    return bool((observed.any(-1) & ~observed.all(-1)).any())


def _forward_backward(
    log_initial: Float[Array, " S"],
    log_transition: Float[Array, "S S"],
    table: Float[np.ndarray, "m T S"],
    lengths: Int[np.ndarray, " m"],
) -> ExpectedCounts:
    """Log densities of rows and their expected counts, from arrays padded to shapes that share compiled functions."""
    num_rows, num_steps, num_states = table.shape
    longest = padded_size(max(num_steps, 1))
    padded = np.pad(table, [(0, 0), (0, longest - num_steps), (0, 0)])
    with jax.enable_x64(True), placed(float(padded.size * num_states)):
        expected = over_chunks(
            lambda rows: expected_counts(log_initial, log_transition, *rows),
            (padded, lengths),
            num_rows,
            max(num_rows, FAST_CELLS // (longest * num_states**2), 1),
            least=LEAST_ROWS,
        )
    return dataclasses.replace(expected, states=expected.states[:, :num_steps])


# Starts of EM for hidden chains: clusters of time steps by k-means.

MOST_CLUSTERED_STEPS = 20_000  # in k-means; the others are assigned to the nearest center
RADII = (0, 0, 1, 2, 4, 8)  # of the windows of moving averages
CLUSTER_PROBABILITY = 0.9  # of the state of a step's cluster; the rest is spread over all, so that none is impossible


def clustered_counts(
    likelihood: Likelihood, rows: RetainedRows, num_states: int, has_partial: bool, rng: np.random.Generator | None
) -> HiddenCounts:
    """Counts of rows of one class whose states are clusters of their time steps.

    Clusters come from k-means: of the time steps for the first start, of moving averages of random widths for the
    others. They are random where there are fewer different steps than states. States are in the order of the means of
    the first column.

    Args:
        likelihood: that of the emissions.
        rows: of one class.
        num_states: S.
        has_partial: whether some time steps have both observed and missing cells.
        rng: random numbers; None for the first start, which is deterministic.
    """
    steps = ObservedSteps.from_rows(rows)
    states = np.zeros((*steps.is_observed.shape, num_states))
    if len(steps.cells):
        draws = np.random.default_rng(0) if rng is None else rng
        radius = 0 if rng is None else int(draws.choice(RADII))
        clusters = _clusters(_features(steps, radius), num_states, draws)
        clusters = _in_order(clusters, np.asarray(steps.cells[:, 0], np.float64), num_states)
        states[steps.is_observed] = (
            CLUSTER_PROBABILITY * np.eye(num_states)[clusters] + (1 - CLUSTER_PROBABILITY) / num_states
        )
    weighted = states * steps.weights[:, None, None]
    transition = np.einsum("mti,mtj->ij", weighted[:, :-1], states[:, 1:])
    return HiddenCounts(weighted[:, :1].sum((0, 1)), transition, steps.by_state(likelihood, weighted, has_partial))


def _features(steps: ObservedSteps, radius: int) -> Float[np.ndarray, "observed F"]:
    """Standardised numbers, or indicators of symbols, averaged over a window of time steps around each."""
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
    table = np.zeros((*steps.is_observed.shape, features.shape[1]))
    table[steps.is_observed] = features
    sums = np.pad(table.cumsum(1), [(0, 0), (1, 0), (0, 0)])
    counts = np.pad(steps.is_observed.cumsum(1), [(0, 0), (1, 0)])
    positions = np.arange(table.shape[1])
    first, last = np.maximum(positions - radius, 0), np.minimum(positions + radius + 1, table.shape[1])
    means = (sums[:, last] - sums[:, first]) / np.maximum(counts[:, last] - counts[:, first], 1)[..., None]
    return means[steps.is_observed]


def _mean(numbers: Float[np.ndarray, "observed D"]) -> Float[np.ndarray, " D"]:
    """Means of the observed cells of each column; 0 where there are none."""
    is_observed = ~np.isnan(numbers)
    return np.where(is_observed, numbers, 0.0).sum(0) / np.maximum(is_observed.sum(0), 1)


def _clusters(
    features: Float[np.ndarray, "observed F"], num_states: int, rng: np.random.Generator
) -> Int[np.ndarray, " observed"]:
    """The cluster of each time step."""
    size = len(features)
    some = features if size <= MOST_CLUSTERED_STEPS else features[rng.choice(size, MOST_CLUSTERED_STEPS, replace=False)]
    if len(np.unique(some, axis=0)) < num_states:
        return rng.integers(0, num_states, size)
    means = KMeans(num_states, n_init=1, random_state=int(rng.integers(2**31))).fit(some)
    return np.asarray(means.predict(features), np.int64)


def _in_order(
    clusters: Int[np.ndarray, " observed"], column: Float[np.ndarray, " observed"], num_states: int
) -> Int[np.ndarray, " observed"]:
    """The clusters, numbered by their means of a column."""
    count = np.maximum(np.bincount(clusters, minlength=num_states), 1)
    means = np.bincount(clusters, column, num_states) / count
    return np.argsort(np.argsort(means, kind="stable"), kind="stable")[clusters]


def check_shape(name: str, concentration: Stated, shape: tuple[int, ...]) -> None:
    """Refuse a concentration that is neither a number nor broadcasts to a table of the states, after classes if any.

    Raises:
        ModelError: with both shapes.
    """
    if isinstance(concentration, dist.Distribution):
        return
    stated = np.shape(as_number(concentration))
    if not broadcasts_to(stated[-len(shape) :], shape):
        raise ModelError(
            f"DirichletHiddenMarkov: the hyperparameter {name} has shape {stated}, and for {shape[-1]} states it is a "
            f"number, or an array of shape {shape}."
        )
