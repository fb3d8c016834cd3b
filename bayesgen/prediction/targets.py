"""Kinds of answers: how predictions of classes, of numbers, and densities of rows are scored, tabulated and shown."""

import abc
import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from bayesgen.data import Schema, as_array, labelled, named_classes, response_values
from bayesgen.errors import DataError
from bayesgen.records import by_content
from bayesgen.runtime import PRACTICALLY_EQUAL
from bayesgen.typing import Float, Int, Shaped, Values

from .scores import (
    accuracy,
    brier_score,
    expected_calibration_error,
    impossible_rows,
    row_log_scores,
)

if TYPE_CHECKING:
    from .answers import ClassPrediction, ContinuousPrediction, DensityPrediction

LEVELS = (0.5, 0.8, 0.95)  # of central intervals
MOST_SHOWN = 10  # rows of disagreement

Prediction = TypeVar("Prediction")
RowScores: TypeAlias = Mapping[str, Float[np.ndarray, " n"]]
Columns: TypeAlias = dict[str, Any]
Places: TypeAlias = slice | Shaped[np.ndarray, " m"]
EVERYWHERE = slice(None)


def signed(pattern: str) -> Callable[[float], str]:
    """A function that formats a number by the pattern, with typographic signs."""
    return lambda value: "−∞" if value == -math.inf else pattern.format(value).replace("-", "−")


