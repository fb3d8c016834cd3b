"""The verb `predict`, and what a rule of prediction is."""

import abc
import functools
import warnings

import numpy as np

from ..errors import DataError, ImpossibleRowsWarning, PredictionError
from ..tables import read_table, row_blocks
from .answer import ClassPrediction, joined


class Rule(abc.ABC):
    """A way of predicting: an object with the arguments of the rule. It sees only the tables that a fit makes."""

    @abc.abstractmethod
    def apply(self, fit, X) -> ClassPrediction:
        """Predict."""


def predict(fit, X, *, rule: Rule) -> ClassPrediction:
    """Class probabilities of new rows.

    Args:
        fit: what `bayesgen.fit` gave.
        X: rows in any form that `bayesgen.fit` takes; named columns may come in any order.
        rule: `PlugIn()` (two-step: pick the best process, then predict), `BMA()` (one-step: average over all
            processes) or `ConditionalAverage()`.

    Raises:
        PredictionError: the fit cannot answer the rule (a point estimate asked for an average).
        DataError: rows that do not fit the training schema.

    >>> import bayesgen as bg
    >>> result = bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"], method=bg.Exact())
    >>> bg.predict(result, [[1.5], [8.0]], rule=bg.BMA()).labels.tolist()
    ['a', 'b']
    """
    if not isinstance(rule, Rule):
        raise PredictionError(f"rule must be an object such as PlugIn() or BMA(), got {rule!r}.")
    return answer(fit, rule, X)


@functools.singledispatch
def answer(fit, rule, X):
    """What a rule says of queries to a fit. Fits that answer otherwise than by classes register here."""
    if len(fit.classes) == 0:
        raise PredictionError(
            "The program has no classes (label=None), so there are no class probabilities. Use fit.log_joint(X)."
        )
    table = read_table(X)
    parts = row_blocks(table.num_rows, table.cells_per_row + len(fit.classes))
    if len(parts) == 1:
        classes = rule.apply(fit, table)
    else:
        try:
            classes = joined([rule.apply(fit, table.rows(part)) for part in parts])
        except DataError:
            fit.read(table)  # names the row, and counts, in the whole table
            raise
    warn_of_impossible_rows(classes)
    return classes


def warn_of_impossible_rows(answer):
    """One warning that counts the rows of probability zero under every class."""
    impossible = int(np.isneginf(answer.log_marginal).sum())
    if impossible:
        warnings.warn(
            f"{impossible} of {len(answer.log_marginal)} rows have probability zero under every class, so their class "
            "probabilities are NaN. Average instead (BMA), plug in the posterior mean (PlugIn(at='mean') of an Exact "
            "fit), or give a concentration above 1.",
            ImpossibleRowsWarning,
            stacklevel=5,
        )
