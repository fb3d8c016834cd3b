"""What a family knows of where processes are: what searches and samplers ask of it."""

import abc
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from bayesgen.typing import Array

from .incomplete import Parameters
from .naming import ANONYMOUS, Names


class Searched(abc.ABC):
    """Parameters that searches look for, and those at which they and samplers begin."""

    @abc.abstractmethod
    def update(self, data: Any, weights: Array | None = None) -> Self:
        """The posterior: a family of the same type."""

    @abc.abstractmethod
    def mean(self) -> Parameters:
        """Mean of each parameter (infinite where it does not exist)."""

    @abc.abstractmethod
    def mode(self, names: Names = ANONYMOUS) -> Parameters:
        """Joint mode of the parameters; a `FitError` names the place where it is unbounded or not unique."""

    def maximum_posterior(self, summary: Any, names: Names = ANONYMOUS) -> Parameters:
        """The joint mode of the parameters given rows, the family being the prior; a `FitError` names the place."""
        return self.update(summary).mode(names)

    def middle(self, summary: Any) -> Parameters:
        """Parameters in the middle of the posterior, at which no probability is zero."""
        return self.update(summary).typical()

    def typical(self) -> Parameters:
        """Parameters in the middle of the family: means, or the mode where one of them is infinite."""
        mean = self.mean()
        return mean if all(np.isfinite(value).all() for value in mean.values()) else self.mode()

    def sketch(self, summary: Any) -> Parameters:
        """Rough parameters of rows whatever the prior, of which `adapted` makes something: none, mostly."""
        return {}

    def adapted(self, parameters: Mapping[str, Array]) -> Self:
        """The same prior, its sites in coordinates that suit processes near one: what samplers move in."""
        return self
