"""`Searching`: what objectives ask of the methods that look for one process."""

import abc
from typing import ClassVar

from bayesgen.program import ProgramDensity
from bayesgen.statistics import SufficientStatistics

from .fit import Fit
from .problem import Method, ProgramProblem


class Searching(Method):
    """A method that looks for one process. `MLE` and `MAP` are such."""

    has_prior: ClassVar[bool]
    """Whether the prior counts."""
    what: ClassVar[str]
    """What the joint density is called, for messages."""

    @abc.abstractmethod
    def joint_fit(self, problem: ProgramProblem) -> Fit:
        """The fit that maximises the joint density of rows and labels."""

    @abc.abstractmethod
    def counted(self, statistics: SufficientStatistics) -> SufficientStatistics:
        """The statistics with the weight that rows without labels have."""

    @abc.abstractmethod
    def joint_density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> ProgramDensity:
        """What a joint fit maximises, for a program."""
