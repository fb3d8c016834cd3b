"""Unconstrained coordinates of sites that are not NumPyro's own, in which modes are searched and posteriors sampled."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import multigammaln
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import (
    CholeskyTransform,
    LowerCholeskyAffine,
    LowerCholeskyTransform,
    Transform,
    biject_to,
)

from bayesgen.statistics import LOG_2PI, WhitenedNormalLikelihood, inverse_lower, log_diagonal, namespace, register
from bayesgen.typing import Array, Bool, Float


class Moved(Constraint):
    """A support whose unconstrained coordinates are those of a transform onto it."""

    def __init__(self, support: Constraint, transform: Transform) -> None:
        self.support, self.transform = support, transform
        self.is_discrete, self.event_dim = False, support.event_dim

    def __call__(self, x: Float[Array, "..."]) -> Bool[Array, "..."]:
        return self.support(x)

    def feasible_like(self, prototype: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.support.feasible_like(prototype)

    def tree_flatten(self) -> Any:
        return (self.support, self.transform), (("support", "transform"), {})

    __eq__, __hash__ = object.__eq__, object.__hash__


biject_to.register(Moved, lambda support: support.transform)


def moved(prior: dist.Distribution, transform: Transform) -> dist.Distribution:
    """The distribution, its unconstrained coordinates being those of a transform onto its support."""
    prior.support = Moved(prior.support, transform)
    return prior


class RelativeFactor(LowerCholeskyTransform):
    """From vectors to lower-triangular matrices T A, the logs of the diagonal of T being in the vector.

    Where T A is the inverse of the Cholesky factor of a covariance that is inverse Wishart, with a scale matrix near to
    that of which inv(A) is the factor, the entries of T are nearly independent: see `InverseWishartWhitening`.
    """

    def __init__(self, factor: Float[Array, "*K D D"]) -> None:
        self.factor = factor

    def __call__(self, x: Float[Array, "*K F"]) -> Float[Array, "*K D D"]:
        return super().__call__(x) @ self.factor

    def _inverse(self, y: Float[Array, "*K D D"]) -> Float[Array, "*K F"]:
        return super()._inverse(y @ inverse_lower(self.factor))

    def log_abs_det_jacobian(
        self, x: Float[Array, "*K F"], y: Float[Array, "*K D D"], intermediates: None = None
    ) -> Float[Array, "*K"]:
        order = np.arange(self.factor.shape[-1], 0, -1)
        factor_log_det = (order * jnp.log(jnp.diagonal(self.factor, axis1=-2, axis2=-1))).sum(-1)
        return factor_log_det + super().log_abs_det_jacobian(x, y)

    def tree_flatten(self) -> Any:
        return (self.factor,), (("factor",), {})

    __eq__, __hash__ = object.__eq__, object.__hash__


class Unwhitening(LowerCholeskyAffine):
    """The map x -> loc + inv(W) x, for a lower-triangular matrix W in place of `scale_tril`."""

    def __init__(self, loc: Float[Array, "*K D"], scale_tril: Float[Array, "*K D D"]) -> None:
        # NumPyro 0.21's own takes one matrix alone, and no batch of them.
        self.loc, self.scale_tril = loc, scale_tril

    def __call__(self, x: Float[Array, "*K D"]) -> Float[Array, "*K D"]:
        return self.loc + solve_triangular(self.scale_tril, x[..., None], lower=True)[..., 0]

    def _inverse(self, y: Float[Array, "*K D"]) -> Float[Array, "*K D"]:
        return (self.scale_tril @ (y - self.loc)[..., None])[..., 0]

    def log_abs_det_jacobian(
        self, x: Float[Array, "*K D"], y: Float[Array, "*K D"], intermediates: None = None
    ) -> Float[Array, "*K"]:
        return jnp.broadcast_to(-log_diagonal(self.scale_tril), x.shape[:-1])


class ToWhitening(CholeskyTransform):
    """From covariances to the inverses W of their Cholesky factors."""

    def __call__(self, x: Float[Array, "*K D D"]) -> Float[Array, "*K D D"]:
        return inverse_lower(namespace(x).linalg.cholesky(x))

    def _inverse(self, y: Float[Array, "*K D D"]) -> Float[Array, "*K D D"]:
        return super()._inverse(inverse_lower(y))

    def log_abs_det_jacobian(
        self, x: Float[Array, "*K D D"], y: Float[Array, "*K D D"], intermediates: None = None
    ) -> Float[Array, "*K"]:
        dimension = y.shape[-1]
        order = 2 * dimension + 1 - np.arange(dimension)
        return (order * jnp.log(jnp.diagonal(y, axis1=-2, axis2=-1))).sum(-1) - dimension * math.log(2)


class InverseWishartWhitening(dist.InverseWishartCholesky):
    """Inverses W of the Cholesky factors of covariances that are inverse Wishart.

    With the factor C of the scale matrix, the entries of W C are independent: chi on the diagonal, and standard normal
    below it (Bartlett's decomposition).
    """

    def log_prob(self, value: Float[Array, "*K D D"]) -> Float[Array, "*K"]:
        df, factor, dimension = self.concentration, self.scale_tril, value.shape[-1]
        powers = df[..., None] - dimension + np.arange(dimension)
        diagonal_terms = (powers * jnp.log(jnp.diagonal(value, axis1=-2, axis2=-1))).sum(-1)
        constant = df * log_diagonal(factor) + dimension * (1 - df / 2) * math.log(2) - multigammaln(df / 2, dimension)
        return constant + diagonal_terms - 0.5 * ((value @ factor) ** 2).sum((-1, -2))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        return inverse_lower(super().sample(key, sample_shape))


class NormalByWhitening(dist.MultivariateNormal):
    """Normal vectors x, of which W (x - loc) is standard normal: W is the inverse of their Cholesky factor."""

    def __init__(self, loc: Float[Array, "*K D"], whitening: Float[Array, "*K D D"]) -> None:
        self.whitening = whitening
        super().__init__(loc, scale_tril=inverse_lower(whitening), validate_args=False)

    def log_prob(self, value: Float[Array, "*K D"]) -> Float[Array, "*K"]:
        whitened = (self.whitening @ (value - self.loc)[..., None])[..., 0]
        constant = log_diagonal(self.whitening) - 0.5 * value.shape[-1] * LOG_2PI
        return constant - 0.5 * (whitened**2).sum(-1)


register(
    NormalByWhitening,
    WhitenedNormalLikelihood(),
    lambda d: {"loc": d.loc, "scale_tril": d.scale_tril, "whitening": d.whitening},
    event_dims={"loc": 1, "scale_tril": 2, "whitening": 2},
)
