"""The verb `predict`, and `Rule`, the base of rules of prediction."""

import abc
import dataclasses
import functools
import numbers
from collections.abc import Callable
from typing import Any, NoReturn, overload

import numpy as np

from bayesgen.data import Rows, Table, read_table, warn_of_unknown
from bayesgen.describe import described, shortened
from bayesgen.errors import DataError, ImpossibleRowsWarning, PredictionError, keywords_stated, warn
from bayesgen.fitting import Fit, HiddenStates, Trained
from bayesgen.labels import Answered, AnyLabel, ClassLabel, NumberLabel, OptionalLabel
from bayesgen.records import by_content
from bayesgen.runtime import interrupts_kept, requested, used
from bayesgen.typing import Float, Int

from .answers import ClassPrediction, ContinuousPrediction, Predicted, joined, named_classes
from .batches import warn_of_few_draws


@by_content
class DensityPrediction:
    """Densities of n new rows under a model without classes: a program with label=None, an average over mixtures.

    Attributes:
        log_marginal: log p(x) by the rule; -inf for an impossible row.
        without_classes: message for requests of class probabilities.
        device: "cpu" or "gpu", where it was computed.
    """

    log_marginal: Float[np.ndarray, " n"]
    without_classes: str
    device: str = "cpu"

    def __repr__(self) -> str:
        values = self.log_marginal
        lines = {
            "log density": f"{values.min():,.6g} to {values.max():,.6g}, mean {values.mean():,.6g}"
            if len(values)
            else None,
            "next": "answer.log_marginal",
        }
        return described(f"DensityPrediction of {len(values)} rows", lines)

    @property
    def probabilities(self) -> NoReturn:
        """Refused."""
        raise PredictionError(self.without_classes)

    @property
    def log_probabilities(self) -> NoReturn:
        """Refused."""
        raise PredictionError(self.without_classes)

    @property
    def labels(self) -> NoReturn:
        """Refused."""
        raise PredictionError(self.without_classes)


CONTINUOUS_NUMBERS = 4  # per row, besides its cells: locations, scales, degrees of freedom, log densities
AVERAGED_TABLES = 8  # of the size of a table of log-joints: means, errors and intermediate ones


