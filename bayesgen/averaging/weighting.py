"""Ways to weigh structures: an object each, which makes one fit of several."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bayesgen.errors import FitError
from bayesgen.fitting import Fit
from bayesgen.records import content_hash, record
from bayesgen.typing import Float, Seed

from .comparable import check_comparable
from .fit import AverageFit, mixture_fit
from .left_out import assign_folds, cross_validated_scores, held_out_scores
from .weights import posterior_weights, pseudo_bma_weights, stacking_weights


class Weighting(abc.ABC):
    """How the members of an average are weighed: the `method` of the fit that comes of it."""

    needs_rows: ClassVar[bool]
    """Whether the members' summaries do not suffice."""

    @abc.abstractmethod
    def check_models(self) -> None:
        """Refuse members that are models, where only fits will do."""

    @abc.abstractmethod
    def mix(self, fits: Sequence[Fit], X: Any, y: Any) -> AverageFit:
        """Put fits together; X and y are the rows, for weightings that need them."""


@record
class ByEvidence(Weighting):
    """Posterior probabilities of the structures, from log evidences.

    Attributes:
        prior: (M,) nonnegative prior weights; None for equal ones.
    """

    prior: Any = None
    needs_rows = False

    __hash__ = content_hash

    def check_models(self) -> None:
        """Models are fine."""

    def mix(self, fits: Sequence[Fit], X: Any, y: Any) -> AverageFit:
        """Mix joints."""
        check_comparable(fits)
        evidences = [fit.log_evidence for fit in fits]
        shares, total = posterior_weights(np.array(evidences, float), _normalized(self.prior, len(fits)))
        return mixture_fit(fits, shares, evidences, self, conditional=False, log_evidence=total)


class LeftOut(Weighting):
    """Weights that come of class probabilities of rows left out.

    Attributes:
        folds: number of folds; None where X and y are rows that no member has seen.
        seed: integer or JAX key, of the folds.
    """

    folds: int | None
    seed: Seed
    needs_rows = True

    @abc.abstractmethod
    def weights_of(self, log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
        """Weights from the log probability of each row's class by each member."""

    def check_models(self) -> None:
        """Rows that no member has seen cannot be those that models are fitted to."""
        if self.folds is None:
            raise FitError("folds=None takes X and y as rows that no member has seen: give fits, not models.")

    def mix(self, fits: Sequence[Fit], X: Any, y: Any) -> AverageFit:
        """Mix class probabilities."""
        log_scores = self._log_scores(fits, X, y)
        shares, scores = self.weights_of(log_scores), log_scores.sum(0)
        return mixture_fit(fits, shares, scores, self, conditional=True, log_evidence=None)

    def _log_scores(self, fits: Sequence[Fit], X: Any, y: Any) -> Float[np.ndarray, "n M"]:
        """Log probability of each row's class by each member that has not seen the row."""
        if X is None or y is None:
            raise FitError("These weights are learned on class probabilities of rows left out: give X= and y=.")
        _check_scored(fits)
        if self.folds is None:
            return np.stack([held_out_scores(fit, X, y) for fit in fits], axis=1)
        places = assign_folds(X, self.folds, self.seed)
        return np.stack([cross_validated_scores(fit, X, y, places) for fit in fits], axis=1)


@dataclasses.dataclass(frozen=True)
class Stacking(LeftOut):
    """The mixture with the best log score. See `stacking_weights`."""

    folds: int | None = 10
    seed: Seed = 0

    def weights_of(self, log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
        """Maximise the log score."""
        return stacking_weights(log_scores)


@dataclasses.dataclass(frozen=True)
class PseudoBMA(LeftOut):
    """Weights proportional to the exponential of each member's log score. See `pseudo_bma_weights`."""

    folds: int | None = 10
    seed: Seed = 0

    def weights_of(self, log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
        """Normalise."""
        return pseudo_bma_weights(log_scores)


def _check_scored(fits: Sequence[Fit]) -> None:
    for index, fit in enumerate(fits):
        if fit.summaries is None or not fit.posterior.has_predictive:
            raise FitError(f"Member {index} was fitted with {fit.method!r}; only Exact() fits can be left-out scored.")
        if fit.schema.classes != fits[0].schema.classes:
            raise FitError(f"Members 0 and {index} have different classes, so their probabilities do not mix.")


def _normalized(prior: Any, size: int) -> Float[np.ndarray, " M"]:
    if prior is None:
        return np.full(size, 1 / size)
    values = np.asarray(prior, np.float64)
    if values.shape != (size,) or not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        raise FitError(f"prior must hold {size} nonnegative numbers, one for each member, not all zero; got {prior!r}.")
    return values / values.sum()
