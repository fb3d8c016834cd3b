"""`BMA`: the one-step answer."""

import dataclasses

import numpy as np

from ..errors import PredictionError
from .answer import ClassPrediction, normalize
from .batches import JOINT, JOINT_AND_ENTROPY
from .reliability import NO_MEAN_K, tail_indices
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
    whose weights have tails so heavy that more draws hardly help (Pareto's k above 0.7) are warned of; where k is 1 or
    more, the weights have no mean that draws could find, and the standard errors are infinite.

    Args:
        entropy_draws: number of draws from the posterior that split the entropy into expected entropy and mutual
            information; draws weigh by p(x | Q). 0 for no split. None (the default) for all draws of a sampled fit,
            and for no split of an exact one. A sampled fit takes all of its draws, or none: without the split, it
            answers about three times faster, from weights in single precision, which moves probabilities by about 1e-6
            (and log probabilities of rows far from everything by up to about 1e-3).
        seed: seed or JAX key of the draws of an exact fit.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 1, with processes for models.
    """

    entropy_draws: int | None = None
    seed: int = 0

    def apply(self, fit, X):
        """Average the joint."""
        try:
            table = fit.log_joint(X, at="predictive")
        except PredictionError:
            answer, *weights = self._from_draws(fit, X)
            k = tail_indices(fit, X, *weights)
            error = np.where(k[:, None] >= NO_MEAN_K, np.inf, answer.standard_error)
            return dataclasses.replace(answer, pareto_k=k, standard_error=error)
        log_probabilities, log_marginal = normalize(table)
        entropy = None
        if self.entropy_draws:
            entropy = self._from_draws(fit, X, self.entropy_draws)[0].expected_entropy
        return ClassPrediction(log_probabilities, fit.classes, log_marginal, expected_entropy=entropy)

    def averages_draws(self, fit):
        """Where there is no closed form, or the entropy is to be split."""
        return bool(self.entropy_draws) or fit.is_sampled

    def _from_draws(self, fit, X, num_draws=4000):
        """The answer, logs of the mean joints (n, K), effective numbers of draws, and their number."""
        reduction = JOINT if self.entropy_draws == 0 else JOINT_AND_ENTROPY
        found, size = fit.reduce_draws(X, reduction, num_draws=num_draws, seed=self.seed)
        mean, effective, entropy = found["log_joint"], size * found["effective"], found.get("entropy")
        log_probabilities, log_marginal = normalize(mean)
        unseen = (effective < MIN_EFFECTIVE_DRAWS).any(1, keepdims=True)
        error = np.where(unseen, np.maximum(found["error"], 1 / size), found["error"])
        return ClassPrediction(log_probabilities, fit.classes, log_marginal, error, entropy), mean, effective, size
