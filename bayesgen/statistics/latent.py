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
from bayesgen.runtime import over_chunks, padded_size, placed
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import Cells, namespace
from .base import Parameters, Statistic
from .densities import RowDensity
from .kept_rows import KeptRows
from .passes import Classes

Result = TypeVar("Result")
CHUNK_NUMBERS = 1 << 21  # of what densities of rows hold at once: 16 MB, and as much for each step of their gradients


class LatentStatistic(Statistic):
    """A family of distributions over sequences that sum out something hidden: no summary of fixed size is sufficient.

    Rows are kept (`KeptRows`). Subclasses say what the log density of a row is; likelihoods, densities, chunks and
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
        inert: Mapping[str, Array] | None = None,
    ) -> KeptRows:
        """The rows themselves. See `Statistic.summarize`."""
        return KeptRows.of_rows(values, classes, num_classes, weights, observed)

    def log_likelihood(self, parameters: Parameters, summary: KeptRows) -> Float[Array, "..."]:  # type: ignore[override]
        """Sums of the weighted log densities of the rows of each class."""
        if summary.num_classes is None:
            return self.log_likelihood(*_with_class(parameters, summary))[0, ...]
        if namespace(*parameters.values(), *jax.tree.leaves(summary)) is jnp:
            return _log_likelihood(self, parameters, summary)
        return np.asarray(_called(_log_likelihood_compiled, self, parameters, summary))

    def expected_counts(
        self, parameters: Parameters, summary: KeptRows
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
        statistic: of which these are densities.
    """

    takes_codes = True
    parameters: dict[str, Real[Array, "K ..."]]
    statistic: LatentStatistic = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
        arrays = jax.tree.leaves((self.parameters, values, observed))
        if namespace(*arrays) is jnp:
            return _table(self.statistic, self.parameters, values, observed)
        values, observed = filled_up(values, observed, padded_size(max(values.shape[1], 1)))
        num_rows, per_row = len(values), self.statistic.numbers_per_row(self.parameters, values)
        with jax.enable_x64(True), placed(per_row * num_rows * len(arrays[0])):
            return over_chunks(
                lambda rows: _table_compiled(self.statistic, self.parameters, *rows),
                (values, observed),
                num_rows,
                max(int(CHUNK_NUMBERS / per_row), 1),
            )


def _with_class(parameters: Parameters, summary: KeptRows) -> tuple[dict[str, Array], KeptRows]:
    """Parameters and rows of one class, with an axis for it."""
    return {name: value[None] for name, value in parameters.items()}, dataclasses.replace(summary, num_classes=1)


def _called(
    function: Callable[..., Result], statistic: LatentStatistic, parameters: Parameters, summary: KeptRows
) -> Result:
    """What a compiled function gives of rows, padded to shapes that little is compiled for."""
    padded = summary.padded()
    work = statistic.numbers_per_row(parameters, padded.values) * len(padded.places)
    with jax.enable_x64(True), placed(work):
        return function(statistic, dict(parameters), padded)


def _table(
    statistic: LatentStatistic,
    parameters: Parameters,
    values: Real[Array, "n T ..."],
    observed: Bool[Array, "n T ..."] | None,
) -> Float[Array, "n K"]:
    """Log density of each row under each class: as many classes at once as there is room for."""

    def of_class(of_one: dict[str, Array]) -> Float[Array, " n"]:
        of_one = {name: value[None] for name, value in of_one.items()}
        return statistic.log_probs(of_one, values, observed, jnp.zeros(len(values), int))

    at_once = int(CHUNK_NUMBERS / (len(values) * statistic.numbers_per_row(parameters, values) + 1))
    stacked = {name: jnp.asarray(value) for name, value in parameters.items()}
    num_classes = len(next(iter(stacked.values())))
    return jax.lax.map(of_class, stacked, batch_size=min(max(at_once, 1), num_classes)).T


def _log_likelihood(statistic: LatentStatistic, parameters: Parameters, summary: KeptRows) -> Float[Array, " K"]:
    """Sums by class of weighted log densities, some entries at a time; gradients hold what belongs to these alone."""
    assert summary.num_classes is not None
    num_classes, num_entries = summary.num_classes, len(summary.places)
    if not num_entries:
        return jnp.zeros(num_classes)
    per_row = statistic.numbers_per_row(parameters, summary.values)
    size = min(max(int(CHUNK_NUMBERS / max(per_row, 1.0)), 1), num_entries)
    num_chunks = -(-num_entries // size)

    def of_entries(places: Int[Array, " e"], classes: Int[Array, " e"], weights: Float[Array, " e"]) -> Array:
        mask = None if summary.observed is None else jnp.asarray(summary.observed)[places]
        log_probs = statistic.log_probs(parameters, jnp.asarray(summary.values)[places], mask, classes)
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
    statistic: LatentStatistic, parameters: dict[str, Array], summary: KeptRows
) -> Float[Array, " K"]:
    return _log_likelihood(statistic, parameters, summary)


@functools.partial(jax.jit, static_argnums=0)
def _expected_counts(
    statistic: LatentStatistic, parameters: dict[str, Array], summary: KeptRows
) -> tuple[Float[Array, " K"], dict[str, Float[Array, "..."]]]:
    def total(parameters: dict[str, Array]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
        by_class = _log_likelihood(statistic, parameters, summary)
        return by_class.sum(), by_class

    counts, log_likelihood = jax.grad(total, has_aux=True)(parameters)
    return log_likelihood, counts


@functools.partial(jax.jit, static_argnums=0)
def _table_compiled(
    statistic: LatentStatistic,
    parameters: dict[str, Array],
    values: Real[Array, "n T ..."],
    observed: Bool[Array, "n T ..."] | None,
) -> Float[Array, "n K"]:
    return _table(statistic, parameters, values, observed)
