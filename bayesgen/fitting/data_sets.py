"""`DataSets`: many training sets of one model and one schema, which are read and encoded once."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from bayesgen.data import (
    ALL_ZERO,
    Rows,
    Schema,
    Table,
    as_array,
    as_weights,
    joined_tables,
    read_chunk,
    read_table,
    warn_of_unknown,
)
from bayesgen.errors import DataError, as_list
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.records import by_content, stacked
from bayesgen.runtime import TABLE_CELLS
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Data, Float, Int, Values

from .summaries import Summaries, check_model, encoded_rows, inferred_schema, summaries_of_rows

ColumnMoments: TypeAlias = tuple[Any, Any, Any, Any]
"""Means and variances of the columns, and those of the response; each None where it is not known."""


def schema_moments(schema: Schema) -> ColumnMoments:
    """The means and variances that a schema holds, which take no part in its equality."""
    response = schema.response
    return schema.mean, schema.variance, *((None, None) if response is None else (response.mean, response.variance))


def with_moments(schema: Schema, moments: ColumnMoments) -> Schema:
    """The schema with these means and variances."""
    mean, variance, response_mean, response_variance = moments
    response = schema.response
    if response is not None:
        response = dataclasses.replace(response, mean=response_mean, variance=response_variance)
    return dataclasses.replace(schema, mean=mean, variance=variance, response=response)


def without_moments(schema: Schema) -> Schema:
    """The schema without means and variances, of which no number is compiled in."""
    return with_moments(schema, (None, None, None, None))


@by_content
class DataSets:
    """B training sets of one model and one schema: weighted rows of one table, or data that are summarised already.

    Attributes:
        model: the model, with its choices made for the columns.
        schema: of all sets; without means and variances, unless it is that of a fit.
        rows: the rows of all sets, with labels and without weights; None where sets are summarised.
        positions: those of the rows of each set, (B, m), in the order given; None where each set has all rows.
        weights: their weights, (B, m), 0 for padding and for rows of weight 0, which are not among the rows; (B, 0)
            where sets are summarised.
        summarised: the summaries of each set, where there are no rows.
    """

    model: ConcreteModel
    schema: Schema
    rows: Rows | None
    positions: Int[np.ndarray, "B m"] | None
    weights: Float[np.ndarray, "B m"]
    summarised: tuple[Summaries, ...] = ()

    @property
    def num_sets(self) -> int:
        """B."""
        return len(self.weights)

    def summaries(
        self, index: int, keeps_rows: bool = False, statistics: SufficientStatistics | None = None
    ) -> Summaries:
        """The training data of one set, whose statistics may be given."""
        if self.rows is None:
            return self.summarised[index]
        weights = self.weights[index]
        counting = np.flatnonzero(weights)
        if not len(counting):
            raise DataError(ALL_ZERO)
        if statistics is not None:
            return Summaries(self.model, self.schema, statistics, len(counting))
        rows = self.rows.take(counting if self.positions is None else self.positions[index, counting])
        rows = dataclasses.replace(rows, weights=weights[counting])
        return summaries_of_rows(self.model, self.schema, rows, keeps_rows)

    @property
    def example(self) -> SufficientStatistics:
        """Statistics of the form that those of every set have; of no set in particular."""
        return self.summarised[0].statistics if self.rows is None else self.model.summarize(self.schema, self.rows)

    @property
    def are_alike(self) -> bool:
        """Whether the statistics of all sets have the shapes of the example."""
        shapes = [jax.tree.map(np.shape, summaries.statistics) for summaries in self.summarised]
        are_complete = all(summaries.statistics.is_complete for summaries in self.summarised)
        return are_complete and all(set_shapes == shapes[0] for set_shapes in shapes)

    @property
    def shared_arrays(self) -> tuple[ColumnMoments, Rows | None]:
        """The arrays that all sets share, for `statistics_of_set`."""
        return schema_moments(self.schema), self.rows

    @property
    def arrays_by_set(self) -> Any:
        """The arrays of the sets, (B, ...), for `statistics_of_set`."""
        pairs = [(schema_moments(summaries.schema), summaries.statistics) for summaries in self.summarised]
        return self.positions, self.weights, stacked(pairs) if pairs else None

    @property
    def cells_per_set(self) -> float:
        """Number of cells from which the statistics of one set are computed."""
        if self.rows is None:
            return float(sum(np.size(leaf) for leaf in jax.tree.leaves(self.example)))
        return self.weights.shape[1] * self.rows.cells_per_row * max(1, len(self.schema.classes or ()))


def statistics_of_set(
    model: ConcreteModel, schema: Schema, shared_arrays: tuple[ColumnMoments, Rows | None], set_arrays: Any
) -> tuple[Schema, SufficientStatistics]:
    """The schema and the sufficient statistics of one set. Traceable.

    The schema has column means and variances only if the user passed the schema of an earlier fit, or summaries that
    have it; otherwise the caller computes them from the statistics.

    Args:
        schema: without means and variances.
        shared_arrays, set_arrays: those of `DataSets`, of one set.
    """
    (moments, rows), (positions, weights, summarised) = shared_arrays, set_arrays
    if rows is None:
        moments, statistics = summarised
        return with_moments(schema, moments), statistics
    chosen = dataclasses.replace(rows if positions is None else rows.take(positions), weights=weights)
    return with_moments(schema, moments), model.summarize(schema, chosen)


def num_sets_at_once(cells_per_set: float) -> int:
    """Number of sets of so many cells whose arrays fit memory together."""
    return max(1, int(TABLE_CELLS / max(1.0, cells_per_set)))


def read_sets(
    model: Recipe,
    X: Data | Iterable[tuple] | Iterable[Summaries],
    y: Values | None,
    weights: Float[np.ndarray, "B n"] | None,
    schema: Schema | None,
) -> DataSets:
    """The training sets of `fit_many`.

    Raises:
        DataError: weights that are not (B, n); sets of unlike columns; what `summarize` refuses, naming the set.
    """
    check_model(model)
    if weights is not None:
        return _weighted_sets(model, read_table(X, y), weights, schema)
    if y is not None:
        raise DataError(
            "fit_many takes weights=(B, n) with X and y, for sets that are weights of one data set; or an iterable of "
            "(X, y), a set each, without y."
        )
    sets: list[Any] = as_list("X without weights=", X, "data sets, (X, y) each", DataError)
    if not sets:
        raise DataError("There are no data sets. Give at least one.")
    if all(isinstance(data, Summaries) for data in sets):
        return _summarised_sets(model, sets, schema)
    return _separate_sets(model, sets, schema)


def _weighted_sets(model: Recipe, table: Table, weights: Any, schema: Schema | None) -> DataSets:
    shares = as_array(weights, "weights")
    if shares.ndim != 2 or shares.shape[1] != table.num_rows or not len(shares):
        raise DataError(f"weights has the shape {shares.shape}, and {table.num_rows} rows want (B, {table.num_rows}).")
    flat = as_weights(shares.ravel(), shares.size, "weights")
    return _table_sets(model, table, schema, None, np.asarray(flat, np.float64).reshape(shares.shape))


def _separate_sets(model: Recipe, sets: Sequence[tuple], schema: Schema | None) -> DataSets:
    tables = []
    for index, chunk in enumerate(sets):
        try:
            tables.append(read_chunk(chunk))
        except DataError as refusal:
            raise DataError(f"Data set {index}: {refusal}") from refusal
    if not any(table.num_rows for table in tables):
        raise DataError(ALL_ZERO)
    positions = np.zeros((len(tables), max(table.num_rows + table.num_dropped for table in tables)), int)
    weights, start = np.zeros(positions.shape), 0
    for table, set_positions, set_weights in zip(tables, positions, weights, strict=True):
        columns = np.arange(table.num_rows) if table.positions is None else table.positions
        set_positions[columns] = start + np.arange(table.num_rows)
        set_weights[columns] = 1.0 if table.weights is None else table.weights
        start += table.num_rows
    return _table_sets(model, joined_tables(tables), schema, positions, weights)


def _table_sets(
    model: Recipe,
    table: Table,
    schema: Schema | None,
    positions: Int[np.ndarray, "B m"] | None,
    weights: Float[np.ndarray, "B m"],
) -> DataSets:
    resolved = inferred_schema(model, table, schema)
    concrete = model.concrete(resolved)
    rows = dataclasses.replace(encoded_rows(concrete, resolved, table), weights=None)
    warn_of_unknown(table.unknown_cells)
    return DataSets(concrete, resolved, rows, positions, weights)


def _summarised_sets(model: Recipe, sets: Sequence[Summaries], schema: Schema | None) -> DataSets:
    if schema is not None:
        raise DataError("Summaries hold their schema already: leave schema out.")
    summarised = tuple(summaries.made_for(model) for summaries in sets)
    first = summarised[0]
    for index, summaries in enumerate(summarised):
        if summaries.schema != first.schema:
            raise DataError(
                f"Data sets 0 and {index} have different schemas (columns, kinds, categories or classes). Summarise "
                "all with one schema=Schema(...) that declares all classes and categories."
            )
    return DataSets(first.model, first.schema, None, None, np.zeros((len(sets), 0)), summarised)
