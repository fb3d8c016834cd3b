"""How the training data of a fit grow: by more rows, or by the rows of one more class."""

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from bayesgen.data import Table, as_category, category_array, read_tables, with_category
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError
from bayesgen.posteriors import Point
from bayesgen.typing import Data, Values

from .export import class_axes
from .summaries import Summaries, as_summaries, summarize_tables
from .trained import TrainedProgram

Grown = TypeVar("Grown", bound=TrainedProgram)
FIT_AGAIN = (
    "Fit again on all rows: at once, or from the statistics of each part, which add up: one = summarize(model, X, y, "
    "schema=fit.schema), and so on, and fit(model, one + two, method=...)."
)


def with_rows(
    fit: TrainedProgram, X: Data | Iterable[tuple] | Summaries, y: Values | None, sample_weight: Values | None
) -> Summaries:
    """The training data of a fit and more rows, or `Summaries` of them, at the scale of its prior."""
    data = _kept_data(fit)
    schema = None if isinstance(X, Summaries) else data.schema
    return data + as_summaries(data.model, X, y, schema=schema, sample_weight=sample_weight)


def with_class(fit: TrainedProgram, label: Any, X: Data | Iterable[tuple], sample_weight: Values | None) -> Summaries:
    """The training data of a fit and rows of one more class, at the scale of its prior.

    Raises:
        DataError: a class that the schema has.
        FitError: a model in which classes are not learned separately.
    """
    data = _kept_data(fit)
    data.model.check_class_can_be_added(data.schema)
    known, level = tuple(data.schema.classes or ()), as_category(label, "label of the new class")
    if level in known:
        raise DataError(
            f"There is a class {quote_some([level])} already; the classes are {quote_some(known)}. More rows of it are "
            "learned by fit.update(X, y)."
        )
    classes = with_category(known, level, "y")
    schema = dataclasses.replace(data.schema, classes=classes)
    labels, place = category_array(classes), classes.index(level)
    tables = (_all_of_class(table, labels, place) for table in read_tables(X, None, sample_weight))
    known_classes = dataclasses.replace(data, schema=schema, statistics=data.statistics.with_empty_class(place))
    return known_classes + summarize_tables(data.model, schema, tables)


def _kept_data(fit: TrainedProgram) -> Summaries:
    """The training data of a fit, with the scale of its prior; a `FitError` where it keeps none."""
    if fit.summaries is not None:
        return dataclasses.replace(fit.summaries, schema=fit.schema)
    if not fit.method.keeps_statistics:
        raise FitError(
            f"A fit by {type(fit.method).__name__}() holds draws, given the rows that it was fitted to and no others. "
            f"{FIT_AGAIN}"
        )
    if fit.method.needs_rows:
        raise FitError(
            f"A fit of p(y | x), which {fit.method!r} maximises, depends on the rows that it was fitted to, and keeps "
            "none of them. Fit again on all rows at once: fit(model, X, y, method=...)."
        )
    raise FitError(f"Some rows of this fit are not in any sufficient statistic, and a fit keeps no rows. {FIT_AGAIN}")


def with_classes_kept(grown: Grown, first: TrainedProgram) -> Grown:
    """A fit with one more class than the first, with the parameters of the other classes as in the first.

    Only EM changes them, because it stops for all classes together.
    """
    posterior = grown.posterior
    if not isinstance(posterior, Point) or grown.summaries is None or grown.summaries.statistics.is_complete:
        return grown
    others = [grown.classes.tolist().index(label) for label in first.classes.tolist()]
    values = dict(posterior.values)
    for name, axis in class_axes(grown).items():
        if name != "class_probs":
            values[name] = np.array(values[name])
            np.moveaxis(values[name], axis, 0)[others] = np.moveaxis(first.parameters[name], axis, 0)
    return dataclasses.replace(grown, posterior=dataclasses.replace(posterior, values=values))


def _all_of_class(table: Table, labels: np.ndarray, place: int) -> Table:
    """A table with the same label in all rows."""
    if table.labels is not None:
        raise DataError("All rows are of the new class: give chunks (X,) or (X, None, sample_weight), without labels.")
    return dataclasses.replace(table, labels=labels[np.full(table.num_rows, place)])
