"""Classes of hypotheses that have the same likelihood and the same prior factor for all hyperparameters.

Hypotheses of one size in one group of the prior that hold equally many of the examples form a class. The probability of
a set of examples is a sum over its classes, some hundreds for any number of hypotheses. Sets with equally many examples
share their classes, so the probabilities of all of them are the product of a matrix of prior masses and a vector.
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.records import record, static
from bayesgen.runtime import chunks, padded_size
from bayesgen.typing import Array, Bool, Float, Int, Real

from .examples import ExampleCounts, ExampleSet, log_prob_of_examples
from .learner import ConceptLearner
from .prior import LogFactors, Number
from .space import HypothesisSpace

# Log-sum-exp over classes for many sets of examples at once: log sum_u prior_masses[u] exp(logs[u]).
#
# One shift for all sets would underflow for sets whose classes are all far below the best, as with tiny noise where
# sets differ in how many examples only noise explains. So the first shift is the best class of all sets, the next one
# that of the sets whose sums were (almost) 0, and so on; there is hardly ever a second one. One shift a set would be
# plainer, but NUTS takes 3 times as long with 24 sets, 9 times with 200: see `_sets` in benchmarks/finite.

Totals = TypeVar("Totals")  # arrays, one or several


def sum_over_shifts(
    term: Callable[[Array, Array, Array], Totals], logs: Float[Array, "*batch C U"], prior_masses: Float[Array, "C S U"]
) -> Totals:
    """The sum over shifts of a function of their sums of exponentials; sets whose prior masses are all 0 are padding.

    There is one shift for each of C kinds of sets, S sets of each, U classes, after any batch axes. The function takes
    the exponentials of logs less the shift (*batch C U), and for each set (*batch C S) the inverse of its sum and the
    log of its sum, which are 0 for the sets of other shifts.
    """

    def shifted(pending: Array, classes: Array | bool) -> tuple[Array, Totals]:
        """The sets that are still pending, and the term of those that the shift by the best of the classes sums."""
        shifts = jnp.where(classes, logs, -jnp.inf).max(-1, keepdims=True)
        shifts = jnp.where(jnp.isneginf(shifts), 0.0, shifts)
        terms = jnp.exp(jnp.where(logs <= shifts, logs - shifts, -jnp.inf))
        totals = jnp.einsum("...cu,csu->...cs", terms, prior_masses)
        is_summed: Bool[Array, "*batch C S"] = pending & (totals > 1e-250)  # underflow loses less than 1e-308
        totals = jnp.where(is_summed, totals, 1.0)
        inverses_and_logs = (jnp.where(is_summed, values, 0.0) for values in (1 / totals, shifts + jnp.log(totals)))
        # none of a kind without progress, whose other sums are all 0
        return pending & ~is_summed & is_summed.any(-1, keepdims=True), term(terms, *inverses_and_logs)

    def step(state: tuple[Array, Totals]) -> tuple[Array, Totals]:
        pending, sums = state
        classes = jnp.einsum("...cs,csu->...cu", pending.astype(prior_masses.dtype), prior_masses) > 0
        pending, more = shifted(pending, classes)
        return pending, jax.tree.map(jnp.add, sums, more)

    pending = jnp.broadcast_to(prior_masses.any(-1), (*logs.shape[:-1], prior_masses.shape[1]))
    first = shifted(pending, True)  # before the loop, as it takes the classes of all sets
    return jax.lax.while_loop(lambda state: state[0].any(), step, first)[1]


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

    def term(terms: Array, inverse_totals: Array, log_totals: Array) -> tuple[Array, Array, Array]:
        expected = terms * jnp.einsum("cs,csu->cu", inverse_totals, prior_masses)
        return log_totals.sum(), expected, jnp.sum(inverse_totals > 0)

    value, gradient, num_summed = sum_over_shifts(term, logs, prior_masses)
    return jnp.where(num_summed == prior_masses.any(-1).sum(), value, -jnp.inf), gradient


@record
class HypothesisClasses:
    """C kinds of sets (numbers of examples), at most S sets of each, at most U classes; padded with prior masses of 0.

    Attributes:
        counts: (C, U), the numbers of examples that hypotheses of a class explain.
        groups: their group of the prior.
        prior_masses: sums over these hypotheses of prior probabilities up to the group's factor.
        factors: the log prior factors of groups of hypotheses.
        sampling: "strong" or "weak".
        num_members: D, the size of the domain.
    """

    counts: ExampleCounts
    groups: Int[Array, "C U"]
    prior_masses: Float[Array, "C S U"]
    factors: LogFactors = static()
    sampling: str = static()
    num_members: int = static()

    def log_evidence(self, values: Mapping[str, Number]) -> Float[Array, ""]:
        """Log probability of all sets at hyperparameters by name, the hypothesis of each set marginalised."""
        return log_probability(self._logs(values), self.prior_masses)

    def average_posterior(
        self, values: Mapping[str, Float[Array, " draws"]]
    ) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
        """Sums over draws of the hyperparameters of posterior probabilities, and of these times noise.

        Both are per unit of prior mass.
        """

        def term(terms: Array, inverse_totals: Array, _: Array) -> tuple[Array, Array]:
            noisy = inverse_totals * values["noise"][:, None, None]
            posterior, times_noise = (jnp.einsum("dcu,dcs->csu", terms, factors) for factors in (inverse_totals, noisy))
            return posterior, times_noise

        return sum_over_shifts(term, jax.vmap(self._logs)(values), self.prior_masses)

    def _logs(self, values: Mapping[str, Number]) -> Float[Array, "C U"]:
        """Log joint probability of each class and the examples, per unit of prior mass."""
        prior = jnp.asarray(self.factors(values))[self.groups]
        return prior + log_prob_of_examples(self.counts, values["noise"], self.sampling, self.num_members)


_average = jax.jit(HypothesisClasses.average_posterior)


@dataclasses.dataclass(frozen=True, eq=False)
class ClassIndex:
    """The hypothesis classes of a learner's sets of examples.

    Attributes:
        learner: the learner.
        sets: the sets of examples.
        classes: the hypotheses, by classes of equal likelihood and prior factor.
        keys: for each kind of set, the sorted keys of its classes.
        rows_of_sets: for each set, its kind and its row there.
    """

    learner: ConceptLearner
    sets: tuple[ExampleSet, ...]
    classes: HypothesisClasses
    keys: tuple[Int[np.ndarray, " _"], ...]
    rows_of_sets: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, learner: ConceptLearner, sets: Sequence[ExampleSet]) -> "ClassIndex":
        """The classes of the hypotheses for every set."""
        kinds: dict[tuple[int, int], list[int]] = defaultdict(list)  # indices of sets by their numbers of examples
        for index, examples in enumerate(sets):
            kinds[examples.num_positive, examples.num_negative].append(index)
        keys_of_sets, masses = zip(*(_prior_masses(learner, examples) for examples in sets), strict=True)
        keys = tuple(functools.reduce(np.union1d, [keys_of_sets[index] for index in kind]) for kind in kinds.values())
        width = max(512, padded_size(max(map(len, keys))))  # most single sets share one compiled function
        height = padded_size(max(map(len, kinds.values())))
        prior_masses = np.zeros((len(kinds), height, width))
        rows_of_sets = {
            index: (kind, row) for kind, rows in enumerate(kinds.values()) for row, index in enumerate(rows)
        }
        for index, (kind, row) in rows_of_sets.items():
            prior_masses[kind, row, np.searchsorted(keys[kind], keys_of_sets[index])] = masses[index]
        decoded = [_decode(learner.space, *pair, width) for pair in zip(keys, kinds, strict=True)]
        groups, *counts = (np.stack(parts) for parts in zip(*decoded, strict=True))
        space = learner.space
        form = (space.structure.factors, learner.sampling, len(space.domain))
        classes = HypothesisClasses(ExampleCounts(*counts), groups, prior_masses, *form)
        return cls(learner, tuple(sets), classes, keys, rows_of_sets)

    def average(self, draws: Mapping[str, Float[np.ndarray, " draws"]]) -> Float[np.ndarray, "2 C S U"]:
        """The posterior of classes averaged over draws of the hyperparameters, by name.

        Returns:
            per unit of prior mass: probabilities, and their products with the noise.
        """
        total, values = len(next(iter(draws.values()))), {**self.learner.hyperparameters, **draws}
        values_by_draw = {name: np.broadcast_to(np.asarray(value, float), total) for name, value in values.items()}
        sums = np.zeros((2, *self.classes.prior_masses.shape))
        with jax.enable_x64(True):
            for part in chunks(total, 200):
                sums += np.stack(_average(self.classes, {name: value[part] for name, value in values_by_draw.items()}))
        return sums / total

    def by_hypothesis(self, index: int, values: Float[np.ndarray, "C S U"]) -> Float[np.ndarray, " H"]:
        """The values of a set's classes by hypothesis; 0 for hypotheses in no class."""
        kind, row = self.rows_of_sets[index]
        space, class_keys, examples = self.learner.space, self.keys[kind], self.sets[index]
        keys = _encode(space, ExampleCounts.of(space, examples), examples)
        place = np.minimum(np.searchsorted(class_keys, keys), len(class_keys) - 1)
        return np.where(class_keys[place] == keys, values[kind, row, place], 0.0)


