"""`ConditionalAverage`, the mean over draws of p(y | x, Q)."""

import dataclasses

import numpy as np

from bayesgen.data import Rows, RowsLike
from bayesgen.fitting import Fit, HiddenStates
from bayesgen.runtime import check_seed
from bayesgen.typing import Int, Seed

from .answers import ClassPrediction, ContinuousPrediction, with_information
from .averages import CONDITIONAL
from .hidden_states import states_of_draws
from .responses import ResponseProcesses
from .rule import Rule


@dataclasses.dataclass(frozen=True)
class ConditionalAverage(Rule):
    """The mean over draws of p(y | x, Q).

    For a discriminative model this is Bayesian model averaging. For a generative model it differs from `BMA()`: a
    process has the weight P(Q | T), although the new x is itself evidence about Q.

    Args:
        num_draws: draws from the posterior of an exact fit; a sampled fit uses all of its draws.
        seed: seed or JAX key of these draws.
    """

    num_draws: int = 4000
    seed: Seed = 0

    def __post_init__(self) -> None:
        self.check_count("num_draws", self.num_draws, 1)
        check_seed(self.seed)

    def apply(self, fit: Fit, X: RowsLike) -> ClassPrediction:
        averages, _ = fit.reduce_draws(X, CONDITIONAL, num_draws=self.num_draws, seed=self.seed)
        with np.errstate(divide="ignore"):
            logs = np.log(averages["probabilities"])
        answer = ClassPrediction(logs, fit.classes, averages["log_marginal"], averages["error"])
        return with_information(answer, averages, unknown=False)

    def respond(self, fit: Fit, rows: Rows) -> ContinuousPrediction:
        """The equal mixture over draws of p(y | x, Q)."""
        return ResponseProcesses.drawn(fit, False, self.num_draws, self.seed).answer(rows)

    def states(self, fit: Fit, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """Probabilities of hidden states, averaged over draws of equal weights."""
        return states_of_draws(fit, rows, site, lengths, False, self.answer(fit, rows))