def significant(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, without an exponent unless it is very large or small.

    >>> significant(200.04), significant(-1234567.0), significant(0.012345, 3), significant(1.5e-7)
    ('200.0', '−1,234,567', '0.0123', '1.500e−07')
    """
    if not math.isfinite(value) or value == 0:
        text = f"{value:g}".replace("inf", "∞")
    elif 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    else:
        text = f"{value:.{digits - 1}e}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Metric:
    """A figure of all test rows together: a column of tables, and a line on the screen.

    Attributes:
        column: name of the column.
        score: function of a prediction, its row scores and the truth; None for NaN.
        name: name of the line; empty where it is not shown.
        text: function that writes a number.
        best: function that finds the best of several numbers; None where there is none.
    """

    column: str
    score: Callable[[Any, Any, Any], float] | None
    name: str = ""
    text: Callable[[float], str] = "{:.4f}".format
    best: Callable[..., float] | None = None


IMPOSSIBLE = Metric(
    "impossible", lambda _, scores, truth: scores["impossible"].sum(), "impossible rows", "{:.0f}".format, min
)
RULED_OUT = Metric(
    "ruled_out",
    lambda _, scores, truth: (np.isneginf(scores["log_score"]) & ~scores["impossible"]).sum(),
    "truth ruled out",
    "{:.0f}".format,
    min,
)
LOG_SCORE = Metric("log_score", lambda _, scores, truth: scores["log_score"].mean(), "log score", signed("{:.4f}"), max)


@by_content
class Scored:
    """An answer that was not refused, and the scores of each test row."""

    answer: Any
    row_scores: RowScores

    @property
    def log_scores(self) -> np.ndarray:
        """The log score of each test row."""
        return self.row_scores["log_score"]


class Target(abc.ABC, Generic[Prediction]):
    """The truth of the test rows, by which predictions of one kind are scored.

    Each kind of prediction has one such class, which holds everything specific to it in a comparison.

    Attributes:
        metrics: the figures of all test rows.
        counts: numbers of test rows, shown where there are any.
        headline: the columns that are shown first.
        legend: explanation of the figures.
        histogram: (name, row score): a line of the screen that shows how a row score from 0 to 1 is distributed.
        note: explanation of cells of disagreement, with a place for "Beside" or "Below".
        gap: between the two parts of such a cell.
    """

    metrics: ClassVar[tuple[Metric, ...]]
    counts: ClassVar[tuple[Metric, ...]] = (IMPOSSIBLE, RULED_OUT)
    headline: ClassVar[tuple[str, ...]]
    legend: ClassVar[str]
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
    def baseline(self) -> float | None:
        """The log score of an answer that reads no column; None where there is none."""
        return None

    @abc.abstractmethod
    def row_scores(self, prediction: Prediction) -> RowScores:
        """Scores of each test row by name, among them "log_score", -inf the worst, and "impossible", a mask."""

    def scores(self, prediction: Prediction, row_scores: RowScores) -> dict[str, float | int]:
        """Metrics and counts of all test rows together."""
        scores = {metric.column: metric.score for metric in (*self.metrics, *self.counts) if metric.score is not None}
        return {name: np.asarray(score(prediction, row_scores, self.truth)).item() for name, score in scores.items()}

    def at(self, places: Places) -> "Target[Prediction]":
        """The truth of some of the test rows."""
        return self

    def scores_at(self, prediction: Prediction, places: Places) -> dict[str, float | int]:
        """Metrics and counts of some of the test rows, from the prediction of all."""
        row_scores = {name: values[places] for name, values in self.row_scores(prediction).items()}
        return self.at(places).scores(prediction, row_scores)

    def truth_columns(self, places: Places) -> Columns:
        """The truth as a column of tables; no column where nothing is predicted."""
        return {}

    @abc.abstractmethod
    def columns(self, prediction: Prediction, row_scores: RowScores, places: Places) -> tuple[Columns, Columns]:
        """The predictions of some test rows as columns of tables: in short, and the rest."""

    def differing(self, first: Scored, second: Scored) -> Shaped[np.ndarray, " m"]:
        """Positions of the test rows in which two answers differ notably."""
        return np.zeros(0, int)

    def disagreement(self, model: str, given: Sequence[Scored]) -> tuple[str, Shaped[np.ndarray, " m"]]:
        """A heading, and positions of the test rows in which a model's answers differ most; or nothing."""
        return "", np.zeros(0, int)

    def cell(self, scored: Scored, row: int) -> tuple[tuple[str, ...], str]:
        """The prediction of a test row for the screen: its parts, and "red" where it is wrong, "dim" where none is."""
        return (), ""

    def truth_text(self, row: int) -> str:
        """The truth of a test row for the screen."""
        return ""

    def record(self, disagreement: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """A row of the table of disagreements for JSON."""
        return dict(disagreement)

    @property
    def reference(self) -> dict[str, Any]:
        """References for the scores, by key of `config`."""
        return {}

    @property
    def coordinates(self) -> dict[str, Any]:
        """Coordinates of the axes of `arrays` after that of rows."""
        return {}

    def arrays(self, prediction: Prediction, row_scores: RowScores) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """The predictions of all test rows: arrays by name, with the names of their axes after that of rows."""
        return {}


OF_CLASSES = (
    Metric(
        "accuracy", lambda answer, _, truth: accuracy(answer.log_probabilities, truth), "accuracy", "{:.3f}".format, max
    ),
    LOG_SCORE,
    Metric("brier", lambda answer, _, truth: brier_score(answer.log_probabilities, truth), "Brier score", best=min),
    Metric(
        "ece",
        lambda answer, _, truth: expected_calibration_error(answer.log_probabilities, truth),
        "calibration error",
        best=min,
    ),
)
LEGEND_OF_CLASSES = (
    "Log score: mean of log p(true class), higher is better. Brier "
    "score (summed over classes, 0 to 2) and calibration error (15 bins of equal mass): lower is better."
)


@by_content
class DensityTarget(Target["ClassPrediction | DensityPrediction"]):
    """Rows without predictions: answers are scored by their densities of the rows."""

    metrics = tuple(metric if metric is LOG_SCORE else replace(metric, score=None) for metric in OF_CLASSES)
    counts = (IMPOSSIBLE, replace(RULED_OUT, score=None))
    headline = ("log_score",)
    legend = LEGEND_OF_CLASSES

    def row_scores(self, prediction: "ClassPrediction | DensityPrediction") -> RowScores:
        """log p(row), -inf where it is impossible."""
        return {"log_score": prediction.log_marginal, "impossible": np.isneginf(prediction.log_marginal)}

    def columns(
        self, prediction: "ClassPrediction | DensityPrediction", row_scores: RowScores, places: Places
    ) -> tuple[Columns, Columns]:
        return {"log_density": row_scores["log_score"][places]}, {}


def _interval_metrics(level: float) -> tuple[Metric, Metric]:
    """The share of rows whose y lies in the central interval, and the mean width, infinite for an impossible row."""
    percent = f"{100 * level:g}"
    low, high = f"lower_{percent}", f"upper_{percent}"
    coverage = Metric(
        f"coverage_{percent}",
        lambda _, scores, y: ((scores[low] <= y) & (y <= scores[high])).mean(),
        f"in {percent}% interval",
        "{:.1%}".format,
        functools.partial(min, key=lambda share: abs(share - level)),
    )
    width = Metric(
        f"width_{percent}",
        lambda _, scores, y: np.where(scores["impossible"], np.inf, scores[high] - scores[low]).mean(),
        f"{percent}% width" if level == LEVELS[-1] else "",
        significant,
    )
    return coverage, width


COVERAGES, WIDTHS = zip(*map(_interval_metrics, LEVELS), strict=True)


@by_content
class ContinuousTarget(Target["ContinuousPrediction"]):
    """Test rows with a response that is a number or a count.

    A row that is impossible for the model has a density of NaN. A model must not gain by refusing to answer, so such a
    row has the worst scores: log score −∞, squared error and CRPS +∞, and an infinite interval that is missed.

    Attributes:
        values: the response of each test row.
    """

    values: Float[np.ndarray, " n"]

    metrics = (
        LOG_SCORE,
        Metric("rmse", lambda _, scores, y: np.sqrt(scores["squared_error"].mean()), "RMSE", significant, min),
        Metric("crps", lambda _, scores, y: scores["crps"].mean(), "CRPS", significant, min),
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
    histogram = ("truths by tenth", "pit")
    note = "Red: the truth lies outside the central interval of 95%."
    gap = "  "

    @classmethod
    def of(cls, y_test: Values, num_rows: int, *, of_counts: bool = False, name: str = "y_test") -> "ContinuousTarget":
        """The response of each test row; `name` is what messages call it.

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

    def at(self, places: Places) -> "ContinuousTarget":
        return replace(self, values=self.values[places])

    def row_scores(self, prediction: "ContinuousPrediction") -> RowScores:
        """Scores of each row by name.

        `log_score`, log p(y | x), higher is better; `squared_error` of the mean and `crps`, the continuous ranked
        probability score in the units of y, lower is better; `pit`, the probability of a value up to y, which is
        uniform over rows where forecasts are calibrated (Dawid 1984; of counts it is randomised); `lower_95`,
        `upper_95` and so on, the ends of central intervals.
        """
        log_density = prediction.log_density(self.values)
        impossible = np.isnan(log_density)
        scores = {
            "log_score": np.where(impossible, -np.inf, log_density),
            "squared_error": np.where(impossible, np.inf, (self.values - prediction.mean) ** 2),
            "crps": np.where(impossible, np.inf, prediction.crps(self.values)),
            "pit": prediction.pit(self.values),
            "impossible": impossible,
        }
        for level in LEVELS:
            scores[f"lower_{100 * level:g}"], scores[f"upper_{100 * level:g}"] = prediction.interval(level).T
        return scores

    def truth_columns(self, places: Places) -> Columns:
        return {"truth": self.values[places]}

    def columns(
        self, prediction: "ContinuousPrediction", row_scores: RowScores, places: Places
    ) -> tuple[Columns, Columns]:
        short = {"mean": prediction.mean[places], "std": prediction.std[places]}
        names = [name for name in row_scores if name not in ("squared_error", "impossible")]
        return short, {name: row_scores[name][places] for name in names}

    def differing(self, first: Scored, second: Scored) -> Int[np.ndarray, " m"]:
        """Up to ten rows whose log scores differ most, and by more than 0.01, in the order of the rows."""
        return np.sort(_furthest_apart([first, second]))

    def disagreement(self, model: str, given: Sequence[Scored]) -> tuple[str, Int[np.ndarray, " m"]]:
        """The rows in which the log scores of the answers differ most."""
        order, total = _furthest_apart(given), len(self.values)
        if len(order) == 0:
            within = f"within {PRACTICALLY_EQUAL} in each of the {total} test rows"
            return f"{model}: the log scores of all answers are {within}.", order
        most = f"the {len(order)} of {total} rows in which log scores differ most"
        return f"{model}: {most} (mean ± deviation, log score)", order

    def cell(self, scored: Scored, row: int) -> tuple[tuple[str, ...], str]:
        """Mean and standard deviation, and log score; red where the truth is outside the interval of 95 %."""
        scores, prediction = scored.row_scores, scored.answer.prediction
        inside = scores["lower_95"][row] <= self.values[row] <= scores["upper_95"][row]
        mean, log_score = prediction.mean[row], scored.log_scores[row]
        middle = f"{significant(mean)} ±{significant(prediction.std[row], 3)}"
        is_impossible = np.isnan(mean) and np.isneginf(log_score)
        parts = ("impossible",) if is_impossible else (middle, signed("{:.2f}")(log_score))
        return parts, "" if inside else "red"

    def truth_text(self, row: int) -> str:
        """The number without trailing zeros."""
        text = significant(self.values[row], 6)
        return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text

    def arrays(
        self, prediction: "ContinuousPrediction", row_scores: RowScores
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Mean, standard deviation, CRPS, probability integral transform, and ends of intervals by probability."""
        ends = {
            end: np.stack([row_scores[f"{end}_{100 * level:g}"] for level in LEVELS], axis=1)
            for end in ("lower", "upper")
        }
        by_row = {"mean": prediction.mean, "std": prediction.std, "crps": row_scores["crps"], "pit": row_scores["pit"]}
        return {name: ((), values) for name, values in by_row.items()} | {
            end: (("interval",), values) for end, values in ends.items()
        }

    @property
    def coordinates(self) -> dict[str, np.ndarray]:
        return {"interval": np.asarray(LEVELS)}


def _furthest_apart(given: Sequence[Scored]) -> Int[np.ndarray, " m"]:
    """Positions of up to ten rows in which log scores differ most, and by more than 0.01, the furthest first."""
    log_scores = np.stack([one.log_scores for one in given])
    top, lowest = log_scores.max(axis=0), log_scores.min(axis=0)
    distance = np.subtract(top, lowest, where=top != lowest, out=np.zeros_like(top))
    order = np.argsort(-distance, kind="stable")[:MOST_SHOWN]
    return order[distance[order] > PRACTICALLY_EQUAL]


@by_content
class ClassTarget(Target["ClassPrediction"]):
    """Test rows with a class.

    Attributes:
        labels: the K class labels.
        codes: index of each test row's class.
        shares: share of each class among the training rows.
    """

    labels: Shaped[np.ndarray, " K"]
    codes: Int[np.ndarray, " n"]
    shares: Float[np.ndarray, " K"]

    metrics = OF_CLASSES
    headline = ("accuracy", "log_score")
    legend = LEGEND_OF_CLASSES
    note = "{place} each class: the probability that the answer gives it. Red: not the true class."

    @classmethod
    def of(
        cls, labels: np.ndarray, y: Values | None, y_test: Values, num_rows: int, name: str = "y_test"
    ) -> "ClassTarget":
        """The class of each test row, and the shares of the classes among the training rows with a label, if any.

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

    def at(self, places: Places) -> "ClassTarget":
        return replace(self, codes=self.codes[places])

    def scores_at(self, prediction: "ClassPrediction", places: Places) -> dict[str, float | int]:
        log_probabilities, log_marginal = prediction.log_probabilities[places], prediction.log_marginal[places]
        some = type(prediction)(log_probabilities, prediction.classes, log_marginal)
        target = self.at(places)
        return target.scores(some, target.row_scores(some))

    @property
    def log_shares(self) -> Float[np.ndarray, " K"]:
        """Log share of each class among the training rows, −∞ for a class without rows."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)

    @property
    def baseline(self) -> float:
        """The log score of the shares of the classes, which ignore all columns."""
        return float(self.log_shares[self.codes].mean())

    def row_scores(self, prediction: "ClassPrediction") -> RowScores:
        """log p(true class | row)."""
        table = prediction.log_probabilities
        return {"log_score": row_log_scores(table, self.codes), "impossible": impossible_rows(table)}

    def truth_columns(self, places: Places) -> Columns:
        return {"truth": labelled(self.codes[places], self.labels)}

    def columns(self, prediction: "ClassPrediction", row_scores: RowScores, places: Places) -> tuple[Columns, Columns]:
        """The most probable class, None where the row is impossible; the probabilities of all classes."""
        table = prediction.log_probabilities[places]
        probabilities = np.exp(table)
        label = {"label": labelled(named_classes(table), self.labels)}
        return label, {f"p[{label}]": probabilities[:, k] for k, label in enumerate(self.labels.tolist())}

    def differing(self, first: Scored, second: Scored) -> Int[np.ndarray, " m"]:
        """Rows with different most probable classes, impossible ones excepted."""
        mine, other = (named_classes(one.answer.prediction.log_probabilities) for one in (first, second))
        return np.flatnonzero((mine != other) & (mine >= 0) & (other >= 0))

    def disagreement(self, model: str, given: Sequence[Scored]) -> tuple[str, Int[np.ndarray, " m"]]:
        """The rows with different most probable classes, those whose probabilities are furthest apart first."""
        tables = np.stack([one.answer.prediction.log_probabilities for one in given])
        named = np.stack([named_classes(table) for table in tables])
        possible = np.where(named < 0, named.max(axis=0), named)  # an answer without a class disagrees with none
        differing = np.flatnonzero(possible.min(axis=0) != possible.max(axis=0))
        total, num_unanswered = len(self.codes), int((named < 0).any(axis=0).sum())
        unanswered = f"; in {num_unanswered} at least one answer finds the row impossible and names no class"
        rows = f"{total - num_unanswered} of" if num_unanswered else "each of"
        unanswered = unanswered if num_unanswered else ""
        if len(differing) == 0:
            return f"{model}: all answers name the same class in {rows} the {total} test rows{unanswered}.", differing
        probabilities = np.exp(tables[:, differing])
        distance = (np.nanmax(probabilities, axis=0) - np.nanmin(probabilities, axis=0)).max(axis=1)
        order = differing[np.argsort(-distance, kind="stable")][:MOST_SHOWN]
        cut = len(order) < len(differing)
        widest = f" (the {MOST_SHOWN} widest apart; all are in --json and --out)" if cut else ""
        return f"{model}: rows where the answers differ, {len(differing)} of {total}{unanswered}{widest}", order

    def cell(self, scored: Scored, row: int) -> tuple[tuple[str, ...], str]:
        """The most probable class and its probability; red where it is not the true one."""
        table = scored.answer.prediction.log_probabilities[[row]]
        code = int(named_classes(table)[0])
        if code < 0:
            return ("impossible",), "dim"
        return (str(self.labels[code]), f"{np.exp(table[0, code]):.3f}"), "" if code == self.codes[row] else "red"

    def truth_text(self, row: int) -> str:
        return str(self.labels[self.codes[row]])

    def record(self, disagreement: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """The row with probabilities as lists in the order of `classes`."""
        names = [f"p[{label}]" for label in self.labels.tolist()]
        record = dict(disagreement)
        for prefix in ("", "other_"):
            record[f"{prefix}probabilities"] = [record.pop(f"{prefix}{name}") for name in names]
        return record

    @property
    def reference(self) -> dict[str, Any]:
        """The shares of the classes among the training rows, and their log score."""
        return {"class_shares": self.shares.tolist(), "class_shares_log_score": self.baseline}

    @property
    def coordinates(self) -> dict[str, Any]:
        return {"class": self.labels}

    def arrays(
        self, prediction: "ClassPrediction", row_scores: RowScores
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return {"log_probability": (("class",), prediction.log_probabilities)}
