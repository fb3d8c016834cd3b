"""Examples of concepts: members of the domain, each positive or negative."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record, static
from bayesgen.typing import Bool, Int

from .learner import ConceptLearner
from .space import HypothesisSpace


@record
class ExampleSet:
    """Examples of one concept, counted by member of the domain.

    Attributes:
        positive: counts of members of the concept.
        negative: counts of other members of the domain.
    """

    positive: Int[np.ndarray, " D"]
    negative: Int[np.ndarray, " D"]

    @property
    def num_positive(self) -> int:
        """Number of positive examples."""
        return int(self.positive.sum())

    @property
    def num_negative(self) -> int:
        """Number of negative examples."""
        return int(self.negative.sum())

    def __add__(self, other: "ExampleSet") -> "ExampleSet":
        return ExampleSet(self.positive + other.positive, self.negative + other.negative)

    @classmethod
    def of(cls, space: HypothesisSpace, members: Any, labels: Any = None) -> "ExampleSet":
        """Read members of the domain; labels are True for those that belong to the concept, None where all do."""
        places = space.positions(members)
        belongs = np.ones(len(places), bool) if labels is None else _belonging(labels, len(places))
        return cls(*(np.bincount(places[which], minlength=len(space.domain)) for which in (belongs, ~belongs)))

    def describe(self, space: HypothesisSpace) -> str:
        """The examples in words."""
        positive, negative = (
            [space.domain[place] for place in np.flatnonzero(counts)] for counts in (self.positive, self.negative)
        )
        return f"all of the examples {positive}" + (f" and none of {negative}" if negative else "")


@record
class Examples:
    """The training data of a concept learner.

    Attributes:
        model: the learner.
        sets: the sets of examples, each of its own concept.
        several: whether a list of sets was given, not the examples of one concept.
    """

    model: ConceptLearner
    sets: tuple[ExampleSet, ...]
    several: bool = static()

    def __add__(self, other: "Examples") -> "Examples":
        if self.several != other.several:
            raise DataError("Examples of one concept are updated by examples, those of several by a list of sets.")
        zeros = np.zeros(len(self.model.space.domain), np.int64)
        pairs = itertools.zip_longest(self.sets, other.sets, fillvalue=ExampleSet(zeros, zeros))
        return dataclasses.replace(self, sets=tuple(first + second for first, second in pairs))


def read_examples(model: ConceptLearner, X: Any, y: Any = None) -> Examples:
    """Examples of one concept, or a list of sets; y is True for each example that belongs to its concept."""
    space, X = model.space, _listed(X)
    if not _are_sets(space, X):
        return Examples(model, (ExampleSet.of(space, X, y),), several=False)
    labels = [None] * len(X) if y is None else _listed(y)
    if len(labels) != len(X):
        raise DataError(f"There are {len(X)} sets of examples, and y has {len(labels)}.")
    pairs = zip(X, labels, strict=True)
    return Examples(model, tuple(_numbered(index, space, *pair) for index, pair in enumerate(pairs)), several=True)


def _numbered(index: int, space: HypothesisSpace, members: Any, labels: Any) -> ExampleSet:
    try:
        return ExampleSet.of(space, members, labels)
    except DataError as error:
        raise DataError(f"Set {index}: {error}") from None


def _listed(values: Any) -> Any:
    """An array or another collection as a list; anything else unchanged."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return list(values) if _is_collection(values) else values


def _is_collection(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str)


def _are_sets(space: HypothesisSpace, examples: Any) -> bool:
    """Whether these are sets of examples: collections that are neither members nor of a type of members."""
    types = {type(member) for member in space.domain}
    several = isinstance(examples, list) and len(examples) > 0
    return several and all(
        _is_collection(example) and type(example) not in types and not space.holds(example) for example in examples
    )


def _belonging(labels: Any, size: int) -> Bool[np.ndarray, " n"]:
    labels = _listed(labels)
    if (
        not isinstance(labels, list)
        or len(labels) != size
        or not all(isinstance(label, bool | np.bool_) for label in labels)
    ):
        raise DataError(
            f"y says of each example whether it belongs to the concept: give {size} times True or False, not "
            f"{labels!r}."
        )
    return np.asarray(labels, bool)
