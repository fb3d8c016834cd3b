"""Whether log evidences are comparable: they must be log densities of the same data."""

import functools

import numpy as np

from ..errors import FitError
from ..fitting import Fit
from ..statistics.summaries import Moments, Sums

REMEDY = 'Average with weights="stacking", which compares class probabilities only.'


def check_comparable(fits):
    """Refuse fits whose evidences are not densities of the same rows and labels.

    Raises:
        FitError: a fit without evidence, or fits of different data.
    """
    for index, fit in enumerate(fits):
        if fit.log_evidence is None:
            raise FitError(
                f"Member {index} was fitted with {fit.method!r}, which has no log evidence: averaging needs one, and "
                "it is not available yet for NUTS, MLE and MAP. Fit with Exact(), or give the model itself with X= and "
                "y=."
            )
    first = fits[0]
    for index, fit in enumerate(fits[1:], start=1):
        why = _difference(first, fit)
        if why:
            raise FitError(f"The evidences of members 0 and {index} are not comparable: {why} {REMEDY}")


def _difference(one: Fit, other: Fit):
    """What tells the data of two fits apart, in words; None where nothing does."""
    if _conditioned_columns(one) != _conditioned_columns(other):
        return (
            "one is a density given the row totals (multinomial events), the other is not, so they are densities of "
            "different data."
        )
    if one.schema.classes != other.schema.classes:
        return f"the classes are {list(one.schema.classes or ())} and {list(other.schema.classes or ())}."
    if one.summaries is None or other.summaries is None:  # averages, whose members were compared
        return None
    if one.schema.kinds != other.schema.kinds:
        return "the columns or their kinds differ (binary events are other data than counts)."
    if one.schema.columns != other.schema.columns or one.schema.categories != other.schema.categories:
        return "the columns' order or their categories differ."
    counts = [fit.summaries.evidence.class_counts for fit in (one, other)]
    if not np.allclose(counts[0], counts[1], rtol=1e-9):
        return f"they saw different labels y (rows by class {counts[0].tolist()} and {counts[1].tolist()})."
    if not np.allclose(_totals(one), _totals(other), rtol=1e-9, atol=1e-12):
        return "the columns' totals by class differ, so they saw different rows X or labels y."
    return None


def _conditioned_columns(fit):
    """The columns that are modelled given their total."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return {tuple(block.columns) for block in conjugate.blocks if block.family.covariate}


def _totals(fit):
    """(K, D) the total of each column in each class."""
    position = {name: index for index, name in enumerate(fit.schema.columns)}
    totals = np.zeros((len(fit.schema.classes), len(position)))
    for block in fit.concrete.conjugate(fit.schema).blocks:
        where = [position[column] for column in block.columns]
        totals[:, where] = _column_totals(fit.summaries.evidence.summaries[block.name])
    return totals


@functools.singledispatch
def _column_totals(summary):
    """(K, D) of a block."""
    raise NotImplementedError(type(summary).__name__)


@_column_totals.register
def _(summary: Moments):
    return summary.count[:, None] * summary.mean


@_column_totals.register
def _(summary: Sums):
    first = summary.totals[0]
    return first if first.ndim == 2 else first @ np.arange(first.shape[-1])
