"""`FinitePosterior`: the exact posterior of discrete latents that all rows share, by enumeration."""

from collections.abc import Mapping

import numpy as np

from bayesgen.data import Rows
from bayesgen.describe import free_name, quote_some
from bayesgen.errors import PredictionError
from bayesgen.generative import GenerativeProgram
from bayesgen.program import mixture_table
from bayesgen.records import by_content
from bayesgen.runtime import generator
from bayesgen.typing import Float, Int, PRNGKeyArray

from .base import At, ParameterArrays, ParameterSummaries, ProcessPosterior

NO_MEAN = (
    "The program has the discrete latents {}, which have no mean. Use PlugIn(at='mode'), the most probable process, or "
    "BMA(), which weighs all values."
)


@by_content
class FinitePosterior(ProcessPosterior):
    """The exact posterior of a program whose latents are discrete: the weights of their joint values.

    Attributes:
        program: the bound program.
        log_weights: log posterior probability of each joint value.
        log_evidence: of the data.
    """

    program: GenerativeProgram
    log_weights: Float[np.ndarray, " J"]
    log_evidence: float
    conjugate = None
    is_weighted = True

    @property
    def weights(self) -> Float[np.ndarray, " J"]:
        """Posterior probability of each joint value."""
        return np.exp(self.log_weights)

    @property
    def refusals(self) -> Mapping[str, str]:
        return {"mean": NO_MEAN.format(quote_some(self.values))}

    @property
    def values(self) -> ParameterArrays:
        """Discrete latent -> its value in each joint value."""
        return self.program.structure.finite_values

    @property
    def parameters(self) -> ParameterArrays:
        """The joint values and their weights."""
        return {**self.values, free_name("weight", self.values): self.weights}

    @property
    def mean(self) -> ParameterArrays:
        raise PredictionError(self.refusals["mean"])

    @property
    def mode(self) -> ParameterArrays:
        return self._at(self.weights.argmax())

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        if at != "predictive":
            return super()._log_joint(rows, at)
        return mixture_table(self.program.for_prediction, self.log_weights, rows)

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as one chain."""
        return self._sampled((1, num_draws), key)

    def parameter_draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        """Independent draws, as four chains."""
        return self._sampled((4, num_draws), key)

    def numbers(self, prob: float) -> ParameterSummaries:
        """Each joint value with its weight."""
        weights = {n: self.weights.reshape(-1, *(1,) * (v.ndim - 1)) + 0 * v for n, v in self.values.items()}
        return {"weight": weights, "value": self.values}

    def _sampled(self, shape: tuple[int, ...], key: PRNGKeyArray) -> ParameterArrays:
        return self._at(generator(key).choice(len(self.weights), shape, p=self.weights))

    def _at(self, index: Int[np.ndarray, "..."] | np.integer) -> ParameterArrays:
        return {name: joint[index] for name, joint in self.values.items()}
