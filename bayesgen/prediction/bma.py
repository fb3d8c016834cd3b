"""`BMA`, the one-step answer."""

import dataclasses

import numpy as np

from bayesgen.data import Rows, RowsLike
from bayesgen.errors import PredictionError
from bayesgen.fitting import Fit, HiddenStates
from bayesgen.program import WHOLE
from bayesgen.runtime import check_seed
from bayesgen.typing import Float, Int, Seed

from .answers import ClassPrediction, ContinuousPrediction, normalize, with_information
from .averages import (
    JOINT,
    JOINT_AND_ENTROPY,
    MIN_TAIL,
    least_effective,
    tail_indices,
    warn_of_few_draws,
)
from .hidden_states import states_of_draws
from .responses import DrawnProcesses, OneProcess
from .rule import Rule


@dataclasses.dataclass(frozen=True)
class BMA(Rule):
    """One-step prediction: average over all processes, p(y | x, T) proportional to E[p(x, y | Q) | T].

    This is the exact posterior predictive: a process that makes x more probable has more weight. Exact fits have it in
    closed form. For draws it is, per class, the mean of the joint over draws, then normalised; its Monte Carlo error
    comes from batch means and the delta method. Where the effective number of draws for the joint of some class is
    below 20 (processes too rare to be drawn make that class probable), batch means underestimate the error; standard
    errors of that row are then at least 1 / (number of draws), the posterior weight of one draw, and infinite where
    Pareto's k is 1 or more, as of weights without a mean. A warning names rows whose weights have heavy tails
    (Pareto's k above 0.7), and says where the heaviest draws alone and all others alone give probabilities within 0.01
    of the answer.

    Args:
        entropy_draws: number of draws from the posterior that split the entropy into expected entropy and mutual
            information, with weights p(x | Q). 0 for no split. None (the default) for all draws of a sampled fit, and
            for no split of an exact one, whose entropy is exact and is split in the ratio of the draws. A sampled fit
            takes all of its draws, or none: without the split, it answers about three times faster, from weights in
            single precision, which changes probabilities by about 1e-6 and their logs by 1e-4 at most. Rows with
            larger errors (some tens of standard deviations away) take double precision.
        seed: seed or JAX key of the draws of an exact fit.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 1, with processes for models.
    """

    entropy_draws: int | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.entropy_draws is not None:
            self.check_count("entropy_draws", self.entropy_draws, 0)
        check_seed(self.seed)

    def apply(self, fit: Fit, X: RowsLike) -> ClassPrediction:
        if not fit.posterior.can("predictive"):
            return self._from_draws(fit, X)
        log_probabilities, log_marginal = normalize(fit.log_joint(X, at="predictive"))
        answer = ClassPrediction(log_probabilities, fit.classes, log_marginal)
        if not self.entropy_draws:
            return answer
        averages, size = fit.reduce_draws(X, JOINT_AND_ENTROPY, num_draws=self.entropy_draws, seed=self.seed)
        draws_that_count = least_effective(averages["log_joint"], size * averages["effective"], size)
        return with_information(answer, averages, unknown=draws_that_count < MIN_TAIL)

    def respond(self, fit: Fit, rows: Rows) -> ContinuousPrediction:
        """The predictive in closed form, or the mixture over draws with weights p(x | Q)."""
        if self.entropy_draws:
            raise PredictionError(
                "BMA: entropy_draws splits the entropy of class probabilities, and this fit has a continuous label. "
                "Leave it out."
            )
        if fit.posterior.can("predictive"):
            return OneProcess(fit, "predictive").answer(rows)
        return DrawnProcesses.of(fit, is_weighted=True).answer(rows)

    def states(self, fit: Fit, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """Averaged over draws with weights p(x, y = k | Q)."""
        answer = dataclasses.replace(self, entropy_draws=0).apply(fit, rows)
        if answer.pareto_k is not None:
            warn_of_few_draws(answer.pareto_k, answer.is_robust)
        return states_of_draws(fit, rows, site, lengths, True, answer)

    def averages_draws(self, fit: Fit) -> bool:
        """True where there is no closed form, or the entropy is split."""
        return bool(self.entropy_draws) or not fit.posterior.can("predictive")

    def _from_draws(self, fit: Fit, X: RowsLike) -> ClassPrediction:
        rows = fit.read(X)
        averages, size = fit.reduce_draws(rows, JOINT if self.entropy_draws == 0 else JOINT_AND_ENTROPY)
        mean, effective = averages["log_joint"], size * averages["effective"]
        log_probabilities, log_marginal = normalize(mean)

        def table_of(places: Int[np.ndarray, " m"]) -> Float[np.ndarray, "draws m K"]:
            return np.moveaxis(fit.reduce_draws(rows.take(places), WHOLE)[0]["log_joint"], 1, 0)

        k, is_robust = tail_indices(table_of, mean, effective, size)
        unseen = np.any(effective < 20, axis=1, keepdims=True)
        error = np.where(unseen, np.maximum(averages["error"], 1 / size), averages["error"])
        no_mean = k >= 1  # weights with this tail index have no finite mean
        error[no_mean & unseen[:, 0]] = np.inf
        answer = ClassPrediction(log_probabilities, fit.classes, log_marginal, error, pareto_k=k, is_robust=is_robust)
        return answer if self.entropy_draws == 0 else with_information(answer, averages, unknown=no_mean)
