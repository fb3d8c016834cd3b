"""Targets: what is known of the test rows, and how what answers say of them is scored and told."""

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

# Scores of distributions of a number against the truth, row by row.
#
# An answer holds a distribution of y for each of n test rows; the truth is y, shape (n,).
#
# A row that the answer called impossible has a density of NaN. An answer must not gain by refusing to answer, so such a
# row is scored as the worst there is: log score −∞, squared error and CRPS +∞, an interval without end that holds
# nothing.

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


Prediction = TypeVar("Prediction")
RowScores: TypeAlias = Mapping[str, Float[np.ndarray, " n"]]
Columns: TypeAlias = dict[str, Any]
Places: TypeAlias = slice | Shaped[np.ndarray, " m"]
EVERYWHERE = slice(None)


class Target(abc.ABC, Generic[Prediction]):
    """What is known of the test rows, which predictions of one kind are held against.

    A kind of answer has one such class, and all that is particular to it in a comparison stands there.

    Attributes:
        measures: columns of the table of scores, NaN for an answer that was refused.
        counts: columns of it that count test rows.
        headline: the measures that are shown first.
    """

    measures: ClassVar[tuple[str, ...]]
    counts: ClassVar[tuple[str, ...]]
    headline: ClassVar[tuple[str, ...]]

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels of the classes; none where there are no classes."""
        return np.asarray([])

    @property
    def truth(self) -> Shaped[np.ndarray, " n"] | None:
        """What the test rows hold, indices of classes or numbers; None where nothing of them is predicted."""
        return None

    @abc.abstractmethod
    def row_scores(self, prediction: Prediction) -> RowScores:
        """Scores of each test row by name, among them "log_score": the higher, the better, and -inf the worst."""

    @abc.abstractmethod
    def scores(self, prediction: Prediction, row_scores: RowScores) -> dict[str, float | int]:
        """Measures and counts of all test rows together."""

    def truth_columns(self, places: Places) -> Columns:
        """What the test rows hold, as a column of tables; no column where nothing of them is predicted."""
        return {}

    @abc.abstractmethod
    def columns(self, prediction: Prediction, row_scores: RowScores, places: Places) -> tuple[Columns, Columns]:
        """What an answer says of some test rows, as columns of tables: first in short, then all else."""

    def differing(
        self, first: Prediction, second: Prediction, scores: tuple[RowScores, RowScores]
    ) -> Shaped[np.ndarray, " m"]:
        """Places of the test rows in which two answers differ, so that a person should look at them."""
        return np.zeros(0, int)

    def record(self, disagreement: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """A row of the table of disagreements as it stands in JSON."""
        return dict(disagreement)

    @property
    def reference(self) -> dict[str, Any]:
        """What the scores are to be held against, by key of `config`: nothing, unless a target has something."""
        return {}

    @property
    def coordinates(self) -> dict[str, Any]:
        """Coordinates of the axes of `arrays` after that of rows."""
        return {}

    def arrays(self, prediction: Prediction, row_scores: RowScores) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """What an answer says of all test rows: arrays by name, and the names of their axes after that of rows."""
        return {}


@by_content
class DensityTarget(Target[ClassPrediction | DensityPrediction]):
    """Rows of which nothing is predicted: answers are scored by how probable they call the rows themselves."""

    measures = ("accuracy", "log_score", "brier", "ece")
    counts = ("impossible", "ruled_out")
    headline = ("log_score",)

    def row_scores(self, prediction: ClassPrediction | DensityPrediction) -> RowScores:
        """log p(row), -inf where it is impossible."""
        return {"log_score": prediction.log_marginal}

    def scores(self, prediction: ClassPrediction | DensityPrediction, row_scores: RowScores) -> dict[str, float | int]:
        """The mean log density; how many rows are impossible."""
        log_scores = row_scores["log_score"]
        return {"log_score": float(log_scores.mean()), "impossible": int(np.isneginf(log_scores).sum())}

    def columns(
        self, prediction: ClassPrediction | DensityPrediction, row_scores: RowScores, places: Places
    ) -> tuple[Columns, Columns]:
        """The log density."""
        return {"log_density": row_scores["log_score"][places]}, {}


# Test rows whose responses are known, and what answers say of them: distributions of a number.

MOST_DIFFERING = 10  # rows of disagreement of two answers
LEAST_DIFFERENCE = 0.01  # of log scores: a density that is a hundredth higher


@by_content
class ContinuousTarget(Target[ContinuousPrediction]):
    """Test rows whose responses are known.

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
        """The response of each test row."""
        return self.values

    def row_scores(self, prediction: ContinuousPrediction) -> RowScores:
        """Log score, squared error, CRPS, the place of the truth in its distribution, ends of intervals."""
        return row_scores(prediction, self.values)

    def scores(self, prediction: ContinuousPrediction, row_scores: RowScores) -> dict[str, float | int]:
        """The scores of all rows together; rows without a density, and others whose y has the density zero."""
        impossible = np.isposinf(row_scores["crps"]) & np.isnan(row_scores["pit"])
        ruled_out = np.isneginf(row_scores["log_score"]) & ~impossible
        counts = {"impossible": int(impossible.sum()), "ruled_out": int(ruled_out.sum())}
        return summary(row_scores, self.values) | counts

    def truth_columns(self, places: Places) -> Columns:
        """The responses."""
        return {"truth": self.values[places]}

    def columns(
        self, prediction: ContinuousPrediction, row_scores: RowScores, places: Places
    ) -> tuple[Columns, Columns]:
        """Mean and standard deviation; ends of intervals and scores."""
        short = {"mean": prediction.mean[places], "std": prediction.std[places]}
        names = [name for name in row_scores if name != "squared_error"]
        return short, {name: row_scores[name][places] for name in names}

    def differing(
        self, first: ContinuousPrediction, second: ContinuousPrediction, scores: tuple[RowScores, RowScores]
    ) -> Int[np.ndarray, " m"]:
        """The ten rows whose log scores differ most, in the order of the rows; none where they differ by under 0.01."""
        mine, other = scores[0]["log_score"], scores[1]["log_score"]
        apart = np.abs(np.subtract(mine, other, where=mine != other, out=np.zeros_like(mine)))
        most = np.argsort(-apart, kind="stable")[:MOST_DIFFERING]
        return np.sort(most[apart[most] > LEAST_DIFFERENCE])

    def arrays(
        self, prediction: ContinuousPrediction, row_scores: RowScores
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Mean, standard deviation, CRPS, the place of the truth, and the ends of intervals by their probability."""
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
        """The probabilities of the intervals."""
        return {"interval": np.asarray(LEVELS)}


# Test rows of known classes, and what answers say of them: tables of class probabilities.


@by_content
class ClassTarget(Target[ClassPrediction]):
    """Test rows of known classes.

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
        """The labels of the classes."""
        return self.labels

    @property
    def truth(self) -> Int[np.ndarray, " n"]:
        """Index of each test row's class."""
        return self.codes

    @property
    def log_shares(self) -> Float[np.ndarray, " K"]:
        """The log of the share of each class among the training rows, −∞ where none is of it."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)

    @property
    def log_score_of_shares(self) -> float:
        """The log score of the shares of the classes, whatever stands in the columns."""
        return float(self.log_shares[self.codes].mean())

    def row_scores(self, prediction: ClassPrediction) -> RowScores:
        """log p(true class | row)."""
        return {"log_score": row_log_scores(prediction.log_probabilities, self.codes)}

    def scores(self, prediction: ClassPrediction, row_scores: RowScores) -> dict[str, float | int]:
        """Accuracy, log score, Brier score, calibration error; rows without probabilities, and true classes at zero."""
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
        """The true labels."""
        return {"truth": labelled(self.codes[places], self.labels)}

    def columns(self, prediction: ClassPrediction, row_scores: RowScores, places: Places) -> tuple[Columns, Columns]:
        """The class that is named, None where the row is impossible; the probabilities of all classes."""
        table = prediction.log_probabilities[places]
        probabilities = np.exp(table)
        label = {"label": labelled(named_classes(table), self.labels)}
        return label, {f"p[{label}]": probabilities[:, k] for k, label in enumerate(self.labels.tolist())}

    def differing(
        self, first: ClassPrediction, second: ClassPrediction, scores: tuple[RowScores, RowScores]
    ) -> Int[np.ndarray, " m"]:
        """Where they name different classes; a row that one of them calls impossible has no class of its to differ."""
        mine, other = named_classes(first.log_probabilities), named_classes(second.log_probabilities)
        return np.flatnonzero((mine != other) & (mine >= 0) & (other >= 0))

    def record(self, disagreement: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """The same with the probabilities as lists that follow `classes`."""
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
        """The labels along "class"."""
        return {"class": self.labels}

    def arrays(
        self, prediction: ClassPrediction, row_scores: RowScores
    ) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """The table of log probabilities."""
        return {"log_probability": (("class",), prediction.log_probabilities)}
