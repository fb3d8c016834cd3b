"""The test rows that cost the answers of a comparison most, and the column that did it."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayesgen.errors import BayesgenWarning
from bayesgen.typing import Float, Int

from .answers import Scored
from .class_target import ClassTarget
from .targets import Target

NUM_ROWS = 5
LEAST_GAIN = 1e-6  # of a log score, that is more than rounding
MOST_COLUMNS = 100  # each of which is asked about anew


@dataclass(frozen=True)
class Cost:
    """What a test row cost an answer.

    Attributes:
        model, method, rule: who answered.
        row, truth: what the row is called, and its class.
        log_score: log p(true class | row), −∞ where the answer rules it out.
        columns: the one without which the log score would be highest; where the row stays ruled out without any one,
            those that rule it out by themselves; none where it cannot be told.
    """

    model: str
    method: str
    rule: str
    row: Any
    truth: Any
    log_score: float
    columns: tuple[str, ...]


def costly_rows(scored: Sequence[Scored], target: Target[Any], names: np.ndarray, X_test: Any) -> tuple[Cost, ...]:
    """What the costliest rows of each model cost its answers, row by row; none where no classes are predicted.

    They are those in which its answers score lowest, and one of them lower than the share of the class alone. The
    column is looked for in data frames of up to a hundred columns, each of which is marginalised in turn.
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
    """Places of the rows that cost most: that most answers rule out, then those of the lowest scores."""
    ruled_out = np.isneginf(log_scores)
    order = np.lexsort((np.where(ruled_out, 0.0, log_scores).sum(axis=0), -ruled_out.sum(axis=0)))
    costs_something = np.asarray((log_scores < log_shares).any(axis=0))
    return order[costs_something[order]][:NUM_ROWS]


def _costs(
    one: Scored, target: ClassTarget, names: np.ndarray, places: Int[np.ndarray, " m"], X_test: Any
) -> Iterator[Cost]:
    columns = list(map(str, X_test.columns)) if isinstance(X_test, pd.DataFrame) else []
    told = 0 < len(columns) <= MOST_COLUMNS and len(places) > 0
    without, alone = _asked_anew(one, target, places, X_test) if told else np.zeros((2, len(places), 0))
    for place, of_without, of_alone in zip(places, without, alone, strict=True):
        score = one.log_scores[place]
        yield Cost(
            **one.answer.key,
            row=names[place],
            truth=target.labels[target.codes[place]],
            log_score=float(score),
            columns=tuple(columns[column] for column in _guilty(score, of_without, of_alone)),
        )


def _guilty(
    score: float, without: Float[np.ndarray, " D"], alone: Float[np.ndarray, " D"]
) -> Int[np.ndarray, " columns"]:
    """Places of the columns that cost a row its log score, of its scores without each column and with each alone."""
    best = without.max(initial=-np.inf)
    if best > score + LEAST_GAIN:
        return np.flatnonzero(without == best)
    return np.flatnonzero(np.isneginf(alone)) if np.isneginf(score) else np.zeros(0, int)


def _asked_anew(
    one: Scored, target: ClassTarget, places: Int[np.ndarray, " m"], X_test: pd.DataFrame
) -> Float[np.ndarray, "2 m D"]:
    """Log scores of some rows with each column in turn marginalised, and with all others."""
    hidden = np.tile(np.eye(X_test.shape[1], dtype=bool), (len(places), 1))
    repeated = np.tile(np.repeat(places, X_test.shape[1]), 2)
    rows = X_test.iloc[repeated].reset_index(drop=True).mask(np.concatenate([hidden, ~hidden]))
    assert one.answer.ask is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesgenWarning)  # of rows that nobody has
        prediction = one.answer.ask(rows)
    scores = replace(target, codes=target.codes[repeated]).row_scores(prediction)["log_score"]
    return scores.reshape(2, len(places), -1)
