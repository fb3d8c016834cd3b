"""Classes of hypotheses that have the same likelihood and the same prior factor for all hyperparameters.

Hypotheses of one size in one group of the prior that hold equally many of the examples form a class. The probability of
a set of examples is a sum over its classes, some hundreds for any number of hypotheses. Sets with equally many examples
share their classes, so the probabilities of all of them are the product of a matrix of prior masses and a vector.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int

from .learner import ConceptLearner, ExampleCounts, log_prob_of_examples
from .prior import Factors, Number

# Log-sum-exp over classes for many sets of examples at once: log sum_u prior_masses[u] exp(logs[u]).
#
# One shift for all sets would underflow for sets whose classes are all far below the best, as with tiny noise where
# sets differ in how many examples only noise explains. So the first shift is the best class of all sets, the next one
# that of the sets whose sums were (almost) 0, and so on; there is hardly ever a second one. One shift a set would be
# plainer, but NUTS takes 3 times as long with 24 sets, 9 times with 200: see `_sets` in benchmarks/finite.

Totals = TypeVar("Totals")  # arrays, one or several

ALMOST_NOTHING = 1e-250  # totals above it have all digits: underflow loses less than 1e-308


@dataclasses.dataclass(frozen=True)
class ShiftedSums:
    """Sums of exponentials with one shift for C kinds of sets, S sets of each, U classes, after any batch axes.

    Attributes:
        shifts: the shift of each kind.
        terms: exponentials of logs less the shift; 0 for classes above it.
        totals: sums of prior masses times terms.
        is_summed: the sets that take their totals from this shift.
    """

    shifts: Float[Array, "*batch C 1"]
    terms: Float[Array, "*batch C U"]
    totals: Float[Array, "*batch C S"]
    is_summed: Bool[Array, "*batch C S"]

    @classmethod
    def of(
        cls,
        logs: Float[Array, "*batch C U"],
        prior_masses: Float[Array, "C S U"],
        pending: Bool[Array, "*batch C S"],
        classes: Bool[Array, "*batch C U"] | bool = True,
    ) -> "ShiftedSums":
        """The sums of the pending sets, shifted by the best of their classes."""
        shifts = jax.lax.stop_gradient(jnp.where(classes, logs, -jnp.inf).max(-1, keepdims=True))
        shifts = jnp.where(jnp.isneginf(shifts), 0.0, shifts)
        terms = jnp.exp(jnp.where(logs <= shifts, logs - shifts, -jnp.inf))
        totals = jnp.einsum("...cu,csu->...cs", terms, prior_masses)
        return cls(shifts, terms, totals, pending & (totals > ALMOST_NOTHING))

    @property
    def inverse_totals(self) -> Float[Array, "*batch C S"]:
        """Factors that turn terms into posterior probabilities per unit of prior mass; 0 for sets of other shifts."""
        return jnp.where(self.is_summed, 1 / jnp.where(self.is_summed, self.totals, 1.0), 0.0)

    @property
    def log_totals(self) -> Float[Array, "*batch C S"]:
        """Logs of the sums of exponentials; 0 for sets of other shifts."""
        return jnp.where(self.is_summed, self.shifts + jnp.log(jnp.where(self.is_summed, self.totals, 1.0)), 0.0)


def sum_over_shifts(
    term: Callable[[ShiftedSums], Totals], logs: Float[Array, "*batch C U"], prior_masses: Float[Array, "C S U"]
) -> Totals:
    """The sum over shifts of a function of their sums; sets whose prior masses are all 0 are padding."""

    def after(pending: Array, shifted: ShiftedSums) -> Array:
        """The sets that are pending after a shift; none of a kind without progress, whose other sums are all 0."""
        return pending & ~shifted.is_summed & shifted.is_summed.any(-1, keepdims=True)

    def step(state: tuple[Array, Totals]) -> tuple[Array, Totals]:
        pending, sums = state
        classes = jnp.einsum("...cs,csu->...cu", pending.astype(prior_masses.dtype), prior_masses) > 0
        shifted = ShiftedSums.of(logs, prior_masses, pending, classes)
        return after(pending, shifted), jax.tree.map(jnp.add, sums, term(shifted))

    pending = jnp.broadcast_to(prior_masses.any(-1), (*logs.shape[:-1], prior_masses.shape[1]))
    first = ShiftedSums.of(logs, prior_masses, pending)  # before the loop, as it takes the classes of all sets
    return jax.lax.while_loop(lambda state: state[0].any(), step, (after(pending, first), term(first)))[1]


@jax.custom_jvp
def log_probability(logs: Float[Array, "C U"], prior_masses: Float[Array, "C S U"]) -> Float[Array, ""]:
    """Sum over sets of log sum_u masses[s, u] exp(logs[u]); -inf where a set has only impossible classes."""
    return _with_gradient(logs, prior_masses)[0]


@log_probability.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """JAX differentiates loops forwards only; reverse mode takes the gradient, which is itself a sum over shifts."""
    value, gradient = _with_gradient(*primals)
    return value, (gradient * jnp.where(gradient > 0, tangents[0], 0.0)).sum()


def _with_gradient(
    logs: Float[Array, "C U"], prior_masses: Float[Array, "C S U"]
) -> tuple[Float[Array, ""], Float[Array, "C U"]]:
    """The log probability, and its gradient: expected numbers of sets in each class."""

    def term(shifted: ShiftedSums) -> tuple[Array, Array, Array]:
        expected = shifted.terms * jnp.einsum("cs,csu->cu", shifted.inverse_totals, prior_masses)
        return shifted.log_totals.sum(), expected, shifted.is_summed.sum()

    value, gradient, is_summed = sum_over_shifts(term, logs, prior_masses)
    return jnp.where(is_summed == prior_masses.any(-1).sum(), value, -jnp.inf), gradient


@dataclasses.dataclass(frozen=True)
class LearnerStructure:
    """The hashable part of a learner, for which functions are compiled.

    Attributes:
        factors: the log prior factors of groups of hypotheses.
        sampling: "strong" or "weak".
        num_members: D, the size of the domain.
    """

    factors: Factors
    sampling: str
    num_members: int

    @classmethod
    def of(cls, learner: ConceptLearner) -> "LearnerStructure":
        """The structure of a learner."""
        return cls(learner.space.structure.factors, learner.sampling, len(learner.space.domain))


@record
class HypothesisClasses:
    """C kinds of sets (numbers of examples), at most S sets of each, at most U classes; padded with prior masses of 0.

    Attributes:
        counts: (C, U), the numbers of examples that hypotheses of a class explain.
        groups: their group of the prior.
        prior_masses: sums over these hypotheses of prior probabilities up to the group's factor.
    """

    counts: ExampleCounts
    groups: Int[Array, "C U"]
    prior_masses: Float[Array, "C S U"]

    def log_evidence(self, structure: LearnerStructure, values: Mapping[str, Number]) -> Float[Array, ""]:
        """Log probability of all sets at hyperparameters by name, the hypothesis of each set marginalised."""
        return log_probability(self._logs(structure, values), self.prior_masses)

    def average_posterior(
        self, structure: LearnerStructure, values: Mapping[str, Float[Array, " draws"]]
    ) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
        """Sums over draws of the hyperparameters of posterior probabilities, and of these times noise.

        Both are per unit of prior mass.
        """

        def term(shifted: ShiftedSums) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
            noisy = shifted.inverse_totals * values["noise"][:, None, None]
            posterior, times_noise = (
                jnp.einsum("dcu,dcs->csu", shifted.terms, inverse_totals)
                for inverse_totals in (shifted.inverse_totals, noisy)
            )
            return posterior, times_noise

        logs = jax.vmap(lambda values_of_draw: self._logs(structure, values_of_draw))(values)
        return sum_over_shifts(term, logs, self.prior_masses)

    def _logs(self, structure: LearnerStructure, values: Mapping[str, Number]) -> Float[Array, "C U"]:
        """Log joint probability of each class and the examples, per unit of prior mass."""
        prior = jnp.asarray(structure.factors(values))[self.groups]
        return prior + log_prob_of_examples(self.counts, values["noise"], structure.sampling, structure.num_members)
