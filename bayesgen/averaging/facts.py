"""What summaries say of the data whatever the model, and whether two of them may be of the same rows and labels."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgen.data import SEQUENCE
from bayesgen.distributions import CountsAndRows
from bayesgen.families import DirichletHistogram, DirichletMarkov, Family
from bayesgen.fitting import Fit
from bayesgen.program import Response
from bayesgen.statistics import Moments, PatternMoments, SufficientStatistics, Summary, Sums, outer_or_square
from bayesgen.typing import Array, Float

RELATIVE = 1e-9
CELLS = "cells by class"  # that are there
TOTALS = "totals by class"
OFFSET = 1e-6  # rounding of a mean by this share of it makes no other data of centred sums


@dataclasses.dataclass(frozen=True)
class Fact:
    """Statistics of the data, with the size below which, times `RELATIVE`, a difference is rounding.

    Attributes:
        values: any shape.
        size: nonnegative, of the same shape.
    """

    values: np.ndarray
    size: np.ndarray

    def differs(self, other: "Fact") -> bool:
        """Whether the two are not of the same data."""
        tolerance = RELATIVE * np.maximum(self.size, other.size)
        return bool((np.abs(self.values - other.values) > tolerance).any())


def facts(fit: Fit, statistics: SufficientStatistics) -> dict[str, Fact]:
    """What the summaries of a fit's sites say, by words for it.

    All fits of the same data whose columns have the same kinds have these facts, NaN where the summary of a column does
    not tell one, such as the squares of one that is binned; products of columns by a block of the same columns alone.
    """
    counts = np.asarray(statistics.class_weights)
    if fit.concrete.response is not None:
        return _of_response(fit.concrete.response, statistics) | _of_features(fit, statistics)
    found = {"rows by class": Fact(counts, counts)}
    position = {name: index for index, name in enumerate(fit.schema.columns or ())}
    for block in fit.concrete.conjugate(fit.schema).blocks:
        columns = [position[name] for name in block.columns]
        summary = statistics.summaries[block.name]
        family = block.family
        if family.kind == SEQUENCE:
            found |= _of_sequences(summary, family, block.columns)
            continue
        binned = isinstance(family, DirichletHistogram)
        of_block = _of_bins(summary, family) if binned else _of_block(summary, len(columns))
        for name, fact in of_block.items():
            _place(found, name, fact, columns, len(position))
        found |= _products(summary, block.columns)
        if isinstance(family, DirichletHistogram):
            found |= _counts_by_bin(summary, family, block.columns)
    return found


def _of_response(response: Response, statistics: SufficientStatistics) -> dict[str, Fact]:
    """What is known of a continuous label, the last column of its block, whatever it is modelled with."""
    summary = statistics.summaries[response.site]
    if isinstance(summary, Moments) and summary.mean.ndim == 1:  # a site that is one number a row
        summary = dataclasses.replace(summary, mean=summary.mean[:, None], scatter=summary.scatter[:, None])
    of_columns = _of_block(summary, 0)
    return {f"{name} of y": Fact(fact.values[:, -1], fact.size[:, -1]) for name, fact in of_columns.items()}


def _of_features(fit: Fit, statistics: SufficientStatistics) -> dict[str, Fact]:
    """What is known of a continuous label and the features that it is modelled with, where these are given."""
    response, column = fit.concrete.response, fit.schema.response
    if response is None or column is None or column.basis is None:
        return {}
    basis = column.basis
    features = basis.names if basis.transformer is None else [repr(basis.transformer)]
    return _products(statistics.summaries[response.site], [*features, "y"])


def facts_of_scale(fit: Fit) -> dict[str, Fact]:
    """What is known of the data of a fit that keeps no summaries: their weight, and the means and variances."""
    weight, schema = np.asarray(fit.attributes["total_weight"], np.float64), fit.schema
    assert schema.mean is not None and schema.variance is not None
    reach = np.abs(schema.mean) + np.sqrt(schema.variance)
    return {
        "weights of all rows": Fact(weight, weight),
        "means of columns": Fact(np.asarray(schema.mean), reach),
        "variances of columns": Fact(np.asarray(schema.variance), schema.variance + OFFSET * reach**2),
    }


def _place(found: dict[str, Fact], name: str, fact: Fact, columns: Sequence[int], num_columns: int) -> None:
    """Put a block's (K, d, ...) where its columns are among all, (K, D, ...)."""
    shape = (len(fact.values), num_columns, *fact.values.shape[2:])
    whole = found.setdefault(name, Fact(np.full(shape, np.nan), np.full(shape, np.nan)))
    whole.values[:, columns], whole.size[:, columns] = fact.values, fact.size


@functools.singledispatch
def _of_block(summary: Any, num_columns: int) -> dict[str, Fact]:
    """Words -> (K, d, ...)."""
    raise NotImplementedError(type(summary).__name__)


