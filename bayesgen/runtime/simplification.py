"""Traced functions with fewer operations: constants computed beforehand, nothing twice, no lookup at known positions.

NumPyro checks and evaluates a site several times in one run, with constants that are the same in each. What a program
computes of its latents is a third of what is traced. Derivatives, compilation and every step of a sampler are the
quicker for it.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from bayesgen.typing import Array, P, Result

from .compilation import JITTED, Interpreter, Variable, numpy_results, traced_results
from .operations import looked_up

MOST_FOLDED = 4096  # numbers of a constant that is computed beforehand
MOST_LOOKED_UP = 1 << 16  # numbers of an array that is looked up by slices
MOST_SLICES = 32  # in place of one lookup


def simplified(function: Callable[P, Result]) -> Callable[P, Result]:
    """The function of pytrees, to be traced, with fewer operations."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args, **kwargs)
        results = _Simplifier().read(closed.jaxpr, closed.consts, jax.tree.leaves((args, kwargs)))
        return jax.tree.unflatten(jax.tree.structure(shapes), map(jnp.asarray, results))

    return call


@final
class _Simplifier(Interpreter[Any]):
    """Values are NumPy arrays where they are known, else tracers. Functions with derivatives of their own are left."""

    calls = JITTED

    def __init__(self) -> None:
        self._results: dict[Hashable, tuple[Sequence[Any], Sequence[Any]]] = {}  # with operands, whose ids are keys

    def constant(self, value: Any, variable: Variable) -> Any:
        is_known = _are_small([variable]) and not isinstance(value, jax.core.Tracer)
        return np.asarray(value, variable.aval.dtype) if is_known else value  # type: ignore[attr-defined]

    def results(self, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        contents = (
            (value.shape, value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else id(value)
            for value in operands
        )
        key: Hashable = equation.primitive, tuple(equation.params.items()), tuple(contents)
        try:
            known = self._results.get(key)
        except TypeError:  # parameters that cannot be compared
            known, key = None, id(equation)
        self._results[key] = known or (_evaluated(equation, operands), operands)
        return self._results[key][0]


def _are_small(variables: Sequence[Variable]) -> bool:
    avals: list[Any] = [variable.aval for variable in variables]
    return all(isinstance(aval.dtype, np.dtype) and aval.size <= MOST_FOLDED for aval in avals)


def _evaluated(equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an operation: by NumPy where all operands are known."""
    if _are_small(equation.outvars) and all(isinstance(value, np.ndarray) for value in operands):
        with np.errstate(all="ignore"):
            known = numpy_results(equation, operands)
        if known is not None:
            avals: list[Any] = [variable.aval for variable in equation.outvars]
            return [np.asarray(result, aval.dtype) for result, aval in zip(known, avals, strict=True)]
    elif equation.primitive.name in ("gather", "scatter-add") and isinstance(operands[1], np.ndarray):
        result = _by_slices(equation, *operands)
        if result is not None:
            return [result]
    return traced_results(equation, operands)


def _by_slices(equation: JaxprEqn, array: Any, indices: np.ndarray, updates: Any = None) -> Array | None:
    """The result of a gather, or of a sum by positions, that are known: by slices and paddings, which XLA fuses.

    XLA makes a loop of each sum by positions, among them the derivative of each gather. Looking up the parameters of
    each class is none at all. None where there would be many slices.
    """
    positions = looked_up(array.shape, indices, equation.params, None if updates is None else updates.shape).ravel()
    shape = equation.outvars[0].aval.shape  # type: ignore[attr-defined]
    if updates is None and np.array_equal(positions, np.arange(array.size)):
        return jax.lax.reshape(array, shape)
    table = positions.reshape(array.shape[0] if array.shape and len(positions) % array.shape[0] == 0 else 1, -1)
    if not np.array_equal(table, table[:1] + array.size // len(table) * np.arange(len(table))[:, None]):
        table = positions[None]  # they are not the same in each row
    slices, width = _slices(table[0].tolist()), array.size // len(table)
    is_twice = updates is not None and len(np.unique(positions)) < len(positions)
    if not 0 < len(slices) <= MOST_SLICES or array.size > MOST_LOOKED_UP or is_twice or positions.min(initial=0) < 0:
        return None
    rows = jax.lax.reshape(array, (len(table), width))
    if updates is None:
        parts = [jax.lax.slice_in_dim(rows, run.start, run.stop, run.step, axis=1) for run in slices]
        return jax.lax.reshape(jnp.concatenate(parts, 1), shape)
    cells, first = jax.lax.reshape(updates, table.shape), 0
    for run in slices:
        part = jax.lax.slice_in_dim(cells, first, first := first + len(run), axis=1)
        edges = (0, 0, 0), (run[0], width - 1 - run[-1], run.step - 1)
        rows = rows + jax.lax.pad(part, np.zeros((), part.dtype), edges)
    return jax.lax.reshape(rows, shape)


def _slices(positions: Sequence[int]) -> list[range]:
    """Ascending arithmetic progressions that positions are made of, one after another."""
    slices: list[range] = []
    for position in positions:
        last = slices[-1] if slices else range(0)
        step = position - last[-1] if last else 0
        if step > 0 and (len(last) == 1 or step == last.step):
            slices[-1] = range(last[0], position + 1, step)
        else:
            slices.append(range(position, position + 1))
    return slices
