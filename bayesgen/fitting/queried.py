"""Sufficient statistics that an engine says: sums by class, and counts of rows by class and value, in few queries.

Moments are sums of x - s and of its squares and products, where s is a median of the first rows, of all classes where
theirs lie close together and else of the class, close enough to the mean that nothing cancels; where it proves far from
the mean, a second query takes the mean itself (Chan, Golub and LeVeque 1983, as in `statistics.moments`). For discrete
columns the answer is a table of values with weights, of which the likelihood makes the same summary as of rows. NaN is
missing, also in engines that tell it from null.
"""

import dataclasses
import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import jax
import narwhals as nw
import numpy as np

from bayesgen.data import COUNT, HEAD, Kind, Schema, read_table
from bayesgen.errors import DataError
from bayesgen.program import ConcreteModel
from bayesgen.statistics import POISSON, CellSums, Likelihood, Moments, SufficientStatistics, Summary, Sums, trailing
from bayesgen.typing import Category, Float, Int, Shaped

from .requests import ReducedRows, Request, weighed

MOST_SUMS = 60  # of one query, as the products of 10 columns; chunks are quicker beyond: benchmarks/sources.py
MOST_QUERIES = 32  # one a discrete column
MOST_SHIFTED = 64  # classes with a shift of their own
FAR = 100.0  # variances between a shift and the mean, squared, which lose two digits
LABEL, VALUE, WEIGHT, ROWS, WRONG = "label", "value", "weight", "rows", "wrong"  # columns of queries
Expressions: TypeAlias = dict[str, nw.Expr]
GroupSums: TypeAlias = Mapping[str, Float[np.ndarray, " G"]]
NamedBlock: TypeAlias = tuple[str, Likelihood, Sequence[str]]


def statistics_by_query(request: Request, model: ConcreteModel, schema: Schema) -> ReducedRows | None:
    """The statistics of the rows with a weight, as the engine says them.

    None where chunks are to be read: of engines without queries, of models whose statistics are no sums by class, and
    where that is quicker; and of data that have to be looked at row by row, because labels or cells of joint families
    are missing, cells are infinite, or something is to be refused by its row.
    """
    blocks, frame = model.summed_blocks(schema), request.source.frame
    if blocks is None or frame is None or schema.unknown != "error":
        return None
    named = [(site, likelihood, [name or str(request.label) for name in names]) for site, likelihood, names in blocks]
    queries = Queries(request, schema, weighed(frame, request.weight), named)
    if queries.num_products > MOST_SUMS or queries.num_counts > MOST_QUERIES:
        return None
    if not all(request.source.dtypes[name].is_numeric() for name in queries.numbers):
        return None
    try:
        return queries.statistics()
    except DataError:  # chunks are read, and name the row
        return None


