"""What can be asked of sequences that a chain of hidden states makes."""

import abc
from collections.abc import Mapping

from bayesgen.typing import Array, Bool, Float, Int, Shaped


class StatesStatistic(abc.ABC):
    """What a `Statistic` of sequences with hidden states does besides: it tells of the states, step by step.

    States are numbered 0..S-1, by themselves in each class. All functions are traceable; arrays have the classes, and
    their parameters, as `Statistic.density` takes them. Steps that are not seen have the states that the others let
    expect. What is given for steps past the end of a sequence does not matter.
    """

    @abc.abstractmethod
    def smoothed(
        self, parameters: Mapping[str, Array], values: Shaped[Array, "n T ..."], observed: Bool[Array, "n T ..."] | None
    ) -> Float[Array, "n K T S"]:
        """p(state at each step | the whole sequence, class); zeros where the class makes the sequence impossible."""

    @abc.abstractmethod
    def most_probable_paths(
        self,
        parameters: Mapping[str, Array],
        values: Shaped[Array, "n T ..."],
        observed: Bool[Array, "n T ..."] | None,
        lengths: Int[Array, " n"],
    ) -> Int[Array, "n K T"]:
        """The states of the most probable path, all steps together (Viterbi), given the sequence and the class.

        The path has as many steps as the sequence, `lengths`, missing ones included, and -1 past the end: a path that
        went on would be another maximum.
        """

    @abc.abstractmethod
    def in_order(self, parameters: Mapping[str, Array], order: Int[Array, " S"]) -> dict[str, Array]:
        """The parameters of the same distributions, with what was state `order[s]` as state s, in every class."""
