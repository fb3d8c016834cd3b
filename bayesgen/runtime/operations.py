"""Operations of JAX by NumPy, for functions that are evaluated and not compiled."""

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
import scipy.special

from bayesgen.typing import ArrayOrNumber, Int


def _quotient(numerator: np.ndarray, denominator: np.ndarray) -> ArrayOrNumber:
    """The quotient; of integers, rounded towards zero."""
    if numerator.dtype.kind == "f":
        return numerator / denominator
    return (numerator - np.fmod(numerator, denominator)) // denominator


ELEMENTWISE: Mapping[str, Callable[..., ArrayOrNumber]] = {
    "abs": np.abs,
    "add": np.add,
    "add_any": np.add,
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


def _pad(x: np.ndarray, filling: np.ndarray, edges: Sequence[tuple[int | np.integer, ...]]) -> np.ndarray:
    inside = [size + max(size - 1, 0) * between for size, (_, _, between) in zip(x.shape, edges, strict=True)]
    spread = np.full(inside, filling, x.dtype)
    spread[tuple(slice(None, None, between + 1) for _, _, between in edges)] = x
    cut = spread[
        tuple(slice(max(-low, 0), size - max(-high, 0)) for size, (low, high, _) in zip(inside, edges, strict=True))
    ]
    return np.pad(cut, [(max(int(low), 0), max(int(high), 0)) for low, high, _ in edges], constant_values=filling)


def _dot(left: np.ndarray, right: np.ndarray, dimension_numbers: Sequence[Sequence[Sequence[int]]]) -> ArrayOrNumber:
    """Products summed over the axes that are contracted: axes of batches, of the left and of the right array."""
    contracted, batches = dimension_numbers
    left_axes = list(string.ascii_letters[: left.ndim])
    right_axes = list(string.ascii_letters[left.ndim : left.ndim + right.ndim])
    for pairs in (contracted, batches):
        for left_axis, right_axis in zip(*pairs, strict=True):
            right_axes[right_axis] = left_axes[left_axis]
    summed = {left_axes[axis] for axis in contracted[0]}
    first = [left_axes[axis] for axis in batches[0]]
    last = [letter for letter in (*left_axes, *right_axes) if letter not in summed and letter not in first]
    return np.einsum(f"{''.join(left_axes)},{''.join(right_axes)}->{''.join((*first, *last))}", left, right)


def _gathered(operand: np.ndarray, indices: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
    """Slices of an array at indices, whose last axis has an index for each of some axes of the array."""
    numbers = parameters["dimension_numbers"]
    batching = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    axes = numbers.start_index_map, numbers.collapsed_slice_dims, batching
    is_inside, positions = _positions(operand.shape, indices, parameters["slice_sizes"], *axes)
    cells = operand[positions]
    cells = np.broadcast_to(cells, (*indices.shape[:-1], *cells.shape[indices.ndim - 1 :]))
    if parameters["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP and not is_inside.all():
        cells = np.where(is_inside, cells, _filling(operand.dtype, parameters["fill_value"]))
    return np.moveaxis(cells, range(indices.ndim - 1, cells.ndim), numbers.offset_dims)


def _scattered(
    operand: np.ndarray, indices: np.ndarray, updates: np.ndarray, parameters: Mapping[str, Any]
) -> np.ndarray:
    """An array to whose slices at indices updates are added."""
    positions, total = looked_up(operand.shape, indices, parameters, updates.shape), operand.flatten()
    is_added = positions >= 0
    np.add.at(total, positions[is_added], updates[is_added].astype(operand.dtype))
    return total.reshape(operand.shape)


def looked_up(
    shape: tuple[int, ...],
    indices: np.ndarray,
    parameters: Mapping[str, Any],
    updates: Sequence[int] | None = None,
) -> Int[np.ndarray, "..."]:
    """The position in the flattened array of each cell that a gather reads, or that is updated; -1 outside.

    Args:
        shape: of the array.
        indices: of the slices.
        parameters: of the operation.
        updates: the shape of the updates of a scatter.
    """
    cells = np.arange(math.prod(shape)).reshape(shape)
    if updates is None:
        return _gathered(cells, indices, {**parameters, "fill_value": -1})
    numbers, sizes = parameters["dimension_numbers"], np.ones(len(shape), int)
    batching = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    dropped, window = (*numbers.inserted_window_dims, *batching), numbers.update_window_dims
    sizes[[axis for axis in range(len(shape)) if axis not in dropped]] = [updates[axis] for axis in window]
    axes = numbers.scatter_dims_to_operand_dims, numbers.inserted_window_dims, batching
    is_inside, positions = _positions(shape, indices, sizes, *axes)
    is_added = is_inside | (parameters["mode"] == jax.lax.GatherScatterMode.CLIP)
    return np.moveaxis(np.where(is_added, cells[positions], -1), range(-len(window), 0), window)


def _positions(
    shape: tuple[int, ...],
    indices: np.ndarray,
    sizes: Sequence[int] | np.ndarray,
    indexed: Sequence[int],
    collapsed: Sequence[int],
    batching: Mapping[int, int],
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Whether slices at indices are inside an array of this shape, and the positions of their cells along each axis.

    Args:
        shape: of the array.
        indices: their last axis has an index for each of the axes `indexed`.
        sizes: of the slices.
        indexed, collapsed: axes of the array; slices have no collapsed ones.
        batching: axis of the array -> that of the indices with which it goes.
    """
    batch_shape, dropped = indices.shape[:-1], (*collapsed, *batching)
    slice_axes = [axis for axis in range(len(shape)) if axis not in dropped]
    is_inside, positions = np.ones(batch_shape, bool), []

    def along(values: np.ndarray, axis: int, num_axes: int) -> np.ndarray:
        return values.reshape([-1 if index == axis else 1 for index in range(num_axes)])

    for axis, size in enumerate(shape):
        start = np.zeros((1,) * len(batch_shape), int)
        if axis in indexed:
            start, last = indices[..., list(indexed).index(axis)], size - sizes[axis]
            is_inside &= (start >= 0) & (start <= last)
            start = np.clip(start, 0, last)
        elif axis in batching:
            start = along(np.arange(size), batching[axis], len(batch_shape))
        start = start.reshape(start.shape + (1,) * len(slice_axes))
        if axis in slice_axes:
            start = start + along(np.arange(sizes[axis]), slice_axes.index(axis), len(slice_axes))
        positions.append(start)
    return is_inside.reshape(batch_shape + (1,) * len(slice_axes)), tuple(positions)


def _factor(matrices: np.ndarray) -> np.ndarray | None:
    """Cholesky factors, of which the lower triangle is read; None unless all matrices are positive definite."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return None


def _solved(matrices: np.ndarray, right: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray | None:
    """The solutions of triangular systems; None of singular ones, and of unusual forms."""
    is_usual = not parameters["unit_diagonal"] and matrices.dtype.kind == "f"
    if not is_usual or not np.diagonal(matrices, axis1=-2, axis2=-1).all():
        return None
    triangle = np.tril(matrices) if parameters["lower"] else np.triu(matrices)
    is_left = parameters["left_side"]
    triangle = np.swapaxes(triangle, -1, -2) if parameters["transpose_a"] == is_left else triangle
    return (
        np.linalg.solve(triangle, right)
        if is_left
        else np.swapaxes(np.linalg.solve(triangle, np.swapaxes(right, -1, -2)), -1, -2)
    )


def _filling(dtype: np.dtype, stated: float | None) -> float:
    """The value of a gather outside of its array: as stated or, as in JAX, NaN or an extreme integer."""
    if stated is not None or dtype.kind in "fc":
        return np.nan if stated is None else stated
    return dtype.kind == "b" or (np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)


def _cumulative(function: Callable[..., np.ndarray]) -> "NumPyRule":
    def rule(values: Sequence[ArrayOrNumber], parameters: Mapping[str, Any]) -> np.ndarray:
        (x,), axis = values, parameters["axis"]
        return np.flip(function(np.flip(x, axis), axis), axis) if parameters["reverse"] else function(x, axis)

    return rule


def _reduction(function: Callable[..., ArrayOrNumber]) -> "NumPyRule":
    return lambda values, parameters: function(values[0], axis=tuple(parameters["axes"]))


NumPyRule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]
RULES: Mapping[str, NumPyRule] = {
    "argmax": lambda values, p: np.argmax(values[0], axis=p["axes"][0]),
    "argmin": lambda values, p: np.argmin(values[0], axis=p["axes"][0]),
    "broadcast_in_dim": lambda values, p: _broadcast(values[0], p["shape"], p["broadcast_dimensions"]),
    "cholesky": lambda values, p: _factor(values[0]),
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
    "scatter-add": lambda values, p: _scattered(values[0], values[1], values[2], p),
    "select_n": lambda values, p: np.where(values[0], values[2], values[1]) if len(values) == 3 else None,
    "slice": lambda values, p: values[0][
        tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * values[0].ndim))
    ],
    "sort": lambda values, p: np.sort(values[0], p["dimension"]) if len(values) == 1 else None,
    "squeeze": lambda values, p: np.squeeze(values[0], tuple(p["dimensions"])),
    "triangular_solve": lambda values, p: _solved(values[0], values[1], p),
    "transpose": lambda values, p: np.transpose(values[0], p["permutation"]),
}
