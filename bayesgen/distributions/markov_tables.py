"""The tables of Markov chains as they are stated, and as they are kept: one axis of contexts, none with the end."""

import math
from typing import Any

import jax
import numpy as np
from jax import lax

from bayesgen.errors import ModelError
from bayesgen.typing import Array, Float, Int

from .contexts import Contexts
from .sequences import is_whole


def flat_tables(initial: Any, transition: Any, order: int | None, end: int | None) -> tuple[Array | None, Array]:
    """`initial` and `transition` of a chain, as arrays with flat contexts."""
    arrays = None if initial is None else _numbers(initial), _flat(_numbers(transition), order, end)
    return arrays if end is None else _without_end(*arrays, end)


def _numbers(values: Any) -> Float[Array, "..."]:
    """Numbers as an array: of JAX where they are that, else of NumPy."""
    return values if isinstance(values, jax.Array) else np.asarray(values, np.float64)


def _without_end(initial: Array | None, transition: Array, end: int) -> tuple[Array | None, Array]:
    """Tables without rows for contexts that hold the end: nothing follows it, whatever square matrices say."""
    num_rows, num_symbols = (1, *transition.shape)[-2:]
    order = round(math.log(num_rows, num_symbols)) if num_symbols > 1 else 0
    if not order or num_symbols**order != num_rows or not (is_whole(end) and 0 <= end < num_symbols):
        return initial, transition
    groups = [_places_without(end, num_symbols, length) for length in range(order + 1)]
    whole = Contexts(order, num_symbols)
    if order > 1 and initial is not None and initial.shape[-2:-1] == (whole.num_starts,):
        starts = np.concatenate([whole.offset(length) + groups[length] for length in range(order)])
        initial = initial[..., starts, :]
    return initial, transition[..., groups[order], :]


def _places_without(end: int, num_symbols: int, length: int) -> Int[np.ndarray, " contexts"]:
    """The places of contexts of so many symbols, none of which is the end, the latest symbol varying fastest."""
    others, places = np.delete(np.arange(num_symbols), end), np.zeros(1, int)
    for _ in range(length):
        places = (places[:, None] * num_symbols + others).ravel()
    return places


def _flat(transition: Float[Array, "..."], order: int | None, end: int | None) -> Float[Array, "... contexts r"]:
    """One axis of contexts, where there is one for each symbol before."""
    if order is None or order < 2 or transition.ndim <= order:
        return transition
    sizes, num_symbols = set(transition.shape[-order - 1 : -1]), transition.shape[-1]
    if len(sizes) > 1 or not sizes <= {num_symbols, num_symbols - (end is not None)} - {1}:
        return transition
    return transition.reshape(*transition.shape[: -order - 1], sizes.pop() ** order, num_symbols)


def batch_of(transition: tuple[int, ...], starts: tuple[int, ...] | None) -> tuple[int, ...]:
    """The batch shape of both."""
    try:
        return lax.broadcast_shapes(transition[:-2], () if starts is None else starts[:-2])
    except ValueError:
        raise ModelError(
            f"MarkovChain: transition has the shape {transition} and initial that of {starts} as a table, whose first "
            "axes, all but the last two, are of chains and have to broadcast. Contexts of k symbols have one axis, "
            "(..., r^k, r); give order=k where they have one for each symbol."
        ) from None


def order_of(initial: Array | None, transition: Array, stated: int | None, end: int | None) -> int:
    """The order of which the tables are."""
    if transition.ndim < 2:
        raise ModelError(f"MarkovChain: transition has the shape {transition.shape}, and needs (..., r^k, r).")
    num_rows, num_symbols = transition.shape[-2:]
    if end is not None and not (is_whole(end) and 0 <= end < num_symbols):
        raise ModelError(f"MarkovChain: end={end!r} is none of the codes 0 to {num_symbols - 1}.")
    if end is not None and num_symbols == 1:
        raise ModelError("MarkovChain: the end is the only symbol. Give rows with one more.")
    num_before = Contexts(0, num_symbols, end).num_before
    order = 0 if initial is None else 1
    while stated is None and num_before > 1 and num_before**order < num_rows:
        order += 1
    order = order if stated is None else stated
    if num_before**order != num_rows or (initial is None) != (order == 0):
        besides = "" if end is None else " besides the end"
        raise ModelError(
            f"MarkovChain: transition has {num_rows} rows for contexts of {num_before} symbols{besides}, which are "
            f"those of no order k: it needs {num_before}^k, and initial, unless k = 0. Give one row for each k symbols."
        )
    num_starts = Contexts(order, num_symbols, end).num_starts
    needed = (num_symbols,) if order == 1 else (num_starts, num_symbols)
    if initial is not None and initial.shape[-len(needed) :] != needed:
        raise ModelError(
            f"MarkovChain: initial has the shape {initial.shape}, and a chain of order {order} over {num_symbols} "
            f"symbols needs {('...', *needed)}: one row for each beginning of fewer than {order} symbols."
        )
    return order
