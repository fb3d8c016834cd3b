"""Scorers: predictions of one kind scored against the truth of the same rows, and shown row by row."""

import abc
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd

from bayesgen.data import Schema, as_array, labelled, named_classes, response_values
from bayesgen.describe import signed, significant
from bayesgen.errors import DataError
from bayesgen.records import by_content
from bayesgen.runtime import PRACTICALLY_EQUAL
from bayesgen.typing import Bool, Float, Int, Shaped, Values

LEVELS = (0.5, 0.8, 0.95)  # of central intervals
MOST_SHOWN = 10  # rows of disagreement

RowColumns: TypeAlias = Mapping[Hashable, np.ndarray]  # of a frame of rows, as arrays


@dataclass(frozen=True)
class Metric:
    """A figure of all test rows together: a column of tables, and a line on the screen.

    Attributes:
        column: name of the column.
        score: function of the columns of `Scorer.row_frame`; None for NaN.
        name: name of the line; empty where it is not shown.
        text: function that writes a number.
        best: function that picks the best of several numbers; None where there is none.
    """

    column: str
    score: Callable[[RowColumns], Any] | None
    name: str = ""
    text: Callable[[float], str] = "{:.4f}".format
    best: Callable[..., float] | None = None


IMPOSSIBLE = Metric("impossible", lambda rows: rows["impossible"].sum(), "impossible rows", "{:.0f}".format, min)
RULED_OUT = Metric(
    "ruled_out",
    lambda rows: (np.isneginf(rows["log_score"]) & ~rows["impossible"]).sum(),
    "truth ruled out",
    "{:.0f}".format,
    min,
)
LOG_SCORE = Metric("log_score", lambda rows: rows["log_score"].mean(), "log score", signed("{:.4f}"), max)


class Scorer(abc.ABC):
    """Scores predictions of one kind against the truth of the same rows.

    Each kind of prediction has one such class, which holds everything specific to it in a comparison.

    Attributes:
        metrics: the figures of all rows.
        counts: numbers of rows, shown where there are any.
        headline: the columns that are shown first.
        legend: explanation of the figures.
        short: the columns of `row_frame` that say what was predicted, in short.
        hidden: its columns that tables leave out.
        histogram: (name, column): a line of the screen that shows how numbers from 0 to 1 are distributed over rows.
        note: explanation of cells of disagreement, with a place for "Beside" or "Below".
        gap: between the two parts of such a cell.
    """

    metrics: ClassVar[tuple[Metric, ...]]
    counts: ClassVar[tuple[Metric, ...]] = (IMPOSSIBLE, RULED_OUT)
    headline: ClassVar[tuple[str, ...]]
    legend: ClassVar[str]
    short: ClassVar[tuple[str, ...]]
    hidden: ClassVar[tuple[str, ...]] = ("log_score", "impossible")
    histogram: ClassVar[tuple[str, str] | None] = None
    note: ClassVar[str] = ""
    gap: ClassVar[str] = " "

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels of the classes; empty where there are no classes."""
        return np.asarray([])

    @property
    def truth(self) -> Shaped[np.ndarray, " n"] | None:
        """Indices of classes, or numbers; None where nothing is predicted."""
        return None

    @property
    def reference(self) -> dict[str, Any]:
        """Scores of an answer that reads no column, by key of `config`."""
        return {}

    @abc.abstractmethod
    def row_frame(self, prediction: Any) -> pd.DataFrame:
        """One line a row: "truth", the prediction and its scores.

        Among the scores are "log_score", −∞ the worst, and "impossible", whether no process makes the row possible.
        """

    def scores(self, rows: pd.DataFrame) -> dict[str, float | int]:
        """Metrics and counts of all lines of a `row_frame` together."""
        columns = {name: values.to_numpy() for name, values in rows.items()}
        scores = {metric.column: metric.score for metric in (*self.metrics, *self.counts) if metric.score is not None}
        return {name: np.asarray(score(columns)).item() for name, score in scores.items()}

    def differing(self, first: pd.DataFrame, second: pd.DataFrame) -> Shaped[np.ndarray, " m"]:
        """Positions of the rows in which two answers differ notably."""
        return np.zeros(0, int)

    def disagreement(self, model: str, answers: Sequence[pd.DataFrame]) -> tuple[str, Shaped[np.ndarray, " m"]]:
        """A heading, and positions of the rows in which a model's answers differ most; or nothing."""
        return "", np.zeros(0, int)

    def cell(self, row: pd.Series) -> tuple[tuple[str, ...], str]:
        """The prediction of a row for the screen: its parts, and "red" where it is wrong, "dim" where there is none."""
        return (), ""

    def truth_text(self, truth: Any) -> str:
        """The truth of a row for the screen."""
        return str(truth)


