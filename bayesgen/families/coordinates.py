"""Unconstrained coordinates of sites that are not NumPyro's own, in which modes are searched and posteriors sampled."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import LowerCholeskyTransform, Transform, biject_to

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


class InverseFactor(LowerCholeskyTransform):
    """From vectors to Cholesky factors L = C inv(T), T lower triangular with the logs of its diagonal in the vector.

    Where the covariance L L' is inverse Wishart with the scale matrix C C', the entries of T are independent: chi on
    the diagonal, standard normal below it (Bartlett's decomposition).
    """

    def __init__(self, factor: Float[Array, "*K D D"]) -> None:
        self.factor = factor

    def __call__(self, x: Float[Array, "*K F"]) -> Float[Array, "*K D D"]:
        inverse = super().__call__(x)
        transposed = jnp.broadcast_to(self.factor, inverse.shape).swapaxes(-1, -2)
        return solve_triangular(inverse, transposed, lower=True, trans=1).swapaxes(-1, -2)

    def _inverse(self, y: Float[Array, "*K D D"]) -> Float[Array, "*K F"]:
        return super()._inverse(solve_triangular(y, jnp.broadcast_to(self.factor, y.shape), lower=True))

    def log_abs_det_jacobian(
        self, x: Float[Array, "*K F"], y: Float[Array, "*K D D"], intermediates: None = None
    ) -> Float[Array, "*K"]:
        dimension = self.factor.shape[-1]
        of_factor = (np.arange(1, dimension + 1) * jnp.log(jnp.diagonal(self.factor, axis1=-2, axis2=-1))).sum(-1)
        return of_factor - dimension * super().log_abs_det_jacobian(x, y)

    def tree_flatten(self) -> Any:
        return (self.factor,), (("factor",), {})

    __eq__, __hash__ = object.__eq__, object.__hash__
