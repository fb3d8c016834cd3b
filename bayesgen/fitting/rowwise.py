"""Tables of log-joints by running the program, at one process or at many, chunked over rows and draws."""

import functools
import math

import jax
import numpy as np

from ..devices import placed
from ..program.compiled import pad, padded_size
from ..program.joint import log_joint_table

CHUNK_ROWS = 8192
BUDGET_BYTES = 64e6  # for one table of (draws in a batch, rows, classes), and for the rows


def log_joint(program, latents, attributes, covariates):
    """log p(x_i, y = k | latents), (n, K)."""
    latents = _known(program, latents)
    chunk = min(CHUNK_ROWS, _rows_that_fit(attributes))
    with jax.enable_x64(True), placed(_work(program, attributes, chunk)):
        parts = [
            np.asarray(_log_joint(program, latents, *rows))[:size]
            for size, rows in row_chunks(attributes, covariates, chunk)
        ]
    return np.concatenate(parts)


_log_joint = jax.jit(log_joint_table)


def log_joint_draws(program, latents, attributes, covariates):
    """The table of every draw, (draws, n, K), whole in memory. Latents have one leading axis."""
    return np.concatenate(
        [np.concatenate(part, axis=0) for part in _tables(program, latents, attributes, covariates)], axis=1
    )


def _tables(program, latents, attributes, covariates):
    for size, batches in _batches_of_rows(program, latents, attributes, covariates, 100, _identity):
        yield [np.asarray(table)[:, :size] for table in batches]


def _identity(table):
    return table


def reduce_draws(program, latents, attributes, covariates, batch_size, kernel):
    """Apply a kernel to the tables of successive batches of draws.

    Args:
        latents: site -> (draws, ...); the number of draws is a multiple of `batch_size`.
        kernel: traceable function, (batch, n, K) log-joints -> dict of arrays with the rows as first axis. It is a
            static argument: pass a function of a module, not a new one each time.

    Returns:
        Dict of arrays (batches, n, ...).
    """
    parts = []
    for size, batches in _batches_of_rows(program, latents, attributes, covariates, batch_size, kernel):
        stacked = jax.tree.map(
            lambda *leaves: np.stack(leaves), *[jax.tree.map(np.asarray, batch) for batch in batches]
        )
        parts.append(jax.tree.map(lambda leaf: leaf[:, :size], stacked))  # noqa: B023
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)


def _batches_of_rows(program, latents, attributes, covariates, batch_size, kernel):
    latents = _known(program, latents)
    num_draws = len(next(iter(latents.values())))
    chunk = _rows_that_fit(attributes, batch_size * program.num_classes)
    with jax.enable_x64(True), placed(_work(program, attributes, chunk, batch_size)):
        on_device = jax.device_put(latents)
        for size, rows in row_chunks(attributes, covariates, chunk):
            batches = []
            for start in range(0, num_draws, batch_size):
                part = {name: value[start : start + batch_size] for name, value in on_device.items()}
                batches.append(_reduce(program, part, *rows, kernel=kernel))
            yield size, batches


@functools.partial(jax.jit, static_argnames="kernel")
def _reduce(program, latents, attributes, covariates, *, kernel):
    tables = jax.vmap(lambda one: log_joint_table(program, one, attributes, covariates))(latents)
    return kernel(tables)


def row_chunks(attributes, covariates, chunk):
    """Yield (number of rows, (attributes, covariates)) padded to sizes that are compiled once."""
    num_rows = next(iter(attributes.values())).shape[0]
    for start in range(0, num_rows, chunk):
        part = jax.tree.map(lambda array: _dense(array[start : start + chunk]), (attributes, covariates))  # noqa: B023
        size = min(chunk, num_rows - start)
        yield size, jax.tree.map(lambda array: pad(array, padded_size(size)), part)  # noqa: B023


def _rows_that_fit(attributes, numbers_per_row=1):
    """How many rows at once: those of which neither a table nor the cells, if they were sparse, take much memory."""
    cells = sum(math.prod(array.shape[1:]) for array in attributes.values())
    return padded_size(max(64, int(BUDGET_BYTES / (8 * max(numbers_per_row, cells)))) // 2)


def _dense(array):
    return array.toarray() if hasattr(array, "toarray") else np.asarray(array)


def _work(program, attributes, chunk, num_draws=1):
    """Multiplications of one call, roughly: one for each cell of the rows, class and draw."""
    cells = sum(min(chunk, array.shape[0]) * math.prod(array.shape[1:]) for array in attributes.values())
    return num_draws * program.num_classes * cells


def _known(program, latents):
    """The latents that are sites of the program (fixed class probabilities are not)."""
    return {name: latents[name] for name in program.latents}
