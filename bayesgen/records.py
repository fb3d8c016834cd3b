"""Frozen dataclasses that are equal by content, and records, which are also JAX pytrees.

A record's fields are its leaves, except those marked `static()`, which are part of its structure: functions are
compiled once for each structure, whatever the numbers. JAX rebuilds records without calling `__init__`, as their leaves
may then be tracers, batches or placeholders, which would not pass the checks made there.
"""

import dataclasses
import functools
import numbers
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import jax
import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record")


def static(**options: Any) -> Any:
    """A field that is part of a record's structure. Options are those of `dataclasses.field`."""
    return dataclasses.field(**options, metadata={"static": True})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def by_content(cls: type[Record]) -> type[Record]:
    """Make a class a frozen dataclass with equality by content, arrays included; NaN equals NaN.

    It is unhashable unless it defines or inherits `__hash__`. Fields with `compare=False` do not count.

    >>> @by_content
    ... class Answer:
    ...     means: np.ndarray
    >>> Answer(np.array([1.0, np.nan])) == Answer(np.array([1.0, np.nan]))
    True
    """
    frozen: Any = dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
    frozen.__eq__ = equal
    if frozen.__hash__ is object.__hash__:
        frozen.__hash__ = None
    if frozen.__repr__ is object.__repr__:
        frozen.__repr__ = written
    return frozen


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field, static))
def record(cls: type[Record]) -> type[Record]:
    """Make a class a record: `by_content`, and a JAX pytree. For records as keys see `content_hash`.

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
    frozen: Any = by_content(cls)
    register_pytree(frozen, *field_names(frozen))
    return frozen


@functools.cache
def field_names(cls: "type[DataclassInstance]") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a record's leaves, and of its static fields."""
    fields = dataclasses.fields(cls)
    fixed = tuple(field.name for field in fields if field.metadata.get("static"))
    return tuple(field.name for field in fields if field.name not in fixed), fixed


def register_pytree(cls: type, leaves: tuple[str, ...], fixed: tuple[str, ...]) -> None:
    """Register a class as a pytree, with attributes that are leaves and (hashable) static attributes."""

    def flatten_with_keys(instance: object) -> tuple[tuple, Hashable]:
        children = tuple((jax.tree_util.GetAttrKey(name), getattr(instance, name)) for name in leaves)
        return children, tuple(getattr(instance, name) for name in fixed)

    def flatten(instance: object) -> tuple[tuple, Hashable]:
        return tuple(getattr(instance, name) for name in leaves), tuple(getattr(instance, name) for name in fixed)

    def unflatten(structure: Any, children: Iterable) -> object:
        fields = (*zip(leaves, children, strict=True), *zip(fixed, structure, strict=True))
        return fill(object.__new__(cls), **dict(fields))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def fill(instance: Record, **fields: Any) -> Record:
    """Set fields of a frozen record, in its own constructors. Returns the record."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def copied(instance: Record, **fields: Any) -> Record:
    """A copy of a record with some fields replaced, unchecked. Cached properties are computed anew."""
    cls: Any = type(instance)
    leaves, fixed = field_names(cls)
    unchanged = {name: getattr(instance, name) for name in (*leaves, *fixed) if name not in fields}
    return fill(object.__new__(cls), **unchanged, **fields)


def stacked(trees: Iterable[Any]) -> Any:
    """Pytrees of one structure as one, with their arrays stacked along a first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def state_of_fields(instance: "DataclassInstance") -> dict[str, Any]:
    """The fields alone, to be pickled and copied: `__getstate__` of records whose cached properties are made again."""
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}


def written(instance: "DataclassInstance") -> str:
    """The record as a call of its constructor."""
    shown = [f"{field.name}={getattr(instance, field.name)!r}" for field in dataclasses.fields(instance) if field.repr]
    return f"{type(instance).__qualname__}({', '.join(shown)})"


def equal(left: "DataclassInstance", right: object) -> Any:
    """Whether two objects have equal fields, NaN equal to NaN; `NotImplemented` for different types."""
    if type(left) is not type(right):
        return NotImplemented
    names = [field.name for field in dataclasses.fields(left) if field.compare]
    return left is right or all(_same(getattr(left, name), getattr(right, name)) for name in names)


def _same(left: Any, right: Any) -> bool:
    """Whether two values are equal: arrays and numbers by dtype, shape and cells, collections item by item."""
    if left is right:
        return True
    if isinstance(left, numbers.Number) or hasattr(left, "__array__"):
        return _same_cells(np.asarray(left), np.asarray(right))
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(value, right[name]) for name, value in left.items())
    if isinstance(left, BaseException):
        return _same(left.args, right.args)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, functools.partial):
        return _same((left.func, left.args, left.keywords), (right.func, right.args, right.keywords))
    if hasattr(left, "tocsr"):
        return left.shape == right.shape and not (left != right).nnz
    if type(left).__eq__ is not object.__eq__ or jax.tree_util.all_leaves([left]):
        return bool(left == right)
    structure: Any  # NumPyro's distributions, say
    leaves, structure = jax.tree.flatten(left)
    right_leaves, right_structure = jax.tree.flatten(right)
    return bool(structure == right_structure) and _same(leaves, right_leaves)


def _same_cells(left: np.ndarray, right: np.ndarray) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind == "O":
        return _same(left.tolist(), right.tolist())
    return np.array_equal(left, right, equal_nan=left.dtype.kind in "fcmM")


def content_hash(instance: object) -> int:
    """A hash of a record by content, for records that are keys: `__hash__ = content_hash`."""
    leaves, structure = jax.tree.flatten(instance)
    arrays = [np.asarray(leaf) for leaf in leaves]
    arrays = [array + 0.0 if array.dtype.kind == "f" else array for array in arrays]  # 0.0 equals -0.0
    return hash((structure, *((array.shape, array.dtype.str, array.tobytes()) for array in arrays)))
