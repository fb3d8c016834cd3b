"""`DataSets`: many training sets of one model and one schema, which are read and encoded once."""

import abc
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from bayesgen.data import Rows, Schema, Table, as_weights, joined_tables, read_chunk, read_table, warn_of_unknown
from bayesgen.errors import DataError
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.records import by_content
from bayesgen.runtime import TABLE_CELLS
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Data, Float, Int, Values

from .summaries import Summaries, check_model, encoded_rows, inferred_schema, summaries_of_rows

KnownMoments: TypeAlias = tuple[Any, Any, Any, Any]
"""Means and variances of the columns, and those of the response; each None where it is not known."""
UNKNOWN_MOMENTS: KnownMoments = (None, None, None, None)
Scaled: TypeAlias = tuple[Schema, SufficientStatistics]


def moments_of(schema: Schema) -> KnownMoments:
    """The moments that a schema holds, which take no part in its equality."""
    response = schema.response
    return schema.mean, schema.variance, *((None, None) if response is None else (response.mean, response.variance))


def with_moments(schema: Schema, moments: KnownMoments) -> Schema:
    """The schema with these moments."""
    mean, variance, *of_response = moments
    response = schema.response
    if response is not None:
        response = dataclasses.replace(response, mean=of_response[0], variance=of_response[1])
    return dataclasses.replace(schema, mean=mean, variance=variance, response=response)


@by_content
class DataSets(abc.ABC):
    """B training sets.

    Attributes:
        model: the model, with its choices made for the columns.
        schema: of all sets; without means and variances, unless it is that of a fit.
    """

    model: ConcreteModel
    schema: Schema

    @property
    @abc.abstractmethod
    def num_sets(self) -> int:
        """B."""

    @abc.abstractmethod
    def summaries(self, index: int, keeps_rows: bool = False) -> Summaries:
        """The training data of one set."""

    @property
    @abc.abstractmethod
    def example(self) -> SufficientStatistics:
        """Statistics of the form that those of every set have; of no set in particular."""

    @property
    @abc.abstractmethod
    def shared(self) -> Any:
        """The arrays that all sets share, for compiled functions."""

    @property
    @abc.abstractmethod
    def of_each(self) -> Any:
        """The arrays of the sets, (B, ...), for compiled functions."""

    @staticmethod
    @abc.abstractmethod
    def statistics_of(model: ConcreteModel, schema: Schema, shared: Any, of_set: Any) -> Scaled:
        """The schema with the moments that are known before a set is seen, and the statistics of the set. Traceable."""

    @property
    @abc.abstractmethod
    def cells_per_set(self) -> float:
        """Number of cells from which the statistics of one set are computed."""

    @property
    def are_alike(self) -> bool:
        """Whether the statistics of all sets have the shapes of the example."""
        return True


def num_sets_at_once(cells_per_set: float) -> int:
    """Number of sets of so many cells whose arrays fit memory together."""
    return max(1, int(TABLE_CELLS / max(1.0, cells_per_set)))


@by_content
class SetsOfRows(DataSets):
    """Sets of weighted rows of one table.

    Attributes:
        rows: all rows, with labels and without weights.
        places: positions of the rows of each set, (B, m), in the order given; None where each set has all rows.
        weights: their weights, (B, m), 0 for padding and for rows of weight 0, which are not among the rows.
    """

    rows: Rows
    places: Int[np.ndarray, "B m"] | None
    weights: Float[np.ndarray, "B m"]

    @property
    def num_sets(self) -> int:
        return len(self.weights)

    def summaries(self, index: int, keeps_rows: bool = False) -> Summaries:
        weights = self.weights[index]
        counting = np.flatnonzero(weights)
        if not len(counting):
            raise DataError("All rows of this set have weight 0. Give some row a positive weight.")
        rows = self.rows.take(counting if self.places is None else self.places[index, counting])
        rows = dataclasses.replace(rows, weights=weights[counting])
        return summaries_of_rows(self.model, self.schema, rows, keeps_rows)

    @property
    def example(self) -> SufficientStatistics:
        return self.model.summarize(self.schema, self.rows)

    @property
    def shared(self) -> tuple[KnownMoments, Rows]:
        return moments_of(self.schema), self.rows

    @property
    def of_each(self) -> tuple[Any, Any]:
        return self.places, self.weights

    @staticmethod
    def statistics_of(model: ConcreteModel, schema: Schema, shared: tuple[KnownMoments, Rows], of_set: Any) -> Scaled:
        (moments, rows), (places, weights) = shared, of_set
        rows = rows if places is None else rows.take(places)
        return with_moments(schema, moments), model.summarize(schema, dataclasses.replace(rows, weights=weights))

    @property
    def cells_per_set(self) -> float:
        return self.weights.shape[1] * self.rows.cells_per_row * max(1, len(self.schema.classes or ()))


