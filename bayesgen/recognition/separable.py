"""Means that are sums of products of functions of latents and functions of rows, at arbitrary latents.

The jaxpr of a mean is read operation by operation. What latents alone make by anything but sums, products and
rearrangements is replaced by arbitrary numbers: the means at all latents are then among those at all such numbers,
and polynomials that agree at enough arbitrary numbers agree everywhere.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn, Var

from bayesgen.program import BLOCK
from bayesgen.runtime import Interpreter, Traced, Variable, bound_results
from bayesgen.typing import Array

from .traces import shaped

FEW_LATENTS = -np.arange(1.0, BLOCK + 1).reshape(1, BLOCK)  # draws at which most latents are zero
# arbitrary numbers are 10^u with u uniform in [-8, 8], and at every other draw in [-1, 1], which keeps digits where
# units are alike
DECADES, FEW_DECADES = 8.0, 1.0
# operations whose results are sums of products of entries of their operands, and those of their operands that may not
# depend on latents: indexes and conditions
_SEPARABLE: Mapping[str, slice] = {
    **dict.fromkeys(("add", "add_any", "concatenate", "copy", "cumsum", "dot_general", "mul", "neg"), slice(0)),
    **dict.fromkeys(("broadcast_in_dim", "pad", "reduce_sum", "reshape", "rev", "slice", "split"), slice(0)),
    **dict.fromkeys(("square", "squeeze", "sub", "transpose"), slice(0)),
    "dynamic_slice": slice(1, None),
    "gather": slice(1, None),
    "select_n": slice(0, 1),
}


def separable(mean: Traced, latents: Any, *rows: Any) -> Traced | None:
    """The means at arbitrary latents, a function of numbers of draws and of rows; None where they are no such sums.

    Args:
        mean: function of latents and of what rows know.
        latents, rows: its arguments, of which shapes and dtypes matter alone.
    """
    results: list[_MeanTerm] = []

    def mean_at_draw(draw: Array, *rows: Any) -> Array:
        reader, jaxpr = _MeanReader(draw), mean.jaxpr.jaxpr
        row_terms = [_MeanTerm(values, uses_rows=True) for values in jax.tree.leaves(rows)]
        arguments = [*map(reader.arbitrary, jaxpr.invars[: len(jaxpr.invars) - len(row_terms)]), *row_terms]
        results.extend(reader.read(jaxpr, mean.jaxpr.consts, arguments, mean.variables))
        return results[0].value

    traced = Traced.of(jax.vmap(mean_at_draw, (0, *[None] * len(rows))), np.zeros(BLOCK), *rows)
    return traced if results[0].uses_latents and results[0].is_separable else None


class _MeanTerm(NamedTuple):
    """A variable of a jaxpr.

    Attributes:
        value: its value.
        uses_latents: whether it depends on latents.
        uses_rows: whether it depends on what rows know.
        is_separable: whether it is a sum of products of functions of the one and of the other.
    """

    value: Any
    uses_latents: bool = False
    uses_rows: bool = False
    is_separable: bool = True


@final
class _MeanReader(Interpreter[_MeanTerm]):
    """Reads jaxprs at arbitrary numbers, which are functions of the number of a draw."""

    def __init__(self, draw: Array) -> None:
        self._draw, self._random = draw, np.random.default_rng(0)

    def constant(self, value: Any, variable: Variable) -> _MeanTerm:
        return _MeanTerm(value)

    def arbitrary(self, variable: Var) -> _MeanTerm:
        """A function of latents, replaced by positive numbers; by zeros where its values are not real.

        These are of all sizes, so that what rows multiply by any of them decides the means at some draws, whatever the
        units of rows are. At draw 0 all are zero, so that what rows multiply by no latent is seen alone; at negative
        draws most are, so that what rows multiply by few latents is.
        """
        shape, dtype = shaped(variable).shape, shaped(variable).dtype
        if dtype.kind != "f":
            return _MeanTerm(jnp.zeros(shape, dtype), uses_latents=True)
        frequency, phase = self._random.uniform(0, 2 * math.pi, (2, *shape))
        quantile = jnp.mod(frequency * self._draw + phase, 2 * math.pi) / (2 * math.pi)
        decades = jnp.where((self._draw < 0) | (self._draw % 2 == 0), FEW_DECADES, DECADES) * (2 * quantile - 1)
        share = jnp.maximum(2.0 ** (self._draw / 2), 0.5 if math.prod(shape) == 1 else 0.0)  # that is not zero
        is_zero = (self._draw == 0) | (quantile > share)
        return _MeanTerm(jnp.where(is_zero, 0.0, 10.0**decades).astype(dtype), uses_latents=True)

    def results(self, equation: JaxprEqn, operands: Sequence[_MeanTerm]) -> list[_MeanTerm]:
        uses_latents, uses_rows = any(t.uses_latents for t in operands), any(t.uses_rows for t in operands)
        is_separable = all(t.is_separable for t in operands)
        if uses_latents and not (is_separable and _multiplies(equation, operands)):
            return [
                self.arbitrary(variable)._replace(uses_rows=uses_rows, is_separable=not uses_rows)
                for variable in equation.outvars
            ]
        values: Sequence[Any]
        if equation.primitive.name == "div" and operands[1].uses_latents:  # a product with a function of latents
            is_zero = (self._draw == 0) | (operands[1].value == 0)
            values = [operands[0].value * jnp.where(is_zero, 0.0, 1 / operands[1].value)]
        else:
            values = bound_results(equation, [term.value for term in operands])
        return [_MeanTerm(value, uses_latents, uses_rows) for value in values]


def _multiplies(equation: JaxprEqn, operands: Sequence[_MeanTerm]) -> bool:
    """Whether results are sums of products of entries of operands, or quotients by what latents or rows alone make."""
    name = equation.primitive.name
    if name == "div":
        return not (operands[1].uses_latents and operands[1].uses_rows)
    if name == "integer_pow":
        return bool(equation.params["y"] > 0)
    if name == "convert_element_type":
        return shaped(equation.invars[0]).dtype.kind == shaped(equation.outvars[0]).dtype.kind == "f"
    return name in _SEPARABLE and not any(term.uses_latents for term in operands[_SEPARABLE[name]])
