"""Sufficient statistics that an engine says: sums by class, and counts of rows by class and value, in few queries.

Moments are sums of x - s and of its squares and products, where s is the median of a class in the first rows, close
enough to its mean that nothing cancels; where it proves far from the mean, a second query takes the mean itself (Chan,
Golub and LeVeque 1983, as in `statistics.moments`). For discrete columns the answer is a table of values with weights,
of which the likelihood makes the same summary as of rows. NaN is missing, also in engines that tell it from null.
"""

import dataclasses
import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias, cast

import jax
import narwhals as nw
import numpy as np

from bayesgen.data import HEAD, Schema, read_table
from bayesgen.errors import DataError
from bayesgen.program import ConcreteModel
from bayesgen.statistics import CellSums, Likelihood, Moments, SufficientStatistics, Summary, Sums, trailing
from bayesgen.typing import Float, Int, Shaped

from .requests import Request, weighed

MOST_SUMS = 60  # of one query, as the products of 10 columns; chunks are quicker beyond: benchmarks/sources.py
MOST_QUERIES = 32  # one a discrete column
MOST_SHIFTED = 64  # classes with a shift of their own
LABEL, VALUE, WEIGHT = "label", "value", "weight"  # columns of queries
Expressions: TypeAlias = dict[Hashable, nw.Expr]
Groups: TypeAlias = Mapping[Hashable, Float[np.ndarray, " G"]]


def statistics_by_query(
    request: Request, model: ConcreteModel, schema: Schema
) -> tuple[SufficientStatistics, int] | None:
    """The statistics of the rows with a weight, and how many rows there are, as the engine says them.

    None where chunks are to be read: of engines without queries, of models whose statistics are no sums by class, and
    where that is quicker; and of data that have to be looked at row by row, because labels or cells of joint families
    are missing, cells are infinite, or something is to be refused by its row.
    """
    blocks, frame = model.summed_blocks(schema), request.source.frame
    if blocks is None or frame is None or schema.unknown != "error":
        return None
    numbers = [name for _, likelihood, columns in blocks if likelihood.cell_sums.of_numbers for name in columns]
    pairs, start = list[tuple[int, int]](), 0
    for _, likelihood, columns in blocks:
        if likelihood.cell_sums.of_numbers:
            places = range(start, start + len(columns))
            products = likelihood.cell_sums is CellSums.PRODUCTS
            pairs += (
                itertools.combinations_with_replacement(places, 2) if products else zip(places, places, strict=True)
            )
            start += len(columns)
    if len(pairs) > MOST_SUMS or sum(len(columns) for _, _, columns in blocks) - len(numbers) > MOST_QUERIES:
        return None
    queries = Queries(request, schema, weighed(frame, request.weight), numbers, pairs)
    try:
        return queries.statistics(blocks)
    except DataError:  # chunks are read, and name the row
        return None


