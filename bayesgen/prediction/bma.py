"""`BMA`, the one-step answer."""

import dataclasses

import numpy as np

from bayesgen.data import Rows, RowsLike
from bayesgen.errors import PredictionError
from bayesgen.fitting import Fit, HiddenStates
from bayesgen.posteriors import At
from bayesgen.program import ALL_DRAWS
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
from .responses import ResponseProcesses
from .rule import Rule


@dataclasses.dataclass(frozen=True)
class BMA(Rule):
    """One-step prediction: average over all processes, p(y | x, T) proportional to E[p(x, y | Q) | T].

    This is the exact posterior predictive: a process that makes x more probable has more weight. Exact fits have a
    closed form. For draws, the joint of each class is averaged over the draws, and the averages are normalised; Monte
    Carlo errors come from batch means by the delta method. Batch means underestimate the error of a row in which the
    joint of some class has fewer than 20 effective draws: the processes that make this class probable are then too rare
    to be drawn. Standard errors of such a row are at least 1 / (number of draws), the posterior weight of one draw.
    They are infinite where Pareto's k is 1 or more, because weights with such a tail have no mean. A warning names the
    rows whose weights have heavy tails (Pareto's k above 0.7). It says in which of them the heaviest draws alone, and
    all other draws alone, give probabilities within 0.01 of the answer.

    Args:
        entropy_draws: number of posterior draws, with weights p(x | Q), that split the entropy into expected entropy
            and mutual information; 0 for no split. None, the default, takes all draws of a sampled fit, and does not
            split the entropy of an exact fit. A sampled fit takes all of its draws or none. Without the split it
            answers about three times faster, in single precision: probabilities change by about 1e-6, and their logs by
            at most 1e-4. Rows with larger errors (some tens of standard deviations away) are computed in double
            precision. The entropy of an exact fit is itself exact; draws give the ratio of the two parts.
        seed: seed or JAX key of the draws of an exact fit.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 1; the models there are our processes.
    """

    entropy_draws: int | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.entropy_draws is not None:
            self.check_count("entropy_draws", self.entropy_draws, 0)
        check_seed(self.seed)

    @property
    def closed_at(self) -> At | None:
        return None if self.entropy_draws else "predictive"

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
            return ResponseProcesses(fit, "predictive").answer(rows)
        return ResponseProcesses.drawn(fit, is_weighted=True).answer(rows)

    def states(self, fit: Fit, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """Probabilities of hidden states, averaged over draws with weights p(x, y = k | Q)."""
        answer = dataclasses.replace(self, entropy_draws=0).answer(fit, rows)
        if answer.pareto_k is not None:
            warn_of_few_draws(answer.pareto_k, getattr(answer, "is_robust", None))
        return states_of_draws(fit, rows, site, lengths, True, answer)

    def averages_draws(self, fit: Fit) -> bool:
        """Whether the answer averages over draws: there is no closed form, or the entropy is split."""
        return bool(self.entropy_draws) or not fit.posterior.can("predictive")

    def _from_draws(self, fit: Fit, X: RowsLike) -> ClassPrediction:
        rows = fit.read(X)
        averages, size = fit.reduce_draws(rows, JOINT if self.entropy_draws == 0 else JOINT_AND_ENTROPY)
        mean, effective = averages["log_joint"], size * averages["effective"]
        log_probabilities, log_marginal = normalize(mean)

        def table_of(places: Int[np.ndarray, " m"]) -> Float[np.ndarray, "draws m K"]:
            return np.moveaxis(fit.reduce_draws(rows.take(places), ALL_DRAWS)[0]["log_joint"], 1, 0)

        k, is_robust = tail_indices(table_of, mean, effective, size)
        unseen = np.any(effective < 20, axis=1, keepdims=True)
        error = np.where(unseen, np.maximum(averages["error"], 1 / size), averages["error"])
        no_mean = k >= 1  # weights with this tail index have no finite mean
        error[no_mean & unseen[:, 0]] = np.inf
        answer = ClassPrediction(log_probabilities, fit.classes, log_marginal, error, pareto_k=k, is_robust=is_robust)
        return answer if self.entropy_draws == 0 else with_information(answer, averages, unknown=no_mean)
