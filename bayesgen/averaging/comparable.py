"""Whether log evidences are comparable: they must be log densities of the same data."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.data import SEQUENCE, ColumnKinds, Schema, StatedKind, uniform_kind
from bayesgen.errors import FitError
from bayesgen.families import DirichletHistogram, Family
from bayesgen.fitting import Fit, schema_moments
from bayesgen.program import ConcreteModel
from bayesgen.runtime import EQUAL
from bayesgen.statistics import Moments, SufficientStatistics, Summary, Sums, outer_or_square
from bayesgen.typing import Array, Float

from .fit import AverageFit

CELLS = "cells by class"  # that are observed
TOTALS = "totals by class"
OFFSET = 1e-6  # relative rounding of a mean, in centred sums


@dataclasses.dataclass(frozen=True)
class DataSums:
    """Sums over rows that are the same for every model of the same data, up to rounding of `EQUAL` x magnitude.

    Attributes:
        values: any shape.
        magnitude: nonnegative, of the same shape.
    """

    values: np.ndarray
    magnitude: np.ndarray

    @classmethod
    def of(cls, values: Any, magnitude: Any = None) -> "DataSums":
        """Of arrays of any type; the magnitude is that of the values unless it is given."""
        return cls(np.asarray(values), np.abs(np.asarray(values)) if magnitude is None else np.asarray(magnitude))

    def differs(self, other: "DataSums") -> bool:
        """Whether the two are of different data."""
        tolerance = EQUAL * np.maximum(self.magnitude, other.magnitude)
        return bool((np.abs(self.values - other.values) > tolerance).any())


def data_sums(fit: Fit, statistics: SufficientStatistics) -> dict[str, DataSums]:
    """Sums over the training rows of a fit, by description: fits of the same data share those of one description.

    They are the cells, totals and squares of each class and column, NaN where the summary of a column lacks them, and
    the products of the columns of a block. Sequences have the numbers of rows alone.
    """
    response = fit.concrete.response
    if response is not None:
        return _response_sums(fit, statistics.summaries[response.site])
    by_name = {"rows by class": DataSums.of(statistics.class_weights)}
    if not fit.concrete.has_columns:
        return by_name | _site_sums(statistics)
    position = {name: index for index, name in enumerate(fit.schema.columns or ())}
    for block in fit.concrete.conjugate(fit.schema).blocks:
        if block.family.kind.has_steps:
            continue
        columns, summary = [position[name] for name in block.columns], statistics.summaries[block.name]
        for name, part in _column_sums(summary.by_column(), block.family, len(columns)).items():
            shape = (len(part.values), len(position), *part.values.shape[2:])
            table = by_name.setdefault(name, DataSums(np.full(shape, np.nan), np.full(shape, np.nan)))
            table.values[:, columns], table.magnitude[:, columns] = part.values, part.magnitude
        by_name |= _products(summary, block.columns)
    return by_name


def _site_sums(statistics: SufficientStatistics) -> dict[str, DataSums]:
    """Sums over the attributes of a program, each in one axis of columns."""
    by_name: dict[str, DataSums] = {}
    for site, summary in statistics.summaries.items():
        columns = summary.by_column()
        if isinstance(columns, Moments | Sums):
            sums = _column_sums(columns, None, math.prod(columns.log_base.shape[1:]))
            by_name |= {f"{name} of {site}": part for name, part in sums.items()}
    return by_name


def _response_sums(fit: Fit, summary: Any) -> dict[str, DataSums]:
    """Sums over a continuous label, the last column of its block, and over its products with given features."""
    if isinstance(summary, Moments) and summary.mean.ndim == 1:  # a site that is one number a row
        summary = dataclasses.replace(summary, mean=summary.mean[:, None], scatter=summary.scatter[:, None])
    by_name = {
        f"{name} of y": DataSums(part.values[:, -1], part.magnitude[:, -1])
        for name, part in _column_sums(summary.by_column(), None, 0).items()
    }
    basis = None if fit.schema.response is None else fit.schema.response.basis
    if basis is None:
        return by_name
    features = basis.names if basis.transformer is None else [f"{basis.transformer!r} ({basis.stated})"]
    return by_name | _products(summary, [*features, "y"])


def scale_sums(schema: Schema, total_weight: float) -> dict[str, DataSums]:
    """Sums for data without summaries: their weight, and the means and variances that a schema holds."""
    by_name, moments = {"weights of all rows": DataSums.of(total_weight)}, schema_moments(schema)
    for name, mean, variance in zip(("columns", "y"), moments[::2], moments[1::2], strict=True):
        if mean is not None and variance is not None:
            reach = np.abs(mean) + np.sqrt(variance)
            by_name[f"means of {name}"] = DataSums.of(mean, reach)
            by_name[f"variances of {name}"] = DataSums.of(variance, variance + OFFSET * reach**2)
    return by_name


def _column_sums(summary: Any, family: Family | None, num_columns: int) -> dict[str, DataSums]:
    """Description -> sums (K, d, ...) over the columns of a block. Binned and real columns share two of them."""
    if isinstance(summary, Moments):
        squares = np.diagonal(summary.scatter, axis1=1, axis2=2) if summary.is_matrix else np.asarray(summary.scatter)
        count = np.broadcast_to(summary.cell_counts, summary.mean.shape)
        totals, spread = np.asarray(count * summary.mean), np.sqrt(count * np.maximum(squares, 0.0))
        return {
            CELLS: DataSums.of(count),
            TOTALS: DataSums.of(totals, np.abs(totals) + spread),
            "squares about the class means": DataSums.of(squares, _magnitude(summary) ** 2),
        }
    if isinstance(family, DirichletHistogram):
        counts, totals = map(np.asarray, summary.totals)
        cells = counts.sum(-1)
        reach = np.abs(np.where(np.isfinite(family.edges), family.edges, 0.0)).max(-1) + family.tails.max(-1)
        return {CELLS: DataSums.of(cells), TOTALS: DataSums.of(totals, np.abs(totals) + cells * reach)}
    num_classes, weight = len(summary.log_base), np.asarray(summary.count)
    cells = np.reshape(summary.cell_counts, (num_classes, -1))  # a joint event has one count for all its columns
    by_name = {CELLS: DataSums.of(np.broadcast_to(cells, (num_classes, num_columns)))}
    for index, total in enumerate(map(np.asarray, summary.totals)):
        name = TOTALS if index == 0 else "counts of zeros by class"
        name = name if total.ndim <= 2 else f"counts by class of {total.shape[-1]} values"
        # sums of counts may be differences of the weight of rows and other counts
        reach = np.abs(total) + weight.reshape(*weight.shape, *[1] * (total.ndim - weight.ndim))
        by_name[name] = DataSums.of(total, reach)
    return by_name


def _products(summary: Summary, columns: Sequence[str]) -> dict[str, DataSums]:
    """Sums over the products of different columns, where a block has them."""
    if not isinstance(summary, Moments) or not summary.is_matrix:
        return {}
    reach = np.asarray(outer_or_square(_magnitude(summary), True))
    return {f"products about the class means of {', '.join(columns)}": DataSums.of(summary.scatter, reach)}


def _magnitude(summary: Moments) -> Float[Array, "K d"]:
    """Root of the squares, with the effect of rounding the mean."""
    squares = np.diagonal(summary.scatter, axis1=1, axis2=2) if summary.is_matrix else summary.scatter
    return np.sqrt(np.maximum(squares, 0.0)) + OFFSET * np.sqrt(summary.cell_counts) * np.abs(summary.mean)


OTHER_EVENTS = 'Average with weights="stacking", which compares class probabilities only.'
OTHER_ROWS = "Fit all members to the same rows, with one schema."


def evidences_of(fits: Sequence[Fit]) -> tuple[list[float], bool]:
    """The log evidences of fits, and whether they are approximations, up to a common constant.

    Raises:
        FitError: a fit that has neither; exact and approximate ones together.
    """
    exact, approximate = ([f.log_evidence for f in fits], [f.approximate_log_evidence for f in fits])
    for index, fit in enumerate(fits):
        if exact[index] is None and approximate[index] is None:
            raise FitError(_without_evidence(index, fit))
    values = [value for value in exact if value is not None]
    if 0 < len(values) < len(fits):
        with_exact, without = ([value is None for value in exact].index(lacks) for lacks in (False, True))
        raise FitError(
            f"Member {with_exact} has a log evidence, and member {without} an approximation, which is comparable only "
            'with approximations of its kind. Average members of one kind, or use weights="stacking", which compares '
            "densities of rows left out."
        )
    return values or [value for value in approximate if value is not None], not values


def _without_evidence(index: int, fit: Fit) -> str:
    if fit.concrete.approximates_evidence:
        return (
            f"Member {index} has no approximate log evidence: cells of its rows are missing, or its factors leave no "
            'noise. Fit complete rows, fewer factors, or average with weights="stacking".'
        )
    conjugate = fit.concrete.conjugate(fit.schema)
    has_evidence = conjugate is not None and conjugate.is_closed
    remedy = (
        "Fit with Exact(), or give the model itself with X= and y=."
        if has_evidence
        else "Its model has none by any method: use a single structure."
    )
    return (
        f"Member {index} was fitted with {fit.method!r}, which has no log evidence: averaging needs one, and it is not "
        f"available yet for NUTS, MLE and MAP. {remedy}"
    )


def check_labels_alike(models: Sequence[ConcreteModel]) -> None:
    """Refuse an average of models of classes and models of a continuous label.

    Raises:
        FitError: naming the members.
    """
    continuous = [index for index, model in enumerate(models) if model.response is not None]
    if 0 < len(continuous) < len(models):
        raise FitError(
            f"Members {continuous} have a continuous label and the others have none, so their predictions of y are "
            "not comparable. Average members with a continuous label, or members without."
        )


def check_comparable(fits: Sequence[Fit]) -> None:
    """Refuse fits whose evidences are not densities of the same rows and labels.

    Raises:
        FitError: fits of different data.
    """
    leaves = [_leaf(fit) for fit in fits]
    check_labels_alike([leaf.concrete for leaf in leaves])
    have_summaries = all(leaf.summaries is not None for leaf in leaves)
    first_seen: dict[str, tuple[int, DataSums]] = {}
    for index, leaf in enumerate(leaves):
        why = _difference_of_kind(leaves[0], leaf)
        if why:
            raise FitError(f"The evidences of members 0 and {index} are not comparable: {why}")
        assert leaf.summaries is not None or not have_summaries
        if have_summaries and leaf.summaries:
            by_name = data_sums(leaf, leaf.summaries.statistics)
        else:
            by_name = scale_sums(leaf.schema, leaf.attributes["total_weight"])
        for name, sums in by_name.items():
            other, expected = first_seen.setdefault(name, (index, sums))
            if expected.differs(sums):
                raise FitError(
                    f"The evidences of members {other} and {index} are not comparable: the {name} differ, so they saw "
                    f"different rows X or labels y. {OTHER_ROWS}"
                )


def _leaf(fit: Fit) -> Fit:
    """A member fit of an average; the others have been compared to it."""
    while isinstance(fit, AverageFit):
        fit = fit.members[0]
    return fit


def _difference_of_kind(one: Fit, other: Fit) -> str | None:
    """The difference between the kinds of data of two fits, in words; None where there is none."""
    if _models_columns(one) != _models_columns(other):
        return (
            "one is a density of y given X, which is not modelled, and the other of X and y together, so they are "
            'densities of different data. Average with weights="stacking", which compares log p(y | X) only.'
        )
    if _is_proper(one) != _is_proper(other):
        return (
            "the prior of one has a flat intercept (kappa=0), whose density is 1 in the units of y, and that of the "
            "other has none, so that their ratio depends on these units. Give all members a prior with kappa above 0, "
            "prior=LinearNormalInverseGamma(kappa=0.01), or all of them flat ones."
        )
    if not _models_columns(one) and one.schema.columns != other.schema.columns:
        return (
            "their columns differ, and an average reads one X. Fit all members to the same columns, of which a basis "
            "may take some: basis=ColumnTransformer([('some', 'passthrough', [...])])."
        )
    differing = _differing_ends(one.schema, other.schema)
    if differing:
        return (
            f"column {differing[0]!r} is modelled with the ends of its sequences by one, and given their lengths by "
            "the other, so they are densities of different data. Give the families of all members the same end=."
        )
    if _conditioned_columns(one) != _conditioned_columns(other):
        return (
            "one is a density given the row totals (multinomial events), or lengths, the other is not, so they are "
            f"densities of different data. {OTHER_EVENTS}"
        )
    if one.schema.classes != other.schema.classes:
        return f"the classes are {list(one.schema.classes or ())} and {list(other.schema.classes or ())}. {OTHER_ROWS}"
    if _events(one) != _events(other):
        return f"the columns or their kinds differ (binary events are other data than counts). {OTHER_EVENTS}"
    if one.schema.columns != other.schema.columns or one.schema.categories != other.schema.categories:
        return f"the columns' order or their categories differ. {OTHER_ROWS}"
    return None


def _models_columns(fit: Fit) -> bool:
    """Whether the columns of X have a distribution, as they have but in regressions on given features."""
    response, conjugate = fit.concrete.response, fit.concrete.conjugate(fit.schema)
    if response is None or conjugate is None or not fit.concrete.has_columns:
        return True
    return response.column not in (None, 0) or len(conjugate.blocks) > 1


def _is_proper(fit: Fit) -> bool:
    """Whether all its parameters have prior densities that integrate to one."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return conjugate is None or all(family.is_proper for _, family in conjugate.families())


def _events(fit: Fit) -> Mapping[str, StatedKind]:
    """The kinds of events of columns: binned columns are real; attributes of programs are discrete or not."""
    schema = fit.schema
    if not fit.concrete.has_columns:
        return {name: "discrete" if site.discrete else "real" for name, site in fit.program.structure.attributes}
    common = uniform_kind(schema.kinds)
    if common is not None:
        return ColumnKinds(schema.columns or (), common.events, {})
    return {column: schema.kind_of(column).events for column in schema.kinds}


def _differing_ends(one: Schema, other: Schema) -> list[str]:
    """Columns of sequences whose end is a symbol in one schema only."""
    shared = set(one.columns_of(SEQUENCE)).intersection(other.columns_of(SEQUENCE))
    return sorted(column for column in shared if one.sequence(column).end != other.sequence(column).end)


def _conditioned_columns(fit: Fit) -> set[tuple[str, ...]]:
    """The columns that are modelled given their total or length."""
    if fit.concrete.response is not None:
        return set()
    conjugate = fit.concrete.conjugate(fit.schema)
    return {tuple(block.columns or [block.name]) for block in conjugate.blocks if block.family.traits.covariate}
