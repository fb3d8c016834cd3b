"""Scores of class probabilities against the truth, in plain NumPy.

Every score takes the table log p(y = k | x_i), shape (n, K), and the index of each row's true class, shape
(n,). Log-probabilities, because a probability of 1e-400 is still a finite log score.

A row of NaN is impossible under every class. A model must not gain by refusing to answer, so such a row has the
scores of certainty of a wrong class: accuracy 0, log score −∞, Brier score 2, and confidence 1 with accuracy 0 in the
calibration error.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgen.data import named_classes

Floats = NDArray[np.float64]


def impossible_rows(log_probabilities: ArrayLike) -> NDArray[np.bool_]:
    """The rows without a forecast: True where a row holds NaN. Shape (n,)."""
    return np.isnan(np.asarray(log_probabilities, dtype=float)).any(axis=1)


def accuracy(log_probabilities: ArrayLike, truth: ArrayLike) -> float:
    """The share of rows whose most probable class is the true one."""
    return float(np.mean(named_classes(np.asarray(log_probabilities, dtype=float)) == np.asarray(truth)))


def row_log_scores(log_probabilities: ArrayLike, truth: ArrayLike) -> Floats:
    """log p(y_i | x_i) of each row, shape (n,): −∞ where the true class had probability zero or none."""
    table = np.asarray(log_probabilities, dtype=float)
    scores = table[np.arange(len(table)), np.asarray(truth)]
    return np.where(impossible_rows(table), -np.inf, scores)


def log_score(log_probabilities: ArrayLike, truth: ArrayLike) -> float:
    """The mean of log p(y_i | x_i): higher is better, at best 0; −∞ if one true class had probability 0."""
    return float(np.mean(row_log_scores(log_probabilities, truth)))


def brier_score(log_probabilities: ArrayLike, truth: ArrayLike) -> float:
    """The mean over rows of Σ_k (p_ik − 1[y_i = k])², summed over all K classes: from 0 (best) to 2.

    This is Brier's own definition (1950). For two classes it is twice what is often called the Brier score.
    """
    table = np.asarray(log_probabilities, dtype=float)
    errors = np.exp(table)
    errors[np.arange(len(table)), np.asarray(truth)] -= 1.0
    per_row = np.sum(errors**2, axis=1)
    return float(np.mean(np.where(impossible_rows(table), 2.0, per_row)))


def expected_calibration_error(log_probabilities: ArrayLike, truth: ArrayLike, *, bins: int = 15) -> float:
    """The mean gap between confidence in the most probable class and its accuracy, in bins of equal mass.

    Rows are sorted by the probability of their most probable class and cut into `bins` bins of (nearly) the
    same number of rows; the gap |mean confidence − accuracy| of each bin is weighted by its rows. Rows of equal
    confidence share their mean accuracy, so that their order in the table does not matter.
    """
    table = np.asarray(log_probabilities, dtype=float)
    impossible = impossible_rows(table)
    confidence = np.where(impossible, 1.0, np.exp(np.max(table, axis=1)))
    right = (named_classes(table) == np.asarray(truth)).astype(float)
    levels, level_of, rows = np.unique(confidence, return_inverse=True, return_counts=True)
    share_right = np.bincount(level_of, weights=right) / rows
    gaps = np.repeat(levels - share_right, rows)  # one per row, in order of confidence
    return float(sum(abs(part.sum()) for part in np.array_split(gaps, bins)) / len(table))


def paired_difference(scores: ArrayLike, reference: ArrayLike) -> tuple[float, float]:
    """The mean of the per-row differences `scores − reference`, and its standard error.

    Pairing by row removes the variation of difficulty between rows. The standard error is the sample standard
    deviation of the differences (denominator n − 1) over √n, for new test rows and the same training rows.

    A row with −∞ for both is a tie: difference 0. The mean then holds for these rows alone, and the standard
    error is NaN. With −∞ for one of them the mean is infinite, or NaN if it happens both ways, and the standard
    error NaN, as for a single row.
    """
    first, second = np.asarray(scores, dtype=float), np.asarray(reference, dtype=float)
    with np.errstate(invalid="ignore"):  # −∞ − (−∞) is meant to be NaN
        mean, error = mean_and_error(np.where(first == second, 0.0, first - second))
    return mean, error if np.isfinite([first, second]).all() else float("nan")


def mean_and_error(values: Floats) -> tuple[float, float]:
    """The mean, and its standard error, NaN of fewer than two values or of infinite ones."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is meant to be NaN
        mean = float(np.mean(values)) if len(values) else float("nan")
    if len(values) < 2 or not np.isfinite(values).all():
        return mean, float("nan")
    return mean, float(np.std(values, ddof=1) / np.sqrt(len(values)))
