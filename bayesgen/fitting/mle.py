"""`MLE`: the process of highest likelihood, the prior ignored."""

import dataclasses

from bayesgen.models import Conjugate
from bayesgen.program import LikelihoodDensity
from bayesgen.statistics import SufficientStatistics

from .expectation import Target
from .fit import Fit
from .point import PointMethod
from .problem import ProgramProblem


@dataclasses.dataclass(frozen=True)
class MLE(PointMethod):
    """Maximum likelihood: argmax_Q p(T | Q). The prior is ignored.

    Built-in models have it in closed form where every row has its label (and jointly normal ones all cells); else by
    EM. For a program of one's own the compressed likelihood is maximised from several starts. A row without label
    counts by its density, log sum_k p(x, k | Q).

    Args:
        num_starts: number of starting points, where it is a search or EM; None for 8 where labels are missing, else 4.
        starts: where EM starts: labels (n,) or responsibilities (n, K) of the rows of X, of which those of rows without
            labels are looked at, or a list of such arrays. None starts in the middle of the posterior of the labelled
            rows, and around it with one random row more in each class; where no row has a label, at rows grouped by
            k-means++ and about random rows in turn.
        assignment: "soft", or "hard": a row without label counts by its most probable class alone, log max_k
            p(x, k | Q), which is what k-means maximises.
        unlabelled_weight: how much a row without label counts, of a row with one (EM-lambda). Where the model is wrong,
            many of them can outvote the labels.

    Without labels the likelihood of variances that are not pooled is unbounded: starts that lead to a singular class
    are dropped and counted, in `fit.attributes["num_starts_dropped"]`.

    Source: Nigam, McCallum, Thrun and Mitchell (2000), Text classification from labeled and unlabeled documents using
    EM, section 5; Celeux and Govaert (1992), A classification EM algorithm, for hard assignments.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [7.0], [9.0], [1.5], [8.5], [2.5], [7.5]], ["low", "low", "high", "high"] + 4 * [None]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    >>> fit.parameters["real_mean"].round(2).tolist()
    [[8.0], [1.75]]
    """

    what = "likelihood"

    def solve(self, problem: ProgramProblem) -> Fit:
        """Maximise the likelihood."""
        conjugate, statistics = problem.conjugate, self._counted(problem.data.statistics)
        if conjugate is not None and statistics.unlabelled is None:
            conjugate.check_estimable(statistics)
        return super().solve(problem)

    def _has_closed_form(self, conjugate: Conjugate) -> bool:
        return True

    def _target(self, conjugate: Conjugate) -> Target:
        return Target.likelihood(conjugate)

    def _density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> LikelihoodDensity:
        return LikelihoodDensity(problem.program, statistics, self.assignment == "hard")
