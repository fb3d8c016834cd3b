"""Test rows whose responses are known, and what answers say of them: distributions of a number."""

import numpy as np

from bayesgen.prediction import ContinuousPrediction
from bayesgen.records import by_content
from bayesgen.typing import Float, Int

from .continuous_scores import LEVELS, percent, row_scores, summary
from .targets import Columns, Places, RowScores, Target

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
