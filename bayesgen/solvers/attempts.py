"""Draws from a log density: by NUTS in whitened coordinates, or else by NUTS with adapted masses.

Draws in whitened coordinates are judged. Where some draws diverge, smaller steps in the same coordinates
help, and adapted masses do not (two normal classes on 12 rows, against quadrature); where many diverge, the coordinates
are wrong.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.runtime import OwnedJit, bar
from bayesgen.statistics import split_rhats
from bayesgen.typing import Array, Float

from .curvature import AffineMap, Whitened, constrained
from .maximize import search
from .quasi_newton import MOST_DENSE_AXES, Evaluator, Vector, batched, evaluator_of
from .sampler import Sample, advance_of, draw_numbers, groups, sample_whitened, start
from .trajectory import POSITION, TREE


def evaluator_by_steps(density: Whitened, num_chains: int) -> Evaluator:
    """The evaluator of a density at whitened points by the compiled sampler, so that mode search compiles nothing.

    A leapfrog step of length zero, the first of its trajectory, proposes its start with potential and gradient.

    Args:
        density: log density, of the structure that will be sampled.
        num_chains: as in sampling.
    """
    size, random = groups(num_chains)[0], np.random.default_rng(0)
    resting = start(density.dimension, random, size)._replace(step_size=np.zeros(size))
    numbers, wanted = draw_numbers(random, size, density.dimension), np.ones(size, np.int32)
    ends = np.asarray(resting.trajectory.ends)
    density, resting, numbers, wanted = jax.device_put((density, resting, numbers, wanted))

    def step(points: Float[np.ndarray, "points D"], _: int) -> tuple[Any, Any]:
        ends[:, :, POSITION] = points[:, None]
        chains = resting._replace(trajectory=resting.trajectory._replace(ends=ends.copy()))
        after = advance_of(density)(density, chains, numbers, wanted, 0.5, False, 1)[0].trajectory
        proposed = np.asarray(after.proposals)[:, TREE]  # position and gradient of the potential
        return -np.asarray(after.potentials)[:, TREE], -proposed[:, 1]

    return Evaluator(batched(step, size), density.density.blocks)


# NumPyro's NUTS with adapted masses, for posteriors that cannot be whitened.

STEPS_A_CALL = 50  # between two updates of the progress bar
MOST_DENSE = 100  # dimensions up to which a dense mass matrix is adapted
RECORDED = ("num_steps", "accept_prob", "diverging", "energy", "potential_energy")


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """The settings of NumPyro's adaptation. Hashable: compiled functions are keyed by it."""

    num_warmup: int
    dense_mass: bool


def sample_adapted(
    density: Whitened,
    key: Any,
    *,
    num_warmup: int,
    num_samples: int,
    num_chains: int,
    target: float,
    dense_mass: bool,
    advanced: Callable[[float], None],
) -> Sample:
    """Draw by NumPyro's NUTS, which adapts step size and masses.

    Args:
        density: log density, in the coordinates of the masses.
        key: JAX key.
        target: target acceptance probability of the step size.
        dense_mass: whether the mass matrix is dense, up to `MOST_DENSE` dimensions.
        advanced: called with the number of new steps of each chain.

    Returns:
        (draws (chain, draw, dimension), statistics name -> (chain, draw)).
    """
    plan = Adaptation(num_warmup, dense_mass and density.dimension <= MOST_DENSE)
    first, second = jax.random.split(key)
    points = 0.5 * jax.random.normal(second, (num_chains, density.dimension), jnp.float64)
    states = start_numpyro(density, jax.random.split(first, num_chains), points, target, plan=plan)
    for size in _chunks(num_warmup):
        states, _, _ = advance_numpyro(density, states, target, plan=plan, num_steps=size)
        advanced(size)
    parts = []
    for size in _chunks(num_samples):
        states, draws, stats = advance_numpyro(density, states, target, plan=plan, num_steps=size)
        parts.append((np.asarray(draws), jax.tree.map(np.asarray, stats)))
        advanced(size)
    draws = np.concatenate([part for part, _ in parts], axis=1)
    return draws, {name: np.concatenate([stats[name] for _, stats in parts], axis=1) for name in parts[0][1]}


