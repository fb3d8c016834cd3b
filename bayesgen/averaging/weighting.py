"""Ways to weigh structures: an object each, which makes one fit of several."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bayesgen.errors import FitError
from bayesgen.fitting import Fit, Method
from bayesgen.models import Mixture
from bayesgen.posteriors import Mixes
from bayesgen.program import ConcreteModel, Model
from bayesgen.records import content_hash, record
from bayesgen.typing import Float, Seed

from .comparable import check_comparable, check_labels_alike, evidences_of
from .fit import AverageFit, average_fit
from .left_out import assign_folds, cross_validated_scores, held_out_scores
from .response import AverageResponseFit
from .weights import posterior_weights, pseudo_bma_weights, stacking_weights

WITHOUT_EVIDENCE = (
    "Member {} is a mixture, and the log evidence of mixtures is not known, because their posterior has a term for "
    'every way to allot rows to components. Average with weights="stacking", which compares densities of rows left out.'
)


class Weighting(abc.ABC):
    """How the members of an average are weighed: the `method` of the fit that comes of it."""

    needs_rows: ClassVar[bool]
    """Whether the members' summaries do not suffice."""

    @abc.abstractmethod
    def check_models(self, models: Sequence[Model]) -> None:
        """Refuse members that are models, where only fits will do, or models that cannot be weighed."""

    def check_method(self, method: Method, with_labels: bool, without_exact: str | None) -> None:
        """Refuse a method of fitting the members whose fits cannot be weighed.

        Args:
            method: the method.
            with_labels: whether rows have labels.
            without_exact: why `Exact()` refuses a member; None where it refuses none.
        """
        if without_exact is not None:
            raise FitError(
                f"An average over structures weighs exact fits, and a member has none: {without_exact} These methods "
                "fit a single structure."
            )
        if not method.gives_evidence:
            raise FitError(
                f"An average over structures weighs exact fits, and that of {type(method).__name__}() is none: it has "
                "no log evidence. Use Exact(), or fit a single structure."
            )

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

    def check_models(self, models: Sequence[Model]) -> None:
        """Models are fine, but for mixtures, whose evidence is not known."""
        mixtures = [index for index, model in enumerate(models) if isinstance(model, Mixture)]
        if mixtures:
            raise FitError(WITHOUT_EVIDENCE.format(mixtures[0]))

    def mix(self, fits: Sequence[Fit], X: Any, y: Any) -> AverageFit:
        """Mix joints; densities of rows, where evidences are approximate and there are no classes."""
        self.check_models([fit.model for fit in fits])
        evidences = evidences_of(fits)
        check_comparable(fits)
        shares, total = posterior_weights(np.array(evidences.values, float), _normalized(self.prior, len(fits)))
        if evidences.is_approximate:
            return average_fit(fits, shares, evidences.values, self, mixes="marginal", approximate_log_evidence=total)
        kind = _kind_of(fits)
        return average_fit(fits, shares, evidences.values, self, mixes="joint", log_evidence=total, kind=kind)


class LeftOut(Weighting):
    """Weights that come of class probabilities of rows left out; of their densities, where rows have no labels.

    Attributes:
        folds: number of folds; None where X and y are rows that no member has seen.
        seed: integer or JAX key, of the folds.
    """

    folds: int | None
    seed: Seed
    needs_rows = True

    @abc.abstractmethod
    def weights_of(self, log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
        """Weights from the log probability of each row's class, or the row's log density, by each member."""

    def check_models(self, models: Sequence[Model]) -> None:
        """Rows that no member has seen cannot be those that models are fitted to."""
        if self.folds is None:
            raise FitError("folds=None takes X and y as rows that no member has seen: give fits, not models.")

    def check_method(self, method: Method, with_labels: bool, without_exact: str | None) -> None:
        """Densities of rows come of any method."""
        if with_labels:
            super().check_method(method, with_labels, without_exact)

    def mix(self, fits: Sequence[Fit], X: Any, y: Any) -> AverageFit:
        """Mix class probabilities, or densities of rows without labels."""
        with_labels = have_labels([fit.concrete for fit in fits])
        log_scores = self._log_scores(fits, X, y, with_labels)
        shares, scores = self.weights_of(log_scores), log_scores.sum(0)
        mixes: Mixes = "conditional" if with_labels else "marginal"
        return average_fit(fits, shares, scores, self, mixes=mixes, kind=_kind_of(fits))

    def _log_scores(self, fits: Sequence[Fit], X: Any, y: Any, with_labels: bool) -> Float[np.ndarray, "n M"]:
        """The log score of each row by each member that has not seen it."""
        if with_labels and (X is None or y is None):
            raise FitError("These weights are learned on class probabilities of rows left out: give X= and y=.")
        if not with_labels and (X is None or y is not None):
            raise FitError("These weights are learned on densities of rows left out: give X=, and no y=.")
        _check_scored(fits, with_labels)
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


def _kind_of(fits: Sequence[Fit]) -> type[AverageFit] | None:
    """The kind of average of fits with a continuous label; None for that of others."""
    return AverageResponseFit if fits[0].concrete.response is not None else None


def have_labels(models: Sequence[ConcreteModel]) -> bool:
    """Whether models are of rows with labels.

    Raises:
        FitError: where some are and some are not.
    """
    check_labels_alike(models)
    answers = [model.has_labels or model.response is not None for model in models]
    if answers != [answers[0]] * len(answers):
        raise FitError(
            f"Members {[i for i, labelled in enumerate(answers) if labelled]} learn from labels and the others have "
            "none, so their scores are of different things. Average those with labels, or those without."
        )
    return answers[0]


def _check_scored(fits: Sequence[Fit], with_labels: bool) -> None:
    for index, fit in enumerate(fits if with_labels else ()):
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
