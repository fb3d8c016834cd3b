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
from .summaries import Classes, Moments, Summary, class_sums, class_weights

PART_CELLS = CACHED_CELLS // 2  # of the blocks of a part of the rows: `missing` in benchmarks


@record
class PatternMoments(Summary):
    """Moments of jointly normal rows, in groups: the rows of one class with the same observed cells.

    There may be nearly as many groups as rows. So a group has no scatter matrix, but a few rows whose products add up
    to it: one less than the group, and at most one for each column. Groups are in the order of class, number of missing
    cells, and pattern.

    Attributes:
        observed: mask of the observed cells of each group.
        classes: the class of each group.
        count: the weight of each group.
        mean: zero where cells are missing.
        spread: rows whose products add up to the scatter matrices of their groups; zero where cells are missing.
        spread_groups: the group of each.
        num_classes: K; None in the summary of one class.
    """

    observed: Bool[Array, " G *event"]
    classes: Int[Array, " G"]
    count: Float[Array, " G"]
    mean: Float[Array, " G *event"]
    spread: Float[Array, " S *event"]
    spread_groups: Int[Array, " S"]
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
        no_spread = rows[:0], np.zeros(0, np.int64)
        return cls(mask, codes[positive], count[positive], rows, *no_spread, num_classes).regrouped()

    @property
    def is_complete(self) -> bool:
        return False

    @property
    def num_groups(self) -> int:
        return len(self.count)

    @functools.cached_property
    def as_rows(self) -> "PatternRows":
        """Rows with the moments of the groups, whose events are vectors."""
        group_of_row = np.concatenate([np.arange(self.num_groups), self.spread_groups])
        classes, parts = np.asarray(self.classes)[group_of_row], []
        for k in range(self.num_classes or 1):
            members = np.flatnonzero(classes == k)
            groups, pattern_of_row = np.unique(group_of_row[members], return_inverse=True)
            class_parts = parts_of(np.asarray(self.observed)[groups], pattern_of_row)
            parts += [(k, dataclasses.replace(part, rows=members[part.rows])) for part in class_parts]
        weights = np.append(self.count, np.ones(len(self.spread)))
        is_mean = np.arange(len(group_of_row)) < self.num_groups
        return PatternRows(np.concatenate([self.mean, self.spread]), weights, is_mean, parts)

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
            np.concatenate([part.spread for part in parts]),
            np.concatenate([part.spread_groups + start for part, start in zip(parts, starts[:-1], strict=True)]),
            self.num_classes,
        ).regrouped()

    def pooled(self) -> "PatternMoments":
        return dataclasses.replace(self, classes=np.zeros_like(self.classes), num_classes=1).regrouped()

    def select_class(self, index: int) -> "PatternMoments":
        groups = np.flatnonzero(self.classes == index)
        members = np.flatnonzero(self.classes[self.spread_groups] == index)
        return PatternMoments(
            self.observed[groups],
            np.zeros(len(groups), np.int64),
            self.count[groups],
            self.mean[groups],
            self.spread[members],
            np.searchsorted(groups, self.spread_groups[members]),
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
        within = class_sums(flatten_rows(self.spread) ** 2, self.classes[self.spread_groups], shape[0])
        columns = Moments(
            between.count.reshape(shape), between.mean.reshape(shape), (between.scatter + within).reshape(shape),
            np.zeros(shape),
        )  # fmt: skip
        return columns if self.num_classes is not None else columns.select_class(0)

    def padded(self) -> "PatternMoments":
        """The same with groups of weight zero and rows of zeros added, up to sizes that share compilations."""
        size, num_spread = padded_size(max(self.num_groups, 1)), padded_size(max(len(self.spread), 1))
        is_group, is_spread = np.arange(size) < self.num_groups, np.arange(num_spread) < len(self.spread)
        spread = pad(np.asarray(self.spread), num_spread)
        return PatternMoments(
            pad(np.asarray(self.observed), size),
            np.where(is_group, pad(np.asarray(self.classes), size), 0),
            np.where(is_group, pad(np.asarray(self.count), size), 0.0),
            pad(np.asarray(self.mean), size),
            np.where(is_spread.reshape(-1, *(1,) * (spread.ndim - 1)), spread, 0.0),
            np.where(is_spread, pad(np.asarray(self.spread_groups), num_spread), 0),
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
        count, rows, group_of_row = self.count[order], self.mean[order], group[order]
        mean, first = _means(rows, count, starts, group_of_row), order[starts]
        members = np.flatnonzero(lengths[group_of_row] > 1)
        several = group_of_row[members]
        is_first = np.diff(several, prepend=-1) > 0
        between = _spread_between(rows[members] - mean[several], np.sqrt(count[members]), is_first, several)
        spread_groups = np.concatenate([group[self.spread_groups], several[~is_first]])
        spread, spread_groups = _fewest(np.concatenate([self.spread, between]), spread_groups)
        return PatternMoments(
            self.observed[first], self.classes[first], np.add.reduceat(count, starts), mean, spread, spread_groups,
            self.num_classes,
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
        missing: the missing columns of each pattern among them, which may be repeated.
        pattern: the pattern of each row; a slice where there is one for each.
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
            index, pattern = pattern_of_row[rows], slice(None)
            first, last = index[0], index[-1]
            if last + 1 - first < 0.75 * len(rows):  # else a block for each row costs less than copies of shared ones
                index, pattern = np.arange(first, last + 1), index - first
            missing = np.flatnonzero(~patterns[index]).reshape(len(index), size) % patterns.shape[1]
            parts.append(Part(rows, np.ascontiguousarray(missing.T), pattern))
        start = end
    return parts


@dataclasses.dataclass(frozen=True)
class PatternRows:
    """Rows with the moments of groups: the means, and then rows whose products add up to the scatter matrices.

    Attributes:
        rows: zero where cells are missing.
        weights: of the means, which may be zero; one for the others.
        is_mean: which rows are means.
        parts: the class and the rows of each part.
    """

    rows: Float[np.ndarray, "N D"]
    weights: Float[np.ndarray, " N"]
    is_mean: Bool[np.ndarray, " N"]
    parts: list[tuple[int, Part]]


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
    spread, num_columns = _roots(np.asarray(moments.scatter)[classes]), moments.mean.shape[-1]
    return PatternMoments(
        np.ones((len(classes), *moments.mean.shape[1:]), bool),
        classes,
        moments.count[classes],
        moments.mean[classes],
        spread,
        np.repeat(np.arange(len(classes)), num_columns),
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


def _spread_between(
    residuals: Float[Array, " n *event"],
    roots: Float[Array, " n"],
    is_first: Bool[Array, " n"],
    group: Int[Array, " n"],
) -> Float[Array, " r *event"]:
    """Rows whose products add up to the scatter of groups of successive rows, one less than rows in each group.

    A row counts by the root of its weight. The reflection that takes these roots, a vector for each group, to its first
    axis leaves nothing of the first row, because weighted residuals add up to zero.

    Source: Golub and Van Loan (2013), Matrix Computations, section 5.1.2, the sign of a Householder vector.
    """
    first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1][~is_first]
    share = roots[first] / (np.sqrt(np.bincount(group, roots**2)[group[~is_first]]) + roots[first])
    trailing_axes = (-1, *(1,) * (residuals.ndim - 1))
    shifted = residuals[~is_first] - share.reshape(trailing_axes) * residuals[first]
    return roots[~is_first].reshape(trailing_axes) * shifted


def _fewest(
    rows: Float[np.ndarray, " n *event"], group: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " S *event"], Int[np.ndarray, " S"]]:
    """Rows in the order of groups, with the same sums of products, but at most one a column in each group."""
    order = np.argsort(group, kind="stable")
    rows, group = rows[order], group[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    lengths, num_columns = np.diff(starts, append=len(group)), rows.shape[-1]
    many = lengths > num_columns
    if not many.any():
        return rows, group
    few = ~np.repeat(many, lengths)
    rows_of_many, groups_of_many = [rows[few]], [group[few]]
    for members, products in _cross_products(rows, starts[many], lengths[many]):
        rows_of_many.append(_roots(products))
        groups_of_many.append(np.repeat(group[starts[many][members]], num_columns))
    group = np.concatenate(groups_of_many)
    order = np.argsort(group, kind="stable")
    return np.concatenate(rows_of_many)[order], group[order]


def _roots(scatter: Float[np.ndarray, " G *event D"]) -> Float[np.ndarray, " R *event"]:
    """For each matrix as many rows as columns, whose products add up to it; zero where a column does not vary.

    Matrices that are not finite give rows that are not: `check_magnitudes` refuses their columns by name.
    """
    deviations = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))[..., None, :]
    units = np.where(deviations > 0, deviations, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        correlations = scatter / np.swapaxes(units, -1, -2) / units
        is_finite = np.isfinite(correlations).all((-2, -1), keepdims=True)
        squares, vectors = np.linalg.eigh(np.where(is_finite, correlations, 0.0))
        rows = np.sqrt(np.maximum(squares, 0.0))[..., :, None] * np.swapaxes(vectors, -1, -2) * deviations
    rows = np.where(is_finite, rows, deviations)
    return np.moveaxis(rows, -2, 1).reshape(-1, *scatter.shape[1:-1])


def _cross_products(
    rows: Float[np.ndarray, " n *event"], starts: Int[np.ndarray, " G"], lengths: Int[np.ndarray, " G"]
) -> Iterator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, " part *event D"]]]:
    """Indices of some of the groups of successive rows, and the sums of products of their rows, a part at a time.

    Groups of about the same length are padded by rows of zeros and multiplied together: few products of many matrices.
    """
    different, length_index = np.unique(lengths, return_inverse=True)
    sizes = np.array([padded_size(length) for length in different.tolist()], np.int64)[length_index]
    for size in np.unique(sizes).tolist():
        same_size = np.flatnonzero(sizes == size)
        for part in chunks(len(same_size), max(CACHED_CELLS // (size * rows[0].size), 1)):
            groups = same_size[part]
            is_row = np.arange(size) < lengths[groups, None]
            members = starts[groups, None] + np.where(is_row, np.arange(size), 0)
            padded = np.where(is_row.reshape(*is_row.shape, *(1,) * (rows.ndim - 1)), rows[members], 0.0)
            columns = np.moveaxis(padded, 1, -2)
            yield groups, np.swapaxes(columns, -1, -2) @ columns