@by_content
class SetsOfSummaries(DataSets):
    """Sets that are summarised already.

    Attributes:
        sets: the summaries.
    """

    sets: Sequence[Summaries]

    @property
    def num_sets(self) -> int:
        return len(self.sets)

    def summaries(self, index: int, keeps_rows: bool = False) -> Summaries:
        return self.sets[index]

    @property
    def example(self) -> SufficientStatistics:
        return self.sets[0].statistics

    @property
    def are_alike(self) -> bool:
        form = [jax.tree.map(np.shape, each.statistics) for each in self.sets]
        return all(each.statistics.is_complete for each in self.sets) and all(shapes == form[0] for shapes in form)

    @property
    def shared(self) -> None:
        return None

    @property
    def of_each(self) -> tuple[KnownMoments, SufficientStatistics]:
        each = [(moments_of(summaries.schema), summaries.statistics) for summaries in self.sets]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *each)

    @staticmethod
    def statistics_of(model: ConcreteModel, schema: Schema, shared: None, of_set: Any) -> Scaled:
        moments, statistics = of_set
        return with_moments(schema, moments), statistics

    @property
    def cells_per_set(self) -> float:
        return float(sum(np.size(leaf) for leaf in jax.tree.leaves(self.example)))


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
    sets: list[Any] = list(X)  # type: ignore[arg-type]
    if not sets:
        raise DataError("There are no data sets. Give at least one.")
    if all(isinstance(each, Summaries) for each in sets):
        return _summarised_sets(model, sets, schema)
    return _separate_sets(model, sets, schema)


def _weighted_sets(model: Recipe, table: Table, weights: Any, schema: Schema | None) -> SetsOfRows:
    shares = np.asarray(weights)
    if shares.ndim != 2 or shares.shape[1] != table.num_rows or not len(shares):
        raise DataError(f"weights has the shape {shares.shape}, and {table.num_rows} rows want (B, {table.num_rows}).")
    flat = as_weights(shares.ravel(), shares.size, "weights")
    return _of_table(model, table, schema, None, np.asarray(flat, np.float64).reshape(shares.shape))


def _separate_sets(model: Recipe, sets: Sequence[tuple], schema: Schema | None) -> SetsOfRows:
    tables = []
    for index, each in enumerate(sets):
        try:
            tables.append(read_chunk(each))
        except DataError as refusal:
            raise DataError(f"Data set {index}: {refusal}") from refusal
    places = np.zeros((len(tables), max(table.num_rows + table.num_dropped for table in tables)), int)
    weights, start = np.zeros(places.shape), 0
    for table, places_of_set, weights_of_set in zip(tables, places, weights, strict=True):
        positions = np.arange(table.num_rows) if table.positions is None else table.positions
        places_of_set[positions] = start + np.arange(table.num_rows)
        weights_of_set[positions] = 1.0 if table.weights is None else table.weights
        start += table.num_rows
    return _of_table(model, joined_tables(tables), schema, places, weights)


def _of_table(
    model: Recipe,
    table: Table,
    schema: Schema | None,
    places: Int[np.ndarray, "B m"] | None,
    weights: Float[np.ndarray, "B m"],
) -> SetsOfRows:
    found = inferred_schema(model, table, schema)
    concrete = model.concrete(found)
    rows = dataclasses.replace(encoded_rows(concrete, found, table), weights=None)
    warn_of_unknown(table.unknown_cells)
    return SetsOfRows(concrete, found, rows, places, weights)


def _summarised_sets(model: Recipe, sets: Sequence[Summaries], schema: Schema | None) -> SetsOfSummaries:
    if schema is not None:
        raise DataError("Summaries hold their schema already: leave schema out.")
    made = [each.made_for(model) for each in sets]
    for index, each in enumerate(made):
        if each.schema != made[0].schema:
            raise DataError(
                f"Data sets 0 and {index} have different schemas (columns, kinds, categories or classes). Summarise "
                "all with one schema=Schema(...) that declares all classes and categories."
            )
    return SetsOfSummaries(made[0].model, made[0].schema, made)
