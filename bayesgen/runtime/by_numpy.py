"""JAX's operations by NumPy. Operations that are not listed are run by JAX, one by one."""

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import jax
import numpy as np
import scipy.special
from jax.extend.core import JaxprEqn

from bayesgen.typing import ArrayOrNumber

from .jaxprs import Interpreter, Variable


@final
class ByNumPy(Interpreter[ArrayOrNumber]):
    """Evaluates functions of a few operations: compiling them would take longer than running them.

    Values are arrays of NumPy, but keys, which are JAX's.
    """

    def constant(self, value: Any, variable: Variable) -> ArrayOrNumber:
        return _as(value, variable)

    def made(self, equation: JaxprEqn, operands: Sequence[ArrayOrNumber]) -> Sequence[ArrayOrNumber]:
        return list(map(_as, _results(equation, operands), equation.outvars))


def _results(equation: JaxprEqn, values: Sequence[ArrayOrNumber]) -> Sequence[ArrayOrNumber]:
    name, parameters = equation.primitive.name, equation.params
    if name in _ELEMENTWISE:
        return [_ELEMENTWISE[name](*values)]
    if name in _RULES and (found := _RULES[name](values, parameters)) is not None:
        return [found]
    found = equation.primitive.bind(*values, **parameters)
    return found if equation.primitive.multiple_results else [found]


def _as(value: Any, variable: Variable) -> ArrayOrNumber:
    """The value as an array of NumPy, of the dtype of a variable; keys as they are."""
    dtype = variable.aval.dtype  # type: ignore[attr-defined]
    return value if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else np.asarray(value, dtype)


def _quotient(numerator: np.ndarray, denominator: np.ndarray) -> ArrayOrNumber:
    """The quotient; of integers, rounded towards zero."""
    if numerator.dtype.kind == "f":
        return numerator / denominator
    return (numerator - np.fmod(numerator, denominator)) // denominator


_ELEMENTWISE: Mapping[str, Callable[..., ArrayOrNumber]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "asinh": np.arcsinh,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "copy": np.asarray,
    "cos": np.cos,
    "digamma": scipy.special.psi,
    "div": _quotient,
    "eq": np.equal,
    "erf": scipy.special.erf,
    "erf_inv": scipy.special.erfinv,
    "erfc": scipy.special.erfc,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "is_finite": np.isfinite,
    "le": np.less_equal,
    "lgamma": scipy.special.gammaln,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": scipy.special.expit,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "pow": np.power,
    "rem": np.fmod,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "stop_gradient": np.asarray,
    "sub": np.subtract,
    "tanh": np.tanh,
}


def _broadcast(x: np.ndarray, shape: Sequence[int], axes: Sequence[int | np.integer]) -> np.ndarray:
    sizes = dict(zip(axes, x.shape, strict=True))
    return np.broadcast_to(x.reshape([sizes.get(axis, 1) for axis in range(len(shape))]), shape)


def _pad(x: np.ndarray, filling: np.ndarray, edges: Sequence[tuple[int | np.integer, ...]]) -> np.ndarray | None:
    if any(low < 0 or high < 0 or inside for low, high, inside in edges):
        return None
    return np.pad(x, [(int(low), int(high)) for low, high, _ in edges], constant_values=filling)


def _dot(left: np.ndarray, right: np.ndarray, dimension_numbers: Sequence[Sequence[Sequence[int]]]) -> ArrayOrNumber:
    """Products summed over the axes that are contracted: axes of batches, of the left and of the right array."""
    contracted, batches = dimension_numbers
    letters = iter(string.ascii_letters)
    of_left = [next(letters) for _ in range(left.ndim)]
    of_right = [next(letters) for _ in range(right.ndim)]
    for pairs in (contracted, batches):
        for one, other in zip(*pairs, strict=True):
            of_right[other] = of_left[one]
    summed = {of_left[axis] for axis in contracted[0]}
    first = [of_left[axis] for axis in batches[0]]
    others = [letter for letter in (*of_left, *of_right) if letter not in summed and letter not in first]
    return np.einsum(f"{''.join(of_left)},{''.join(of_right)}->{''.join((*first, *others))}", left, right)


