"""Finding modes of a program's density: L-BFGS-B on JAX gradients from several starts, and Newton steps."""

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
from .curvature import Surface, in_batches
from .seeds import as_key

POINTS = 16  # at which a density is evaluated by one call, at most
EIGEN_LIMIT = 1200  # dimensions up to which directions without curvature are looked for
# LLVM's optimising takes half of the time of compiling; small kernels run no slower with less of it, loops over rows do
QUICKLY = {"xla_backend_optimization_level": 1}
ROUNDS, CLIMB_STEPS, NEWTON_STEPS, HALVINGS = 10, 200, 20, 7  # at most, to a mode
LAST_STEP = 1e-10  # squared length of a Newton step, in standard deviations, after which there need be no other
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


def _traced_at_points(function, program, points, count, evidence):
    """Values and gradients at the first `count` of a fixed number of points: one compilation for any of them."""

    def one(index, found):
        value, gradient = jax.value_and_grad(function, argnums=1)(program, points[index], evidence)
        return found[0].at[index].set(value), found[1].at[index].set(gradient)

    return jax.lax.fori_loop(0, count, one, (jnp.zeros(len(points)), jnp.zeros_like(points)))


_at_points = jax.jit(_traced_at_points, static_argnums=0, compiler_options=QUICKLY)
_at_points_of_rows = jax.jit(_traced_at_points, static_argnums=0)


def surface_of(function, program, evidence):
    """One of the three densities as a `Surface`, by a function compiled for it."""
    compiled = _at_points if evidence.rows is None else _at_points_of_rows
    evaluate = in_batches(lambda points, count: compiled(function, program, points, count, evidence), POINTS)
    return Surface(evaluate, program.structure, program.num_classes)


def search(surface, starts):
    """Climb from each start; return the best optimum, and how many different ones there were. Inside float64."""
    found = [_climb(surface, start) for start in starts]
    found = [one for one in found if np.isfinite(one.value)]
    if not found:
        raise FitError("The density is not finite at any starting point: check the priors and the data's scale.")
    best = max(found, key=lambda one: one.value)
    distinct = [best]
    for one in found:
        if _settled(one) and not any(_same(one, other) for other in distinct):
            distinct.append(one)
    if len(distinct) > 1:  # a start on a saddle stays there
        distinct = [best] + [one for one in distinct[1:] if _is_peak(surface, one)]
    return dataclasses.replace(best, num_modes=len(distinct))


def _same(one, other):
    """Whether two optima are one: as high, and in one place (modes that mirror each other are equally high)."""
    near = np.abs(one.free - other.free) <= 0.05 * (1.0 + np.abs(other.free))
    return abs(one.value - other.value) <= AGREEMENT and near.all()


def _is_peak(surface, optimum):
    return surface.curvature(optimum.free).inverse_roots() is not None


def _settled(optimum):
    return np.abs(optimum.gradient).max(initial=0.0) < 1e-3 * max(1.0, abs(optimum.value)) * 1e-2


def _climb(surface, start):
    def objective(vector):
        value, gradient = surface.at(vector)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -value, -gradient

    options = {"maxiter": CLIMB_STEPS, "maxfun": 2 * CLIMB_STEPS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
    vector, converged = start, False
    for _ in range(ROUNDS):
        # its products are tiny, and threads of BLAS would fight with those of XLA
        with ONE_THREAD_A_PRODUCT:
            result = scipy.optimize.minimize(objective, vector, jac=True, method="L-BFGS-B", options=options)
        vector, converged = _newton(surface, result.x, objective)
        if converged or result.success:
            break
    value, gradient = surface.at(vector)
    return Optimum(vector, value, gradient)


def _newton(surface, vector, objective):
    """Newton steps while they help, a curvature that still does used again: (vector, whether at a minimum)."""
    (value, gradient), curvature = objective(vector), None
    for _ in range(NEWTON_STEPS):
        fresh = curvature is None
        curvature = curvature or surface.curvature(vector)
        step = curvature.solve(gradient)
        if step is None:
            return vector, False  # not a maximum with definite curvature: the caller looks at the Hessian itself
        found = _shortened(objective, vector, step, value, gradient)
        if found is None and fresh:
            return vector, False
        if found is None:
            curvature = None
            continue
        before, at_last = np.abs(gradient).max(), gradient @ step < LAST_STEP
        vector, value, gradient = found
        if at_last:
            return vector, True
        if np.abs(gradient).max() > 0.1 * before:
            curvature = None
    return vector, False


def _shortened(objective, vector, step, value, gradient):
    """Where a step that may be too long leads, halved until it helps: (vector, value, gradient), or None."""
    for halvings in range(HALVINGS):
        proposal = vector - step / 2**halvings
        new_value, new_gradient = objective(proposal)
        noise = 1e-9 * abs(value)
        smaller = np.abs(new_gradient).max() < np.abs(gradient).max()
        if new_value < value - noise or (new_value <= value + noise and smaller):
            return proposal, new_value, new_gradient
    return None


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
    surface = surface_of(parameter_density if prior else likelihood, program, evidence)
    with jax.enable_x64(True), placed(density.work(program, evidence)):
        optimum = search(surface, dispersed_starts(program.structure, num_starts, problem.seed))
        _check_maximum(surface, optimum, "posterior density" if prior else "likelihood")
    return optimum


def _check_maximum(surface, optimum, what):
    """Refuse a point where the density still rises (unbounded) or is flat (no unique mode)."""
    structure = surface.structure
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
    curvature = surface.curvature(optimum.free).dense()
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


@functools.partial(jax.jit, compiler_options=QUICKLY)
def constrain_draws(program, whitening, draws):
    """Constrained latents and deterministic sites of whitened draws (chain, draw, dimension)."""
    return jax.vmap(jax.vmap(lambda one: constrain(program, whitening(one))))(draws)


def as_arrays(values):
    """Leaves as NumPy arrays."""
    return {name: np.asarray(value) for name, value in values.items()}
