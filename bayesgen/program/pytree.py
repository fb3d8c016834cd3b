"""Programs as JAX pytrees: what compiled functions are keyed by, and what is an argument of theirs."""

import abc
import weakref
from typing import Any

import jax

from bayesgen.records import fill
from bayesgen.typing import Array


class PytreeFunction(abc.ABC):
    """A program function whose constants (hyperparameters) are the leaves of a JAX pytree.

    Such constants are arguments of compiled functions: other hyperparameters compile nothing anew.
    """

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates that it takes."""
        return ()

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
        coordinates = tuple(program.coordinates.items())
        fixed = (static, program.label, codes, program.structure, program.plan, coordinates)
        return ((program.function,) if dynamic else ()), fixed

    def unflatten(fixed: Any, children: Any) -> Any:
        static, label, codes, structure, plan, coordinates = fixed
        function = static() if static else children[0]
        program: Any = fill(object.__new__(program_type), function=function, label=label, classes=codes)
        return fill(program, structure=structure, plan=plan, coordinates=dict(coordinates))

    jax.tree_util.register_pytree_node(program_type, flatten, unflatten)
