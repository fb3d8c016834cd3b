"""Data that grow: by more rows, and by one more class."""

import dataclasses
from typing import Any

import numpy as np

from bayesgen.data import Schema, Table, as_level, levels_array, read_tables, with_level
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError

from .data import as_summaries, summarize_tables
from .export import class_axes
from .summaries import Summaries

AGAIN = (
    "Fit again on all rows: at once, or from the statistics of each part, which add up: one = summarize(model, X, y, "
    "schema=fit.schema), and so on, and fit(model, one + two, method=...)."
)


def kept_data(data: Summaries | None, schema: Schema, method: Any) -> Summaries:
    """The training data of a fit, with the scale of its prior.

    Args:
        data: what the fit keeps of them.
        schema: of the fit.
        method: of the fit.

    Raises:
        FitError: a fit that keeps no data.
    """
    if data is not None:
        return dataclasses.replace(data, schema=schema)
    if not method.keeps_statistics:
        name = type(method).__name__
        raise FitError(f"A fit by {name}() holds draws, given the rows that it was fitted to and no others. {AGAIN}")
    if method.needs_rows:
        raise FitError(
            f"A fit of p(y | x), which {method!r} maximises, tells of the rows that it was fitted to, and keeps none "
            "of them. Fit again on all rows at once: fit(model, X, y, method=...)."
        )
    raise FitError(f"Some rows of this fit are not in any sufficient statistic, and a fit keeps no rows. {AGAIN}")


def with_rows(data: Summaries, X: Any, y: Any, sample_weight: Any) -> Summaries:
    """The data and more rows, or `Summaries` of them, at the scale of the first."""
    schema = None if isinstance(X, Summaries) else data.schema
    return data + as_summaries(data.model, X, y, schema=schema, sample_weight=sample_weight)


def with_class(data: Summaries, label: Any, X: Any, sample_weight: Any) -> Summaries:
    """The data and rows of one more class, at the scale of the first.

    Raises:
        DataError: a class that is there already.
        FitError: a model in which classes are not learned apart.
    """
    data.model.check_classes_apart(data.schema)
    known, level = tuple(data.schema.classes or ()), as_level(label, "label of the new class")
    if level in known:
        raise DataError(
            f"There is a class {quote_some([level])} already; the classes are {quote_some(known)}. More rows of it are "
            "learned by fit.update(X, y)."
        )
    classes = with_level(known, level, "y")
    schema = dataclasses.replace(data.schema, classes=classes)
    labels, place = levels_array(classes), classes.index(level)
    tables = (_all_of_class(table, labels, place) for table in read_tables(X, None, sample_weight))
    known_classes = dataclasses.replace(data, schema=schema, statistics=data.statistics.with_empty_class(place))
    return known_classes + summarize_tables(data.model, schema, tables)


def with_classes_kept(grown: Any, first: Any) -> Any:
    """A fit with one more class than the first, in which the parameters of the others are what they were.

    They are anyway, but where EM looked for them: steps are counted for all classes together.
    """
    if grown.summaries is None or grown.summaries.statistics.is_complete:
        return grown
    others = [grown.schema.classes.index(label) for label in first.schema.classes]
    values = dict(grown.posterior.values)
    for name, axis in class_axes(grown).items():
        if name != "class_probs":
            values[name] = np.moveaxis(np.array(values[name]), axis, 0)
            values[name][others] = np.moveaxis(first.parameters[name], axis, 0)
            values[name] = np.moveaxis(values[name], 0, axis)
    return dataclasses.replace(grown, posterior=dataclasses.replace(grown.posterior, values=values))


def _all_of_class(table: Table, labels: np.ndarray, place: int) -> Table:
    """A table with the same label in all rows."""
    if table.labels is not None:
        raise DataError("All rows are of the new class: give chunks (X,) or (X, None, sample_weight), without labels.")
    return dataclasses.replace(table, labels=labels[np.full(table.num_rows, place)])
