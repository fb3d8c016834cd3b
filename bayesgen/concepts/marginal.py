"""The log density of hyperparameters given sets of examples, with the hypotheses summed out."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesgen.log_density import LogDensity
from bayesgen.program import at_free, dispersed, free_of
from bayesgen.records import record, static
from bayesgen.typing import Array, Float, PRNGKeyArray

from .hypothesis_classes import HypothesisClasses, Setting
from .table import Table


@record
class ConceptMarginal(LogDensity):
    """hyperparameters ~ their priors; examples ~ the sum over hypotheses. The vector holds the unknown, unconstrained.

    Attributes:
        hyperparameters: numbers or distributions by name.
        classes: the hypotheses, in classes that neither examples nor hyperparameters tell apart.
        names: the hyperparameters that are distributions, in the order of the vector.
        setting: the rest of the learner.
    """

    hyperparameters: dict[str, Any]
    classes: HypothesisClasses
    names: tuple[str, ...] = static()
    setting: Setting = static()

    @classmethod
    def of(cls, table: Table) -> "ConceptMarginal":
        """That of a learner's sets of examples."""
        learner = table.learner
        return cls(learner.hyperparameters, table.classes, tuple(learner.unknown), Setting.of(learner))

    @property
    def priors(self) -> dict[str, dist.Distribution]:
        """Those of the unknown hyperparameters, by name."""
        return {name: self.hyperparameters[name] for name in self.names}

    @property
    def dimension(self) -> int:
        """How many hyperparameters are unknown."""
        return len(self.names)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log density of unconstrained hyperparameters, Jacobian included."""
        points = [at_free(prior, vector[index]) for index, prior in enumerate(self.priors.values())]
        values = {name: point.value for name, point in zip(self.names, points, strict=True)}
        log_prior = sum(point.log_prob + point.log_jacobian for point in points)
        return log_prior + self._log_evidence(values)

    def at(self, values: Mapping[str, Array]) -> Float[Array, ""]:
        """Log density of hyperparameters in their own ranges, by name."""
        return sum(prior.log_prob(values[name]) for name, prior in self.priors.items()) + self._log_evidence(values)

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        """Hyperparameters by name."""
        pairs = enumerate(self.priors.items())
        return {name: at_free(prior, vector[index]).value for index, (name, prior) in pairs}

    def prior_draws(self, key: PRNGKeyArray, number: int) -> Float[Array, "number D"]:
        """Draws of the unknown hyperparameters from their priors."""
        keys = jax.random.split(key, self.dimension)
        draws = [
            prior.sample(key_of_prior, (number,))
            for prior, key_of_prior in zip(self.priors.values(), keys, strict=True)
        ]
        return jnp.stack(draws, axis=1)

    def name_of(self, index: int) -> str:
        """The hyperparameter."""
        return self.names[index]

    def _log_evidence(self, values: Mapping[str, Array]) -> Float[Array, ""]:
        return self.classes.log_evidence(self.setting, {**self.hyperparameters, **values})


def prior_starts(marginal: ConceptMarginal, key: PRNGKeyArray, num_draws: int = 8) -> Float[np.ndarray, "starts D"]:
    """Where to look for the mode: the origin, points around it and draws from the priors. Inside float64."""
    first, second = jax.random.split(key)
    draws = marginal.prior_draws(first, num_draws)
    free = [free_of(prior, values) for prior, values in zip(marginal.priors.values(), draws.T, strict=True)]
    return dispersed(np.asarray(jnp.stack(free, axis=1)), second)
