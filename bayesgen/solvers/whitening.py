"""Coordinates in which a posterior is nearly a standard normal: centred at its mode, scaled by its curvature."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .curvature import ALWAYS_DENSE
from .optimize import num_free, search

SEVERAL_MODES = ", and chains need not visit all of them in their proportions"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Whitening:
    """The map z -> center + F z, with F block-diagonal once the coordinates are put in order.

    Attributes:
        center: (D,).
        factors: arrays (blocks, size, size), blocks of one size each.
        places: (D,), for each coordinate its place in the order of the blocks; None where that is the same.
    """

    center: Any
    factors: tuple[Any, ...]
    places: Any = None

    def __call__(self, z):
        """Whitened coordinates to unconstrained ones."""
        parts, start = [], 0
        for factor in self.factors:
            blocks, size, _ = factor.shape
            own = z[start : start + blocks * size]
            start += blocks * size
            parts.append(factor[:, 0, 0] * own if size == 1 else _product(factor, own))
        shift = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return self.center + (shift if self.places is None else shift[self.places])


def _product(factor, vector):
    blocks, size, _ = factor.shape
    if blocks == 1:
        return factor[0] @ vector
    return jnp.einsum("bij,bj->bi", factor, vector.reshape(blocks, size)).reshape(-1)


def centred(center):
    """No whitening: a shift."""
    return Whitening(np.asarray(center), (np.ones((len(center), 1, 1)),))


def identity(program):
    """The unconstrained coordinates themselves."""
    return centred(np.zeros(num_free(program.structure)))


def expected(program):
    """What `laplace` will give, but for the numbers, or None where that is not known beforehand."""
    size = num_free(program.structure)
    return Whitening(np.zeros(size), (np.eye(size)[None],)) if size <= ALWAYS_DENSE else None


def at_peak(peak):
    """Whiten by the Laplace approximation at a peak, an `Optimum` with its curvature."""
    order = np.concatenate([index.ravel() for index in peak.curvature.members])
    natural = np.array_equal(order, np.arange(len(order)))
    return Whitening(peak.free, tuple(peak.curvature.inverse_roots), None if natural else np.argsort(order))


def laplace(program, surface, starts):
    """Whiten by the Laplace approximation at the mode of the unconstrained density, a `Surface`.

    Returns:
        (whitening, note): the note says what happened; where the curvature is not usable, the whitening only centres
        and the note starts with "adapted".

    Raises:
        FitError: where the density is not finite at any start.
    """
    optimum = search(surface, starts)
    if optimum.num_modes > 1:
        return centred(optimum.free), f"adapted: {optimum.num_modes} modes were found{SEVERAL_MODES}"
    if optimum.curvature is not None:
        return at_peak(optimum), "whitened"
    if np.abs(optimum.gradient).max(initial=0.0) > 1e-3 * max(1.0, abs(optimum.value)):
        return identity(program), "adapted: no mode was found in the unconstrained space"
    return centred(optimum.free), "adapted: the Hessian at the mode is not positive definite"
