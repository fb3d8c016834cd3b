"""Answers: predictions of test rows by a model, a training method and a rule; tables of their scores."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bayesgen.errors import BayesgenWarning, without_warnings
from bayesgen.prediction import EVERYWHERE, ClassTarget, Places, Scored, Target, paired_difference
from bayesgen.records import by_content
from bayesgen.runtime import EQUAL_DENSITIES
from bayesgen.typing import Data, Float, Int, Shaped


@by_content
class Answer:
    """The prediction of the test rows by one (model, method, rule), or the message of its refusal.

    Attributes:
        model, method, rule: their names.
        prediction: the prediction; None where it was refused.
        refused: the message of the refusal, or None.
        fit_seconds, predict_seconds: durations.
        two_step: whether it is a plug-in, not an average.
        ask: predicts other rows; None where it was refused.
        is_map, is_mean: whether it is the two-step MAP answer, or the plug-in at a posterior mean, with which the other
            answers of the same model are compared.
    """

    model: str
    method: str
    rule: str
    prediction: Any = None
    refused: str | None = None
    fit_seconds: float = dataclasses.field(default=float("nan"), compare=False)
    predict_seconds: float = dataclasses.field(default=float("nan"), compare=False)
    two_step: bool = False
    is_map: bool = False
    is_mean: bool = False
    ask: Callable[[Any], Any] | None = None

    @property
    def key(self) -> dict[str, str]:
        """The names of model, method and rule."""
        return {"model": self.model, "method": self.method, "rule": self.rule}


def score_table(answers: Sequence[Answer], given: Sequence[Scored], target: Target[Any]) -> pd.DataFrame:
    """One row per answer: scores, differences from its model's two references, seconds, refusal."""
    by_answer = {id(one.answer): one for one in given}
    rows = []
    for answer in answers:
        own = by_answer.get(id(answer))
        peers = [one for one in given if one.answer.model == answer.model]
        difference, standard_error = _difference(own, [one for one in peers if one.answer.is_map])
        from_mean, from_mean_error = _difference(own, [one for one in peers if one.answer.is_mean])
        rows.append(
            answer.key
            | {metric.column: float("nan") for metric in target.metrics}
            | {metric.column: None for metric in target.counts}
            | ({} if own is None else target.scores(answer.prediction, own.row_scores))
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
    return pd.DataFrame(rows).astype({metric.column: "Int64" for metric in target.counts}).assign(refused=refused)


def _difference(own: Scored | None, references: Sequence[Scored]) -> tuple[float, float]:
    """The mean difference of row log scores from the first reference, and its standard error; NaN where one lacks."""
    if own is None or not references:
        return float("nan"), float("nan")
    return paired_difference(own.log_scores, references[0].log_scores)


def difference_table(given: Sequence[Scored]) -> pd.DataFrame:
    """One row per pair of answers: the mean difference of their row log scores, first minus other."""
    columns = ["model", "method", "rule", "other_model", "other_method", "other_rule"]
    rows = [
        [*first.answer.key.values(), *second.answer.key.values(), *_difference(first, [second])]
        for first, second in combinations(given, 2)
    ]
    return pd.DataFrame(rows, columns=[*columns, "difference", "standard_error"])


def prediction_table(given: Sequence[Scored], target: Target[Any], rows: Shaped[np.ndarray, " n"]) -> pd.DataFrame:
    """One row per answer and test row: the truth, if there is one, and the prediction."""
    parts = [pd.concat(_columns(one, target, rows, EVERYWHERE), axis=1) for one in given]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def disagreement_table(given: Sequence[Scored], target: Target[Any], rows: Shaped[np.ndarray, " n"]) -> pd.DataFrame:
    """One row per pair of answers and test row in which they differ, with both predictions."""
    parts = []
    for pair in list(combinations(given, 2)) or [(one, one) for one in given]:
        places = target.differing(*pair)
        (truth, mine, rest), (_, other, other_rest) = (_columns(one, target, rows, places) for one in pair)
        both = [truth, mine, other.add_prefix("other_"), rest, other_rest.add_prefix("other_")]
        parts.append(pd.concat(both, axis=1).set_axis(places))
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True) if parts else pd.DataFrame()


