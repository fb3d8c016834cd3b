"""Tables of log-joints by running the program, at one process or at many, chunked over rows and draws."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows
from bayesgen.runtime import LEAST_ROWS, OwnedJit, carrying, in_threads, over_chunks, pad, padded_size, placed
from bayesgen.statistics import first_rows
from bayesgen.typing import Array, Float, Shaped

from .base import Arrays, Program
from .joint import Processes, ReferenceProcess, features_of, log_joint_table, log_joint_tables, processes, reference_of

CHUNK_ROWS = 8192
BATCH_OF_TABLE = 100  # draws that are looked at together where the table of all is wanted
CACHE_BYTES = 2e6  # for the same on a processor, whose caches are fast and whose calls cost little
BUDGET_BYTES = 64e6  # for one table of (draws in a batch, rows, classes), and for the rows
MOST_IN_SINGLE = 128.0  # size of a deviation that single precision gives to about 1e-5, and at worst to 1e-4


def program_table(program: Program, latents: Arrays, rows: Rows) -> Float[np.ndarray, "n K"]:
    """log p(x_i, y = k | latents)."""
    latents = _known(program, latents)
    chunk = min(CHUNK_ROWS, _rows_that_fit(rows))
    with jax.enable_x64(True), placed(_work(program, rows, chunk)):
        return over_chunks(lambda part: log_joint(program, latents, part), rows, rows.num_rows, chunk)


log_joint = OwnedJit(log_joint_table)


def log_joint_draws(program: Program, latents: Arrays, rows: Rows) -> Float[np.ndarray, "draws n K"]:
    """The table of every draw, whole in memory. Latents have one leading axis."""
    num_draws = len(next(iter(latents.values())))
    num_batches = max(1, math.ceil(num_draws / BATCH_OF_TABLE))
    size = math.ceil(num_draws / num_batches)
    whole = {name: pad(np.asarray(value), num_batches * size) for name, value in latents.items()}
    batches = {name: value.reshape(num_batches, size, *value.shape[1:]) for name, value in whole.items()}
    return np.moveaxis(reduce_draws(program, batches, rows, WHOLE)["log_joint"], 0, 1)[:num_draws]


@dataclasses.dataclass(frozen=True)
class Reduction:
    """What is made of the log-joints of rows under many processes, batch by batch.

    Both functions are traceable ones of a module, not new ones each time: they are compiled once.

    Attributes:
        of_batch: anchors (K, n) and deviations from them (K, batch, n) -> any arrays.
        of_all: the same arrays, stacked along a first axis -> arrays with the rows as first axis.
        precision: of the deviations, "float32" or "float64". Anchors are always in double precision, and deviations of
            rows so far from everything that single precision would not give four decimals of their logs.
    """

    of_batch: Callable[[Array, Array], Any]
    of_all: Callable[[Any], Any]
    precision: str


def _table(anchor: Float[Array, "K n"], deviations: Float[Array, "K batch n"]) -> Float[Array, "K batch n"]:
    return anchor[:, None] + deviations


def _draws_of_rows(tables: Float[Array, "batches K batch n"]) -> dict[str, Float[Array, "n draws K"]]:
    batches, num_classes, size, num_rows = tables.shape
    return {"log_joint": tables.transpose(3, 0, 2, 1).reshape(num_rows, batches * size, num_classes)}


WHOLE = Reduction(_table, _draws_of_rows, "float64")


def reduce_draws(program: Program, batches: Arrays, rows: Rows, reduction: Reduction) -> Any:
    """What a reduction makes of the tables of batches of draws: arrays (n, ...), as it gives them.

    Args:
        program: of the draws.
        batches: site -> (batches, draws, ...), as `bayesgen.runtime.in_batches` gives them.
        rows: the data.
        reduction: what is made of the tables.
    """
    num_draws = next(iter(batches.values())).shape[1]
    with jax.enable_x64(True), placed(_work(program, rows, CHUNK_ROWS, num_draws)) as device:
        examples, known = first_rows(rows.covariates, program.num_classes), _known(program, batches)
        reference, ready, squares = _prepare(
            program, known, examples, precision=reduction.precision, masked=tuple(rows.observed)
        )
        budget = CACHE_BYTES if device.platform == "cpu" else BUDGET_BYTES
        num_features = ready.natural_parameters.shape[-1]
        numbers_per_row = program.num_classes * max(num_draws, num_features)  # of the tables, and of the features
        chunk = _rows_that_fit(rows, numbers_per_row, budget)

        def reduced_rows(part: Rows) -> Any:
            return _reduce(program, reference, ready, squares, part, reduction=reduction)

        reduced, sizes = over_chunks(reduced_rows, rows, rows.num_rows, chunk, each=_mostly_in_threads)
    far = np.flatnonzero(~(sizes <= MOST_IN_SINGLE))  # NaN where single precision overflows
    if reduction.precision == "float64" or not len(far):
        return reduced
    in_double = dataclasses.replace(reduction, precision="float64")
    of_far_rows = reduce_draws(program, batches, rows.take(far), in_double)

    def put(array: Shaped[np.ndarray, "n ..."], values: Shaped[np.ndarray, "far ..."]) -> np.ndarray:
        array[far] = values
        return array

    return jax.tree.map(put, reduced, of_far_rows)


def _mostly_in_threads(function: Callable[[slice], Any], parts: Sequence[slice]) -> list[Any]:
    """The results for all parts. What may have to be compiled runs the program, and that in this thread."""
    *whole, last = parts
    first, end = list(map(function, whole[:1])), [function(last)]
    return [*first, *in_threads(carrying(function), whole[1:]), *end]


@functools.partial(OwnedJit, static_argnames=("precision", "masked"))
def _prepare(
    program: Program,
    batches: Arrays,
    covariates: Arrays,
    *,
    precision: str,
    masked: tuple[str, ...],
) -> tuple[ReferenceProcess, Processes, Float[Array, "K F"]]:
    """The reference, the processes of each batch, and the largest squares of natural parameters.

    Made batch by batch, so that no more is whole.
    """
    draws = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), batches)
    reference = reference_of(program, draws, covariates, masked)
    ready = jax.lax.map(lambda batch: processes(program, reference, batch, covariates, precision), batches)
    return reference, ready, jnp.square(jnp.abs(ready.natural_parameters).max((0, 2)).astype(float))


@functools.partial(OwnedJit, static_argnames="reduction")
def _reduce(
    program: Program,
    reference: ReferenceProcess,
    batches: Processes,
    largest_squares: Float[Array, "K F"],
    rows: Rows,
    *,
    reduction: Reduction,
) -> tuple[Any, Float[Array, " n"]]:
    """What the reduction makes of rows, and the sizes of their largest deviations."""
    features = features_of(reference, rows, reduction.precision)

    def of_batch(draws: Processes) -> Any:
        return reduction.of_batch(*log_joint_tables(program, reference, draws, features, rows))

    squares = jnp.einsum("kf,kfn->kn", largest_squares, jnp.square(features.features.astype(float)))
    return reduction.of_all(jax.lax.map(of_batch, batches)), jnp.sqrt(squares.max(0))


def _rows_that_fit(rows: Rows, numbers_per_row: int = 1, budget: float = BUDGET_BYTES) -> int:
    """How many rows at once: those of which neither a table nor the cells, if they were sparse, take much memory."""
    cells = sum(math.prod(array.shape[1:]) for array in rows.values.values())
    return padded_size(max(LEAST_ROWS, int(budget / (8 * max(numbers_per_row, cells)))) // 2)


def _work(program: Program, rows: Rows, chunk: int, num_draws: int = 1) -> float:
    """Multiplications of one call, roughly: one for each cell of the rows, class and draw."""
    cells = sum(math.prod(array.shape[1:]) for array in rows.values.values()) * min(chunk, rows.num_rows)
    return float(num_draws * program.num_classes * cells)


def _known(program: Program, latents: Arrays) -> dict[str, Array]:
    """The latents that are sites of the program (fixed class probabilities are not)."""
    return {name: latents[name] for name in program.latents}
