"""`ConjugatePosterior`: the exact posterior over processes, and over structures."""

import functools

import numpy as np

from bayesgen.data import Rows, Schema
from bayesgen.models import ClosedResponse, Conjugate, Densities
from bayesgen.predictives import PredictiveDistribution
from bayesgen.program import ConcreteModel, GenerativeProgram
from bayesgen.records import by_content
from bayesgen.runtime import generator
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Float, PRNGKeyArray

from .base import At, Exported, ParameterArrays, ProcessPosterior, closed_table


@by_content
class ConjugatePosterior(ProcessPosterior):
    """The exact posterior over processes, in closed form.

    Attributes:
        model: the model, whose program is bound when draws are asked for.
        schema: the schema of the training data.
        conjugate: the posterior: updated families.
        prior: the prior families.
        statistics: the data.
    """

    model: ConcreteModel
    schema: Schema
    conjugate: Conjugate
    prior: Conjugate
    statistics: SufficientStatistics

    @functools.cached_property
    def program(self) -> GenerativeProgram:  # type: ignore[override]
        return self.model.bind(self.schema)

    @functools.cached_property
    def log_evidence(self) -> float:  # type: ignore[override]
        return float(self.prior.log_evidence(self.statistics))

    @property
    def parameters(self) -> ParameterArrays:
        """Posterior means."""
        return self.mean

    @functools.cached_property
    def mean(self) -> ParameterArrays:
        return self.conjugate.mean()

    @functools.cached_property
    def mode(self) -> ParameterArrays:
        return self.conjugate.mode()

    @functools.cached_property
    def _predictive(self) -> Densities:
        return self.conjugate.predictive_densities()

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        return closed_table(self._predictive, rows) if at == "predictive" else super()._log_joint(rows, at)

    def _predictive_of_response(self, closed: ClosedResponse, rows: Rows, at: At) -> PredictiveDistribution | None:
        if at != "predictive":
            return super()._predictive_of_response(closed, rows, at)
        return closed.predictive(dict(self.conjugate.families()), rows)

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        return [self._predictive]

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as one chain."""
        return self.program.latents_of(self.conjugate.sample((1, num_draws), generator(key)))

    def exported(self, num_draws: int, key: PRNGKeyArray) -> Exported:
        """Independent draws, as four chains."""
        return Exported({"posterior": self.conjugate.sample((4, num_draws), generator(key))}, "independent")
