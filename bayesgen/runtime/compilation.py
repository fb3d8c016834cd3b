"""Functions traced once: compiled for as long as an object lives, or evaluated by NumPy, operation by operation.

Compiling a function of a hundred operations takes half a second, and running it a millisecond. Functions that run only
a few times, such as the experiments by which a program is understood, are evaluated by NumPy.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun
from numpyro.ops.provenance import track_deps_jaxpr

from bayesgen.typing import P, Result

from .jaxprs import ByNumPy, Variable, needed_equations


@dataclasses.dataclass(frozen=True, eq=False)
class Traced:
    """A function of arrays, traced for arguments of certain shapes and evaluated by NumPy.

    Attributes:
        jaxpr: of the function.
        results: a pytree of positions among the results of the jaxpr.
    """

    jaxpr: ClosedJaxpr
    results: Any

    @classmethod
    def of(cls, function: Callable[..., Any], *arguments: Any) -> "Traced":
        """A function traced at arguments, of which shapes and dtypes matter alone."""
        return cls.from_stage(jax.jit(function).trace(*arguments))

    @classmethod
    def from_stage(cls, traced: jax.stages.Traced) -> "Traced":
        """A function traced by `jax.jit`."""
        leaves, structure = jax.tree.flatten(traced.out_info)
        return cls(traced.jaxpr, jax.tree.unflatten(structure, range(len(leaves))))

    def only(self, choose: Callable[[Any], Any]) -> "Traced":
        """The function with the results that are chosen from all."""
        return Traced(self.jaxpr, choose(self.results))

    @property
    def variables(self) -> list[Variable]:
        """The variables of the results."""
        return [self.jaxpr.jaxpr.outvars[place] for place in jax.tree.leaves(self.results)]

    @property
    def shapes(self) -> Any:
        """Shapes and dtypes of the results."""
        avals: Any = self.jaxpr.out_avals
        return jax.tree.map(lambda place: jax.ShapeDtypeStruct(avals[place].shape, avals[place].dtype), self.results)

    @functools.cached_property
    def equations(self) -> list[JaxprEqn]:
        """The equations that the results need."""
        return needed_equations(self.jaxpr.jaxpr, self.variables)

    def __call__(self, *arguments: Any) -> Any:
        """The results, by NumPy."""
        evaluation, jaxpr, constants = ByNumPy(), self.jaxpr.jaxpr, self.jaxpr.consts
        leaves = map(evaluation.constant, jax.tree.leaves(arguments), jaxpr.invars)
        with np.errstate(all="ignore"):
            values = evaluation.read(jaxpr, constants, leaves, self.variables, self.equations)
        return jax.tree.unflatten(jax.tree.structure(self.results), values)

    def traceably(self, *arguments: Any) -> Any:
        """The results, to be traced again."""
        values = jaxpr_as_fun(self.jaxpr)(*jax.tree.leaves(arguments))
        return jax.tree.map(lambda position: values[position], self.results)

    def sources(self, *names: object) -> Any:
        """For each result, the names of the arguments that it depends on.

        Args:
            names: the function's arguments, with names in place of their arrays.
        """
        sources = track_deps_jaxpr(self.jaxpr.jaxpr, [frozenset({name}) for name in jax.tree.leaves(names)])
        return jax.tree.map(lambda position: sources[position], self.results)


@runtime_checkable
class Owned(Protocol):
    """The first argument of an `OwnedJit`."""

    @property
    def owner(self) -> object:
        """The object whose lifetime compiled functions have; None where they are shared."""


class OwnedJit:
    """`jax.jit` for functions whose first argument has an owner: compiled code is freed with the owner."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        """Options are those of `jax.jit`."""
        self._function, self._options = function, options
        self._shared = jax.jit(function, **options)
        self._owned: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __call__(self, first: Owned, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(first)(first, *args, **kwargs)

    def lower(self, first: Owned, *args: Any, **kwargs: Any) -> Any:
        """The function lowered for these arguments, to be compiled."""
        return self._jitted(first).lower(first, *args, **kwargs)

    def shapes(self, first: Owned, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the results; traced once for arguments of the same shapes."""
        return self._jitted(first).eval_shape(first, *args, **kwargs)

    def by_numpy(self, first: Owned, *args: Any) -> Any:
        """The result, evaluated by NumPy: for functions that run a few times, for less than compiling takes."""
        return Traced.from_stage(self._jitted(first).trace(first, *args))(first, *args)

    def _jitted(self, first: Owned) -> Any:
        owner = first.owner
        if owner is None:
            return self._shared
        jitted = self._owned.get(owner)
        return jitted or self._owned.setdefault(owner, jax.jit(_copy(self._function), **self._options))


def _copy(function: Callable[P, Result]) -> Callable[P, Result]:
    """The function as another object, by which JAX caches compiled code."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        return function(*args, **kwargs)

    return call


def compiled(method: Callable[P, Result], **options: Any) -> Callable[P, Result]:
    """A method of a pytree compiled by `jax.jit`, with these options, as a plain function.

    One operation at a time each would be compiled by itself, dozens for one density.
    """
    jitted = jax.jit(method, **options)

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        return jitted(*args, **kwargs)

    return call