def _columns(one: Scored, target: Target[Any], rows: Shaped[np.ndarray, " n"], places: Places) -> list[pd.DataFrame]:
    """Names and truth of test rows; the answer's names, and its predictions in short; the rest of these."""
    short, rest = target.columns(one.answer.prediction, one.row_scores, places)
    truth = {"row": rows[places]} | target.truth_columns(places)
    return [pd.DataFrame(columns, range(len(rows[places]))) for columns in (truth, one.answer.key | short, rest)]


@dataclass(frozen=True)
class Cost:
    """A test row with a low log score, and the columns that cause it.

    Attributes:
        model, method, rule: names of the answer.
        row, truth: name of the row, and its class.
        log_score: log p(true class | row), −∞ where the answer rules it out.
        columns: the column without which the log score would be highest; where the row is ruled out without any single
            column, too, those that rule it out alone; empty where unknown.
    """

    model: str
    method: str
    rule: str
    row: Any
    truth: Any
    log_score: float
    columns: tuple[str, ...]


def costly_rows(scored: Sequence[Scored], target: Target[Any], names: np.ndarray, X_test: Data) -> tuple[Cost, ...]:
    """The rows with the lowest log scores of each model, by row and answer; none where no classes are predicted.

    In each of them an answer scores lower than the share of the class alone. Columns are found in data frames of up to
    a hundred columns, each of which is marginalised in turn.
    """
    if not isinstance(target, ClassTarget):
        return ()
    costs: list[Cost] = []
    for model in dict.fromkeys(one.answer.model for one in scored):
        given = [one for one in scored if one.answer.model == model]
        places = _costliest(np.stack([one.log_scores for one in given]), target.log_shares[target.codes])
        of_answers = [_costs(one, target, names, places, X_test) for one in given]
        costs += [cost for of_row in zip(*of_answers, strict=True) for cost in of_row]
    return tuple(costs)


def _costliest(log_scores: Float[np.ndarray, "A n"], log_shares: Float[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """Positions of the five costliest rows: rows that most answers rule out first, then rows of the lowest scores."""
    ruled_out = np.isneginf(log_scores)
    order = np.lexsort((np.where(ruled_out, 0.0, log_scores).sum(axis=0), -ruled_out.sum(axis=0)))
    costs_something = np.asarray((log_scores < log_shares).any(axis=0))
    return order[costs_something[order]][:5]


def _costs(
    one: Scored, target: ClassTarget, names: np.ndarray, places: Int[np.ndarray, " m"], X_test: Data
) -> Iterator[Cost]:
    columns = list(map(str, X_test.columns)) if isinstance(X_test, pd.DataFrame) else []
    without, alone = np.zeros((2, len(places), 0))
    if isinstance(X_test, pd.DataFrame) and 0 < len(columns) <= 100 and len(places):  # each is marginalised
        without, alone = _marginalised_scores(one, target, places, X_test)
    for place, of_without, of_alone in zip(places, without, alone, strict=True):
        score = one.log_scores[place]
        yield Cost(
            **one.answer.key,
            row=names[place],
            truth=target.labels[target.codes[place]],
            log_score=float(score),
            columns=tuple(columns[column] for column in _responsible_columns(score, of_without, of_alone)),
        )


def _responsible_columns(
    score: float, without: Float[np.ndarray, " D"], alone: Float[np.ndarray, " D"]
) -> Int[np.ndarray, " columns"]:
    """Positions of the columns that cause a low log score, from the scores without each column and with each alone."""
    best = without.max(initial=-np.inf)
    if best > score + EQUAL_DENSITIES:
        return np.flatnonzero(without == best)
    return np.flatnonzero(np.isneginf(alone)) if np.isneginf(score) else np.zeros(0, int)


def _marginalised_scores(
    one: Scored, target: ClassTarget, places: Int[np.ndarray, " m"], X_test: pd.DataFrame
) -> Float[np.ndarray, "2 m D"]:
    """Log scores of some rows with each column in turn marginalised, and with all others marginalised."""
    hidden = np.tile(np.eye(X_test.shape[1], dtype=bool), (len(places), 1))
    repeated = np.tile(np.repeat(places, X_test.shape[1]), 2)
    rows = X_test.iloc[repeated].reset_index(drop=True).mask(np.concatenate([hidden, ~hidden]))
    assert one.answer.ask is not None
    with without_warnings(BayesgenWarning):  # of rows that the user does not have
        prediction = one.answer.ask(rows)
    scores = replace(target, codes=target.codes[repeated]).row_scores(prediction)["log_score"]
    return scores.reshape(2, len(places), -1)
