"""Two processes that are drawn to each other: the objective of hybrid training."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from bayesgen.log_density import LogDensity
from bayesgen.records import record
from bayesgen.solvers import Whitening
from bayesgen.typing import Array, Float


@record
class CoupledDensity(LogDensity):
    """One log density of a point, another one of another point, and a normal density of the distance of the two.

    The vector holds whitened coordinates (a, b) of the pair a + t b and a - t b. The distance is normal with a variance
    v in each coordinate, -(2 t b)^2 / (2 v), and t = sqrt(v / (v + 4)) keeps the curvature along b below 1 however
    small v is, and tends to 1 as it grows.

    Attributes:
        first, second: the log densities.
        whitening: from whitened coordinates to those of the densities.
        variance: v.
    """

    first: LogDensity
    second: LogDensity
    whitening: Whitening
    variance: Float[Array, ""]

    @property
    def dimension(self) -> int:
        """Both points."""
        return 2 * len(self.whitening.center)

    def pair(self, vector: Float[Array, " D"]) -> tuple[Float[Array, " half"], Float[Array, " half"]]:
        """Both points, in the coordinates of their densities."""
        middle, apart = jnp.split(jnp.asarray(vector), 2)
        shift = jnp.sqrt(self.variance / (self.variance + 4)) * apart
        return self.whitening(middle + shift), self.whitening(middle - shift)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Sum of both densities and of that of the distance."""
        one, other = self.pair(vector)
        apart = jnp.split(jnp.asarray(vector), 2)[1]
        return self.first(one) + self.second(other) - 2 * (apart**2).sum() / (self.variance + 4)

    def constrain(self, vector: Float[Array, " D"]) -> Mapping[str, Array]:
        """What the first point stands for."""
        return self.first.constrain(self.pair(vector)[0])

    @property
    def cost(self) -> float:
        """Of both."""
        return self.first.cost + self.second.cost

    @property
    def loops_over_rows(self) -> bool:
        """Where one of them does."""
        return self.first.loops_over_rows or self.second.loops_over_rows

    @property
    def owner(self) -> Any:
        """That of the first."""
        return self.first.owner
