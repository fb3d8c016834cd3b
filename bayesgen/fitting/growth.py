"""How the training data of a fit grow: by more rows, or by the rows of one more class."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from bayesgen.data import Table, as_category, category_array, read_tables, with_category
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError, warn
from bayesgen.posteriors import Point
from bayesgen.runtime import check_seed, public, requested
from bayesgen.typing import Data, Seed, Values

from .export import class_axes
from .reading import training_summaries
from .summaries import Summaries, summarize_tables
from .trained import TrainedProgram

Grown = TypeVar("Grown", bound=TrainedProgram)
FIT_AGAIN = (
    "Fit again on all rows: at once, or from the statistics of each part, which add up: one = summarize(model, X, y, "
    "schema=fit.schema), and so on, and fit(model, one + two, method=...)."
)


@public
def update(
    self: Grown,
    X: Data | Iterable[tuple] | Summaries,
    y: Values | None = None,
    *,
    sample_weight: Values | None = None,
    seed: Seed = 0,
    progress: bool | None = None,
) -> Grown:
    """The fit of the training rows and more rows; may be repeated.

    The result equals the fit of all rows at once under the prior of this fit (`fit.prior`), with its log evidence,
    up to rounding. Fits by `Exact`, `MLE` and `MAP` keep the sufficient statistics of their rows for it, but no
    rows.

    Args:
        X, y: more rows, as `fit` takes them, of the same columns, categories and classes; or `Summaries` of them.
        sample_weight: their weights.
        seed, progress: as `fit` takes them, where the method is a search.

    Raises:
        DataError: a class or category that the schema does not have: declare all of them, in
            Schema(classes=..., categories=...), before the first fit; `add_class` adds a class.
        FitError: draws (`NUTS`); a program with sites that have no sufficient statistic.

    >>> import bayesgen as bg
    >>> model, X, y = bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"]
    >>> fit = bg.fit(model, X, y, method=bg.Exact()).update([[3.0], [8.0]], ["a", "b"]).update([[2.0]], ["a"])
    >>> fit.attributes["total_weight"]
    7.0
    """
    data = _training_data(self)
    schema = None if isinstance(X, Summaries) else data.schema
    more = training_summaries(data.model, X, y, schema=schema, sample_weight=sample_weight)
    return _fit_of(self, data + more, seed, progress)


@public
def add_class(
    self: Grown,
    label: Any,
    X: Data | Iterable[tuple],
    *,
    sample_weight: Values | None = None,
    seed: Seed = 0,
    progress: bool | None = None,
) -> Grown:
    """The fit with one more class, learned from its rows alone; the parameters of the other classes do not change.

    The new class has the prior of the others, as the first fit resolved it, and their concentration. The result
    equals the fit of all rows with all classes, under the prior of this fit.

    Args:
        label: the new class: in its place if the classes are sorted, else the last.
        X: its rows, as `fit` takes them; chunks are tuples (X,) or (X, None, sample_weight).
        sample_weight: their weights.
        seed, progress: as `fit` takes them, where the method is a search.

    Raises:
        DataError: a class that the fit has (`update` takes more rows of it); rows that do not fit the schema.
        FitError: a model in which classes are not learned separately: tied families, hyperparameters given class by
            class or as distributions, fixed class probabilities, averages over structures, programs of one's own;
            draws (`NUTS`).

    >>> import bayesgen as bg
    >>> fit = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "c", "c"], method=bg.Exact())
    >>> more = fit.add_class("b", [[4.0], [5.0]])
    >>> more.classes.tolist(), more.parameters["class_probs"].round(3).tolist()
    (['a', 'b', 'c'], [0.333, 0.333, 0.333])
    >>> more.parameters["real_mean"][[0, 2]].tolist() == fit.parameters["real_mean"].tolist()
    True
    """
    data = _training_data(self)
    data.model.check_class_can_be_added(data.schema)
    classes, new_class = tuple(data.schema.classes or ()), as_category(label, "label of the new class")
    if new_class in classes:
        raise DataError(
            f"There is a class {quote_some([new_class])} already; the classes are {quote_some(classes)}. More rows of "
            "it are learned by fit.update(X, y)."
        )
    classes = with_category(classes, new_class, "y")
    schema, code = dataclasses.replace(data.schema, classes=classes), classes.index(new_class)
    tables = (_all_of_class(table, category_array(classes), code) for table in read_tables(X, None, sample_weight))
    data = dataclasses.replace(data, schema=schema, statistics=data.statistics.with_empty_class(code))
    grown = _fit_of(self, data + summarize_tables(data.model, schema, tables), seed, progress)
    return _with_classes_of(self, grown)


def _fit_of(fit: Grown, data: Summaries, seed: Seed, progress: bool | None) -> Grown:
    """The fit of other data by the same method."""
    check_seed(seed)
    with requested(None):
        grown = fit.method.fitted(fit.model, data, seed, progress)
    warn_of_left_out(grown.attributes.get("sites_left_out", {}))
    return grown


def warn_of_left_out(left_out: Mapping[str, str]) -> None:
    """Warn of deterministic sites that depend on rows and are not among the parameters, each with its reason."""
    for reason in dict.fromkeys(left_out.values()):
        names = quote_some([name for name, site_reason in left_out.items() if site_reason == reason])
        warn(
            f"The fit leaves the deterministic sites {names} out, which depend on the training rows: {reason}. "
            "fit.predictive(num_samples, X) evaluates them at rows X."
        )


def _training_data(fit: TrainedProgram) -> Summaries:
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


def _with_classes_of(first: TrainedProgram, grown: Grown) -> Grown:
    """A fit with one more class than the first, with the parameters of the other classes as in the first.

    Only EM changes them, because it stops for all classes together.
    """
    posterior = grown.posterior
    if not isinstance(posterior, Point) or grown.summaries is None or grown.summaries.statistics.is_complete:
        return grown
    codes = [grown.classes.tolist().index(label) for label in first.classes.tolist()]
    values = dict(posterior.values)
    for name, axis in class_axes(grown).items():
        if name != "class_probs":
            values[name] = np.array(values[name])
            np.moveaxis(values[name], axis, 0)[codes] = np.moveaxis(first.parameters[name], axis, 0)
    return dataclasses.replace(grown, posterior=dataclasses.replace(posterior, values=values))


def _all_of_class(table: Table, classes: np.ndarray, code: int) -> Table:
    """A table with the same label in all rows."""
    if table.labels is not None:
        raise DataError("All rows are of the new class: give chunks (X,) or (X, None, sample_weight), without labels.")
    return dataclasses.replace(table, labels=classes[np.full(table.num_rows, code)])
