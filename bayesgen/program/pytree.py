"""Programs as JAX pytrees: what compiled functions are keyed by, and what is an argument of theirs."""

import abc
import dataclasses
import functools
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self, TypeVar

import jax
import numpy as np
from numpyro.distributions.transforms import Transform

from bayesgen.errors import ModelError
from bayesgen.records import fill
from bayesgen.typing import Array

from .fingerprint import changed_names, fingerprint

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


class Definition:
    """What functions have in common that do the same: compiled functions are kept as long as their definition.

    A definition lives as long as a program that has it. Programs have the same one if their functions had the same
    `fingerprint` when the programs were made; where that is not known, if they are of the same function.
    """

    def __init__(self, content: Hashable | None) -> None:
        self.content = content
        self.findings: dict[Hashable, Any] = {}  # see `found_once`
        self._functions: weakref.WeakValueDictionary[int, Callable[..., Any]] = weakref.WeakValueDictionary()
        self._is_steady = False

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Definition":
        """The definition of a function as it is now."""
        definition = _definitions.get(id(function))
        if definition is None:
            content = fingerprint(function)
            key = id(function) if content is None else content
            definition = _definitions.setdefault(key, cls(content))
        definition._functions[id(function)] = function
        return definition

    @property
    def function(self) -> Callable[..., Any]:
        """A function that does this.

        Raises:
            ModelError: there is none any more, because what it reads has changed.
        """
        changed: list[str] = []
        functions = list(self._functions.values())
        for function in functions:
            content = self.content and fingerprint(function)
            if content == self.content:
                return function
            changed = changed_names(self.content, content)
        if functions and not self._is_steady:
            return functions[0]  # it may itself change what it reads: see `settle`
        raise ModelError(
            f"The program has to be run again, and what its function reads is not what it was when the program was "
            f"made{': ' if changed else ''}{', '.join(changed)}. Set it back, or make the program and its fits again; "
            "what is to differ between programs is best an argument of a function that makes them."
        )

    def settle(self, function: Callable[..., Any]) -> None:
        """Look, once its function has been run, whether that has changed what it reads: then it is not known."""
        if not self._is_steady and self.content is not None and fingerprint(function) != self.content:
            _definitions.pop(self.content, None)
            _definitions[id(function)], self.content = self, None
        self._is_steady = True


_definitions: weakref.WeakValueDictionary[Hashable, Definition] = weakref.WeakValueDictionary()


def register(program_type: type) -> None:
    """Let JAX take programs of this type as arguments.

    The leaves are those of a `PytreeFunction`. All else is static: the definition of any other function, by a weak
    reference, so that what JAX keeps does not keep it alive, and what was found out about it. The labels are not part
    of it, but for their number, so that data with other labels compile nothing.
    """

    def flatten(program: Any) -> tuple[tuple[Any, ...], Any]:
        dynamic = isinstance(program.function, PytreeFunction)
        static = None if dynamic else weakref.ref(program.definition)
        codes = tuple(range(len(program.classes)))
        fixed = (static, program.label, codes, program.response_site, program.structure, program.plan)
        return ((program.function,) if dynamic else ()), fixed

    def unflatten(fixed: Any, children: Any) -> Any:
        static, label, codes, response_site, structure, plan = fixed
        definition = static() if static else None
        function = definition.function if definition else children[0]
        program: Any = fill(object.__new__(program_type), function=function, label=label, classes=codes)
        return fill(program, response_site=response_site, structure=structure, plan=plan, definition=definition)

    jax.tree_util.register_pytree_node(program_type, flatten, unflatten)


def referable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or one that calls it where it is an object that cannot be referred to weakly."""
    if isinstance(function, PytreeFunction):  # never referred to
        return function
    try:
        weakref.ref(function)
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
    """What is found out about a program; once for all of one definition, or that differ by hyperparameters alone."""
    definition = program.definition
    if definition is not None:
        key = find, program.label, program.num_classes, program.response_site, program.known_covariates
        if definition.content is None or key not in definition.findings:
            definition.findings[key] = find(program)
            definition.settle(program.function)
        return definition.findings[key]
    leaves, tree = jax.tree.flatten(program.function)
    shapes = tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)
    return _found_once(_Form(tree, shapes, program.label, program.num_classes, program), find)


@functools.lru_cache(maxsize=256)
def _found_once(form: _Form, find: Callable[[Any], Any]) -> Any:
    return find(form.program)
