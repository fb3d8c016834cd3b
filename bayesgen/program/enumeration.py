"""`Enumeration`: discrete latents summed out of a log density, a stage of `Elimination`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.records import record, static
from bayesgen.runtime import TABLE_CELLS
from bayesgen.typing import Array, Float, Int

from .elimination import LogDensityOfValues, Stage, StageDistribution
from .random_numbers import RandomNumbers
from .structure import Arrays, FiniteSite, joint_values


@dataclasses.dataclass(frozen=True)
class Enumeration(Stage):
    """Discrete latents, whose joint values are enumerated.

    Attributes:
        latents: the latents.
        cost: about how many numbers the density computes at each joint value.
    """

    latents: tuple[FiniteSite, ...]
    cost: float = 1.0

    @property
    def families(self) -> dict[str, str]:
        return dict.fromkeys(self.names, "finite")

    @property
    def value_shapes(self) -> dict[str, tuple[int, ...]]:
        return {site.name: site.shape for site in self.latents}

    def over_values(self, function: Callable[..., Any], *arrays: Any, index: Any = slice(None)) -> Any:
        """The results of a function at joint values, all or those of an index, and the entries of arrays. Traceable.

        They are computed together where their numbers make a table that is small enough; else batch by batch, and by
        the backward pass again.
        """
        values = self.at(index)
        batch = max(1, int(TABLE_CELLS / max(1.0, self.cost)))
        if batch >= len(values[self.names[0]]):
            return jax.vmap(function)(values, *arrays)
        return jax.lax.map(lambda parts: jax.checkpoint(function)(*parts), (values, *arrays), batch_size=batch)

    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> "WeightedValues":
        logs = self.over_values(lambda values: log_density({**others, **values}))
        log_integral = logsumexp(logs)
        return WeightedValues(self, logs - log_integral, log_integral)

    def at(self, index: Int[Array, "*draws"] | slice) -> Arrays:
        """Latent -> its value in the joint values of these numbers."""
        return {name: jnp.asarray(values)[index] for name, values in joint_values(self.latents).items()}


@record
class WeightedValues(StageDistribution):
    """Joint values of discrete latents, with their probabilities.

    Their most probable value stands for the mean, which they do not have.

    Attributes:
        stage: the latents.
        log_weights: log probability of each joint value.
        log_integral: of the density that it was made from.
    """

    stage: Enumeration = static()
    log_weights: Float[Array, " J"]
    log_integral: Float[Array, ""]

    def log_prob(self, values: Arrays) -> Float[Array, ""]:
        table = joint_values(self.stage.latents)
        equal = [(table[name] == values[name]).reshape(len(self.log_weights), -1).all(1) for name in table]
        return jnp.where(jnp.stack(equal).all(0), self.log_weights, -jnp.inf).max()

    def sample(self, random: RandomNumbers) -> Arrays:
        times = jnp.exp(random.log_gamma(jnp.ones_like(self.log_weights)) - self.log_weights)
        return self.stage.at(jnp.argmin(times, -1))

    def about(self, numbers: Arrays) -> Arrays:
        return self.mode()

    def mean(self) -> Arrays:
        return self.mode()

    def mode(self) -> Arrays:
        return self.stage.at(jnp.argmax(self.log_weights))

    def variance(self) -> Arrays:
        return {name: jnp.full(value.shape, np.nan) for name, value in self.mode().items()}

    def quantile(self, prob: float) -> Arrays:
        return self.variance()
