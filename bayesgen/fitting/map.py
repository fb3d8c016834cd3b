"""`MAP`: the process of highest posterior density."""

import dataclasses

from bayesgen.posteriors import Point
from bayesgen.program import ParameterDensity

from .fit import Fit
from .maximum import point_at_maximum
from .problem import Method, ProgramProblem


@dataclasses.dataclass(frozen=True)
class MAP(Method):
    """Maximum a posteriori: argmax_Q p(Q | T), the first of the two steps.

    For built-in models the joint mode over probabilities, rates, means and variances or covariances, in closed form
    where no hyperparameter is a distribution. For a program of one's own, the mode of the density of its sample sites
    in the constrained space. A mode is not invariant: in other coordinates it is another process.

    Args:
        num_starts: number of starting points, where it is a search.
    """

    num_starts: int = 4

    def __post_init__(self) -> None:
        self.check_counts(num_starts=self.num_starts)

    def solve(self, problem: ProgramProblem) -> Fit:
        """Maximise the posterior density."""
        problem.warn_of_constant_columns()
        conjugate = problem.conjugate
        if conjugate is None or not conjugate.is_closed:
            density = ParameterDensity(problem.program, problem.statistics)
            return problem.result(self, point_at_maximum(problem, density, self.num_starts, "posterior density"))
        posterior = conjugate.update(problem.data.statistics)
        return problem.result(self, Point(None, posterior.mode(), conjugate))
