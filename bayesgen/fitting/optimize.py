"""Finding modes of a program's density: L-BFGS-B on JAX gradients from several starts, polished by Newton steps."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from ..devices import placed
from ..errors import FitError
from ..families.draws import generator
from ..program import density
from ..program.evaluation import unconstrain
from ..threads import ONE_THREAD_A_PRODUCT
from .curvature import find_curvature
from .seeds import as_key

POINTS = 16  # at which a density is evaluated by one call, at most
EIGEN_LIMIT = 1200  # dimensions up to which directions without curvature are looked for
AGREEMENT = 1e-3  # two optima are one if their values differ by less


@dataclasses.dataclass(frozen=True)
class Optimum:
    """A local maximum in unconstrained coordinates.

    Attributes:
        free: the flat vector.
        value: log density there.
        gradient: gradient there.
        num_modes: number of distinct maxima that the starts ended in.
    """

    free: np.ndarray
    value: float
    gradient: np.ndarray
    num_modes: int = 1


def unravel(structure, vector):
    """A flat vector as unconstrained values by site."""
    values, start = {}, 0
    for name, shape in structure.latents:
        size = math.prod(shape)
        values[name] = vector[start : start + size].reshape(shape)
        start += size
    return values


def flatten(program, latents):
    """Constrained latents as a flat unconstrained vector. Inside float64."""
    free = _unconstrain(program, latents, program.example_covariates(program.num_classes))
    return np.concatenate([np.ravel(free[name]) for name in program.latents])


@jax.jit
def _unconstrain(program, latents, covariates):
    return unconstrain(program.function, program.structure, latents, jnp.arange(program.num_classes), covariates)


def num_free(structure):
    """Dimension of the unconstrained space."""
    return sum(math.prod(shape) for _, shape in structure.latents)


def site_of(structure, index):
    """Name of the site that an entry of the flat vector belongs to."""
    for name, shape in structure.latents:
        index -= math.prod(shape)
        if index < 0:
            return name
    raise IndexError(index)


# the three densities that are maximised or sampled, as functions of the flat vector


@jax.jit  # jitted here, so that samplers which call it several times trace it once
def posterior_density(program, vector, evidence):
    """Density in the unconstrained space: where NUTS starts."""
    return density.unconstrained_log_density(program, unravel(program.structure, vector), evidence)


def parameter_density(program, vector, evidence):
    """Density over the parameters: what MAP maximises."""
    return density.parameter_log_density(program, unravel(program.structure, vector), evidence)


def likelihood(program, vector, evidence):
    """Likelihood: what MLE maximises."""
    return density.parameter_log_density(program, unravel(program.structure, vector), evidence, prior=False)


@functools.partial(jax.jit, static_argnums=0)
def _at_points(function, program, points, count, evidence):
    """Values and gradients at the first `count` of a fixed number of points: one compilation for any of them."""

    def one(index, found):
        value, gradient = jax.value_and_grad(function, argnums=1)(program, points[index], evidence)
        return found[0].at[index].set(value), found[1].at[index].set(gradient)

    return jax.lax.fori_loop(0, count, one, (jnp.zeros(len(points)), jnp.zeros_like(points)))


def differentiate(function, program, points, evidence):
    """Values (m,) and gradients (m, D) of one of the three densities at points (m, D)."""
    values, gradients = [], []
    for start in range(0, len(points), POINTS):
        some = points[start : start + POINTS]
        padded = np.zeros((POINTS, points.shape[1]))
        padded[: len(some)] = some
        found = _at_points(function, program, padded, len(some), evidence)
        values.append(np.asarray(found[0])[: len(some)])
        gradients.append(np.asarray(found[1])[: len(some)])
    return np.concatenate(values), np.concatenate(gradients)


def value_and_gradient(function, program, vector, evidence):
    """One of the three densities and its gradient at a flat vector."""
    values, gradients = differentiate(function, program, np.asarray(vector)[None], evidence)
    return float(values[0]), gradients[0]


def curvature_at(function, program, vector, evidence):
    """The `Curvature` of one of the three densities at a flat vector.

    By differences of gradients: these are compiled already and cost a fraction of a millisecond, second derivatives
    would take seconds to compile.
    """
    return find_curvature(
        lambda points: differentiate(function, program, points, evidence)[1],
        vector,
        program.structure,
        program.num_classes,
    )


def search(function, program, evidence, starts):
    """Climb from each start; return the best optimum, and how many different ones there were. Inside float64."""
    found = [_climb(function, program, evidence, start) for start in starts]
    found = [one for one in found if np.isfinite(one.value)]
    if not found:
        raise FitError("The density is not finite at any starting point: check the priors and the data's scale.")
    best = max(found, key=lambda one: one.value)
    distinct = [best]
    for one in found:
        if _settled(one) and not any(_same(one, other) for other in distinct):
            distinct.append(one)
    if len(distinct) > 1:  # a start on a saddle stays there
        distinct = [best] + [one for one in distinct[1:] if _is_peak(function, program, evidence, one)]
    return dataclasses.replace(best, num_modes=len(distinct))


def _same(one, other):
    """Whether two optima are one: as high, and in one place (modes that mirror each other are equally high)."""
    near = np.abs(one.free - other.free) <= 0.05 * (1.0 + np.abs(other.free))
    return abs(one.value - other.value) <= AGREEMENT and near.all()


def _is_peak(function, program, evidence, optimum):
    return curvature_at(function, program, optimum.free, evidence).inverse_roots() is not None


def _settled(optimum):
    return np.abs(optimum.gradient).max(initial=0.0) < 1e-3 * max(1.0, abs(optimum.value)) * 1e-2


def _climb(function, program, evidence, start):
    def objective(vector):
        value, gradient = value_and_gradient(function, program, vector, evidence)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -value, -gradient

    options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
    # its products are tiny, and threads of BLAS would fight with those of XLA
    with ONE_THREAD_A_PRODUCT:
        result = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    vector = _newton(function, program, evidence, result.x, objective)
    value, gradient = value_and_gradient(function, program, vector, evidence)
    return Optimum(vector, value, gradient)


def _newton(function, program, evidence, vector, objective):
    """Newton steps while they help: quadratic convergence to a gradient at rounding error."""
    value, gradient = objective(vector)
    for _ in range(8):
        step = curvature_at(function, program, vector, evidence).solve(gradient)
        if step is None:
            return vector  # not a maximum with definite curvature: the caller looks at the Hessian itself
        proposal = vector - step
        new_value, new_gradient = objective(proposal)
        if not new_value <= value + 1e-9 * abs(value) or np.abs(new_gradient).max() >= np.abs(gradient).max():
            return vector
        vector, value, gradient = proposal, new_value, new_gradient
    return vector


def dispersed_starts(structure, num_starts, seed):
    """The origin of the unconstrained space, and points around it."""
    rng = generator(as_key(seed))
    size = num_free(structure)
    return [np.zeros(size), *(rng.normal(size=size) for _ in range(num_starts - 1))]


def maximize(problem, *, prior, num_starts):
    """The mode of a program's density over its parameters (or of its likelihood).

    Raises:
        FitError: where the density is unbounded or its mode not unique; names the site.
    """
    program, evidence = problem.program, problem.evidence
    function = parameter_density if prior else likelihood
    with jax.enable_x64(True), placed(density.work(program, evidence)):
        optimum = search(function, program, evidence, dispersed_starts(program.structure, num_starts, problem.seed))
        _check_maximum(function, program, evidence, optimum, "posterior density" if prior else "likelihood")
    return optimum


def _check_maximum(function, program, evidence, optimum, what):
    """Refuse a point where the density still rises (unbounded) or is flat (no unique mode)."""
    structure = program.structure
    scale = max(1.0, abs(optimum.value))
    steepest = int(np.argmax(np.abs(optimum.gradient)))
    if np.abs(optimum.gradient[steepest]) > 1e-5 * scale:
        raise FitError(
            f"The {what} has no maximum that could be reached: it still rises along site "
            f"{site_of(structure, steepest)!r}. It may be unbounded there (a variance going to zero, a concentration "
            "below 1); give a prior that keeps it away from the boundary, or use NUTS()."
        )
    if len(optimum.free) > EIGEN_LIMIT:
        return
    curvature = curvature_at(function, program, optimum.free, evidence).dense()
    if not np.isfinite(curvature).all():
        raise FitError(f"The {what} has no finite curvature at its maximum: check the priors and the data's scale.")
    _check_flatness(structure, optimum, curvature, what)


def _check_flatness(structure, optimum, curvature, what):
    """A direction without curvature well inside the space means a mode that is not unique.

    Far out in the unconstrained space, curvature vanishes where the mode lies on the boundary (a zero count under a
    flat prior): that is no fault.
    """
    values, vectors = np.linalg.eigh(curvature)
    top = max(values[-1], 1e-300)
    for value, direction in zip(values, vectors.T, strict=True):
        index = int(np.argmax(np.abs(direction)))
        if value < 1e-7 * top and abs(optimum.free[index]) < 12:
            raise FitError(
                f"The {what} is flat along site {site_of(structure, index)!r}, so its mode is not unique. Data or "
                "prior must say something about it (is a class without rows?); or use NUTS()."
            )


def parameters_at(program, optimum):
    """The program's parameters (and deterministic sites) at an optimum, as NumPy arrays."""
    with jax.enable_x64(True):
        latents, deterministics = constrain(program, jnp.asarray(optimum.free))
    return program.parameters_of({**as_arrays(deterministics), **as_arrays(latents)})


@jax.jit
def constrain(program, vector):
    """Constrained latents and deterministic sites at a flat unconstrained vector."""
    labels = {name: jnp.ones(program.num_classes) for name in program.structure.covariates}
    evidence = density.Evidence(None, {}, labels)
    evaluation = density.at_classes(program, unravel(program.structure, vector), evidence, unconstrained=True)
    return evaluation.latents, evaluation.deterministics


@jax.jit
def constrain_draws(program, draws):
    """Constrained latents and deterministic sites of unconstrained draws (chain, draw, dimension)."""
    return jax.vmap(jax.vmap(lambda one: constrain(program, one)))(draws)


def as_arrays(values):
    """Leaves as NumPy arrays."""
    return {name: np.asarray(value) for name, value in values.items()}
