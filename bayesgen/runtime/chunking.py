"""Chunks of rows and batches of draws, so that memory is bounded; padding, so that few sizes are compiled."""

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from bayesgen.typing import Shaped

Tree = TypeVar("Tree")  # a pytree of arrays

# Sizes of chunks, in numbers or rows: `memory` in benchmarks measures what a fit takes beyond its input.
TABLE_CELLS = 1 << 22  # of a table: 32 MB as float64
LATENT_CELLS = 1 << 21  # of an array with the draws, states or processes beside the rows
THREAD_CELLS = 1 << 20  # for one thread: so many that threads work in parallel
CACHED_CELLS = 1 << 18  # with their temporary arrays, they stay in the cache of a core
FAST_CELLS = 1 << 15  # they stay in the fast cache of a core: `missing` and `hidden_markov` in benchmarks
CACHE_ROWS = 4096  # of few columns, which stay in the cache
LEAST_ROWS = 64  # below which the overhead of a chunk is a large part of its time


def chunks(num_rows: int, size: int = CACHE_ROWS) -> list[slice]:
    """Slices of this size, the last one perhaps smaller, that cover the rows."""
    return [slice(start, min(start + size, num_rows)) for start in range(0, num_rows, max(size, 1))]


def table_chunks(num_rows: int, cells_per_row: float) -> list[slice]:
    """Chunks of at most TABLE_CELLS cells. Their size is a power of two, so that few sizes are compiled."""
    most = TABLE_CELLS / max(1.0, cells_per_row)
    return chunks(num_rows, num_rows if num_rows <= most else max(LEAST_ROWS, 1 << int(math.log2(max(1.0, most)))))


def even_chunks(num_rows: int, most: float) -> list[slice]:
    """One chunk, or an even number of chunks of equal lengths and at most `most` rows, so that threads end together."""
    num_pairs = math.ceil(num_rows / max(2 * most, 2 * LEAST_ROWS))
    return chunks(num_rows, num_rows if num_rows <= max(most, LEAST_ROWS) else math.ceil(num_rows / (2 * num_pairs)))


def in_batches(
    draws: Mapping[str, Shaped[np.ndarray, "chains draws ..."]], num_batches: int = 100
) -> dict[str, Shaped[np.ndarray, "batches size ..."]]:
    """About `num_batches` batches of successive draws of one chain, all of one size, for batch means.

    Of chains whose length is no multiple of that size, the first few draws are left out. Means, errors, effective draws
    and tails of weights of one average are to be computed from the same batches.

    >>> batches = in_batches({"x": np.arange(14).reshape(2, 7)}, num_batches=6)
    >>> batches["x"].tolist()
    [[1, 2], [3, 4], [5, 6], [8, 9], [10, 11], [12, 13]]
    """
    num_chains, length = next(iter(draws.values())).shape[:2]
    size = max(1, length // max(1, round(num_batches / num_chains)))
    return {name: array[:, length % size :].reshape(-1, size, *array.shape[2:]) for name, array in draws.items()}


def padded_size(size: int) -> int:
    """The next size that row-wise functions are compiled for: 2^k or 3 * 2^(k-1)."""
    power = 1 << max(size - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


_LEAST_SIZE: contextvars.ContextVar[int] = contextvars.ContextVar("_LEAST_SIZE", default=1)


@contextlib.contextmanager
def compiled_for(num_rows: int) -> Iterator[None]:
    """Functions of fewer rows are compiled for this many, so that fits of ever more rows share them."""
    token = _LEAST_SIZE.set(num_rows)
    try:
        yield
    finally:
        _LEAST_SIZE.reset(token)


def shared_size(num_rows: int) -> int:
    """The number of rows, with those of weight zero, for which a function of so many rows is compiled."""
    return padded_size(max(num_rows, _LEAST_SIZE.get()))


def least_rows(cells_per_row: float) -> int:
    """The fewest rows that functions are compiled for: they stay in the fast cache and take hardly longer than one."""
    return max(8, min(LEAST_ROWS, int(FAST_CELLS / max(cells_per_row, 1.0))))


def pad(array: Shaped[np.ndarray, "n ..."], size: int) -> Shaped[np.ndarray, "size ..."]:
    """The array with its first row repeated, or ones where there is none, until there are `size` rows."""
    first = array[:1] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(first, size - len(array), axis=0)])


def over_chunks(
    function: Callable[[Tree], Any],
    rows: Tree,
    num_rows: int,
    size: int,
    *,
    least: int = 8,
    each: Callable[[Callable[[slice], Any], Sequence[slice]], Iterable[Any]] = map,
) -> Any:
    """A compiled function of rows, evaluated chunk by chunk.

    Args:
        function: rows -> arrays with the rows first.
        rows: any pytree of arrays with the rows first; sparse arrays are made dense.
        size: of a chunk. Smaller chunks are padded to few sizes.
        least: the smallest of these sizes; `size` itself for one compilation; `least_rows` where rows are few often.
        each: maps the function over the chunks.
    """

    def evaluate(chunk: slice) -> Any:
        count = chunk.stop - chunk.start
        length = padded_size(max(count, min(least, size)))
        padded = jax.tree.map(lambda array: pad(_dense(array[chunk]), length), rows)
        return jax.tree.map(lambda array: np.asarray(array)[:count], function(padded))

    parts = each(evaluate, chunks(num_rows, size) or [slice(0, 0)])
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def _dense(array: Any) -> np.ndarray:
    return array.toarray() if hasattr(array, "toarray") else np.asarray(array)
