"""Where and how work runs: devices, threads, random numbers, progress."""

from .chunking import (
    LEAST_ROWS,
    checked_chunks,
    chunks,
    even_chunks,
    in_batches,
    over_chunks,
    pad,
    padded_size,
    table_chunks,
)
from .compilation import OwnedJit, Traced, compiled, needed_equations
from .devices import carrying, check_not_forked, placed, requested, used
from .progress import bar
from .seeds import as_key, check_seed, generator, positions
from .threads import (
    SINGLE_THREADED_BLAS,
    Pool,
    all_in_threads,
    in_threads,
    interruptibly,
    interrupts_kept,
    num_cores,
)

__all__ = [
    "LEAST_ROWS",
    "SINGLE_THREADED_BLAS",
    "OwnedJit",
    "Pool",
    "Traced",
    "all_in_threads",
    "as_key",
    "bar",
    "carrying",
    "check_not_forked",
    "check_seed",
    "checked_chunks",
    "chunks",
    "compiled",
    "even_chunks",
    "generator",
    "in_batches",
    "in_threads",
    "interruptibly",
    "interrupts_kept",
    "needed_equations",
    "num_cores",
    "over_chunks",
    "pad",
    "padded_size",
    "placed",
    "positions",
    "requested",
    "table_chunks",
    "used",
]
