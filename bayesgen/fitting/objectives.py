"""Training objectives of `MLE` and `MAP`: log p(X, y | Q), log p(y | X, Q), or a hybrid of both."""

import abc
import dataclasses
import numbers
from typing import Any

import numpy as np

from bayesgen.errors import ModelError

from .discriminative import conditional_fit, hybrid_fit
from .fit import Fit
from .problem import ProgramProblem, Searching


@dataclasses.dataclass(frozen=True)
class TrainingObjective(abc.ABC):
    """The function of the process that `MLE` and `MAP` maximise, the prior aside."""

    @property
    def needs_rows(self) -> bool:
        """Whether it needs the rows besides their sufficient statistics."""
        return True

    @property
    def looks_at_unlabelled(self) -> bool:
        """Whether rows without labels contribute to it."""
        return True

    @abc.abstractmethod
    def solved(self, method: Searching, problem: ProgramProblem) -> Fit:
        """The fit of a problem by a method."""


@dataclasses.dataclass(frozen=True)
class JointLikelihood(TrainingObjective):
    """log p(X, y | Q): generative training."""

    @property
    def needs_rows(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "'joint'"

    def solved(self, method: Searching, problem: ProgramProblem) -> Fit:
        return method.joint_fit(problem)


@dataclasses.dataclass(frozen=True)
class ConditionalLikelihood(TrainingObjective):
    """log p(y | X, Q): discriminative training."""

    @property
    def looks_at_unlabelled(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "'conditional'"

    def solved(self, method: Searching, problem: ProgramProblem) -> Fit:
        return conditional_fit(method, problem)


@dataclasses.dataclass(frozen=True)
class Hybrid(TrainingObjective):
    """Generative and discriminative training at once, by two coupled processes.

    Labels given attributes follow one process Q, attributes another one Q~. Both are found by maximising::

        log p(Q) + log N(Q~ | Q, coupling^2 C) + sum_labelled log p(y | x, Q) + sum_all rows log p(x | Q~)

    `MLE` leaves p(Q) out. The fit is Q; Q~ is `fit.attributes["other_parameters"]`. Both are taken in unconstrained
    coordinates. Their units are C, the inverse of the curvature of the joint log density of one row, where the joint
    fit is: so a distance of d means a Kullback-Leibler divergence of about d^2 / 2 a row, for all units of columns
    and numbers of rows. The prior counts once: as the coupling goes to 0, the two processes are one, the
    joint fit of all rows; as it grows, Q is the fit by objective="conditional".

    Args:
        coupling: standard deviation of the distance between the two, in these units; positive.

    Raises:
        ModelError: a coupling that is not a positive number.

    Source: Lasserre, Bishop and Minka (2006), Principled hybrids of generative and discriminative models, section 3;
    there the prior counts twice, and coordinates are plain.

    >>> import bayesgen as bg
    >>> X = [[1.0], [2.0], [4.5], [3.5], [7.0], [9.0], [1.5], [8.5]]
    >>> y = ["low", "low", "low", "high", "high", "high", None, None]
    >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MAP(objective=bg.Hybrid(1.0)))
    >>> sorted(fit.attributes["other_parameters"]) == sorted(fit.parameters)
    True
    """

    coupling: float

    def __post_init__(self) -> None:
        coupling = self.coupling
        if not isinstance(coupling, numbers.Real) or isinstance(coupling, bool) or not 0 < coupling < np.inf:
            raise ModelError(
                f"Hybrid: coupling must be a positive number, got {coupling!r}. Its limits are objective='joint', for "
                "0, and objective='conditional', for infinity."
            )

    def solved(self, method: Searching, problem: ProgramProblem) -> Fit:
        return hybrid_fit(method, problem, float(self.coupling))


OBJECTIVES = {"joint": JointLikelihood(), "conditional": ConditionalLikelihood()}


def as_objective(objective: Any) -> TrainingObjective:
    """The objective of that name; an objective is returned as it is.

    Raises:
        ModelError: neither a known name nor an objective.
    """
    if isinstance(objective, TrainingObjective):
        return objective
    known = OBJECTIVES.get(objective) if isinstance(objective, str) else None
    if known is None:
        raise ModelError(f"objective must be one of {list(OBJECTIVES)} or Hybrid(coupling), got {objective!r}.")
    return known
