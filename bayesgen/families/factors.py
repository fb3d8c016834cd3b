"""Covariances of a few factors and noise, W W' + v I: from spectra, and as triangular factors, which are identified."""

import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import Transform
from scipy.special import gammaln

from bayesgen.records import record
from bayesgen.runtime import CACHED_CELLS, chunks
from bayesgen.statistics import (
    LOG_2PI,
    Cells,
    MultivariateNormalDensity,
    namespace,
)
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int

from .special import LOG_PI


def log_evidences_of_factors(values: Float[np.ndarray, " D"], count: float) -> Float[np.ndarray, " numbers"]:
    """Approximate log evidences of 1, ..., D - 1 factors, by Laplace's method, up to a constant.

    Factors have a uniform prior on their axes, and a weak prior on lengths and noise. Terms that depend on the numbers
    of rows and columns alone are omitted, so only differences between numbers of factors of the same rows mean
    something. -inf where the noise, or the length of a factor, is zero.

    Args:
        values: eigenvalues of the covariance of the rows (denominator N - 1), the largest first.
        count: N, the weight of the rows.

    Source: Minka (2000), Automatic choice of dimensionality for PCA: the integral over axes, lengths and noise of
    probabilistic principal component analysis by Laplace's method, in the form that scikit-learn has it.
    """
    numbers = range(1, len(values))
    return np.array([_log_evidence(values, count, number) for number in numbers], np.float64)


def _log_evidence(values: Float[np.ndarray, " D"], count: float, number: int) -> float:
    dimension, noise = len(values), float(values[number:].mean())
    least = dimension * np.finfo(float).eps * values[0]
    if not (noise > least and values[number - 1] > least):
        return -math.inf
    free = dimension - np.arange(number)
    axes_terms = -number * math.log(2) + float((gammaln(0.5 * free) - 0.5 * free * LOG_PI).sum())
    length_terms = -0.5 * count * float(np.log(values[:number]).sum())
    noise_terms = -0.5 * count * (dimension - number) * math.log(noise)
    num_angles = dimension * number - number * (number + 1) / 2
    angle_terms = 0.5 * (num_angles + number) * math.log(2 * math.pi) - 0.5 * number * math.log(count)
    smoothed = np.concatenate([values[:number], np.full(dimension - number, noise)])
    first, second = np.triu_indices(number, 1, dimension)
    gaps = values[first] - values[second]
    if (gaps <= 0).any():  # axes of equal lengths are not identified: no curvature
        return -math.inf
    curvature = np.log(gaps * (1 / smoothed[second] - 1 / smoothed[first])).sum() + len(first) * math.log(count)
    return axes_terms + length_terms + noise_terms + angle_terms - 0.5 * float(curvature)


Spectrum = tuple[Float[Array, "*K D"], Float[Array, "*K D D"]]
"""Eigenvalues of covariances, the largest first, and their eigenvectors as columns."""


def spectrum_of(covariances: Float[Array, "*K D D"]) -> Spectrum:
    """Eigenvalues, the largest first, and eigenvectors."""
    values, vectors = namespace(covariances).linalg.eigh(covariances)
    return values[..., ::-1], vectors[..., ::-1]


def nearest_spectrum(
    values: Float[Array, "*K D"], num_factors: int
) -> tuple[Float[Array, "*K k"], Float[ArrayOrNumber, "*K"]]:
    """Squared lengths of the factors and the noise variance at which a covariance is nearest to one with these values.

    Nearest is the normal distribution of least Kullback-Leibler divergence from that of the covariance: of the sample
    covariance, the one of highest likelihood.

    Source: Tipping and Bishop (1999), Probabilistic principal component analysis, eq. 7 and 8.
    """
    noise = values[..., num_factors:].mean(-1)
    return values[..., :num_factors] - noise[..., None], noise


def covariance_of(
    lengths: Float[Array, "*K k"], noise: Float[ArrayOrNumber, "*K"], vectors: Float[Array, "*K D D"]
) -> Float[Array, "*K D D"]:
    """The covariance whose factors have these squared lengths along the first of orthonormal vectors."""
    xp, dimension = namespace(lengths, noise, vectors), vectors.shape[-1]
    axes = vectors[..., : lengths.shape[-1]]
    return (axes * lengths[..., None, :]) @ xp.swapaxes(axes, -1, -2) + noise[..., None, None] * xp.eye(dimension)


