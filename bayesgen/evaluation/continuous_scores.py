"""Scores of distributions of a number against the truth, row by row.

An answer holds a distribution of y for each of n test rows; the truth is y, shape (n,).

A row that the answer called impossible has a density of NaN. An answer must not gain by refusing to answer, so such a
row is scored as the worst there is: log score −∞, squared error and CRPS +∞, an interval without end that holds
nothing.
"""

from collections.abc import Mapping

import numpy as np

from bayesgen.prediction import ContinuousPrediction
from bayesgen.typing import Float

LEVELS = (0.5, 0.8, 0.95)  # of central intervals


def percent(level: float) -> str:
    """How an interval is called: "95" for 0.95."""
    return f"{100 * level:g}"


def row_scores(answer: ContinuousPrediction, y: Float[np.ndarray, " n"]) -> Mapping[str, Float[np.ndarray, " n"]]:
    """Scores of each row by name.

    `log_score`, log p(y | x), higher is better; `squared_error` of the mean and `crps`, the continuous ranked
    probability score in the units of y, lower is better; `pit`, the probability of a value up to y, which is uniform
    over rows where forecasts are calibrated (Dawid 1984); `lower_95`, `upper_95` and so on, the ends of central
    intervals.
    """
    log_density = answer.log_density(y)
    impossible = np.isnan(log_density)
    scores = {
        "log_score": np.where(impossible, -np.inf, log_density),
        "squared_error": np.where(impossible, np.inf, (y - answer.mean) ** 2),
        "crps": np.where(impossible, np.inf, answer.crps(y)),
        "pit": answer.cdf(y),
    }
    for level in LEVELS:
        interval = answer.interval(level)
        scores[f"lower_{percent(level)}"], scores[f"upper_{percent(level)}"] = interval[:, 0], interval[:, 1]
    return scores


def summary(scores: Mapping[str, Float[np.ndarray, " n"]], y: Float[np.ndarray, " n"]) -> dict[str, float]:
    """The scores of all rows together.

    `log_score` and `crps` are means; `rmse` is the root of the mean squared error of the means; `coverage_95` the share
    of rows whose y lies within the central interval of 95 %, and `width_95` the mean width of these intervals.
    """
    measures = {
        "log_score": float(np.mean(scores["log_score"])),
        "rmse": float(np.sqrt(np.mean(scores["squared_error"]))),
        "crps": float(np.mean(scores["crps"])),
    }
    bounds = {
        percent(level): (scores[f"lower_{percent(level)}"], scores[f"upper_{percent(level)}"]) for level in LEVELS
    }
    covered = {f"coverage_{name}": float(np.mean((low <= y) & (y <= high))) for name, (low, high) in bounds.items()}
    widths = {f"width_{name}": float(np.mean(_width(high - low))) for name, (low, high) in bounds.items()}
    return measures | covered | widths


def _width(widths: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where(np.isnan(widths), np.inf, widths)
