"""The verb `average`: several structures as one fit or one model, and their weightings."""

import abc
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from bayesgen.data import Schema
from bayesgen.errors import DataError, FitError, as_list, as_numbers
from bayesgen.fitting import MAP, MLE, Exact, Fit, Method, Problem, ProgramProblem, Summaries, fit, prepare
from bayesgen.models import Mixture
from bayesgen.prediction import warn_of_few_draws
from bayesgen.program import ConcreteModel, Model, Recipe
from bayesgen.records import content_hash, record
from bayesgen.runtime import public
from bayesgen.typing import Data, Float, Seed, Values

from .comparable import check_comparable, check_labels_alike, evidences_of
from .fit import AverageFit, Mixes, average_fit, check_rereadable
from .left_out import (
    assign_folds,
    cross_validated_scores,
    held_out_scores,
    posterior_weights,
    pseudo_bma_weights,
    stacking_weights,
)

WITHOUT_EVIDENCE = (
    "Member {} is a mixture, and the log evidence of mixtures is not known, because their posterior has a term for "
    'every way to allot rows to components. Average with weights="stacking", which compares densities of rows left out.'
)


class Weighting(abc.ABC):
    """A way to weight the members of an average: the `method` of the resulting fit."""

    needs_rows: ClassVar[bool]
    """Whether it needs the rows besides the members' summaries."""

    @abc.abstractmethod
    def check_models(self, models: Sequence[Model]) -> None:
        """Refuse models that cannot be weighted, or all models where only fits can."""

    def check_method(self, method: Method, with_labels: bool, without_exact: str | None) -> None:
        """Refuse a training method of the members whose fits cannot be weighted.

        Args:
            method: the method.
            with_labels: whether rows have labels.
            without_exact: the reason why `Exact()` refuses a member; None where it refuses none.
        """
        if without_exact is not None:
            raise FitError(
                f"An average over structures weighs exact fits, and a member has none: {without_exact} These methods "
                "fit a single structure."
            )
        if not method.gives_evidence:
            raise FitError(
                f"An average over structures weighs exact fits by their evidence, and {type(method).__name__}() has "
                "no log evidence. Use Exact(), or fit a single structure."
            )

    @abc.abstractmethod
    def mix(self, fits: Sequence[Fit], X: Data | None, y: Values | None) -> AverageFit:
        """The average of fits; X and y are the rows, for weightings that need them."""


@record
class EvidenceWeighting(Weighting):
    """Posterior probabilities of the structures, from log evidences.

    Attributes:
        prior: (M,) nonnegative prior weights; None for equal ones.
    """

    prior: Any = None
    needs_rows = False

    __hash__ = content_hash

    def check_models(self, models: Sequence[Model]) -> None:
        """Refuse mixtures, whose evidence is not known."""
        mixtures = [index for index, model in enumerate(models) if isinstance(model, Mixture)]
        if mixtures:
            raise FitError(WITHOUT_EVIDENCE.format(mixtures[0]))

    def mix(self, fits: Sequence[Fit], X: Data | None, y: Values | None) -> AverageFit:
        """Mix p(x, y), or densities of rows where evidences are approximate and there are no classes."""
        self.check_models([fit.model for fit in fits])
        evidences, are_approximate = evidences_of(fits)
        check_comparable(fits)
        shares, total = posterior_weights(np.array(evidences, float), _normalized(self.prior, len(fits)))
        if are_approximate:
            return average_fit(fits, shares, evidences, self, mixes="marginal", approximate_log_evidence=total)
        return average_fit(fits, shares, evidences, self, mixes="joint", log_evidence=total)


