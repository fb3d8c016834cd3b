"""What jaxprs tell of a function of rows: whether it does the same with any number of them, and knows their places."""

import enum
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params

# operations that give rows their number, or treat some of them otherwise than others
_OF_PLACES = {"iota", "sort", "rev", "concatenate", "pad", "slice", "argmax", "argmin", "scan", "while"}
_KINDS_OF_PLACES = ("cum", "scatter", "dynamic_", "reduce_window")
_PLAIN = (str, bytes, bool, type(None), np.dtype, enum.Enum)


def alike(one: ClosedJaxpr, two: ClosedJaxpr, sizes: tuple[int, int]) -> bool:
    """Whether two jaxprs differ in nothing but the numbers of rows that they were traced at.

    They must have the same operations on the same operands and numbers; shapes may hold the one number of rows where
    those of the other hold the other. Constants with a row axis must be the same in all rows. What is alike may still
    treat rows by their position (`jnp.arange(n) > 150`).
    """
    return _same(one, two, sizes)


def _same(one: Any, two: Any, sizes: tuple[int, int]) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, ClosedJaxpr):  # in later versions of JAX the one type of jaxprs, its own `jaxpr`
        if len(one.consts) != len(two.consts) or not _same_operations(one.jaxpr, two.jaxpr, sizes):
            return False
        return all(_same_numbers(*pair, sizes) for pair in zip(one.consts, two.consts, strict=True))
    if isinstance(one, Jaxpr):
        return _same_operations(one, two, sizes)
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(_same(*pair, sizes) for pair in zip(one, two, strict=True))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(value, two[name], sizes) for name, value in one.items())
    if isinstance(one, int) and not isinstance(one, bool):
        return one == two or (one, two) == sizes
    if isinstance(one, float | complex | np.ndarray | np.generic | jax.Array):
        return _same_numbers(one, two, sizes)
    return not isinstance(one, _PLAIN) or one == two  # others (rules for derivatives) come with the operation


def _same_operations(one: Jaxpr, two: Jaxpr, sizes: tuple[int, int]) -> bool:
    places: tuple[dict, dict] = ({}, {})

    def same(ours, theirs):
        if isinstance(ours, Literal) or isinstance(theirs, Literal):
            literals = isinstance(ours, Literal) and isinstance(theirs, Literal)
            return literals and _same_numbers(ours.val, theirs.val, sizes)
        first, second = (known.setdefault(var, len(known)) for known, var in zip(places, (ours, theirs), strict=True))
        return first == second and _same(tuple(ours.aval.shape), tuple(theirs.aval.shape), sizes)

    def all_same(ours, theirs):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))

    return (
        len(one.eqns) == len(two.eqns)
        and all_same([*one.constvars, *one.invars], [*two.constvars, *two.invars])
        and all(
            ours.primitive is theirs.primitive
            and all_same(ours.invars, theirs.invars)
            and all_same(ours.outvars, theirs.outvars)
            and _same(dict(ours.params), dict(theirs.params), sizes)
            for ours, theirs in zip(one.eqns, two.eqns, strict=True)
        )
        and all_same(one.outvars, two.outvars)
    )


def _same_numbers(one: Any, two: Any, sizes: tuple[int, int]) -> bool:
    one, two = (jax.random.key_data(array) if _is_key(array) else array for array in (one, two))
    one, two = np.asarray(one), np.asarray(two)
    if not _same(one.shape, two.shape, sizes) or one.dtype != two.dtype:
        return False
    of_rows = [axis for axis, pair in enumerate(zip(one.shape, two.shape, strict=True)) if pair == sizes]
    for axis in of_rows:
        first = [np.take(array, [0], axis) for array in (one, two)]
        if not all((array == row).all() for array, row in zip((one, two), first, strict=True)):
            return False
        one, two = first
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


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
