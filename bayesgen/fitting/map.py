"""`MAP`: the process of highest posterior density."""

import dataclasses

from bayesgen.models import Conjugate
from bayesgen.program import ParameterDensity
from bayesgen.statistics import SufficientStatistics

from .expectation import Target
from .fit import Fit
from .point import PointMethod
from .problem import ProgramProblem


@dataclasses.dataclass(frozen=True, repr=False)
class MAP(PointMethod):
    """Maximum a posteriori: argmax_Q p(Q | T), the first of the two steps.

    For built-in models the joint mode over probabilities, rates, means and variances or covariances, in closed form
    where no hyperparameter is a distribution and every row has its label (jointly normal ones all cells); by EM where
    labels or cells are missing. For a program of one's own, the mode of the density of its sample sites in the
    constrained space. A mode is not invariant: in other coordinates it is another process.

    Args:
        num_starts, starts, assignment, unlabelled_weight, objective: see `MLE`. The log prior counts once in all of
            them; it decides between processes with one p(y | x), and bounds what separable classes do not, unless it is
            flat.
    """

    has_prior = True
    what = "posterior density"

    def joint_fit(self, problem: ProgramProblem) -> Fit:
        """Maximise the posterior density."""
        problem.warn_of_constant_columns()
        return super().joint_fit(problem)

    def _has_closed_form(self, conjugate: Conjugate) -> bool:
        return conjugate.is_number

    def _target(self, conjugate: Conjugate) -> Target:
        return Target.posterior(conjugate)

    def joint_density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> ParameterDensity:
        return ParameterDensity(problem.program, statistics, self.assignment == "hard")
