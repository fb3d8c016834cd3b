"""Independent draws in float64 by NumPy: nothing is compiled, so the first draw costs what the next one does."""

import numpy as np
import scipy.special
from numpy.random import Generator

from bayesgen.typing import Array, ArrayOrNumber, Float


def sample_log_gamma(rng: Generator, shape: ArrayOrNumber, size: tuple[int, ...]) -> np.ndarray:
    """Logs of Gamma(shape, 1) draws. Where the shape is small the draws themselves would underflow to zero.

    Source: Marsaglia and Tsang (2000), A simple method for generating gamma variables, section 6: a Gamma(a) variable
    is a Gamma(a + 1) variable times a uniform one to the power 1 / a.
    """
    small = shape < 1
    logs = np.log(rng.standard_gamma(shape + small, size))
    if not np.any(small):
        return logs
    powers = rng.standard_exponential(size) / np.where(small, shape, 1.0)
    return logs - np.where(small, powers, 0.0)


def sample_beta(rng: Generator, a: ArrayOrNumber, b: ArrayOrNumber, shape: tuple[int, ...]) -> np.ndarray:
    """Beta(a, b) draws of shape `shape` + that of the parameters."""
    size = (*shape, *np.broadcast_shapes(np.shape(a), np.shape(b)))
    return scipy.special.expit(sample_log_gamma(rng, a, size) - sample_log_gamma(rng, b, size))


def sample_dirichlet(rng: Generator, concentration: Float[Array, "*batch r"], shape: tuple[int, ...]) -> np.ndarray:
    """Dirichlet draws of shape `shape` + that of the concentration, (..., r)."""
    return scipy.special.softmax(sample_log_gamma(rng, concentration, (*shape, *concentration.shape)), axis=-1)


def sample_gamma(rng: Generator, a: ArrayOrNumber, rate: ArrayOrNumber, shape: tuple[int, ...]) -> np.ndarray:
    """Gamma(a, rate) draws of shape `shape` + that of the parameters."""
    return rng.standard_gamma(a, (*shape, *np.broadcast_shapes(np.shape(a), np.shape(rate)))) / rate


def sample_inverse_wishart_root(
    rng: Generator, df: ArrayOrNumber, scale: Float[Array, "*batch D D"], shape: tuple[int, ...]
) -> Float[np.ndarray, "*draws D D"]:
    """Square roots B, (..., D, D), of inverse-Wishart draws B B^T. They are not triangular.

    Source: Bartlett (1933), On the theory of statistical regression, for the Wishart draw A A^T of scale I; if the
    scale is L L^T, then B^T solves A B^T = L^T.
    """
    dimension = scale.shape[-1]
    batch = (*shape, *np.broadcast_shapes(df.shape, scale.shape[:-2]))
    factor = np.tril(rng.standard_normal((*batch, dimension, dimension)), -1)
    halves = 0.5 * (df[..., None] - np.arange(dimension))
    diagonal = np.arange(dimension)
    factor[..., diagonal, diagonal] = np.sqrt(2.0 * rng.standard_gamma(halves, (*batch, dimension)))
    lower = np.broadcast_to(np.linalg.cholesky(scale), factor.shape)
    return np.swapaxes(np.linalg.solve(factor, np.swapaxes(lower, -1, -2)), -1, -2)
