"""What a family knows of rows of which cells are missing: what EM asks of it."""

import abc
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import numpy as np

from bayesgen.statistics import Summary
from bayesgen.typing import Array, ArrayOrNumber, Float

from .naming import ANONYMOUS, Names

Parameters: TypeAlias = dict[str, ArrayOrNumber]
"""Parameters by name, each of a shape of its own."""


class Incomplete(abc.ABC):
    """Rows of which cells are missing. Where columns are alone, their summaries count cells, and all is as it was."""

    has_several_maxima: ClassVar[bool] = False
    """Whether likelihoods of rows have several maxima, because something is hidden: EM then starts several times."""
    without_maximum: ClassVar[str] = ""
    """What to do where there is no maximum from any of several starts, for messages."""
    why_open: ClassVar[str] = "what it depends on is missing. Use NUTS() or MAP()."
    """Why the posterior has no closed form where `has_closed_form` says so, and what to do, for messages."""

    @abc.abstractmethod
    def log_likelihood(self, parameters: Mapping[str, Array], summary: Summary) -> float:
        """Log-likelihood of summarised rows at given parameters, over all classes and columns."""

    def completed(self, summary: Summary, parameters: Mapping[str, Array]) -> Summary:
        """The expected summary of the rows with all their cells, given those that are there and parameters.

        It is the summary itself, but for families that model columns jointly and whose rows lack some cells.
        """
        return summary

    def has_closed_form(self, summary: Summary) -> bool:
        """Whether the posterior given this summary is again of the family: not if jointly normal rows lack cells."""
        return True

    def check_estimable(self, summary: Summary, names: Names = ANONYMOUS) -> None:
        """Refuse a summary of rows that lack cells, where their likelihood has no maximum or several.

        Raises:
            FitError: naming the place.
        """
        return None

    def available(self, summary: Summary, rng: np.random.Generator | None = None) -> Summary:
        """The summary of whole rows that the cells that are there suggest: where to begin with `completed`.

        Args:
            summary: of the rows.
            rng: where there are several maxima, what another beginning is drawn from; None for the one that needs no
                luck.
        """
        return summary

    def expectation(self, summary: Summary, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """What `log_likelihood` and `completed` give, in one pass over what is summarised."""
        return self.log_likelihood(parameters, summary), self.completed(summary, parameters)

    def open_vector(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """The parameters that missing cells leave to be looked for, without constraints: none, where columns are alone.

        See `completed`.
        """
        return np.zeros(0)

    def at_open_vector(self, vector: Float[np.ndarray, " F"]) -> Parameters | None:
        """The parameters of such a vector; None where floating point has none."""
        return {}
