"""Special functions of arrays, log densities, and draws of priors."""

import dataclasses
import math

import numpy as np
import scipy.special
from numpy.random import Generator
from scipy.special import gammaln, multigammaln

from bayesgen.errors import FitError
from bayesgen.runtime import ROUNDING
from bayesgen.statistics import LOG_2PI, any_known, correlations_of, log_diagonal, log_rising, namespace
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float

# Draws are made by NumPy in float64: compiling them would cost more than they do.


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


LOG_PI = math.log(math.pi)


def log_multigamma_rising(
    start: Float[ArrayOrNumber, "*#K"], step: Float[ArrayOrNumber, "*#K"], dimension: int
) -> Float[ArrayOrNumber, "*K"]:
    """log gamma_D(start + step) - log gamma_D(start) of the multivariate gamma function, elementwise."""
    terms = (log_rising(start - 0.5 * index, step) for index in range(dimension))
    return sum(terms, start=np.zeros(()))


def may_be_singular(matrices: Float[Array, "*K D D"]) -> Bool[ArrayOrNumber, "*K"]:
    """Whether matrices are singular, or so nearly that rounding decides. Traceable."""
    xp = namespace(matrices)
    correlations = correlations_of(matrices)
    is_finite = xp.isfinite(correlations).all((-2, -1))
    sizes = xp.linalg.eigvalsh(xp.where(is_finite[..., None, None], correlations, 0.0))
    return ~(sizes[..., 0] > ROUNDING * sizes[..., -1])


def factor_of(matrices: Float[Array, "*K D D"]) -> Float[Array, "*K D D"]:
    """Cholesky factors of covariances, scale matrices or precisions: sums of cross products of rows. Traceable.

    Raises:
        FitError: naming the first that is singular in floating point.
    """
    xp = namespace(matrices)
    try:
        factor = xp.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:  # JAX gives NaN
        factor = np.full_like(matrices, np.nan)
    if any_known(xp.isnan(factor)):
        place = tuple(np.argwhere(may_be_singular(matrices))[0])
        size = math.sqrt(np.diagonal(matrices[place]).max())
        which = f" of class number {place[0]}" if matrices.ndim > 2 and len(matrices) > 1 else ""
        raise FitError(
            f"The columns{which} have cross products of about {size:.0e} squared, whose matrix is singular in floating "
            "point: beside rows as far away as that, nothing is left of how columns vary together. Correct or drop "
            "these rows (is it a mark of missing cells?), or model columns one by one (covariance='diag', NaiveBayes)."
        )
    return factor


def slogdet(matrices: Float[Array, "*K D D"]) -> Float[ArrayOrNumber, "*K"]:
    """Log-determinants of positive-definite matrices, by Cholesky."""
    return 2 * log_diagonal(factor_of(matrices))


def slogdet_growth(matrices: Float[Array, "*#K D D"], growth: Float[Array, "*#K D D"]) -> Float[ArrayOrNumber, "*K"]:
    """Log-determinants of matrices + growth less those of matrices, all positive (semi)definite."""
    xp = namespace(matrices, growth)
    inverse = xp.linalg.inv(xp.linalg.cholesky(matrices))
    relative = xp.maximum(xp.linalg.eigvalsh(inverse @ growth @ xp.swapaxes(inverse, -1, -2)), 0.0)
    # a difference loses small growth; eigenvalues far below the largest lose their digits where growth is large
    return xp.where(relative.sum(-1) < 1, xp.log1p(relative).sum(-1), slogdet(matrices + growth) - slogdet(matrices))


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


def inverse_wishart_variance(
    scale: Float[Array, "*K D D"], df: Float[ArrayOrNumber, "*K"]
) -> Float[ArrayOrNumber, "*K D D"]:
    """Variances of the entries of matrices with inverse-Wishart distributions; infinite where they do not exist."""
    xp, freedom = namespace(scale, df), (df - scale.shape[-1])[..., None, None]
    scales = xp.diagonal(scale, axis1=-2, axis2=-1)
    numerator = (freedom + 1) * scale**2 + (freedom - 1) * scales[..., :, None] * scales[..., None, :]
    exists = freedom > 3
    freedom = xp.where(exists, freedom, 4.0)
    return xp.where(exists, numerator / (freedom * (freedom - 1) ** 2 * (freedom - 3)), np.inf)


def quotient(
    numerator: Float[ArrayOrNumber, "*#batch"], denominator: Float[ArrayOrNumber, "*#batch"]
) -> Float[Array, "*batch"]:
    """numerator / denominator, infinite where the denominator is not positive (the moment does not exist)."""
    xp, positive = namespace(numerator, denominator), denominator > 0
    return xp.where(positive, numerator / xp.where(positive, denominator, 1.0), np.inf)


def shrinkage(
    kappa: Float[ArrayOrNumber, "*#batch"], count: Float[ArrayOrNumber, "*#batch"]
) -> Float[ArrayOrNumber, "*batch"]:
    """The share of n rows in a posterior mean, n / (kappa + n), the prior mean weighing kappa rows; 0 of nothing."""
    total = kappa + count
    return count / namespace(total).where(total > 0, total, 1.0)


@dataclasses.dataclass(frozen=True)
class InverseGamma:
    """The distribution of a noise variance."""

    shape: Float[ArrayOrNumber, "*#batch"]
    scale: Float[ArrayOrNumber, "*#batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return quotient(self.scale, self.shape - 1)

    def variance(self) -> Float[Array, "*batch"]:
        return quotient(self.mean() ** 2, self.shape - 2)

    def quantile(self, prob: float) -> Float[Array, "*batch"]:
        return self.scale / scipy.special.gammaincinv(self.shape, 1 - prob)

    def mode(self, num_normals: int) -> Float[ArrayOrNumber, "*batch"]:
        """The mode together with that of some numbers that are normal with this variance, up to a factor."""
        return self.scale / (self.shape + 1 + 0.5 * num_normals)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
        return 1.0 / sample_gamma(rng, self.shape, self.scale, shape)

    def log_prob(self, variance: Float[ArrayOrNumber, "*batch"]) -> Float[ArrayOrNumber, "*batch"]:
        constant = self.shape * np.log(self.scale) - gammaln(self.shape)
        return constant - (self.shape + 1) * np.log(variance) - self.scale / variance
