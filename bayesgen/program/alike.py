"""What jaxprs tell of a function of rows: whether it does the same with any number of them, and knows their places."""

import enum
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var, jaxprs_in_params

# operations that give rows their number, or treat some of them otherwise than others
_OF_PLACES = {"iota", "sort", "rev", "concatenate", "pad", "slice", "argmax", "argmin", "scan", "while"}
_KINDS_OF_PLACES = ("cum", "scatter", "dynamic_", "reduce_window")
_PLAIN = (str, bytes, bool, type(None), np.dtype, enum.Enum)

Sizes = tuple[int, int]  # the numbers of rows that two functions were traced at


def alike(first: ClosedJaxpr, second: ClosedJaxpr, sizes: Sizes) -> bool:
    """Whether two jaxprs differ in nothing but the numbers of rows that they were traced at.

    They must have the same operations on the same operands and numbers; shapes may hold the one number of rows where
    those of the other hold the other. Constants with a row axis must be the same in all rows. What is alike may still
    treat rows by their position (`jnp.arange(n) > 150`).
    """
    return _same(first, second, sizes)


def _same(first: Any, second: Any, sizes: Sizes) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, ClosedJaxpr):  # in later versions of JAX the one type of jaxprs, its own `jaxpr`
        if len(first.consts) != len(second.consts) or not _same_operations(first.jaxpr, second.jaxpr, sizes):
            return False
        return all(_same_numbers(*pair, sizes) for pair in zip(first.consts, second.consts, strict=True))
    if isinstance(first, Jaxpr):
        return _same_operations(first, second, sizes)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(_same(*pair, sizes) for pair in zip(first, second, strict=True))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(value, second[name], sizes) for name, value in first.items())
    if isinstance(first, int) and not isinstance(first, bool):
        return first == second or (first, second) == sizes
    if isinstance(first, float | complex | np.ndarray | np.generic | jax.Array):
        return _same_numbers(first, second, sizes)
    return not isinstance(first, _PLAIN) or first == second  # others (rules for derivatives) come with the operation


def _same_operations(first: Jaxpr, second: Jaxpr, sizes: Sizes) -> bool:
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
        len(first.eqns) == len(second.eqns)
        and same_operands([*first.constvars, *first.invars], [*second.constvars, *second.invars])
        and all(
            equation.primitive is other.primitive
            and same_operands(equation.invars, other.invars)
            and same_operands(equation.outvars, other.outvars)
            and _same(dict(equation.params), dict(other.params), sizes)
            for equation, other in zip(first.eqns, second.eqns, strict=True)
        )
        and same_operands(first.outvars, second.outvars)
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


def knows_places(jaxpr: Jaxpr, size: int) -> bool:
    """Whether what a jaxpr gives comes from operations on arrays of `size` rows that may tell a row by its place."""
    needed = {var for var in jaxpr.outvars if not isinstance(var, Literal)}
    for equation in reversed(jaxpr.eqns):
        if needed.isdisjoint(equation.outvars):
            continue
        name, operands = equation.primitive.name, [var for var in equation.invars if not isinstance(var, Literal)]
        needed.update(operands)
        of_rows = any(size in getattr(var.aval, "shape", ()) for var in (*operands, *equation.outvars))
        if of_rows and (name in _OF_PLACES or name.startswith(_KINDS_OF_PLACES)):
            return True
        if any(knows_places(inner, size) for inner in jaxprs_in_params(equation.params)):
            return True
    return False


def _is_key(array: Any) -> bool:
    return isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
