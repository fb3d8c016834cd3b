"""Moments of jointly normal rows of which cells are missing, by pattern of the observed cells."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from bayesgen.records import record, state_of_fields, static
from bayesgen.runtime import CACHED_CELLS, chunks, pad, padded_size
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import flatten_rows
from .moments import class_moments
from .summaries import Classes, Moments, Summary, class_weights

PART_CELLS = CACHED_CELLS // 2  # of the blocks of a part of the rows: `missing` in benchmarks


@record
class PatternMoments(Summary):
    """Moments of jointly normal rows, in groups: the rows of one class with the same observed cells.

    There may be nearly as many groups as rows, so only groups of several rows have a scatter matrix. Groups are in the
    order of class, number of missing cells, and pattern.

    Attributes:
        observed: mask of the observed cells of each group.
        classes: the class of each group.
        count: the weight of each group.
        mean: zero where cells are missing.
        scatter: of the groups of several rows, about their means; zero where cells are missing.
        scatter_groups: the indices of these groups.
        num_classes: K; None in the summary of one class.
    """

    observed: Bool[Array, " G *event"]
    classes: Int[Array, " G"]
    count: Float[Array, " G"]
    mean: Float[Array, " G *event"]
    scatter: Float[Array, " S *event D"]
    scatter_groups: Int[Array, " S"]
    num_classes: int | None = static()

    @classmethod
    def from_rows(
        cls,
        values: Real[Array, " n *event"],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None,
        observed: Bool[Array, " n *event"],
    ) -> "PatternMoments":
        """Moments of the rows that have a positive weight."""
        if classes.ndim == 2:  # an entry for each row and class
            count = class_weights(classes, num_classes, weights).ravel()
            index, codes = np.divmod(np.arange(len(count)), num_classes)
        else:
            count = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
            index, codes = np.arange(len(values)), np.asarray(classes, np.int64)
        positive = np.flatnonzero(count)
        mask = observed[index[positive]]
        rows = np.where(mask, values[index[positive]], 0.0)
        no_scatter = np.zeros((0, *rows.shape[1:], rows.shape[-1])), np.zeros(0, np.int64)
        return cls(mask, codes[positive], count[positive], rows, *no_scatter, num_classes).regrouped()

    @property
    def is_complete(self) -> bool:
        return False

    @property
    def num_groups(self) -> int:
        return len(self.count)

    @functools.cached_property
    def as_rows(self) -> "PatternRows":
        """Rows with the moments of the groups, whose events are vectors."""
        roots = list(_roots(np.asarray(self.scatter)))
        rows = np.concatenate([np.asarray(self.mean), *(rows for rows, _ in roots)])
        spread_groups = [np.asarray(self.scatter_groups)[places] for _, places in roots]
        group_of_row, classes = np.concatenate([np.arange(self.num_groups), *spread_groups]), np.asarray(self.classes)
        parts: list[tuple[int, Part]] = []
        for k in range(self.num_classes or 1):
            members = np.flatnonzero(classes[group_of_row] == k)
            groups, pattern_of_row = np.unique(group_of_row[members], return_inverse=True)
            class_parts = parts_of(np.asarray(self.observed)[groups], pattern_of_row)
            parts += [(k, dataclasses.replace(part, rows=members[part.rows])) for part in class_parts]
        return PatternRows(rows, np.append(self.count, np.zeros(len(rows) - self.num_groups)), parts)

    __getstate__ = state_of_fields

    def merge(self, other: Summary) -> "PatternMoments":
        return self.joined([other])

    def joined(self, others: Sequence[Summary]) -> "PatternMoments":
        """Merge groups of the same class and pattern."""
        parts = [self]
        for other in others:
            part = _complete_groups(other) if isinstance(other, Moments) else other
            assert isinstance(part, PatternMoments)
            parts.append(part)
        starts = np.cumsum([0, *(part.num_groups for part in parts)])
        return PatternMoments(
            np.concatenate([part.observed for part in parts]),
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.scatter for part in parts]),
            np.concatenate([part.scatter_groups + start for part, start in zip(parts, starts[:-1], strict=True)]),
            self.num_classes,
        ).regrouped()

    def pooled(self) -> "PatternMoments":
        return dataclasses.replace(self, classes=np.zeros_like(self.classes), num_classes=1).regrouped()

    def select_class(self, index: int) -> "PatternMoments":
        groups = np.flatnonzero(self.classes == index)
        with_scatter = np.flatnonzero(np.isin(self.scatter_groups, groups))
        return PatternMoments(
            self.observed[groups],
            np.zeros(len(groups), np.int64),
            self.count[groups],
            self.mean[groups],
            self.scatter[with_scatter],
            np.searchsorted(groups, self.scatter_groups[with_scatter]),
            None,
        )

    def with_empty_class(self, place: int) -> "PatternMoments":
        assert self.num_classes is not None
        classes = self.classes + (self.classes >= place)
        return dataclasses.replace(self, classes=classes, num_classes=self.num_classes + 1)

    def by_column(self) -> Moments:
        """Moments of the observed cells of each column on its own."""
        shape = (self.num_classes or 1, *self.mean.shape[1:])
        means, observed = flatten_rows(self.mean), flatten_rows(self.observed)
        between = class_moments(means, self.classes, shape[0], self.count, observed=observed)
        squares = flatten_rows(np.diagonal(self.scatter, axis1=-2, axis2=-1))
        within = np.zeros((shape[0], means.shape[1]))
        np.add.at(within, self.classes[self.scatter_groups], squares)
        columns = Moments(
            between.count.reshape(shape), between.mean.reshape(shape), (between.scatter + within).reshape(shape),
            np.zeros(shape),
        )  # fmt: skip
        return columns if self.num_classes is not None else columns.select_class(0)

    def padded(self) -> "PatternMoments":
        """The same with groups and scatter matrices of weight zero added, up to sizes that share compilations."""
        size, scatter_groups = padded_size(max(self.num_groups, 1)), padded_size(max(len(self.scatter_groups), 1))
        is_group, has_scatter = np.arange(size) < self.num_groups, np.arange(scatter_groups) < len(self.scatter_groups)
        filled = pad(np.asarray(self.scatter), scatter_groups)
        return PatternMoments(
            pad(np.asarray(self.observed), size),
            np.where(is_group, pad(np.asarray(self.classes), size), 0),
            np.where(is_group, pad(np.asarray(self.count), size), 0.0),
            pad(np.asarray(self.mean), size),
            np.where(has_scatter.reshape(-1, *(1,) * (filled.ndim - 1)), filled, 0.0),
            np.where(has_scatter, pad(np.asarray(self.scatter_groups), scatter_groups), 0),
            self.num_classes,
        )

    def regrouped(self) -> "PatternMoments":
        """The same with groups of equal class and pattern merged, in order."""
        if not self.num_groups:
            return self
        order, starts = _groups(self.observed, self.classes)
        lengths = np.diff(np.append(starts, len(order)))
        group = np.empty(len(order), np.int64)
        group[order] = np.repeat(np.arange(len(starts)), lengths)
        count, rows = self.count[order], self.mean[order]
        mean = _means(rows, count, starts, group[order])
        scatter_groups = np.union1d(np.flatnonzero(lengths > 1), group[self.scatter_groups])
        scatter = np.zeros((len(scatter_groups), *self.scatter.shape[1:]))
        several = np.flatnonzero(lengths[scatter_groups] > 1)
        groups = scatter_groups[several]
        for part, products in _cross_products(rows, count, mean[groups], starts[groups], lengths[groups]):
            scatter[several[part]] = products
        _add_at(scatter, np.searchsorted(scatter_groups, group[self.scatter_groups]), self.scatter)
        first = order[starts]
        count = np.add.reduceat(count, starts)
        return dataclasses.replace(
            self, observed=self.observed[first], classes=self.classes[first], count=count, mean=mean, scatter=scatter,
            scatter_groups=scatter_groups,
        )  # fmt: skip


def patterns_of(
    observed: Bool[np.ndarray, " n *cells"],
) -> tuple[Bool[np.ndarray, " P *cells"], Int[np.ndarray, " n"]]:
    """The distinct patterns of observed cells, those with most cells first, and the index of each row's pattern."""
    if len(observed) and not observed.strides[0]:  # rows that share one mask
        return observed[:1], np.zeros(len(observed), np.int64)
    order, starts = _groups(observed, np.zeros(len(observed), np.int64))
    pattern_of_row = np.empty(len(observed), np.int64)
    pattern_of_row[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    return observed[order[starts]], pattern_of_row


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows with the same number of missing cells, so few that their blocks stay in cache.

    Attributes:
        rows: their places.
        missing: the missing columns of each pattern among them.
        pattern: the pattern of each row.
    """

    rows: Int[np.ndarray, " g"]
    missing: Int[np.ndarray, "s p"]
    pattern: Int[np.ndarray, " g"] | slice


def parts_of(patterns: Bool[np.ndarray, "P D"], pattern_of_row: Int[np.ndarray, " n"]) -> list[Part]:
    """The rows in parts, from patterns of observed cells and the pattern of each row. See `patterns_of`."""
    order = np.argsort(pattern_of_row, kind="stable")
    num_missing = (~patterns).sum(1)[pattern_of_row[order]]
    parts, start = [], 0
    for end in (np.flatnonzero(np.diff(num_missing, append=-1)) + 1).tolist():
        size = int(num_missing[start])
        for part in chunks(end - start, PART_CELLS // max(size**2, patterns.shape[1])):
            rows = order[start + part.start : start + part.stop]
            first, last = pattern_of_row[rows[0]], pattern_of_row[rows[-1]]
            missing = np.nonzero(~patterns[first : last + 1])[1].reshape(last + 1 - first, size)
            pattern = slice(None) if len(missing) == len(rows) else pattern_of_row[rows] - first
            parts.append(Part(rows, np.ascontiguousarray(missing.T), pattern))
        start = end
    return parts


@dataclasses.dataclass(frozen=True)
class PatternRows:
    """Rows with the moments of groups: the means, and then rows whose products add up to the scatter matrices.

    Attributes:
        rows: zero where cells are missing.
        weights: of the means; zero for the others.
        parts: the class and the rows of each part.
    """

    rows: Float[np.ndarray, "N D"]
    weights: Float[np.ndarray, " N"]
    parts: list[tuple[int, Part]]


def _roots(
    scatter: Float[np.ndarray, "S D D"],
) -> Iterator[tuple[Float[np.ndarray, "r D"], Int[np.ndarray, " r"]]]:
    """For some of the matrices at a time, rows whose products add up to each, as few as its rank; and its index."""
    for part in chunks(len(scatter), PART_CELLS // scatter[0].size if len(scatter) else 1):
        deviations = np.sqrt(np.diagonal(scatter[part], axis1=1, axis2=2))
        units = np.where(deviations > 0, deviations, 1.0)
        squares, vectors = np.linalg.eigh(scatter[part] / (units[:, :, None] * units[:, None, :]))
        place, axis = np.nonzero(squares > len(units.T) * np.finfo(float).eps * squares[:, -1:])
        yield np.sqrt(squares[place, axis])[:, None] * vectors[place, :, axis] * units[place], part.start + place


def _groups(observed: Bool[Array, " n *cells"], classes: Int[Array, " n"]) -> tuple[Int[Array, " n"], Int[Array, " G"]]:
    """Rows ordered by class, number of missing cells, pattern and place; and the start of each group in this order."""
    flat = flatten_rows(observed)
    packed = np.packbits(flat, axis=1)
    num_words = max(-(-packed.shape[1] // 8), 1)
    padded = np.zeros((len(flat), 8 * num_words), np.uint8)
    padded[:, : packed.shape[1]] = packed
    words = padded.view(">u8").astype(np.uint64)
    keys = [*words.T[::-1], flat.shape[1] - flat.sum(1), classes]
    order = np.lexsort(keys)
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
    return order, np.flatnonzero(is_first)


def _complete_groups(moments: Moments) -> PatternMoments:
    """Moments of complete rows, one group a class."""
    classes = np.flatnonzero(moments.count)
    return PatternMoments(
        np.ones((len(classes), *moments.mean.shape[1:]), bool),
        classes,
        moments.count[classes],
        moments.mean[classes],
        moments.scatter[classes],
        np.arange(len(classes)),
        len(moments.count),
    )


def _means(
    rows: Float[Array, " n *event"], count: Float[Array, " n"], starts: Int[Array, " G"], group: Int[Array, " n"]
) -> Float[Array, " G *event"]:
    """Means of groups of successive rows, about the first row of each, so that means of equal rows are exact."""
    if len(starts) == len(rows):
        return rows
    means, lengths = rows[starts], np.diff(starts, append=len(rows))
    several = lengths > 1  # sums of short segments take long, and most groups have one row where there are many
    members, ends = np.flatnonzero(several[group]), np.cumsum(lengths[several])
    weights = count[members].reshape(-1, *(1,) * (rows.ndim - 1))
    sums = np.add.reduceat(weights * (rows[members] - means[group[members]]), ends - lengths[several], axis=0)
    means[several] += sums / np.add.reduceat(weights, ends - lengths[several], axis=0)
    return means


def _cross_products(
    rows: Float[Array, " n *event"],
    count: Float[Array, " n"],
    mean: Float[Array, " G *event"],
    starts: Int[Array, " G"],
    lengths: Int[Array, " G"],
) -> Iterator[tuple[Int[Array, " part"], Float[Array, " part *event D"]]]:
    """Indices of some of the groups of successive rows, and their scatter matrices, a part at a time.

    Groups of about the same length are padded by rows of weight zero and multiplied together: few products of many
    matrices.
    """
    different, length_index = np.unique(lengths, return_inverse=True)
    sizes = np.array([padded_size(length) for length in different.tolist()], np.int64)[length_index]
    for size in np.unique(sizes).tolist():
        same_size = np.flatnonzero(sizes == size)
        for part in chunks(len(same_size), max(CACHED_CELLS // (size * rows[0].size), 1)):
            groups = same_size[part]
            step = np.arange(size)
            is_row = step < lengths[groups, None]
            members = starts[groups, None] + np.where(is_row, step, 0)
            weights = np.where(is_row, count[members], 0.0)
            residuals = np.moveaxis(np.asarray(rows[members] - mean[groups, None]), 1, -2)
            weighted = weights.reshape(len(groups), *(1,) * (residuals.ndim - 3), size, 1) * residuals
            yield groups, np.swapaxes(weighted, -1, -2) @ residuals


def _add_at(totals: Float[Array, " S *event"], places: Int[Array, " s"], terms: Float[Array, " s *event"]) -> None:
    """`np.add.at` along the first axis, in rounds of different places: faster for terms that are matrices."""
    order = np.argsort(places, kind="stable")
    firsts = np.flatnonzero(np.diff(places[order], prepend=-1))
    round_of_term = np.arange(len(order)) - np.repeat(firsts, np.diff(firsts, append=len(order)))
    for number in range(round_of_term.max(initial=-1) + 1):
        members = order[round_of_term == number]
        totals[places[members]] += terms[members]
