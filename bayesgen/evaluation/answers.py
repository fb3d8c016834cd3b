"""Answers: what a model, learned by one method and asked by one rule, says of test rows; their tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from .scores import (
    accuracy,
    brier_score,
    expected_calibration_error,
    impossible_rows,
    log_score,
    named_classes,
    paired_difference,
    row_log_scores,
)


@dataclass(frozen=True, eq=False)
class Answer:
    """The class probabilities of one (model, method, rule) on the test rows, or the message of its refusal.

    `log_probabilities` has shape (n, K), NaN in rows that were called impossible; where `refused` is set it
    is empty. Where rows have no labels it is empty too, and `log_densities` (n,) says how probable the rows are, -inf
    where impossible. `two_step` tells a plug-in from an average; `is_map` marks the two-step MAP answer, `is_mean`
    the plug-in at a posterior mean: the other answers of the same model are compared with these two.
    """

    model: str
    method: str
    rule: str
    log_probabilities: np.ndarray
    log_densities: np.ndarray | None = None
    refused: str | None = None
    fit_seconds: float = float("nan")
    predict_seconds: float = float("nan")
    two_step: bool = False
    is_map: bool = False
    is_mean: bool = False

    @property
    def key(self) -> dict[str, str]:
        """Who answers: model, method and rule."""
        return {"model": self.model, "method": self.method, "rule": self.rule}

    @property
    def named(self) -> np.ndarray:
        """Index of the class that each row is given, −1 for an impossible row; shape (n,)."""
        return named_classes(self.log_probabilities)

    def log_scores(self, truth: np.ndarray | None) -> np.ndarray:
        """log p(true class) of each row, shape (n,); log p(row) where there is no truth."""
        if truth is not None:
            return row_log_scores(self.log_probabilities, truth)
        assert self.log_densities is not None
        return self.log_densities


def given(answers: Sequence[Answer]) -> list[Answer]:
    """The answers that were not refused."""
    return [answer for answer in answers if answer.refused is None]


def _scores_of(answer: Answer, truth: np.ndarray | None) -> dict[str, Any]:
    if answer.refused is not None:
        return {}
    log_scores = answer.log_scores(truth)
    if truth is None:
        return {"log_score": float(log_scores.mean()), "impossible": int(np.isneginf(log_scores).sum())}
    table = answer.log_probabilities
    impossible = impossible_rows(table)
    return {
        "accuracy": accuracy(table, truth),
        "log_score": log_score(table, truth),
        "brier": brier_score(table, truth),
        "ece": expected_calibration_error(table, truth),
        "impossible": int(impossible.sum()),
        "ruled_out": int((np.isneginf(log_scores) & ~impossible).sum()),
    }


def _difference(answer: Answer, reference: Answer | None, truth: np.ndarray | None) -> tuple[float, float]:
    if reference is None or answer.refused is not None:
        return float("nan"), float("nan")
    return paired_difference(answer.log_scores(truth), reference.log_scores(truth))


_SCORES = ("accuracy", "log_score", "brier", "ece")
_COUNTS = ("impossible", "ruled_out")


def score_table(answers: Sequence[Answer], truth: np.ndarray | None) -> pd.DataFrame:
    """One row per answer: scores, differences from its model's two references, seconds, refusal.

    Without truth, the scores are those of densities.
    """
    rows = []
    for answer in answers:
        peers = [other for other in given(answers) if other.model == answer.model]
        two_step = next((other for other in peers if other.is_map), None)
        mean = next((other for other in peers if other.is_mean), None)
        difference, standard_error = _difference(answer, two_step, truth)
        from_mean, from_mean_error = _difference(answer, mean, truth)
        rows.append(
            answer.key
            | dict.fromkeys(_SCORES, float("nan"))
            | dict.fromkeys(_COUNTS)
            | _scores_of(answer, truth)
            | {
                "difference": difference,
                "standard_error": standard_error,
                "difference_from_mean": from_mean,
                "standard_error_from_mean": from_mean_error,
                "fit_seconds": answer.fit_seconds,
                "predict_seconds": answer.predict_seconds,
            }
        )
    refused = pd.Series([answer.refused for answer in answers], dtype=object)  # None stays None
    return pd.DataFrame(rows).astype(dict.fromkeys(_COUNTS, "Int64")).assign(refused=refused)


def difference_table(answers: Sequence[Answer], truth: np.ndarray | None) -> pd.DataFrame:
    """One row per two answers: the mean difference of their row log scores, first minus other."""
    columns = ["model", "method", "rule", "other_model", "other_method", "other_rule"]
    rows = []
    for first, second in combinations(given(answers), 2):
        difference, standard_error = _difference(first, second, truth)
        keys = [*first.key.values(), *second.key.values()]
        rows.append([*keys, difference, standard_error])
    return pd.DataFrame(rows, columns=[*columns, "difference", "standard_error"])


def _labelled(named: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The labels (n,) of classes by index, of the labels' own type; objects, where an impossible row (−1) has None."""
    if (named >= 0).all():
        return classes[named]
    labels = classes.astype(object)[named]
    labels[named < 0] = None
    return labels


def _probability_columns(answer: Answer, rows: Any, classes: np.ndarray, prefix: str = "") -> dict[str, Any]:
    probabilities = np.exp(answer.log_probabilities[rows])
    return {f"{prefix}p[{label}]": probabilities[:, k] for k, label in enumerate(classes.tolist())}


def prediction_table(
    answers: Sequence[Answer], truth: np.ndarray | None, classes: np.ndarray, rows: np.ndarray
) -> pd.DataFrame:
    """One row per answer and test row: truth, class named (None where impossible), all probabilities.

    Without truth: the log density.
    """
    if truth is None:
        densities = [
            pd.DataFrame({"row": rows} | answer.key | {"log_density": answer.log_densities})
            for answer in given(answers)
        ]
        return pd.concat(densities, ignore_index=True) if densities else pd.DataFrame()
    parts = [
        pd.DataFrame(
            {"row": rows, "truth": _labelled(truth, classes)}
            | answer.key
            | {"label": _labelled(answer.named, classes)}
            | _probability_columns(answer, slice(None), classes)
        )
        for answer in given(answers)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def disagreement_table(
    answers: Sequence[Answer], truth: np.ndarray | None, classes: np.ndarray, rows: np.ndarray
) -> pd.DataFrame:
    """One row per two answers and test row where they name different classes, with all probabilities.

    A row that one of them calls impossible is no disagreement: that answer names no class. Without truth there are no
    classes to differ in.
    """
    parts = []
    for first, second in combinations(given(answers) if truth is not None else (), 2):
        assert truth is not None
        mine, other = first.named, second.named
        where = np.flatnonzero((mine != other) & (mine >= 0) & (other >= 0))
        columns: dict[str, Any] = {"row": rows[where], "truth": _labelled(truth[where], classes)}
        columns |= first.key | {"label": _labelled(mine[where], classes)}
        columns |= {f"other_{name}": value for name, value in second.key.items()}
        columns |= {"other_label": _labelled(other[where], classes)}
        columns |= _probability_columns(first, where, classes)
        columns |= _probability_columns(second, where, classes, prefix="other_")
        parts.append(pd.DataFrame(columns, index=where))
    if not parts:
        return pd.DataFrame(columns=["row", "truth", "label", "other_label"])
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def plain(value: Any) -> Any:
    """The value in what JSON knows: numbers that are not finite, and pandas' NA, as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)
