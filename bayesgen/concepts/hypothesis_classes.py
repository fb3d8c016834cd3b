"""Classes of hypotheses that have the same likelihood and the same prior factor, whatever the hyperparameters.

Hypotheses of one group of the prior and one size that hold equally many of the examples are one class. The probability
of a set of examples is a sum over its classes, some hundreds, whatever the number of hypotheses. Sets with equally many
examples share their classes, so that the probabilities of all of them are a matrix of prior masses times a vector.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from bayesgen.records import record
from bayesgen.typing import Array, Float, Int

from .bands import Band, log_probability, sum_over_bands
from .hyperparameters import Number
from .learner import ConceptLearner
from .likelihood import Tally, log_likelihood
from .prior import Factors


@dataclasses.dataclass(frozen=True)
class Setting:
    """The parts of a learner that are no arrays: hashable, for functions are compiled once for each.

    Attributes:
        factors: the log prior factors of groups of hypotheses.
        sampling: that of the learner.
        num_members: D, the size of the domain.
    """

    factors: Factors
    sampling: str
    num_members: int

    @classmethod
    def of(cls, learner: ConceptLearner) -> "Setting":
        """The setting of a learner."""
        return cls(learner.space.structure.factors, learner.sampling, len(learner.space.domain))


@record
class HypothesisClasses:
    """C kinds of sets (numbers of examples), at most S sets of each, at most U classes; padded with masses of zero.

    Attributes:
        tally: (C, U), how the examples fall with the hypotheses of a class.
        groups: their group of the prior.
        masses: sums over these hypotheses of their prior probabilities up to the group's factor.
    """

    tally: Tally
    groups: Int[Array, "C U"]
    masses: Float[Array, "C S U"]

    def log_evidence(self, setting: Setting, values: Mapping[str, Number]) -> Float[Array, ""]:
        """Log probability of all sets at hyperparameters by name, the hypothesis of each set summed out."""
        return log_probability(self._logs(setting, values), self.masses)

    def average_posterior(
        self, setting: Setting, values: Mapping[str, Float[Array, " draws"]]
    ) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
        """Sums over draws of the hyperparameters of the classes' posteriors, and of these times noise.

        Both are probabilities for each unit of mass.
        """

        def term(band: Band) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
            noisy = band.shares * values["noise"][:, None, None]
            posterior, times_noise = (jnp.einsum("dcu,dcs->csu", band.units, shares) for shares in (band.shares, noisy))
            return posterior, times_noise

        logs = jax.vmap(lambda values_of_draw: self._logs(setting, values_of_draw))(values)
        return sum_over_bands(term, logs, self.masses)

    def _logs(self, setting: Setting, values: Mapping[str, Number]) -> Float[Array, "C U"]:
        """Log probability of the examples under each class, for one unit of its mass."""
        prior = jnp.asarray(setting.factors(values))[self.groups]
        return prior + log_likelihood(self.tally, values["noise"], setting.sampling, setting.num_members)