@dataclasses.dataclass(frozen=True)
class HeldOutWeighting(Weighting):
    """Weights from class probabilities of held-out rows, or from their densities where rows have no labels.

    Attributes:
        folds: number of folds; None where X and y are new to every member.
        seed: integer or JAX key, of the folds.
    """

    folds: int | None = 10
    seed: Seed = 0
    needs_rows = True

    @staticmethod
    @abc.abstractmethod
    def member_weights(log_scores: Float[np.ndarray, "n M"]) -> Float[np.ndarray, " M"]:
        """Weights from the log probability of each row's class, or the row's log density, by each member."""

    def check_models(self, models: Sequence[Model]) -> None:
        """Refuse models without folds: the rows would be those that they are fitted to."""
        if self.folds is None:
            raise FitError("folds=None takes X and y as rows that no member has seen: give fits, not models.")

    def check_method(self, method: Method, with_labels: bool, without_exact: str | None) -> None:
        """Accept every method for densities of rows; for class probabilities as the base."""
        if with_labels:
            super().check_method(method, with_labels, without_exact)

    def mix(self, fits: Sequence[Fit], X: Data | None, y: Values | None) -> AverageFit:
        """Mix class probabilities, or densities of rows without labels."""
        with_labels = have_labels([fit.concrete for fit in fits])
        log_scores = self._log_scores(fits, X, y, with_labels)
        shares, scores = self.member_weights(log_scores), log_scores.sum(0)
        mixes: Mixes = "conditional" if with_labels else "marginal"
        return average_fit(fits, shares, scores, self, mixes=mixes)

    def _log_scores(
        self, fits: Sequence[Fit], X: Data | None, y: Values | None, with_labels: bool
    ) -> Float[np.ndarray, "n M"]:
        """The log score of each row by each member, trained without it."""
        if X is None or with_labels != (y is not None):
            quantity, remedy = ("class probabilities", "X= and y=") if with_labels else ("densities", "X=, and no y=")
            raise FitError(f"These weights are learned on {quantity} of rows left out: give {remedy}.")
        _check_scored(fits, with_labels)
        if self.folds is None:
            scores = [held_out_scores(fit, X, y) for fit in fits]
        else:
            fold_of_rows = assign_folds(X, self.folds, self.seed)
            scores = [cross_validated_scores(fit, X, y, fold_of_rows) for fit in fits]
        for index, member_scores in enumerate(scores):
            if member_scores.pareto_k is not None:
                warn_of_few_draws(member_scores.pareto_k, by=f"Member {index}: ")
        return np.stack([member_scores.given_row for member_scores in scores], axis=1)


class Stacking(HeldOutWeighting):
    """The mixture with the best log score. See `stacking_weights`."""

    member_weights = staticmethod(stacking_weights)


class PseudoBMA(HeldOutWeighting):
    """Weights proportional to the exponential of each member's log score. See `pseudo_bma_weights`."""

    member_weights = staticmethod(pseudo_bma_weights)


def have_labels(models: Sequence[ConcreteModel]) -> bool:
    """Whether models are of rows with labels.

    Raises:
        FitError: models with labels and models without.
    """
    check_labels_alike(models)
    answers = [model.has_labels or model.response is not None for model in models]
    if answers != [answers[0]] * len(answers):
        raise FitError(
            f"Members {[i for i, labelled in enumerate(answers) if labelled]} learn from labels and the others have "
            "none, so their scores are not comparable. Average members with labels, or members without."
        )
    return answers[0]


def _check_scored(fits: Sequence[Fit], with_labels: bool) -> None:
    for index, member in enumerate(fits if with_labels else ()):
        if member.summaries is None or not member.posterior.can("predictive"):
            raise FitError(
                f"Member {index} was fitted with {member.method!r}; only Exact() fits can be left-out scored."
            )
        if member.schema.classes != fits[0].schema.classes:
            raise FitError(f"Members 0 and {index} have different classes, so their probabilities do not mix.")


def _normalized(prior: Any, size: int) -> Float[np.ndarray, " M"]:
    if prior is None:
        return np.full(size, 1 / size)
    values = as_numbers("prior", prior, FitError)
    if values.shape != (size,) or not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        raise FitError(f"prior must hold {size} nonnegative numbers, one for each member, not all zero; got {prior!r}.")
    return values / values.sum()


