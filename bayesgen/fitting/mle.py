"""`MLE`: the process of highest likelihood, the prior ignored."""

import dataclasses

import numpy as np

from bayesgen.posteriors import Point
from bayesgen.solvers import maximize, parameters_at
from bayesgen.statistics import Sums

from .method import Method


@dataclasses.dataclass(frozen=True)
class MLE(Method):
    """Maximum likelihood: argmax_Q p(T | Q). The prior is ignored.

    Built-in models have it in closed form; for others the compressed likelihood is maximised from several starts.

    Args:
        num_starts: number of starting points, where it is a search.
    """

    num_starts: int = 4

    def __post_init__(self):
        self.check_counts(num_starts=self.num_starts)

    def solve(self, problem):
        """Maximise the likelihood."""
        if problem.conjugate is None:
            optimum = maximize(problem, prior=False, num_starts=self.num_starts)
            return problem.result(self, Point(problem.program, parameters_at(problem.program, optimum)))
        conjugate, evidence = problem.conjugate, problem.data.evidence
        labels = Sums(evidence.class_counts.sum(), (evidence.class_counts,), np.zeros(()))
        values = {"class_probs": conjugate.class_prior.maximum_likelihood(labels, conjugate.class_names)["probs"]}
        for block in conjugate.blocks:
            own = block.family.maximum_likelihood(evidence.summaries[block.name], conjugate.names(block))
            values |= {f"{block.name}_{name}": value for name, value in own.items()}
        return problem.result(self, Point(problem.program, values, conjugate))
