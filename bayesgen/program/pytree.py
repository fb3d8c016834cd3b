"""Programs as JAX pytrees: what compiled functions are keyed by, and what is an argument of theirs."""

import abc
import dataclasses
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import jax
import numpy as np
from numpyro.distributions.transforms import Transform

from bayesgen.records import fill
from bayesgen.typing import Array

Found = TypeVar("Found")


class PytreeFunction(abc.ABC):
    """A program function whose constants (hyperparameters) are the leaves of a JAX pytree.

    Such constants are arguments of compiled functions: other hyperparameters compile nothing anew.
    """

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates that it takes."""
        return ()

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """Sites that stand for a parameter in other coordinates: see `Program`."""
        return {}

    def adapted(self, parameters: Mapping[str, Array]) -> Self:
        """The same program, latents in coordinates that suit processes near one: what samplers move in."""
        return self

    @abc.abstractmethod
    def __call__(self, n: int, **covariates: Array) -> Any: ...


def register(program_type: type) -> None:
    """Let JAX take programs of this type as arguments.

    The leaves are those of a `PytreeFunction`. All else is static: any other function itself, by a weak reference, so
    that what JAX keeps does not keep it alive, and what was found out about it. The labels are not part of it, but for
    their number, so that data with other labels compile nothing.
    """

    def flatten(program: Any) -> tuple[tuple[Any, ...], Any]:
        dynamic = isinstance(program.function, PytreeFunction)
        static = None if dynamic else weakref.ref(program.function)
        codes = tuple(range(len(program.classes)))
        fixed = (static, program.label, codes, program.response_site, program.structure, program.plan)
        return ((program.function,) if dynamic else ()), fixed

    def unflatten(fixed: Any, children: Any) -> Any:
        static, label, codes, response_site, structure, plan = fixed
        function = static() if static else children[0]
        program: Any = fill(object.__new__(program_type), function=function, label=label, classes=codes)
        return fill(program, response_site=response_site, structure=structure, plan=plan)

    jax.tree_util.register_pytree_node(program_type, flatten, unflatten)


def referable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or one that calls it where it is an object that cannot be hashed or referred to weakly."""
    if isinstance(function, PytreeFunction):  # never a key
        return function
    try:
        hash(weakref.ref(function))
    except TypeError:
        return functools.update_wrapper(lambda *args, **kwargs: function(*args, **kwargs), function, updated=())
    return function


@dataclasses.dataclass(frozen=True)
class _Form:
    """What a structure depends on: all of a program but the values of its hyperparameters."""

    tree: jax.tree_util.PyTreeDef
    shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
    label: str | None
    num_classes: int
    program: Any = dataclasses.field(compare=False)


def found_once(program: Any, find: Callable[[Any], Found]) -> Found:
    """What is found out about a program; once for all those that differ by hyperparameters alone."""
    if not isinstance(program.function, PytreeFunction):
        return find(program)
    leaves, tree = jax.tree.flatten(program.function)
    shapes = tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)
    return _found_once(_Form(tree, shapes, program.label, program.num_classes, program), find)


@functools.lru_cache(maxsize=256)
def _found_once(form: _Form, find: Callable[[Any], Any]) -> Any:
    return find(form.program)
