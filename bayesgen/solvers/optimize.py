"""Finding modes of a program's density: L-BFGS-B on JAX gradients from several starts, and Newton steps."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from bayesgen.errors import FitError
from bayesgen.program import (
    DRAWS,
    Evidence,
    ProgramJit,
    at_classes,
    density_work,
    dispersed_starts,
    parameter_log_density,
    unconstrain,
    unconstrained_log_density,
)
from bayesgen.runtime import ONE_THREAD_A_PRODUCT, placed

from .curvature import Curvature, Surface, in_batches

POINTS = 16  # at which a density is evaluated by one call, at most
EIGEN_LIMIT = 1200  # dimensions up to which directions without curvature are looked for
# LLVM's optimising takes half of the time of compiling; small kernels run no slower with less of it, loops over rows do
QUICKLY = {"xla_backend_optimization_level": 1}
ROUNDS, CLIMB_STEPS, NEWTON_STEPS, HALVINGS = 10, 200, 20, 7  # at most, to a mode
LAST_STEP = 1e-10  # squared length of a Newton step, in standard deviations, after which there need be no other
AGREEMENT = 1e-3  # two optima are one if their values differ by less
SETTLED = 1e-4  # squared length of the Newton step, in standard deviations, that is left at an optimum
FAR_OUT = 12.0  # from the origin of the unconstrained space: a probability of 1e-5
FLAT = 1e-18  # curvature of a coordinate that has none: a standard deviation would be a billion times its value
PROBES = 4  # directions in which a peak is looked at from both sides
NEGLIGIBLE = 14.0  # log of how much less probability there is about a mode that need not be visited: a millionth


@dataclasses.dataclass(frozen=True)
class Optimum:
    """A local maximum in unconstrained coordinates.

    Attributes:
        free: the flat vector.
        value: log density there.
        gradient: gradient there.
        converged: whether Newton steps ended there, which they do not at a saddle.
        curvature: the `Curvature` there, if it is known to be a peak: no saddle, ridge or plateau.
        num_modes: number of distinct peaks that the starts ended in and that have a share of the probability.
    """

    free: np.ndarray
    value: float
    gradient: np.ndarray
    converged: bool = False
    curvature: Curvature | None = None
    num_modes: int = 1

    @property
    def log_mass(self):
        """Log of the integral of the Laplace approximation, up to a constant. Only of peaks."""
        assert self.curvature is not None
        return self.value + self.curvature.log_volume


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


@ProgramJit
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


@ProgramJit  # jitted here, so that samplers which call it several times trace it once
def posterior_density(program, vector, evidence):
    """Density in the unconstrained space: where NUTS starts."""
    return unconstrained_log_density(program, unravel(program.structure, vector), evidence)


def parameter_density(program, vector, evidence):
    """Density over the parameters: what MAP maximises."""
    return parameter_log_density(program, unravel(program.structure, vector), evidence)


def likelihood(program, vector, evidence):
    """Likelihood: what MLE maximises."""
    return parameter_log_density(program, unravel(program.structure, vector), evidence, prior=False)


def _traced_at_points(function, program, points, count, evidence):
    """Values and gradients at the first `count` of a fixed number of points: one compilation for any of them."""

    def one(index, found):
        value, gradient = jax.value_and_grad(function, argnums=1)(program, points[index], evidence)
        return found[0].at[index].set(value), found[1].at[index].set(gradient)

    return jax.lax.fori_loop(0, count, one, (jnp.zeros(len(points)), jnp.zeros_like(points)))


_jitted_at_points = functools.partial(
    ProgramJit, _traced_at_points, program_of=lambda function, program, *_: program, static_argnums=0
)
_at_points, _at_points_of_rows = _jitted_at_points(compiler_options=QUICKLY), _jitted_at_points()


def surface_of(function, program, evidence):
    """One of the three densities as a `Surface`, by a function compiled for it."""
    compiled = _at_points if evidence.rows is None else _at_points_of_rows
    evaluate = in_batches(lambda points, count: compiled(function, program, points, count, evidence), POINTS)
    return Surface(evaluate, program.structure, program.num_classes)


def search(surface, starts):
    """The peak about which most of the probability lies, or the highest optimum where none is a peak. Inside float64.

    Raises:
        FitError: where the density is finite nowhere.
    """
    optima = climb(surface, starts)
    peaks = [peak for peak in (_as_peak(surface, optimum) for optimum in optima) if peak is not None]
    if not peaks:
        return optima[0]
    main = max(peaks, key=lambda peak: peak.log_mass)
    return dataclasses.replace(main, num_modes=sum(peak.log_mass > main.log_mass - NEGLIGIBLE for peak in peaks))


def climb(surface, starts):
    """The distinct optima above starting points, the highest first.

    Raises:
        FitError: where the density is finite at none of them.
    """
    optima: list[Optimum] = []
    for start in starts:
        optimum = _climb(surface, start, optima)
        if np.isfinite(optimum.value) and not any(_same(optimum.free, optimum.value, other) for other in optima):
            optima.append(optimum)
    if not optima:
        raise FitError("The density is not finite at any starting point: check the priors and the data's scale.")
    return sorted(optima, key=lambda optimum: -optimum.value)


def _as_peak(surface, optimum):
    """An optimum with its curvature, or None where it is no peak but a saddle, a ridge or a plateau.

    Where there is no curvature, rounding gives some, and with it any standard deviation: one such step away from a
    peak the density must be lower, and finite.
    """
    curvature = surface.curvature(optimum.free)
    step = curvature.solve(optimum.gradient)
    if step is None or optimum.gradient @ step > SETTLED:
        return None
    deviations = curvature.deviations(np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, len(step))))
    values, _ = surface.evaluate(optimum.free + np.concatenate([deviations, -deviations]))
    falls = np.isfinite(values) & (values < optimum.value)
    return dataclasses.replace(optimum, curvature=curvature) if falls.all() else None


def _same(point, value, optimum):
    """Whether a point is at an optimum: as high, and in its place (modes that mirror each other are equally high)."""
    near = np.abs(point - optimum.free) <= 0.05 * (1.0 + np.abs(optimum.free))
    return abs(value - optimum.value) <= AGREEMENT and near.all()


def _climb(surface, start, optima):
    """The optimum above a start; one of those that are known already where the climb leads to it."""

    def objective(vector):
        value, gradient = surface.at(vector)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return 1e300, np.zeros_like(vector)
        return -value, -gradient

    def reached(point, value):
        """The known maximum that a point is at."""
        return next((known for known in optima if known.converged and _same(point, -value, known)), None)

    def stop_at_known(intermediate_result):
        if reached(intermediate_result.x, intermediate_result.fun) is not None:
            raise StopIteration

    options = {"maxiter": CLIMB_STEPS, "maxfun": 2 * CLIMB_STEPS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
    vector, converged = start, False
    for _ in range(ROUNDS):
        # its products are tiny, and threads of BLAS would fight with those of XLA
        with ONE_THREAD_A_PRODUCT:
            result = scipy.optimize.minimize(
                objective, vector, jac=True, method="L-BFGS-B", options=options, callback=stop_at_known
            )
        if (known := reached(result.x, result.fun)) is not None:
            return known  # there is no need for its last digits again
        vector, converged = _newton(surface, result.x, objective)
        if converged or result.success:
            break
    value, gradient = surface.at(vector)
    return Optimum(vector, value, gradient, converged)


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


def maximize(problem, *, prior, num_starts):
    """The mode of a program's density over its parameters (or of its likelihood).

    Raises:
        FitError: where the density is unbounded or its mode not unique; names the site.
    """
    program, evidence = problem.program, problem.evidence
    if num_free(program.structure) == 0:
        raise FitError(
            "There is nothing to learn: the program has no continuous latent site, so it is one known process. Ask it "
            "for program.log_joint({}, X)."
        )
    surface = surface_of(parameter_density if prior else likelihood, program, evidence)
    with jax.enable_x64(True), placed(density_work(program, evidence)):
        starts = dispersed_starts(program, problem.seed, max(DRAWS, num_starts))
        optimum = climb(surface, _highest(surface, starts, num_starts))[0]
        _check_maximum(surface, optimum, "posterior density" if prior else "likelihood")
    return optimum


def _highest(surface, starts, num_starts):
    """The first start, and those of the others where the density is highest."""
    values = np.nan_to_num(surface.evaluate(starts[1:])[0], nan=-np.inf)
    return [starts[0], *starts[1:][np.argsort(-values)[: num_starts - 1]]]


def _check_maximum(surface, optimum, what):
    """Refuse a point where the density still rises (unbounded) or is flat (no unique mode)."""
    structure = surface.structure
    curvature = surface.curvature(optimum.free)
    if not _is_settled(optimum, curvature):
        steepest = int(np.argmax(np.abs(optimum.gradient)))
        raise FitError(
            f"The {what} has no maximum that could be reached: it still rises along site "
            f"{site_of(structure, steepest)!r}. It may be unbounded there (a variance going to zero, a concentration "
            "below 1); give a prior that keeps it away from the boundary, or use NUTS()."
        )
    if len(optimum.free) > EIGEN_LIMIT:
        return
    matrix = curvature.dense()
    if not np.isfinite(matrix).all():
        raise FitError(f"The {what} has no finite curvature at its maximum: check the priors and the data's scale.")
    flat = _flat_coordinate(optimum, matrix)
    if flat is not None:
        raise FitError(
            f"The {what} is flat along site {site_of(structure, flat)!r}, so its mode is not unique. Data or "
            "prior must say something about it (is a class without rows?); or use NUTS()."
        )


def _is_settled(optimum, curvature):
    """Whether there is no way up: by the Newton step that is left, in units of no account; else by the gradient."""
    step = curvature.solve(optimum.gradient)
    if step is not None and optimum.gradient @ step <= SETTLED:
        return True
    return np.abs(optimum.gradient).max() <= 1e-5 * max(1.0, abs(optimum.value))


def _flat_coordinate(optimum, curvature):
    """A coordinate along which the density has no curvature well inside the space, or None: then the mode is unique.

    Far out in the unconstrained space, curvature vanishes where the mode lies on the boundary (a zero count under a
    flat prior): that is no fault. Coordinates are scaled by their own curvature, so that units do not matter: one that
    has none, or a direction that has none among those that have, is flat.
    """
    diagonal, free = np.diagonal(curvature), np.abs(optimum.free)
    flat = (diagonal <= FLAT * (1 + free) ** -2.0) & (free < FAR_OUT)
    if flat.any():
        return int(np.argmax(flat))
    # out there a curvature is that of a boundary, unless it is more than the gradient that is left
    looked_at = np.flatnonzero((free < FAR_OUT) | (diagonal > 1e-5 * max(1.0, abs(optimum.value))))
    if len(looked_at) == 0:
        return None
    scale = 1 / np.sqrt(diagonal[looked_at])
    values, vectors = np.linalg.eigh(curvature[np.ix_(looked_at, looked_at)] * scale[:, None] * scale)
    return int(looked_at[np.argmax(np.abs(vectors[:, 0]))]) if values[0] < 1e-7 else None


def parameters_at(program, optimum):
    """The program's parameters (and deterministic sites) at an optimum, as NumPy arrays."""
    with jax.enable_x64(True):
        latents, deterministics = constrain(program, jnp.asarray(optimum.free))
    return program.parameters_of({**as_arrays(deterministics), **as_arrays(latents)})


@ProgramJit
def constrain(program, vector):
    """Constrained latents and deterministic sites at a flat unconstrained vector."""
    labels = {name: jnp.ones(program.num_classes) for name in program.structure.covariates}
    evidence = Evidence(None, {}, labels)
    evaluation = at_classes(program, unravel(program.structure, vector), evidence, unconstrained=True)
    return evaluation.latents, evaluation.deterministics


@functools.partial(ProgramJit, compiler_options=QUICKLY)
def constrain_draws(program, whitening, draws):
    """Constrained latents and deterministic sites of whitened draws (chain, draw, dimension)."""
    return jax.vmap(jax.vmap(lambda one: constrain(program, whitening(one))))(draws)


def as_arrays(values):
    """Leaves as NumPy arrays."""
    return {name: np.asarray(value) for name, value in values.items()}
