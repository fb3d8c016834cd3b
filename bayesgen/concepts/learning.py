"""Training concept learners: by enumeration of hypotheses, and with unknown hyperparameters by search or sampling."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.special

from bayesgen.data import Schema
from bayesgen.errors import BayesgenWarning, DataError, FitError, warn
from bayesgen.fitting import MAP, MLE, NUTS, Exact, Method, Problem, chain_attributes, prepare
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import convergence_problems, entry_names, warn_of_convergence
from bayesgen.program import at_free, center_and_scale, dispersed, free_of, saturated_sites
from bayesgen.records import copied, record, static
from bayesgen.runtime import EQUAL, EQUAL_DENSITIES, OwnedJit, as_key, generator
from bayesgen.solvers import maximize
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Seed, Values

from .examples import ExampleCounts, Examples, ExampleSet, log_prob_of_examples, read_examples
from .hypothesis_classes import ClassIndex, HypothesisClasses
from .learner import ConceptFit, ConceptLearner, ConceptPosterior, HypothesisPosterior, SharedHyperparameters
from .prior import bounds


@dataclasses.dataclass(frozen=True)
class ConceptProblem(Problem[ConceptFit]):
    """The problem of training a concept learner on examples.

    Attributes:
        model: the learner.
        data: the examples.
    """

    model: ConceptLearner
    data: Examples

    def fit_by(self, method: Method) -> ConceptFit:
        """The posterior of the hypotheses, and of hyperparameters that follow a distribution, by the method."""
        self._refuse_contradictions()
        if method.needs_rows:
            raise FitError(
                f"A concept learner has no labels whose p(y | x) {method!r} could maximise. Use MLE() or MAP()."
            )
        match method:
            case Exact():
                return self._enumerated(method)
            case NUTS():
                return self._sampled(method)
            case MLE() | MAP():
                return self._maximised(method)
        name = type(method).__name__
        raise FitError(f"A concept learner is not trained by {name}(). Use Exact(), NUTS(), MAP() or MLE().")

    def _enumerated(self, method: Exact) -> ConceptFit:
        """The posterior of all hypotheses."""
        self._refuse_unknown(method)
        joints = [log_scores(self.model, examples) for examples in self.data.sets]
        totals = [float(scipy.special.logsumexp(joint)) for joint in joints]
        pairs = zip(joints, totals, strict=True)
        noise = self.model.noise
        return self._fit(
            method, [HypothesisPosterior(joint - total, noise, ties(joint), total) for joint, total in pairs]
        )

    def _maximised(self, method: MLE | MAP) -> ConceptFit:
        """The most probable hypotheses, under the prior or without one."""
        learner, shared = self.model, None
        if not method.has_prior:
            self._refuse_unknown(method)
        elif learner.unknown:
            marginal = ConceptMarginal.of(ClassIndex.of(learner, self.data.sets))
            shared = most_probable_hyperparameters(marginal, method, self.seed)
            learner = learner.at_mode({name: float(value) for name, value in shared.parameters.items()})
        best = [ties(log_scores(learner, examples, method.has_prior)) for examples in self.data.sets]
        indices = np.arange(len(learner.space.names))
        beliefs = [
            HypothesisPosterior(np.where(indices == ties_of_set[0], 0.0, -np.inf), learner.noise, ties_of_set)
            for ties_of_set in best
        ]
        return self._fit(method, beliefs, shared, is_estimate=True)

    def _sampled(self, method: NUTS) -> ConceptFit:
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
            logs = [base + np.log(classes.by_hypothesis(index, posterior)) for index in range(len(classes.sets))]
        beliefs = [
            HypothesisPosterior(log_weights, classes.by_hypothesis(index, noise), ties(log_weights))
            for index, log_weights in enumerate(logs)
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
    return np.flatnonzero(scores >= scores.max() - EQUAL)


# The posterior of hyperparameters given sets of examples, with the hypotheses marginalised.


@record
class ConceptMarginal(LogDensity):
    """Log density of the unknown hyperparameters, unconstrained, given examples with hypotheses marginalised.

    Attributes:
        hyperparameters: numbers or distributions by name.
        classes: the hypotheses, by classes of equal likelihood and prior factor.
        names: the hyperparameters that are distributions, in the order of the vector.
        is_unconstrained: whether it is the density of the unconstrained vector, else of the hyperparameters themselves.
    """

    hyperparameters: dict[str, Any]
    classes: HypothesisClasses
    names: tuple[str, ...] = static()
    is_unconstrained: bool = static(default=True)

    @classmethod
    def of(cls, class_index: ClassIndex) -> "ConceptMarginal":
        """The density for a learner's sets of examples."""
        learner = class_index.learner
        return cls(learner.hyperparameters, class_index.classes, tuple(learner.unknown))

    @property
    def priors(self) -> dict[str, dist.Distribution]:
        """The priors of the unknown hyperparameters, by name."""
        return {name: self.hyperparameters[name] for name in self.names}

    @property
    def dimension(self) -> int:
        return len(self.names)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log density at unconstrained hyperparameters."""
        points = [at_free(prior, vector[index]) for index, prior in enumerate(self.priors.values())]
        log_prior = sum(point.log_prob + self.is_unconstrained * point.log_jacobian for point in points)
        values = {name: point.value for name, point in zip(self.names, points, strict=True)}
        return log_prior + self._log_evidence(values)

    def at(self, values: Mapping[str, Array]) -> Float[Array, ""]:
        """Log density of hyperparameters in their own ranges, by name."""
        return sum(prior.log_prob(values[name]) for name, prior in self.priors.items()) + self._log_evidence(values)

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        pairs = enumerate(self.priors.items())
        return {name: at_free(prior, vector[index]).value for index, (name, prior) in pairs}

    def name_of(self, index: int) -> str:
        return self.names[index]

    def _log_evidence(self, values: Mapping[str, Array]) -> Float[Array, ""]:
        return self.classes.log_evidence({**self.hyperparameters, **values})


def prior_starts(marginal: ConceptMarginal, key: PRNGKeyArray, num_points: int = 8) -> Float[np.ndarray, "starts D"]:
    """Starts of a search for the mode: the origin, points around it and about prior means. Inside float64."""
    rng = generator(key)
    points = _about_prior_means.by_numpy(marginal, rng.normal(size=(num_points, marginal.dimension)))
    return dispersed(np.asarray(points), rng)


@OwnedJit
def _about_prior_means(marginal: ConceptMarginal, distances: Float[Array, "points D"]) -> Float[Array, "points D"]:
    """Unconstrained points at distances from the prior means. Draws would be as good, but take seconds to compile."""
    centers = jnp.stack([free_of(prior, jnp.asarray(center_and_scale(prior)[0])) for prior in marginal.priors.values()])
    return jnp.where(jnp.isfinite(centers), centers, 0.0) + distances


def find_mode(
    marginal: ConceptMarginal, key: PRNGKeyArray, num_starts: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The mode of the density of hyperparameters in their own range, on whose boundary it often is.

    Args:
        marginal: log density of the hyperparameters.
        key: JAX key of the starting points.
        num_starts: number of starting points, about the prior means.

    Returns:
        (values by name; name -> bound for those on the boundary).

    Raises:
        FitError: where the density is unbounded at a bound; names the hyperparameter.
    """
    density = copied(marginal, is_unconstrained=False)
    with jax.enable_x64(True):
        optimum = maximize(density, prior_starts(marginal, key, max(8, num_starts)), num_starts)
        values = {name: float(value) for name, value in _constrain.by_numpy(marginal, optimum.vector).items()}
        return _moved_to_bounds(marginal, values, optimum.value)


