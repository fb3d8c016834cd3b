"""Functions traced once: compiled for as long as an object lives, or evaluated by NumPy, operation by operation.

Compiling a function of a hundred operations takes half a second, and running it a millisecond. Functions that run only
a few times, such as the experiments by which a program is understood, are evaluated by NumPy. `Interpreter` evaluates a
jaxpr, which is the list of the operations of a traced function, on values of any kind.
"""

import abc
import dataclasses
import functools
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, final, runtime_checkable

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from numpyro.ops.provenance import track_deps_jaxpr

from bayesgen.typing import ArrayOrNumber, P, Result

from .operations import ELEMENTWISE, RULES

Value = TypeVar("Value")
Variable: TypeAlias = Var | Literal

# JAX 0.9 has two emitters of machine code. The older one compiles in half of the time, and its code is as fast for the
# small kernels of samplers (`steps` in benchmarks); later versions have no choice. Threads take more time than one.
_FAST_EMITTER = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 10) else {}
_QUICK = {"xla_cpu_parallel_codegen_split_count": 1, **_FAST_EMITTER}
# optimising takes half of the time of compiling; without it, loops over rows run slower, small kernels do not
LIGHT_OPTIMISATION = {"xla_backend_optimization_level": 1, **_QUICK}
FAST_TO_COMPILE = {"xla_backend_optimization_level": 0, **_QUICK}  # for functions that run once a fit, for milliseconds


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

    def __call__(self, *arguments: Any) -> Any:
        """The results, by NumPy."""
        evaluation, jaxpr, constants = ByNumPy(), self.jaxpr.jaxpr, self.jaxpr.consts
        leaves = map(evaluation.constant, jax.tree.leaves(arguments), jaxpr.invars)
        with np.errstate(all="ignore"):
            values = evaluation.read(jaxpr, constants, leaves, self.variables)
        return jax.tree.unflatten(jax.tree.structure(self.results), values)

    def traceably(self, *arguments: Any) -> Any:
        """The results, to be traced again."""
        values = jaxpr_as_fun(self.jaxpr)(*jax.tree.leaves(arguments))
        return jax.tree.map(lambda position: values[position], self.results)

    def inline(self, *arguments: Any) -> Any:
        """The results, to be differentiated: without calls, and with the constant parts computed by NumPy."""
        evaluation, jaxpr = _Inlining(), self.jaxpr.jaxpr
        with np.errstate(all="ignore"):
            leaves = jax.tree.leaves(arguments)
            values = evaluation.read(jaxpr, self.jaxpr.consts, leaves, self.variables)
        return jax.tree.unflatten(jax.tree.structure(self.results), values)

    def sources(self, *names: object) -> Any:
        """For each result, the names of the arguments that it depends on.

        Args:
            names: the function's arguments, with names in place of their arrays.
        """
        sources = track_deps_jaxpr(self.jaxpr.jaxpr, [frozenset({name}) for name in jax.tree.leaves(names)])
        return jax.tree.map(lambda position: sources[position], self.results)