@dataclasses.dataclass(frozen=True)
class AverageModel(Model[AverageFit]):
    """An average of models that are not fitted yet, made by `bayesgen.average`. It is itself a model.

    `Exact()` fits every member and weighs it by its evidence. Other methods give no evidence and are refused, with two
    exceptions: models of rows without labels, such as mixtures, are weighed by their densities of held-out rows, and
    `ProbabilisticPCA` by its approximate evidence.

    Attributes:
        members: the models.
        weighting: the way to weight them.
    """

    members: tuple[Model, ...]
    weighting: Weighting

    def __post_init__(self) -> None:
        self.weighting.check_models(self.members)

    @property
    def exact_takes_missing(self) -> bool:
        return all(member.exact_takes_missing for member in self.members)


@dataclasses.dataclass(frozen=True)
class AverageProblem(Problem[AverageFit]):
    """The problems of the members, whose fits are averaged.

    Attributes:
        model: the average.
        data: the problem of each member.
        X, y: the rows, for weightings that need them.
    """

    model: AverageModel
    data: "tuple[ProgramProblem | AverageProblem, ...]"
    X: Data | None = None
    y: Values | None = None

    @property
    def has_labels(self) -> bool:
        """Whether rows of every member have labels."""
        return all(problem.has_labels for problem in self.data)

    @property
    def approximates_evidence(self) -> bool:
        """Whether fits of every member by any method have an approximation of their log evidence."""
        return all(problem.approximates_evidence for problem in self.data)

    def refusal_of(self, method: Method) -> str | None:
        """The reason of the first member that refuses the method."""
        return next((why for member in self.data if (why := member.refusal_of(method)) is not None), None)

    def fit_by(self, method: Method) -> AverageFit:
        if not self.approximates_evidence:
            self.model.weighting.check_method(method, self.has_labels, self.refusal_of(Exact()))
        members = [dataclasses.replace(member, seed=self.seed, progress=self.progress) for member in self.data]
        return self.model.weighting.mix([member.fit_by(method) for member in members], self.X, self.y)


@prepare.register
def _(
    model: AverageModel,
    X: Data,
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    keeps_rows: bool = False,
) -> AverageProblem:
    if isinstance(X, Summaries):
        raise DataError(
            "Summaries belong to one model, and each member of an average needs its own. Give X and y, or fit each "
            "member to its summaries and average the fits."
        )
    check_rereadable(X)
    if model.weighting.needs_rows and sample_weight is not None:
        raise FitError("Rows are left out to learn these weights: give X and y as they are, without sample_weight.")
    members: tuple[Any, ...] = tuple(
        prepare(member, X, y, schema=schema, sample_weight=sample_weight, keeps_rows=keeps_rows)
        for member in model.members
    )
    return AverageProblem(model, members, X=X, y=y) if model.weighting.needs_rows else AverageProblem(model, members)