@dataclasses.dataclass(frozen=True)
class Queries:
    """The queries for one model.

    Attributes:
        request, schema: what is asked of which source, and its schema.
        frame: the rows with a weight.
        numbers: the columns of which moments are asked.
        pairs: of which of them products are asked, by position; of a column with itself the squares.
    """

    request: Request
    schema: Schema
    frame: nw.LazyFrame
    numbers: Sequence[str]
    pairs: Sequence[tuple[int, int]]

    def statistics(
        self, blocks: Sequence[tuple[str, Likelihood, Sequence[str]]]
    ) -> tuple[SufficientStatistics, int] | None:
        """See `statistics_by_query`."""
        labels, sums, shifts = self._sums(*self._first_medians())
        if np.any(sums.get("wrong", 0)) or not all(np.isfinite(values).all() for values in sums.values()):
            return None
        codes = self._codes(labels)
        moments = self._moments(shifts, sums)
        squares = np.diagonal(moments.scatter, axis1=1, axis2=2)
        if (far := moments.count * (moments.mean - shifts) ** 2 > 100.0 * squares).any():
            if len(labels) > MOST_SHIFTED:
                return None
            ordered, again, shifts = self._sums(labels, np.where(far, moments.mean, shifts), with_extremes=True)
            places = [ordered.tolist().index(label) for label in labels.tolist()]  # groups come in any order
            moments = self._moments(shifts[places], {key: values[places] for key, values in again.items()})
        num_classes = max(1, len(self.schema.classes or ()))
        weights = np.bincount(codes, sums[WEIGHT], num_classes)
        by_class = jax.tree.map(lambda array: np.tensordot(np.eye(num_classes)[:, codes], array, 1), moments)
        summaries, start = dict[str, Summary](), 0
        for name, likelihood, columns in blocks:
            if not likelihood.cell_sums.of_numbers:
                summaries[name] = self._counted(likelihood, columns, num_classes)
                continue
            block = slice(start, start := start + len(columns))
            count, is_matrix = by_class.count[:, block], likelihood.cell_sums is CellSums.PRODUCTS
            is_complete = (count == weights[:, None]).all()
            if is_matrix and not is_complete:
                return None
            scatter = by_class.scatter[:, block, block]
            scatter = scatter if is_matrix else np.diagonal(scatter, axis1=1, axis2=2)
            base = np.zeros(num_classes if is_matrix else count.shape)
            summaries[name] = Moments(weights if is_complete else count, by_class.mean[:, block], scatter, base)
        return SufficientStatistics(weights, summaries), int(sums["rows"].sum())

    def _codes(self, labels: Shaped[np.ndarray, " G"]) -> Int[np.ndarray, " G"]:
        """The codes of labels. DataError: missing ones."""
        return np.zeros(len(labels), int) if self.request.label is None else self.schema.encode_labels(labels)

    @property
    def weight(self) -> nw.Expr | None:
        """The weights of rows."""
        return None if self.request.weight is None else nw.col(self.request.weight).cast(nw.Float64)

    @property
    def _label(self) -> nw.Expr:
        return nw.lit(0) if self.request.label is None else nw.col(self.request.label)

    def _value(self, name: str) -> nw.Expr:
        """The cells of a column of numbers, null where they are missing."""
        value = nw.col(name).cast(nw.Float64)
        return nw.when(~value.is_nan()).then(value) if self.request.source.dtypes[name].is_float() else value

    def _first_medians(self) -> tuple[np.ndarray, Float[np.ndarray, "G D"]]:
        """The labels among the first rows, and the medians of their cells: of a constant, its value exactly."""
        columns: Expressions = {("median", index): self._value(name) for index, name in enumerate(self.numbers)}
        rows = self._projected(self.frame.head(HEAD), columns)
        labels, medians = self._grouped(rows, {key: nw.col(self._alias(key)).median() for key in columns})
        cells = np.reshape([medians[key] for key in columns], (len(columns), len(labels))).T
        return labels, np.where(np.isfinite(cells), cells, 0.0)

    def _sums(
        self, labels: np.ndarray, shifts: Float[np.ndarray, "G D"], *, with_extremes: bool = False
    ) -> tuple[np.ndarray, Groups, Float[np.ndarray, "H D"]]:
        """The labels of all rows, sums of distances from shifts, and the shift of each group.

        Shifts are those of these labels; of others, that of the last.
        """
        labels, shifts = labels[:MOST_SHIFTED], shifts[:MOST_SHIFTED]
        default = shifts[-1] if len(shifts) else np.zeros(len(self.numbers))
        by_label, weight = dict(zip(labels.tolist(), shifts, strict=True)), self.weight
        columns: Expressions = {} if weight is None else {WEIGHT: weight}
        for index, name in enumerate(self.numbers):
            shift = nw.lit(float(default[index]))
            for label, own in [*by_label.items()][:-1]:
                shift = nw.when(self._label == label).then(nw.lit(float(own[index]))).otherwise(shift)
            columns["distance", index] = self._value(name) - shift
            columns |= {("value", index): self._value(name)} if with_extremes else {}
        rows = self._projected(self.frame, columns)
        groups, sums = self._grouped(rows, self._asked(with_extremes))
        return groups, sums, np.array([by_label.get(label, default) for label in groups.tolist()])

    def _asked(self, with_extremes: bool) -> Expressions:
        """What is asked of each group: numbers of rows and cells, sums, and products."""
        weight = None if self.request.weight is None else nw.col(WEIGHT)
        asked: Expressions = {"rows": nw.len(), WEIGHT: nw.len() if weight is None else weight.sum()}
        if weight is not None:
            is_wrong = weight.is_null() | ~((weight >= 0) & (weight < float("inf")))
            asked["wrong"] = nw.when(is_wrong).then(1).otherwise(0).sum()
        distances = [nw.col(self._alias(("distance", index))) for index in range(len(self.numbers))]
        for index, distance in enumerate(distances):
            count = distance.count() if weight is None else nw.when(~distance.is_null()).then(weight).sum()
            asked["count", index] = count
            asked["sum", index] = (distance if weight is None else distance * weight).sum()
            if with_extremes:
                value = nw.col(self._alias(("value", index)))
                asked["least", index], asked["most", index] = value.min(), value.max()
        for first, second in self.pairs:
            product = distances[first] * distances[second]
            asked["product", first, second] = (product if weight is None else product * weight).sum()
        return asked

    def _alias(self, key: Hashable) -> str:
        """The name of a column of a query."""
        return "_".join(map(str, key if isinstance(key, tuple) else (key,)))

    def _projected(self, frame: nw.LazyFrame, columns: Expressions) -> nw.LazyFrame:
        """A frame of these columns and of the labels, 0 without any, under names that every engine takes."""
        columns = {LABEL: self._label, **columns}
        return frame.select(*(expression.alias(self._alias(key)) for key, expression in columns.items()))

    def _grouped(self, frame: nw.LazyFrame, asked: Expressions) -> tuple[np.ndarray, Groups]:
        """The labels, and what is asked of the rows of each."""
        expressions = [expression.alias(self._alias(key)) for key, expression in asked.items()]
        answer = self.request.answer(frame.group_by(LABEL).agg(*expressions))
        labels = read_table(answer.select(LABEL).to_native()).column(LABEL)
        return labels, {key: answer[self._alias(key)].fill_null(0).to_numpy().astype(np.float64) for key in asked}

    def _moments(self, shifts: Float[np.ndarray, "#G D"], sums: Groups) -> Moments:
        """The moments of each group, with the products that were asked for and zeros in place of the others."""
        shape = (len(sums["rows"]), len(self.numbers))
        count, total = (np.reshape([sums[key, j] for j in range(shape[1])], shape[::-1]).T for key in ("count", "sum"))
        scatter = np.zeros((*shape, shape[1]))
        shift = total / np.where(count > 0, count, 1.0)
        for i, j in self.pairs:
            scatter[:, i, j] = scatter[:, j, i] = sums["product", i, j] - total[:, i] * shift[:, j]
        mean = np.where(count > 0, shifts + shift, 0.0)
        for index in range(shape[1] if ("least", 0) in sums else 0):  # of a column that is constant nothing is rounded
            is_constant = sums["least", index] == sums["most", index]
            mean[is_constant, index] = sums["least", index][is_constant]
            scatter[is_constant, index] = scatter[is_constant, :, index] = 0.0
        return Moments(count, mean, scatter, np.zeros(shape[0]))

    def _counted(self, likelihood: Likelihood, columns: Sequence[str], num_classes: int) -> Sums:
        """The summary of discrete columns, each from how often its values come in each class."""
        parts = [self._column_summary(likelihood, name, num_classes) for name in columns]
        tables = jax.tree.map(
            lambda *arrays: np.concatenate(arrays, 1), *((part.totals, part.log_base) for part in parts)
        )
        if all(part.count.ndim == 1 for part in parts):
            return Sums(parts[0].count, *tables)
        counts = [np.broadcast_to(trailing(part.count, 2), (num_classes, 1)) for part in parts]
        return Sums(np.concatenate(counts, 1), *tables)

    def _column_summary(self, likelihood: Likelihood, name: str, num_classes: int) -> Sums:
        """The summary of one discrete column."""
        weight = self.weight
        rows = self._projected(self.frame, {VALUE: nw.col(name), **({} if weight is None else {WEIGHT: weight})})
        count = nw.len() if weight is None else nw.col(WEIGHT).sum()
        answer = self.request.answer(rows.group_by(VALUE, LABEL).agg(count.alias(WEIGHT)))
        table = read_table(answer.to_native(), LABEL, WEIGHT)
        kinds, categories = self.schema.kinds, self.schema.categories
        schema = Schema({VALUE: kinds[name]}, {VALUE: categories[name]} if name in categories else {}, columns=(VALUE,))
        values, observed = schema.encode_cells(table, (VALUE,))
        codes = self._codes(np.asarray(table.labels))
        return cast(Sums, likelihood.summarize(values, codes, num_classes, table.weights, observed))
