"""Predictions by a batch of fits: the answer of one fit, with a leading axis of the data sets."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from bayesgen.data import Table, named_classes, read_table, warn_of_unknown
from bayesgen.errors import DataError, FitError, ImpossibleRowsWarning, each_warning_once, warn
from bayesgen.fitting import FitBatch
from bayesgen.predictives import PredictiveDistribution, StackedPredictive
from bayesgen.runtime import used
from bayesgen.typing import Data

from .answers import ClassPrediction, ContinuousPrediction, DensityPrediction, by_field, normalize
from .predicting import NO_CLASSES, answer
from .rule import Rule

Prediction: TypeAlias = ClassPrediction | ContinuousPrediction | DensityPrediction


@answer.register
def _(fit: FitBatch, rule: Rule, X: Data) -> Prediction:
    """The prediction by all fits: of one table of rows, or of as many tables as there are fits."""
    prediction, refused = answer_of_sets(fit, rule, X)
    if refused:
        first = min(refused)
        more = f" and {len(refused) - 1} more of {len(fit)}" if len(refused) > 1 else ""
        warn(f"Data set {first}{more}: the fit has no answer by {rule!r}, so its numbers are NaN. {refused[first]}")
    return prediction


def answer_of_sets(fit: FitBatch, rule: Rule, X: Data) -> tuple[Prediction, dict[int, FitError]]:
    """The prediction by all fits, and the errors of those that have no answer by the rule, by the index of the set.

    Raises:
        FitError: no fit has an answer; the message is that of the first.
    """
    tables = _tables(X, len(fit))
    by_one_call = _by_one_call(fit, rule, tables) if isinstance(tables, Table) else None
    if by_one_call is None:
        prediction, refused = _one_by_one(fit, rule, [tables] * len(fit) if isinstance(tables, Table) else tables)
    else:
        prediction, refused = by_one_call
    for table in [tables] if isinstance(tables, Table) else tables:
        warn_of_unknown(table.unknown_cells)
    if isinstance(prediction, ClassPrediction):
        _warn_of_impossible_rows(fit, rule, prediction, [*fit.refused, *refused])
    return prediction, refused


def _one_by_one(fit: FitBatch, rule: Rule, tables: Sequence[Table]) -> tuple[Prediction, dict[int, FitError]]:
    answers: dict[int, Any] = {}
    refused: dict[int, FitError] = {}
    with each_warning_once(len(fit)) as noted:
        for index in fit.known:
            with noted(index):
                try:
                    answers[index] = answer(fit[index], rule, tables[index])
                except FitError as refusal:
                    refused[index] = refusal
    if not answers:
        raise refused[min(refused)]
    return by_field([answers.get(index) for index in range(len(fit))], _stacked), refused


def _tables(X: Any, num_sets: int) -> Table | list[Table]:
    """X as one table, or as tables for each of the fits, which have one number of rows.

    X is several tables where it is a list of frames, mappings, tables or 2-D arrays, or an array of three axes.
    """
    shapes = [getattr(table, "shape", ()) for table in X[:1]] if isinstance(X, list | tuple | np.ndarray) else []
    are_several = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Mapping | Table)
    if not are_several and not (shapes and len(shapes[0]) == 2):
        return read_table(X, least_rows=0)
    tables = [read_table(table, least_rows=0) for table in X]
    sizes = {table.num_rows for table in tables}
    if len(tables) != num_sets or len(sizes) > 1:
        raise DataError(
            f"X holds {len(tables)} tables of {sorted(sizes)} rows, and the batch has {num_sets} fits. Give one table "
            "for all, or one for each fit, all with the same number of rows."
        )
    return tables


def _by_one_call(fit: FitBatch, rule: Rule, table: Table) -> tuple[Prediction, dict[int, FitError]] | None:
    """The prediction by tables of log-joints that one compiled call makes; None where no such call makes them."""
    if rule.closed_at is None or fit.sets.model.response is not None:
        return None
    rows = fit.read(table)
    tables = fit.log_joint(rows, rule.closed_at)
    if tables is None:
        return None
    log_joint, refused = tables
    if len(refused) == len(fit.known):
        raise refused[min(refused)]
    num_sets, num_rows, num_classes = log_joint.shape
    flat, log_marginal = normalize(log_joint.reshape(-1, num_classes))
    log_probabilities, log_marginal = flat.reshape(log_joint.shape), log_marginal.reshape(num_sets, num_rows)
    if not len(fit.classes):
        return DensityPrediction(log_marginal, NO_CLASSES, used()), refused
    answer_of_classes = ClassPrediction(log_probabilities, fit.classes, log_marginal, device=used(), index=table.index)
    return answer_of_classes, refused


def _stacked(parts: list[Any]) -> Any:
    """The values of a field in the answers of all fits, (B, ...); NaN where there is none."""
    some = next(part for part in parts if part is not None)
    if isinstance(some, PredictiveDistribution):
        return StackedPredictive(tuple(parts))
    return np.stack([np.full(np.shape(some), np.nan) if part is None else part for part in parts])


def answer_for_set(prediction: Prediction, index: int) -> Any:
    """The prediction by one fit of a batch, without the axis of the data sets."""

    def take(parts: list[Any]) -> Any:
        return parts[0].parts[index] if isinstance(parts[0], StackedPredictive) else parts[0][index]

    return by_field([prediction], take)


def _warn_of_impossible_rows(fit: FitBatch, rule: Rule, prediction: ClassPrediction, refused: list[int]) -> None:
    impossible = named_classes(prediction.log_probabilities) < 0
    impossible[refused] = False
    sets, _ = np.nonzero(impossible)
    if len(sets):
        warn(
            f"{len(sets)} of {impossible.size} predictions, by {len(set(sets.tolist()))} fits, are of rows that have "
            "probability zero under every class of that fit, so their class probabilities are NaN. "
            f"{rule.remedy(fit[int(sets[0])])}",
            ImpossibleRowsWarning,
        )
