"""Whether log evidences are comparable: they must be log densities of the same data."""

from collections.abc import Mapping, Sequence

from bayesgen.data import Binned, ColumnKinds, Kind, Schema
from bayesgen.errors import FitError
from bayesgen.fitting import Fit

from .facts import Fact, facts
from .fit import AverageFit

OTHER_EVENTS = 'Average with weights="stacking", which compares class probabilities only.'
OTHER_ROWS = "Fit all members to the same rows, with one schema."


def check_comparable(fits: Sequence[Fit]) -> None:
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
    leaves = [_leaf(fit) for fit in fits]
    known: dict[str, tuple[int, Fact]] = {}
    for index, leaf in enumerate(leaves):
        why = _difference(leaves[0], leaf)
        if why:
            raise FitError(f"The evidences of members 0 and {index} are not comparable: {why}")
        assert leaf.summaries is not None
        for name, fact in facts(leaf, leaf.summaries.statistics).items():
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
    if _conditioned_columns(one) != _conditioned_columns(other):
        return (
            "one is a density given the row totals (multinomial events), the other is not, so they are densities of "
            f"different data. {OTHER_EVENTS}"
        )
    if one.schema.classes != other.schema.classes:
        return f"the classes are {list(one.schema.classes or ())} and {list(other.schema.classes or ())}. {OTHER_ROWS}"
    if _events(one.schema) != _events(other.schema):
        return f"the columns or their kinds differ (binary events are other data than counts). {OTHER_EVENTS}"
    if one.schema.columns != other.schema.columns or one.schema.categories != other.schema.categories:
        return f"the columns' order or their categories differ. {OTHER_ROWS}"
    return None


def _events(schema: Schema) -> Mapping[str, Kind]:
    """The kinds of columns, as far as they say what their densities are of: the numbers of binned ones are real."""
    kinds = schema.kinds
    if isinstance(kinds, ColumnKinds) and not kinds.overrides and not isinstance(kinds.default, Binned):
        return kinds
    return {column: "real" if isinstance(kind, Binned) else kind for column, kind in kinds.items()}


def _conditioned_columns(fit: Fit) -> set[tuple[str, ...]]:
    """The columns that are modelled given their total."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return {tuple(block.columns) for block in conjugate.blocks if block.family.covariate}
