"""The contract of rules of prediction."""

import abc

import numpy as np

from bayesgen.data import Rows, RowsLike
from bayesgen.errors import PredictionError, check_integer
from bayesgen.fitting import Fit, HiddenStates
from bayesgen.posteriors import At
from bayesgen.typing import Int

from .answers import ClassPrediction, ContinuousPrediction


class Rule(abc.ABC):
    """A rule of prediction, with its arguments."""

    def check_count(self, argument: str, value: object, least: int) -> None:
        """Refuse a value that is not a whole number of at least `least`, naming rule and argument."""
        check_integer(f"{type(self).__name__}: {argument}", value, least, PredictionError)

    @property
    def closed_at(self) -> At | None:
        """Whose table of log-joints alone gives the answer, "mean", "mode" or "predictive"; None where none does."""
        return None

    @abc.abstractmethod
    def apply(self, fit: Fit, X: RowsLike) -> ClassPrediction:
        """Class probabilities of rows, as `fit.read` gives them or in any form that it takes."""

    def respond(self, fit: Fit, rows: Rows) -> ContinuousPrediction:
        """The distribution of the continuous label of rows, as `fit.read` gives them."""
        raise PredictionError(f"{type(self).__name__} answers by classes, and this fit has a continuous label.")

    def answer(self, fit: Fit, rows: Rows) -> ClassPrediction | ContinuousPrediction:
        """The prediction of rows, as `fit.read` gives them: of their classes, or of their continuous label."""
        return self.apply(fit, rows) if fit.concrete.response is None else self.respond(fit, rows)

    def states(self, fit: Fit, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """The hidden states of sequences of these lengths: see `Fit.states`."""
        raise PredictionError(f"{type(self).__name__} gives no hidden states. Use PlugIn() or BMA().")

    def caution(self, fall_at_mean: float) -> str | None:
        """A warning for fits whose log density at the mean of the draws is this much lower than at every draw."""
        return None

    def remedy(self, fit: Fit) -> str:
        """Advice for rows that are impossible under every class."""
        return "No process of the posterior makes them possible: look at these rows, or give the model a wider prior."

    def averages_draws(self, fit: Fit) -> bool:
        """Whether the rule averages over draws of this fit, so that a row takes more memory than its answer."""
        return True