def _prior_masses(
    learner: ConceptLearner, examples: ExampleSet
) -> tuple[Int[np.ndarray, " classes"], Float[np.ndarray, " classes"]]:
    """Sorted keys of the classes of a set, and their prior masses."""
    space, counts = learner.space, ExampleCounts.of(learner.space, examples)
    possible = np.flatnonzero((counts.unexplained == 0) | learner.is_noisy)
    keys, class_of = np.unique(_encode(space, counts, examples)[possible], return_inverse=True)
    return keys, np.bincount(class_of, np.exp(space.structure.base[possible]))


def _encode(space: HypothesisSpace, counts: ExampleCounts, examples: ExampleSet) -> Int[np.ndarray, " H"]:
    """The key of each hypothesis's class: one integer for its group, size, and numbers of examples held and avoided."""
    keys = space.structure.groups * (len(space.domain) + 1) + counts.sizes
    return (keys * (examples.num_positive + 1) + counts.held) * (examples.num_negative + 1) + counts.avoided


def _decode(
    space: HypothesisSpace, keys: Int[np.ndarray, " classes"], kind: tuple[int, int], width: int
) -> tuple[Real[np.ndarray, " U"], ...]:
    """(group, size, held, avoided, unexplained) of keys, the last class repeated as padding."""
    num_positive, num_negative = kind
    keys = np.pad(keys, (0, width - len(keys)), mode="edge")
    keys, avoided = np.divmod(keys, num_negative + 1)
    keys, held = np.divmod(keys, num_positive + 1)
    groups, sizes = np.divmod(keys, len(space.domain) + 1)
    return groups, sizes.astype(float), held, avoided, num_positive + num_negative - held - avoided
