"""The verb `predict`: of one fit, and of a batch of fits, whose answers have a leading axis of the data sets."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import narwhals as nw
import numpy as np

from bayesgen.data import (
    Source,
    Table,
    as_source,
    check_columns,
    check_distinct,
    named_classes,
    read_table,
    warn_of_unknown,
)
from bayesgen.describe import shortened
from bayesgen.errors import (
    BayesgenWarning,
    DataError,
    FitError,
    ImpossibleRowsWarning,
    PredictionError,
    check_object,
    each_warning_once,
    warn,
    without_warnings,
)
from bayesgen.fitting import FALL_AT_MEAN, Fit, FitBatch, Trained
from bayesgen.labels import Answered, AnyLabel, ClassLabel, NumberLabel, OptionalLabel
from bayesgen.posteriors import ProcessPosterior
from bayesgen.predictives import PredictiveDistribution, StackedPredictive
from bayesgen.runtime import THREAD_CELLS, even_chunks, in_threads, public, requested, used
from bayesgen.typing import Data

from .answers import ClassPrediction, ContinuousPrediction, DensityPrediction, by_field, joined, normalize
from .averages import warn_of_few_draws
from .rule import Rule

if TYPE_CHECKING:
    import pyarrow as pa

Prediction: TypeAlias = ClassPrediction | ContinuousPrediction | DensityPrediction

NO_CLASSES = "The program has no classes (label=None), so its rows have densities alone: answer.log_marginal."


@overload
def predict(
    fit: Fit[ClassLabel], X: Data, *, rule: Rule, keep: Sequence[str] = ..., device: str | None = ...
) -> ClassPrediction: ...
@overload
def predict(
    fit: Fit[NumberLabel], X: Data, *, rule: Rule, keep: Sequence[str] = ..., device: str | None = ...
) -> ContinuousPrediction: ...
@overload
def predict(
    fit: Fit[OptionalLabel], X: Data, *, rule: Rule, keep: Sequence[str] = ..., device: str | None = ...
) -> ClassPrediction | DensityPrediction: ...
@overload
def predict(
    fit: Fit[AnyLabel], X: Data, *, rule: Rule, keep: Sequence[str] = ..., device: str | None = ...
) -> Prediction: ...
@overload
def predict(
    fit: FitBatch, X: Data | Sequence[Data], *, rule: Rule, keep: Sequence[str] = ..., device: str | None = ...
) -> Prediction: ...
@overload
def predict(
    fit: Trained[Answered], X: Data, *, rule: Rule, keep: Sequence[str] = ..., device: str | None = ...
) -> Answered: ...
@public
def predict(
    fit: Trained[Any] | FitBatch, X: Data, *, rule: Rule, keep: Sequence[str] = (), device: str | None = None
) -> Any:
    """Class probabilities of new rows, or the distribution of their continuous label.

    Args:
        fit: result of `bayesgen.fit`, or of `bayesgen.fit_many`: then all arrays of the answer have the data sets as a
            first axis, NaN for those that are refused.
        X: rows in any form that `bayesgen.fit` takes; named columns may come in any order. For a batch of fits one such
            table, or a list of tables, one for each fit, of one number of rows. Of rows that lie elsewhere, such as a
            lazy frame, the columns of the fit are read, and others ignored.
        rule: `PlugIn()` (two-step: pick the best process, then predict), `BMA()` (one-step: average over all
            processes) or `ConditionalAverage()`.
        keep: of rows that lie elsewhere, columns to have beside the answer.
        device: "cpu" or "gpu", where programs are run at points or draws; None for a GPU, if JAX has one, where the
            work is large enough for it (see `bayesgen.runtime`). Closed forms always take the processor. The device
            used is in the answer's `device`.

    The answer to rows that lie elsewhere is a table of the same engine with the columns of `answer.to_frame()` beside
    those of `keep`; of Arrow, paths and patterns a `RecordBatchReader`. It is lazy: nothing is computed before it is
    collected, then chunk by chunk, where the rows are, and without warnings: rows without an answer have no label.
    A relation of DuckDB gives 2,048 rows a call, which is slow: `relation.to_arrow_reader()` is faster, and
    `fit.to_sql(table)` needs no Python.

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
        check_object("rule", rule, Rule, PredictionError)
    are_here = isinstance(X, np.ndarray | list | tuple | Mapping | Table)
    if isinstance(fit, Fit) and not are_here and (source := as_source(X)) is not None:
        return _lazy_answer(fit, rule, source, [keep] if isinstance(keep, str) else list(keep), device)
    if keep:
        raise PredictionError("keep= is for rows that lie elsewhere. answer.to_frame() has the index of a frame.")
    with requested(device):
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


