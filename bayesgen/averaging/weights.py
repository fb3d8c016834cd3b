"""Weights of several structures: posterior probabilities, stacking, pseudo-BMA."""

import numpy as np
import scipy.optimize
import scipy.special

from bayesgen.errors import FitError

MAX_POLISH = 2000


def posterior_weights(log_evidences, prior):
    """Posterior probabilities of structures and the log evidence of them all.

    Args:
        log_evidences: (M,) log p(X, y | structure).
        prior: (M,) prior probabilities.

    Raises:
        FitError: where the data are impossible under every structure that has a prior probability.

    Source: Hoeting et al. (1999), Bayesian model averaging, eq. 2.
    """
    with np.errstate(divide="ignore"):
        scores = np.asarray(log_evidences) + np.log(prior)
    total = scipy.special.logsumexp(scores)
    if not np.isfinite(total):
        raise FitError("Every member with a prior weight gives the data probability zero: none is the better one.")
    return np.exp(scores - total), float(total)


def pseudo_bma_weights(log_scores):
    """Weights proportional to the exponential of the summed log scores (N, M) of rows that were left out.

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


def stacking_weights(log_scores, tolerance=1e-10):
    """The mixture of class probabilities with the highest mean log score on rows that were left out.

    Maximises mean_i log sum_m w_m exp(log_scores[i, m]) over the simplex: a concave problem. The largest gradient
    less 1 bounds how far the score is from its maximum; the search stops where that is below `tolerance`.

    Args:
        log_scores: (N, M) log probability of each row's class.

    Source: Yao et al. (2018), eq. 5.
    """
    likelihoods = _scaled(log_scores)
    num_members = likelihoods.shape[1]
    found = scipy.optimize.minimize(
        lambda w: -np.log(np.maximum(likelihoods @ w, 1e-300)).mean(),
        np.full(num_members, 1 / num_members),
        jac=lambda w: -_gradient(likelihoods, w),
        bounds=[(0, 1)] * num_members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.clip(found.x, 1e-12, None)
    weights /= weights.sum()
    for _ in range(MAX_POLISH):  # EM steps: they never lower the score
        gradient = _gradient(likelihoods, weights)
        if gradient.max() <= 1 + tolerance:
            break
        weights = weights * gradient
    return np.where(weights < 1e-9, 0.0, weights) / weights[weights >= 1e-9].sum()


def _gradient(likelihoods, weights):
    return (likelihoods / np.maximum(likelihoods @ weights, 1e-300)[:, None]).mean(0)


def _scaled(log_scores):
    """Probabilities relative to the best member of each row."""
    best = log_scores.max(1, keepdims=True)
    if not np.isfinite(best).all():
        row = int(np.argmin(np.isfinite(best)))
        raise FitError(f"Every member gives the class of row {row} probability zero, so there is nothing to stack.")
    return np.exp(log_scores - best)