def _chunks(total: int) -> list[int]:
    """Numbers of steps of calls: equal ones, so that one function is compiled, and a rest."""
    return [STEPS_A_CALL] * (total // STEPS_A_CALL) + ([total % STEPS_A_CALL] if total % STEPS_A_CALL else [])


def start_numpyro(
    density: Whitened, keys: Any, points: Float[Array, "chain D"], target: float, *, plan: Adaptation
) -> Any:
    """The states of the chains before the first step.

    The state is set up on a toy density, which compiles once for all programs, and then given the density and gradient
    at the starting points.
    """
    states = _toy_start(keys, points, target, plan=plan)
    at_points = [_at_point(density, point) for point in points]
    energies, gradients = (jnp.stack(parts) for parts in zip(*at_points, strict=True))
    if not np.isfinite(energies).all():
        raise FitError("The density is not finite where chains start: check the priors, factors and the data's scale.")
    return states._replace(potential_energy=energies, energy=energies, z_grad=gradients)


def _at_point(density: Whitened, z: Float[Array, " D"]) -> tuple[Float[Array, ""], Float[Array, " D"]]:
    position, pull = jax.vjp(density.whitening, z)
    value, gradient = evaluator_of(density.density).at(np.asarray(position))
    return jnp.asarray(-value, jnp.float64), -pull(jnp.asarray(gradient))[0]


@functools.partial(jax.jit, static_argnames="plan")
def _toy_start(keys: Any, points: Float[Array, "chain D"], target: Any, *, plan: Adaptation) -> Any:
    init_kernel, _ = hmc(potential_fn_gen=lambda: lambda z: 0.5 * (z**2).sum(), algo="NUTS")
    return jax.vmap(lambda key, z: _start(init_kernel, key, z, target, plan))(keys, points)


def _start(init_kernel: Callable[..., Any], key: Any, z: Any, target: Any, plan: Adaptation) -> Any:
    return init_kernel(
        z, plan.num_warmup, step_size=1.0, dense_mass=plan.dense_mass, target_accept_prob=target, rng_key=key
    )


@functools.partial(OwnedJit, static_argnames=("plan", "num_steps"))
def advance_numpyro(density: LogDensity, states: Any, target: Any, *, plan: Adaptation, num_steps: int) -> Any:
    """Take steps with every chain, adapting while in warm-up.

    Returns:
        (states, draws (chain, step, dimension), statistics (chain, step)).
    """
    init_kernel, sample_kernel = hmc(potential_fn_gen=lambda: lambda z: -density(z), algo="NUTS")

    def chain(state: Any) -> Any:
        # this sets the kernel up; its unused result is not computed
        _start(init_kernel, jax.random.key(0), state.z, target, plan)

        def step(state: Any, _: None) -> Any:
            state = sample_kernel(state)
            stats = {name: getattr(state, name) for name in RECORDED}
            return state, (state.z, stats | {"step_size": state.adapt_state.step_size})

        return jax.lax.scan(step, state, length=num_steps)

    states, (draws, stats) = jax.vmap(chain)(states)
    return states, draws, stats


CAREFUL = 0.95  # target acceptance probability of smaller steps
LONG_TRAJECTORY = 63  # mean leapfrog steps a draw, above which whitening has failed


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a sampler.

    Attributes:
        num_warmup: warm-up steps a chain; None for the default of the attempt.
        num_samples: draws a chain.
        num_chains: number of chains.
        target: target acceptance probability of the step size.
    """

    num_warmup: int | None
    num_samples: int
    num_chains: int
    target: float


@dataclasses.dataclass(frozen=True)
class Preparation:
    """Coordinates in which a density is to be sampled.

    Attributes:
        density: log density in them.
        reason: why they are not whitened; None where they are.
        num_modes: number of modes that were found.
    """

    density: Whitened
    reason: str | None = None
    num_modes: int = 1


@dataclasses.dataclass(frozen=True)
class Chains:
    """Draws from a density by Markov chains.

    Attributes:
        values: constrained draws, name -> (chain, draw, ...).
        stats: the sampler's statistics, name -> (chain, draw).
        density: log density, in the coordinates in which they were made.
        path: how they were made, for reports.
        target: target acceptance probability of the step size.
        warnings: warnings that do not depend on the draws.
    """

    values: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    density: Whitened
    path: str
    target: float
    warnings: list[str]


def sample(
    density: LogDensity,
    settings: Settings,
    find_starts: Callable[[], Iterable[Vector]] | None,
    key: Any,
    progress: bool | None,
) -> Chains:
    """Draws in coordinates whitened at the mode, or by adapted masses where those cannot be trusted. Inside float64.

    Args:
        density: log density.
        settings: of the sampler.
        find_starts: starts of the mode search; None for plain adaptation, with a diagonal mass matrix.
        key: JAX key, the same for every attempt.
        progress: whether to show progress; None for in a terminal only.

    Raises:
        FitError: where the density is not finite at any start.
    """
    if find_starts is None:
        prepared = Preparation(_shifted(density, np.zeros(density.dimension)), "precondition=False")
    else:
        prepared = whitened_at_mode(density, settings.num_chains, find_starts)
    coordinates, reason = prepared.density, prepared.reason

    def drawn(sampler: Callable[..., Sample], num_warmup: int, target: float, **options: Any) -> Sample:
        numbers = {"num_warmup": num_warmup, "num_samples": settings.num_samples, "num_chains": settings.num_chains}
        with bar("sampling", num_warmup + settings.num_samples, progress) as advanced:
            return sampler(coordinates, key, target=target, advanced=advanced, **numbers, **options)

    def chains(draws: np.ndarray, stats: dict[str, np.ndarray], path: str, target: float) -> Chains:
        values = constrained(coordinates, draws)
        warnings = [prepared.reason] if prepared.num_modes > 1 and prepared.reason else []
        return Chains(values, stats, coordinates, path, target, warnings)

    if reason is None:
        target, num_warmup = settings.target, settings.num_warmup or 150
        draws, stats = drawn(sample_whitened, num_warmup, target, patience=LONG_TRAJECTORY)
        if target < CAREFUL and 0 < stats["diverging"].mean() < 0.2:  # smaller steps do not help if more diverge
            target = CAREFUL
            draws, stats = drawn(sample_whitened, num_warmup, target, patience=LONG_TRAJECTORY)
        failure = failure_of(draws, stats, coordinates.has_symmetries)
        if failure is None:
            return chains(draws, stats, "whitened", target)
        reason = f"{failure} in whitened coordinates"
    num_warmup, is_dense = settings.num_warmup or 1000, find_starts is not None
    sampled = drawn(sample_adapted, num_warmup, settings.target, dense_mass=is_dense)
    return chains(*sampled, f"adapted: {reason}", settings.target)


def failure_of(draws: np.ndarray, stats: dict[str, np.ndarray], has_symmetries: bool) -> str | None:
    """Why draws in whitened coordinates are not to be trusted, or None."""
    if stats["diverging"].mean() > 0.02:
        return "chains diverged"
    if stats["num_steps"].mean() > LONG_TRAJECTORY:
        return "trajectories were long"
    num_chains, num_samples = draws.shape[:2]
    # chains may be at mirrored points, of which only the density can be compared
    compared = stats["potential_energy"][..., None] if has_symmetries else draws
    # R-hat is lower if the chains agree, also of a few hundred effective draws
    if (
        num_chains > 1
        and num_samples >= 100
        and np.fmax.reduce(split_rhats(np.moveaxis(compared, 2, 0)), initial=1.0) > 1.05
    ):
        return "chains disagreed"
    return None


def whitened_at_mode(density: LogDensity, num_chains: int, find_starts: Callable[[], Iterable[Vector]]) -> Preparation:
    """Coordinates whitened at the mode.

    Where the structure of the whitened density is known beforehand, the mode search evaluates it by the compiled
    sampler, see `evaluator_by_steps`. This makes a first fit 1.26 times as fast (`python -m benchmarks --only cold`).
    """
    if density.dimension > MOST_DENSE_AXES:
        return laplace(density, evaluator_of(density), find_starts())
    expected = Whitened(density, AffineMap.dense(density.dimension))
    return laplace(density, evaluator_by_steps(expected, num_chains), find_starts())


def laplace(density: LogDensity, evaluator: Evaluator, starts: Iterable[Vector]) -> Preparation:
    """Coordinates whitened by the Laplace approximation at the mode, or others where it is not usable.

    Raises:
        FitError: where the density is not finite at any start.
    """
    optimum = search(evaluator, starts, density.has_symmetries)
    centred = _shifted(density, optimum.vector)
    if optimum.num_modes > 1:
        reason = f"{optimum.num_modes} modes were found, and chains need not visit all of them in their proportions"
        return Preparation(centred, reason, optimum.num_modes)
    if optimum.converged:
        assert optimum.curvature is not None
        return Preparation(Whitened(density, AffineMap.at_peak(optimum.vector, optimum.curvature)))
    if np.abs(optimum.gradient).max(initial=0.0) > 1e-3 * max(1.0, abs(optimum.value)):  # the climb has not converged
        origin = _shifted(density, np.zeros(density.dimension))
        return Preparation(origin, "no mode was found in the unconstrained space")
    return Preparation(centred, "the Hessian at the mode is not positive definite")


def _shifted(density: LogDensity, center: Vector) -> Whitened:
    return Whitened(density, AffineMap.shift(center))
