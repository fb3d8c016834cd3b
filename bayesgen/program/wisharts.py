"""The form of matrices whose precision has a Wishart distribution, and of their factors: tables of a `Tables` stage."""

import dataclasses
import math

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bayesgen.families import inverse_wishart_variance, quotient
from bayesgen.records import record, static
from bayesgen.typing import Array, Float

from .random_numbers import RandomNumbers
from .tables import FAR, PointAndSlope, TableDistribution, TableForm, log_gamma


@dataclasses.dataclass(frozen=True)
class WishartForm(TableForm):
    """Matrices whose precision has a Wishart distribution; coordinates are the precision.

    Attributes:
        inverse: whether the latent is the covariance, the inverse of the precision.
        factor: whether it is the lower Cholesky factor.
    """

    inverse: bool
    factor: bool

    @property
    def family(self) -> str:
        family = "inverse Wishart" if self.inverse else "Wishart"
        return f"factor of {family}" if self.factor else family

    @property
    def power(self) -> int:  # type: ignore[override]
        return (-1 if self.inverse else 1) * (2 if self.factor else 1)

    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        unit = jnp.broadcast_to(jnp.eye(shape[-1]), shape)
        return unit / FAR, unit * FAR

    def value(self, coordinates: Array) -> Array:
        matrix = _inverse(coordinates) if self.inverse else coordinates
        return jnp.linalg.cholesky(matrix) if self.factor else matrix

    def precision(self, value: Array) -> Array:
        """The inverse of `value`."""
        matrix = value @ jnp.swapaxes(value, -1, -2) if self.factor else value
        return _inverse(matrix) if self.inverse else matrix

    def log_jacobian(self, value: Array) -> Float[Array, ""]:
        size = value.shape[-1]
        if not self.factor:
            return self.inverse * (size + 1) * _log_determinant(value).sum()
        powers = jnp.arange(size) - size + 2 * self.inverse * (size + 1)  # of the entries of the diagonal
        logs = jnp.log(jnp.diagonal(value, axis1=-2, axis2=-1))
        return (powers * logs - math.log(2)).sum()

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "WishartTable":
        size = first[0].shape[-1]
        exponent = (jnp.trace(first[1], axis1=-2, axis2=-1) / size) / FAR
        return WishartTable(2 * exponent + size + 1, -second[1] - jnp.swapaxes(second[1], -1, -2), self)


@record
class WishartTable(TableDistribution):
    """Matrices whose precision has a Wishart distribution.

    Attributes:
        df: degrees of freedom.
        scale: of the inverse Wishart distribution of the covariances, the sum of squares.
        form: of the latent.
    """

    df: Float[Array, "*shape"]
    scale: Float[Array, "*shape D D"]
    form: WishartForm = static()

    @property
    def size(self) -> int:
        return self.scale.shape[-1]

    def log_prob(self, value: Array) -> Float[Array, ""]:
        precision, half = self.form.precision(value), 0.5 * self.df
        log_scale, log_precision = map(_log_determinant, (self.scale, precision))
        log_gammas = log_gamma(half[..., None] - 0.5 * jnp.arange(self.size)).sum(-1)
        constant = (
            half * (log_scale - self.size * math.log(2))
            - log_gammas
            - 0.25 * self.size * (self.size - 1) * math.log(math.pi)
        )
        trace = jnp.einsum("...ij,...ji->...", self.scale, precision)
        by_precision = constant + (half - 0.5 * (self.size + 1)) * log_precision - 0.5 * trace
        return by_precision.sum() - self.form.log_jacobian(value)

    def sample(self, random: RandomNumbers) -> Array:
        squares = 2 * jnp.exp(random.log_gamma(0.5 * (self.df[..., None] - jnp.arange(self.size))))
        diagonal = jnp.sqrt(squares)[..., None] * jnp.eye(self.size)
        bartlett = jnp.tril(random.normal(self.scale.shape), -1) + diagonal
        factor = jnp.linalg.cholesky(_inverse(self.scale)) @ bartlett
        return self.form.value(factor @ jnp.swapaxes(factor, -1, -2))

    def about(self, numbers: Array) -> Array:
        factor = jnp.linalg.cholesky(_inverse(self.scale)) * jnp.sqrt(self.df)[..., None, None]
        factor = factor @ (jnp.eye(self.size) + numbers / jnp.sqrt(self.df + 1)[..., None, None] / self.size)
        return self.form.value(factor @ jnp.swapaxes(factor, -1, -2))

    def mean(self) -> Array:
        if not self.form.inverse:
            return self.center()
        covariance = quotient(self.scale, (self.df - self.size - 1)[..., None, None])
        return jnp.linalg.cholesky(covariance) if self.form.factor else covariance

    def mode(self) -> Array:
        inverse, factor = self.form.inverse, self.form.factor
        exponents = self.df[..., None] + (1 if inverse else -1) * (1 + jnp.arange(self.size))  # of a factor's diagonal
        if not factor:  # of a matrix
            exponents = jnp.broadcast_to(self.df[..., None] + (1 if inverse else -1) * (1 + self.size), exponents.shape)
        roots = jnp.where(exponents > 0, exponents, jnp.nan) ** (-0.5 if inverse else 0.5)
        lower = jnp.linalg.cholesky(self.scale if inverse else _inverse(self.scale)) * roots[..., None, :]
        return lower if factor else lower @ jnp.swapaxes(lower, -1, -2)

    def variance(self) -> Array:
        if self.form.factor:
            return jnp.full(self.scale.shape, jnp.nan)
        if self.form.inverse:
            return inverse_wishart_variance(self.scale, self.df)
        matrix = _inverse(self.scale)
        diagonal = jnp.diagonal(matrix, axis1=-2, axis2=-1)
        return self.df[..., None, None] * (matrix**2 + diagonal[..., :, None] * diagonal[..., None, :])

    def quantile(self, prob: float) -> Array:
        return jnp.full(self.scale.shape, jnp.nan)


def _inverse(matrix: Float[Array, "*shape D D"]) -> Float[Array, "*shape D D"]:
    """The inverse of a positive definite matrix."""
    half = solve_triangular(
        jnp.linalg.cholesky(matrix), jnp.broadcast_to(jnp.eye(matrix.shape[-1]), matrix.shape), lower=True
    )
    return jnp.swapaxes(half, -1, -2) @ half


def _log_determinant(matrix: Float[Array, "*shape D D"]) -> Float[Array, "*shape"]:
    """Log determinant of a positive definite matrix."""
    return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix), axis1=-2, axis2=-1)).sum(-1)
