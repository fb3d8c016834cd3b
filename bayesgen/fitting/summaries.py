"""`Summaries`: training data reduced to mergeable sufficient statistics, and how those of tables are made."""

import dataclasses
import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bayesgen.data import (
    Rows,
    Schema,
    Table,
    joined_rows,
    naming_origin,
    read_tables,
    warn_of_unknown,
)
from bayesgen.describe import Described, Description, amount, counted, stated
from bayesgen.errors import DataError
from bayesgen.generative import GenerativeProgram
from bayesgen.program import ConcreteModel, Model, Recipe
from bayesgen.records import by_content
from bayesgen.runtime import in_threads, table_chunks
from bayesgen.statistics import SufficientStatistics, Summary, merged, summaries_of
from bayesgen.typing import Data, Int, Values


@by_content
class Summaries(Described):
    """Training data, reduced to sufficient statistics (rows are kept for sites that have none).

    `bayesgen.summarize` makes summaries, and `bayesgen.fit` takes them in place of X and y. Summaries of disjoint rows
    of the same columns can be added.

    Attributes:
        model: the model whose sites are summarised.
        schema: the resolved schema, without means and variances unless it is that of a fit.
        statistics: the sufficient statistics.
        num_rows: how many rows were given.
        unlabelled_places: which of them have no label, by position; None where all have one.
        rows: the rows with labels, with weights, where a method needs them; else None.
        origin: who computed the statistics, of data that were not in memory; else None.
    """

    model: ConcreteModel
    schema: Schema
    statistics: SufficientStatistics
    num_rows: int = dataclasses.field(default=0, compare=False)
    unlabelled_places: Int[np.ndarray, " m"] | None = dataclasses.field(default=None, compare=False)
    rows: Rows | None = dataclasses.field(default=None, compare=False)
    origin: dict[str, Any] | None = dataclasses.field(default=None, compare=False)

    def _description(self) -> Description:
        unlabelled_weight = self.total_weight - float(self.statistics.class_weights.sum())
        lines = {
            "rows (total weight)": amount(self.total_weight),
            "without labels": None if self.statistics.unlabelled is None else amount(unlabelled_weight),
            "columns": counted(self.schema.columns or ()),
            "classes": counted(self.schema.classes or ()),
            "next": "fit(model, summaries, method=...), one + two for those of other rows",
        }
        return f"Summaries for {stated(self.model)}", lines

    @property
    def total_weight(self) -> float:
        """Total weight of the rows."""
        return self.statistics.total_weight

    def merge(self, other: "Summaries") -> "Summaries":
        """The summaries of both sets of rows together.

        Raises:
            DataError: where the two do not have the same columns, kinds, categories and classes, or have the scales of
                different fits.
        """
        if self.schema != other.schema:
            raise DataError(
                "These summaries have different schemas (columns, kinds, categories or classes). Summarise both with "
                "one schema=Schema(...) that declares all classes and categories."
            )
        scaled = [schema for schema in (self.schema, other.schema) if schema.mean is not None]
        if len(scaled) > 1 and not _same_scale(*scaled):
            raise DataError(
                "These summaries have the schemas of fits with different means and variances of the columns, so with "
                "different default priors. Summarise both with the schema of one fit."
            )
        offsets = ((self.unlabelled_places, 0), (other.unlabelled_places, self.num_rows))
        positions = [part + offset for part, offset in offsets if part is not None]
        return dataclasses.replace(
            self,
            schema=(scaled[0] if scaled else self.schema).widened(self.schema.ranges).widened(other.schema.ranges),
            statistics=self.statistics + other.statistics,
            num_rows=self.num_rows + other.num_rows,
            unlabelled_places=np.concatenate(positions) if positions else None,
            rows=None if self.rows is None or other.rows is None else joined_rows([self.rows, other.rows]),
            origin=None,
        )

    def __add__(self, other: "Summaries") -> "Summaries":
        return self.merge(other)

    def check_made_for(self, model: Any) -> None:
        """Refuse a model other than the one that these summaries were made for.

        Raises:
            DataError: naming both models; an object that is not a model.
        """
        check_model(model)
        other = self._concrete(model)
        if self.model != other and not (isinstance(other, ConcreteModel) and other.shares_statistics(self.model)):
            raise DataError(
                f"These summaries were made for {_shown(self.model)}, and the model to fit is {_shown(model)}. "
                "Summarise the data with the model to fit."
            )

    def made_for(self, model: Any) -> "Summaries":
        """These summaries for another model with the same statistics: see `check_made_for`."""
        self.check_made_for(model)
        concrete = self._concrete(model)
        assert isinstance(concrete, ConcreteModel)
        return self if self.model == concrete else dataclasses.replace(self, model=concrete)

    def _concrete(self, model: Recipe) -> Recipe:
        """The model for these columns; itself where the schema is of a program, which has no kinds of columns."""
        if isinstance(self.model, GenerativeProgram) and not isinstance(model, GenerativeProgram):
            return model
        return model.concrete(self.schema)

    @functools.cached_property
    def scaled_schema(self) -> Schema:
        """The schema with the columns' means and variances, which resolve default priors; known ones are kept."""
        summaries, unlabelled = dict(self.statistics.summaries), self.statistics.unlabelled
        if unlabelled is None:
            return self.model.with_scale(self.schema, summaries)
        statistics = {
            site: likelihood
            for site, likelihood in self.model.statistics(self.schema).items()
            if not likelihood.has_row_parameters  # no scale is taken from these
        }

        def chunk_summaries(part: slice) -> dict[str, Summary]:
            rows = unlabelled.take(part)
            return summaries_of(rows, statistics, rows.codes, 1)

        pooled = {site: summaries[site].pooled() for site in statistics}
        for chunk in in_threads(chunk_summaries, table_chunks(unlabelled.num_rows, unlabelled.cells_per_row)):
            pooled = {site: summary.merge(chunk[site]) for site, summary in pooled.items()}
        return self.model.with_scale(self.schema, pooled)