def nearest_factors(
    covariances: Float[Array, "*K D D"], num_factors: int
) -> tuple[Float[Array, "*K D k"], Float[ArrayOrNumber, "*K"]]:
    """Loadings W and noise variance v of the covariances W W' + v I that are nearest to some: see `nearest_spectrum`.

    The loadings are orthogonal, the longest first, the largest entry of each positive. Any rotation of the factors has
    the same covariance: these are the only ones whose columns are orthogonal, where no two have one length.
    """
    xp = namespace(covariances)
    values, vectors = spectrum_of(covariances)
    lengths, noise = nearest_spectrum(values, num_factors)
    axes = vectors[..., :num_factors]
    largest = xp.take_along_axis(axes, xp.argmax(abs(axes), -2)[..., None, :], -2)
    return axes * xp.sign(largest) * xp.sqrt(xp.maximum(lengths, 0.0))[..., None, :], noise


def pivoted_loadings(
    covariances: Float[np.ndarray, "K D D"], noise: Float[np.ndarray, " K"], num_factors: int
) -> Float[np.ndarray, "K D k"]:
    """Loadings W of covariances W W' + v I, up to a rotation, by k steps of a Cholesky factor with pivots.

    Where a covariance is not of this kind, these loadings give another one.
    """
    classes = np.arange(len(covariances))
    loadings = np.zeros((*covariances.shape[:2], num_factors))
    remaining = np.diagonal(covariances, axis1=-2, axis2=-1) - noise[:, None]
    for factor in range(num_factors):
        at_pivots = classes, remaining.argmax(-1)
        columns = covariances[at_pivots] - (loadings @ loadings[at_pivots][..., None])[..., 0]
        columns[at_pivots] -= noise
        pivots = columns[at_pivots][:, None]
        loadings[..., factor] = np.where(pivots > 0, columns, 0.0) / np.sqrt(np.where(pivots > 0, pivots, 1.0))
        remaining -= loadings[..., factor] ** 2
    return loadings


