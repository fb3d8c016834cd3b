"""`MLE`: the process of highest likelihood, the prior ignored."""

import dataclasses

from bayesgen.posteriors import Point
from bayesgen.program import LikelihoodDensity

from .fit import Fit
from .maximum import point_at_maximum
from .problem import Method, ProgramProblem


@dataclasses.dataclass(frozen=True)
class MLE(Method):
    """Maximum likelihood: argmax_Q p(T | Q). The prior is ignored.

    Built-in models have it in closed form; for others the compressed likelihood is maximised from several starts.

    Args:
        num_starts: number of starting points, where it is a search.
    """

    num_starts: int = 4

    def __post_init__(self) -> None:
        self.check_counts(num_starts=self.num_starts)

    def solve(self, problem: ProgramProblem) -> Fit:
        """Maximise the likelihood."""
        if problem.conjugate is None:
            density = LikelihoodDensity(problem.program, problem.statistics)
            return problem.result(self, point_at_maximum(problem, density, self.num_starts, "likelihood"))
        conjugate, statistics = problem.conjugate, problem.data.statistics
        values = {
            "class_probs": conjugate.class_prior.maximum_likelihood(statistics.labels, conjugate.class_names)["probs"]
        }
        for block in conjugate.blocks:
            own = block.family.maximum_likelihood(statistics.summaries[block.name], conjugate.names(block))
            values |= {f"{block.name}_{name}": value for name, value in own.items()}
        return problem.result(self, Point(None, values, conjugate))
