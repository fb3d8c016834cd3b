"""Examples of concepts: members of the domain, each positive or negative; and their likelihood."""

import itertools
from typing import Any

import numpy as np

from bayesgen.errors import DataError
from bayesgen.records import record, static
from bayesgen.statistics import namespace, safe_product
from bayesgen.typing import Array, Bool, Float, Int, Real

from .prior import Number
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
        positions = space.positions(members)
        belongs = np.ones(len(positions), bool) if labels is None else _belonging(labels, len(positions))
        return cls(*(np.bincount(positions[which], minlength=len(space.domain)) for which in (belongs, ~belongs)))

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
        sets: the sets of examples, each of its own concept.
        several: whether a list of sets was given, not the examples of one concept.
    """

    sets: tuple[ExampleSet, ...]
    several: bool = static()

    def __add__(self, other: "Examples") -> "Examples":
        if self.several != other.several:
            raise DataError("A fit of one set of examples is updated by examples, of several sets by a list of sets.")
        none = np.zeros_like(self.sets[0].positive)
        pairs = itertools.zip_longest(self.sets, other.sets, fillvalue=ExampleSet(none, none))
        return Examples(tuple(first + second for first, second in pairs), self.several)


def read_examples(space: HypothesisSpace, X: Any, y: Any = None) -> Examples:
    """Examples of one concept, or a list of sets; y is True for each example that belongs to its concept."""
    X = _listed(X)
    if not _are_sets(space, X):
        return Examples((ExampleSet.of(space, X, y),), several=False)
    labels = [None] * len(X) if y is None else _listed(y)
    if len(labels) != len(X):
        raise DataError(f"There are {len(X)} sets of examples, and y has {len(labels)}.")
    pairs = zip(X, labels, strict=True)
    return Examples(tuple(_numbered(index, space, *pair) for index, pair in enumerate(pairs)), several=True)


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


# The likelihood of examples.
#
# A positive example comes from the extension h, with probability 1 - noise, else from the domain; a negative one from
# the complement, else from the domain. Under strong sampling each member of the extension (complement) is equally
# probable, 1 / size. Under weak sampling a member of the domain is drawn, 1 / D, and shown only if it is in the
# extension (complement); so the probabilities of shown examples do not sum to 1, nor do those of negative examples of a
# hypothesis that holds the whole domain. The rest is the probability that nothing is shown.

# sampling -> the numbers of members that a positive and a negative example are drawn from
SAMPLING = {
    "strong": lambda sizes, num_members: (sizes, num_members - sizes),
    "weak": lambda sizes, num_members: (num_members + 0 * sizes, num_members + 0 * sizes),
}


@record
class ExampleCounts:
    """Numbers of examples that hypotheses explain, all arrays of one shape.

    Attributes:
        sizes: number of members of the hypothesis.
        held: number of positive examples in its extension.
        avoided: number of negative examples outside of it.
        unexplained: number of all other examples, which only noise explains.
    """

    sizes: Real[Array, "*H"]
    held: Real[Array, "*H"]
    avoided: Real[Array, "*H"]
    unexplained: Real[Array, "*H"]

    @classmethod
    def of(cls, space: HypothesisSpace, examples: ExampleSet) -> "ExampleCounts":
        """The counts of one set of examples for each hypothesis, (H,)."""
        held = space.extensions.held(examples.positive)
        avoided = examples.num_negative - space.extensions.held(examples.negative)
        unexplained = examples.num_positive + examples.num_negative - held - avoided
        return cls(space.sizes, held, avoided, unexplained)


def example_probabilities(
    sizes: Real[Array, "*H"], noise: Number, sampling: str, num_members: int
) -> tuple[Real[Array, "*H"], Real[Array, "*H"], Number]:
    """Probability of each member as next example: (a positive one inside, a negative one outside, any other)."""
    xp = namespace(noise, sizes)
    positive, negative = SAMPLING[sampling](sizes, num_members)
    background = noise / num_members
    inside = (1 - noise) / positive + background
    outside = (1 - noise) / xp.maximum(negative, 1) + background  # with an empty complement nothing is outside
    return inside, outside, background


def log_prob_of_examples(counts: ExampleCounts, noise: Number, sampling: str, num_members: int) -> Float[Array, "*H"]:
    """Log probability of examples, in the shape of the counts."""
    xp = namespace(noise, counts.sizes)
    with np.errstate(divide="ignore"):
        inside, outside, background = (
            xp.log(probability) for probability in example_probabilities(counts.sizes, noise, sampling, num_members)
        )
    return (
        safe_product(counts.held, inside)
        + safe_product(counts.avoided, outside)
        + safe_product(counts.unexplained, background)
    )
