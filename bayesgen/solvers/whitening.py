"""Whitened coordinates: centred at the mode of a density, and scaled by its curvature."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.records import record
from bayesgen.runtime import OwnedJit
from bayesgen.typing import Array, Float, Int

from .curvature import Curvature
from .maximize import Optimum
from .quasi_newton import LIGHT_OPTIMISATION


@record
class AffineMap:
    """The map z -> center + F z, with F block-diagonal up to the order of coordinates.

    Attributes:
        center: image of the origin.
        factors: the blocks of F, an array for each size.
        places: place of each coordinate in the order of the blocks; None for the same order.
    """

    center: Float[Array, " D"]
    factors: tuple[Float[Array, "_ _ _"], ...]
    places: Int[Array, " D"] | None = None

    def __call__(self, z: Float[Array, " D"]) -> Float[Array, " D"]:
        """Whitened coordinates to unconstrained ones."""
        parts, start = [], 0
        for factor in self.factors:
            blocks, size, _ = factor.shape
            of_blocks = z[start : start + blocks * size]
            start += blocks * size
            parts.append(factor[:, 0, 0] * of_blocks if size == 1 else _product(factor, of_blocks))
        shift = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return self.center + (shift if self.places is None else shift[self.places])

    @property
    def widths(self) -> Float[np.ndarray, " D"]:
        """The largest change of each coordinate for steps of length one."""
        rows = np.concatenate([np.sqrt((np.asarray(factor) ** 2).sum(-1)).ravel() for factor in self.factors])
        return rows if self.places is None else rows[np.asarray(self.places)]

    @classmethod
    def shift(cls, center: Float[np.ndarray, " D"]) -> "AffineMap":
        """A shift to a centre, F = I."""
        return cls(np.asarray(center), (np.ones((len(center), 1, 1)),))

    @classmethod
    def dense(cls, dimension: int) -> "AffineMap":
        """The identity, of the same structure as a Laplace approximation with one block."""
        return cls(np.zeros(dimension), (np.eye(dimension)[None],))

    @classmethod
    def at_peak(cls, peak: Optimum) -> "AffineMap":
        """The map of the Laplace approximation at an optimum with known curvature."""
        assert peak.curvature is not None and peak.curvature.inverse_roots is not None
        return cls._of_blocks(peak.vector, peak.curvature, peak.curvature.inverse_roots)

    @classmethod
    def at_point(cls, center: Float[np.ndarray, " D"], curvature: Curvature) -> "AffineMap":
        """The map to coordinates whose curvature at any point is at most one in size."""
        return cls._of_blocks(center, curvature, curvature.roots_of_size)

    @classmethod
    def _of_blocks(
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
class Whitened(LogDensity):
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

    @property
    def loops_over_rows(self) -> bool:
        return self.density.loops_over_rows

    @property
    def has_symmetries(self) -> bool:
        return self.density.has_symmetries

    @property
    def owner(self) -> Any:
        return self.density.owner


def _traced_constrain_draws(density: LogDensity, draws: Float[Array, "chain draw D"]) -> Mapping[str, Array]:
    return jax.vmap(jax.vmap(lambda vector: density.constrain(vector)))(draws)


constrain_draws = OwnedJit(_traced_constrain_draws, compiler_options=LIGHT_OPTIMISATION)
"""Constrained values of draws (chain, draw, D): name -> (chain, draw, ...)."""
