"""Targets: the truth of the test rows, and how predictions of one kind are scored and tabulated."""

import abc
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from bayesgen.data import labelled
from bayesgen.prediction import ClassPrediction, ContinuousPrediction, DensityPrediction, named_classes
from bayesgen.records import by_content
from bayesgen.typing import Float, Int, Shaped

from .scores import (
    accuracy,
    brier_score,
    expected_calibration_error,
    impossible_rows,
    log_score,
    row_log_scores,
)

# Scores of distributions of a number against the truth.
#
# A row that is impossible for the model has a density of NaN. A model must not gain by refusing to answer, so such
# a row has the worst scores: log score −∞, squared error and CRPS +∞, and an infinite interval that is missed.

LEVELS = (0.5, 0.8, 0.95)  # of central intervals


def percent(level: float) -> str:
    """Name of an interval: "95" for 0.95."""
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


Prediction = TypeVar("Prediction")
RowScores: TypeAlias = Mapping[str, Float[np.ndarray, " n"]]
Columns: TypeAlias = dict[str, Any]
Places: TypeAlias = slice | Shaped[np.ndarray, " m"]
EVERYWHERE = slice(None)


class Target(abc.ABC, Generic[Prediction]):
    """The truth of the test rows, by which predictions of one kind are scored.

    Each kind of prediction has one such class, which holds everything specific to it in a comparison.

    Attributes:
        measures: columns of the table of scores, NaN for a refused answer.
        counts: columns that count test rows.
        headline: the measures that are shown first.
    """

    measures: ClassVar[tuple[str, ...]]
    counts: ClassVar[tuple[str, ...]]
    headline: ClassVar[tuple[str, ...]]

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels of the classes; empty where there are no classes."""
        return np.asarray([])

    @property
    def truth(self) -> Shaped[np.ndarray, " n"] | None:
        """Indices of classes, or numbers; None where nothing is predicted."""
        return None

    @abc.abstractmethod
    def row_scores(self, prediction: Prediction) -> RowScores:
        """Scores of each test row by name, among them "log_score": the higher, the better, and -inf the worst."""

    @abc.abstractmethod
    def scores(self, prediction: Prediction, row_scores: RowScores) -> dict[str, float | int]:
        """Measures and counts of all test rows together."""

    def truth_columns(self, places: Places) -> Columns:
        """The truth as a column of tables; no column where nothing is predicted."""
        return {}

    @abc.abstractmethod
    def columns(self, prediction: Prediction, row_scores: RowScores, places: Places) -> tuple[Columns, Columns]:
        """The predictions of some test rows as columns of tables: in short, and the rest."""

    def differing(
        self, first: Prediction, second: Prediction, scores: tuple[RowScores, RowScores]
    ) -> Shaped[np.ndarray, " m"]:
        """Positions of the test rows in which two answers differ notably."""
        return np.zeros(0, int)

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


@by_content
class DensityTarget(Target[ClassPrediction | DensityPrediction]):
    """Rows without predictions: answers are scored by their densities of the rows."""

    measures = ("accuracy", "log_score", "brier", "ece")
    counts = ("impossible", "ruled_out")
    headline = ("log_score",)

    def row_scores(self, prediction: ClassPrediction | DensityPrediction) -> RowScores:
        """log p(row), -inf where it is impossible."""
        return {"log_score": prediction.log_marginal}

    def scores(self, prediction: ClassPrediction | DensityPrediction, row_scores: RowScores) -> dict[str, float | int]:
        log_scores = row_scores["log_score"]
        return {"log_score": float(log_scores.mean()), "impossible": int(np.isneginf(log_scores).sum())}

    def columns(
        self, prediction: ClassPrediction | DensityPrediction, row_scores: RowScores, places: Places
    ) -> tuple[Columns, Columns]:
        return {"log_density": row_scores["log_score"][places]}, {}


MOST_DIFFERING = 10  # rows of disagreement of two answers
LEAST_DIFFERENCE = 0.01  # of log scores: a density that is a hundredth higher


@by_content
class ContinuousTarget(Target[ContinuousPrediction]):
    """Test rows with a continuous response.

    Attributes:
        values: the response of each test row.
    """

    values: Float[np.ndarray, " n"]

    measures = (
        "log_score",
        "rmse",
        "crps",
        *(f"coverage_{percent(level)}" for level in LEVELS),
        *(f"width_{percent(level)}" for level in LEVELS),
    )
    counts = ("impossible", "ruled_out")
    headline = ("log_score", "rmse", "crps", "coverage_95")

    @property
    def truth(self) -> Float[np.ndarray, " n"]:
        return self.values

    def row_scores(self, prediction: ContinuousPrediction) -> RowScores:
        """Log score, squared error, CRPS, probability integral transform, ends of intervals."""
        return row_scores(prediction, self.values)

    def scores(self, prediction: ContinuousPrediction, row_scores: RowScores) -> dict[str, float | int]:
        """The scores of all rows together; rows without a density, and others whose y has the density zero."""
        impossible = np.isposinf(row_scores["crps"]) & np.isnan(row_scores["pit"])
        ruled_out = np.isneginf(row_scores["log_score"]) & ~impossible
        counts = {"impossible": int(impossible.sum()), "ruled_out": int(ruled_out.sum())}
        return summary(row_scores, self.values) | counts

    def truth_columns(self, places: Places) -> Columns:
        return {"truth": self.values[places]}

    def columns(
        self, prediction: ContinuousPrediction, row_scores: RowScores, places: Places
    ) -> tuple[Columns, Columns]:
        short = {"mean": prediction.mean[places], "std": prediction.std[places]}
        names = [name for name in row_scores if name != "squared_error"]
        return short, {name: row_scores[name][places] for name in names}

    def differing(
        self, first: ContinuousPrediction, second: ContinuousPrediction, scores: tuple[RowScores, RowScores]
    ) -> Int[np.ndarray, " m"]:
        """Up to ten rows whose log scores differ most, and by more than 0.01, in the order of the rows."""
        mine, other = scores[0]["log_score"], scores[1]["log_score"]
        apart = np.abs(np.subtract(mine, other, where=mine != other, out=np.zeros_like(mine)))
        most = np.argsort(-apart, kind="stable")[:MOST_DIFFERING]
        return np.sort(most[apart[most] > LEAST_DIFFERENCE])

    def arrays(
        self, prediction: ContinuousPrediction, row_scores: RowScores
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Mean, standard deviation, CRPS, probability integral transform, and ends of intervals by probability."""
        ends = {
            end: np.stack([row_scores[f"{end}_{percent(level)}"] for level in LEVELS], axis=1)
            for end in ("lower", "upper")
        }
        by_row = {"mean": prediction.mean, "std": prediction.std, "crps": row_scores["crps"], "pit": row_scores["pit"]}
        return {name: ((), values) for name, values in by_row.items()} | {
            end: (("interval",), values) for end, values in ends.items()
        }

    @property
    def coordinates(self) -> dict[str, np.ndarray]:
        return {"interval": np.asarray(LEVELS)}