@_of_block.register
def _(summary: Moments, num_columns: int) -> dict[str, Fact]:
    scatter = np.asarray(summary.scatter)
    squares = np.diagonal(scatter, axis1=1, axis2=2) if summary.is_matrix else scatter
    count = np.broadcast_to(summary.cell_counts, summary.mean.shape)
    totals, spread = np.asarray(count * summary.mean), np.sqrt(count * np.maximum(squares, 0.0))
    return {
        CELLS: Fact(count, count),
        TOTALS: Fact(totals, np.abs(totals) + spread),
        "squares about the class means": Fact(squares, np.asarray(_reach(summary)) ** 2),
    }


@_of_block.register
def _(summary: PatternMoments, num_columns: int) -> dict[str, Fact]:
    return _of_block(summary.by_column(), num_columns)


@_of_block.register
def _(summary: Sums, num_columns: int) -> dict[str, Fact]:
    each = {_words(index, total): _sum(total, summary.count) for index, total in enumerate(summary.totals)}
    counts = np.asarray(summary.cell_counts).reshape(len(summary.log_base), -1)
    counts = np.broadcast_to(counts, (len(counts), num_columns))
    base = summary.log_base.reshape(len(summary.log_base), -1)
    base = np.broadcast_to(base, (len(base), num_columns))  # that of a block which is one event is its columns'
    return {CELLS: Fact(counts, counts)} | each | {"log base measures by class": Fact(base, 1 + np.abs(base))}


def _of_bins(summary: Any, family: DirichletHistogram) -> dict[str, Fact]:
    """What binned columns share with real ones, whatever the bins: their cells and totals."""
    counts, totals = map(np.asarray, summary.totals)
    cells = counts.sum(-1)
    reach = np.abs(np.where(np.isfinite(family.edges), family.edges, 0.0)).max(-1) + family.tails.max(-1)
    return {CELLS: Fact(cells, cells), TOTALS: Fact(totals, np.abs(totals) + cells * reach)}


def _of_sequences(summary: Any, family: Family, columns: Sequence[str]) -> dict[str, Fact]:
    """What chains of all orders above some share: the counts that this one would have, the start included."""
    if not isinstance(family, DirichletMarkov):
        return {}
    whole = summary.counts if isinstance(summary, CountsAndRows) else summary
    counts, contexts = np.asarray(whole.totals[0]), family.contexts
    found = {}
    for order in range(contexts.order + 1):
        of_order = contexts.counts_of_order(counts, order)
        name = f"symbols by class and by the {order} before them, of {', '.join(map(repr, columns))}"
        found[name] = Fact(of_order, of_order)
    return found


def _counts_by_bin(summary: Any, family: DirichletHistogram, columns: Sequence[str]) -> dict[str, Fact]:
    """What columns in the same bins share, so that the words have the bins."""
    counts, base = np.asarray(summary.totals[0]), np.asarray(summary.log_base)
    inner, tails = family.edges[..., 1:-1], np.where(family.tails > 0, family.tails, np.inf).min(-1)
    units = 1 + np.abs(inner).max(-1) / tails  # of tails: distances beyond the ends are rounded as places are
    size = np.abs(base) + counts.sum(-1) * units
    found = {}
    for index, column in enumerate(columns):
        where = f"{column!r} in {family.kind_of_column(index)!r}"
        found[f"counts by class of {where}"] = Fact(counts[:, index], counts[:, index])
        found[f"log base measures by class of {where}"] = Fact(base[:, index], size[:, index])
    return found


def _sum(total: Float[Array, "K ..."], count: Float[Array, "K ..."]) -> Fact:
    """Sums of counts, which may be differences of the number of rows and others."""
    total, count = np.asarray(total), np.asarray(count)
    return Fact(total, np.abs(total) + count.reshape(*count.shape, *[1] * (total.ndim - count.ndim)))


def _words(index: int, total: Float[Array, "K ..."]) -> str:
    if total.ndim > 2:
        return f"counts by class of {total.shape[-1]} values"
    return TOTALS if index == 0 else "counts of zeros by class"


def _products(summary: Summary, columns: Sequence[str]) -> dict[str, Fact]:
    """The products of different columns, where a block has them."""
    if not isinstance(summary, Moments) or not summary.is_matrix:
        return {}
    reach = np.asarray(outer_or_square(_reach(summary), True))
    return {f"products about the class means of {', '.join(columns)}": Fact(np.asarray(summary.scatter), reach)}


def _reach(summary: Moments) -> Float[Array, "K d"]:
    """Root of the squares, with what rounding of the mean may add."""
    squares = np.diagonal(summary.scatter, axis1=1, axis2=2) if summary.is_matrix else summary.scatter
    return np.sqrt(np.maximum(squares, 0.0)) + OFFSET * np.sqrt(summary.cell_counts) * np.abs(summary.mean)
