"""`ConjugatePosterior`: the exact posterior over processes, and over structures."""

import dataclasses
import functools

import numpy as np

from bayesgen.data import Rows, Schema
from bayesgen.generative import GenerativeProgram
from bayesgen.program import ClosedAnswer, ClosedResponse, ConcreteModel, Conjugate, Densities
from bayesgen.records import by_content
from bayesgen.runtime import generator
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import PRNGKeyArray

from .base import At, ParameterArrays, ParameterSummaries, ProcessPosterior, numbers_or_draws


@by_content
class ConjugatePosterior(ProcessPosterior):
    """The exact posterior over processes, in closed form.

    Attributes:
        model: the model, whose program is bound when draws are asked for.
        schema: the schema of the training data.
        conjugate: the posterior: updated families.
        prior: the prior families.
        statistics: the data.
        hyperparameters: of those that are latents of the program, the values given which the posterior is exact.
    """

    model: ConcreteModel
    schema: Schema
    conjugate: Conjugate
    prior: Conjugate
    statistics: SufficientStatistics
    hyperparameters: ParameterArrays = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def program(self) -> GenerativeProgram:  # type: ignore[override]
        return self.model.bind(self.schema)

    @functools.cached_property
    def log_evidence(self) -> float | None:  # type: ignore[override]
        return None if self.hyperparameters else float(self.prior.log_evidence(self.statistics))

    @property
    def parameters(self) -> ParameterArrays:
        """Posterior means."""
        return self.mean

    @functools.cached_property
    def mean(self) -> ParameterArrays:
        return self.hyperparameters | self.conjugate.mean()

    @functools.cached_property
    def mode(self) -> ParameterArrays:
        return self.hyperparameters | self.conjugate.mode()

    @functools.cached_property
    def _predictive(self) -> Densities:
        return self.conjugate.predictive_densities()

    def densities_at(self, at: At) -> Densities:
        return self._predictive if at == "predictive" else super().densities_at(at)

    def predictive_of_response(self, closed: ClosedResponse, rows: Rows, at: At) -> ClosedAnswer | None:
        if at != "predictive":
            return super().predictive_of_response(closed, rows, at)
        return closed.predictive(dict(self.conjugate.families()), rows)

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        return [self._predictive]

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as one chain."""
        return self.program.latents_of(self._sample((1, num_draws), generator(key)))

    def parameter_draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as four chains."""
        return self._sample((4, num_draws), generator(key))

    def _sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> ParameterArrays:
        points = {
            name: np.broadcast_to(value, (*shape, *np.shape(value))) for name, value in self.hyperparameters.items()
        }
        return points | self.conjugate.sample(shape, rng)

    def numbers(self, prob: float) -> ParameterSummaries:
        """In closed form; where a marginal has none (covariances of two columns, structures), of 2,000 draws."""
        low, high = (
            self.hyperparameters | self.conjugate.quantile(share) for share in ((1 - prob) / 2, (1 + prob) / 2)
        )
        deviations = {name: 0.0 * value for name, value in self.hyperparameters.items()}
        deviations |= {name: np.sqrt(value) for name, value in self.conjugate.variance().items()}
        columns = {"mean": self.mean, "sd": deviations, "lower": low, "upper": high}
        return numbers_or_draws(columns, lambda: self._sample((2000,), np.random.default_rng(0)), prob)
