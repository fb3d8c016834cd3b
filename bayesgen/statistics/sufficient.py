"""`SufficientStatistics`: all that the likelihood needs to know of a data set, and how it is made of rows."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from bayesgen.data import Rows, joined
from bayesgen.errors import DataError
from bayesgen.records import record
from bayesgen.runtime import pad, padded_size
from bayesgen.typing import Array, Float, Int, Shaped

from .base import Likelihood
from .passes import Classes, class_counts
from .summaries import Summary, Sums

MOST_DENSE_CELLS = 1 << 27  # of sparse rows that are made dense: a gigabyte


@record
class SufficientStatistics:
    """What the likelihood needs to know of a data set. Those of disjoint rows add up.

    All shapes are fixed, whatever the number of rows, but for the rows that are kept.

    Attributes:
        class_weights: total weight of each class.
        summaries: site -> `Summary`, of the sites that have a likelihood.
        covariates: examples of the covariates, one a class: any will do where only parameters are of interest, and the
            values of rows are in their summaries.
        rows: all labelled rows with labels and weights, where some sites have no likelihood; else None. (Such a site
            may depend on any other.)
        unlabelled: all sites and weights of the rows whose class is not known; None where there are none. All else is
            of the labelled rows alone.
    """

    class_weights: Float[Array, " K"]
    summaries: dict[str, Summary]
    covariates: dict[str, Shaped[Array, "K ..."]] = dataclasses.field(default_factory=dict)
    rows: Rows | None = None
    unlabelled: Rows | None = None

    @property
    def total_weight(self) -> float:
        """How many rows there are, each counted with its weight, whether its class is known or not."""
        unlabelled = 0.0 if self.unlabelled is None else self.unlabelled.frequencies.sum()
        return float(self.class_weights.sum() + unlabelled)

    @property
    def is_complete(self) -> bool:
        """Whether every row has its class, and nothing else that its likelihood depends on is hidden or missing."""
        return self.unlabelled is None and all(summary.is_complete for summary in self.summaries.values())

    @property
    def labels(self) -> Sums:
        """The class weights as a summary of the labels."""
        return Sums(np.asarray(self.class_weights.sum()), (self.class_weights,), np.zeros(()))

    def merge(self, other: "SufficientStatistics") -> "SufficientStatistics":
        """Those of both data sets together."""
        return merged([self, other])

    def __add__(self, other: "SufficientStatistics") -> "SufficientStatistics":
        return self.merge(other)

    def with_empty_class(self, place: int) -> "SufficientStatistics":
        """The same with one more class, of which there are no rows, at this place among the classes."""
        class_weights = np.insert(self.class_weights, place, 0.0)
        summaries = {site: summary.with_empty_class(place) for site, summary in self.summaries.items()}
        rows = self.rows
        if rows is not None:
            rows = dataclasses.replace(rows, labels=np.asarray(rows.labels) + (np.asarray(rows.labels) >= place))
        covariates = first_rows(self.covariates, len(class_weights))
        return dataclasses.replace(
            self, class_weights=class_weights, summaries=summaries, covariates=covariates, rows=rows
        )

    def padded(self) -> "SufficientStatistics":
        """The same with rows of weight zero added, up to a number for which functions are compiled once."""
        summaries = _padded_summaries(self.summaries)
        if self.rows is None and self.unlabelled is None and summaries is self.summaries:
            return self
        rows, unlabelled = (None if part is None else padded_rows(part) for part in (self.rows, self.unlabelled))
        return dataclasses.replace(self, summaries=summaries, rows=rows, unlabelled=unlabelled)


def _padded_summaries(summaries: dict[str, Summary]) -> dict[str, Summary]:
    padded = {site: summary.padded() for site, summary in summaries.items()}
    return summaries if all(padded[site] is summary for site, summary in summaries.items()) else padded


def padded_rows(rows: Rows) -> Rows:
    """The rows and others of weight zero, up to a number for which functions are compiled once; all of them dense.

    Raises:
        DataError: sparse rows that would take too much memory.
    """
    size, num_rows = padded_size(rows.num_rows), rows.num_rows
    padded = jax.tree.map(lambda array: pad(_dense(array), size), rows)
    return dataclasses.replace(padded, weights=np.where(np.arange(size) < num_rows, padded.frequencies, 0.0))


def _dense(array: Any) -> np.ndarray:
    """An array as densities take it: compiled functions know no sparse ones."""
    if not hasattr(array, "tocsr"):
        return np.asarray(array)
    num_rows, num_columns = array.shape
    if num_rows * num_columns > MOST_DENSE_CELLS:
        raise DataError(
            f"{num_rows:,} sparse rows of {num_columns:,} columns, which sampling and searches look at one by one, "
            f"would take {num_rows * num_columns / 2**27:,.0f} GB as the dense array that they need. Use MAP() with "
            "hyperparameters that are numbers, and its joint objective, which keep them sparse; or fewer rows or "
            "columns."
        )
    return array.toarray()


def sufficient_statistics(
    rows: Rows,
    statistics: Mapping[str, Likelihood],
    num_classes: int,
    *,
    measure: Mapping[str, Mapping[str, Array]] | None = None,
    keeps_rows: bool = False,
) -> SufficientStatistics:
    """The sufficient statistics of rows. Those whose class is not known (label -1) are kept.

    Args:
        rows: the data, labelled where there are classes.
        statistics: site -> its likelihood.
        num_classes: K.
        measure: site -> parameters of its base measure, row by row (see `register`), for sites that have any.
        keeps_rows: whether other sites need the rows themselves.
    """
    for site, likelihood in statistics.items():
        why_impossible = likelihood.why_impossible(site, rows, np.arange(rows.num_rows))
        if why_impossible is not None:
            raise DataError(why_impossible)
    labelled, unlabelled = _by_knowledge(rows)
    if unlabelled is not None and measure:
        places = np.flatnonzero(rows.codes >= 0)
        measure = {site: {name: array[places] for name, array in arrays.items()} for site, arrays in measure.items()}
    summaries = summaries_of(labelled, statistics, labelled.codes, num_classes, measure)
    class_weights = class_counts(labelled.codes, num_classes, labelled.weights)
    kept = dataclasses.replace(labelled, weights=labelled.frequencies) if keeps_rows and labelled.num_rows else None
    return SufficientStatistics(class_weights, summaries, first_rows(rows.covariates, num_classes), kept, unlabelled)


def summaries_of(
    rows: Rows,
    statistics: Mapping[str, Likelihood],
    classes: Classes,
    num_classes: int,
    measure: Mapping[str, Mapping[str, Array]] | None = None,
) -> dict[str, Summary]:
    """Site -> the summary of rows.

    Args:
        rows: the data.
        statistics: site -> its likelihood.
        classes: the code of each row, or its responsibilities.
        num_classes: K.
        measure: see `sufficient_statistics`.
    """
    return {
        site: likelihood.summarize(
            rows.values[site],
            classes,
            num_classes,
            rows.weights,
            observed=rows.observed.get(site),
            measure=(measure or {}).get(site),
        )
        for site, likelihood in statistics.items()
    }


def _by_knowledge(rows: Rows) -> tuple[Rows, Rows | None]:
    """The rows whose class is known, and the others, where there are any, without labels and with weights."""
    codes = rows.labels
    if codes is None or not len(codes) or codes.min() >= 0:
        return rows, None
    known = np.flatnonzero(codes >= 0)
    others = _taken(rows, np.flatnonzero(codes < 0)) if len(known) else rows
    return _taken(rows, known), dataclasses.replace(others, labels=None, weights=others.frequencies)


def _taken(rows: Rows, places: Int[Array, " m"]) -> Rows:
    """Some of the rows, with masks for the sites of which they lack some cells."""
    taken = rows.take(places)
    return dataclasses.replace(taken, observed={site: mask for site, mask in taken.observed.items() if not mask.all()})


def merged(parts: Iterable[SufficientStatistics]) -> SufficientStatistics:
    """Those of all data sets together. Rows that are kept are joined once, at the end."""
    iterator = iter(parts)
    total = next(iterator)
    kept, unlabelled = [total.rows], [total.unlabelled]
    for part in iterator:
        summaries = {site: summary.merge(part.summaries[site]) for site, summary in total.summaries.items()}
        total = SufficientStatistics(total.class_weights + part.class_weights, summaries, total.covariates)
        kept.append(part.rows)
        unlabelled.append(part.unlabelled)
    return dataclasses.replace(total, rows=_joined(kept), unlabelled=_joined(unlabelled))


def _joined(parts: list[Rows | None]) -> Rows | None:
    there = [part for part in parts if part is not None]
    return joined(there) if there else None


def first_rows(covariates: Mapping[str, Shaped[Array, "n ..."]], size: int) -> dict[str, Shaped[Array, "size ..."]]:
    """The first row of each covariate, repeated: any value serves where only parameters are of interest."""
    return {name: pad(np.asarray(value)[:1], size) for name, value in covariates.items()}
