"""What a training method is."""

import abc
import numbers
from typing import ClassVar

from bayesgen.errors import ModelError

from .fit import Fit
from .problem import ProgramProblem


class Method(abc.ABC):
    """A way of training: an object with the arguments of the method."""

    gives_evidence: ClassVar[bool] = False
    """Whether its fits have the log evidence, parameters integrated out in closed form."""

    def check_counts(self, **counts: object) -> None:
        """Refuse arguments, by name, that are not whole numbers of at least 1.

        Raises:
            ModelError: naming the method and the argument.
        """
        for name, value in counts.items():
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{type(self).__name__}: {name} must be a whole number and at least 1, got {value!r}.")

    @abc.abstractmethod
    def solve(self, problem: ProgramProblem) -> Fit:
        """Train the program of a problem."""
