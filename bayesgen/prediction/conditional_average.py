"""`ConditionalAverage`: the mean of p(y | x, Q) over the posterior, which is not the posterior predictive."""

import dataclasses

import numpy as np
import scipy.special

from .answer import ClassPrediction
from .batches import conditional_kernel, mean_error
from .rule import Rule


@dataclasses.dataclass(frozen=True)
class ConditionalAverage(Rule):
    """The mean over draws of p(y | x, Q).

    For a discriminative model this is Bayesian model averaging. For a generative one it is another number than
    `BMA()`: it weighs processes by P(Q | T) alone and ignores what x itself says about Q.

    Args:
        num_draws: draws from the posterior of an exact fit; a sampled fit uses all of its draws.
        seed: seed or JAX key of these draws.
    """

    num_draws: int = 4000
    seed: int = 0

    def apply(self, fit, X):
        """Average the conditionals."""
        parts, _ = fit.reduce_draws(X, conditional_kernel, num_draws=self.num_draws, seed=self.seed)
        probabilities = parts["probabilities"].mean(0)
        num_batches = len(parts["entropy"])
        log_marginal = scipy.special.logsumexp(parts["log_marginal"], axis=0) - np.log(num_batches)
        error = mean_error(parts["probabilities"]) if num_batches > 1 else np.full(probabilities.shape, np.nan)
        with np.errstate(divide="ignore"):
            logs = np.log(probabilities)
        return ClassPrediction(logs, fit.classes, log_marginal, error, parts["entropy"].mean(0))

    def averages_draws(self, fit):
        """Always."""
        return True
