"""Coordinates in which a posterior is nearly a standard normal: centred at its mode, scaled by its curvature."""

import dataclasses
from typing import Any

import jax
import numpy as np

from ..errors import FitError
from . import optimize

DENSE_LIMIT = 1000  # dimensions up to which the whole inverse Hessian is used


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Whitening:
    """The map z -> center + factor z (a matrix, or a vector for a diagonal)."""

    center: Any
    factor: Any

    def __call__(self, z):
        """Whitened coordinates to unconstrained ones."""
        shift = self.factor @ z if self.factor.ndim == 2 else self.factor * z
        return self.center + shift


def identity(program):
    """No whitening."""
    size = optimize.num_free(program.structure)
    return Whitening(np.zeros(size), np.ones(size))


def laplace(program, evidence, starts):
    """Whiten by the Laplace approximation at the mode of the unconstrained density.

    Returns:
        (whitening, note): the note says what happened; where the curvature is not usable, the whitening only centres
        and the note starts with "adapted".
    """
    try:
        optimum = optimize.search(optimize.posterior_density, program, evidence, starts)
    except FitError as error:
        return identity(program), f"adapted: {error}"
    if np.abs(optimum.gradient).max(initial=0.0) > 1e-3 * max(1.0, abs(optimum.value)):
        return identity(program), "adapted: no mode was found in the unconstrained space"
    center = optimum.free
    if optimum.num_modes > 1:
        return Whitening(center, np.ones(len(center))), f"adapted: {optimum.num_modes} modes were found"
    if len(center) > DENSE_LIMIT:
        return Whitening(center, np.ones(len(center))), f"adapted: {len(center)} dimensions are too many for a Hessian"
    curvature = -optimize.hessian(optimize.posterior_density, program, center, evidence)
    factor = _inverse_root(curvature)
    if factor is None:
        return Whitening(center, np.ones(len(center))), "adapted: the Hessian at the mode is not positive definite"
    return Whitening(center, factor), "whitened"


def _inverse_root(curvature):
    """A factor F with F F' = inv(curvature), or None. Scaled by the diagonal first, so that units do not matter."""
    diagonal = np.diagonal(curvature)
    if not np.isfinite(curvature).all() or (diagonal <= 0).any():
        return None
    scale = 1 / np.sqrt(diagonal)
    try:
        root = np.linalg.cholesky(curvature * scale[:, None] * scale)
    except np.linalg.LinAlgError:
        return None
    if np.diagonal(root).min(initial=1.0) < 1e-7:
        return None
    return scale[:, None] * np.linalg.inv(root).T
