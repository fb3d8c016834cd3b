"""Special functions of arrays, from SciPy."""

import math

import numpy as np
from scipy.special import multigammaln

from bayesgen.statistics import log_rising
from bayesgen.typing import Array, ArrayOrNumber, Float

LOG_2PI = math.log(2 * math.pi)
LOG_PI = math.log(math.pi)


def log_multigamma_rising(
    start: Float[ArrayOrNumber, "*#K"], step: Float[ArrayOrNumber, "*#K"], dimension: int
) -> Float[ArrayOrNumber, "*K"]:
    """log gamma_D(start + step) - log gamma_D(start) of the multivariate gamma function, elementwise."""
    terms = (log_rising(start - 0.5 * index, step) for index in range(dimension))
    return sum(terms, start=np.zeros(()))


def slogdet(matrices: Float[Array, "*K D D"]) -> Float[ArrayOrNumber, "*K"]:
    """Log-determinants of positive-definite matrices, by Cholesky."""
    return 2 * np.log(np.diagonal(np.linalg.cholesky(matrices), axis1=-2, axis2=-1)).sum(-1)


def slogdet_growth(matrices: Float[Array, "*#K D D"], growth: Float[Array, "*#K D D"]) -> Float[ArrayOrNumber, "*K"]:
    """Log-determinants of matrices + growth less those of matrices, all positive (semi)definite."""
    inverse = np.linalg.inv(np.linalg.cholesky(matrices))
    relative = np.maximum(np.linalg.eigvalsh(inverse @ growth @ np.swapaxes(inverse, -1, -2)), 0.0)
    # small growth is lost in a difference; of large growth, eigenvalues far below the largest have no digits
    return np.where(relative.sum(-1) < 1, np.log1p(relative).sum(-1), slogdet(matrices + growth) - slogdet(matrices))


def log_normal(shifts: Float[Array, "*K D"], covariances: Float[Array, "*#K D D"]) -> Float[ArrayOrNumber, "*K"]:
    """Log densities of jointly normal vectors, which are this far from their means."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariances), shifts[..., None])[..., 0]
    return -0.5 * (slogdet(covariances) + shifts.shape[-1] * LOG_2PI + (whitened**2).sum(-1))


def log_inverse_wishart(
    covariances: Float[Array, "*#K D D"], df: Float[ArrayOrNumber, "*#K"], scale: Float[Array, "*#K D D"]
) -> Float[ArrayOrNumber, "*K"]:
    """Log densities of covariances under inverse-Wishart distributions (Gelman et al., Bayesian Data Analysis, A.1)."""
    dimension = covariances.shape[-1]
    factor = np.linalg.cholesky(covariances)
    halves = np.linalg.solve(factor, np.linalg.cholesky(scale))
    constant = 0.5 * df * (slogdet(scale) - dimension * math.log(2)) - multigammaln(0.5 * df, dimension)
    return constant - 0.5 * (df + dimension + 1) * slogdet(covariances) - 0.5 * (halves**2).sum((-2, -1))
