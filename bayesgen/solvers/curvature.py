"""The curvature of densities at points, and coordinates that it whitens: centred there, and scaled by it.

Block-diagonal Hessians are found by finite differences of gradients.

Gradients are compiled already and cost a fraction of a millisecond; second derivatives would take seconds to compile.
A dense Hessian of D coordinates takes 2 D gradients, a block-diagonal one twice the size of its largest block. The
blocks are guessed (single coordinates, then the blocks of the density) and compared with the true Hessian along random
directions. A dense Hessian of 10,000 coordinates would take 800 MB: `python -m benchmarks --only steps` has such
programs.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import DerivedDensity, LogDensity
from bayesgen.records import record
from bayesgen.runtime import SizedJit, chunks
from bayesgen.typing import Array, Float, Int

from .quasi_newton import MOST_DENSE_AXES, CoordinateAxes, Evaluator, Points, Vector

STEP_IN_RADII = 1e-4  # of a difference, in curvature radii
DENSE_LIMIT = 1000  # dimensions beyond which one block costs too much, and approximate blocks are used

Members: TypeAlias = tuple[Int[np.ndarray, "_ _"], ...]


@dataclasses.dataclass(frozen=True)
class Curvature:
    """Minus the Hessian, block-diagonal up to the order of coordinates.

    Attributes:
        members: coordinates of the blocks, an array for each size of block; each coordinate once.
        blocks: the symmetric matrices, an array for each array of members.
    """

    members: Members
    blocks: tuple[Float[np.ndarray, "_ _ _"], ...]

    def solve(self, vector: Vector) -> Vector | None:
        """inv(curvature) @ vector, or None where it is not positive definite."""
        if self.inverse_roots is None:
            return None
        solution = np.empty_like(vector)
        for index, root in zip(self.members, self.inverse_roots, strict=True):
            inner = np.einsum("bji,bj->bi", root, vector[index])
            solution[index] = np.einsum("bij,bj->bi", root, inner)
        return solution

    @functools.cached_property
    def inverse_roots(self) -> list[np.ndarray] | None:
        """Factors F with F F' = inv(block), or None where a block is not safely positive definite."""
        roots = [_inverse_root(block) for block in self.blocks]
        return None if any(root is None for root in roots) else [root for root in roots if root is not None]

    def deviations(self, z: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m D"]:
        """Deviations F z from the mode for whitened z. Only of positive definite curvature."""
        assert self.inverse_roots is not None
        unwhitened = np.empty_like(z)
        for index, root in zip(self.members, self.inverse_roots, strict=True):
            unwhitened[:, index] = np.einsum("bij,mbj->mbi", root, z[:, index])
        return unwhitened

    @property
    def log_volume(self) -> float:
        """Log determinant of the factors F, by absolute eigenvalues."""
        return sum(float(np.linalg.slogdet(root)[1].sum()) for root in self.roots_of_size)

    @property
    def roots_of_size(self) -> list[Float[np.ndarray, "blocks size size"]]:
        """Factors F with F F' = inv(|block|), whatever the signs of its eigenvalues."""
        return [_root_of_size(block) for block in self.blocks]

    def axes(self) -> CoordinateAxes:
        """Axes of coordinates in which the curvature is about one in size; widths of coordinates in high dimensions."""
        size = sum(index.size for index in self.members)
        if size <= MOST_DENSE_AXES:
            return self.roots_of_size[0][0]
        widths = np.empty(size)
        for index, block in zip(self.members, self.blocks, strict=True):
            widths[index] = _widths(block)
        return widths

    def dense(self) -> Float[np.ndarray, "D D"]:
        """The whole matrix."""
        size = sum(index.size for index in self.members)
        matrix = np.zeros((size, size))
        for index, blocks in zip(self.members, self.blocks, strict=True):
            for coordinates, block in zip(index, blocks, strict=True):
                matrix[np.ix_(coordinates, coordinates)] = block
        return matrix


def _inverse_root(block: Float[np.ndarray, "blocks size size"]) -> Float[np.ndarray, "blocks size size"] | None:
    """Factors F with F F' = inv(block). Blocks are scaled by their diagonals first, so that units do not matter."""
    diagonal = np.diagonal(block, axis1=1, axis2=2)
    if not np.isfinite(block).all() or (diagonal <= 0).any():
        return None
    scale = 1 / np.sqrt(diagonal)
    try:
        root = np.linalg.cholesky(block * scale[:, :, None] * scale[:, None, :])
    except np.linalg.LinAlgError:
        return None
    if np.diagonal(root, axis1=1, axis2=2).min(initial=1.0) < 1e-7:  # not positive definite but for rounding
        return None
    return scale[:, :, None] * np.swapaxes(np.linalg.inv(root), 1, 2)


def _root_of_size(block: Float[np.ndarray, "blocks size size"]) -> Float[np.ndarray, "blocks size size"]:
    """Factors F with F F' = inv(|block|), by absolute eigenvalues of the block scaled to unit diagonal."""
    scale = _widths(block)
    scaled = np.nan_to_num(block * scale[:, :, None] * scale[:, None, :], posinf=0.0, neginf=0.0)
    values, vectors = np.linalg.eigh(scaled)
    sizes = np.maximum(np.abs(values), 1e-6)  # no coordinate is over a thousand times wider than others
    return scale[:, :, None] * vectors / np.sqrt(sizes)[:, None, :]


def _widths(block: Float[np.ndarray, "blocks size size"]) -> Float[np.ndarray, "blocks size"]:
    """Widths of coordinates by their curvatures; one where there is none."""
    diagonal = np.abs(np.diagonal(block, axis1=1, axis2=2))
    usable = np.isfinite(diagonal) & (diagonal > 0)
    return 1 / np.sqrt(np.where(usable, diagonal, 1.0))


def curvature_at(evaluator: Evaluator, vector: Vector) -> Curvature:
    """The curvature at a point, from few gradients where it has small blocks."""
    steps = _step_sizes(evaluator, vector)
    one_block: Members = (np.arange(len(vector))[None],)
    if len(vector) <= MOST_DENSE_AXES:  # in as few dimensions the Hessian is one block
        return _measure(evaluator, vector, steps, one_block)
    single_coordinates: Members = (np.arange(len(vector))[:, None],)
    curvature = None
    for members in (single_coordinates, evaluator.blocks):
        if members:
            curvature = _measure(evaluator, vector, steps, members)
            if _error(evaluator, vector, steps, curvature) < 1e-2:  # along random directions
                return curvature
    return curvature if curvature and len(vector) > DENSE_LIMIT else _measure(evaluator, vector, steps, one_block)


def _slopes(evaluator: Evaluator, vector: Vector, directions: Points) -> Points:
    """The Hessian along directions, by central differences."""
    _, gradients = evaluator.evaluate(np.concatenate([vector + directions, vector - directions]))
    ahead, behind = np.split(gradients, 2)
    return 0.5 * (ahead - behind)


def _signs(size: int, number: int) -> Points:
    return np.random.default_rng(0).choice([-1.0, 1.0], (number, size))


@np.errstate(over="ignore")  # only finite diagonals are used
def _step_sizes(evaluator: Evaluator, vector: Vector) -> Vector:
    """Steps that are a small part of each coordinate's curvature radius, whatever its units."""
    steps = 1e-4 * np.maximum(np.abs(vector), 1e-3)
    signs = _signs(len(vector), 3)
    for _ in range(6):
        slopes = _slopes(evaluator, vector, steps * signs)
        diagonal = np.median(np.abs(slopes), axis=0) / steps
        usable = np.isfinite(diagonal) & (diagonal > 0)
        new_steps = np.where(usable, STEP_IN_RADII / np.sqrt(np.where(usable, diagonal, 1.0)), steps)
        converged = (np.abs(np.log(new_steps / steps)) < 1.0).all()
        steps = new_steps
        if converged:
            break
    return steps


def _measure(evaluator: Evaluator, vector: Vector, steps: Vector, members: Members) -> Curvature:
    """The blocks with these members, probed together: the first coordinates of all blocks, then the second, ..."""
    blocks = []
    for index in members:
        size = index.shape[1]
        columns = np.arange(size)
        parts = [_probe(evaluator, vector, steps, index, columns[part]) for part in chunks(size, 64)]
        block = np.concatenate(parts, axis=2)
        blocks.append(0.5 * (block + np.swapaxes(block, 1, 2)))
    return Curvature(members, tuple(blocks))


def _probe(
    evaluator: Evaluator,
    vector: Vector,
    steps: Vector,
    index: Int[np.ndarray, "blocks size"],
    columns: Int[np.ndarray, " columns"],
) -> Float[np.ndarray, "blocks size columns"]:
    """Some columns of all blocks with members `index`."""
    directions = np.zeros((len(columns), len(vector)))
    probed = index[:, columns]  # (blocks, columns)
    directions[np.arange(len(columns)), probed] = steps[probed]
    slopes = _slopes(evaluator, vector, directions)
    return -np.moveaxis(slopes[:, index], 0, 2) / steps[probed][:, None, :]


def _error(evaluator: Evaluator, vector: Vector, steps: Vector, curvature: Curvature) -> float:
    """Error of the blocks along random directions, in coordinates of unit curvature."""
    directions = steps * _signs(len(vector), 2)
    slopes = -_slopes(evaluator, vector, directions)
    by_blocks = np.zeros_like(slopes)
    for index, block in zip(curvature.members, curvature.blocks, strict=True):
        by_blocks[:, index] = np.einsum("bij,dbj->dbi", block, directions[:, index])
    scale = steps / STEP_IN_RADII**2
    return float(np.sqrt(np.mean((scale * (slopes - by_blocks)) ** 2)))


# Whitened coordinates.


@record
class AffineMap:
    """The map z -> center + F z, with F block-diagonal up to the order of coordinates.

    Attributes:
        center: image of the origin.
        factors: the blocks of F, an array for each size.
        positions: of each coordinate in the order of the blocks; None for the same order.
    """

    center: Float[Array, " D"]
    factors: tuple[Float[Array, "_ _ _"], ...]
    positions: Int[Array, " D"] | None = None

    def __call__(self, z: Float[Array, " D"]) -> Float[Array, " D"]:
        """Whitened coordinates to unconstrained ones."""
        parts, start = [], 0
        for factor in self.factors:
            blocks, size, _ = factor.shape
            coordinates = z[start : start + blocks * size]
            start += blocks * size
            parts.append(factor[:, 0, 0] * coordinates if size == 1 else _product(factor, coordinates))
        shift = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return self.center + (shift if self.positions is None else shift[self.positions])

    @property
    def widths(self) -> Float[np.ndarray, " D"]:
        """The largest change of each coordinate for steps of length one."""
        rows = np.concatenate([np.sqrt((np.asarray(factor) ** 2).sum(-1)).ravel() for factor in self.factors])
        return rows if self.positions is None else rows[np.asarray(self.positions)]

    @classmethod
    def shift(cls, center: Float[np.ndarray, " D"]) -> "AffineMap":
        """A shift to a centre, F = I."""
        return cls(np.asarray(center), (np.ones((len(center), 1, 1)),))

    @classmethod
    def at_peak(cls, center: Float[np.ndarray, " D"], curvature: Curvature) -> "AffineMap":
        """The map of the Laplace approximation, by the positive definite curvature at a mode."""
        assert curvature.inverse_roots is not None
        return cls._from_blocks(center, curvature, curvature.inverse_roots)

    @classmethod
    def at_point(cls, center: Float[np.ndarray, " D"], curvature: Curvature) -> "AffineMap":
        """The map to coordinates whose curvature at any point is at most one in size."""
        return cls._from_blocks(center, curvature, curvature.roots_of_size)

    @classmethod
    def _from_blocks(
        cls, center: Float[np.ndarray, " D"], curvature: Curvature, factors: Iterable[Float[np.ndarray, "_ _ _"]]
    ) -> "AffineMap":
        order = np.concatenate([index.ravel() for index in curvature.members])
        natural = np.array_equal(order, np.arange(len(order)))
        return cls(center, tuple(factors), None if natural else np.argsort(order))


def _product(factor: Float[Array, "blocks size size"], vector: Float[Array, " m"]) -> Float[Array, " m"]:
    blocks, size, _ = factor.shape
    if blocks == 1:
        return factor[0] @ vector
    return jnp.einsum("bij,bj->bi", factor, vector.reshape(blocks, size)).reshape(-1)


@record
class Whitened(DerivedDensity):
    """A log density in whitened coordinates, without the constant log volume of the map."""

    density: LogDensity
    whitening: AffineMap

    @property
    def dimension(self) -> int:
        return len(self.whitening.center)

    def point(self, z: Float[Array, " D"]) -> Float[Array, " D"]:
        """The point in the coordinates of the density."""
        return self.whitening(z)

    def __call__(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.density(self.point(z))

    def constrain(self, z: Float[Array, " D"]) -> Mapping[str, Array]:
        return self.density.constrain(self.point(z))

    def name_of(self, index: int) -> str:
        return self.density.name_of(index)


def constrained(density: LogDensity, draws: Float[np.ndarray, "chain draw D"]) -> dict[str, np.ndarray]:
    """The constrained values of draws, by name. Inside float64."""
    return {name: np.asarray(value) for name, value in _constrained.for_size(np.size(draws))(density, draws).items()}


@functools.partial(SizedJit, few=5e5, some=math.inf)
def _constrained(density: LogDensity, draws: Float[Array, "chain draw D"]) -> Mapping[str, Array]:
    return jax.vmap(jax.vmap(density.constrain))(draws)
