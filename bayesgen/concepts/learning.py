"""Training concept learners: by enumeration of hypotheses, and with unknown hyperparameters by search or sampling."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.special

from bayesgen.data import Schema
from bayesgen.errors import DataError, FitError
from bayesgen.fitting import MAP, MLE, NUTS, Exact, Method, Problem, prepare
from bayesgen.typing import Float, Int

from .class_index import ClassIndex
from .examples import Examples, ExampleSet, read_examples
from .fit import ConceptFit, ConceptPosterior, HypothesisPosterior
from .learner import ConceptLearner, ExampleCounts, log_prob_of_examples
from .marginal import ConceptMarginal, SharedHyperparameters, most_probable_hyperparameters, sample_hyperparameters

TIE = 1e-10  # log scores that differ by less are equal but for rounding


@dataclasses.dataclass(frozen=True)
class ConceptProblem(Problem):
    """The problem of training a concept learner on examples.

    Attributes:
        model: the learner.
        data: the examples.
    """

    model: ConceptLearner
    data: Examples

    def solved_by(self, method: Method) -> ConceptFit:
        """The posterior of the hypotheses, and of hyperparameters that follow a distribution, by the method."""
        _refuse_contradictions(self.data)
        if method.needs_rows:
            raise FitError(
                f"A concept learner has no labels whose p(y | x) {method!r} could maximise. Use MLE() or MAP()."
            )
        match method:
            case Exact():
                return self._exact(method)
            case MLE():
                return self._maximum_likelihood(method)
            case MAP():
                return self._maximum_posterior(method)
            case NUTS():
                return self._sampled(method)
        raise FitError(
            f"A concept learner is not trained by {type(method).__name__}(). Use Exact(), NUTS(), MAP() or MLE()."
        )

    def _exact(self, method: Exact) -> ConceptFit:
        _refuse_unknown(method, self.model)
        return self._fit(method, [_posterior(self.model, examples) for examples in self.data.sets])

    def _maximum_likelihood(self, method: MLE) -> ConceptFit:
        _refuse_unknown(method, self.model)
        scores = [log_likelihoods(self.model, examples) for examples in self.data.sets]
        return self._fit(method, [_best(of_set, self.model.noise) for of_set in scores])

    def _maximum_posterior(self, method: MAP) -> ConceptFit:
        learner, shared = self.model, None
        if learner.unknown:
            marginal = ConceptMarginal.of(ClassIndex.of(learner, self.data.sets))
            shared = most_probable_hyperparameters(marginal, method, self.seed)
            learner = learner.at_mode({name: float(value) for name, value in shared.parameters.items()})
        scores = [log_joints(learner, examples) for examples in self.data.sets]
        return self._fit(method, [_best(of_set, learner.noise) for of_set in scores], shared)

    def _sampled(self, method: NUTS) -> ConceptFit:
        if not self.model.unknown:
            raise FitError(
                "NUTS() has nothing continuous to sample: all hyperparameters of this learner are numbers. Use "
                "Exact(), which enumerates the hypotheses."
            )
        class_index = ClassIndex.of(self.model, self.data.sets)
        shared = sample_hyperparameters(ConceptMarginal.of(class_index), method, self.seed, self.progress)
        posterior, noisy = class_index.average({name: draws.ravel() for name, draws in shared.parameters.items()})
        share = np.divide(noisy, posterior, out=np.zeros_like(noisy), where=posterior > 0)
        beliefs = [_averaged(class_index, index, posterior, share) for index in range(len(class_index.sets))]
        return self._fit(method, beliefs, shared)

    def _fit(
        self, method: Method, beliefs: Iterable[HypothesisPosterior], shared: SharedHyperparameters | None = None
    ) -> ConceptFit:
        posterior = ConceptPosterior(self.model, tuple(beliefs), shared, isinstance(method, MLE | MAP))
        return ConceptFit(self.model, method, posterior, self.data, self.seed)


@prepare.register
def _(
    model: ConceptLearner,
    X: Any,
    y: Any = None,
    *,
    schema: Schema | None = None,
    sample_weight: Any = None,
    keeps_rows: bool = False,
) -> ConceptProblem:
    if schema is not None or sample_weight is not None:
        raise DataError("A concept learner takes examples alone: no schema or sample_weight.")
    return ConceptProblem(model, X if isinstance(X, Examples) else read_examples(model, X, y))


def log_likelihoods(learner: ConceptLearner, examples: ExampleSet) -> Float[np.ndarray, " H"]:
    """Log probabilities of examples under each hypothesis."""
    space = learner.space
    logs = log_prob_of_examples(ExampleCounts.of(space, examples), learner.noise, learner.sampling, len(space.domain))
    return np.asarray(logs)


def log_joints(learner: ConceptLearner, examples: ExampleSet) -> Float[np.ndarray, " H"]:
    """Log probabilities of each hypothesis and examples."""
    with np.errstate(divide="ignore"):
        return np.asarray(learner.space.log_prior({})) + log_likelihoods(learner, examples)


def _posterior(learner: ConceptLearner, examples: ExampleSet) -> HypothesisPosterior:
    joint = log_joints(learner, examples)
    total = float(scipy.special.logsumexp(joint))
    return HypothesisPosterior(joint - total, learner.noise, _ties(joint), total)


def _best(scores: Float[np.ndarray, " H"], noise: Any) -> HypothesisPosterior:
    ties = _ties(scores)
    return HypothesisPosterior(np.where(np.arange(len(scores)) == ties[0], 0.0, -np.inf), noise, ties)


def _ties(scores: Float[np.ndarray, " H"]) -> Int[np.ndarray, " ties"]:
    return np.flatnonzero(scores >= scores.max() - TIE)


def _averaged(
    class_index: ClassIndex, index: int, posterior: Float[np.ndarray, "C S U"], share: Float[np.ndarray, "C S U"]
) -> HypothesisPosterior:
    """The posterior averaged over draws, from probabilities of classes per unit of mass and expected noise."""
    with np.errstate(divide="ignore"):
        log_weights = class_index.learner.space.structure.base + np.log(class_index.of_hypotheses(index, posterior))
    return HypothesisPosterior(log_weights, class_index.of_hypotheses(index, share), _ties(log_weights))


def _refuse_contradictions(data: Examples) -> None:
    """Refuse sets of examples that no hypothesis explains without noise."""
    for index, examples in enumerate(data.sets):
        if not data.model.is_noisy and ExampleCounts.of(data.model.space, examples).unexplained.all():
            start, shown = f"Set {index}: no" if data.several else "No", examples.describe(data.model.space)
            raise FitError(f"{start} hypothesis holds {shown}. Add one that does, or give noise above 0.")


def _refuse_unknown(method: Method, learner: ConceptLearner) -> None:
    if learner.unknown:
        raise FitError(
            f"{type(method).__name__}() takes hyperparameters that are numbers, and {', '.join(learner.unknown)} "
            "follows a distribution. Use NUTS(), which samples it, or MAP()."
        )