def _same_scale(first: Schema, second: Schema) -> bool:
    """Whether two schemas of one kind have the same means and variances."""
    scale, other_scale = (np.asarray([schema.mean, schema.variance], np.float64) for schema in (first, second))
    responses = [(s.response.mean, s.response.variance) for s in (first, second) if s.response is not None]
    return np.array_equal(scale, other_scale, equal_nan=True) and len(set(responses)) < 2


def check_model(model: object) -> None:
    """Refuse anything but a single model.

    Raises:
        DataError: a class or a function; an average of models, whose members need summaries of their own.
    """
    if isinstance(model, type) and issubclass(model, Model):
        raise DataError(f"{model.__name__} is a class, and a model is an object of it: write {model.__name__}(...).")
    if inspect.isfunction(model):
        raise DataError(
            f"{model.__name__!r} is a function: make a model of it by GenerativeProgram({model.__name__}, classes=...)."
        )
    if not isinstance(model, Recipe):
        raise DataError(
            f"Only a model or a GenerativeProgram has summaries, not {model!r}. For an average of models give X and y "
            "to fit, or summarise and fit each member and average the fits."
        )


def _shown(model: Model) -> str:
    """A model in a message; a program by the name of its function."""
    if not isinstance(model, GenerativeProgram):
        return repr(model)
    return f"the program {getattr(model.function, '__qualname__', model.function)!r}"


def as_summaries(
    model: Any,
    X: Data | Iterable[tuple] | Summaries,
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    keeps_rows: bool = False,
) -> Summaries:
    """The summaries of training data, see `summarize`, or the given ones.

    Labelled rows are kept, too, with `keeps_rows`, and where parameters of the model are functions of all of them.

    Raises:
        DataError: summaries of another model, or given with y.
    """
    if isinstance(X, Summaries):
        if y is not None or sample_weight is not None or schema is not None:
            raise DataError("Summaries hold their labels, weights and schema already: pass them alone.")
        return X.made_for(model)
    check_model(model)
    tables = read_tables(X, y, sample_weight)
    first = next(tables)
    with naming_origin(first.chunk_number, first.num_dropped):
        resolved = inferred_schema(model, first, schema)
        concrete = model.concrete(resolved)
    keeps_rows = keeps_rows or (not first.chunk_number and concrete.has_row_statistics)
    return summarize_tables(concrete, resolved, itertools.chain([first], tables), keeps_rows)


