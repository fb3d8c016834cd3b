"""Whether draws are enough for an average over them: Pareto's k of each row's importance weights."""

import numpy as np
from arviz_stats.base import array_stats

from ..errors import ConvergenceWarning, warn

MAX_K = 0.7  # above it, the error of an average falls more slowly than any use of it could wait for
UNEVEN = 0.25  # share of the draws that is effective, below which weights are looked at
MOST_NUMBERS = 2**21  # in the table of the rows that are looked at
SMALL_SHARE = 1e-4  # classes less probable than this do not matter to the answer
MOST_SAMPLES = 2000  # series of draws that are looked at, the most uneven first


def pareto_k(log_joint):
    """Tail index of the importance of draws to each row's average.

    The one-step answer for a row is an average over draws of p(x, y = k | Q), class by class. It is carried by few
    draws where processes that make x probable are rare in the posterior. The tail of the weights, above the largest
    fifth or so, is fitted by a generalised Pareto distribution: its k tells how many moments they have. Where k is
    above 0.7, neither the average nor its standard error can be trusted.

    Args:
        log_joint: (draws, n, K), log p(x_i, y = k | Q_s).

    Returns:
        (n,), the largest k over the classes that have a share in the answer; 0 where the weights are so even (an
        effective sample size above a half of the draws) that no tail was fitted; infinity where so few draws count
        that none can be.

    Source: Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, section 3.
    """
    num_draws, num_rows, num_classes = log_joint.shape
    largest = log_joint.max(axis=0)
    shifted = log_joint - np.where(np.isfinite(largest), largest, 0.0)
    weights = np.exp(shifted)
    total = weights.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = total**2 / (weights**2).sum(axis=0)
        level = np.log(total) + largest
        share = np.exp(level - level.max(axis=1, keepdims=True))  # NaN for an impossible row
    uneven = np.where((share >= SMALL_SHARE) & (size < num_draws / 2), size, np.inf).ravel()
    chosen = np.argsort(uneven)[: min(MOST_SAMPLES, int(np.isfinite(uneven).sum()))]
    found = np.zeros(num_rows * num_classes)
    if len(chosen):
        series = shifted.reshape(num_draws, -1)[:, chosen]
        with np.errstate(all="ignore"):
            # ArviZ takes log-likelihoods that are to be left out, of which the weights are the inverses
            k = array_stats.psislw(-np.maximum(series, -700.0), axis=0)[1]
        found[chosen] = np.where(np.isnan(k), np.inf, k)  # no tail can be fitted where almost all weights underflow
    return found.reshape(num_rows, num_classes).max(axis=1)


def tail_indices(fit, X, mean, effective, num_draws):
    """Pareto's k of the rows of a prediction from draws, for those whose weights are uneven.

    Args:
        fit: what can give the table of every draw for a few rows.
        X: the rows.
        mean: (n, K), log of the mean over draws of p(x_i, y = k | Q).
        effective: (n, K), effective number of draws in this mean.
        num_draws: number of draws.

    Returns:
        (n,), 0 for rows of even weights; NaN for rows of uneven weights beyond the most uneven ones that are looked at.
    """
    with np.errstate(invalid="ignore"):
        matters = mean - mean.max(axis=1, keepdims=True) >= np.log(SMALL_SHARE)
    share = np.where(matters, effective / num_draws, 1.0).min(axis=1, initial=1.0)
    uneven = np.flatnonzero(share < UNEVEN)
    k = np.zeros(len(mean))
    k[uneven] = np.nan
    most = max(1, MOST_NUMBERS // (num_draws * mean.shape[1]))
    looked_at = uneven[np.argsort(share[uneven])[:most]]
    if len(looked_at):
        k[looked_at] = pareto_k(fit.log_joint(X, at="draws", rows=looked_at))
    return k


def warn_of_few_draws(k):
    """One warning that says how many rows have averages that draws do not settle."""
    k = np.asarray(k)
    bad, unknown = int((k > MAX_K).sum()), int(np.isnan(k).sum())
    if bad:
        others = f" ({unknown} more have uneven weights and were not looked at)" if unknown else ""
        warn(
            f"{bad} of {len(k)} rows{others} have an average over draws that few draws decide (Pareto k above "
            f"{MAX_K}): their probabilities and standard errors cannot be trusted. Use Exact() where the model has a "
            "closed form, or more draws.",
            ConvergenceWarning,
        )
