"""Answers: predictions of test rows by a model, a training method and a rule; tables of their scores."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bayesgen.errors import BayesgenWarning, without_warnings
from bayesgen.prediction import ClassScorer, Scorer
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
        fitted: the fit that predicts; None where it was refused.
        is_map, is_mean: whether it is the two-step MAP answer, or the plug-in at a posterior mean, with which the other
            answers of the same model are compared.
        rows: a line for each test row with the truth, the prediction and its scores (`Scorer.row_frame`); None before
            it is scored.
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
    fitted: Any = dataclasses.field(default=None, compare=False, repr=False)
    rows: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Method and rule."""
        return f"{self.method} + {self.rule}"

    @property
    def key(self) -> dict[str, str]:
        """The names of model, method and rule."""
        return {"model": self.model, "method": self.method, "rule": self.rule}

    @property
    def log_scores(self) -> Float[np.ndarray, " n"]:
        """The log score of each test row."""
        return self.rows["log_score"].to_numpy()


def score_table(answers: Sequence[Answer], scorer: Scorer) -> pd.DataFrame:
    """One row per answer: scores, differences from its model's two references, seconds, refusal."""
    lines = []
    for answer in answers:
        peers = [peer for peer in answers if peer.model == answer.model and peer.rows is not None]
        difference, standard_error = _difference(answer, [peer for peer in peers if peer.is_map])
        from_mean, from_mean_error = _difference(answer, [peer for peer in peers if peer.is_mean])
        lines.append(
            answer.key
            | {metric.column: float("nan") for metric in scorer.metrics}
            | {metric.column: None for metric in scorer.counts}
            | ({} if answer.rows is None else scorer.scores(answer.rows))
            | {
                "difference": difference,
                "standard_error": standard_error,
                "difference_from_mean": from_mean,
                "standard_error_from_mean": from_mean_error,
                "fit_seconds": answer.fit_seconds,
                "predict_seconds": answer.predict_seconds,
                "refused": answer.refused,
            }
        )
    return score_frame(lines)


def score_frame(lines: Sequence[Mapping[str, Any]], columns: list[str] | None = None) -> pd.DataFrame:
    """Scores as a table, in which counts are whole numbers or NA, and messages of refusals texts or None."""
    table = pd.DataFrame(lines, columns=columns)
    counts = {metric.column: "Int64" for metric in Scorer.counts if metric.column in table}
    return table.astype(counts).assign(refused=pd.Series([line["refused"] for line in lines], dtype=object))


NOTES = {
    "impossible": "test rows that are ruled out under every class, which have the worst scores",
    "ruled_out": "other test rows whose truth has probability zero, so that the log score is −∞ (under a flat prior a "
    "point estimate gives none to values that no training row has)",
}


def notes_on_scores(table: pd.DataFrame) -> dict[str, str]:
    """What is behind scores that are the worst ones, or missing, by the names of the columns that count such rows."""
    names: Any = table["model"] + ", " + table["method"] + " + " + table["rule"]
    notes = dict[str, str]()
    for column, meaning in NOTES.items():
        counts: Any = table[column].groupby(names, sort=False).sum() if column in table else {}
        if by_answer := [f"{count:,} by {name}" for name, count in counts.items() if count > 0]:
            notes[column] = f"{meaning}: {'; '.join(by_answer)}"
    for row, message in table["refused"].dropna().head(1).items():
        notes["refused"] = f"{table['refused'].count():,} of {len(table):,}, the first of {names[row]}: {message}"
    return notes


def _difference(answer: Answer, references: Sequence[Answer]) -> tuple[float, float]:
    """The mean difference of row log scores from the first reference, and its standard error; NaN where one lacks."""
    if answer.rows is None or not references:
        return float("nan"), float("nan")
    return paired_difference(answer.log_scores, references[0].log_scores)


