"""Bins of numbers: their widths, which of them a number is in, and how far beyond their ends it lies.

Densities are flat within bins. Beyond the ends they fall off exponentially with the scales `tails`; where an end is
infinite, from the inner edge of its bin on. A bin's probability is spread over its flat width and its tail's scale.
"""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesgen.runtime import chunks
from bayesgen.typing import Array, Float, Integer, Real

from .arrays import namespace

FEW_EDGES = 255  # are counted in a byte, and comparing with each is faster than searching: `_binned` in benchmarks


def flat_edges(edges: Float[Array, "*D edges"]) -> Float[Array, "*D edges"]:
    """The edges between which densities are flat: where an end is infinite its bin has no flat part."""
    xp = namespace(edges)
    first, last = edges[..., :1], edges[..., -1:]
    first = xp.where(xp.isinf(first), edges[..., 1:2], first)
    last = xp.where(xp.isinf(last), edges[..., -2:-1], last)
    return xp.concatenate([first, edges[..., 1:-1], last], -1)


def bin_widths(edges: Float[Array, "*#D edges"], tails: Float[Array, "*#D 2"]) -> Float[Array, "*D r"]:
    """The widths over which the probabilities of bins are spread: those of the flat parts, and the scales of tails."""
    flat = flat_edges(edges)
    xp = namespace(flat, tails)
    widths = xp.diff(flat, axis=-1)
    left, right = _tails_of_bins(tails, widths.shape[-1])
    return widths + left + right


def _tails_of_bins(
    tails: Float[Array, "*D 2"], num_bins: int
) -> tuple[Float[Array, "*D {num_bins}"], Float[Array, "*D {num_bins}"]]:
    """The scales of the tails to the left and to the right of each bin, which those at the ends alone have."""
    xp = namespace(tails)
    nothing = xp.zeros((*tails.shape[:-1], num_bins - 1))
    return xp.concatenate([tails[..., :1], nothing], -1), xp.concatenate([nothing, tails[..., 1:]], -1)


def excess(
    values: Float[Array, "*#n"], edges: Float[Array, "*#n edges"], tails: Float[Array, "*#n 2"]
) -> Float[Array, "*n"]:
    """How far values lie beyond the flat parts, in units of the tails there: infinite where there is no tail."""
    flat = flat_edges(edges)
    xp = namespace(values, flat, tails)
    total: Any = 0.0
    for side, beyond in ((0, flat[..., 0] - values), (1, values - flat[..., -1])):
        scale = tails[..., side]
        inside = xp.maximum(beyond, 0.0) / xp.where(scale > 0, scale, 1.0)
        total = total + xp.where((beyond > 0) & (scale == 0), xp.inf, inside)
    return total


def bin_codes(values: Real[Array, "n D"], edges: Float[Array, "D edges"]) -> Integer[Array, "n D"]:
    """The bin of each number: how many of the inner edges it has reached. Of NaN it means nothing."""
    inner = edges[:, 1:-1]
    if namespace(values, edges) is jnp:
        return (values[:, :, None] >= inner).sum(-1)
    parts = [reached(np.ascontiguousarray(values[part].T), inner) for part in chunks(len(values))]
    return np.concatenate(parts, axis=1).T if parts else np.zeros(values.shape, np.int64)


def reached(columns: Real[Array, "D n"], edges: Float[Array, "D edges"]) -> Integer[np.ndarray, "D n"]:
    """How many edges, which increase, each number has reached. Of NaN it means nothing."""
    if edges.shape[1] > FEW_EDGES:
        pairs = zip(columns, edges, strict=True)
        return np.stack([np.searchsorted(of_column, column, side="right") for column, of_column in pairs])
    number, is_reached = np.zeros(columns.shape, np.uint8), np.empty(columns.shape, bool)
    for edge in edges.T:
        np.greater_equal(columns, edge[:, None], out=is_reached)
        number += is_reached.view(np.uint8)
    return number


def bin_means(edges: Float[Array, "*#D edges"], tails: Float[Array, "*#D 2"]) -> Float[Array, "*D r"]:
    """The mean of each bin."""
    return bin_moments(edges, tails)[0]


def bin_moments(
    edges: Float[Array, "*#D edges"], tails: Float[Array, "*#D 2"]
) -> tuple[Float[Array, "*D r"], Float[Array, "*D r"]]:
    """The mean and the variance of each bin: of a flat part, and of tails, of the weights that they have in it."""
    flat = flat_edges(edges)
    xp = namespace(flat, tails)
    widths, total = xp.diff(flat, axis=-1), bin_widths(edges, tails)
    middle = flat[..., :-1] + widths / 2
    left, right = _tails_of_bins(tails, widths.shape[-1])
    # (weight, distance of the part's mean from the middle of the flat part, variance)
    parts = [
        (widths / total, 0.0, widths**2 / 12),
        (left / total, -(widths / 2 + left), left**2),
        (right / total, widths / 2 + right, right**2),
    ]
    shift = functools.reduce(lambda so_far, part: so_far + part[0] * part[1], parts, xp.zeros(total.shape))
    squares = functools.reduce(lambda so_far, part: so_far + part[0] * (part[1] ** 2 + part[2]), parts, 0.0 * shift)
    return middle + shift, squares - shift**2


def quantiles(
    levels: Float[Array, "*n"],
    edges: Float[Array, "*#n edges"],
    probs: Float[Array, "*#n r"],
    tails: Float[Array, "*#n 2"],
) -> Float[Array, "*n"]:
    """The numbers below which these shares of the probability lie."""
    xp = namespace(levels, edges, probs, tails)
    flat, widths = flat_edges(edges), bin_widths(edges, tails)
    upto = xp.cumsum(probs, -1)
    most = probs.shape[-1] - 1
    code = xp.minimum((levels[..., None] >= upto).sum(-1), most)

    def of_bin(array: Array) -> Any:
        shape = (*levels.shape, array.shape[-1])
        return xp.take_along_axis(xp.broadcast_to(array, shape), code[..., None], -1)[..., 0]

    prob, width = of_bin(probs), of_bin(widths)
    share = xp.clip((levels - of_bin(upto) + prob) / xp.where(prob > 0, prob, 1.0), 0.0, 1.0)
    left, right = xp.where(code == 0, tails[..., 0], 0.0), xp.where(code == most, tails[..., 1], 0.0)
    place = share * width - left  # from the start of the flat part
    start, length = of_bin(flat[..., :-1]), width - left - right
    below, above = (xp.where(scale > 0, scale, 1.0) for scale in (left, right))
    tiny = xp.finfo(xp.asarray(share).dtype).tiny
    in_left = below * xp.log(xp.maximum(share * width / below, tiny))
    in_right = length - above * xp.log(xp.maximum((1.0 - share) * width / above, tiny))
    found = start + xp.where(place < 0, in_left, xp.where(place > length, in_right, place))
    end = xp.where(code == most, xp.inf, of_bin(edges[..., 1:]))
    return xp.minimum(found, xp.nextafter(end, -xp.inf))  # an edge is in the bin that begins there