def inferred_schema(model: Recipe, table: Table, schema: Schema | None) -> Schema:
    """The schema of a table, with what is declared for it."""
    if schema is not None and not isinstance(schema, Schema):
        raise DataError(f"schema= must be a Schema, such as fit.schema or Schema(classes=[...]), got {schema!r}.")
    declared = schema or Schema()
    if declared.classes is None and table.declared_classes is not None:
        declared = dataclasses.replace(declared, classes=table.declared_classes)
    if table.label_name is not None:
        declared = dataclasses.replace(declared, label=table.label_name)
    return model.infer_schema(table, table.labels, declared)


def encoded_rows(model: ConcreteModel, schema: Schema, table: Table) -> Rows:
    """The rows of a table with codes of their labels and with weights."""
    labels = model.label_codes(schema, table)
    return dataclasses.replace(model.read_rows(schema, table), labels=labels, weights=table.weights)


def summaries_of_rows(model: ConcreteModel, schema: Schema, rows: Rows, keeps_rows: bool = False) -> Summaries:
    """The summaries of encoded rows, which may be none; `keeps_rows` keeps the rows with labels, too."""
    statistics = model.summarize(schema, rows)
    unlabelled = None if rows.labels is None or statistics.unlabelled is None else np.flatnonzero(rows.labels < 0)
    labelled_rows = rows_with_labels(model, rows) if keeps_rows else None
    return Summaries(model, schema, statistics, rows.num_rows, unlabelled, labelled_rows)


def summarize_tables(
    model: ConcreteModel,
    schema: Schema,
    tables: Iterable[Table],
    keeps_rows: bool = False,
    *,
    unknown: Counter[str] | None = None,
    check: Callable[[SufficientStatistics], None] | None = None,
) -> Summaries:
    """The summaries of all tables together.

    Args:
        model, schema, tables: the model of the data with this schema, and the data.
        keeps_rows: whether the rows with labels are kept, too.
        unknown: gets the number of cells of each column with unknown values, of which there is a warning otherwise.
        check: is called with the statistics of each part, before they are added.
    """
    num_rows, counted_unknown = 0, Counter[str]() if unknown is None else unknown
    positions: list[Int[np.ndarray, " m"]] = []
    labelled: list[Rows] = []

    def chunk_summaries(table: Table, part: slice) -> Summaries:
        chunk = table.rows(part)
        rows = encoded_rows(model, schema, chunk)
        summaries = summaries_of_rows(model, schema, rows, keeps_rows)
        ranged = schema.ranges.keys() & rows.covariates.keys()
        widened = schema.widened({name: rows.covariates[name] for name in ranged}) if ranged else schema
        missing = summaries.unlabelled_places
        if missing is not None:  # by their positions in the data as given
            missing = num_rows + (missing + part.start if chunk.positions is None else chunk.positions[missing])
        return dataclasses.replace(summaries, schema=widened, unlabelled_places=missing)

    def parts() -> Iterator[SufficientStatistics]:
        nonlocal num_rows, schema
        for table in tables:
            with naming_origin(table.chunk_number, table.num_dropped):
                try:
                    mapped = in_threads if model.in_threads else map
                    for part in mapped(functools.partial(chunk_summaries, table), schema.row_chunks(table)):
                        schema = schema.widened(part.schema.ranges) if part.schema.ranges else schema
                        positions.extend([] if part.unlabelled_places is None else [part.unlabelled_places])
                        labelled.extend([] if part.rows is None else [part.rows])
                        if check is not None:
                            check(part.statistics)
                        yield part.statistics
                except DataError:
                    chunk_summaries(table, slice(0, table.num_rows))  # names the row in the table as it was given
                    raise
            num_rows += table.num_rows + table.num_dropped
            counted_unknown.update(table.unknown_cells)

    statistics = merged(parts())
    if unknown is None:
        warn_of_unknown(counted_unknown)
    return Summaries(
        model,
        schema,
        statistics,
        num_rows,
        unlabelled_places=np.concatenate(positions) if positions else None,
        rows=joined_rows(labelled) if labelled else None,
    )


def rows_with_labels(model: ConcreteModel, rows: Rows) -> Rows:
    """The rows that have a label, with their weights."""
    has_label = np.ones(rows.num_rows, bool)
    if rows.labels is not None:
        has_label = np.asarray(rows.labels) >= 0
    elif model.response is not None:
        has_label = ~np.isnan(model.response.values(rows))
    labelled = rows if has_label.all() else rows.take(np.flatnonzero(has_label))
    return dataclasses.replace(labelled, weights=labelled.frequencies)
