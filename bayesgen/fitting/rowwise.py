"""Tables of log-joints by running the program, at one process or at many, chunked over rows and draws."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from ..devices import carrying, placed
from ..program.compiled import pad, padded_size
from ..program.joint import log_joint_table, log_joint_tables
from ..statistics.passes import chunks
from ..threads import in_threads

CHUNK_ROWS = 8192
CACHE_BYTES = 2e6  # for the same on a processor, whose caches are fast and whose calls cost little
BUDGET_BYTES = 64e6  # for one table of (draws in a batch, rows, classes), and for the rows


def program_table(program, latents, attributes, covariates):
    """log p(x_i, y = k | latents), (n, K)."""
    latents = _known(program, latents)
    chunk = min(CHUNK_ROWS, _rows_that_fit(attributes))
    with jax.enable_x64(True), placed(_work(program, attributes, chunk)):
        parts = [
            np.asarray(_log_joint(program, latents, *_padded_rows(attributes, covariates, part)))[: _size(part)]
            for part in chunks(_num_rows(attributes), chunk)
        ]
    return np.concatenate(parts)


_log_joint = jax.jit(log_joint_table)


def log_joint_draws(program, latents, attributes, covariates):
    """The table of every draw, (draws, n, K), whole in memory. Latents have one leading axis."""
    batch_size = math.gcd(len(next(iter(latents.values()))), 100)
    tables = reduce_draws(program, latents, attributes, covariates, batch_size, _rows_first)
    return np.moveaxis(tables, 1, 2).reshape(-1, tables.shape[1], tables.shape[3])


def _rows_first(tables):
    return jnp.moveaxis(tables, 2, 0)


def reduce_draws(program, latents, attributes, covariates, batch_size, kernel):
    """Apply a kernel to the tables of successive batches of draws.

    Args:
        latents: site -> (draws, ...); the number of draws is a multiple of `batch_size`.
        kernel: traceable function, (batch, K, n) log-joints -> arrays with the rows as first axis. It is a static
            argument: pass a function of a module, not a new one each time.

    Returns:
        Arrays (batches, n, ...), as the kernel gives them.
    """
    batches = {
        name: np.reshape(value, (-1, batch_size, *value.shape[1:])) for name, value in _known(program, latents).items()
    }
    numbers_per_row = batch_size * program.num_classes
    with jax.enable_x64(True), placed(_work(program, attributes, CHUNK_ROWS, batch_size)) as device:
        budget = CACHE_BYTES if device.platform == "cpu" else BUDGET_BYTES
        chunk = _rows_that_fit(attributes, numbers_per_row, budget)
        on_device = jax.device_put(batches)

        def of_rows(part):
            reduced = _reduce(program, on_device, *_padded_rows(attributes, covariates, part), kernel=kernel)
            return jax.tree.map(lambda leaf: np.asarray(leaf)[:, : _size(part)], reduced)

        *whole, last = chunks(_num_rows(attributes), chunk)
        # in this thread what may have to be compiled, because it runs the program; the others run what is compiled
        first, end = map(of_rows, whole[:1]), [of_rows(last)]
        parts = [*first, *in_threads(carrying(of_rows), whole[1:]), *end]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)


@functools.partial(jax.jit, static_argnames="kernel")
def _reduce(program, batches, attributes, covariates, *, kernel):
    return jax.lax.map(lambda one: kernel(log_joint_tables(program, one, attributes, covariates)), batches)


def _padded_rows(attributes, covariates, part):
    """(attributes, covariates) of some rows, padded to a size that is compiled once."""
    rows = jax.tree.map(lambda array: _dense(array[part]), (attributes, covariates))
    return jax.tree.map(lambda array: pad(array, padded_size(_size(part))), rows)


def _size(part):
    return part.stop - part.start


def _num_rows(attributes):
    return next(iter(attributes.values())).shape[0]


def _rows_that_fit(attributes, numbers_per_row=1, budget=BUDGET_BYTES):
    """How many rows at once: those of which neither a table nor the cells, if they were sparse, take much memory."""
    cells = sum(math.prod(array.shape[1:]) for array in attributes.values())
    return padded_size(max(64, int(budget / (8 * max(numbers_per_row, cells)))) // 2)


def _dense(array):
    return array.toarray() if hasattr(array, "toarray") else np.asarray(array)


def _work(program, attributes, chunk, num_draws=1):
    """Multiplications of one call, roughly: one for each cell of the rows, class and draw."""
    cells = sum(min(chunk, array.shape[0]) * math.prod(array.shape[1:]) for array in attributes.values())
    return num_draws * program.num_classes * cells


def _known(program, latents):
    """The latents that are sites of the program (fixed class probabilities are not)."""
    return {name: latents[name] for name in program.latents}
