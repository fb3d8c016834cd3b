"""Lets a model read training values by NumPy, `len(np.unique(group))`, while JAX traces it for other rows.

What NumPy or Python reads is part of the model as it was trained, whatever rows it is run with later;
`effects[group]` is about the rows that it is run with.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import ModelError
from bayesgen.typing import Array, Shaped

_OF_AXES = {"axis", "keepdims", "dtype"}
_OPTIONS = {"reduce": _OF_AXES | {"initial", "where"}, "accumulate": _OF_AXES - {"keepdims"}}  # that JAX has, by method


class TrainingArray:
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

    def read_as_training(self, values: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        """An array of the values, read by NumPy as those of training: a tracer of another class, or a view."""
        is_of_whole_numbers = self.values.dtype.kind in "iub"
        if isinstance(values, np.ndarray) or not hasattr(values, "_trace"):
            view = np.asarray(values).view(_class_of(np.ndarray, is_of_whole_numbers))
            view.training = self  # of itself alone, and not of what is computed of it
            return view
        kind = _kind_of(values)
        values.__class__ = type(
            "ReadByNumPy", (_class_of(kind, is_of_whole_numbers),), {"__slots__": (), "training": self}
        )
        return values

    def computed(self, values: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        """What NumPy's functions have made of the values: a tracer that they take, too."""
        values.__class__ = type("ComputedByNumPy", (_kind_of(values),), _COMPUTING | {"training": self})
        return values


def _kind_of(tracer: Any) -> Any:
    """The class of a tracer that JAX has made."""
    return next(kind for kind in type(tracer).__mro__ if not hasattr(kind, "__array_ufunc__"))


@functools.cache
def _class_of(kind: Any, is_of_whole_numbers: bool) -> Any:
    """The class of arrays, or of tracers, that are read as the training values."""
    # of real numbers, the largest one is that of the rows that are there
    names = ("tolist", "max", "min", "__iter__") if is_of_whole_numbers else ("tolist",)
    members = {name: _training_method(kind, name) for name in names}
    if kind is np.ndarray:
        return type("ViewReadByNumPy", (kind,), members | {"__array_function__": _array_function})
    reading_of_all = {"__array__": lambda array, dtype=None, copy=None: np.array(array.training.read(), dtype)}
    return type("TracerReadByNumPy", (kind,), members | _COMPUTING | reading_of_all)


def _training_method(kind: Any, name: str) -> Callable[..., Any]:
    """A method of all training values; where arguments say of which axis or cells, of the rows that are there."""

    def method(array: Any, *args: Any, **kwargs: Any) -> Any:
        is_of_all = hasattr(array, "training") and all(argument is None for argument in (*args, *kwargs.values()))
        return getattr(array.training.read(), name)() if is_of_all else getattr(kind, name)(array, *args, **kwargs)

    return method


def _array_ufunc(array: Any, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """The same of JAX, of the rows that are there: `np.log(x)`, `np.subtract.outer(x, knots)`.

    Raises:
        ModelError: functions, methods and options that JAX does not have.
    """
    array.training.was_computed_with = True
    function = getattr(jnp, ufunc.__name__, None) if getattr(np, ufunc.__name__, None) is ufunc else None
    function = function if method == "__call__" else getattr(function, method, None)
    if function is None or method == "at" or options.keys() - _OPTIONS.get(method, set()):
        shown = ", ".join(("...", *(f"{option}=..." for option in options)))
        called_name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise ModelError(
            f"The model calls {called_name}({shown}) of NumPy with an argument that has rows, and JAX has no such "
            "function or option: compute it by jax.numpy or jax.scipy, or outside of the model."
        )
    return jax.tree.map(array.training.computed, function(*inputs, **options))


_COMPUTING = {"__slots__": (), "__array_ufunc__": _array_ufunc}


def _array_function(array: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What NumPy makes of a tracer: a method of arrays, `np.mean(x)`, or else a function of the training values."""
    if not hasattr(array, "training") or hasattr(jax.Array, function.__name__):
        return np.ndarray.__array_function__(array, function, types, args, kwargs)
    args, kwargs = jax.tree.map(
        lambda part: part.training.read() if hasattr(part, "training") else part, (args, kwargs)
    )
    return function(*args, **kwargs)
