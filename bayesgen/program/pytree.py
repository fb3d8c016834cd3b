"""Programs as JAX pytrees: what compiled functions are keyed by, and what is an argument of theirs."""

import abc
import functools
import weakref
from typing import Any

import jax

from bayesgen.records import fill


class PytreeFunction(abc.ABC):
    """A program function whose constants (hyperparameters) are the leaves of a JAX pytree.

    Such constants are arguments of compiled functions: other hyperparameters compile nothing anew.
    """

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates that it takes."""
        return ()

    @abc.abstractmethod
    def __call__(self, n, **covariates): ...


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


class ProgramJit:
    """`jax.jit` for functions of a program, which keeps what is compiled for it as long as the program's function.

    All programs whose function is a `PytreeFunction` share what is compiled.
    """

    def __init__(self, function, *, program_of=lambda program, *_: program, **options):
        """`program_of` gives the program, from the arguments; options are those of `jax.jit`."""
        self._function, self._program_of, self._options = function, program_of, options
        self._shared = jax.jit(function, **options)
        self._of_function: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __call__(self, *args, **kwargs):
        return self._jitted(args)(*args, **kwargs)

    def lower(self, *args, **kwargs):
        """The function lowered for these arguments, to be compiled."""
        return self._jitted(args).lower(*args, **kwargs)

    def _jitted(self, args):
        function = self._program_of(*args).function
        if isinstance(function, PytreeFunction):
            return self._shared
        jitted = self._of_function.get(function)
        return jitted or self._of_function.setdefault(function, jax.jit(_copy(self._function), **self._options))


def _copy(function):
    """The same function as another object: JAX keeps what it compiles by the function."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call