# Scores of class probabilities: of the table log p(y = k | x_i), in which a probability of 1e-400 is still a finite
# log score, and the index of each row's true class.
#
# A row of NaN is impossible under every class. A model must not gain by refusing to answer, so such a row has the
# scores of certainty of a wrong class: accuracy 0, log score −∞, Brier score 2, and confidence 1 with accuracy 0 in the
# calibration error.


def impossible_rows(log_probabilities: Float[np.ndarray, "n K"]) -> Bool[np.ndarray, " n"]:
    """The rows without a forecast, of NaN."""
    return np.isnan(log_probabilities).any(axis=1)


def accuracy(log_probabilities: Float[np.ndarray, "n K"], truth: Int[np.ndarray, " n"]) -> float:
    """The share of rows whose most probable class is the true one."""
    return float(np.mean(named_classes(log_probabilities) == truth))


def row_log_scores(
    log_probabilities: Float[np.ndarray, "n K"], truth: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """log p(y_i | x_i) of each row: −∞ where the true class had probability zero or none."""
    scores = log_probabilities[np.arange(len(truth)), truth]
    return np.where(impossible_rows(log_probabilities), -np.inf, scores)


def brier_score(log_probabilities: Float[np.ndarray, "n K"], truth: Int[np.ndarray, " n"]) -> float:
    """The mean over rows of Σ_k (p_ik − 1[y_i = k])², summed over all K classes: from 0 (best) to 2.

    This is Brier's own definition (1950). For two classes it is twice what is often called the Brier score.
    """
    errors = np.exp(log_probabilities)
    errors[np.arange(len(truth)), truth] -= 1.0
    return float(np.mean(np.where(impossible_rows(log_probabilities), 2.0, np.sum(errors**2, axis=1))))


def expected_calibration_error(log_probabilities: Float[np.ndarray, "n K"], truth: Int[np.ndarray, " n"]) -> float:
    """The mean gap |mean confidence − accuracy| of bins of rows, see `calibration_bins`, weighted by their rows."""
    rows, confidence, share_right = calibration_bins(log_probabilities, truth)
    return float(np.sum(rows * np.abs(confidence - share_right)) / np.sum(rows))


def calibration_bins(
    log_probabilities: Float[np.ndarray, "n K"], truth: Int[np.ndarray, " n"], num_bins: int = 15
) -> Float[np.ndarray, "3 bins"]:
    """Number of rows, mean confidence in the most probable class and its accuracy, of bins of equal mass.

    Rows are sorted by the probability of their most probable class and cut into bins of (nearly) the same number of
    rows; bins without rows are left out. Rows of equal confidence share their mean accuracy, so that their order in
    the table does not matter.
    """
    confidence = np.where(impossible_rows(log_probabilities), 1.0, np.exp(np.max(log_probabilities, axis=1)))
    right = (named_classes(log_probabilities) == truth).astype(float)
    levels, level_of, rows = np.unique(confidence, return_inverse=True, return_counts=True)
    sorted_rows = np.repeat([levels, np.bincount(level_of, weights=right) / rows], rows, axis=1)
    parts = np.array_split(sorted_rows, min(num_bins, len(confidence)), axis=1)
    return np.array([[part.shape[1], *part.mean(axis=1)] for part in parts]).T


def _forecast(rows: RowColumns) -> tuple[Float[np.ndarray, "n K"], Int[np.ndarray, " n"]]:
    """Log probabilities of the classes, and the true class, from the columns of `ClassScorer.row_frame`."""
    num_classes = sum(isinstance(name, int) for name in rows)
    return np.stack([rows[code] for code in range(num_classes)], axis=1), rows["code"]


CLASS_METRICS = (
    Metric("accuracy", lambda rows: accuracy(*_forecast(rows)), "accuracy", "{:.3f}".format, max),
    LOG_SCORE,
    Metric("brier", lambda rows: brier_score(*_forecast(rows)), "Brier score", best=min),
    Metric("ece", lambda rows: expected_calibration_error(*_forecast(rows)), "calibration error", best=min),
)
CLASS_LEGEND = (
    "Log score: mean of log p(true class), higher is better. Brier "
    "score (summed over classes, 0 to 2) and calibration error (15 bins of equal mass): lower is better."
)


@by_content
class DensityScorer(Scorer):
    """Scores densities of rows in which nothing is predicted."""

    metrics = tuple(metric if metric is LOG_SCORE else replace(metric, score=None) for metric in CLASS_METRICS)
    counts = (IMPOSSIBLE, replace(RULED_OUT, score=None))
    headline = ("log_score",)
    legend = CLASS_LEGEND
    short = ("log_density",)

    def row_frame(self, prediction: Any) -> pd.DataFrame:
        """log p(row), −∞ where it is impossible."""
        log_density = prediction.log_marginal
        scores = {"log_score": log_density, "impossible": np.isneginf(log_density)}
        return pd.DataFrame({"log_density": log_density, **scores})


def _interval_metrics(level: float) -> tuple[Metric, Metric]:
    """The share of rows whose y lies in the central interval, and the mean width, infinite for an impossible row."""
    percent = f"{100 * level:g}"
    low, high = f"lower_{percent}", f"upper_{percent}"
    coverage = Metric(
        f"coverage_{percent}",
        lambda rows: ((rows[low] <= rows["truth"]) & (rows["truth"] <= rows[high])).mean(),
        f"in {percent}% interval",
        "{:.1%}".format,
        functools.partial(min, key=lambda share: abs(share - level)),
    )
    width = Metric(
        f"width_{percent}",
        lambda rows: np.where(rows["impossible"], np.inf, rows[high] - rows[low]).mean(),
        f"{percent}% width" if level == LEVELS[-1] else "",
        significant,
    )
    return coverage, width


COVERAGES, WIDTHS = zip(*map(_interval_metrics, LEVELS), strict=True)


@by_content
class ContinuousScorer(Scorer):
    """Scores distributions of a response that is a number or a count.

    A row that is impossible for the model has a density of NaN. A model must not gain by refusing to answer, so such a
    row has the worst scores: log score −∞, squared error and CRPS +∞, and an infinite interval that is missed.

    Attributes:
        values: the response of each row.
    """

    values: Float[np.ndarray, " n"]

    metrics = (
        LOG_SCORE,
        Metric("rmse", lambda rows: np.sqrt(rows["squared_error"].mean()), "RMSE", significant, min),
        Metric("crps", lambda rows: rows["crps"].mean(), "CRPS", significant, min),
        *COVERAGES,
        *WIDTHS,
    )
    headline = ("log_score", "rmse", "crps", "coverage_95")
    legend = (
        "Log score: mean of log p(truth), higher is better. RMSE of the mean, and CRPS (continuous ranked probability "
        "score), in the units of the target: lower is better. In 50% interval: the share of truths within the central "
        "interval of 50%, which should be 50%; 95% width: mean width of the central interval of 95%. "
        "Truths by tenth: how many truths lie in each tenth of their distribution, from the lowest; level where "
        "probabilities are right, high at both ends where the answer is too sure, in the middle where not sure enough."
    )
    short = ("mean", "std")
    hidden = ("squared_error", "impossible")
    histogram = ("truths by tenth", "pit")
    note = "Red: the truth lies outside the central interval of 95%."
    gap = "  "

    @classmethod
    def of(cls, y_test: Values, num_rows: int, *, of_counts: bool = False, name: str = "y_test") -> "ContinuousScorer":
        """A scorer for the response of each row; `name` is what messages call it.

        Raises:
            DataError: a value that is missing, not a finite number, or not whole where counts are predicted; another
                number of responses than of rows.
        """
        values = response_values(as_array(y_test, name), name)
        if values.shape != (num_rows,):
            rows = name.replace("y", "X")
            raise DataError(f"{rows} has {num_rows} rows, and {name} the shape {values.shape}. Give one number a row.")
        missing = np.isnan(values)
        if missing.any():
            raise DataError(
                f"{name} has {missing.sum()} missing values (first at row {int(np.argmax(missing))}). Drop these rows: "
                "predictions are scored against known values."
            )
        broken = (values != np.floor(values)) & of_counts
        if broken.any():
            row = int(np.argmax(broken))
            raise DataError(
                f"{name} has {broken.sum()} values that are no whole numbers (the first is {values[row]:g} at row "
                f"{row}), and counts are predicted. Correct them."
            )
        return cls(values)

    @property
    def truth(self) -> Float[np.ndarray, " n"]:
        return self.values

    def row_frame(self, prediction: Any) -> pd.DataFrame:
        """The response, mean and standard deviation, and scores.

        `log_score`, log p(y | x), higher is better; `squared_error` of the mean and `crps`, the continuous ranked
        probability score in the units of y, lower is better; `pit`, the probability of a value up to y, which is
        uniform over rows where forecasts are calibrated (Dawid 1984; of counts it is randomised); `lower_95`,
        `upper_95` and so on, the ends of central intervals.
        """
        log_density = prediction.log_density(self.values)
        impossible = np.isnan(log_density)
        columns = {
            "truth": self.values,
            "mean": prediction.mean,
            "std": prediction.std,
            "log_score": np.where(impossible, -np.inf, log_density),
            "crps": np.where(impossible, np.inf, prediction.crps(self.values)),
            "pit": prediction.pit(self.values),
            "squared_error": np.where(impossible, np.inf, (self.values - prediction.mean) ** 2),
            "impossible": impossible,
        }
        for level in LEVELS:
            columns[f"lower_{100 * level:g}"], columns[f"upper_{100 * level:g}"] = prediction.interval(level).T
        return pd.DataFrame(columns)

    def differing(self, first: pd.DataFrame, second: pd.DataFrame) -> Int[np.ndarray, " m"]:
        """Up to ten rows whose log scores differ most, and by more than 0.01, in the order of the rows."""
        return np.sort(_furthest_apart([first, second]))

    def disagreement(self, model: str, answers: Sequence[pd.DataFrame]) -> tuple[str, Int[np.ndarray, " m"]]:
        """The rows in which the log scores of the answers differ most."""
        order, total = _furthest_apart(answers), len(self.values)
        if len(order) == 0:
            within = f"within {PRACTICALLY_EQUAL} in each of the {total} test rows"
            return f"{model}: the log scores of all answers are {within}.", order
        most = f"the {len(order)} of {total} rows in which log scores differ most"
        return f"{model}: {most} (mean ± deviation, log score)", order

    def cell(self, row: pd.Series) -> tuple[tuple[str, ...], str]:
        """Mean and standard deviation, and log score; red where the truth is outside the interval of 95 %."""
        middle = f"{significant(row['mean'])} ±{significant(row['std'], 3)}"
        is_impossible = np.isnan(row["mean"]) and np.isneginf(row["log_score"])
        parts = ("impossible",) if is_impossible else (middle, signed("{:.2f}")(row["log_score"]))
        return parts, "" if row["lower_95"] <= row["truth"] <= row["upper_95"] else "red"

    def truth_text(self, truth: float) -> str:
        """The number without trailing zeros."""
        text = significant(truth, 6)
        return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _furthest_apart(answers: Sequence[pd.DataFrame]) -> Int[np.ndarray, " m"]:
    """Positions of up to ten rows in which log scores differ most, and by more than 0.01, the furthest first."""
    log_scores = np.stack([rows["log_score"].to_numpy() for rows in answers])
    top, lowest = log_scores.max(axis=0), log_scores.min(axis=0)
    distance = np.subtract(top, lowest, where=top != lowest, out=np.zeros_like(top))
    order = np.argsort(-distance, kind="stable")[:MOST_SHOWN]
    return order[distance[order] > PRACTICALLY_EQUAL]


@by_content
class ClassScorer(Scorer):
    """Scores probabilities of classes.

    Attributes:
        labels: the K class labels.
        codes: index of each row's class.
        shares: share of each class among the training rows.
    """

    labels: Shaped[np.ndarray, " K"]
    codes: Int[np.ndarray, " n"]
    shares: Float[np.ndarray, " K"]

    metrics = CLASS_METRICS
    headline = ("accuracy", "log_score")
    legend = CLASS_LEGEND
    short = ("label",)
    note = "{place} each class: the probability that the answer gives it. Red: not the true class."

    @classmethod
    def of(
        cls, labels: np.ndarray, y: Values | None, y_test: Values, num_rows: int, name: str = "y_test"
    ) -> "ClassScorer":
        """A scorer for the class of each row, with the shares of the classes among the training rows that have a label.

        Raises:
            DataError: a label outside of the classes; another number of labels than of rows.
        """
        schema = Schema(classes=labels.tolist())
        truth, codes = schema.encode_labels(y_test, name), np.zeros(0, int) if y is None else schema.label_codes(y)
        if len(truth) != num_rows:
            rows = name.replace("y", "X")
            raise DataError(f"{rows} has {num_rows} rows and {name} {len(truth)} labels. Give one label a row.")
        assert codes is not None
        counts = np.bincount(codes[codes >= 0], minlength=len(labels))
        return cls(labels, truth, counts / np.maximum(1, counts.sum()))

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        return self.labels

    @property
    def truth(self) -> Int[np.ndarray, " n"]:
        return self.codes

    @property
    def hidden(self) -> tuple[Any, ...]:  # type: ignore[override]
        """Log scores, codes of the true and the most probable class, and log probabilities, called by codes."""
        return (*super().hidden, "code", "predicted", *range(len(self.labels)))

    @property
    def probability_names(self) -> list[str]:
        """The names of the columns of probabilities, by class."""
        return [f"p[{label}]" for label in self.labels.tolist()]

    @property
    def log_shares(self) -> Float[np.ndarray, " K"]:
        """Log share of each class among the training rows, −∞ for a class without rows."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)

    @property
    def reference(self) -> dict[str, Any]:
        """The shares of the classes among the training rows, and their log score."""
        log_score = float(self.log_shares[self.codes].mean())
        return {"class_shares": self.shares.tolist(), "class_shares_log_score": log_score}

    def row_frame(self, prediction: Any) -> pd.DataFrame:
        """The true class and the most probable one, None where the row is impossible; probabilities; the log score."""
        table = prediction.log_probabilities
        predicted = named_classes(table)
        columns: dict[Any, Any] = {
            "truth": labelled(self.codes, self.labels),
            "label": labelled(predicted, self.labels),
            **dict(zip(self.probability_names, np.exp(table).T, strict=True)),
            "log_score": row_log_scores(table, self.codes),
            "impossible": impossible_rows(table),
            "code": self.codes,
            "predicted": predicted,
            **dict(enumerate(table.T)),
        }
        return pd.DataFrame(columns)

    def differing(self, first: pd.DataFrame, second: pd.DataFrame) -> Int[np.ndarray, " m"]:
        """Rows with different most probable classes, impossible ones excepted."""
        mine, other = (rows["predicted"].to_numpy() for rows in (first, second))
        return np.flatnonzero((mine != other) & (mine >= 0) & (other >= 0))

    def disagreement(self, model: str, answers: Sequence[pd.DataFrame]) -> tuple[str, Int[np.ndarray, " m"]]:
        """The rows with different most probable classes, those whose probabilities are furthest apart first."""
        predicted = np.stack([rows["predicted"].to_numpy() for rows in answers])
        possible = np.where(predicted < 0, predicted.max(axis=0), predicted)  # no class disagrees with none
        differing = np.flatnonzero(possible.min(axis=0) != possible.max(axis=0))
        total, num_unanswered = len(self.codes), int((predicted < 0).any(axis=0).sum())
        unanswered = f"; in {num_unanswered} at least one answer finds the row impossible and names no class"
        scope = f"{total - num_unanswered} of" if num_unanswered else "each of"
        unanswered = unanswered if num_unanswered else ""
        if len(differing) == 0:
            return f"{model}: all answers name the same class in {scope} the {total} test rows{unanswered}.", differing
        probabilities = np.stack([rows[self.probability_names].to_numpy()[differing] for rows in answers])
        distance = (np.nanmax(probabilities, axis=0) - np.nanmin(probabilities, axis=0)).max(axis=1)
        order = differing[np.argsort(-distance, kind="stable")][:MOST_SHOWN]
        cut = len(order) < len(differing)
        widest = f" (the {MOST_SHOWN} widest apart; all are in `disagreements`)" if cut else ""
        return f"{model}: rows where the answers differ, {len(differing)} of {total}{unanswered}{widest}", order

    def cell(self, row: pd.Series) -> tuple[tuple[str, ...], str]:
        """The most probable class and its probability; red where it is not the true one."""
        code = row["predicted"]
        if code < 0:
            return ("impossible",), "dim"
        style = "" if code == row["code"] else "red"
        return (str(self.labels[code]), f"{row[self.probability_names[code]]:.3f}"), style
