"""`BMA`: the one-step answer."""

import dataclasses

import numpy as np
import scipy.special

from ..errors import PredictionError
from .answer import ClassPrediction, normalize
from .batches import joint_kernel, ratio_error
from .reliability import tail_indices
from .rule import Rule

MIN_EFFECTIVE_DRAWS = 20


@dataclasses.dataclass(frozen=True)
class BMA(Rule):
    """One-step prediction: average over all processes, p(y | x, T) proportional to E[p(x, y | Q) | T].

    This is the exact posterior predictive: a process that makes x more probable counts more. Exact fits have it in
    closed form. For draws it is, per class, the mean of the joint over draws, then normalised; its Monte Carlo error
    comes from batch means and the delta method. Where fewer than 20 effective draws carry the joint of some class
    (processes too rare to be drawn make that class probable), the spread of the draws tells nothing; the standard
    errors of that row are then at least 1 / (number of draws), the posterior weight below which nothing is seen. Rows
    whose weights have tails so heavy that more draws hardly help (Pareto's k above 0.7) are warned of.

    Args:
        entropy_draws: for exact fits, the number of draws from the posterior that split the entropy into expected
            entropy and mutual information; 0 (the default) for no split. Draws weigh by p(x | Q).
        seed: seed or JAX key of these draws.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 1, with processes for models.
    """

    entropy_draws: int = 0
    seed: int = 0

    def apply(self, fit, X):
        """Average the joint."""
        try:
            table = fit.log_joint(X, at="predictive")
        except PredictionError:
            answer, *weights = self._from_draws(fit, X)
            return dataclasses.replace(answer, pareto_k=tail_indices(fit, X, *weights))
        log_probabilities, log_marginal = normalize(table)
        entropy = None
        if self.entropy_draws:
            entropy = self._from_draws(fit, X, self.entropy_draws)[0].expected_entropy
        return ClassPrediction(log_probabilities, fit.classes, log_marginal, expected_entropy=entropy)

    def averages_draws(self, fit):
        """Where there is no closed form, or the entropy is to be split."""
        return self.entropy_draws > 0 or fit.is_sampled

    def _from_draws(self, fit, X, num_draws=4000):
        """The answer, logs of the mean joints (n, K), effective numbers of draws, and their number."""
        parts, size = fit.reduce_draws(X, joint_kernel, num_draws=num_draws, seed=self.seed)
        log_joint = parts["log_joint"]
        num_batches = len(log_joint)
        mean = _mean_of_logs(log_joint)
        log_probabilities, log_marginal = normalize(mean)
        with np.errstate(invalid="ignore"):
            relative = np.exp(log_joint - log_marginal[:, None])
            entropy = np.exp(parts["log_entropy"] - log_marginal).mean(0)
            effective = size * np.exp(2 * mean - _mean_of_logs(parts["log_square"]))
        error = ratio_error(relative, relative.sum(2)) if num_batches > 1 else np.full(mean.shape, np.nan)
        unseen = (effective < MIN_EFFECTIVE_DRAWS).any(1, keepdims=True)
        error = np.where(unseen, np.maximum(error, 1 / size), error)
        return ClassPrediction(log_probabilities, fit.classes, log_marginal, error, entropy), mean, effective, size


def _mean_of_logs(batches):
    """Log of the mean over batches of logs of means."""
    return scipy.special.logsumexp(batches, axis=0) - np.log(len(batches))
