"""Classes of hypotheses that have the same likelihood and the same prior factor, whatever the hyperparameters.

Hypotheses of one group of the prior and one size that hold equally many of the examples are one class. The probability
of a set of examples is a sum over its classes, some hundreds, whatever the number of hypotheses. Sets with equally many
examples share their classes, so that the probabilities of all of them are a matrix of prior masses times a vector.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int

from .learner import ConceptLearner, Tally, log_likelihood
from .prior import Factors, Number

# Sums of exponentials over classes of hypotheses, for many sets of examples at once: nothing underflows.
#
# The probability of a set of examples is sum_u masses[u] exp(logs[u]) over its classes. One scale for all sets would
# let those underflow whose classes are all far below the best, as happens where noise is tiny and sets differ in how
# many examples it must explain. So the sum is taken in bands: the first is scaled by the best class of all sets, the
# next by the best class of those that had (almost) nothing in it, and so on. There is hardly ever a second one.
#
# A scale for each set would be plainer. NUTS with 24 sets takes 3 times as long with it, with 200 sets 9 times: see
# `_sets` in benchmarks/finite.

Sums = TypeVar("Sums")  # arrays, one or several

ALMOST_NOTHING = 1e-250  # totals above have all digits: what they lack is below the smallest number, 1e-308


@dataclasses.dataclass(frozen=True)
class Band:
    """Kinds C, sets S, classes U, after batch axes of any number.

    Attributes:
        tops: the log scale.
        units: exponentials relative to it, of the classes that are not above it.
        totals: sums of masses times units.
        settled: the sets whose totals are those of this band.
    """

    tops: Float[Array, "*batch C 1"]
    units: Float[Array, "*batch C U"]
    totals: Float[Array, "*batch C S"]
    settled: Bool[Array, "*batch C S"]

    @classmethod
    def of(
        cls,
        logs: Float[Array, "*batch C U"],
        masses: Float[Array, "C S U"],
        pending: Bool[Array, "*batch C S"],
        classes: Bool[Array, "*batch C U"] | bool = True,
    ) -> "Band":
        """The band whose scale is the best of some classes: those of the sets that are pending."""
        tops = jax.lax.stop_gradient(jnp.where(classes, logs, -jnp.inf).max(-1, keepdims=True))
        tops = jnp.where(jnp.isneginf(tops), 0.0, tops)
        units = jnp.exp(jnp.where(logs <= tops, logs - tops, -jnp.inf))
        totals = jnp.einsum("...cu,csu->...cs", units, masses)
        return cls(tops, units, totals, pending & (totals > ALMOST_NOTHING))

    @property
    def shares(self) -> Float[Array, "*batch C S"]:
        """Inverse totals, which make units posterior probabilities for one unit of mass; 0 for sets of other bands."""
        return jnp.where(self.settled, 1 / jnp.where(self.settled, self.totals, 1.0), 0.0)

    @property
    def log_totals(self) -> Float[Array, "*batch C S"]:
        """Logs of the sums of exponentials; 0 for sets of other bands."""
        return jnp.where(self.settled, self.tops + jnp.log(jnp.where(self.settled, self.totals, 1.0)), 0.0)


def sum_over_bands(
    term: Callable[[Band], Sums], logs: Float[Array, "*batch C U"], masses: Float[Array, "C S U"]
) -> Sums:
    """The sum over bands of a function of each, arrays; rows of masses that are all 0 are padding and in no band."""

    def after(pending: Array, band: Band) -> Array:
        """The sets that are pending after a band; none of a kind of which it settled no set, for no band will."""
        return pending & ~band.settled & band.settled.any(-1, keepdims=True)

    def step(state: tuple[Array, Sums]) -> tuple[Array, Sums]:
        pending, sums = state
        classes = jnp.einsum("...cs,csu->...cu", pending.astype(masses.dtype), masses) > 0
        band = Band.of(logs, masses, pending, classes)
        return after(pending, band), jax.tree.map(jnp.add, sums, term(band))

    pending = jnp.broadcast_to(masses.any(-1), (*logs.shape[:-1], masses.shape[1]))
    first = Band.of(logs, masses, pending)  # outside of the loop, as it need not look which classes there are
    return jax.lax.while_loop(lambda state: state[0].any(), step, (after(pending, first), term(first)))[1]


@jax.custom_jvp
def log_probability(logs: Float[Array, "C U"], masses: Float[Array, "C S U"]) -> Float[Array, ""]:
    """Sum over sets of log sum_u masses[s, u] exp(logs[u]); -inf where a set has only impossible classes."""
    return _with_gradient(logs, masses)[0]


@log_probability.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """JAX differentiates loops forwards only; reverse mode takes the gradient, which is a sum over bands itself."""
    value, gradient = _with_gradient(*primals)
    return value, (gradient * jnp.where(gradient > 0, tangents[0], 0.0)).sum()


def _with_gradient(
    logs: Float[Array, "C U"], masses: Float[Array, "C S U"]
) -> tuple[Float[Array, ""], Float[Array, "C U"]]:
    """The log probability, and its derivatives by logs: expected numbers of sets in each class."""

    def term(band: Band) -> tuple[Array, Array, Array]:
        expected = band.units * jnp.einsum("cs,csu->cu", band.shares, masses)
        return band.log_totals.sum(), expected, band.settled.sum()

    value, gradient, settled = sum_over_bands(term, logs, masses)
    return jnp.where(settled == masses.any(-1).sum(), value, -jnp.inf), gradient


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
