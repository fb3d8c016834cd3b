"""Jaxprs read equation by equation, with values of any kind in place of arrays."""

import abc
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

Value = TypeVar("Value")
Variable: TypeAlias = Var | Literal
_CALLS = ("jit", "pjit", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint", "closed_call")


def needed_equations(jaxpr: Jaxpr, results: Sequence[Variable]) -> list[JaxprEqn]:
    """The equations of a jaxpr on which these of its variables depend, in order."""
    needed, equations = {var for var in results if not isinstance(var, Literal)}, []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(var for var in equation.invars if not isinstance(var, Literal))
            equations.append(equation)
    return equations[::-1]


def inner_jaxprs(equation: JaxprEqn) -> list[Jaxpr]:
    """The bodies and branches of an equation that has them."""
    leaves = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: isinstance(leaf, ClosedJaxpr | Jaxpr))
    closed = [leaf.jaxpr if isinstance(leaf, ClosedJaxpr) else leaf for leaf in leaves]
    return [leaf for leaf in closed if isinstance(leaf, Jaxpr)]


def called(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The function that an equation calls, if it does nothing else."""
    inner = [value for value in equation.params.values() if isinstance(value, ClosedJaxpr)]
    return inner[0] if equation.primitive.name in _CALLS and len(inner) == 1 else None


class Interpreter(abc.ABC, Generic[Value]):
    """What each operation makes of values, and so what a jaxpr makes of them."""

    @abc.abstractmethod
    def constant(self, value: Any, variable: Variable) -> Value:
        """The value of a constant."""

    @abc.abstractmethod
    def made(self, equation: JaxprEqn, operands: Sequence[Value]) -> Sequence[Value]:
        """The results of an operation that does not call a function."""

    def read(
        self,
        jaxpr: Jaxpr,
        constants: Iterable[Any],
        arguments: Iterable[Value],
        results: Sequence[Variable] | None = None,
        equations: Iterable[JaxprEqn] | None = None,
    ) -> list[Value]:
        """The results of a jaxpr, or some of them, by the equations that they need."""
        results = jaxpr.outvars if results is None else results
        values = dict(zip(jaxpr.constvars, map(self.constant, constants, jaxpr.constvars), strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))

        def value_of(operand: Variable) -> Value:
            return self.constant(operand.val, operand) if isinstance(operand, Literal) else values[operand]

        for equation in needed_equations(jaxpr, results) if equations is None else equations:
            operands, inner = list(map(value_of, equation.invars)), called(equation)
            made = self.made(equation, operands) if inner is None else self.read(inner.jaxpr, inner.consts, operands)
            values |= zip(equation.outvars, made, strict=True)
        return list(map(value_of, results))
