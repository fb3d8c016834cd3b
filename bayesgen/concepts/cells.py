"""Sets of examples, as far as hyperparameters are concerned: how much prior mass meets them in each possible way.

Hypotheses of one group of the prior and one size that hold equally many of the examples differ by nothing that a
hyperparameter moves: they are one cell. So the probability of a set of examples costs what its cells cost, some
hundreds, whatever the number of hypotheses. Sets of equally many examples have cells of the same kinds, so that their
probabilities are a matrix of masses times a vector.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from bayesgen.records import record

from .bands import log_probability, sum_over_bands
from .likelihood import Tally, log_likelihood
from .prior import Factors


@dataclasses.dataclass(frozen=True)
class Setting:
    """What of a learner is no array: hashable, a key of compiled functions.

    Attributes:
        factors: the log prior factors of groups of hypotheses.
        sampling: that of the learner.
        num_members: D, the size of the domain.
    """

    factors: Factors
    sampling: str
    num_members: int

    @classmethod
    def of(cls, learner):
        """That of a learner."""
        return cls(learner.space.structure.factors, learner.sampling, len(learner.space.domain))


@record
class Cells:
    """C kinds of sets (numbers of examples), at most S sets of each, at most U cells; padded with masses of zero.

    Attributes:
        tally: (C, U) how the examples fall with the hypotheses of a cell.
        groups: (C, U) their group of the prior.
        masses: (C, S, U) sums over these hypotheses of their prior probabilities up to the group's factor.
    """

    tally: Tally
    groups: Any
    masses: Any

    def log_evidence(self, setting, values):
        """Log probability of all sets at hyperparameters by name, the hypothesis of each set summed out."""
        return log_probability(self._logs(setting, values), self.masses)

    def average_posterior(self, setting, values):
        """Sums over draws of the hyperparameters, name -> (draws,), of the cells' posteriors and of these times noise.

        Both are (C, S, U): probabilities for each unit of mass.
        """

        def term(band):
            noisy = band.shares * values["noise"][:, None, None]
            return tuple(jnp.einsum("dcu,dcs->csu", band.units, each) for each in (band.shares, noisy))

        return sum_over_bands(term, jax.vmap(lambda each: self._logs(setting, each))(values), self.masses)

    def _logs(self, setting, values):
        """(C, U) log probabilities by unit of mass."""
        prior = jnp.asarray(setting.factors(values))[self.groups]
        return prior + log_likelihood(self.tally, values["noise"], setting.sampling, setting.num_members)
