"""`SufficientStatistics` of a data set, and how they are computed from rows."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from bayesgen.data import Rows, joined_rows
from bayesgen.errors import DataError
from bayesgen.records import record
from bayesgen.runtime import pad, shared_size
from bayesgen.typing import Array, Float, Int, Shaped

from .arrays import any_known, namespace
from .base import Likelihood
from .summaries import Classes, Summary, Sums, class_counts


@record
class SufficientStatistics:
    """The sufficient statistics of a data set. Statistics of disjoint rows are added.

    Only the shapes of retained rows depend on the number of rows.

    Attributes:
        class_weights: total weight of each class.
        summaries: site -> `Summary`, of the sites that have a likelihood.
        covariates: example values of the covariates, one a class, to run the program with; summaries hold the values
            of rows.
        rows: all sites of the labelled rows, with labels and weights, where some site has no likelihood; else None.
            (Such a site may depend on any other.)
        unlabelled: all sites and weights of the rows without a label; None where there are none. All other fields are
            those of the labelled rows.
    """

    class_weights: Float[Array, " K"]
    summaries: dict[str, Summary]
    covariates: dict[str, Shaped[Array, "K ..."]] = dataclasses.field(default_factory=dict)
    rows: Rows | None = None
    unlabelled: Rows | None = None

    @property
    def total_weight(self) -> float:
        """The total weight of labelled and unlabelled rows."""
        unlabelled = 0.0 if self.unlabelled is None else self.unlabelled.frequencies.sum()
        return float(self.class_weights.sum() + unlabelled)

    @property
    def bytes_retained(self) -> int:
        """Memory that rows take which no statistic of a fixed size stands for."""
        incomplete = [summary for summary in self.summaries.values() if not summary.is_complete]
        return sum(leaf.nbytes for leaf in jax.tree.leaves((self.rows, self.unlabelled, incomplete)))

    @property
    def is_complete(self) -> bool:
        """Whether every row has a label, and all summaries are complete."""
        return self.unlabelled is None and all(summary.is_complete for summary in self.summaries.values())

    @property
    def labels(self) -> Sums:
        """The class weights as a summary of the labels."""
        total = namespace(self.class_weights).asarray(self.class_weights.sum())
        return Sums(total, (self.class_weights,), np.zeros(()))

    def __add__(self, other: "SufficientStatistics") -> "SufficientStatistics":
        """The sufficient statistics of both data sets together."""
        return merged([self, other])

    def with_empty_class(self, place: int) -> "SufficientStatistics":
        """The same with one more class, without rows, at this index."""
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
        """The same with rows of weight zero added, up to a number that shares compilations."""
        summaries = {site: summary.padded() for site, summary in self.summaries.items()}
        are_same = all(summaries[site] is summary for site, summary in self.summaries.items())
        if self.rows is None and self.unlabelled is None and are_same:
            return self
        rows, unlabelled = (None if part is None else padded_rows(part) for part in (self.rows, self.unlabelled))
        return dataclasses.replace(self, summaries=summaries, rows=rows, unlabelled=unlabelled)


def padded_rows(rows: Rows) -> Rows:
    """Dense rows, and others of weight zero up to a number that shares compilations.

    Raises:
        DataError: sparse rows that would take too much memory.
    """
    size, num_rows = shared_size(rows.num_rows), rows.num_rows
    padded = jax.tree.map(lambda array: pad(_dense(array), size), rows)
    return dataclasses.replace(padded, weights=np.where(np.arange(size) < num_rows, padded.frequencies, 0.0))


def _dense(array: Any) -> np.ndarray:
    """A dense array, which compiled functions need."""
    if not hasattr(array, "tocsr"):
        return np.asarray(array)
    num_rows, num_columns = array.shape
    gigabytes = num_rows * num_columns / 2**27
    if gigabytes > 1:
        raise DataError(
            f"{num_rows:,} sparse rows of {num_columns:,} columns, which sampling and searches look at one by one, "
            f"would take {gigabytes:,.0f} GB as the dense array that they need. Use MAP() with "
            "hyperparameters that are numbers, and its joint objective, which keep them sparse; or fewer rows or "
            "columns."
        )
    return array.toarray()


def sufficient_statistics(
    rows: Rows,
    statistics: Mapping[str, Likelihood],
    num_classes: int,
    *,
    row_parameters: Mapping[str, Mapping[str, Array]] | None = None,
    keeps_rows: bool = False,
) -> SufficientStatistics:
    """The sufficient statistics of rows. Rows without a label (-1) are retained.

    Args:
        rows: the data, labelled where there are classes.
        statistics: site -> its likelihood.
        num_classes: K.
        row_parameters: site -> its known quantities of each row (see `register`), for sites that have any.
        keeps_rows: whether other sites have no likelihood, so that rows are retained.
    """
    for site, likelihood in statistics.items():
        why_impossible = likelihood.why_impossible(site, rows, np.arange(rows.num_rows))
        if why_impossible is not None:
            raise DataError(why_impossible)
    labelled, unlabelled = _by_label(rows)
    if unlabelled is not None and row_parameters:
        labelled_rows = np.flatnonzero(rows.codes >= 0)
        row_parameters = {
            site: {name: array[labelled_rows] for name, array in arrays.items()}
            for site, arrays in row_parameters.items()
        }
    summaries = summaries_of(labelled, statistics, labelled.codes, num_classes, row_parameters)
    class_weights = class_counts(labelled.codes, num_classes, labelled.weights)
    covariates = first_rows(rows.covariates, num_classes)
    retained = dataclasses.replace(labelled, weights=labelled.frequencies) if keeps_rows and labelled.num_rows else None
    return SufficientStatistics(class_weights, summaries, covariates, retained, unlabelled)


def summaries_of(
    rows: Rows,
    statistics: Mapping[str, Likelihood],
    classes: Classes,
    num_classes: int,
    row_parameters: Mapping[str, Mapping[str, Array]] | None = None,
) -> dict[str, Summary]:
    """Site -> the summary of rows.

    Args:
        rows: the data.
        statistics: site -> its likelihood.
        classes: the code of each row, or its responsibilities.
        num_classes: K.
        row_parameters: see `sufficient_statistics`.
    """
    return {
        site: likelihood.summarize(
            rows.values[site],
            classes,
            num_classes,
            rows.weights,
            observed=rows.observed.get(site),
            row_parameters=(row_parameters or {}).get(site),
        )
        for site, likelihood in statistics.items()
    }


def _by_label(rows: Rows) -> tuple[Rows, Rows | None]:
    """The rows with a label, and those without, if there are any, which have weights and no labels."""
    codes = rows.labels
    if codes is None or not any_known(codes < 0):
        return rows, None
    labelled_rows = np.flatnonzero(codes >= 0)
    unlabelled = _selected(rows, np.flatnonzero(codes < 0)) if len(labelled_rows) else rows
    return _selected(rows, labelled_rows), dataclasses.replace(unlabelled, labels=None, weights=unlabelled.frequencies)


def _selected(rows: Rows, places: Int[Array, " m"]) -> Rows:
    """Some of the rows, with masks for the sites of which they have missing cells."""
    selection = rows.take(places)
    observed = {site: mask for site, mask in selection.observed.items() if not mask.all()}
    return dataclasses.replace(selection, observed=observed)


MOST_PENDING = 64  # summaries of chunks that wait to be joined: more would take memory, fewer copy what they retain


def merged(parts: Iterable[SufficientStatistics]) -> SufficientStatistics:
    """The sufficient statistics of all data sets together. Retained rows are joined many chunks at a time."""
    iterator = iter(parts)  # of chunks that are read one by one
    first, second = next(iterator), next(iterator, None)
    if second is None:
        return first
    retained, unlabelled, class_weights = [first.rows], [first.unlabelled], first.class_weights
    pending = {site: [summary] for site, summary in first.summaries.items()}
    for part in itertools.chain([second], iterator):
        class_weights = class_weights + part.class_weights
        pending = {site: _with_summary(summaries, part.summaries[site]) for site, summaries in pending.items()}
        retained.append(part.rows)
        unlabelled.append(part.unlabelled)
    summaries = {site: _joined_summaries(waiting) for site, waiting in pending.items()}
    return SufficientStatistics(
        class_weights, summaries, first.covariates, _joined_rows(retained), _joined_rows(unlabelled)
    )


def _with_summary(pending: list[Summary], summary: Summary) -> list[Summary]:
    """The list of summaries to be joined, with one more; summaries of fixed size merge at once."""
    if pending[-1].is_complete and summary.is_complete:
        return [*pending[:-1], pending[-1].merge(summary)]
    pending = [*pending, summary]
    return pending if len(pending) < MOST_PENDING else [_joined_summaries(pending)]


def _joined_summaries(summaries: list[Summary]) -> Summary:
    """One summary of all rows. A summary that retains rows, if there is one, joins the others to itself."""
    first = next((place for place, summary in enumerate(summaries) if not summary.is_complete), 0)
    return summaries[first].joined([*summaries[:first], *summaries[first + 1 :]])


def _joined_rows(parts: list[Rows | None]) -> Rows | None:
    retained = [part for part in parts if part is not None]
    return joined_rows(retained) if retained else None


def first_rows(covariates: Mapping[str, Shaped[Array, "n ..."]], size: int) -> dict[str, Shaped[Array, "size ..."]]:
    """The first row of each covariate, repeated: example values to run the program with."""
    return {name: pad(np.asarray(value)[:1], size) for name, value in covariates.items()}