def _lazy_answer(fit: Fit, rule: Rule, source: Source, keep: list[str], device: str | None) -> Any:
    """The answers to the rows of a source, beside columns of it: see `predict`."""
    import pyarrow as pa

    for name in keep:
        check_columns({"keep": name}, source.names)
    columns = fit.columns_among(source.names)
    empty = nw.Schema({name: source.dtypes[name] for name in columns}).to_arrow().empty_table()
    prediction = answer(fit, rule, read_table(empty, least_rows=0))
    if isinstance(prediction, DensityPrediction):
        raise PredictionError(f"{NO_CLASSES} Give X in memory, chunk by chunk.")
    types = {str(name): pa.float64() for name in prediction.to_frame()}
    check_distinct([*keep, *types])
    if isinstance(prediction, ClassPrediction):
        types["label"] = pa.array(fit.classes.tolist()).type
    schema = pa.schema(types)
    return source.answered(columns, keep, functools.partial(_arrow_answer, fit, rule, device, schema), schema)


def _arrow_answer(fit: Fit, rule: Rule, device: str | None, schema: "pa.Schema", chunk: "pa.Table") -> "pa.Table":
    """`to_frame` of the answer to a chunk of rows, as a table of Arrow; made where the rows are."""
    with without_warnings(BayesgenWarning), requested(device):
        frame = answer(fit, rule, read_table(chunk, least_rows=0)).to_frame()
    return type(chunk).from_pandas(frame.set_axis(schema.names, axis=1), schema, preserve_index=False)


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
    by_threads = (fit.concrete.response is not None or X.sparse) and _by_formulas(fit, rule)
    parts = in_chunks(fit, X, numbers_per_row, lambda part: rule.answer(fit, fit.rows_of(part)), by_threads=by_threads)
    prediction = joined(parts)
    prediction = dataclasses.replace(prediction, device=used(), index=X.index)
    if prediction.pareto_k is not None:
        warn_of_few_draws(prediction.pareto_k, getattr(prediction, "is_robust", None), prediction.index)
    if num_classes or isinstance(prediction, ContinuousPrediction):
        return prediction
    return DensityPrediction(prediction.log_marginal, NO_CLASSES, prediction.device)


def _by_formulas(fit: Fit, rule: Rule) -> bool:
    """Whether the answer comes from closed forms alone, which threads may evaluate."""
    conjugate, at = fit.concrete.column_blocks(fit.schema), rule.closed_at
    if conjugate is None or at is None or fit.posterior.is_sampled or not fit.posterior.can(at):
        return False
    if fit.concrete.response is None:
        return isinstance(fit.posterior, ProcessPosterior) and fit.posterior.conjugate is not None
    closed = conjugate.closed_response
    return closed is not None and (closed.is_predictive or at != "predictive")


def in_chunks(
    fit: Fit,
    table: Table,
    numbers_per_row: int,
    ask: Callable[[Table], ClassPrediction | ContinuousPrediction],
    *,
    by_threads: bool = False,
) -> list[Any]:
    """The predictions of successive chunks of rows, of which a row needs so many numbers besides its cells."""
    chunks = table.chunks(numbers_per_row)
    if by_threads and table.num_rows:
        chunks = even_chunks(table.num_rows, THREAD_CELLS / (table.cells_per_row + numbers_per_row))
    try:
        parts = list(map(table.rows, chunks))
        return list((in_threads if by_threads else map)(ask, parts))
    except DataError:
        if len(chunks) > 1:
            fit.rows_of(table)  # names the row, and counts, in the whole table
        raise


def _warn_of_impossible_rows(fit: Fit, rule: Rule, table: Table, prediction: ClassPrediction) -> None:
    """Warn of rows that are impossible under every class: with the rule's remedy, unless no process can make them."""
    if np.isnan(prediction.log_probabilities.max(initial=0.0)):  # in one pass, because there are few such rows
        impossible = np.flatnonzero(named_classes(prediction.log_probabilities) < 0)
        rows = fit.rows_of(table.rows(impossible))
        statistics = fit.concrete.statistics(fit.schema).items()
        reasons = [likelihood.why_impossible(site, rows, impossible) for site, likelihood in statistics]
        remedy = " ".join(filter(None, reasons)) or rule.remedy(fit)
        warn(
            f"{len(impossible)} of {len(prediction.log_marginal)} rows have probability zero under every class, so "
            f"their class probabilities are NaN. {remedy}",
            ImpossibleRowsWarning,
        )


# Predictions by a batch of fits: the answer of one fit, with a leading axis of the data sets.


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
        _warn_of_rows_impossible_in_sets(fit, rule, prediction, [*fit.refused, *refused])
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


def _warn_of_rows_impossible_in_sets(
    fit: FitBatch, rule: Rule, prediction: ClassPrediction, refused: list[int]
) -> None:
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
