"""Predictions by a batch of fits: the answer of one fit, with a leading axis of the data sets."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from bayesgen.data import Table, read_table, warn_of_unknown
from bayesgen.errors import DataError, ImpossibleRowsWarning, warn
from bayesgen.fitting import FitBatch
from bayesgen.predictives import PredictiveDistribution, StackedPredictive
from bayesgen.runtime import used
from bayesgen.typing import Array, Data

from .answers import ClassPrediction, ContinuousPrediction, DensityPrediction, named_classes, normalize
from .predicting import NO_CLASSES, answer, answer_of_rows
from .rule import Rule

Prediction: TypeAlias = ClassPrediction | ContinuousPrediction | DensityPrediction
OF_ALL_SETS = ("classes", "device", "index", "without_classes")


@answer.register
def _(fit: FitBatch, rule: Rule, X: Data) -> Prediction:
    """The prediction by all fits: of one table of rows, or of as many tables as there are fits."""
    tables = _tables(X, len(fit))
    prediction = _by_one_call(fit, rule, tables) if isinstance(tables, Table) else None
    if prediction is None:
        each = [tables] * len(fit) if isinstance(tables, Table) else tables
        prediction = _stacked({index: answer_of_rows(fit[index], rule, each[index]) for index in fit.known}, len(fit))
    for table in [tables] if isinstance(tables, Table) else tables:
        warn_of_unknown(table.unknown_cells)
    if isinstance(prediction, ClassPrediction):
        _warn_of_impossible_rows(fit, rule, prediction)
    return prediction


def _tables(X: Any, num_sets: int) -> Table | list[Table]:
    """X as one table, or as tables for each of the fits, which have one number of rows.

    X is several tables where it is a list of frames, mappings or 2-D arrays, or an array of three axes.
    """
    shapes = [getattr(each, "shape", ()) for each in X[:1]] if isinstance(X, list | tuple | np.ndarray) else []
    are_several = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Mapping)
    if not are_several and not (shapes and len(shapes[0]) == 2):
        return read_table(X, least_rows=0)
    tables = [read_table(each, least_rows=0) for each in X]
    sizes = {table.num_rows for table in tables}
    if len(tables) != num_sets or len(sizes) > 1:
        raise DataError(
            f"X holds {len(tables)} tables of {sorted(sizes)} rows, and the batch has {num_sets} fits. Give one table "
            "for all, or one for each fit, all with the same number of rows."
        )
    return tables


def _by_one_call(fit: FitBatch, rule: Rule, table: Table) -> Prediction | None:
    """The prediction by tables of log-joints that one compiled call makes; None where no such call makes them."""
    if rule.closed_at is None or fit.sets.model.response is not None:
        return None
    rows = fit.read(table)
    log_joint = fit.log_joint(rows, rule.closed_at)
    if log_joint is None:
        return None
    num_sets, num_rows, num_classes = log_joint.shape
    flat, log_marginal = normalize(log_joint.reshape(-1, num_classes))
    log_probabilities, log_marginal = flat.reshape(log_joint.shape), log_marginal.reshape(num_sets, num_rows)
    if not len(fit.classes):
        return DensityPrediction(log_marginal, NO_CLASSES, used())
    return ClassPrediction(log_probabilities, fit.classes, log_marginal, device=used(), index=table.index)


def _stacked(answers: Mapping[int, Prediction], num_sets: int) -> Any:
    """The answers of all fits as one; NaN where there is none."""
    some = next(iter(answers.values()))

    def stack(name: str) -> Any:
        parts = {index: getattr(each, name) for index, each in answers.items()}
        if isinstance(getattr(some, name), PredictiveDistribution):
            return StackedPredictive(tuple(parts.get(index) for index in range(num_sets)))
        known = {index: part for index, part in parts.items() if part is not None}
        return _with_nan(known, num_sets) if known else None

    names = [field.name for field in dataclasses.fields(some) if field.name not in OF_ALL_SETS]
    return dataclasses.replace(some, **{name: stack(name) for name in names})


def of_set(prediction: Prediction, index: int) -> Any:
    """The prediction by one fit of a batch, without the axis of the data sets."""

    def take(name: str) -> Any:
        part = getattr(prediction, name)
        if isinstance(part, StackedPredictive):
            return part.parts[index]
        return None if part is None else part[index]

    names = [field.name for field in dataclasses.fields(prediction) if field.name not in OF_ALL_SETS]
    return dataclasses.replace(prediction, **{name: take(name) for name in names})


def _with_nan(parts: Mapping[int, Array], num_sets: int) -> Array:
    shape = np.shape(next(iter(parts.values())))
    return np.stack([parts.get(index, np.full(shape, np.nan)) for index in range(num_sets)])


def _warn_of_impossible_rows(fit: FitBatch, rule: Rule, prediction: ClassPrediction) -> None:
    impossible = named_classes(prediction.log_probabilities) < 0
    impossible[list(fit.refused)] = False
    sets, _ = np.nonzero(impossible)
    if len(sets):
        warn(
            f"{len(sets)} of {impossible.size} predictions, by {len(set(sets.tolist()))} fits, are of rows that have "
            "probability zero under every class of that fit, so their class probabilities are NaN. "
            f"{rule.remedy(fit[int(sets[0])])}",
            ImpossibleRowsWarning,
        )
