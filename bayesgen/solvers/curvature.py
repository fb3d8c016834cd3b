"""The curvature of a density at a point, from differences of its gradient, as blocks found by probing.

The Hessian of D coordinates takes 2 D gradients; where it is made of blocks, all blocks are probed at once, and it
takes twice the size of the largest. Which blocks there are is a guess (each coordinate alone; each class alone) that is
held against the true Hessian along random directions.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-4  # of a difference, in curvature radii
ALWAYS_DENSE = 64  # dimensions up to which one block is not worth breaking up
DENSE_LIMIT = 1000  # dimensions beyond which one block costs too much, and blocks that are nearly right must do
AT_ONCE = 64  # columns of a Hessian that are held at once
TOLERANCE = 1e-2  # relative error of a Hessian along random directions, up to which its blocks are believed


@dataclasses.dataclass(frozen=True)
class Surface:
    """A density of flat vectors, with its gradients.

    Attributes:
        evaluate: points (m, D) -> values (m,) and gradients (m, D).
        structure: the program's `Structure`.
        num_classes: K.
    """

    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    structure: Any
    num_classes: int

    def at(self, vector):
        """Value and gradient at one point."""
        values, gradients = self.evaluate(np.asarray(vector)[None])
        return float(values[0]), gradients[0]

    def gradients(self, points):
        """Gradients at points, (m, D)."""
        return self.evaluate(points)[1]

    def curvature(self, vector):
        """The `Curvature` at a point.

        By differences of gradients: these are compiled already and cost a fraction of a millisecond, second derivatives
        would take seconds to compile.
        """
        return find_curvature(self.gradients, vector, self.structure, self.num_classes)


def in_batches(function, size):
    """A function of `size` points, (size, D) -> (values, gradients), as one of any number of them."""

    def evaluate(points):
        parts = []
        for start in range(0, len(points), size):
            some = points[start : start + size]
            padded = np.concatenate([some, np.repeat(some[:1], size - len(some), axis=0)])
            parts.append([np.asarray(part)[: len(some)] for part in function(padded, len(some))])
        values, gradients = (np.concatenate(each) for each in zip(*parts, strict=True))
        return values, gradients

    return evaluate


@dataclasses.dataclass(frozen=True)
class Curvature:
    """Minus the Hessian, block-diagonal once the coordinates are put in order.

    Attributes:
        members: arrays (blocks, size): the coordinates of blocks of one size; together, each coordinate once.
        blocks: for each of them the symmetric matrices (blocks, size, size).
    """

    members: tuple[np.ndarray, ...]
    blocks: tuple[np.ndarray, ...]

    def solve(self, vector):
        """inv(curvature) @ vector, or None where it is not positive definite."""
        if self.inverse_roots is None:
            return None
        out = np.empty_like(vector)
        for index, root in zip(self.members, self.inverse_roots, strict=True):
            inner = np.einsum("bji,bj->bi", root, vector[index])
            out[index] = np.einsum("bij,bj->bi", root, inner)
        return out

    @functools.cached_property
    def inverse_roots(self):
        """Factors F with F F' = inv(block), or None where a block is not safely positive definite.

        Blocks are scaled by their diagonals first, so that units do not matter.
        """
        roots = []
        for block in self.blocks:
            diagonal = np.diagonal(block, axis1=1, axis2=2)
            if not np.isfinite(block).all() or (diagonal <= 0).any():
                return None
            scale = 1 / np.sqrt(diagonal)
            try:
                root = np.linalg.cholesky(block * scale[:, :, None] * scale[:, None, :])
            except np.linalg.LinAlgError:
                return None
            if np.diagonal(root, axis1=1, axis2=2).min(initial=1.0) < 1e-7:
                return None
            roots.append(scale[:, :, None] * np.swapaxes(np.linalg.inv(root), 1, 2))
        return roots

    def deviations(self, z):
        """Deviations F z from the mode, (m, D), of whitened ones. Only where it is positive definite."""
        out = np.empty_like(z)
        for index, root in zip(self.members, self.inverse_roots, strict=True):
            out[:, index] = np.einsum("bij,mbj->mbi", root, z[:, index])
        return out

    @property
    def log_volume(self):
        """Log determinant of the factors F. Only where it is positive definite."""
        return sum(np.log(np.diagonal(root, axis1=1, axis2=2)).sum() for root in self.inverse_roots)

    def dense(self):
        """The whole matrix (D, D)."""
        size = sum(index.size for index in self.members)
        matrix = np.zeros((size, size))
        for index, blocks in zip(self.members, self.blocks, strict=True):
            for own, block in zip(index, blocks, strict=True):
                matrix[np.ix_(own, own)] = block
        return matrix


def find_curvature(gradients, vector, structure, num_classes):
    """The curvature of a density at a point, by as few gradients as its structure allows.

    Args:
        gradients: function of points (m, D) -> gradients (m, D).
        vector: (D,), the point.
        structure: the program's `Structure`.
        num_classes: K.
    """
    steps = _step_sizes(gradients, vector)
    if len(vector) <= ALWAYS_DENSE:
        return _measure(gradients, vector, steps, whole(len(vector)))
    curvature = None
    for members in (alone(len(vector)), by_class(structure, num_classes)):
        curvature = _measure(gradients, vector, steps, members)
        if _error(gradients, vector, steps, curvature) < TOLERANCE:
            return curvature
    return curvature if len(vector) > DENSE_LIMIT else _measure(gradients, vector, steps, whole(len(vector)))


def whole(size):
    """One block of all coordinates."""
    return (np.arange(size)[None],)


def alone(size):
    """Every coordinate a block."""
    return (np.arange(size)[:, None],)


def by_class(structure, num_classes):
    """A block for each class, of the entries of sites whose first axis is the class; what else there is, one by one."""
    classes, rest, start = [], [], 0
    for _, shape in structure.latents:
        index = np.arange(start, start + math.prod(shape))
        start += len(index)
        if shape and shape[0] == num_classes and num_classes > 1:
            classes.append(index.reshape(num_classes, -1))
        else:
            rest.append(index)
    groups = [np.concatenate(classes, axis=1)] if classes else []
    return (*groups, np.concatenate(rest)[:, None]) if rest else tuple(groups)


def _slopes(gradients, vector, directions):
    """The Hessian along directions (m, D), by central differences."""
    both = gradients(np.concatenate([vector + directions, vector - directions]))
    ahead, behind = np.split(both, 2)
    return 0.5 * (ahead - behind)


def _signs(size, number):
    return np.random.default_rng(0).choice([-1.0, 1.0], (number, size))


@np.errstate(over="ignore")  # a diagonal that is no number is not used
def _step_sizes(gradients, vector):
    """Steps that are a small part of each coordinate's own curvature radius, so that units and scale do not matter."""
    steps = 1e-4 * np.maximum(np.abs(vector), 1e-3)
    signs = _signs(len(vector), 3)
    for _ in range(6):
        slopes = _slopes(gradients, vector, steps * signs)
        diagonal = np.median(np.abs(slopes), axis=0) / steps
        usable = np.isfinite(diagonal) & (diagonal > 0)
        wanted = np.where(usable, STEP / np.sqrt(np.where(usable, diagonal, 1.0)), steps)
        settled = (np.abs(np.log(wanted / steps)) < 1.0).all()
        steps = wanted
        if settled:
            break
    return steps


