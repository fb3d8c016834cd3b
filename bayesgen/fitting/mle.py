"""`MLE`: the process of highest likelihood, the prior ignored."""

import dataclasses

from bayesgen.models import Conjugate
from bayesgen.program import LikelihoodDensity
from bayesgen.statistics import SufficientStatistics

from .expectation import Target
from .fit import Fit
from .point import PointMethod
from .problem import ProgramProblem


@dataclasses.dataclass(frozen=True, repr=False)
class MLE(PointMethod):
    """Maximum likelihood: argmax_Q p(T | Q). The prior is ignored.

    Built-in models have it in closed form where every row has its label (and jointly normal ones all cells); else by
    EM. For a program of one's own the compressed likelihood is maximised from several starts. A row without label
    counts by its density, log sum_k p(x, k | Q).

    Args:
        num_starts: number of starting points, where it is a search or EM; None for 8 where labels are missing, else 4.
        starts: where EM starts: labels (n,) or responsibilities (n, K) of the rows of X, of which those of rows without
            labels are looked at, or a list of such arrays. Or parameters, a mapping from names to arrays, or a list of
            these: there EM starts, or the search of a program of one's own, and what a mapping lacks is as where EM
            would start by itself (a search: at the origin of the unconstrained space). None starts in the middle of
            the posterior of the labelled rows, and around it with one random row more in each class; where no row has
            a label, at rows grouped by k-means++ and about random rows in turn.
        assignment: "soft", or "hard": a row without label counts by its most probable class alone, log max_k
            p(x, k | Q), which is what k-means maximises.
        unlabelled_weight: how much a row without label counts, of a row with one (EM-lambda). Where the model is wrong,
            many of them can outvote the labels.
        objective: "joint", log p(X, y | Q): generative training. "conditional", log p(y | X, Q): discriminative
            training, in which rows without labels say nothing and are left out, so that `starts` and
            `unlabelled_weight` are refused. `Hybrid(coupling)` is between the two.

    The last two are found by one climb from the joint fit, and need the rows: `Summaries` are refused, and their fits
    are not updated. Many processes may have one p(y | x): the one that the climb reaches is returned. Where y is a
    class, `fit.attributes["unidentified_directions"]` of the conditional objective counts the directions, as the
    training rows tell, in which p(y | x) does not change there (None beyond 1,200 dimensions).
    `fit.attributes["objective"]` is what was reached, and under the conditional one "objective_of_joint_fit" that of
    the joint fit. Where classes are separable, log p(y | X, Q) has no maximum, and is refused. Where y is continuous,
    "conditional" is for models that have log p(x | Q) at hand, which those that make the columns of it have not.

    Without labels the likelihood of variances that are not pooled is unbounded: starts that lead to a singular class
    are dropped and counted, in `fit.attributes["num_starts_dropped"]`.

    Source: Nigam, McCallum, Thrun and Mitchell (2000), Text classification from labeled and unlabeled documents using
    EM, section 5; Celeux and Govaert (1992), A classification EM algorithm, for hard assignments; Minka (2005),
    Discriminative models, not discriminative training.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [7.0], [9.0], [1.5], [8.5], [2.5], [7.5]], ["low", "low", "high", "high"] + 4 * [None]
    >>> fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MLE())
    >>> fit.parameters["real_mean"].round(2).tolist()
    [[8.0], [1.75]]
    >>> X, y = [[1.0], [2.0], [4.5], [3.5], [7.0], [9.0]], ["low", "low", "low", "high", "high", "high"]
    >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE(objective="conditional"))
    >>> bg.predict(fit, [[4.0]], rule=bg.PlugIn()).probabilities.round(3).tolist()  # as logistic regression has it
    [[0.456, 0.544]]
    """

    has_prior = False
    what = "likelihood"

    def joint_fit(self, problem: ProgramProblem) -> Fit:
        """Maximise the likelihood."""
        conjugate, statistics = problem.conjugate, self.counted(problem.data.statistics)
        if conjugate is not None and statistics.unlabelled is None:
            conjugate.check_estimable(statistics)
        return super().joint_fit(problem)

    def _has_closed_form(self, conjugate: Conjugate) -> bool:
        return True

    def _target(self, conjugate: Conjugate) -> Target:
        return Target.likelihood(conjugate)

    def joint_density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> LikelihoodDensity:
        return LikelihoodDensity(problem.program, statistics, self.assignment == "hard")
