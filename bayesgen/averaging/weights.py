"""Weights of several structures: posterior probabilities, stacking, pseudo-BMA."""

import numpy as np
import scipy.optimize
import scipy.special

from bayesgen.errors import FitError
from bayesgen.typing import Float


def posterior_weights(
    log_evidences: Float[np.ndarray, " M"], prior: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, " M"], float]:
    """Posterior probabilities of structures and the log evidence of them all.

    Args:
        log_evidences: log p(X, y | structure).
        prior: prior probabilities.

    Raises:
        FitError: where the data are impossible under every structure that has a prior probability.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 2.
    """
    with np.errstate(divide="ignore"):
        scores = log_evidences + np.log(prior)
    total = scipy.special.logsumexp(scores)
    if not np.isfinite(total):
        raise FitError("Every member with a prior weight gives the data probability zero: none is the better one.")
    return np.exp(scores - total), float(total)


def pseudo_bma_weights(log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
    """Weights proportional to the exponential of the summed log scores of rows that were left out.

    Source: Yao et al. (2018), Using stacking to average Bayesian predictive distributions, section 3.4.

    Raises:
        FitError: where every member has a row that it gives probability zero.
    """
    totals = log_scores.sum(0)
    if not np.isfinite(totals.max()):
        rows = np.argmax(np.isneginf(log_scores), axis=0).tolist()
        raise FitError(
            f"Every member gives the class of some row probability zero (members in order: rows {rows}), so no score "
            "compares them."
        )
    return scipy.special.softmax(totals)


def stacking_weights(log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
    """The mixture of class probabilities with the highest mean log score on rows that were left out.

    Maximises mean_i log sum_m w_m exp(log_scores[i, m]) over the simplex: a concave problem, for sequential quadratic
    programming. The largest gradient less 1 bounds how far the score is from its maximum: some 1e-9.

    Args:
        log_scores: log probability of each row's class under each member.

    Raises:
        FitError: where every member gives the class of some row probability zero.

    Source: Yao et al. (2018), eq. 5.
    """
    best = log_scores.max(1, keepdims=True)
    if not np.isfinite(best).all():
        row = int(np.argmin(np.isfinite(best)))
        raise FitError(f"Every member gives the class of row {row} probability zero, so there is nothing to stack.")
    likelihoods = np.exp(log_scores - best)  # relative to the best member of each row
    num_members = likelihoods.shape[1]

    def mixtures(weights: Float[np.ndarray, " M"]) -> Float[np.ndarray, " n"]:
        return np.maximum(likelihoods @ weights, 1e-300)

    optimum = scipy.optimize.minimize(
        lambda weights: -np.log(mixtures(weights)).mean(),
        np.full(num_members, 1 / num_members),
        jac=lambda weights: -(likelihoods / mixtures(weights)[:, None]).mean(0),
        bounds=[(0, 1)] * num_members,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.where(optimum.x < 1e-9, 0.0, optimum.x)
    return weights / weights.sum()
