"""Records: frozen dataclasses that JAX takes apart, and that are equal where what they hold is equal.

A record's fields are its leaves, but for those marked `static()`, which belong to its structure: functions are compiled
once for each structure, whatever the numbers. JAX puts records together again without calling `__init__`, because
what it puts into them (tracers, batches, sometimes no arrays at all) need not pass the checks made there.
"""

import dataclasses
from collections.abc import Hashable
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

Record = TypeVar("Record")


def static(**options: Any) -> Any:
    """A field that is part of a record's structure. Options are those of `dataclasses.field`."""
    return dataclasses.field(**options, metadata={"static": True})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field, static))
def record(cls: type[Record]) -> type[Record]:
    """Make a class a record. It is unhashable unless it says otherwise: see `content_hash`.

    >>> @record
    ... class Line:
    ...     slope: np.ndarray
    ...     intercept: float
    >>> line = Line(np.array([1.0, 2.0]), 0.5)
    >>> line == Line(np.array([1.0, 2.0]), 0.5), line == Line(np.array([1.0, 2.5]), 0.5)
    (True, False)
    >>> jax.tree.map(lambda leaf: 2 * leaf, line)
    Line(slope=array([2., 4.]), intercept=1.0)
    """
    stated_hash = cls.__dict__.get("__hash__")
    made: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
    made.__eq__ = equal
    made.__hash__ = stated_hash
    fields = dataclasses.fields(made)
    fixed = tuple(field.name for field in fields if field.metadata.get("static"))
    leaves = tuple(field.name for field in fields if field.name not in fixed)
    register(made, leaves, fixed)
    return made


def register(cls: type, leaves: tuple[str, ...], fixed: tuple[str, ...]) -> None:
    """Register a class as a pytree: attributes that are leaves, and attributes that are fixed (hashable)."""

    def flatten_with_keys(instance: Any) -> tuple[Any, Hashable]:
        children = tuple((jax.tree_util.GetAttrKey(name), getattr(instance, name)) for name in leaves)
        return children, tuple(getattr(instance, name) for name in fixed)

    def flatten(instance: Any) -> tuple[Any, Hashable]:
        return tuple(getattr(instance, name) for name in leaves), tuple(getattr(instance, name) for name in fixed)

    def unflatten(structure: Any, children: Any) -> Any:
        instance: Any = object.__new__(cls)
        for name, value in (*zip(leaves, children, strict=True), *zip(fixed, structure, strict=True)):
            object.__setattr__(instance, name, value)
        return instance

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def equal(one: Any, other: Any) -> Any:
    """Whether two objects have the same structure and equal leaves (NaN is equal to NaN); of other types, not known."""
    if type(one) is not type(other):
        return NotImplemented
    if one is other:
        return True
    structure: Any
    leaves, structure = jax.tree.flatten(one)
    others, other_structure = jax.tree.flatten(other)
    return bool(structure == other_structure and all(map(_equal_leaves, leaves, others)))


def _equal_leaves(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def content_hash(instance: Any) -> int:
    """A hash of what a record holds, for records that are keys: `__hash__ = content_hash`."""
    leaves, structure = jax.tree.flatten(instance)
    return hash((structure, *(_bytes(np.asarray(leaf)) for leaf in leaves)))


def _bytes(leaf: np.ndarray) -> tuple[Hashable, ...]:
    return leaf.shape, leaf.dtype.str, (leaf + 0.0 if leaf.dtype.kind == "f" else leaf).tobytes()  # 0.0 equals -0.0
