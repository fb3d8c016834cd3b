"""`PlugIn`, the two-step answer."""

import dataclasses
from typing import Literal

import numpy as np

from bayesgen.data import Rows, RowsLike
from bayesgen.errors import PredictionError
from bayesgen.fitting import Fit, HiddenStates
from bayesgen.posteriors import At
from bayesgen.typing import Int

from .answers import ClassPrediction, ContinuousPrediction, normalize
from .hidden_states import states_of_process
from .responses import ResponseProcesses
from .rule import Rule


@dataclasses.dataclass(frozen=True)
class PlugIn(Rule):
    """Two-step prediction: pick one process, then predict with it, p(y | x, Q).

    Args:
        at: the process: the posterior "mean" or "mode". A point fit (MLE, MAP) has one process, so the two are the
            same. Of draws, the mean is taken over probabilities, rates, means and covariances, also where a program
            samples the Cholesky factors of covariances; the mode is not known. Discrete latents have no mean: an exact
            fit refuses it, and of draws the most frequent value is taken, and the means of those that have it.
    """

    at: Literal["mean", "mode"] = "mean"

    def __post_init__(self) -> None:
        if not isinstance(self.at, str) or self.at not in ("mean", "mode"):
            raise PredictionError(f"PlugIn(at=...) takes 'mean' or 'mode', got {self.at!r}.")

    @property
    def closed_at(self) -> At:
        return self.at

    def apply(self, fit: Fit, X: RowsLike) -> ClassPrediction:
        log_probabilities, log_marginal = normalize(fit.log_joint(X, at=self.at))
        return ClassPrediction(log_probabilities, fit.classes, log_marginal)

    def respond(self, fit: Fit, rows: Rows) -> ContinuousPrediction:
        """p(y | x, Q) at the process."""
        return ResponseProcesses(fit, self.at).answer(rows)

    def states(self, fit: Fit, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """Smoothed probabilities of hidden states at the process, and the most probable paths."""
        return states_of_process(fit, rows, site, lengths, self.at, self.answer(fit, rows))

    def caution(self, fall_at_mean: float) -> str | None:
        if self.at != "mean":
            return None
        return (
            f"At the mean of the draws the log posterior density is {fall_at_mean:.3g} lower than at the lowest draw: "
            "the mean lies between several modes, such as those of hidden units that swap places or signs, and is "
            "no probable process. Average over the draws (BMA)."
        )

    def remedy(self, fit: Fit) -> str:
        if fit.posterior.is_point:
            return (
                "Fit with Exact(), or with NUTS() where there is no closed form, and average (BMA), or with MAP() and "
                "concentrations above 1."
            )
        if self.at == "mode":
            return (
                "Average instead (BMA), plug in the posterior mean (PlugIn(at='mean')), or give concentrations above 1."
            )
        return "Average instead (BMA), or look at these rows."

    def averages_draws(self, fit: Fit) -> bool:
        return False