def _measure(gradients, vector, steps, members):
    """The blocks with these members, the first coordinates of all of them probed at once, then the second, ..."""
    blocks = []
    for index in members:
        size = index.shape[1]
        columns = np.arange(size)
        parts = [_probe(gradients, vector, steps, index, columns[at : at + AT_ONCE]) for at in range(0, size, AT_ONCE)]
        block = np.concatenate(parts, axis=2)
        blocks.append(0.5 * (block + np.swapaxes(block, 1, 2)))
    return Curvature(members, tuple(blocks))


def _probe(gradients, vector, steps, index, columns):
    """Some columns of all blocks with members `index`: (blocks, size, columns)."""
    directions = np.zeros((len(columns), len(vector)))
    own = index[:, columns]  # (blocks, columns)
    directions[np.arange(len(columns)), own] = steps[own]
    slopes = _slopes(gradients, vector, directions)
    return -np.moveaxis(slopes[:, index], 0, 2) / steps[own][:, None, :]


def _error(gradients, vector, steps, curvature):
    """How far the blocks are from the Hessian along random directions, coordinates scaled to unit curvature."""
    directions = steps * _signs(len(vector), 2)
    slopes = -_slopes(gradients, vector, directions)
    found = np.zeros_like(slopes)
    for index, block in zip(curvature.members, curvature.blocks, strict=True):
        found[:, index] = np.einsum("bij,dbj->dbi", block, directions[:, index])
    scale = steps / STEP**2
    return float(np.sqrt(np.mean((scale * (slopes - found)) ** 2)))
