"""Programs as JAX pytrees, and what is cached by their structure."""

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bayesgen.records import fill
from bayesgen.typing import Result

from .structure import PytreeFunction


def register_program(program_type: type) -> None:
    """Let JAX take programs of this type as arguments.

    The leaves are those of a `PytreeFunction`. All else is static: the content of any other function, by a weak
    reference, so that JAX's caches do not keep it alive; structure and plan; and of the labels only their number, so
    that data with other labels compile nothing.
    """

    def flatten(program: Any) -> tuple[tuple[Any, ...], Any]:
        dynamic = isinstance(program.function, PytreeFunction)
        static = None if dynamic else weakref.ref(program.content)
        codes = tuple(range(len(program.classes)))
        kind = program.label, codes, program.response_site, program.in_prediction
        fixed = (static, kind, program.structure, program.plan)
        return ((program.function,) if dynamic else ()), fixed

    def unflatten(fixed: Any, children: Any) -> Any:
        static, (label, codes, response_site, in_prediction), structure, plan = fixed
        content = static() if static else None
        function = content.function if content else children[0]
        program: Any = fill(object.__new__(program_type), function=function, label=label, classes=codes)
        fill(program, response_site=response_site, in_prediction=in_prediction, local=tuple(dict(structure.local)))
        return fill(program, structure=structure, plan=plan, content=content)

    jax.tree_util.register_pytree_node(program_type, flatten, unflatten)


@dataclasses.dataclass(frozen=True)
class StaticStructure:
    """All of a program but the values of its hyperparameters."""

    tree: jax.tree_util.PyTreeDef
    shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
    label: str | None
    num_classes: int
    program: Any = dataclasses.field(compare=False)


def cached_by_structure(program: Any, find: Callable[[Any], Result]) -> Result:
    """`find(program)`, cached for all programs of one function's content, or that differ by hyperparameters alone."""
    content = program.content
    if content is not None:
        kind = program.label, program.num_classes, program.response_site, program.local, program.in_prediction
        key = find, kind, program.known_covariates
        if content.fingerprint is None or key not in content.cache:
            content.cache[key] = find(program)
            content.check_stable(program.function)
        return content.cache[key]
    leaves, tree = jax.tree.flatten(program.function)
    shapes = tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)
    return _cached_by_structure(StaticStructure(tree, shapes, program.label, program.num_classes, program), find)


@functools.lru_cache(maxsize=256)
def _cached_by_structure(form: StaticStructure, find: Callable[[Any], Any]) -> Any:
    return find(form.program)
