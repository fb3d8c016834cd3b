"""`Exact`: the conjugate posterior in closed form."""

import dataclasses

import numpy as np

from bayesgen.data import Schema
from bayesgen.families import LatentVariableFamily
from bayesgen.posteriors import ClosedPosterior, ConjugatePosterior, closed_posterior
from bayesgen.program import ClosedProgram, ConcreteModel, Conjugate
from bayesgen.statistics import PatternMoments, SufficientStatistics

from .fit import Fit
from .problem import Method, ProgramProblem


@dataclasses.dataclass(frozen=True)
class Exact(Method):
    """The exact posterior over processes, P(Q | T), by conjugate updating, with its log evidence.

    For built-in models whose hyperparameters are numbers, and for programs whose latents are recognised to be conjugate
    (`GenerativeProgram.closed_form`); others are sampled by `NUTS()`. Of a program it gives the latents, and not its
    deterministic sites. Discrete latents that all rows share have weights: see `fit.summary()`.
    """

    gives_evidence = True

    def refusal(self, problem: ProgramProblem) -> str | None:
        """The reason why the posterior has no closed form: the model, or missing cells or labels."""
        prior, data = problem.closed_prior, problem.data
        if prior is None:
            return problem.nothing_to_learn or data.model.why_not_conjugate("Exact")
        for name, family in prior.families():
            if family.hierarchical:
                return (
                    f"Exact() has no closed form for block {name!r}: its hyperparameter "
                    f"{', '.join(family.hierarchical)} is a distribution. Use NUTS() or MAP()."
                )
            if isinstance(family, LatentVariableFamily):
                return f"Exact() has no closed form for block {name!r}: {family.why_no_closed_form}"
        for block, family in prior.incomplete(data.statistics):
            name = block.name
            if _lacks_response_alone(problem, name):
                assert data.schema.response is not None
                return (
                    f"Exact() has no closed form for block {name!r} where {data.schema.response.name} is missing. Drop "
                    "these rows, or use MAP() or NUTS(), which learn from them."
                )
            return f"Exact() has no closed form for block {name!r}: {family.why_no_closed_form}"
        if data.statistics.unlabelled is not None and not (isinstance(prior, ClosedProgram) and prior.is_enumerated):
            return (
                "Exact() has no closed form where labels are missing, as they are in "
                f"{data.statistics.unlabelled.num_rows} rows: the posterior is a mixture over all ways to label them, "
                "of which there are as many as classes to the power of rows. Use NUTS(), which marginalises the "
                "labels, or MAP()."
            )
        return None

    def has_closed_form(self, conjugate: Conjugate) -> bool:
        return conjugate.is_closed

    def closed_form(
        self, model: ConcreteModel, schema: Schema, prior: Conjugate | ClosedProgram, statistics: SufficientStatistics
    ) -> ConjugatePosterior | ClosedPosterior:
        if isinstance(prior, ClosedProgram):
            posterior = prior.update(statistics)
            _ = posterior.solution  # which is refused here where these data have none
            return closed_posterior(posterior)
        return ConjugatePosterior(model, schema, prior.update(statistics), prior, statistics)

    def solve(self, problem: ProgramProblem) -> Fit:
        problem.warn_of_constant_columns()
        data = problem.data
        assert problem.closed_prior is not None
        posterior = self.closed_form(data.model, data.scaled_schema, problem.closed_prior, data.statistics)
        about = {} if data.model.has_columns else {"closed_form": problem.program.closed_in_words}
        return problem.result(self, posterior, about)


def _lacks_response_alone(problem: ProgramProblem, block: str) -> bool:
    """Whether only the response is missing in the rows of jointly normal columns."""
    data = problem.data
    response, summary = data.model.response, data.statistics.summaries[block]
    if response is None or response.site != block or response.column is None or not isinstance(summary, PatternMoments):
        return False
    return bool(np.delete(summary.observed, response.column, axis=-1).all())