def all_sources(sources: Any) -> frozenset[Any]:
    """The names of all arguments that results depend on, from `Traced.sources`."""
    return frozenset().union(*jax.tree.leaves(sources))


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

    def shapes(self, first: Owned, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the results; traced once for arguments of the same shapes."""
        return self._jitted(first).eval_shape(first, *args, **kwargs)

    def traced(self, first: Owned, *args: Any) -> Traced:
        """The function for arguments of these shapes, evaluated by NumPy."""
        return Traced.from_stage(self._jitted(first).trace(first, *args))

    def by_numpy(self, first: Owned, *args: Any) -> Any:
        """The result, evaluated by NumPy: for functions that run a few times, for less than compiling takes."""
        return self.traced(first, *args)(first, *args)

    def _jitted(self, first: Owned) -> Any:
        owner = first.owner
        if owner is None:
            return self._shared
        jitted = self._owned.get(owner)
        return jitted or self._owned.setdefault(owner, jax.jit(_copy(self._function), **self._options))


class SizedJit:
    """`OwnedJit` at levels of optimisation by how long calls run: what is compiled quickly runs slowly."""

    def __init__(self, function: Callable[..., Any], few: float, some: float, **options: Any) -> None:
        """The largest sizes of calls that are not optimised, and of those that are lightly; options of `jax.jit`."""
        levels = (few, FAST_TO_COMPILE), (some, LIGHT_OPTIMISATION), (math.inf, None)
        self._levels = [(most, OwnedJit(function, compiler_options=level, **options)) for most, level in levels]

    def for_size(self, size: float) -> OwnedJit:
        """The function for calls of a size, such as the numbers that it makes."""
        return next(compiled for most, compiled in self._levels if size <= most)


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


# --- jaxprs, operation by operation ---------------------------------------------------------------------------------


JITTED = ("jit", "pjit", "closed_call")


def needed_equations(jaxpr: Jaxpr, results: Sequence[Variable]) -> list[JaxprEqn]:
    """The equations of a jaxpr on which these of its variables depend, in order."""
    needed, equations = {var for var in results if not isinstance(var, Literal)}, []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(var for var in equation.invars if not isinstance(var, Literal))
            equations.append(equation)
    return equations[::-1]


Schedule: TypeAlias = list[tuple[JaxprEqn, set[Var]]]
_SCHEDULES: weakref.WeakKeyDictionary[Jaxpr, dict[tuple[int, ...], Schedule]] = weakref.WeakKeyDictionary()


def _schedule(jaxpr: Jaxpr, results: Sequence[Variable]) -> Schedule:
    """The equations that results need, each with the variables that it is the last to use."""
    schedules, key = _SCHEDULES.setdefault(jaxpr, {}), tuple(map(id, results))
    if key not in schedules:
        equations = needed_equations(jaxpr, results)
        last_uses: dict[Variable, JaxprEqn | None] = {v: e for e in equations for v in e.invars if isinstance(v, Var)}
        last_uses |= dict.fromkeys(var for var in results if isinstance(var, Var))
        schedules[key] = [
            (equation, {var for var in equation.invars if isinstance(var, Var) and last_uses[var] is equation})
            for equation in equations
        ]
    return schedules[key]


def inner_jaxprs(equation: JaxprEqn) -> list[Jaxpr]:
    """The bodies and branches of an equation that has them."""
    leaves = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: isinstance(leaf, ClosedJaxpr | Jaxpr))
    closed = [leaf.jaxpr if isinstance(leaf, ClosedJaxpr) else leaf for leaf in leaves]
    return [leaf for leaf in closed if isinstance(leaf, Jaxpr)]


class Interpreter(abc.ABC, Generic[Value]):
    """Evaluation of jaxprs on values of one kind: subclasses say what a constant and an operation give.

    Attributes:
        calls: names of the operations that do nothing but call a function, which is evaluated in their place.
    """

    calls: ClassVar[tuple[str, ...]] = (*JITTED, "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")

    @abc.abstractmethod
    def constant(self, value: Any, variable: Variable) -> Value:
        """The value of a constant."""

    @abc.abstractmethod
    def results(self, equation: JaxprEqn, operands: Sequence[Value]) -> Sequence[Value]:
        """The results of an operation that does not call a function."""

    def read(
        self,
        jaxpr: Jaxpr,
        constants: Iterable[Any],
        arguments: Iterable[Value],
        results: Sequence[Variable] | None = None,
    ) -> list[Value]:
        """The results of a jaxpr, or some of them, by the equations that they need."""
        results = jaxpr.outvars if results is None else results
        values = dict(zip(jaxpr.constvars, map(self.constant, constants, jaxpr.constvars), strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))

        def value_of(operand: Variable) -> Value:
            return self.constant(operand.val, operand) if isinstance(operand, Literal) else values[operand]

        for equation, spent_values in _schedule(jaxpr, results):
            operands, inner = list(map(value_of, equation.invars)), self._called_function(equation)
            if equation.primitive.name == "cond" and isinstance(operands[0], np.ndarray):
                branches, index = equation.params["branches"], int(operands[0])
                inner, operands = branches[min(max(index, 0), len(branches) - 1)], operands[1:]
            values |= zip(
                equation.outvars,
                self.results(equation, operands) if inner is None else self.read(inner.jaxpr, inner.consts, operands),
                strict=True,
            )
            for spent in spent_values:
                del values[spent]  # the next results take its memory, which is in the cache
        return list(map(value_of, results))

    def _called_function(self, equation: JaxprEqn) -> ClosedJaxpr | None:
        """The function that an equation calls, if it does nothing else."""
        if equation.primitive.name not in self.calls:
            return None
        inner = [value for value in equation.params.values() if isinstance(value, ClosedJaxpr)]
        return inner[0] if len(inner) == 1 else None


@final
class ByNumPy(Interpreter[ArrayOrNumber]):
    """Evaluates functions of a few operations, which take less time to run than to compile.

    Values are NumPy arrays, and keys of JAX. Operations that are not listed below are run by JAX, one by one.
    """

    def constant(self, value: Any, variable: Variable) -> ArrayOrNumber:
        return _as(value, variable)

    def results(self, equation: JaxprEqn, operands: Sequence[ArrayOrNumber]) -> Sequence[ArrayOrNumber]:
        known = numpy_results(equation, operands)
        return list(map(_as, bound_results(equation, operands) if known is None else known, equation.outvars))


@final
class _Inlining(Interpreter[Any]):
    """Traces a function again, but for what constants alone make; derivatives that functions state themselves stay."""

    calls = (*JITTED, "remat", "checkpoint")

    def constant(self, value: Any, variable: Variable) -> Any:
        return value if isinstance(value, jax.core.Tracer) else _as(value, variable)

    def results(self, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        if not any(isinstance(operand, jax.core.Tracer) for operand in operands):
            evaluation = ByNumPy()
            inner = evaluation._called_function(equation)
            with jax.ensure_compile_time_eval():
                if inner is not None:
                    return evaluation.read(inner.jaxpr, inner.consts, operands)
                return evaluation.results(equation, operands)
        return traced_results(equation, operands)


def traced_results(equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an operation, traced again; functions in it keep their own derivatives."""
    if inner := inner_jaxprs(equation):
        pairs = zip(equation.invars, operands, strict=True)
        values = {variable: value for variable, value in pairs if not isinstance(variable, Literal)}
        alone = Jaxpr((), [*values], equation.outvars, [equation], equation.effects, inner[0].debug_info)
        return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*values.values())
    return bound_results(equation, operands)


def bound_results(equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an operation on other operands than its own, by JAX."""
    result = equation.primitive.bind(*operands, **equation.params)
    return result if equation.primitive.multiple_results else [result]


def numpy_results(equation: JaxprEqn, values: Sequence[ArrayOrNumber]) -> Sequence[ArrayOrNumber] | None:
    """The results of an operation on arrays of NumPy; None where it has no rule."""
    name, parameters = equation.primitive.name, equation.params
    if name in ELEMENTWISE:
        return [ELEMENTWISE[name](*values)]
    if name in RULES and (result := RULES[name](values, parameters)) is not None:
        return [result]
    if name == "split":
        return np.split(values[0], np.cumsum(parameters["sizes"])[:-1], parameters["axis"])
    return None


def _as(value: Any, variable: Variable) -> ArrayOrNumber:
    """The value as an array of NumPy, of the dtype of a variable; keys as they are."""
    dtype = variable.aval.dtype  # type: ignore[attr-defined]
    return np.asarray(value, dtype) if isinstance(dtype, np.dtype) else value
