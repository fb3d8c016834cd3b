"""`summarize`: training data are read, and become summaries chunk by chunk."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from bayesgen.data import (
    Rows,
    Schema,
    Table,
    joined,
    naming_origin,
    read_tables,
    row_chunks,
    unknown_cells,
    warn_of_unknown,
)
from bayesgen.errors import DataError
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.runtime import in_threads
from bayesgen.statistics import SufficientStatistics, merged
from bayesgen.typing import Int

from .summaries import Summaries, check_model, one_after_another


def summarize(
    model: Recipe, X: Any, y: Any = None, *, schema: Schema | None = None, sample_weight: Any = None
) -> Summaries:
    """Reduce training data to sufficient statistics in one pass over blocks of rows.

    Nothing that is made on the way is ever whole in memory, except for sites of a program that have no sufficient
    statistic, and sequences whose makers hide states, trees or missing steps: their rows are kept.

    Args:
        model: a model or a `GenerativeProgram`.
        X: 2-D array, data frame, sparse matrix or mapping name -> array. Or data in chunks, and then no y and no
            sample_weight: an iterable (a generator, `zip`, a list) of tuples (X, y) or (X, y, sample_weight), or
            (X,) for a program without classes. A list counts as chunks if its first item is a tuple that begins with
            an array, frame or mapping: [(1.0, 2.0), (3.0, 4.0)] is a table of two rows.
        y: (n,) labels, some of which may be missing: these rows are kept; None for a program without classes. Where X
            and y (or sample_weight) are both of pandas, they have one index.
        schema: what is known of the columns; declare classes and categories that a part of the data may lack. What is
            not declared is inferred, from chunked data by the first chunk alone. That of a fit brings its default
            prior.
        sample_weight: (n,) nonnegative frequency weights (weight 2 = the row twice). A row of weight 0 is absent:
            whatever is in it, nothing of it is looked at, its label and its categories included.

    Raises:
        DataError: data that do not fit the schema or, naming the chunk, the schema of the first chunk.

    >>> import bayesgen as bg
    >>> schema = bg.Schema(classes=["a", "b"])
    >>> one = bg.summarize(bg.NaiveBayes(), [[1.0], [2.0]], ["a", "a"], schema=schema)
    >>> two = bg.summarize(bg.NaiveBayes(), [[5.0], [7.0]], ["b", "b"], schema=schema)
    >>> fit = bg.fit(bg.NaiveBayes(), one + two, method=bg.MLE())
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    >>> chunks = (chunk for chunk in [([[1.0], [2.0]], ["a", "a"]), ([[5.0], [7.0]], ["b", "b"])])
    >>> fit = bg.fit(bg.NaiveBayes(), chunks, method=bg.MLE(), schema=schema)
    >>> fit.parameters["real_mean"].tolist()
    [[1.5], [6.0]]
    """
    return _summarized(model, X, y, schema, sample_weight)


def _summarized(
    model: Recipe, X: Any, y: Any, schema: Schema | None, sample_weight: Any, keeps_rows: bool = False
) -> Summaries:
    """See `summarize`; with the rows that have labels, if they are to be kept."""
    check_model(model)
    tables = read_tables(X, y, sample_weight)
    first = next(tables)
    with naming_origin(first.chunk_number, first.num_dropped):
        declared = schema or Schema()
        if declared.classes is None and first.declared_classes is not None:
            declared = dataclasses.replace(declared, classes=first.declared_classes)
        schema = model.infer_schema(first, first.labels, declared)
        concrete = model.concrete(schema)
    return summarize_tables(concrete, schema, itertools.chain([first], tables), keeps_rows)


def as_summaries(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    schema: Schema | None = None,
    sample_weight: Any = None,
    keeps_rows: bool = False,
) -> Summaries:
    """The summaries of training data, which may be such already. DataError: those of another model, or more beside."""
    if not isinstance(X, Summaries):
        return _summarized(model, X, y, schema, sample_weight, keeps_rows)
    if y is not None or sample_weight is not None or schema is not None:
        raise DataError("Summaries hold their labels, weights and schema already: pass them alone.")
    return X.made_for(model)


def summarize_tables(
    model: ConcreteModel, schema: Schema, tables: Iterable[Table], keeps_rows: bool = False
) -> Summaries:
    """The summaries of all tables together; with the rows that have labels, if they are to be kept."""
    num_rows, unlabelled_places, unknown = 0, [], Counter[str]()
    kept: list[Rows] = []

    def parts() -> Iterator[SufficientStatistics]:
        nonlocal num_rows, schema
        for table in tables:
            with naming_origin(table.chunk_number, table.num_dropped):
                unknown.update(unknown_cells(schema, table))
            for statistics, places, rows, ranges in _statistics(model, schema, table, keeps_rows):
                schema = schema.widened(ranges)
                unlabelled_places.append(None if places is None else num_rows + places)
                kept.extend(rows)
                yield statistics
            num_rows += table.num_rows + table.num_dropped

    statistics = merged(parts())
    warn_of_unknown(unknown)
    rows = joined(kept) if kept else None
    return Summaries(model, schema, statistics, num_rows, one_after_another(unlabelled_places), rows)


Part: TypeAlias = tuple[SufficientStatistics, Int[np.ndarray, " m"] | None, list[Rows], Mapping[str, tuple[int, int]]]
"""The statistics of some rows of a table, which of its rows as given have no label, the others if they are kept, and
the ranges of covariates."""


def _statistics(model: ConcreteModel, schema: Schema, table: Table, keeps_rows: bool) -> Iterator[Part]:
    """The sufficient statistics of each chunk of a table."""

    def of_rows(places: slice) -> Part:
        chunk = table.rows(places)
        labels = model.label_codes(schema, chunk)
        rows = dataclasses.replace(model.read(schema, chunk), labels=labels, weights=chunk.weights)
        statistics = model.summarize(schema, rows)
        ranged = {name: values for name, values in rows.covariates.items() if name in schema.ranges}
        ranges = schema.widened(ranged).ranges
        if labels is None or statistics.unlabelled is None:
            return statistics, None, [_labelled(model, rows)] if keeps_rows else [], ranges
        missing = np.flatnonzero(labels < 0)
        labelled = [_labelled(model, rows)] if keeps_rows else []
        return statistics, missing + places.start if chunk.kept is None else chunk.kept[missing], labelled, ranges

    with naming_origin(table.chunk_number, table.num_dropped):
        try:
            yield from (in_threads if model.in_threads else map)(of_rows, row_chunks(schema, table))
            return
        except DataError as error:
            found = error
        of_rows(slice(0, table.num_rows))  # names the row, and counts, in the table as it was given
        raise found


def _labelled(model: ConcreteModel, rows: Rows) -> Rows:
    """The rows that have a label, with how often each counts."""
    has_label = np.ones(rows.num_rows, bool)
    if rows.labels is not None:
        has_label = np.asarray(rows.labels) >= 0
    elif model.response is not None:
        has_label = ~np.isnan(model.response.values(rows))
    labelled = rows if has_label.all() else rows.take(np.flatnonzero(has_label))
    return dataclasses.replace(labelled, weights=labelled.frequencies)
