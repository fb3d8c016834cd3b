"""`SufficientStatistics`: all that the likelihood needs to know of a data set, and how it is made of rows."""

import dataclasses
from collections.abc import Iterable, Mapping

import jax
import numpy as np

from bayesgen.data import Rows, joined
from bayesgen.records import record
from bayesgen.runtime import pad, padded_size
from bayesgen.typing import Array, Float, Num

from .base import Statistic
from .passes import class_counts
from .summaries import Summary, Sums


@record
class SufficientStatistics:
    """What the likelihood needs to know of a data set. Those of disjoint rows add up.

    All shapes are fixed, whatever the number of rows, but for the rows that are kept.

    Attributes:
        class_weights: total weight of each class.
        summaries: site -> `Summary`, of the sites that have a statistic.
        covariates: examples of the covariates, one a class: any will do where only parameters are of interest, and the
            values of rows are in their summaries.
        rows: all rows with labels and weights, where some sites have no statistic; else None. (Such a site may depend
            on any other.)
    """

    class_weights: Float[Array, " K"]
    summaries: dict[str, Summary]
    covariates: dict[str, Num[Array, "K ..."]] = dataclasses.field(default_factory=dict)
    rows: Rows | None = None

    @property
    def class_counts(self) -> Float[Array, " K"]:
        """`class_weights`, under the name by which users know them."""
        return self.class_weights

    @property
    def labels(self) -> Sums:
        """The class weights as a summary of the labels."""
        return Sums(np.asarray(self.class_weights.sum()), (self.class_weights,), np.zeros(()))

    def merge(self, other: "SufficientStatistics") -> "SufficientStatistics":
        """Those of both data sets together."""
        return merged([self, other])

    def __add__(self, other: "SufficientStatistics") -> "SufficientStatistics":
        return self.merge(other)

    def padded(self) -> "SufficientStatistics":
        """The same with rows of weight zero added, up to a number for which functions are compiled once."""
        if self.rows is None:
            return self
        size, num_rows = padded_size(self.rows.num_rows), self.rows.num_rows
        rows = jax.tree.map(lambda array: pad(array, size), self.rows)
        weights = np.where(np.arange(size) < num_rows, rows.weights, 0.0)
        return dataclasses.replace(self, rows=dataclasses.replace(rows, weights=weights))


def sufficient_statistics(
    rows: Rows,
    statistics: Mapping[str, Statistic],
    num_classes: int,
    *,
    inert: Mapping[str, Mapping[str, Array]] | None = None,
    keeps_rows: bool = False,
) -> SufficientStatistics:
    """The sufficient statistics of rows.

    Args:
        rows: the data, labelled where there are classes.
        statistics: site -> its statistic.
        num_classes: K.
        inert: site -> parameters of its base measure, row by row (see `register`), for sites that have any.
        keeps_rows: whether other sites need the rows themselves.
    """
    summaries = {
        site: statistic.summarize(
            rows.values[site],
            rows.codes,
            num_classes,
            rows.weights,
            observed=rows.observed.get(site),
            inert=(inert or {}).get(site),
        )
        for site, statistic in statistics.items()
    }
    class_weights = class_counts(rows.codes, num_classes, rows.weights)
    kept = dataclasses.replace(rows, weights=_weights(rows)) if keeps_rows else None
    return SufficientStatistics(class_weights, summaries, first_rows(rows.covariates, num_classes), kept)


def merged(parts: Iterable[SufficientStatistics]) -> SufficientStatistics:
    """Those of all data sets together. Rows that are kept are joined once, at the end."""
    iterator = iter(parts)
    total = next(iterator)
    kept = [total.rows]
    for part in iterator:
        summaries = {site: summary.merge(part.summaries[site]) for site, summary in total.summaries.items()}
        total = SufficientStatistics(total.class_weights + part.class_weights, summaries, total.covariates)
        kept.append(part.rows)
    rows = [part for part in kept if part is not None]
    return dataclasses.replace(total, rows=joined(rows)) if rows else total


def first_rows(covariates: Mapping[str, Num[Array, "n ..."]], size: int) -> dict[str, Num[Array, "size ..."]]:
    """The first row of each covariate, repeated: any value serves where only parameters are of interest."""
    return {name: pad(np.asarray(value)[:1], size) for name, value in covariates.items()}


def _weights(rows: Rows) -> Float[Array, " n"]:
    return np.ones(rows.num_rows) if rows.weights is None else rows.weights
