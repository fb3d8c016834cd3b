"""`ClassIndex`: the hypothesis classes of sets of examples, and the class of each hypothesis."""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from bayesgen.runtime import padded_size
from bayesgen.typing import Array, Float, Int, Real

from .examples import ExampleSet
from .hypothesis_classes import HypothesisClasses, LearnerStructure
from .learner import ConceptLearner, ExampleCounts
from .space import HypothesisSpace

LEAST_CLASSES = 512  # to which classes are padded, so that most single sets share one compiled function
DRAWS_AT_A_TIME = 200  # to average over


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
        kinds = _kinds(sets)
        of_sets = [_prior_masses(learner, examples) for examples in sets]
        keys = tuple(functools.reduce(np.union1d, [of_sets[index][0] for index in kind]) for kind in kinds.values())
        width, height = max(LEAST_CLASSES, padded_size(max(map(len, keys)))), padded_size(max(map(len, kinds.values())))
        prior_masses = np.zeros((len(kinds), height, width))
        rows_of_sets = {
            index: (kind, row) for kind, rows in enumerate(kinds.values()) for row, index in enumerate(rows)
        }
        for index, (kind, row) in rows_of_sets.items():
            keys_of_set, mass = of_sets[index]
            prior_masses[kind, row, np.searchsorted(keys[kind], keys_of_set)] = mass
        decoded = [_decode(learner.space, *pair, width) for pair in zip(keys, kinds, strict=True)]
        groups, *counts = (np.stack(parts) for parts in zip(*decoded, strict=True))
        return cls(
            learner, tuple(sets), HypothesisClasses(ExampleCounts(*counts), groups, prior_masses), keys, rows_of_sets
        )

    def average(self, draws: Mapping[str, Float[np.ndarray, " draws"]]) -> Float[np.ndarray, "2 C S U"]:
        """The posterior of classes averaged over draws of the hyperparameters, by name.

        Returns:
            per unit of prior mass: probabilities, and their products with the noise.
        """
        learner, total = self.learner, len(next(iter(draws.values())))
        values = {**learner.hyperparameters, **draws}
        given = {name: np.broadcast_to(np.asarray(value, float), total) for name, value in values.items()}
        sums = np.zeros((2, *self.classes.prior_masses.shape))
        with jax.enable_x64(True):
            for start in range(0, total, DRAWS_AT_A_TIME):
                part = {name: value[start : start + DRAWS_AT_A_TIME] for name, value in given.items()}
                sums += np.stack(_average(self.classes, part, LearnerStructure.of(learner)))
        return sums / total

    def of_hypotheses(self, index: int, values: Float[np.ndarray, "C S U"]) -> Float[np.ndarray, " H"]:
        """The values of a set's classes by hypothesis; 0 for hypotheses in no class."""
        kind, row = self.rows_of_sets[index]
        space, class_keys, examples = self.learner.space, self.keys[kind], self.sets[index]
        keys = _encode(space, ExampleCounts.of(space, examples), examples)
        place = np.minimum(np.searchsorted(class_keys, keys), len(class_keys) - 1)
        return np.where(class_keys[place] == keys, values[kind, row, place], 0.0)


@functools.partial(jax.jit, static_argnames="structure")
def _average(
    classes: HypothesisClasses, draws: dict[str, Float[Array, " draws"]], structure: LearnerStructure
) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
    return classes.average_posterior(structure, draws)


def _kinds(sets: Sequence[ExampleSet]) -> dict[tuple[int, int], list[int]]:
    """Indices of the sets by their numbers of positive and negative examples."""
    kinds = defaultdict(list)
    for index, examples in enumerate(sets):
        kinds[examples.num_positive, examples.num_negative].append(index)
    return kinds


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
