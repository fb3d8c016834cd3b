"""Programs as JAX pytrees, and the definitions of functions that compiled code is keyed by."""

import abc
import dataclasses
import functools
import hashlib
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self, cast

import jax
import numpy as np
from numpyro.distributions.transforms import Transform

from bayesgen.errors import ModelError
from bayesgen.records import fill
from bayesgen.typing import Array, Result

from .fingerprint import Fingerprinted, as_text, changed_names, function_fingerprint


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
        """Sites in other coordinates than their parameters: see `Program`."""
        return {}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """The function with latents in coordinates adapted to these parameters, for samplers."""
        return self

    @abc.abstractmethod
    def __call__(self, n: int, **covariates: Array) -> object: ...


class Definition(Fingerprinted):
    """The content of a function, shared by all functions with equal fingerprints.

    Compiled functions live as long as their definition, which lives as long as a program that has it. Programs share a
    definition if their functions had equal fingerprints when the programs were made or, without fingerprints, if they
    have the same function.
    """

    def __init__(self, content: Hashable | None) -> None:
        self.content = content
        self.findings: dict[Hashable, Any] = {}  # see `cached_by_structure`
        self._functions: weakref.WeakValueDictionary[int, Callable[..., object]] = weakref.WeakValueDictionary()
        self._is_stable = False

    @classmethod
    def of(cls, function: Callable[..., object]) -> "Definition":
        """The definition of a function as it is now."""
        definition = _definitions.get(id(function))
        if definition is None:
            content = function_fingerprint(function)
            key = id(function) if content is None else content
            definition = _definitions.setdefault(key, cls(content))
        definition._functions[id(function)] = function
        return definition

    @property
    def function(self) -> Callable[..., object]:
        """A function with this content.

        Raises:
            ModelError: the values that it reads have changed, so there is none.
        """
        changed: list[str] = []
        functions = list(self._functions.values())
        for function in functions:
            content = self.content and function_fingerprint(function)
            if content == self.content:
                return function
            changed = changed_names(self.content, content)
        if functions and not self._is_stable:
            return functions[0]  # it may itself change what it reads: see `check_stable`
        raise ModelError(
            f"The program has to be run again, and what its function reads is not what it was when the program was "
            f"made{': ' if changed else ''}{', '.join(changed)}. Set it back, or make the program and its fits again; "
            "what is to differ between programs is best an argument of a function that makes them."
        )

    def __deepcopy__(self, memo: object) -> Callable[..., object]:
        return self.function

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        """What is pickled: the function, by its code where no module has it (notebooks, local functions).

        Raises:
            ModelError: a function that reads what cannot be pickled.
        """
        import cloudpickle

        function = self.function
        try:
            return cloudpickle.loads, (cloudpickle.dumps(function),)
        except Exception as error:  # each type has its own way to say that it cannot be pickled
            name = getattr(function, "__qualname__", repr(function))
            raise ModelError(
                f"The function {name!r} of the program cannot be pickled ({error}). Define it at the top of a module "
                "that can be imported, with no open files or locks among what it reads; or keep the fit by "
                "fit.save(path), and load it by bayesgen.load(path, program=program)."
            ) from error

    @functools.cached_property
    def fingerprint(self) -> dict[str, str]:
        """What the function reads, by name, as digests that are the same in all processes; empty if not known."""
        if self.content is None:
            return {}
        kind, parts = cast(tuple[str, tuple[Any, ...]], self.content)
        named = parts if kind == "function" else (("its values", parts),)
        return {name: hashlib.blake2b(as_text(part).encode(), digest_size=8).hexdigest() for name, part in named}

    def check_stable(self, function: Callable[..., object]) -> None:
        """Check, after a first run of the function, that this has not changed what it reads; else drop the content."""
        if not self._is_stable and self.content is not None and function_fingerprint(function) != self.content:
            _definitions.pop(self.content, None)
            _definitions[id(function)], self.content = self, None
        self._is_stable = True


_definitions: weakref.WeakValueDictionary[Hashable, Definition] = weakref.WeakValueDictionary()


def register_program(program_type: type) -> None:
    """Let JAX take programs of this type as arguments.

    The leaves are those of a `PytreeFunction`. All else is static: the definition of any other function, by a weak
    reference, so that JAX's caches do not keep it alive; structure and plan; and of the labels only their number, so
    that data with other labels compile nothing.
    """

    def flatten(program: Any) -> tuple[tuple[Any, ...], Any]:
        dynamic = isinstance(program.function, PytreeFunction)
        static = None if dynamic else weakref.ref(program.definition)
        codes = tuple(range(len(program.classes)))
        kind = program.label, codes, program.response_site, program.in_prediction
        fixed = (static, kind, program.structure, program.plan)
        return ((program.function,) if dynamic else ()), fixed

    def unflatten(fixed: Any, children: Any) -> Any:
        static, (label, codes, response_site, in_prediction), structure, plan = fixed
        definition = static() if static else None
        function = definition.function if definition else children[0]
        program: Any = fill(object.__new__(program_type), function=function, label=label, classes=codes)
        fill(program, response_site=response_site, in_prediction=in_prediction, local=tuple(dict(structure.local)))
        return fill(program, structure=structure, plan=plan, definition=definition)

    jax.tree_util.register_pytree_node(program_type, flatten, unflatten)


def weakref_safe(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself, or a wrapper where it does not support weak references."""
    if isinstance(function, PytreeFunction):  # never referred to
        return function
    try:
        weakref.ref(function)
    except TypeError:
        return functools.update_wrapper(lambda *args, **kwargs: function(*args, **kwargs), function, updated=())
    return function


@dataclasses.dataclass(frozen=True)
class _Form:
    """All of a program but the values of its hyperparameters."""

    tree: jax.tree_util.PyTreeDef
    shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
    label: str | None
    num_classes: int
    program: Any = dataclasses.field(compare=False)


def cached_by_structure(program: Any, find: Callable[[Any], Result]) -> Result:
    """`find(program)`, cached for all programs of one definition, or that differ by hyperparameters alone."""
    definition = program.definition
    if definition is not None:
        kind = program.label, program.num_classes, program.response_site, program.local, program.in_prediction
        key = find, kind, program.known_covariates
        if definition.content is None or key not in definition.findings:
            definition.findings[key] = find(program)
            definition.check_stable(program.function)
        return definition.findings[key]
    leaves, tree = jax.tree.flatten(program.function)
    shapes = tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)
    return _cached_by_structure(_Form(tree, shapes, program.label, program.num_classes, program), find)


@functools.lru_cache(maxsize=256)
def _cached_by_structure(form: _Form, find: Callable[[Any], Any]) -> Any:
    return find(form.program)