@record
class FactorDensity(MultivariateNormalDensity):
    """Densities of normal rows with covariances W W' + v I.

    With r = x - mean, M = W' W + v I and f = inv(M) W' r, the squared distance is |r - W f|^2 / v + |f|^2: two thin
    products for complete rows, and no difference of large numbers.
    """

    loadings: Float[np.ndarray, "K D k"]
    noise: Float[np.ndarray, " K"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        if observed is not None or namespace(values) is jnp:
            return super().log_prob(values, observed)
        num_classes, dimension, num_factors = self.loadings.shape
        transposed = np.swapaxes(self.loadings, -1, -2)
        matrices = transposed @ self.loadings + self.noise[:, None, None] * np.eye(num_factors)
        scores, squares = self.loadings @ np.linalg.inv(matrices), np.empty((len(values), num_classes))
        for part in chunks(len(values), max(CACHED_CELLS // (4 * dimension), 1)):
            for k in range(num_classes):
                residuals = values[part] - self.ellipsoids.loc[k]
                factors = residuals @ scores[k]
                residuals -= factors @ transposed[k]
                distances = np.einsum("nd,nd->n", residuals, residuals) / self.noise[k]
                squares[part, k] = distances + np.einsum("nf,nf->n", factors, factors)
        log_det = (dimension - num_factors) * np.log(self.noise) + np.linalg.slogdet(matrices)[1]
        return -0.5 * (squares + (log_det + dimension * LOG_2PI))


# --- loadings as lower triangular matrices ----------------------------------------------------------------------


def below_diagonal(dimension: int, num_factors: int) -> tuple[Int[np.ndarray, " F"], Int[np.ndarray, " F"]]:
    """Rows and columns of the entries of loadings (D, k) that are below the diagonal."""
    return np.tril_indices(dimension, -1, num_factors)


def triangular(diagonal: Float[Array, "*K k"], below: Float[Array, "*K F"], dimension: int) -> Float[Array, "*K D k"]:
    """Lower-triangular loadings (D, k) from their diagonal and the entries below it."""
    num_factors = diagonal.shape[-1]
    rows, columns = below_diagonal(dimension, num_factors)
    empty = jnp.zeros((*diagonal.shape[:-1], dimension, num_factors))
    diagonal_index = np.arange(num_factors)
    return empty.at[..., diagonal_index, diagonal_index].set(diagonal).at[..., rows, columns].set(below)


def made_triangular(loadings: Float[Array, "*K D k"]) -> Float[Array, "*K D k"]:
    """Loadings, their factors rotated so that they are lower triangular with a nonnegative diagonal."""
    num_factors, xp = loadings.shape[-1], namespace(loadings)
    rotation, upper = xp.linalg.qr(xp.swapaxes(loadings[..., :num_factors, :], -1, -2))
    signs = xp.where(xp.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return xp.tril(loadings @ (rotation * signs[..., None, :]))


class FactorTransform(Transform):
    """From covariances W W' + v I to the sites that are sampled: v, and the entries of a triangular W in a basis.

    Any other covariance is replaced by the nearest of this form: see `nearest_spectrum`.

    Args:
        num_factors: k.
        basis: orthonormal columns in whose coordinates W is made triangular; None for the columns themselves.
    """

    domain: ClassVar[Constraint] = constraints.positive_definite
    codomain: ClassVar[Constraint] = constraints.real_vector

    def __init__(self, num_factors: int, basis: Float[Array, "*K D D"] | None = None) -> None:
        self.num_factors, self.basis = num_factors, basis

    def _inverse(self, y: Float[Array, "..."]) -> Float[Array, ""]:
        """NaN: one site does not determine the covariance, which the program records beside the sites."""
        return jnp.full((), jnp.nan)

    def log_abs_det_jacobian(
        self, x: Float[Array, "..."] | None, y: Float[Array, "..."], intermediates: None = None
    ) -> Float[Array, "..."]:
        """Log-Jacobian of the site `y` by loadings and noise, without that of the rotation."""
        return jnp.zeros(())

    def tree_flatten(self) -> Any:
        return (self.basis,), (("basis",), {"num_factors": self.num_factors})

    def _loadings(self, covariances: Float[Array, "*draws D D"]) -> Float[Array, "*draws D k"]:
        loadings, _ = nearest_factors(covariances, self.num_factors)
        if self.basis is not None:
            loadings = self.basis.swapaxes(-1, -2) @ loadings
        return made_triangular(loadings)


class ToNoise(FactorTransform):
    """The noise variance of covariances."""

    codomain = constraints.positive

    def __call__(self, x: Float[Array, "*draws D D"]) -> Float[ArrayOrNumber, "*draws"]:
        """The mean of the eigenvalues that are not the largest."""
        return nearest_spectrum(spectrum_of(x)[0], self.num_factors)[1]


class ToDiagonal(FactorTransform):
    """The diagonal of triangular loadings."""

    def __call__(self, x: Float[Array, "*draws D D"]) -> Float[Array, "*draws k"]:
        return self._loadings(x).diagonal(axis1=-2, axis2=-1)

    def log_abs_det_jacobian(
        self, x: Float[Array, "..."] | None, y: Float[Array, "... k"], intermediates: None = None
    ) -> Float[Array, "..."]:
        """Loadings that are made triangular with the diagonal y are a volume of prod_j |y_j|^(k - j).

        Source: Muirhead (1982), Aspects of Multivariate Statistical Theory, theorem 2.1.13.
        """
        free = np.arange(self.num_factors)[::-1]
        return -(jnp.where(free == 0, 0.0, free * jnp.log(jnp.where(free == 0, 1.0, jnp.abs(y))))).sum(-1)


class ToBelow(FactorTransform):
    """The entries of triangular loadings below the diagonal."""

    def __call__(self, x: Float[Array, "*draws D D"]) -> Float[Array, "*draws F"]:
        return self._loadings(x)[(..., *below_diagonal(x.shape[-1], self.num_factors))]


# --- the mode of loadings and noise -----------------------------------------------------------------------------


def posterior_spectrum(
    values: Float[np.ndarray, " D"], count: float, num_factors: int, variance: float, shape: float, scale: float
) -> tuple[Float[np.ndarray, " k"], float]:
    """Squared lengths of the factors and noise variance at the joint mode of loadings and noise.

    It maximises -count / 2 (log|C| + tr(inv(C) S)) - |W|^2 / (2 variance) - (shape + 1) log v - scale / v, where
    C = W W' + v I and S has these eigenvalues. The axes of W are those of S, the first with the largest eigenvalue. For
    a factor of positive length, c = length + v solves c^2 / variance + count (c - l) = 0, whatever v is; given the
    number m of such factors, v solves m v^2 / variance - P v + R = 0. The objective is differentiable, so its maximum
    is among these stationary points.

    Args:
        values: eigenvalues l, the largest first.
        count: weight of the rows.
        num_factors: k.
        variance: of the entries of loadings.
        shape, scale: of the inverse gamma distribution of the noise.
    """
    dimension = len(values)
    totals = 2 * count * values / (count + np.sqrt(count**2 + 4 * count * values / variance)) if count else 0 * values
    best, mode = math.inf, (np.zeros(num_factors), math.nan)
    for active in range(num_factors + 1):
        power = count * (dimension - active) + 2 * (shape + 1)
        noise_total = count * values[active:].sum() + 2 * scale
        root = power**2 - 4 * active * noise_total / variance
        if root < 0:
            continue
        noise = 2 * noise_total / (power + math.sqrt(root))
        lengths = np.zeros(num_factors)
        lengths[:active] = totals[:active] - noise
        if (lengths[:active] <= 0).any():
            continue
        active_totals = totals[:active]
        objective = count * (np.log(active_totals) + values[:active] / active_totals).sum() if active else 0.0
        objective += lengths.sum() / variance + power * math.log(noise) + noise_total / noise
        if objective < best:
            best, mode = objective, (lengths, float(noise))
    return mode