def _gathered(operand: np.ndarray, indices: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    """Slices of an array at indices, whose last axis has an index for each of some axes of the array."""
    numbers, sizes = parameters["dimension_numbers"], parameters["slice_sizes"]
    batch_shape, dropped = indices.shape[:-1], (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [axis for axis in range(operand.ndim) if axis not in dropped]
    is_inside, places = np.ones(batch_shape, bool), []

    def along(number: np.ndarray, axis: int, num_axes: int) -> np.ndarray:
        return number.reshape([-1 if place == axis else 1 for place in range(num_axes)])

    for axis, size in enumerate(operand.shape):
        start = np.zeros((1,) * len(batch_shape), int)
        if axis in numbers.start_index_map:
            given, most = indices[..., numbers.start_index_map.index(axis)], size - sizes[axis]
            is_inside &= (given >= 0) & (given <= most)
            start = np.clip(given, 0, most)
        elif axis in numbers.operand_batching_dims:
            batch = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(axis)]
            start = along(np.arange(size), batch, len(batch_shape))
        start = start.reshape(start.shape + (1,) * len(kept))
        if axis in kept:
            start = start + along(np.arange(sizes[axis]), kept.index(axis), len(kept))
        places.append(start)
    found = operand[tuple(places)]
    found = np.broadcast_to(found, (*batch_shape, *found.shape[len(batch_shape) :]))
    if parameters["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP:
        shown = is_inside.reshape(batch_shape + (1,) * len(kept))
        found = np.where(shown, found, _filling(operand.dtype, parameters["fill_value"]))
    return np.moveaxis(found, range(len(batch_shape), found.ndim), numbers.offset_dims)


def _cholesky(matrices: np.ndarray) -> np.ndarray | None:
    """The factors of matrices with positive eigenvalues, of which the lower triangle is read; None of others."""
    return np.linalg.cholesky(matrices) if (np.linalg.eigvalsh(matrices) > 0).all() else None


def _solved(matrices: np.ndarray, right: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray | None:
    """The solutions of triangular systems; None of singular ones, and of unusual forms."""
    is_usual = parameters["left_side"] and not parameters["unit_diagonal"] and matrices.dtype.kind == "f"
    if not is_usual or not np.diagonal(matrices, axis1=-2, axis2=-1).all():
        return None
    triangle = np.tril(matrices) if parameters["lower"] else np.triu(matrices)
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if parameters["transpose_a"] else triangle, right)


def _filling(dtype: np.dtype, stated: float | None) -> float:
    """The value of a gather outside of its array: as stated or, as in JAX, NaN or an extreme integer."""
    if stated is not None or dtype.kind in "fc":
        return np.nan if stated is None else stated
    return dtype.kind == "b" or (np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)


def _cumulative(function: Callable[..., np.ndarray]) -> "Rule":
    def rule(values: Sequence[ArrayOrNumber], parameters: Mapping[str, Any]) -> np.ndarray:
        (x,), axis = values, parameters["axis"]
        return np.flip(function(np.flip(x, axis), axis), axis) if parameters["reverse"] else function(x, axis)

    return rule


def _reduction(function: Callable[..., ArrayOrNumber]) -> "Rule":
    return lambda values, parameters: function(values[0], axis=tuple(parameters["axes"]))


Rule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]
_RULES: Mapping[str, Rule] = {
    "argmax": lambda values, p: np.argmax(values[0], axis=p["axes"][0]),
    "argmin": lambda values, p: np.argmin(values[0], axis=p["axes"][0]),
    "broadcast_in_dim": lambda values, p: _broadcast(values[0], p["shape"], p["broadcast_dimensions"]),
    "cholesky": lambda values, p: _cholesky(values[0]),
    "concatenate": lambda values, p: np.concatenate(values, p["dimension"]),
    "convert_element_type": lambda values, p: values[0].astype(p["new_dtype"]),
    "cumlogsumexp": _cumulative(np.logaddexp.accumulate),
    "cummax": _cumulative(np.maximum.accumulate),
    "cumprod": _cumulative(np.cumprod),
    "cumsum": _cumulative(np.cumsum),
    "dot_general": lambda values, p: _dot(values[0], values[1], p["dimension_numbers"]),
    "gather": lambda values, p: _gathered(values[0], values[1], p),
    "integer_pow": lambda values, p: values[0] ** p["y"],
    "iota": lambda values, p: _broadcast(np.arange(p["shape"][p["dimension"]]), p["shape"], [p["dimension"]]),
    "pad": lambda values, p: _pad(values[0], values[1], p["padding_config"]),
    "reduce_and": _reduction(np.all),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "reduce_or": _reduction(np.any),
    "reduce_prod": _reduction(np.prod),
    "reduce_sum": _reduction(np.sum),
    "reshape": lambda values, p: values[0].reshape(p["new_sizes"]),
    "rev": lambda values, p: np.flip(values[0], p["dimensions"]),
    "select_n": lambda values, p: np.where(values[0], values[2], values[1]) if len(values) == 3 else None,
    "slice": lambda values, p: values[0][
        tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * values[0].ndim))
    ],
    "sort": lambda values, p: np.sort(values[0], p["dimension"]) if len(values) == 1 else None,
    "squeeze": lambda values, p: np.squeeze(values[0], tuple(p["dimensions"])),
    "triangular_solve": lambda values, p: _solved(values[0], values[1], p),
    "transpose": lambda values, p: np.transpose(values[0], p["permutation"]),
}
