"""Arrays that NumPy and Python read as the training data, while JAX computes with the rows that are there.

A model may read a covariate outside of JAX, `len(np.unique(group))`. The result is part of the model as it was
trained, whatever rows it is run with later; `effects[group]` is about the rows that it is run with.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesgen.typing import Array, Shaped

_READING = (np.unique, np.max, np.min, np.amax, np.amin, np.bincount)


class Reading:
    """The training values of an array, and what NumPy and Python have done with it.

    Attributes:
        values: the training values.
        was_read: whether they were read.
        was_computed_with: whether a function of NumPy, np.log(x), was computed of the rows that were there.
    """

    def __init__(self, values: Shaped[np.ndarray, "..."]) -> None:
        self.values, self.was_read, self.was_computed_with = values, False, False

    @property
    def needed(self) -> Shaped[np.ndarray, "..."] | None:
        """The training values as far as they are needed: all if they were read, and no rows if computed with."""
        return self.values if self.was_read else self.values[:0] if self.was_computed_with else None

    def read(self) -> Shaped[np.ndarray, "..."]:
        """The training values; it is noted that they were read."""
        self.was_read = True
        return self.values

    def shown(self, values: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        """The values, read by NumPy and Python as the training values: a tracer of another class, or a view."""
        if isinstance(values, np.ndarray) or not hasattr(values, "_trace"):
            return np.asarray(values).view(_class_of(np.ndarray, self))
        kind = next(kind for kind in type(values).__mro__ if not hasattr(kind, "reading"))
        values.__class__ = _class_of(kind, self)
        return values


@functools.lru_cache(maxsize=256)
def _class_of(kind: Any, reading: Reading) -> Any:
    """The class of arrays, or of tracers, that are read as the training values."""
    members: dict[str, Any] = {"__slots__": (), "reading": reading, "tolist": lambda array: reading.read().tolist()}
    if reading.values.dtype.kind in "iub":  # of real numbers, these are statistics of the rows that are there
        members |= {"max": _method(reading, np.ndarray.max), "min": _method(reading, np.ndarray.min)}
        members["__iter__"] = lambda array: iter(reading.read())
    if kind is np.ndarray:
        members["__array_function__"] = _array_function
    else:
        members |= {"__array__": _method(reading, np.asarray), "__array_ufunc__": _array_ufunc}
    return type("ReadByNumPy", (kind,), members)


def _method(reading: Reading, method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda array, *args, **kwargs: method(reading.read(), *(a for a in args if a is not None))


def _array_ufunc(array: Any, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """The function of the same name in JAX, of the rows that are there: `np.log(x)`."""
    array.reading.was_computed_with = True
    return getattr(jnp, ufunc.__name__)(*inputs, **options)


def _array_function(array: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if function in _READING:
        args = [getattr(arg, "reading").read() if hasattr(arg, "reading") else arg for arg in args]  # noqa: B009
        return function(*args, **kwargs)
    return np.ndarray.__array_function__(array, function, types, args, kwargs)
