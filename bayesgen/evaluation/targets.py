"""Targets: what is known of the test rows, and how what answers say of them is scored and told."""

import abc
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from bayesgen.prediction import ClassPrediction, DensityPrediction
from bayesgen.records import by_content
from bayesgen.typing import Float, Shaped

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
