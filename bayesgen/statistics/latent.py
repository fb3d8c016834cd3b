"""Likelihoods of models with hidden structure: rows are retained, and densities marginalise the hidden variables.

Expected counts are gradients. Where p(x) is a sum over hidden structures of products of probabilities, the derivative
of log p(x) by the log of a probability is the expected number of its uses given x: of a transition, or of a rule. The
derivative by the log density of a time step in a state is the probability of that state at that time step.

Source: Eisner (2016), Inside-outside and forward-backward algorithms are just backprop, section 3.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import filled_up
from bayesgen.records import record, static
from bayesgen.runtime import LATENT_CELLS, least_rows, over_chunks, pad, padded_size, placed, shared_size
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, namespace
from .base import Likelihood, Parameters, RowDensity
from .moments import class_moments
from .summaries import Classes, Moments, Sample, Summary


class StatesLikelihood(abc.ABC):
    """Inference of hidden states, which a `Likelihood` of sequences with such states has besides.

    States are numbered 0..S-1 in each class. All functions are traceable and take parameters as `Likelihood.density`
    does. Missing time steps have states, too. Results at time steps past the end of a sequence are arbitrary.
    """

    @abc.abstractmethod
    def smoothed(
        self, parameters: Mapping[str, Array], values: Shaped[Array, "n T ..."], observed: Bool[Array, "n T ..."] | None
    ) -> Float[Array, "n K T S"]:
        """p(state at each time step | sequence, class); zeros where the sequence has probability zero in the class."""

    @abc.abstractmethod
    def most_probable_paths(
        self,
        parameters: Mapping[str, Array],
        values: Shaped[Array, "n T ..."],
        observed: Bool[Array, "n T ..."] | None,
        lengths: Int[Array, " n"],
    ) -> Int[Array, "n K T"]:
        """The most probable path of states given the sequence and the class (Viterbi).

        The path has `lengths` time steps, missing ones included, and -1 past the end.
        """

    @abc.abstractmethod
    def in_order(self, parameters: Mapping[str, Array], order: Int[Array, " S"]) -> dict[str, Array]:
        """The parameters with states renumbered in every class: state s is the former state `order[s]`."""


@record
class RetainedRows(Summary):
    """Rows, each a sequence of time steps, with their weights in classes: no summary of fixed size is sufficient.

    A row with a label is one entry, of its class; a row with responsibilities is an entry of each class that it may be
    of. So the likelihood of a labelled row takes one density, whatever the number of classes.

    Rows of different lengths are padded, so that any can be merged: symbols (integers) with `PADDING`, numbers with
    missing time steps, which have factor 1.

    Attributes:
        values: the rows.
        observed: mask of the observed cells; None where all are.
        row_of_entry: the row of each entry.
        classes: the class of each entry.
        weights: the weight of each entry.
        num_classes: K; None in the summary of one class.
    """

    values: Real[Array, "m T ..."]
    observed: Bool[Array, "m T ..."] | None
    row_of_entry: Int[Array, " e"]
    classes: Int[Array, " e"]
    weights: Float[Array, " e"]
    num_classes: int | None = static()

    @classmethod
    def from_rows(
        cls,
        values: Real[Array, "n T ..."],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n T ..."] | None = None,
    ) -> "RetainedRows":
        """Rows with a positive weight in a class."""
        row_of_entry, codes, counts = _entries(np.asarray(classes), num_classes, weights)
        entries = np.flatnonzero(counts)
        rows, row_index = np.unique(row_of_entry[entries], return_inverse=True)
        mask = None if observed is None else np.asarray(observed)[rows]
        mask = None if mask is None or mask.all() else mask
        retained = np.asarray(values)[rows]
        retained = retained if mask is None or retained.dtype.kind in "iu" else np.where(mask, retained, 0.0)
        return cls(retained, mask, row_index, codes[entries], counts[entries], num_classes)

    @property
    def is_complete(self) -> bool:
        return False

    @property
    def num_rows(self) -> int:
        return len(self.values)

    @property
    def count(self) -> Float[Array, " *K"]:
        """The weight of each class."""
        counts = np.bincount(self.classes, self.weights, self.num_classes or 1).astype(np.float64)
        return counts if self.num_classes is not None else np.asarray(counts.sum())

    def merge(self, other: Summary) -> "RetainedRows":
        return self.joined([other])

    def joined(self, others: Sequence[Summary]) -> "RetainedRows":
        """All rows, padded to the same number of time steps."""
        parts = [self, *(other for other in others if isinstance(other, RetainedRows))]
        assert len(parts) == len(others) + 1
        num_steps = max(part.values.shape[1] for part in parts)
        parts = [part.with_steps(num_steps) for part in parts]
        starts = np.cumsum([0, *(part.num_rows for part in parts)])
        is_complete = all(part.observed is None for part in parts)
        return RetainedRows(
            np.concatenate([part.values for part in parts]),
            None if is_complete else np.concatenate([part._mask() for part in parts]),
            np.concatenate([part.row_of_entry + start for part, start in zip(parts, starts[:-1], strict=True)]),
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.weights for part in parts]),
            self.num_classes,
        )

    def pooled(self) -> "RetainedRows":
        """All classes as one, in which each row has one entry."""
        weights = np.bincount(self.row_of_entry, self.weights, self.num_rows).astype(np.float64)  # of none, integers
        weighted = np.flatnonzero(weights)
        return dataclasses.replace(
            self, row_of_entry=weighted, classes=np.zeros_like(weighted), weights=weights[weighted], num_classes=1
        )

    def select_class(self, index: int) -> "RetainedRows":
        """The entries of one class, with their rows."""
        entries = np.flatnonzero(self.classes == index)
        rows, row_of_entry = np.unique(self.row_of_entry[entries], return_inverse=True)
        return RetainedRows(
            self.values[rows],
            None if self.observed is None else self.observed[rows],
            row_of_entry,
            np.zeros_like(row_of_entry),
            self.weights[entries],
            None,
        )

    def with_empty_class(self, place: int) -> "RetainedRows":
        assert self.num_classes is not None
        return dataclasses.replace(
            self, classes=self.classes + (self.classes >= place), num_classes=self.num_classes + 1
        )

    def by_column(self) -> Moments:
        """Moments of the observed cells of each column by class, over all time steps of numbers."""
        num_classes, num_columns = self.num_classes or 1, int(np.prod(self.values.shape[2:]))
        steps = self.values.reshape(-1, num_columns)
        observed = None if self.observed is None else self.observed.reshape(-1, num_columns)
        row_weights = np.zeros((self.num_rows, num_classes))
        np.add.at(row_weights, (self.row_of_entry, self.classes), self.weights)
        moments = class_moments(steps, np.repeat(row_weights, self.values.shape[1], 0), num_classes, observed=observed)
        return moments if self.num_classes is not None else moments.select_class(0)

    def with_steps(self, num_steps: int) -> "RetainedRows":
        """The same with rows padded to a number of time steps."""
        values, observed = filled_up(self.values, self.observed, num_steps)
        return dataclasses.replace(self, values=values, observed=observed)

    def padded(self) -> "RetainedRows":
        """The same with rows, time steps and entries of weight zero added, up to sizes that share compilations."""
        values, observed = filled_up(self.values, self.observed, padded_size(max(self.values.shape[1], 1)))
        if observed is None and not np.issubdtype(values.dtype, np.integer):
            observed = np.ones(values.shape, bool)  # as where steps had to be added
        size, num_entries = shared_size(self.num_rows), shared_size(len(self.row_of_entry))
        is_entry = np.arange(num_entries) < len(self.row_of_entry)
        return RetainedRows(
            pad(values, size),
            None if observed is None else pad(observed, size),
            np.where(is_entry, pad(np.asarray(self.row_of_entry), num_entries), 0),
            np.where(is_entry, pad(np.asarray(self.classes), num_entries), 0),
            np.where(is_entry, pad(np.asarray(self.weights), num_entries), 0.0),
            self.num_classes,
        )

    def _mask(self) -> Bool[np.ndarray, "m T ..."]:
        return np.ones(self.values.shape, bool) if self.observed is None else np.asarray(self.observed)


def _entries(
    classes: Classes, num_classes: int, weights: Real[Array, " n"] | None
) -> tuple[Int[Array, " e"], Int[Array, " e"], Float[Array, " e"]]:
    """Row, class and weight of each entry: one a row where classes are codes, else one for each row and class."""
    num_rows = len(classes)
    counts = np.ones(num_rows) if weights is None else np.asarray(weights, float)
    if classes.ndim == 1:
        return np.arange(num_rows), np.asarray(classes, int), counts
    shares = (np.asarray(classes, float) * counts[:, None]).ravel()
    return np.repeat(np.arange(num_rows), num_classes), np.tile(np.arange(num_classes), num_rows), shares


Output = TypeVar("Output")


class LatentLikelihood(Likelihood):
    """A family of distributions over sequences with hidden variables, whose summaries retain the rows.

    Subclasses define the log density of a row; likelihoods, densities, chunks and expected counts follow. They are
    frozen dataclasses, and hashable.
    """

    @abc.abstractmethod
    def log_probs(
        self,
        parameters: Parameters,
        values: Real[Array, "m T ..."],
        observed: Bool[Array, "m T ..."] | None,
        classes: Int[Array, " m"],
    ) -> Float[Array, " m"]:
        """Log density of each row under its class. Traceable, its gradients finite or zero wherever it is finite.

        Args:
            parameters: arrays with the class first.
            values: the rows, padded at their ends as in `RetainedRows`.
            observed: mask of the observed cells; None where all are.
            classes: of each row.
        """

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T ..."]) -> float:
        """Roughly how many numbers the density of one row holds at once, which sizes of chunks depend on."""
        return float(math.prod(values.shape[1:]))

    def summary_of(self, sample: Sample) -> RetainedRows:
        return RetainedRows.from_rows(
            sample.values, sample.classes, sample.num_classes, sample.weights, sample.observed
        )

    def log_likelihood(self, parameters: Parameters, summary: RetainedRows) -> Float[Array, "..."]:  # type: ignore[override]
        """Sums of the weighted log densities of the rows of each class."""
        if summary.num_classes is None:
            return self.log_likelihood(*_with_class(parameters, summary))[0, ...]
        if namespace(*parameters.values(), *jax.tree.leaves(summary)) is jnp:
            return _log_likelihood(self, parameters, summary)
        return np.asarray(_called(_log_likelihood_compiled, self, parameters, summary))

    def expected_counts(
        self, parameters: Parameters, summary: RetainedRows
    ) -> tuple[Float[np.ndarray, " *K"], dict[str, Float[np.ndarray, "..."]]]:
        """The log-likelihood of each class, and its gradient: the expected number of uses of each log probability.

        Args:
            parameters: NumPy arrays with the class first; without that axis for a summary of one class.
            summary: the rows.

        Returns:
            The log-likelihood by class, and parameter -> expected counts of its shape.
        """
        if summary.num_classes is None:
            log_likelihood, counts = self.expected_counts(*_with_class(parameters, summary))
            return log_likelihood[0, ...], {name: array[0] for name, array in counts.items()}
        log_likelihood, counts = _called(_expected_counts, self, parameters, summary)
        return np.asarray(log_likelihood), {name: np.asarray(array) for name, array in counts.items()}

    def density(self, parameters: Parameters) -> "LatentDensity":
        return LatentDensity(dict(parameters), self)


@record
class LatentDensity(RowDensity):
    """Densities of rows, hidden variables being marginalised.

    Attributes:
        parameters: arrays with the class first.
        likelihood: of which these are densities.
    """

    keeps_integers = True
    parameters: dict[str, Real[Array, "K ..."]]
    likelihood: LatentLikelihood = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        arrays = jax.tree.leaves((self.parameters, values, observed))
        if namespace(*arrays) is jnp:
            return _table(self.likelihood, self.parameters, values, observed)
        values, observed = filled_up(values, observed, padded_size(max(values.shape[1], 1)))
        num_rows, per_row = len(values), self.likelihood.numbers_per_row(self.parameters, values)
        with jax.enable_x64(True), placed(per_row * num_rows * len(arrays[0])):
            return over_chunks(
                lambda rows: _table_compiled(self.likelihood, self.parameters, *rows),
                (values, observed),
                num_rows,
                max(int(LATENT_CELLS / per_row), 1),
                least=least_rows(per_row),
            )


def _with_class(parameters: Parameters, summary: RetainedRows) -> tuple[dict[str, Array], RetainedRows]:
    """Parameters and rows of one class, with an axis for it."""
    return {name: value[None] for name, value in parameters.items()}, dataclasses.replace(summary, num_classes=1)


def _called(
    function: Callable[..., Output], likelihood: LatentLikelihood, parameters: Parameters, summary: RetainedRows
) -> Output:
    """The result of a compiled function for rows, padded to shapes that share compiled functions."""
    padded = summary.padded()
    work = likelihood.numbers_per_row(parameters, padded.values) * len(padded.row_of_entry)
    with jax.enable_x64(True), placed(work):
        return function(likelihood, dict(parameters), padded)


def _table(
    likelihood: LatentLikelihood,
    parameters: Parameters,
    values: Real[Array, "n T ..."],
    observed: Bool[Array, "n T ..."] | None,
) -> Float[Array, "n K"]:
    """Log density of each row under each class, for as many classes at once as fit into a chunk."""

    def class_log_probs(one_class: dict[str, Array]) -> Float[Array, " n"]:
        one_class = {name: value[None] for name, value in one_class.items()}
        return likelihood.log_probs(one_class, values, observed, jnp.zeros(len(values), int))

    at_once = int(LATENT_CELLS / (len(values) * likelihood.numbers_per_row(parameters, values) + 1))
    stacked = {name: jnp.asarray(value) for name, value in parameters.items()}
    num_classes = len(next(iter(stacked.values())))
    return jax.lax.map(class_log_probs, stacked, batch_size=min(max(at_once, 1), num_classes)).T


def _log_likelihood(likelihood: LatentLikelihood, parameters: Parameters, summary: RetainedRows) -> Float[Array, " K"]:
    """Sums by class of weighted log densities, chunk by chunk, so that gradients hold one chunk at a time."""
    assert summary.num_classes is not None
    num_classes, num_entries = summary.num_classes, len(summary.row_of_entry)
    if not num_entries:
        return jnp.zeros(num_classes)
    per_row = likelihood.numbers_per_row(parameters, summary.values)
    size = min(max(int(LATENT_CELLS / max(per_row, 1.0)), 1), num_entries)
    num_chunks = -(-num_entries // size)

    def entry_totals(row_index: Int[Array, " e"], classes: Int[Array, " e"], weights: Float[Array, " e"]) -> Array:
        mask = None if summary.observed is None else jnp.asarray(summary.observed)[row_index]
        log_probs = likelihood.log_probs(parameters, jnp.asarray(summary.values)[row_index], mask, classes)
        terms = jnp.where(weights > 0, weights * jnp.where(weights > 0, log_probs, 0.0), 0.0)
        return jax.ops.segment_sum(terms, classes, num_classes)

    entries = tuple(jnp.asarray(array) for array in (summary.row_of_entry, summary.classes, summary.weights))
    if num_chunks == 1:
        return entry_totals(*entries)
    filling = num_chunks * size - num_entries
    cut = tuple(jnp.pad(array, (0, filling)).reshape(num_chunks, size) for array in entries)
    chunk_totals = jax.checkpoint(lambda chunk: entry_totals(*chunk))
    total, _ = jax.lax.scan(lambda total, chunk: (total + chunk_totals(chunk), None), jnp.zeros(num_classes), cut)
    return total


@functools.partial(jax.jit, static_argnums=0)
def _expected_counts(
    likelihood: LatentLikelihood, parameters: dict[str, Array], summary: RetainedRows
) -> tuple[Float[Array, " K"], dict[str, Float[Array, "..."]]]:
    def total(parameters: dict[str, Array]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
        by_class = _log_likelihood(likelihood, parameters, summary)
        return by_class.sum(), by_class

    counts, log_likelihood = jax.grad(total, has_aux=True)(parameters)
    return log_likelihood, counts


_table_compiled, _log_likelihood_compiled = (
    jax.jit(function, static_argnums=0) for function in (_table, _log_likelihood)
)