@dataclasses.dataclass(frozen=True)
class Queries:
    """The queries for one model.

    Attributes:
        request, schema: what is asked of which source, and its schema.
        frame: the rows with a weight.
        blocks: site, likelihood and columns of each block.
    """

    request: Request
    schema: Schema
    frame: nw.LazyFrame
    blocks: Sequence[NamedBlock]

    @functools.cached_property
    def numbers(self) -> list[str]:
        """The columns of which moments are asked."""
        return [name for _, likelihood, columns in self.blocks if likelihood.cell_sums.of_numbers for name in columns]

    @functools.cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Of which of these products are asked, by position; of a column with itself the squares."""
        pairs = [(place, place) for place in range(len(self.numbers))]
        for _, likelihood, columns in self.blocks:
            if likelihood.cell_sums is CellSums.PRODUCTS:
                pairs += itertools.combinations(map(self.numbers.index, columns), 2)
        return pairs

    @property
    def num_products(self) -> int:
        """How many products are asked of each class."""
        joint = [len(columns) for _, likelihood, columns in self.blocks if likelihood.cell_sums is CellSums.PRODUCTS]
        return len(self.numbers) + sum(size * (size - 1) // 2 for size in joint)

    @property
    def num_counts(self) -> int:
        """How many columns and totals there are whose values are counted."""
        blocks = [(likelihood.cell_sums, columns) for _, likelihood, columns in self.blocks]
        return sum(len(columns) + (sums is CellSums.TOTALS) for sums, columns in blocks if not sums.of_numbers)

    @property
    def num_classes(self) -> int:
        """The number of classes, 1 without any."""
        return max(1, len(self.schema.classes or ()))

    def statistics(self) -> ReducedRows | None:
        """See `statistics_by_query`."""
        answer = self._moments()
        if answer is None:
            return None
        labels, sums, moments = answer
        codes = self._codes(labels)
        weights = np.bincount(codes, sums[WEIGHT], self.num_classes)
        by_class = jax.tree.map(lambda array: np.tensordot(np.eye(self.num_classes)[:, codes], array, 1), moments)
        summaries: dict[str, Summary] = {}
        for name, likelihood, columns in self.blocks:
            is_counted = not likelihood.cell_sums.of_numbers
            summary = (
                self._counted(likelihood, columns)
                if is_counted
                else self._summed(likelihood, columns, weights, by_class)
            )
            if summary is None:
                return None
            summaries[name] = summary
        return ReducedRows(statistics=SufficientStatistics(weights, summaries), num_rows=int(sums[ROWS].sum()))

    def _codes(self, labels: Shaped[np.ndarray, " G"]) -> Int[np.ndarray, " G"]:
        """The codes of labels. DataError: missing ones."""
        return np.zeros(len(labels), int) if self.schema.classes is None else self.schema.encode_labels(labels)

    def _answer(self, frame: nw.LazyFrame, columns: Expressions, asked: Expressions, *by: str) -> nw.DataFrame:
        """What is asked of the rows of each group, of columns that have names which every engine takes.

        Groups are those of labels, 0 without classes, and of the columns of `by`.
        """
        has_classes, weight = self.schema.classes is not None, self.request.weight
        columns = {LABEL: nw.col(str(self.request.label)) if has_classes else nw.lit(0), **columns}
        columns |= {} if weight is None else {WEIGHT: nw.col(weight).cast(nw.Float64)}
        projected, aggregates = ([column.alias(key) for key, column in part.items()] for part in (columns, asked))
        return self.request.answer(frame.select(*projected).group_by(LABEL, *by).agg(*aggregates))

    def _weighted(self, expression: nw.Expr) -> nw.Expr:
        return expression if self.request.weight is None else expression * nw.col(WEIGHT)

    @property
    def _weight(self) -> nw.Expr:
        """The weight of a group."""
        return nw.len() if self.request.weight is None else nw.col(WEIGHT).sum()

    # Numbers.

    def _value(self, name: str) -> nw.Expr:
        """The cells of a column of numbers, null where they are missing."""
        value = nw.col(name).cast(nw.Float64)
        return nw.when(~value.is_nan()).then(value) if self.request.source.dtypes[name].is_float() else value

    def _moments(self) -> tuple[np.ndarray, GroupSums, Moments] | None:
        """The labels of all rows, sums over the rows of each, and their moments.

        None where digits are lost, or cells or weights are no finite numbers. The first shifts are medians of the first
        rows: of a constant column, its value exactly.
        """
        values = {f"x{place}": self._value(name) for place, name in enumerate(self.numbers)}
        asked = {key: nw.col(key).median() for key in values} | {f"{key} std": nw.col(key).std() for key in values}
        labels, first = self._grouped(self.frame.head(HEAD), values, asked)
        cells = np.reshape([first[key] for key in asked], (2, len(values), len(labels))).swapaxes(1, 2)
        shifts, deviations = np.where(np.isfinite(cells), cells, 0.0)
        with np.errstate(over="ignore"):
            common = np.median(shifts, axis=0) if len(labels) else np.zeros(len(values))
            is_common = (np.abs(shifts - common) <= FAR**0.5 * deviations).all(0)  # a shift for each class costs time
        shifts = np.where(is_common, common, shifts)
        for _ in range(2):
            labels, shifts, sums = self._sums(labels[:MOST_SHIFTED], shifts[:MOST_SHIFTED])
            if np.any(sums.get(WRONG, 0)) or not all(np.isfinite(values).all() for values in sums.values()):
                return None
            moments = self._moments_about(shifts, sums)
            squares = np.diagonal(moments.scatter, axis1=1, axis2=2)
            far = moments.count * (moments.mean - shifts) ** 2 > FAR * squares
            if not far.any():
                return labels, sums, moments
            shifts = np.where(far, moments.mean, shifts)
        return None

    def _sums(
        self, labels: np.ndarray, shifts: Float[np.ndarray, "G D"]
    ) -> tuple[np.ndarray, Float[np.ndarray, "H D"], GroupSums]:
        """The labels of all rows, the shift of each, and sums of distances from it and of their products.

        Shifts are those of these labels; of other labels, that of the last.
        """
        default = shifts[-1] if len(shifts) else np.zeros(len(self.numbers))
        by_label = dict(zip(labels.tolist(), shifts, strict=True))
        distances: Expressions = {}
        for place, name in enumerate(self.numbers):
            shift = nw.lit(float(default[place]))
            for label, shifts_of_label in by_label.items():
                if shifts_of_label[place] != default[place]:
                    is_label = nw.col(str(self.request.label)) == label
                    shift = nw.when(is_label).then(nw.lit(float(shifts_of_label[place]))).otherwise(shift)
            distances[f"x{place}"] = self._value(name) - shift
        asked: Expressions = {ROWS: nw.len(), WEIGHT: self._weight}
        if self.request.weight is not None:
            weight = nw.col(WEIGHT)
            is_wrong = weight.is_null() | ~((weight >= 0) & (weight < float("inf")))
            asked[WRONG] = nw.when(is_wrong).then(1).otherwise(0).sum()
        for key in distances:
            distance = nw.col(key)
            weights = nw.when(~distance.is_null()).then(nw.col(WEIGHT))
            asked[f"{key} count"] = distance.count() if self.request.weight is None else weights.sum()
            asked[f"{key} sum"] = self._weighted(distance).sum()
        for i, j in self.pairs:
            asked[f"x{i} x{j}"] = self._weighted(nw.col(f"x{i}") * nw.col(f"x{j}")).sum()
        groups, sums = self._grouped(self.frame, distances, asked)
        return groups, np.array([by_label.get(label, default) for label in groups.tolist()]), sums

    def _grouped(self, frame: nw.LazyFrame, columns: Expressions, asked: Expressions) -> tuple[np.ndarray, GroupSums]:
        """The labels, and what is asked of the rows of each."""
        answer = self._answer(frame, columns, asked)
        labels = read_table(answer.select(LABEL).to_native()).column(LABEL)
        return labels, {key: answer[key].fill_null(0).to_numpy().astype(np.float64) for key in asked}

    def _moments_about(self, shifts: Float[np.ndarray, "G D"], sums: GroupSums) -> Moments:
        """The moments of each group, with the products that were asked for and zeros in place of the others."""
        num_groups, num_columns = shifts.shape
        count, total = (
            np.reshape([sums[f"x{j} {key}"] for j in range(num_columns)], (num_columns, num_groups)).T
            for key in ("count", "sum")
        )
        scatter = np.zeros((num_groups, num_columns, num_columns))
        distance = total / np.where(count > 0, count, 1.0)
        for i, j in self.pairs:
            scatter[:, i, j] = scatter[:, j, i] = sums[f"x{i} x{j}"] - total[:, i] * distance[:, j]
        return Moments(count, np.where(count > 0, shifts + distance, 0.0), scatter, np.zeros(num_groups))

    def _summed(
        self, likelihood: Likelihood, columns: Sequence[str], weights: Float[np.ndarray, " K"], moments: Moments
    ) -> Moments | None:
        """The summary of a block of numbers; None where cells of columns that go together are missing."""
        block = np.array([self.numbers.index(name) for name in columns])
        count, scatter = moments.count[:, block], moments.scatter[:, block[:, None], block]
        is_matrix, is_complete = likelihood.cell_sums is CellSums.PRODUCTS, bool((count == weights[:, None]).all())
        if is_matrix and not is_complete:
            return None
        scatter = scatter if is_matrix else np.diagonal(scatter, axis1=1, axis2=2)
        base = np.zeros(count.shape[: 1 if is_matrix else 2])
        return Moments(weights if is_complete else count, moments.mean[:, block], scatter, base)

    # Values that are counted.

    def _counted(self, likelihood: Likelihood, columns: Sequence[str]) -> Sums | None:
        """The summary of discrete columns, each from how often its values come in each class.

        Given their total, counts with Poisson distributions are multinomial: so the coefficient of a row is the base
        measures of its cells less that of their total. None where cells of these are missing.
        """
        kinds, categories = self.schema.kinds, self.schema.categories
        has_totals = likelihood.cell_sums is CellSums.TOTALS
        cell = POISSON if has_totals else likelihood
        parts = [self._counts(cell, nw.col(name), kinds[name], categories.get(name)) for name in columns]
        joined = jax.tree.map(lambda *arrays: np.concatenate([trailing(array, 2) for array in arrays], 1), *parts)
        are_complete = all(part.count.ndim == 1 for part in parts)
        joined = dataclasses.replace(joined, count=parts[0].count) if are_complete else joined
        if not has_totals:
            return joined
        total = functools.reduce(operator.add, (nw.col(name).cast(nw.Float64) for name in columns))
        base = joined.log_base.sum(1) - self._counts(cell, total, COUNT).log_base[:, 0]
        return dataclasses.replace(joined, log_base=base) if are_complete else None

    def _counts(
        self, likelihood: Likelihood, value: nw.Expr, kind: Kind | str, categories: Sequence[Category] | None = None
    ) -> Sums:
        """The summary of one discrete column, or of values that are computed from several."""
        answer = self._answer(self.frame, {VALUE: value}, {ROWS: self._weight}, VALUE)
        table = read_table(answer.to_native(), LABEL, ROWS)
        schema = Schema({VALUE: kind}, {} if categories is None else {VALUE: categories}, columns=(VALUE,))
        values, observed = schema.encode_cells(table, (VALUE,))
        codes = self._codes(np.asarray(table.labels))
        return cast(Sums, likelihood.summarize(values, codes, self.num_classes, table.weights, observed))
