"""Test rows of known classes, and what answers say of them: tables of class probabilities."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from bayesgen.data import labelled
from bayesgen.prediction import ClassPrediction, named_classes
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
from .targets import Columns, Places, RowScores, Target


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
