"""The posterior of hyperparameters given sets of examples, with the hypotheses marginalised."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.optimize

from bayesgen.errors import BayesgenWarning, FitError, warn
from bayesgen.fitting import MAP, MLE, NUTS, about
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import convergence_problems, entry_names, warn_of_convergence
from bayesgen.program import at_free, center_and_scale, dispersed, free_of, saturated_sites
from bayesgen.records import record, static
from bayesgen.runtime import as_key, generator
from bayesgen.typing import Array, Float, PRNGKeyArray, Seed

from .hypothesis_classes import ClassIndex, HypothesisClasses
from .learner import SharedHyperparameters
from .prior import bounds


@record
class ConceptMarginal(LogDensity):
    """Log density of the unknown hyperparameters, unconstrained, given examples with hypotheses marginalised.

    Attributes:
        hyperparameters: numbers or distributions by name.
        classes: the hypotheses, by classes of equal likelihood and prior factor.
        names: the hyperparameters that are distributions, in the order of the vector.
    """

    hyperparameters: dict[str, Any]
    classes: HypothesisClasses
    names: tuple[str, ...] = static()

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
        """Log density of unconstrained hyperparameters, Jacobian included."""
        points = [at_free(prior, vector[index]) for index, prior in enumerate(self.priors.values())]
        values = {name: point.value for name, point in zip(self.names, points, strict=True)}
        log_prior = sum(point.log_prob + point.log_jacobian for point in points)
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
    points, _ = _about_prior_means(marginal, rng.normal(size=(num_points, marginal.dimension)))
    return dispersed(np.asarray(points), rng)


@jax.jit
def _about_prior_means(
    marginal: ConceptMarginal, distances: Float[Array, "points D"]
) -> tuple[Float[Array, "points D"], dict[str, Float[Array, " points"]]]:
    """Unconstrained points at distances from the prior means, and their hyperparameters by name.

    Draws would be as good, but samplers take seconds to compile.
    """
    centers = jnp.stack([free_of(prior, jnp.asarray(center_and_scale(prior)[0])) for prior in marginal.priors.values()])
    points = jnp.where(jnp.isfinite(centers), centers, 0.0) + distances
    return points, jax.vmap(marginal.constrain)(points)


# The mode of hyperparameters, which is often on the boundary of their range, is searched in the constrained space.

MARGIN = 1e-9  # distance of the search from bounds, at which densities and their gradients are finite
NEAR_A_BOUND = 1e-6  # a mode nearer to a bound than this is compared with the bound itself

Box: TypeAlias = Float[np.ndarray, "D 2"]
HyperparameterVector: TypeAlias = Float[np.ndarray, " D"]

_value = jax.jit(ConceptMarginal.at)
_value_and_gradient = jax.jit(jax.value_and_grad(ConceptMarginal.at, argnums=1))


def find_mode(
    marginal: ConceptMarginal, key: PRNGKeyArray, num_starts: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The mode of the density of hyperparameters in their own range.

    Args:
        marginal: log density of the hyperparameters.
        key: JAX key of the starting points.
        num_starts: number of starting points, about the prior means.

    Returns:
        (values by name; name -> bound for those on the boundary).

    Raises:
        FitError: where the density is unbounded at a bound; names the hyperparameter.
    """
    box = np.asarray([bounds(prior) for prior in marginal.priors.values()])
    with jax.enable_x64(True):
        _, values = _about_prior_means(marginal, generator(key).normal(size=(num_starts, len(box))))
        starts = np.clip(np.stack([values[name] for name in marginal.names], axis=1), *_inner(box).T)
        optima = [_search(marginal, box, start) for start in starts]
        _, best = max(optima, key=lambda end: end[0])
        return _moved_to_bounds(marginal, box, best)


def _inner(box: Box) -> Box:
    width = np.where(np.isfinite(box).all(1), box[:, 1] - box[:, 0], 1.0)
    return box + MARGIN * width[:, None] * np.array([1, -1])


def _search(marginal: ConceptMarginal, box: Box, start: HyperparameterVector) -> tuple[float, HyperparameterVector]:
    def objective(vector: HyperparameterVector) -> tuple[float, HyperparameterVector]:
        value, by_name = _value_and_gradient(marginal, _named(marginal.names, vector))
        gradient = np.asarray([by_name[name] for name in marginal.names])
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -float(value), -gradient

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000}
    result = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=_inner(box), options=options)
    return -float(result.fun), result.x


def _moved_to_bounds(
    marginal: ConceptMarginal, box: Box, vector: HyperparameterVector
) -> tuple[dict[str, float], dict[str, float]]:
    """The vector with hyperparameters near a bound moved to it, unless the density is lower there."""
    names, vector, boundary = marginal.names, vector.copy(), {}
    for index, bound in enumerate(box[np.arange(len(box)), np.abs(box - vector[:, None]).argmin(1)]):
        if abs(vector[index] - bound) > NEAR_A_BOUND:
            continue
        at_bound = np.where(np.arange(len(names)) == index, bound, vector)
        density, bound_density = (float(_value(marginal, _named(names, point))) for point in (vector, at_bound))
        if bound_density == np.inf:
            raise FitError(
                f"The posterior density is unbounded where {names[index]} is {bound:g}: it has no mode. Use NUTS()."
            )
        if np.isnan(
            bound_density
        ):  # a density with only a limit there: the point next to it, if the search ended there
            at_bound, bound_density = vector, density if vector[index] in _inner(box)[index] else -np.inf
        if not bound_density < density - 1e-6 * abs(density):
            boundary[names[index]], vector = float(bound), at_bound
    return dict(zip(names, vector.tolist(), strict=True)), boundary


def _named(names: Sequence[str], vector: HyperparameterVector) -> dict[str, Array]:
    return {name: jnp.asarray(value) for name, value in zip(names, vector, strict=True)}


NUM_STARTS = 4  # of a search for hyperparameters, by default


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
    return SharedHyperparameters(chains.values, method, about(chains), chains.stats)


def most_probable_hyperparameters(marginal: ConceptMarginal, method: MLE | MAP, seed: Seed) -> SharedHyperparameters:
    """The mode of the unknown hyperparameters; one on the boundary is reported."""
    values, boundary = find_mode(marginal, as_key(seed), method.num_starts or NUM_STARTS)
    if boundary:
        ends = ", ".join(f"{name} = {bound:g}" for name, bound in boundary.items())
        warn(
            f"The mode of the hyperparameters is on the boundary: {ends}. NUTS() averages over them instead.",
            BayesgenWarning,
        )
    point = {name: np.asarray(value) for name, value in values.items()}
    return SharedHyperparameters(point, method, {"boundary": boundary})
