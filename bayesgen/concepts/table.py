"""`Table`: a learner's sets of examples, their hypotheses sorted into classes, and the way back."""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from bayesgen.runtime import padded_size
from bayesgen.typing import Array, Float, Int, Real

from .examples import ExampleSet
from .hypothesis_classes import HypothesisClasses, Setting
from .learner import ConceptLearner, Tally
from .space import HypothesisSpace

WIDTH = 512  # classes at least, so that most single sets are served by one compiled function
DRAWS = 200  # that are averaged over at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """The classes of a learner's sets of examples.

    Attributes:
        learner: the learner.
        sets: the sets of examples.
        classes: the hypotheses, in classes that neither examples nor hyperparameters tell apart.
        keys: for each kind of set, the sorted keys of its classes.
        where: for each set, its kind and its row there.
    """

    learner: ConceptLearner
    sets: tuple[ExampleSet, ...]
    classes: HypothesisClasses
    keys: tuple[Int[np.ndarray, " _"], ...]
    where: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, learner: ConceptLearner, sets: Sequence[ExampleSet]) -> "Table":
        """Sort the hypotheses into classes, for every set."""
        kinds = _kinds(sets)
        of_sets = [_masses(learner, examples) for examples in sets]
        keys = tuple(functools.reduce(np.union1d, [of_sets[index][0] for index in kind]) for kind in kinds.values())
        width, height = max(WIDTH, padded_size(max(map(len, keys)))), padded_size(max(map(len, kinds.values())))
        masses = np.zeros((len(kinds), height, width))
        where = {index: (kind, row) for kind, rows in enumerate(kinds.values()) for row, index in enumerate(rows)}
        for index, (kind, row) in where.items():
            keys_of_set, mass = of_sets[index]
            masses[kind, row, np.searchsorted(keys[kind], keys_of_set)] = mass
        decoded = [_decode(learner.space, *pair, width) for pair in zip(keys, kinds, strict=True)]
        groups, *tally = (np.stack(parts) for parts in zip(*decoded, strict=True))
        return cls(learner, tuple(sets), HypothesisClasses(Tally(*tally), groups, masses), keys, where)

    def average(self, draws: Mapping[str, Float[np.ndarray, " draws"]]) -> Float[np.ndarray, "2 C S U"]:
        """The posterior of classes averaged over draws of the hyperparameters, by name.

        Returns:
            for each unit of mass: probabilities, and their products with the noise.
        """
        learner, total = self.learner, len(next(iter(draws.values())))
        values = {**learner.hyperparameters, **draws}
        given = {name: np.broadcast_to(np.asarray(value, float), total) for name, value in values.items()}
        sums = np.zeros((2, *self.classes.masses.shape))
        with jax.enable_x64(True):
            for start in range(0, total, DRAWS):
                part = {name: value[start : start + DRAWS] for name, value in given.items()}
                sums += np.stack(_average(self.classes, part, Setting.of(learner)))
        return sums / total

    def of_hypotheses(self, index: int, values: Float[np.ndarray, "C S U"]) -> Float[np.ndarray, " H"]:
        """What a set's classes have, of the values, given to their hypotheses; 0 for those in no class."""
        kind, row = self.where[index]
        space, known, examples = self.learner.space, self.keys[kind], self.sets[index]
        keys = _encode(space, Tally.of(space, examples), examples)
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[place] == keys, values[kind, row, place], 0.0)


@functools.partial(jax.jit, static_argnames="setting")
def _average(
    classes: HypothesisClasses, draws: dict[str, Float[Array, " draws"]], setting: Setting
) -> tuple[Float[Array, "C S U"], Float[Array, "C S U"]]:
    return classes.average_posterior(setting, draws)


def _kinds(sets: Sequence[ExampleSet]) -> dict[tuple[int, int], list[int]]:
    """Indices of the sets by their numbers of positive and negative examples."""
    kinds = defaultdict(list)
    for index, examples in enumerate(sets):
        kinds[examples.num_positive, examples.num_negative].append(index)
    return kinds


def _masses(
    learner: ConceptLearner, examples: ExampleSet
) -> tuple[Int[np.ndarray, " classes"], Float[np.ndarray, " classes"]]:
    """Keys of the classes of a set, sorted, and their masses."""
    space, tally = learner.space, Tally.of(learner.space, examples)
    possible = np.flatnonzero((tally.strays == 0) | learner.is_noisy)
    keys, class_of = np.unique(_encode(space, tally, examples)[possible], return_inverse=True)
    return keys, np.bincount(class_of, np.exp(space.structure.base[possible]))


def _encode(space: HypothesisSpace, tally: Tally, examples: ExampleSet) -> Int[np.ndarray, " H"]:
    """One whole number for group, size, and the numbers of examples held and avoided."""
    keys = space.structure.groups * (len(space.domain) + 1) + tally.sizes
    return (keys * (examples.num_positive + 1) + tally.held) * (examples.num_negative + 1) + tally.avoided


def _decode(
    space: HypothesisSpace, keys: Int[np.ndarray, " classes"], kind: tuple[int, int], width: int
) -> tuple[Real[np.ndarray, " U"], ...]:
    """Back to (group, size, held, avoided, strays), the last class repeated as padding."""
    num_positive, num_negative = kind
    keys = np.pad(keys, (0, width - len(keys)), mode="edge")
    keys, avoided = np.divmod(keys, num_negative + 1)
    keys, held = np.divmod(keys, num_positive + 1)
    groups, sizes = np.divmod(keys, len(space.domain) + 1)
    return groups, sizes.astype(float), held, avoided, num_positive + num_negative - held - avoided
