"""Whether log evidences are comparable: they must be log densities of the same data."""

import dataclasses
from collections.abc import Mapping, Sequence

from bayesgen.data import SEQUENCE, Binned, ColumnKinds, Kind, Schema
from bayesgen.errors import FitError
from bayesgen.fitting import Fit
from bayesgen.program import ConcreteModel

from .facts import Fact, facts, facts_of_scale
from .fit import AverageFit

OTHER_EVENTS = 'Average with weights="stacking", which compares class probabilities only.'
OTHER_ROWS = "Fit all members to the same rows, with one schema."


@dataclasses.dataclass(frozen=True)
class Evidences:
    """What fits are weighed by.

    Attributes:
        values: log evidences, or approximations of them up to what all share.
        is_approximate: whether they are approximations.
    """

    values: list[float]
    is_approximate: bool


def evidences_of(fits: Sequence[Fit]) -> Evidences:
    """The log evidences of fits, all exact or all approximate.

    Raises:
        FitError: a fit that has neither; exact ones beside approximate ones.
    """
    exact, approximate = ([f.log_evidence for f in fits], [f.approximate_log_evidence for f in fits])
    for index, fit in enumerate(fits):
        if exact[index] is None and approximate[index] is None:
            raise FitError(_without_evidence(index, fit))
    values = [value for value in exact if value is not None]
    if len(values) == len(fits):
        return Evidences(values, False)
    if values:
        one, other = (next(i for i, value in enumerate(exact) if (value is None) is lacks) for lacks in (False, True))
        raise FitError(
            f"Member {one} has its log evidence, and member {other} an approximation of its own, up to what fits of "
            "its kind share: the two are not comparable. Average each kind for itself, or with "
            'weights="stacking", which compares densities of rows left out.'
        )
    return Evidences([value for value in approximate if value is not None], True)


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
    """Refuse models of classes beside models of a continuous label.

    Raises:
        FitError: naming the members.
    """
    continuous = [index for index, model in enumerate(models) if model.response is not None]
    if 0 < len(continuous) < len(models):
        raise FitError(
            f"Members {continuous} have a continuous label and the others have none: what they say of y is of "
            "different things. Average those with one, or those without."
        )


def check_comparable(fits: Sequence[Fit]) -> None:
    """Refuse fits whose evidences are not densities of the same rows and labels.

    Raises:
        FitError: fits of different data.
    """
    leaves = [_leaf(fit) for fit in fits]
    check_labels_alike([leaf.concrete for leaf in leaves])
    have_summaries = all(leaf.summaries is not None for leaf in leaves)
    known: dict[str, tuple[int, Fact]] = {}
    for index, leaf in enumerate(leaves):
        why = _difference(leaves[0], leaf)
        if why:
            raise FitError(f"The evidences of members 0 and {index} are not comparable: {why}")
        assert leaf.summaries is not None or not have_summaries
        of_leaf = facts(leaf, leaf.summaries.statistics) if have_summaries and leaf.summaries else facts_of_scale(leaf)
        for name, fact in of_leaf.items():
            other, expected = known.setdefault(name, (index, fact))
            if expected.differs(fact):
                raise FitError(
                    f"The evidences of members {other} and {index} are not comparable: the {name} differ, so they saw "
                    f"different rows X or labels y. {OTHER_ROWS}"
                )


def _leaf(fit: Fit) -> Fit:
    """A fit of the data of an average: of its first member, to which the others have been compared."""
    while isinstance(fit, AverageFit):
        fit = fit.members[0]
    return fit


def _difference(one: Fit, other: Fit) -> str | None:
    """What tells the kinds of data of two fits apart, in words; None where nothing does."""
    if _models_columns(one) != _models_columns(other):
        return (
            "one is a density of y given X, which is not modelled, and the other of X and y together, so they are "
            'densities of different data. Average with weights="stacking", which compares log p(y | X) only.'
        )
    if _is_proper(one) != _is_proper(other):
        return (
            "the prior of one has a flat intercept (kappa=0), whose density is 1 in the units of y, and that of the "
            "other has none, so that their ratio hangs on these units. Give all members a prior with kappa above 0, "
            "prior=LinearNormalInverseGamma(kappa=0.01), or all of them flat ones."
        )
    if not _models_columns(one) and one.schema.columns != other.schema.columns:
        return (
            "their columns differ, and an average reads one X. Fit all members to the same columns, of which a basis "
            "may take some: basis=ColumnTransformer([('some', 'passthrough', [...])])."
        )
    apart = _ends_apart(one.schema, other.schema)
    if apart:
        return (
            f"column {apart[0]!r} is modelled with the ends of its sequences by one, and given their lengths by the "
            "other, so they are densities of different data. Give the families of all members the same end=."
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
    """Whether the columns of X have a distribution, which they have but in regressions on what is given."""
    response, conjugate = fit.concrete.response, fit.concrete.conjugate(fit.schema)
    if response is None or conjugate is None:
        return True
    return response.column not in (None, 0) or len(conjugate.blocks) > 1


def _is_proper(fit: Fit) -> bool:
    """Whether all its parameters have prior densities that integrate to one."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return conjugate is None or all(family.is_proper for _, family in conjugate.families())


def _events(schema: Schema) -> Mapping[str, Kind]:
    """The kinds of columns, as far as they say what their densities are of: the numbers of binned ones are real."""
    kinds = schema.kinds
    if isinstance(kinds, ColumnKinds) and not kinds.overrides and not isinstance(kinds.default, Binned):
        return kinds
    return {column: "real" if isinstance(kind, Binned) else kind for column, kind in kinds.items()}


def _ends_apart(one: Schema, other: Schema) -> list[str]:
    """Columns of sequences of which one schema has the end as a symbol, and the other has not."""
    shared = set(one.columns_of(SEQUENCE)).intersection(other.columns_of(SEQUENCE))
    return sorted(column for column in shared if one.sequence(column).end != other.sequence(column).end)


def _conditioned_columns(fit: Fit) -> set[tuple[str, ...]]:
    """The columns that are modelled given their total."""
    if fit.concrete.response is not None:
        return set()
    conjugate = fit.concrete.conjugate(fit.schema)
    return {tuple(block.columns) for block in conjugate.blocks if block.family.covariate}
