"""Compiled functions that live as long as the object they were compiled for."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax

from .interpretation import Traced


@runtime_checkable
class Owned(Protocol):
    """The first argument of an `OwnedJit`."""

    @property
    def owner(self) -> Any:
        """The object whose lifetime compiled functions have; None where they are shared."""


class OwnedJit:
    """`jax.jit` for functions whose first argument has an owner: compiled code is freed with the owner."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        """Options are those of `jax.jit`."""
        self._function, self._options = function, options
        self._shared = jax.jit(function, **options)
        self._of_owner: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __call__(self, first: Owned, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(first)(first, *args, **kwargs)

    def lower(self, first: Owned, *args: Any, **kwargs: Any) -> Any:
        """The function lowered for these arguments, to be compiled."""
        return self._jitted(first).lower(first, *args, **kwargs)

    def by_numpy(self, first: Owned, *args: Any) -> Any:
        """The result, evaluated by NumPy: for functions that run a few times, for less than compiling takes."""
        return Traced.from_stage(self._jitted(first).trace(first, *args))(first, *args)

    def _jitted(self, first: Owned) -> Any:
        owner = first.owner
        if owner is None:
            return self._shared
        jitted = self._of_owner.get(owner)
        return jitted or self._of_owner.setdefault(owner, jax.jit(_copy(self._function), **self._options))


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as another object, by which JAX caches compiled code."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def compiled(method: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A method of a pytree compiled by `jax.jit`, with these options, as a plain function.

    One operation at a time each would be compiled by itself, dozens for one density.
    """
    jitted = jax.jit(method, **options)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return jitted(*args, **kwargs)

    return call