@public
def average(
    members: Iterable[Fit | Model],
    prior: Any = None,
    weights: str = "evidence",
    *,
    X: Data | None = None,
    y: Values | None = None,
    schema: Schema | None = None,
    folds: int | None = 10,
    seed: Seed = 0,
) -> AverageFit | AverageModel:
    """Average structurally different models of the same data.

    Generative story::

        structure ~ Categorical(prior)
        process   ~ the structure's own prior
        X, y      ~ process

    An average of fits is itself a fit: `PlugIn()` uses the best structure, `BMA()` averages over structures and their
    parameters together. An average of models is a model, which `fit` and `compare` take.

    Args:
        members: `Exact` fits of the same rows; or models, which are fitted if X and y are given: by `Exact()`, or, of
            rows without labels, by `MAP()` where a model has no exact posterior. Mixtures, and fits of them by any
            method, are averaged by "stacking" or "pseudo-bma". `ProbabilisticPCA` of several numbers of factors, and
            fits of them by any method, may be averaged by approximate evidences: see `weights`.
        prior: (M,) nonnegative prior weights of the structures, normalised here; None for equal ones.
        weights: "evidence": posterior probabilities of the structures, from the log evidences, by which `BMA()` mixes
            the joints p(x, y). "stacking": the mixture with the best log score on held-out rows; "pseudo-bma":
            proportional to the exponential of each member's log score there. With these two, `BMA()` mixes class
            probabilities, so members may model different events (Bernoulli and multinomial); the `log_marginal` of the
            prediction is zero, because there is no p(x). Where rows have no labels (mixtures, programs with
            label=None), both score densities of rows, and `BMA()` gives the mixed density as `log_marginal`, without
            class probabilities. Where all members have only an approximation of their evidence
            (`fit.approximate_log_evidence`), "evidence" takes this approximation; the average then has
            `approximate_log_evidence`, and its `log_evidence` is None. Exact and approximate evidences are never mixed.
        X, y: the training rows, for models, and for held-out rows. No y where rows have no labels.
        schema: declarations for the columns, for models.
        folds: number of folds of held-out rows; as many as rows for leave-one-out. Priors are kept in every fold. None
            where X and y were not used to train any member.
        seed: integer or JAX key, of the folds.

    Returns:
        A `Fit` with `.members`, `.weights` and `.log_evidence`, that of the mixture of structures (None for weights
        that are not probabilities); or, for models without X and y, an `AverageModel`.

    Raises:
        FitError: evidences that are not comparable (other rows, labels, kinds of columns), or that do not exist;
            arguments without effect.
        DataError: X and y other than the fits' training rows, where folds of these are held out.

    Source: Hoeting et al. (1999), Bayesian model averaging; Yao et al. (2018), Using stacking to average Bayesian
    predictive distributions.

    >>> import bayesgen as bg
    >>> X, y = [[1.0, 1.1], [2.0, 2.3], [3.0, 2.9], [7.0, 1.0], [8.0, 2.1], [9.0, 2.8]], list("aaabbb")
    >>> model = bg.average([bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("diag")])
    >>> both = bg.fit(model, X, y, method=bg.Exact())
    >>> both.weights.round(3).tolist()
    [0.531, 0.469]
    >>> bg.predict(both, [[5.0, 4.0]], rule=bg.BMA()).labels.tolist()
    ['a']
    """
    listed = _listed(members)
    weighting = _weighting(weights, prior, folds, seed)
    has_rows, are_fits = X is not None or y is not None, [isinstance(member, Fit) for member in listed]
    if schema is not None and (all(are_fits) or not has_rows):
        raise FitError("schema= is for models that are fitted here, with X= and y=. Drop it, or give it to fit.")
    if not has_rows and not any(are_fits):
        return AverageModel(listed, weighting)
    if has_rows and all(are_fits) and not weighting.needs_rows:
        raise FitError("Fits are weighed by the evidence of their own training rows: drop X= and y=.")
    return weighting.mix([_as_fit(member, X, y, schema, weighting) for member in listed], X, y)


def _listed(members: Iterable[Fit | Model]) -> tuple[Any, ...]:
    """The members as a tuple, all of them fits or models."""
    listed = as_list("members", members, "fits or models", FitError)
    if not listed:
        raise FitError("There is nothing to average. Give at least one fit or model.")
    for index, member in enumerate(listed):
        if not isinstance(member, Fit | Recipe | AverageModel):
            raise FitError(f"Member {index} is neither a fit nor a model: {member!r}.")
    return tuple(listed)


def _weighting(name: str, prior: Any, folds: int | None, seed: Seed) -> Weighting:
    """The weighting of this name."""
    kinds = {"stacking": Stacking, "pseudo-bma": PseudoBMA}
    names = ["evidence", *kinds]
    if not isinstance(name, str) or name not in names:
        raise FitError(f"weights must be one of {names}, got {name!r}.")
    if name == "evidence":
        return EvidenceWeighting(prior)
    if prior is not None:
        raise FitError(f"weights={name!r} takes no prior: only evidence turns a prior into a posterior.")
    return kinds[name](folds, seed)


def _as_fit(member: Fit | Model, X: Data | None, y: Values | None, schema: Schema | None, weighting: Weighting) -> Fit:
    if isinstance(member, Fit):
        return member
    if X is None:
        raise FitError(f"{type(member).__name__} is a model, not a fit: give X=, and y= where rows have labels.")
    weighting.check_models([member])
    method: Method = Exact()
    problem: Any = prepare(member, X, y, schema=schema)
    if isinstance(member, Recipe) and member.approximates_evidence:
        method = MLE()
    elif weighting.needs_rows and y is None and problem.refusal_of(method) is not None:
        method = MAP()
    return fit(member, problem, method=method)