class Rule(abc.ABC):
    """A rule of prediction, with its arguments."""

    def check_count(self, argument: str, value: object, least: int) -> None:
        """Refuse a value that is not a whole number of at least `least`, naming rule and argument."""
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
            raise PredictionError(
                f"{type(self).__name__}: {argument} must be a whole number and at least {least}, got {value!r}."
            )

    @abc.abstractmethod
    def apply(self, fit: Fit, X: Any) -> ClassPrediction:
        """Class probabilities of rows, as `fit.read` gives them or in any form that it takes."""

    def respond(self, fit: Fit, rows: Rows) -> ContinuousPrediction:
        """The distribution of the continuous label of rows, as `fit.read` gives them."""
        raise PredictionError(f"{type(self).__name__} answers by classes, and this fit has a continuous label.")

    def states(self, fit: Fit, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """The hidden states of sequences of these lengths: see `Fit.states`."""
        raise PredictionError(f"{type(self).__name__} gives no hidden states. Use PlugIn() or BMA().")

    def remedy(self, fit: Fit) -> str:
        """Advice for rows that are impossible under every class."""
        return "No process of the posterior makes them possible: look at these rows, or give the model a wider prior."

    @abc.abstractmethod
    def averages_draws(self, fit: Fit) -> bool:
        """Whether it averages over draws, so that a row costs more memory than its answer."""


@overload
def predict(fit: Fit[ClassLabel], X: Any, *, rule: Rule, device: str | None = ...) -> ClassPrediction: ...
@overload
def predict(fit: Fit[NumberLabel], X: Any, *, rule: Rule, device: str | None = ...) -> ContinuousPrediction: ...
@overload
def predict(
    fit: Fit[OptionalLabel], X: Any, *, rule: Rule, device: str | None = ...
) -> ClassPrediction | DensityPrediction: ...
@overload
def predict(
    fit: Fit[AnyLabel], X: Any, *, rule: Rule, device: str | None = ...
) -> ClassPrediction | ContinuousPrediction | DensityPrediction: ...
@overload
def predict(fit: Trained[Answered], X: Any, *, rule: Rule, device: str | None = ...) -> Answered: ...
@keywords_stated
def predict(fit: Trained[Any], X: Any, *, rule: Rule, device: str | None = None) -> Any:
    """Class probabilities of new rows, or the distribution of their continuous label.

    Args:
        fit: result of `bayesgen.fit`.
        X: rows in any form that `bayesgen.fit` takes; named columns may come in any order.
        rule: `PlugIn()` (two-step: pick the best process, then predict), `BMA()` (one-step: average over all
            processes) or `ConditionalAverage()`.
        device: "cpu" or "gpu", where programs are run at points or draws; None for a GPU, if JAX has one, where the
            work is large enough for it (see `bayesgen.runtime`). Closed forms always take the processor. The device
            used is in the answer's `device`.

    X may have no rows. Rows are read and predicted in chunks, so that only the prediction is whole in memory. For rows
    in chunks, predict each chunk.

    Means have double precision. Where a column's mean is 10^m times its standard deviation, m of 16 digits are lost: an
    offset of 1e9 with a deviation of 1e-3 changes probabilities by about 1e-5. Subtract the offset from such a column
    before it is fitted, and from new rows.

    Raises:
        PredictionError: a rule that the fit cannot answer, such as an average of a point estimate.
        DataError: rows that do not fit the training schema; device="gpu" where JAX has none.

    >>> import bayesgen as bg
    >>> result = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"], method=bg.Exact())
    >>> bg.predict(result, [[1.5], [8.0]], rule=bg.BMA()).labels.tolist()
    ['a', 'b']
    """
    if not isinstance(fit, Trained):
        raise PredictionError(f"predict takes what bayesgen.fit gave, got {shortened(repr(fit))}. Fit a model first.")
    if not isinstance(rule, Rule):
        raise PredictionError(f"rule must be an object such as PlugIn() or BMA(), got {rule!r}.")
    with requested(device), interrupts_kept():
        return answer(fit, rule, X)


@functools.singledispatch
def answer(fit: Any, rule: Rule, X: Any) -> Any:
    """The prediction of queries by a rule. Fits with queries of other kinds register their own function."""
    table = read_table(X, least_rows=0)
    prediction = answer_of_rows(fit, rule, table)
    warn_of_unknown(table.unknown_cells)
    if not isinstance(prediction, ClassPrediction):
        return prediction
    impossible = np.flatnonzero(named_classes(prediction.log_probabilities) < 0)
    if len(impossible):
        warn(
            f"{len(impossible)} of {len(prediction.log_marginal)} rows have probability zero under every class, so "
            f"their class probabilities are NaN. {_remedy(fit, rule, table, impossible)}",
            ImpossibleRowsWarning,
        )
    return prediction


@functools.singledispatch
def answer_of_rows(fit: Any, rule: Rule, table: Table) -> ClassPrediction | ContinuousPrediction | DensityPrediction:
    """The prediction of rows by a rule, without warnings of new values and of impossible rows.

    Fits that predict by other fits register their own function.
    """
    if fit.concrete.response is not None:
        return _continuous(fit, rule, table)
    classes = dataclasses.replace(_by_classes(fit, rule, table), device=used(), index=table.index)
    if classes.pareto_k is not None:
        warn_of_few_draws(classes.pareto_k, classes.is_robust, classes.index)
    if len(fit.classes) == 0:
        why = "The program has no classes (label=None), so its rows have densities alone: answer.log_marginal."
        return DensityPrediction(classes.log_marginal, why, classes.device)
    return classes


def _continuous(fit: Fit, rule: Rule, table: Table) -> ContinuousPrediction:
    """The distribution of the continuous label of each row."""
    parts = _in_chunks(fit, table, CONTINUOUS_NUMBERS, lambda rows: rule.respond(fit, rows))
    prediction = dataclasses.replace(joined(parts), device=used(), index=table.index)
    if prediction.pareto_k is not None:
        warn_of_few_draws(prediction.pareto_k, index=prediction.index)
    return prediction


def _by_classes(fit: Fit, rule: Rule, table: Table) -> ClassPrediction:
    """The class probabilities of each row."""
    num_tables = AVERAGED_TABLES if rule.averages_draws(fit) else 1
    numbers_per_row = num_tables * max(1, len(fit.classes))
    return joined(_in_chunks(fit, table, numbers_per_row, lambda rows: rule.apply(fit, rows)))


def _in_chunks(fit: Fit, table: Table, numbers_per_row: float, ask: Callable[[Rows], Predicted]) -> list[Predicted]:
    """The predictions of successive chunks of rows.

    Args:
        fit: the fit.
        table: the rows.
        numbers_per_row: how many numbers a row needs in memory besides its cells.
        ask: gives the prediction of some rows.
    """
    chunks = table.chunks(numbers_per_row)
    try:
        return [ask(fit.rows_of(table.rows(places))) for places in chunks]
    except DataError:
        if len(chunks) > 1:
            fit.rows_of(table)  # names the row, and counts, in the whole table
        raise


def _remedy(fit: Fit, rule: Rule, table: Table, impossible: Int[np.ndarray, " m"]) -> str:
    """Advice for rows that are impossible under every class: the rule's, unless no process makes some possible."""
    rows = fit.rows_of(table.rows(impossible))
    statistics = fit.concrete.statistics(fit.schema).items()
    reasons = [likelihood.why_impossible(site, rows, impossible) for site, likelihood in statistics]
    return " ".join(filter(None, reasons)) or rule.remedy(fit)