@by_content
class ClassTarget(Target[ClassPrediction]):
    """Test rows with a class.

    Attributes:
        labels: the K class labels.
        codes: index of each test row's class.
        shares: share of each class among the training rows.
    """

    labels: Shaped[np.ndarray, " K"]
    codes: Int[np.ndarray, " n"]
    shares: Float[np.ndarray, " K"]

    measures = ("accuracy", "log_score", "brier", "ece")
    counts = ("impossible", "ruled_out")
    headline = ("accuracy", "log_score")

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        return self.labels

    @property
    def truth(self) -> Int[np.ndarray, " n"]:
        return self.codes

    @property
    def log_shares(self) -> Float[np.ndarray, " K"]:
        """Log share of each class among the training rows, −∞ for a class without rows."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)

    @property
    def log_score_of_shares(self) -> float:
        """The log score of the shares of the classes, which ignore all columns."""
        return float(self.log_shares[self.codes].mean())

    def row_scores(self, prediction: ClassPrediction) -> RowScores:
        """log p(true class | row)."""
        return {"log_score": row_log_scores(prediction.log_probabilities, self.codes)}

    def scores(self, prediction: ClassPrediction, row_scores: RowScores) -> dict[str, float | int]:
        """Accuracy, log score, Brier score, calibration error; counts of impossible rows and ruled-out classes."""
        table = prediction.log_probabilities
        impossible = impossible_rows(table)
        return {
            "accuracy": accuracy(table, self.codes),
            "log_score": log_score(table, self.codes),
            "brier": brier_score(table, self.codes),
            "ece": expected_calibration_error(table, self.codes),
            "impossible": int(impossible.sum()),
            "ruled_out": int((np.isneginf(row_scores["log_score"]) & ~impossible).sum()),
        }

    def truth_columns(self, places: Places) -> Columns:
        return {"truth": labelled(self.codes[places], self.labels)}

    def columns(self, prediction: ClassPrediction, row_scores: RowScores, places: Places) -> tuple[Columns, Columns]:
        """The most probable class, None where the row is impossible; the probabilities of all classes."""
        table = prediction.log_probabilities[places]
        probabilities = np.exp(table)
        label = {"label": labelled(named_classes(table), self.labels)}
        return label, {f"p[{label}]": probabilities[:, k] for k, label in enumerate(self.labels.tolist())}

    def differing(
        self, first: ClassPrediction, second: ClassPrediction, scores: tuple[RowScores, RowScores]
    ) -> Int[np.ndarray, " m"]:
        """Rows with different most probable classes, impossible ones excepted."""
        mine, other = named_classes(first.log_probabilities), named_classes(second.log_probabilities)
        return np.flatnonzero((mine != other) & (mine >= 0) & (other >= 0))

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
        return {"class_shares": self.shares.tolist(), "class_shares_log_score": self.log_score_of_shares}

    @property
    def coordinates(self) -> dict[str, Any]:
        return {"class": self.labels}

    def arrays(
        self, prediction: ClassPrediction, row_scores: RowScores
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        return {"log_probability": (("class",), prediction.log_probabilities)}