def _moved_to_bounds(
    marginal: ConceptMarginal, values: dict[str, float], density: float
) -> tuple[dict[str, float], dict[str, float]]:
    """The values with those near a bound moved to it, unless the density is lower there."""
    boundary = {}
    for name, prior in marginal.priors.items():
        bound = min(bounds(prior), key=lambda bound: abs(values[name] - bound))
        if abs(values[name] - bound) > 1e-6:  # far enough for the search to have ended inside
            continue
        at_bound = values | {name: bound}
        density_at_bound = float(_density_at(marginal, {name: jnp.asarray(value) for name, value in at_bound.items()}))
        if density_at_bound == np.inf:
            raise FitError(f"The posterior density is unbounded where {name} is {bound:g}: it has no mode. Use NUTS().")
        if np.isnan(density_at_bound):  # only a limit there: a mode is on the bound if the search ended there
            if abs(values[name] - bound) <= EQUAL:
                boundary[name] = bound
        elif density_at_bound >= density - EQUAL_DENSITIES * abs(density):
            boundary[name], values = bound, at_bound
    return values, boundary


_density_at, _constrain = jax.jit(ConceptMarginal.at), OwnedJit(ConceptMarginal.constrain)


def sample_hyperparameters(
    marginal: ConceptMarginal, method: NUTS, seed: Seed, progress: bool | None
) -> SharedHyperparameters:
    """Draws of the unknown hyperparameters, the hypotheses marginalised."""
    chains = method.chains(marginal, lambda: prior_starts(marginal, as_key(seed)), seed, progress)
    supports = {name: prior.support for name, prior in marginal.priors.items()}
    saturated = saturated_sites(supports, chains.values)
    warn_of_convergence(
        chains.warnings + saturated + convergence_problems(chains.values, chains.stats, entry_names({}, {}))
    )
    return SharedHyperparameters(chains.values, method, chain_attributes(chains), chains.stats)


def most_probable_hyperparameters(marginal: ConceptMarginal, method: MLE | MAP, seed: Seed) -> SharedHyperparameters:
    """The mode of the unknown hyperparameters; one on the boundary is reported."""
    values, boundary = find_mode(marginal, as_key(seed), method.num_starts or 4)
    if boundary:
        ends = ", ".join(f"{name} = {bound:g}" for name, bound in boundary.items())
        warn(
            f"The mode of the hyperparameters is on the boundary: {ends}. NUTS() averages over them instead.",
            BayesgenWarning,
        )
    point = {name: np.asarray(value) for name, value in values.items()}
    return SharedHyperparameters(point, method, {"boundary": boundary})
