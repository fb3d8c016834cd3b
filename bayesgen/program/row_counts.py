"""Whether a program does the same with other numbers of rows, by its traces."""

import enum
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var, jaxprs_in_params

from bayesgen.runtime import Traced, needed_equations

# operations whose result for a row may depend on its position
_POSITIONAL = {"iota", "sort", "rev", "concatenate", "pad", "slice", "argmax", "argmin", "scan", "while"}
_POSITIONAL_PREFIXES = ("cum", "scatter", "dynamic_", "reduce_window")
_PLAIN = (str, bytes, bool, type(None), np.dtype, enum.Enum)

Sizes = tuple[int, int]  # numbers of rows of two traces


def equal_up_to_size(first: Traced, second: Traced, sizes: Sizes) -> bool:
    """Whether two traces are equal up to the numbers of rows that they were traced at.

    Operations, operands and numbers must be equal; shapes may differ by the numbers of rows. Constants with a row axis
    must be equal in all rows. Equal traces may still treat rows by their position (`jnp.arange(n) > 150`).
    """
    constants, others = _constants(first), _constants(second)
    return (
        len(constants) == len(others)
        and _same_operations(_Operations.of(first, constants), _Operations.of(second, others), sizes)
        and all(map(lambda one, other: _same_numbers(one, other, sizes), constants.values(), others.values()))
    )


def depends_on_position(traced: Traced, size: int) -> bool:
    """Whether results come from operations that depend on positions in arrays of `size` rows."""
    return any(_depends_on_position(equation, size) for equation in traced.equations)


def _depends_on_position(equation: Any, size: int) -> bool:
    name, variables = equation.primitive.name, (*equation.invars, *equation.outvars)
    of_rows = any(size in getattr(var.aval, "shape", ()) for var in variables if not isinstance(var, Literal))
    if of_rows and (name in _POSITIONAL or name.startswith(_POSITIONAL_PREFIXES)):
        return True
    return any(
        _depends_on_position(part, size)
        for inner in jaxprs_in_params(equation.params)
        for part in needed_equations(inner, inner.outvars)
    )


def _constants(traced: Traced) -> dict[Var, Any]:
    """The constants that the results need."""
    used = {id(var) for equation in traced.equations for var in equation.invars} | set(map(id, traced.variables))
    pairs = zip(traced.jaxpr.jaxpr.constvars, traced.jaxpr.consts, strict=True)
    return {var: value for var, value in pairs if id(var) in used}


class _Operations(NamedTuple):
    """Inputs, equations and results of a jaxpr."""

    inputs: Sequence[Any]
    equations: Sequence[Any]
    results: Sequence[Any]

    @classmethod
    def of(cls, traced: Traced, constants: Iterable[Any]) -> "_Operations":
        return cls([*constants, *traced.jaxpr.jaxpr.invars], traced.equations, traced.variables)


def _same(first: Any, second: Any, sizes: Sizes) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, ClosedJaxpr):  # in later versions of JAX the one type of jaxprs, its own `jaxpr`
        if len(first.consts) != len(second.consts) or not _same_jaxprs(first.jaxpr, second.jaxpr, sizes):
            return False
        return all(_same_numbers(*pair, sizes) for pair in zip(first.consts, second.consts, strict=True))
    if isinstance(first, Jaxpr):
        return _same_jaxprs(first, second, sizes)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(_same(*pair, sizes) for pair in zip(first, second, strict=True))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(value, second[name], sizes) for name, value in first.items())
    if isinstance(first, int) and not isinstance(first, bool):
        return first == second or (first, second) == sizes
    if isinstance(first, float | complex | np.ndarray | np.generic | jax.Array):
        return _same_numbers(first, second, sizes)
    return not isinstance(first, _PLAIN) or first == second  # others (rules for derivatives) belong to the operation


def _same_jaxprs(first: Jaxpr, second: Jaxpr, sizes: Sizes) -> bool:
    one, other = (_Operations([*j.constvars, *j.invars], j.eqns, j.outvars) for j in (first, second))
    return _same_operations(one, other, sizes)


def _same_operations(first: _Operations, second: _Operations, sizes: Sizes) -> bool:
    variables: tuple[dict[Var, int], dict[Var, int]] = ({}, {})

    def same_operand(operand: Any, other: Any) -> bool:
        if isinstance(operand, Literal) or isinstance(other, Literal):
            literals = isinstance(operand, Literal) and isinstance(other, Literal)
            return literals and _same_numbers(operand.val, other.val, sizes)
        numbers = [known.setdefault(var, len(known)) for known, var in zip(variables, (operand, other), strict=True)]
        return numbers[0] == numbers[1] and _same(tuple(operand.aval.shape), tuple(other.aval.shape), sizes)

    def same_operands(operands: Sequence[Any], others: Sequence[Any]) -> bool:
        return len(operands) == len(others) and all(map(same_operand, operands, others))

    return (
        len(first.equations) == len(second.equations)
        and same_operands(first.inputs, second.inputs)
        and all(
            equation.primitive is other.primitive
            and same_operands(equation.invars, other.invars)
            and same_operands(equation.outvars, other.outvars)
            and _same(dict(equation.params), dict(other.params), sizes)
            for equation, other in zip(first.equations, second.equations, strict=True)
        )
        and same_operands(first.results, second.results)
    )


def _same_numbers(first: Any, second: Any, sizes: Sizes) -> bool:
    first, second = (jax.random.key_data(array) if _is_key(array) else array for array in (first, second))
    first, second = np.asarray(first), np.asarray(second)
    if not _same(first.shape, second.shape, sizes) or first.dtype != second.dtype:
        return False
    row_axes = [axis for axis, pair in enumerate(zip(first.shape, second.shape, strict=True)) if pair == sizes]
    for axis in row_axes:
        first_row, second_row = (np.take(array, [0], axis) for array in (first, second))
        if not ((first == first_row).all() and (second == second_row).all()):
            return False
        first, second = first_row, second_row
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def _is_key(array: Any) -> bool:
    return isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
