"""Finding modes of a program's density: L-BFGS-B on JAX gradients from several starts, polished by Newton steps."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from ..devices import placed
from ..errors import FitError
from ..program import density
from ..program.evaluation import unconstrain

GRADIENT_TOLERANCE = 1e-6
NEWTON_LIMIT = 1200  # dimensions up to which a dense Hessian is formed
STEP = 1e-4  # of a difference, in curvature radii
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


_values = {f: jax.jit(jax.value_and_grad(f, argnums=1)) for f in (posterior_density, parameter_density, likelihood)}


def value_and_gradient(program, vector, evidence):
    """The posterior density and its gradient at a flat vector."""
    return _values[posterior_density](program, vector, evidence)


def hessian(function, program, vector, evidence):
    """Hessian of one of the three densities, by central differences of the gradient.

    Gradients are compiled already and cost a fraction of a millisecond, second derivatives would take seconds to
    compile. The steps are a small part of each coordinate's own curvature radius, found by repetition, so neither the
    units nor the scale of the data matter; the relative error is about 1e-8.
    """
    steps = 1e-4 * np.maximum(np.abs(vector), 1e-3)
    for _ in range(6):
        matrix = _differences(_values[function], program, vector, evidence, steps)
        diagonal = np.abs(np.diagonal(matrix))
        usable = np.isfinite(diagonal) & (diagonal > 0)
        wanted = np.where(usable, STEP / np.sqrt(np.where(usable, diagonal, 1.0)), steps)
        if (np.abs(np.log(wanted / steps)) < 1.0).all():
            break
        steps = wanted
    return 0.5 * (matrix + matrix.T)


def _differences(differentiate, program, vector, evidence, steps):
    columns = []
    for index, step in enumerate(steps):
        ahead, behind = vector.copy(), vector.copy()
        ahead[index] += step
        behind[index] -= step
        rise = np.asarray(differentiate(program, ahead, evidence)[1])
        fall = np.asarray(differentiate(program, behind, evidence)[1])
        columns.append((rise - fall) / (ahead[index] - behind[index]))
    return np.stack(columns)


def search(function, program, evidence, starts):
    """Climb from each start; return the best optimum, and how many different ones there were. Inside float64."""
    found = [_climb(function, program, evidence, start) for start in starts]
    found = [one for one in found if np.isfinite(one.value)]
    if not found:
        raise FitError("The density is not finite at any starting point: check the priors and the data's scale.")
    best = max(found, key=lambda one: one.value)
    distinct = [best]
    for one in found:
        settled = _settled(one)
        if settled and all(abs(one.value - other.value) > AGREEMENT for other in distinct):
            distinct.append(one)
    return dataclasses.replace(best, num_modes=len(distinct))


def _settled(optimum):
    return np.abs(optimum.gradient).max(initial=0.0) < 1e-3 * max(1.0, abs(optimum.value)) * 1e-2


def _climb(function, program, evidence, start):
    differentiate = _values[function]

    def objective(vector):
        value, gradient = differentiate(program, vector, evidence)
        value, gradient = float(value), np.asarray(gradient)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -value, -gradient

    options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
    result = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    vector = _newton(function, program, evidence, result.x, objective)
    value, gradient = differentiate(program, vector, evidence)
    return Optimum(vector, float(value), np.asarray(gradient))


def _newton(function, program, evidence, vector, objective):
    """Newton steps while they help: quadratic convergence to a gradient at rounding error."""
    if len(vector) > NEWTON_LIMIT or len(vector) == 0:
        return vector
    value, gradient = objective(vector)
    for _ in range(8):
        curvature = -hessian(function, program, vector, evidence)
        try:
            factor = scipy.linalg.cho_factor(curvature)
        except (np.linalg.LinAlgError, ValueError):
            return vector  # not a maximum with definite curvature: the caller looks at the Hessian itself
        proposal = vector - scipy.linalg.cho_solve(factor, gradient)
        new_value, new_gradient = objective(proposal)
        if not new_value <= value + 1e-9 * abs(value) or np.abs(new_gradient).max() >= np.abs(gradient).max():
            return vector
        vector, value, gradient = proposal, new_value, new_gradient
    return vector


def starting_points(structure, num_starts, seed):
    """The origin of the unconstrained space, and points around it."""
    rng = np.random.default_rng(seed)
    size = num_free(structure)
    return [np.zeros(size), *(rng.normal(size=size) for _ in range(num_starts - 1))]


def maximize(problem, *, prior, num_starts):
    """The mode of a program's density over its parameters (or of its likelihood).

    Raises:
        FitError: where the density is unbounded or its mode not unique; names the site.
    """
    program, evidence = problem.program, problem.evidence
    function = parameter_density if prior else likelihood
    seed = problem.seed if isinstance(problem.seed, int) else 0
    with jax.enable_x64(True), placed(density.work(program, evidence)):
        optimum = search(function, program, evidence, starting_points(program.structure, num_starts, seed))
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
    if len(optimum.free) > NEWTON_LIMIT:
        return
    curvature = -hessian(function, program, optimum.free, evidence)
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


def as_arrays(values):
    """Leaves as NumPy arrays."""
    return {name: np.asarray(value) for name, value in values.items()}
