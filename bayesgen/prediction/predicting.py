"""The verb `predict`."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from bayesgen.data import Table, named_classes, read_table, warn_of_unknown
from bayesgen.describe import shortened
from bayesgen.errors import DataError, ImpossibleRowsWarning, PredictionError, keywords_stated, warn
from bayesgen.fitting import FALL_AT_MEAN, Fit, FitBatch, Trained
from bayesgen.labels import Answered, AnyLabel, ClassLabel, NumberLabel, OptionalLabel
from bayesgen.runtime import interrupts_kept, requested, used
from bayesgen.typing import Data

from .answers import ClassPrediction, ContinuousPrediction, DensityPrediction, joined
from .averages import warn_of_few_draws
from .rule import Rule

NO_CLASSES = "The program has no classes (label=None), so its rows have densities alone: answer.log_marginal."


@overload
def predict(fit: Fit[ClassLabel], X: Data, *, rule: Rule, device: str | None = ...) -> ClassPrediction: ...
@overload
def predict(fit: Fit[NumberLabel], X: Data, *, rule: Rule, device: str | None = ...) -> ContinuousPrediction: ...
@overload
def predict(
    fit: Fit[OptionalLabel], X: Data, *, rule: Rule, device: str | None = ...
) -> ClassPrediction | DensityPrediction: ...
@overload
def predict(
    fit: Fit[AnyLabel], X: Data, *, rule: Rule, device: str | None = ...
) -> ClassPrediction | ContinuousPrediction | DensityPrediction: ...
@overload
def predict(
    fit: FitBatch, X: Data | Sequence[Data], *, rule: Rule, device: str | None = ...
) -> ClassPrediction | ContinuousPrediction | DensityPrediction: ...
@overload
def predict(fit: Trained[Answered], X: Data, *, rule: Rule, device: str | None = ...) -> Answered: ...
@keywords_stated
def predict(fit: Trained[Any] | FitBatch, X: Data, *, rule: Rule, device: str | None = None) -> Any:
    """Class probabilities of new rows, or the distribution of their continuous label.

    Args:
        fit: result of `bayesgen.fit`, or of `bayesgen.fit_many`: then all arrays of the answer have the data sets as a
            first axis, NaN for those that are refused.
        X: rows in any form that `bayesgen.fit` takes; named columns may come in any order. For a batch of fits one such
            table, or a list of tables, one for each fit, of one number of rows.
        rule: `PlugIn()` (two-step: pick the best process, then predict), `BMA()` (one-step: average over all
            processes) or `ConditionalAverage()`.
        device: "cpu" or "gpu", where programs are run at points or draws; None for a GPU, if JAX has one, where the
            work is large enough for it (see `bayesgen.runtime`). Closed forms always take the processor. The device
            used is in the answer's `device`.

    X may be empty. Rows are read and predicted in chunks, so that memory holds no whole array but X and the prediction.
    If the rows come in chunks, predict each chunk.

    Means have double precision, 16 digits. Where the mean of a column is 10^m times its standard deviation, m digits
    are lost: an offset of 1e9 with a deviation of 1e-3 changes probabilities by about 1e-5. Subtract the offset from
    such a column before it is fitted, and from new rows.

    Raises:
        PredictionError: a rule that the fit cannot answer, such as an average of a point estimate.
        DataError: rows that do not fit the training schema; device="gpu" where JAX has none.

    >>> import bayesgen as bg
    >>> result = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"], method=bg.Exact())
    >>> bg.predict(result, [[1.5], [8.0]], rule=bg.BMA()).labels.tolist()
    ['a', 'b']
    """
    if not isinstance(fit, Trained | FitBatch):
        raise PredictionError(f"predict takes a result of bayesgen.fit, got {shortened(repr(fit))}. Fit a model.")
    if not isinstance(rule, Rule):
        raise PredictionError(f"rule must be an object such as PlugIn() or BMA(), got {rule!r}.")
    with requested(device), interrupts_kept():
        if not isinstance(fit, Fit):
            return answer(fit, rule, X)
        table = read_table(X, least_rows=0)
        prediction = answer(fit, rule, table)
    warn_of_unknown(table.unknown_cells)
    fall_at_mean = fit.attributes.get(FALL_AT_MEAN)
    if fall_at_mean is not None and (caution := rule.caution(fall_at_mean)):
        warn(caution)
    if isinstance(prediction, ClassPrediction):
        _warn_of_impossible_rows(fit, rule, table, prediction)
    return prediction


@functools.singledispatch
def answer(fit: Any, rule: Rule, X: Any) -> Any:
    """The prediction by a rule, without warnings of new values and of impossible rows.

    X is a `Table` for a `Fit`, and what `predict` was given for all else. Fits that predict by other fits, and fits of
    other queries than rows, register their own function.
    """
    num_classes = len(fit.classes)
    num_tables = 8 if rule.averages_draws(fit) else 1  # of log-joints: means, errors and intermediate tables
    numbers_per_row = num_tables * max(1, num_classes)
    if fit.concrete.response is not None:
        numbers_per_row = 4  # locations, scales, degrees of freedom, log densities
    prediction = joined(in_chunks(fit, X, numbers_per_row, lambda part: rule.answer(fit, fit.rows_of(part))))
    prediction = dataclasses.replace(prediction, device=used(), index=X.index)
    if prediction.pareto_k is not None:
        warn_of_few_draws(prediction.pareto_k, getattr(prediction, "is_robust", None), prediction.index)
    if num_classes or isinstance(prediction, ContinuousPrediction):
        return prediction
    return DensityPrediction(prediction.log_marginal, NO_CLASSES, prediction.device)


def in_chunks(
    fit: Fit, table: Table, numbers_per_row: int, ask: Callable[[Table], ClassPrediction | ContinuousPrediction]
) -> list[Any]:
    """The predictions of successive chunks of rows, of which a row needs so many numbers besides its cells."""
    chunks = table.chunks(numbers_per_row)
    try:
        return [ask(table.rows(chunk)) for chunk in chunks]
    except DataError:
        if len(chunks) > 1:
            fit.rows_of(table)  # names the row, and counts, in the whole table
        raise


def _warn_of_impossible_rows(fit: Fit, rule: Rule, table: Table, prediction: ClassPrediction) -> None:
    """Warn of rows that are impossible under every class: with the rule's remedy, unless no process can make them."""
    impossible = np.flatnonzero(named_classes(prediction.log_probabilities) < 0)
    if len(impossible):
        rows = fit.rows_of(table.rows(impossible))
        statistics = fit.concrete.statistics(fit.schema).items()
        reasons = [likelihood.why_impossible(site, rows, impossible) for site, likelihood in statistics]
        remedy = " ".join(filter(None, reasons)) or rule.remedy(fit)
        warn(
            f"{len(impossible)} of {len(prediction.log_marginal)} rows have probability zero under every class, so "
            f"their class probabilities are NaN. {remedy}",
            ImpossibleRowsWarning,
        )