def paired_difference(scores: Float[np.ndarray, " n"], reference: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The mean of the differences of rows, `scores − reference`, and its standard error.

    Pairing by row removes the variation of difficulty between rows. The standard error is the sample standard
    deviation of the differences (denominator n − 1) over √n, for new test rows and the same training rows.

    A row with −∞ for both is a tie: difference 0. The mean then holds for these rows alone, and the standard
    error is NaN. With −∞ for one of them the mean is infinite, or NaN if it happens both ways, and the standard
    error NaN, as for a single row.
    """
    with np.errstate(invalid="ignore"):  # −∞ − (−∞) is meant to be NaN
        mean, error = mean_and_error(np.where(scores == reference, 0.0, scores - reference))
    return mean, error if np.isfinite([scores, reference]).all() else float("nan")


def mean_and_error(values: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The mean, and its standard error, NaN of fewer than two values or of infinite ones."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is meant to be NaN
        mean = float(np.mean(values)) if len(values) else float("nan")
    if len(values) < 2 or not np.isfinite(values).all():
        return mean, float("nan")
    return mean, float(np.std(values, ddof=1) / np.sqrt(len(values)))


def difference_table(scored: Sequence[Answer]) -> pd.DataFrame:
    """One row per pair of answers: the mean difference of their row log scores, first minus other."""
    columns = ["model", "method", "rule", "other_model", "other_method", "other_rule"]
    lines = [
        [*first.key.values(), *second.key.values(), *_difference(first, [second])]
        for first, second in combinations(scored, 2)
    ]
    return pd.DataFrame(lines, columns=[*columns, "difference", "standard_error"])


def prediction_table(scored: Sequence[Answer], scorer: Scorer, names: Shaped[np.ndarray, " n"]) -> pd.DataFrame:
    """One row per answer and test row: the truth, if there is one, and the prediction."""
    parts = [pd.concat(_columns(answer, scorer, names), axis=1) for answer in scored]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def disagreement_table(scored: Sequence[Answer], scorer: Scorer, names: Shaped[np.ndarray, " n"]) -> pd.DataFrame:
    """One row per pair of answers and test row in which they differ, with both predictions."""
    parts = []
    for pair in list(combinations(scored, 2)) or [(answer, answer) for answer in scored]:
        positions = scorer.differing(*(answer.rows for answer in pair))
        (truth, *first), (_, *second) = (_columns(answer, scorer, names, positions) for answer in pair)
        short, more = zip(first, (columns.add_prefix("other_") for columns in second), strict=True)
        part = pd.concat([truth, *short, *more], axis=1)
        labels = part.columns.intersection(["label", "other_label"])  # never None, as no row is impossible
        parts.append(part.astype(dict.fromkeys(labels, truth.dtypes.iloc[-1])))
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True) if parts else pd.DataFrame()


def _columns(
    answer: Answer, scorer: Scorer, names: Shaped[np.ndarray, " n"], positions: Any = slice(None)
) -> list[pd.DataFrame]:
    """Names and truth of test rows; the answer's names, and its predictions in short; the rest of these."""
    rows, short = answer.rows.drop(columns=[*scorer.hidden]).iloc[positions], [*scorer.short]
    rows = rows.assign(row=names[positions], **answer.key)
    truth = ["row", *rows.columns.intersection(["truth"])]
    return [rows[truth], rows[[*answer.key, *short]], rows.drop(columns=[*truth, *answer.key, *short])]


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


def costly_rows(scored: Sequence[Answer], scorer: Scorer, names: np.ndarray, X_test: Data) -> tuple[Cost, ...]:
    """The rows with the lowest log scores of each model, by row and answer; none where no classes are predicted.

    In each of them an answer scores lower than the share of the class alone. Columns are found in data frames of up to
    a hundred columns, each of which is marginalised in turn.
    """
    if not isinstance(scorer, ClassScorer):
        return ()
    costs: list[Cost] = []
    for model in dict.fromkeys(answer.model for answer in scored):
        answers = [answer for answer in scored if answer.model == model]
        positions = _costliest(np.stack([answer.log_scores for answer in answers]), scorer.log_shares[scorer.codes])
        by_answer = [_costs(answer, scorer, names, positions, X_test) for answer in answers]
        costs += [cost for costs_of_row in zip(*by_answer, strict=True) for cost in costs_of_row]
    return tuple(costs)


def _costliest(log_scores: Float[np.ndarray, "A n"], log_shares: Float[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """Positions of the five costliest rows: rows that most answers rule out first, then rows of the lowest scores."""
    ruled_out = np.isneginf(log_scores)
    order = np.lexsort((np.where(ruled_out, 0.0, log_scores).sum(axis=0), -ruled_out.sum(axis=0)))
    costs_something = np.asarray((log_scores < log_shares).any(axis=0))
    return order[costs_something[order]][:5]


def _costs(
    answer: Answer, scorer: ClassScorer, names: np.ndarray, positions: Int[np.ndarray, " m"], X_test: Data
) -> Iterator[Cost]:
    columns = list(map(str, X_test.columns)) if isinstance(X_test, pd.DataFrame) else []
    without, alone = np.zeros((2, len(positions), 0))
    if isinstance(X_test, pd.DataFrame) and 0 < len(columns) <= 100 and len(positions):  # each is marginalised
        without, alone = _marginalised_scores(answer, scorer, positions, X_test)
    for position, *marginalised in zip(positions, without, alone, strict=True):
        score = answer.log_scores[position]
        yield Cost(
            **answer.key,
            row=names[position],
            truth=scorer.labels[scorer.codes[position]],
            log_score=float(score),
            columns=tuple(columns[column] for column in _responsible_columns(score, *marginalised)),
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
    answer: Answer, scorer: ClassScorer, positions: Int[np.ndarray, " m"], X_test: pd.DataFrame
) -> Float[np.ndarray, "2 m D"]:
    """Log scores of some rows with each column in turn marginalised, and with all others marginalised."""
    is_missing = np.tile(np.eye(X_test.shape[1], dtype=bool), (len(positions), 1))
    repeated = np.tile(np.repeat(positions, X_test.shape[1]), 2)
    rows = X_test.iloc[repeated].reset_index(drop=True).mask(np.concatenate([is_missing, ~is_missing]))
    assert answer.ask is not None
    with without_warnings(BayesgenWarning):  # of rows that the user does not have
        prediction = answer.ask(rows)
    scores = replace(scorer, codes=scorer.codes[repeated]).row_frame(prediction)["log_score"].to_numpy()
    return scores.reshape(2, len(positions), -1)
