"""Statistics of distributions with hidden structure: rows are kept, and densities sum out what is hidden.

Expected counts are gradients. Where p(x) is a sum over hidden structures of products of probabilities, the derivative
of log p(x) by the logarithm of a probability is the number of times that it is expected to be used, given x: of a
transition, of a rule; by the log density of a step in a state, the probability of that state at that step.

Source: Eisner (2016), Inside-outside and forward-backward algorithms are just backprop, section 3.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import filled_up
from bayesgen.records import record, static
from bayesgen.runtime import over_chunks, pad, padded_size, placed
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, namespace
from .base import Likelihood, Parameters, RowDensity
from .moments import class_moments
from .passes import Classes
from .summaries import Moments, Summary

# What can be asked of sequences that a chain of hidden states makes.


class StatesLikelihood(abc.ABC):
    """What a `Likelihood` of sequences with hidden states does besides: it tells of the states, step by step.

    States are numbered 0..S-1, by themselves in each class. All functions are traceable; arrays have the classes, and
    their parameters, as `Likelihood.density` takes them. Steps that are not seen have the states that the others let
    expect. What is given for steps past the end of a sequence does not matter.
    """

    @abc.abstractmethod
    def smoothed(
        self, parameters: Mapping[str, Array], values: Shaped[Array, "n T ..."], observed: Bool[Array, "n T ..."] | None
    ) -> Float[Array, "n K T S"]:
        """p(state at each step | the whole sequence, class); zeros where the class makes the sequence impossible."""

    @abc.abstractmethod
    def most_probable_paths(
        self,
        parameters: Mapping[str, Array],
        values: Shaped[Array, "n T ..."],
        observed: Bool[Array, "n T ..."] | None,
        lengths: Int[Array, " n"],
    ) -> Int[Array, "n K T"]:
        """The states of the most probable path, all steps together (Viterbi), given the sequence and the class.

        The path has as many steps as the sequence, `lengths`, missing ones included, and -1 past the end: a path that
        went on would be another maximum.
        """

    @abc.abstractmethod
    def in_order(self, parameters: Mapping[str, Array], order: Int[Array, " S"]) -> dict[str, Array]:
        """The parameters of the same distributions, with what was state `order[s]` as state s, in every class."""


# `RetainedRows`: rows that no statistic of fixed size stands for, because what made them is hidden, with their classes.


@record
class RetainedRows(Summary):
    """Rows, each a sequence of steps, and how much each of them counts in which class.

    A row with a label is counted once, in its class; a row with responsibilities in every class that it may be of. Both
    are `entries`: so the likelihood of labelled rows takes one density each, whatever the number of classes, but for
    what a likelihood tells in tables of all classes.

    Rows of different lengths are filled up: symbols (integers) with `PADDING`, numbers with steps that are not
    observed, which tell as much as no step. So rows of any length can be merged.

    Attributes:
        values: the rows.
        observed: the cells that are there; None where all are.
        places: of each entry, its row.
        classes: of each entry, its class.
        weights: of each entry, how much it counts.
        num_classes: K; None in the summary of one class.
    """

    values: Real[Array, "m T ..."]
    observed: Bool[Array, "m T ..."] | None
    places: Int[Array, " e"]
    classes: Int[Array, " e"]
    weights: Float[Array, " e"]
    num_classes: int | None = static()

    @classmethod
    def of_rows(
        cls,
        values: Real[Array, "n T ..."],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n T ..."] | None = None,
    ) -> "RetainedRows":
        """Those of rows, without the ones that count in no class. Where they are traced, all are kept."""
        if namespace(values, classes, weights) is jnp:
            return _traced(jnp.asarray(values), jnp.asarray(classes), num_classes, weights, observed)
        places, codes, counts = _entries(np.asarray(classes), num_classes, weights)
        entries = np.flatnonzero(counts)
        rows, of_entries = np.unique(places[entries], return_inverse=True)
        mask = None if observed is None else np.asarray(observed)[rows]
        mask = None if mask is None or mask.all() else mask
        kept = np.asarray(values)[rows]
        kept = kept if mask is None or kept.dtype.kind in "iu" else np.where(mask, kept, 0.0)
        return cls(kept, mask, of_entries, codes[entries], counts[entries], num_classes)

    @property
    def is_complete(self) -> bool:
        """No: what is hidden has to be summed out."""
        return False

    @property
    def num_rows(self) -> int:
        """How many rows are kept."""
        return len(self.values)

    @property
    def count(self) -> Float[Array, " *K"]:
        """The weight of each class."""
        counts = np.bincount(self.classes, self.weights, self.num_classes or 1).astype(np.float64)
        return counts if self.num_classes is not None else np.asarray(counts.sum())

    def merge(self, other: Summary) -> "RetainedRows":
        """All rows, those of the shorter table filled up."""
        assert isinstance(other, RetainedRows)
        num_steps = max(self.values.shape[1], other.values.shape[1])
        one, another = self.with_steps(num_steps), other.with_steps(num_steps)
        observed = None
        if one.observed is not None or another.observed is not None:
            observed = np.concatenate([one._mask(), another._mask()])
        return RetainedRows(
            np.concatenate([one.values, another.values]),
            observed,
            np.concatenate([one.places, another.places + one.num_rows]),
            np.concatenate([one.classes, another.classes]),
            np.concatenate([one.weights, another.weights]),
            self.num_classes,
        )

    def pooled(self) -> "RetainedRows":
        """All classes taken for one; of a row that counted in several, one entry is left."""
        weights = np.bincount(self.places, self.weights, self.num_rows).astype(np.float64)  # of none, integers
        places = np.flatnonzero(weights)
        return dataclasses.replace(
            self, places=places, classes=np.zeros_like(places), weights=weights[places], num_classes=1
        )

    def of_class(self, index: int) -> "RetainedRows":
        """Take one class, and the rows that count in it."""
        entries = np.flatnonzero(self.classes == index)
        rows, places = np.unique(self.places[entries], return_inverse=True)
        return RetainedRows(
            self.values[rows],
            None if self.observed is None else self.observed[rows],
            places,
            np.zeros_like(places),
            self.weights[entries],
            None,
        )

    def with_empty_class(self, place: int) -> "RetainedRows":
        """The summary with one more class: no entry is of it."""
        assert self.num_classes is not None
        return dataclasses.replace(
            self, classes=self.classes + (self.classes >= place), num_classes=self.num_classes + 1
        )

    def by_column(self) -> Moments:
        """Moments of each column of the steps by class, of all cells that are there. Of numbers alone."""
        num_classes, num_columns = self.num_classes or 1, int(np.prod(self.values.shape[2:]))
        steps = self.values.reshape(-1, num_columns)
        observed = None if self.observed is None else self.observed.reshape(-1, num_columns)
        of_rows = np.zeros((self.num_rows, num_classes))
        np.add.at(of_rows, (self.places, self.classes), self.weights)
        moments = class_moments(steps, np.repeat(of_rows, self.values.shape[1], 0), num_classes, observed=observed)
        return moments if self.num_classes is not None else moments.of_class(0)

    def with_steps(self, num_steps: int) -> "RetainedRows":
        """The same with rows filled up to a number of steps: symbols with `PADDING`, numbers with none observed."""
        values, observed = filled_up(self.values, self.observed, num_steps)
        return dataclasses.replace(self, values=values, observed=observed)

    def padded(self) -> "RetainedRows":
        """Rows, steps and entries of weight zero are added, up to numbers for which functions are compiled."""
        values, observed = filled_up(self.values, self.observed, padded_size(max(self.values.shape[1], 1)))
        if observed is None and not np.issubdtype(values.dtype, np.integer):
            observed = np.ones(values.shape, bool)  # as where steps had to be added
        size, num_entries = padded_size(max(self.num_rows, 1)), padded_size(max(len(self.places), 1))
        is_entry = np.arange(num_entries) < len(self.places)
        return RetainedRows(
            pad(values, size),
            None if observed is None else pad(observed, size),
            np.where(is_entry, pad(np.asarray(self.places), num_entries), 0),
            np.where(is_entry, pad(np.asarray(self.classes), num_entries), 0),
            np.where(is_entry, pad(np.asarray(self.weights), num_entries), 0.0),
            self.num_classes,
        )

    def _mask(self) -> Bool[np.ndarray, "m T ..."]:
        return np.ones(self.values.shape, bool) if self.observed is None else np.asarray(self.observed)


def _entries(
    classes: Classes, num_classes: int, weights: Real[Array, " n"] | None
) -> tuple[Int[Array, " e"], Int[Array, " e"], Float[Array, " e"]]:
    """Row, class and weight of each entry: one a row where there are codes, one a row and class else."""
    xp, num_rows = namespace(classes, weights), len(classes)
    counts = xp.ones(num_rows) if weights is None else xp.asarray(weights, float)
    if classes.ndim == 1:
        return xp.arange(num_rows), xp.asarray(classes, int), counts
    shares = (xp.asarray(classes, float) * counts[:, None]).ravel()
    return xp.repeat(xp.arange(num_rows), num_classes), xp.tile(xp.arange(num_classes), num_rows), shares


def _traced(
    values: Real[Array, "n T ..."],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None,
    observed: Bool[Array, "n T ..."] | None,
) -> RetainedRows:
    """All rows, whatever they count."""
    places, codes, counts = _entries(classes, num_classes, weights)
    mask = None if observed is None else jnp.asarray(observed)
    kept = values if mask is None or jnp.issubdtype(values.dtype, jnp.integer) else jnp.where(mask, values, 0.0)
    return RetainedRows(kept, mask, jnp.asarray(places), codes, counts, num_classes)


Result = TypeVar("Result")
CHUNK_NUMBERS = 1 << 21  # of what densities of rows hold at once: 16 MB, and as much for each step of their gradients


class LatentLikelihood(Likelihood):
    """A family of distributions over sequences that sum out something hidden: no summary of fixed size is sufficient.

    Rows are kept (`RetainedRows`). Subclasses say what the log density of a row is; likelihoods, densities, chunks and
    expected counts follow. They are frozen dataclasses, and hashable.
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
            values: the rows. Past the end of a sequence stands `PADDING` where steps are symbols (integers); where they
                are numbers, steps that are not observed.
            observed: the cells that are there; None where all are.
            classes: of each row.
        """

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T ..."]) -> float:
        """How many numbers the density of one row holds at once, roughly: what chunks are chosen by."""
        return float(math.prod(values.shape[1:]))

    def summarize(
        self,
        values: Cells,
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n ..."] | None = None,
        measure: Mapping[str, Array] | None = None,
    ) -> RetainedRows:
        """The rows themselves. See `Likelihood.summarize`."""
        return RetainedRows.of_rows(values, classes, num_classes, weights, observed)

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
        """The log-likelihood of each class, and its gradient: by log probabilities, how often each is used, expected.

        Args:
            parameters: NumPy arrays with the class first; without, of a summary of one class.
            summary: the rows.

        Returns:
            The log-likelihood by class, and by the name of each parameter an array of its shape.
        """
        if summary.num_classes is None:
            log_likelihood, counts = self.expected_counts(*_with_class(parameters, summary))
            return log_likelihood[0, ...], {name: array[0] for name, array in counts.items()}
        log_likelihood, counts = _called(_expected_counts, self, parameters, summary)
        return np.asarray(log_likelihood), {name: np.asarray(array) for name, array in counts.items()}

    def density(self, parameters: Parameters) -> "LatentDensity":
        """The class-conditional densities of rows."""
        return LatentDensity(dict(parameters), self)


@record
class LatentDensity(RowDensity):
    """Densities of rows, what is hidden summed out.

    Attributes:
        parameters: arrays with the class first.
        likelihood: of which these are densities.
    """

    takes_codes = True
    parameters: dict[str, Real[Array, "K ..."]]
    likelihood: LatentLikelihood = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
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
                max(int(CHUNK_NUMBERS / per_row), 1),
            )


def _with_class(parameters: Parameters, summary: RetainedRows) -> tuple[dict[str, Array], RetainedRows]:
    """Parameters and rows of one class, with an axis for it."""
    return {name: value[None] for name, value in parameters.items()}, dataclasses.replace(summary, num_classes=1)


def _called(
    function: Callable[..., Result], likelihood: LatentLikelihood, parameters: Parameters, summary: RetainedRows
) -> Result:
    """What a compiled function gives of rows, padded to shapes that little is compiled for."""
    padded = summary.padded()
    work = likelihood.numbers_per_row(parameters, padded.values) * len(padded.places)
    with jax.enable_x64(True), placed(work):
        return function(likelihood, dict(parameters), padded)


def _table(
    likelihood: LatentLikelihood,
    parameters: Parameters,
    values: Real[Array, "n T ..."],
    observed: Bool[Array, "n T ..."] | None,
) -> Float[Array, "n K"]:
    """Log density of each row under each class: as many classes at once as there is room for."""

    def of_class(of_one: dict[str, Array]) -> Float[Array, " n"]:
        of_one = {name: value[None] for name, value in of_one.items()}
        return likelihood.log_probs(of_one, values, observed, jnp.zeros(len(values), int))

    at_once = int(CHUNK_NUMBERS / (len(values) * likelihood.numbers_per_row(parameters, values) + 1))
    stacked = {name: jnp.asarray(value) for name, value in parameters.items()}
    num_classes = len(next(iter(stacked.values())))
    return jax.lax.map(of_class, stacked, batch_size=min(max(at_once, 1), num_classes)).T


def _log_likelihood(likelihood: LatentLikelihood, parameters: Parameters, summary: RetainedRows) -> Float[Array, " K"]:
    """Sums by class of weighted log densities, some entries at a time; gradients hold what belongs to these alone."""
    assert summary.num_classes is not None
    num_classes, num_entries = summary.num_classes, len(summary.places)
    if not num_entries:
        return jnp.zeros(num_classes)
    per_row = likelihood.numbers_per_row(parameters, summary.values)
    size = min(max(int(CHUNK_NUMBERS / max(per_row, 1.0)), 1), num_entries)
    num_chunks = -(-num_entries // size)

    def of_entries(places: Int[Array, " e"], classes: Int[Array, " e"], weights: Float[Array, " e"]) -> Array:
        mask = None if summary.observed is None else jnp.asarray(summary.observed)[places]
        log_probs = likelihood.log_probs(parameters, jnp.asarray(summary.values)[places], mask, classes)
        terms = jnp.where(weights > 0, weights * jnp.where(weights > 0, log_probs, 0.0), 0.0)
        return jax.ops.segment_sum(terms, classes, num_classes)

    entries = tuple(jnp.asarray(array) for array in (summary.places, summary.classes, summary.weights))
    if num_chunks == 1:
        return of_entries(*entries)
    filling = num_chunks * size - num_entries
    cut = tuple(jnp.pad(array, (0, filling)).reshape(num_chunks, size) for array in entries)
    of_chunk = jax.checkpoint(lambda chunk: of_entries(*chunk))
    total, _ = jax.lax.scan(lambda total, chunk: (total + of_chunk(chunk), None), jnp.zeros(num_classes), cut)
    return total


@functools.partial(jax.jit, static_argnums=0)
def _log_likelihood_compiled(
    likelihood: LatentLikelihood, parameters: dict[str, Array], summary: RetainedRows
) -> Float[Array, " K"]:
    return _log_likelihood(likelihood, parameters, summary)


@functools.partial(jax.jit, static_argnums=0)
def _expected_counts(
    likelihood: LatentLikelihood, parameters: dict[str, Array], summary: RetainedRows
) -> tuple[Float[Array, " K"], dict[str, Float[Array, "..."]]]:
    def total(parameters: dict[str, Array]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
        by_class = _log_likelihood(likelihood, parameters, summary)
        return by_class.sum(), by_class

    counts, log_likelihood = jax.grad(total, has_aux=True)(parameters)
    return log_likelihood, counts


@functools.partial(jax.jit, static_argnums=0)
def _table_compiled(
    likelihood: LatentLikelihood,
    parameters: dict[str, Array],
    values: Real[Array, "n T ..."],
    observed: Bool[Array, "n T ..."] | None,
) -> Float[Array, "n K"]:
    return _table(likelihood, parameters, values, observed)
