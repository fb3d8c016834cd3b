"""`Exact`: the conjugate posterior in closed form."""

import dataclasses

import numpy as np

from bayesgen.errors import FitError
from bayesgen.models import Conjugate
from bayesgen.posteriors import ConjugatePosterior
from bayesgen.statistics import PatternMoments, SufficientStatistics

from .fit import Fit
from .problem import Method, ProgramProblem


@dataclasses.dataclass(frozen=True)
class Exact(Method):
    """The exact posterior over processes, P(Q | T), by conjugate updating, with its log evidence.

    Only for built-in models whose hyperparameters are numbers; other programs are sampled by `NUTS()`.
    """

    gives_evidence = True

    def solve(self, problem: ProgramProblem) -> Fit:
        """Update every family."""
        prior = closed_prior(problem)
        problem.warn_of_constant_columns()
        data = problem.data
        _refuse_unlabelled(data.statistics)
        updated = prior.update(data.statistics)
        posterior = ConjugatePosterior(data.model, data.scaled_schema, updated, prior, data.statistics)
        return problem.result(self, posterior)


def _refuse_unlabelled(statistics: SufficientStatistics) -> None:
    if statistics.unlabelled is not None:
        raise FitError(
            f"Exact() has no closed form where labels are missing, as they are in {statistics.unlabelled.num_rows} "
            "rows: the posterior is a mixture over all ways to label them, of which there are as many as classes to "
            "the power of rows. Use NUTS(), which sums the labels out, or MAP()."
        )


def _refuse_missing_response(problem: ProgramProblem, block: str) -> None:
    """Refuse rows of jointly normal columns in which nothing but the response is missing."""
    data = problem.data
    response, summary = data.model.response, data.statistics.summaries[block]
    if response is None or response.site != block or response.column is None or not isinstance(summary, PatternMoments):
        return
    if np.delete(summary.observed, response.column, axis=-1).all():
        assert data.schema.response is not None
        raise FitError(
            f"Exact() has no closed form for block {block!r} where {data.schema.response.name} is missing. Drop these "
            "rows, or use MAP() or NUTS(), which learn from them."
        )


def closed_prior(problem: ProgramProblem) -> Conjugate:
    """The conjugate blocks, all of whose hyperparameters are numbers."""
    prior = problem.conjugate
    if prior is None:
        raise FitError(
            "Exact() needs conjugate families, and a program of one's own does not say which it has. Use NUTS(), "
            "or state the model as a GenerativeClassifier."
        )
    for name, family in prior.families():
        if family.hierarchical:
            raise FitError(
                f"Exact() has no closed form for block {name!r}: its hyperparameter "
                f"{', '.join(family.hierarchical)} is a distribution. Use NUTS() or MAP()."
            )
        if not family.is_closed:
            raise FitError(f"Exact() has no closed form for block {name!r}: {family.why_never_closed}")
    for name in prior.open_blocks(problem.data.statistics):
        _refuse_missing_response(problem, name)
        family = next(family for block, family in prior.families() if block == name)
        raise FitError(f"Exact() has no closed form for block {name!r}: {family.why_open}")
    return prior
