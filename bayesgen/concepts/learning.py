"""Training concept learners: by enumeration of hypotheses, and with unknown hyperparameters by search or sampling."""

import dataclasses
from typing import Any

import numpy as np
import scipy.special

from bayesgen.data import Schema
from bayesgen.errors import DataError, FitError
from bayesgen.fitting import MAP, MLE, NUTS, FiniteProblem, Method, prepare
from bayesgen.typing import Float, Int, Values

from .examples import ExampleCounts, Examples, ExampleSet, log_prob_of_examples, read_examples
from .hypothesis_classes import ClassIndex
from .learner import ConceptFit, ConceptLearner, ConceptPosterior, HypothesisPosterior, SharedHyperparameters
from .marginal import ConceptMarginal, most_probable_hyperparameters, sample_hyperparameters

TIE = 1e-10  # log scores that differ by less are equal but for rounding


@dataclasses.dataclass(frozen=True)
class ConceptProblem(FiniteProblem[ConceptFit]):
    """The problem of training a concept learner on examples.

    Attributes:
        model: the learner.
        data: the examples.
    """

    model: ConceptLearner
    data: Examples

    def solved_by(self, method: Method) -> ConceptFit:
        """The posterior of the hypotheses, and of hyperparameters that follow a distribution, by the method."""
        self._refuse_contradictions()
        if method.needs_rows:
            raise FitError(
                f"A concept learner has no labels whose p(y | x) {method!r} could maximise. Use MLE() or MAP()."
            )
        return method.solve_finite(self)

    def enumerated(self, method: Method) -> ConceptFit:
        self._refuse_unknown(method)
        joints = [log_scores(self.model, examples) for examples in self.data.sets]
        totals = [float(scipy.special.logsumexp(joint)) for joint in joints]
        pairs = zip(joints, totals, strict=True)
        noise = self.model.noise
        return self._fit(
            method, [HypothesisPosterior(joint - total, noise, ties(joint), total) for joint, total in pairs]
        )

    def maximised(self, method: MLE | MAP, has_prior: bool) -> ConceptFit:
        learner, shared = self.model, None
        if not has_prior:
            self._refuse_unknown(method)
        elif learner.unknown:
            marginal = ConceptMarginal.of(ClassIndex.of(learner, self.data.sets))
            shared = most_probable_hyperparameters(marginal, method, self.seed)
            learner = learner.at_mode({name: float(value) for name, value in shared.parameters.items()})
        best = [ties(log_scores(learner, examples, has_prior)) for examples in self.data.sets]
        indices = np.arange(len(learner.space.names))
        beliefs = [
            HypothesisPosterior(np.where(indices == of_set[0], 0.0, -np.inf), learner.noise, of_set) for of_set in best
        ]
        return self._fit(method, beliefs, shared, is_estimate=True)

    def sampled(self, method: NUTS) -> ConceptFit:
        """Posteriors averaged over draws, from probabilities of classes per unit of prior mass and expected noise."""
        if not self.model.unknown:
            raise FitError(
                "NUTS() has nothing continuous to sample: all hyperparameters of this learner are numbers. Use "
                "Exact(), which enumerates the hypotheses."
            )
        classes, base = ClassIndex.of(self.model, self.data.sets), self.model.space.structure.base
        shared = sample_hyperparameters(ConceptMarginal.of(classes), method, self.seed, self.progress)
        posterior, noisy = classes.average({name: draws.ravel() for name, draws in shared.parameters.items()})
        noise = np.divide(noisy, posterior, out=np.zeros_like(noisy), where=posterior > 0)
        with np.errstate(divide="ignore"):
            logs = [base + np.log(classes.of_hypotheses(index, posterior)) for index in range(len(classes.sets))]
        beliefs = [
            HypothesisPosterior(of_set, classes.of_hypotheses(index, noise), ties(of_set))
            for index, of_set in enumerate(logs)
        ]
        return self._fit(method, beliefs, shared)

    def _fit(
        self,
        method: Method,
        beliefs: list[HypothesisPosterior],
        shared: SharedHyperparameters | None = None,
        is_estimate: bool = False,
    ) -> ConceptFit:
        posterior = ConceptPosterior(self.model, tuple(beliefs), shared, is_estimate, self.data.several)
        return ConceptFit(self.model, method, posterior, self.data, self.seed)

    def _refuse_contradictions(self) -> None:
        """Refuse sets of examples that no hypothesis explains without noise."""
        space = self.model.space
        for index, examples in enumerate(() if self.model.is_noisy else self.data.sets):
            if ExampleCounts.of(space, examples).unexplained.all():
                start, shown = f"Set {index}: no" if self.data.several else "No", examples.describe(space)
                raise FitError(f"{start} hypothesis holds {shown}. Add one that does, or give noise above 0.")

    def _refuse_unknown(self, method: Method) -> None:
        if self.model.unknown:
            raise FitError(
                f"{type(method).__name__}() takes hyperparameters that are numbers, and "
                f"{', '.join(self.model.unknown)} follows a distribution. Use NUTS(), which samples it, or MAP()."
            )


@prepare.register
def _(
    model: ConceptLearner,
    X: Any,
    y: Values | None = None,
    *,
    schema: Schema | None = None,
    sample_weight: Values | None = None,
    keeps_rows: bool = False,
) -> ConceptProblem:
    if schema is not None or sample_weight is not None:
        raise DataError("A concept learner takes examples alone: no schema or sample_weight.")
    return ConceptProblem(model, X if isinstance(X, Examples) else read_examples(model.space, X, y))


def log_scores(learner: ConceptLearner, examples: ExampleSet, has_prior: bool = True) -> Float[np.ndarray, " H"]:
    """Log probabilities of each hypothesis and examples, or without the prior of examples under each hypothesis."""
    space = learner.space
    with np.errstate(divide="ignore"):
        counts = ExampleCounts.of(space, examples)
        logs = np.asarray(log_prob_of_examples(counts, learner.noise, learner.sampling, len(space.domain)))
        return np.asarray(space.log_prior({})) + logs if has_prior else logs


def ties(scores: Float[np.ndarray, " H"]) -> Int[np.ndarray, " ties"]:
    """Indices of the best hypotheses."""
    return np.flatnonzero(scores >= scores.max() - TIE)
