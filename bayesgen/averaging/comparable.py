"""Whether log evidences are comparable: they must be log densities of the same data."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesgen.data import SEQUENCE, ColumnKinds, Schema, StatedKind, uniform_kind
from bayesgen.errors import FitError
from bayesgen.families import DirichletHistogram, Family
from bayesgen.fitting import Fit, moments_of
from bayesgen.program import ConcreteModel
from bayesgen.runtime import EQUAL
from bayesgen.statistics import Moments, SufficientStatistics, Summary, outer_or_square
from bayesgen.typing import Array, Float

from .fit import AverageFit

CELLS = "cells by class"  # that are observed
TOTALS = "totals by class"
OFFSET = 1e-6  # relative rounding of a mean, in centred sums


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """Statistics that identify the data for every model, up to rounding of `EQUAL` x magnitude.

    Attributes:
        values: any shape.
        magnitude: nonnegative, of the same shape.
    """

    values: np.ndarray
    magnitude: np.ndarray

    @classmethod
    def of(cls, values: Any, magnitude: Any = None) -> "Fingerprint":
        """Of arrays of any type; the magnitude is that of the values unless it is given."""
        return cls(np.asarray(values), np.abs(np.asarray(values)) if magnitude is None else np.asarray(magnitude))

    def differs(self, other: "Fingerprint") -> bool:
        """Whether the two are of different data."""
        tolerance = EQUAL * np.maximum(self.magnitude, other.magnitude)
        return bool((np.abs(self.values - other.values) > tolerance).any())


def fingerprints(fit: Fit, statistics: SufficientStatistics) -> dict[str, Fingerprint]:
    """The fingerprints of a fit's training data from their summaries, by description.

    Fits of the same data with columns of the same kinds share them. Values are NaN where the summary of a column lacks
    them, such as the squares of a binned one; products of columns are shared by blocks of the same columns alone.
    """
    response = fit.concrete.response
    if response is not None:
        return _of_response(fit, statistics.summaries[response.site])
    found = {"rows by class": Fingerprint.of(statistics.class_weights)}
    position = {name: index for index, name in enumerate(fit.schema.columns or ())}
    for block in fit.concrete.conjugate(fit.schema).blocks:
        columns = [position[name] for name in block.columns]
        summary, family = statistics.summaries[block.name], block.family
        if family.kind.has_steps:
            counts = family.counts_by_context(summary, block.columns)
            found |= {name: Fingerprint.of(table) for name, table in counts.items()}
            continue
        for name, of_block in _of_columns(summary.by_column(), family, len(columns)).items():
            shape = (len(of_block.values), len(position), *of_block.values.shape[2:])
            whole = found.setdefault(name, Fingerprint(np.full(shape, np.nan), np.full(shape, np.nan)))
            whole.values[:, columns], whole.magnitude[:, columns] = of_block.values, of_block.magnitude
        found |= _products(summary, block.columns)
        if isinstance(family, DirichletHistogram):
            found |= _counts_by_bin(summary, family, block.columns)
    return found


def _of_response(fit: Fit, summary: Any) -> dict[str, Fingerprint]:
    """The fingerprints of a continuous label, the last column of its block, and of its products with given features."""
    if isinstance(summary, Moments) and summary.mean.ndim == 1:  # a site that is one number a row
        summary = dataclasses.replace(summary, mean=summary.mean[:, None], scatter=summary.scatter[:, None])
    of_columns = _of_columns(summary.by_column(), None, 0)
    found = {
        f"{name} of y": Fingerprint(of_block.values[:, -1], of_block.magnitude[:, -1])
        for name, of_block in of_columns.items()
    }
    basis = None if fit.schema.response is None else fit.schema.response.basis
    if basis is None:
        return found
    features = basis.names if basis.transformer is None else [f"{basis.transformer!r} ({basis.stated})"]
    return found | _products(summary, [*features, "y"])


def fingerprints_of_scale(schema: Schema, total_weight: float) -> dict[str, Fingerprint]:
    """The fingerprints of data without summaries: their weight, and the means and variances that a schema holds."""
    found, moments = {"weights of all rows": Fingerprint.of(total_weight)}, moments_of(schema)
    for name, mean, variance in zip(("columns", "y"), moments[::2], moments[1::2], strict=True):
        if mean is not None and variance is not None:
            reach = np.abs(mean) + np.sqrt(variance)
            found[f"means of {name}"] = Fingerprint.of(mean, reach)
            found[f"variances of {name}"] = Fingerprint.of(variance, variance + OFFSET * reach**2)
    return found


def _of_columns(summary: Any, family: Family | None, num_columns: int) -> dict[str, Fingerprint]:
    """Description -> fingerprint (K, d, ...) of the columns of a block. Binned and real columns share two of them."""
    if isinstance(summary, Moments):
        squares = np.diagonal(summary.scatter, axis1=1, axis2=2) if summary.is_matrix else np.asarray(summary.scatter)
        count = np.broadcast_to(summary.cell_counts, summary.mean.shape)
        totals, spread = np.asarray(count * summary.mean), np.sqrt(count * np.maximum(squares, 0.0))
        return {
            CELLS: Fingerprint.of(count),
            TOTALS: Fingerprint.of(totals, np.abs(totals) + spread),
            "squares about the class means": Fingerprint.of(squares, _magnitude(summary) ** 2),
        }
    if isinstance(family, DirichletHistogram):
        counts, totals = map(np.asarray, summary.totals)
        cells = counts.sum(-1)
        reach = np.abs(np.where(np.isfinite(family.edges), family.edges, 0.0)).max(-1) + family.tails.max(-1)
        return {CELLS: Fingerprint.of(cells), TOTALS: Fingerprint.of(totals, np.abs(totals) + cells * reach)}
    # a joint event has one measure and one count for all its columns
    num_classes, weight = len(summary.log_base), np.asarray(summary.count)
    cells, base = (
        np.broadcast_to(np.reshape(values, (num_classes, -1)), (num_classes, num_columns))
        for values in (summary.cell_counts, summary.log_base)
    )
    found = {CELLS: Fingerprint.of(cells), "log base measures by class": Fingerprint.of(base, 1 + np.abs(base))}
    for index, total in enumerate(map(np.asarray, summary.totals)):
        name = TOTALS if index == 0 else "counts of zeros by class"
        name = name if total.ndim <= 2 else f"counts by class of {total.shape[-1]} values"
        # sums of counts may be differences of the weight of rows and other counts
        reach = np.abs(total) + weight.reshape(*weight.shape, *[1] * (total.ndim - weight.ndim))
        found[name] = Fingerprint.of(total, reach)
    return found


def _counts_by_bin(summary: Any, family: DirichletHistogram, columns: Sequence[str]) -> dict[str, Fingerprint]:
    """The fingerprints of columns with the same bins, which the description names."""
    counts, base = np.asarray(summary.totals[0]), np.asarray(summary.log_base)
    inner, tails = family.edges[..., 1:-1], np.where(family.tails > 0, family.tails, np.inf).min(-1)
    units = 1 + np.abs(inner).max(-1) / tails  # of tails: distances beyond the ends have the rounding of positions
    magnitude = np.abs(base) + counts.sum(-1) * units
    found = {}
    for index, column in enumerate(columns):
        where = f"{column!r} in {family.kind_of_column(index)!r}"
        found[f"counts by class of {where}"] = Fingerprint.of(counts[:, index])
        found[f"log base measures by class of {where}"] = Fingerprint.of(base[:, index], magnitude[:, index])
    return found


def _products(summary: Summary, columns: Sequence[str]) -> dict[str, Fingerprint]:
    """The fingerprint of the products of different columns, where a block has them."""
    if not isinstance(summary, Moments) or not summary.is_matrix:
        return {}
    reach = np.asarray(outer_or_square(_magnitude(summary), True))
    return {f"products about the class means of {', '.join(columns)}": Fingerprint.of(summary.scatter, reach)}


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
        one, other = (next(i for i, value in enumerate(exact) if (value is None) is lacks) for lacks in (False, True))
        raise FitError(
            f"Member {one} has a log evidence, and member {other} an approximation, which is comparable only with "
            "approximations of its kind. Average members of one kind, or use "
            'weights="stacking", which compares densities of rows left out.'
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
    known: dict[str, tuple[int, Fingerprint]] = {}
    for index, leaf in enumerate(leaves):
        why = _difference_of_kind(leaves[0], leaf)
        if why:
            raise FitError(f"The evidences of members 0 and {index} are not comparable: {why}")
        assert leaf.summaries is not None or not have_summaries
        of_leaf = (
            fingerprints(leaf, leaf.summaries.statistics)
            if have_summaries and leaf.summaries
            else fingerprints_of_scale(leaf.schema, leaf.attributes["total_weight"])
        )
        for name, fingerprint in of_leaf.items():
            other, expected = known.setdefault(name, (index, fingerprint))
            if expected.differs(fingerprint):
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
    if _events(one.schema) != _events(other.schema):
        return f"the columns or their kinds differ (binary events are other data than counts). {OTHER_EVENTS}"
    if one.schema.columns != other.schema.columns or one.schema.categories != other.schema.categories:
        return f"the columns' order or their categories differ. {OTHER_ROWS}"
    return None


def _models_columns(fit: Fit) -> bool:
    """Whether the columns of X have a distribution, as they have but in regressions on given features."""
    response, conjugate = fit.concrete.response, fit.concrete.conjugate(fit.schema)
    if response is None or conjugate is None:
        return True
    return response.column not in (None, 0) or len(conjugate.blocks) > 1


def _is_proper(fit: Fit) -> bool:
    """Whether all its parameters have prior densities that integrate to one."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return conjugate is None or all(family.is_proper for _, family in conjugate.families())


def _events(schema: Schema) -> Mapping[str, StatedKind]:
    """The kinds of events of columns: binned columns are real."""
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
    return {tuple(block.columns) for block in conjugate.blocks if block.family.traits.covariate}
