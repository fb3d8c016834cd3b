"""Attempts at sampling a log density: NUTS in whitened coordinates, and its fallback, NUTS with adapted masses.

An attempt judges its draws, and names its fallback. Where some draws diverge, smaller steps in the same coordinates
help, and adapted masses do not (two normal classes on 12 rows, against quadrature); where many diverge, the coordinates
are wrong.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from numpyro.infer.hmc import hmc

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.runtime import OwnedJit, bar
from bayesgen.typing import Array, Float

from .maximize import search
from .quasi_newton import MOST_DENSE_AXES, Evaluator, Vector, batched, evaluator_of
from .sampler import Sample, advance_of, draw_numbers, groups, sample_whitened, start
from .trajectory import POSITION, TREE
from .whitening import AffineMap, Whitened, constrain_draws

PROPOSED_GRADIENT = 1  # index in the proposals of a trajectory


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
        return -np.asarray(after.potentials)[:, TREE], -np.asarray(after.proposals)[:, TREE, PROPOSED_GRADIENT]

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


WARMUP_WHITENED, WARMUP_ADAPTED = 150, 1000
CAREFUL = 0.95  # target acceptance probability of smaller steps
HOPELESS, MANY_DIVERGING = 0.2, 0.02  # shares of diverging draws: too many for smaller steps; a failure of the attempt
DISAGREEMENT = 1.05  # R-hat of whitened coordinates, above that of chains of a few hundred effective draws
LONG_TRAJECTORY = 63  # mean leapfrog steps a draw, above which whitening has failed
NO_MODE = 1e-3  # gradient, as a part of the value, above which a climb has not converged


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
class Attempt(abc.ABC):
    """A way to sample a density.

    Attributes:
        density: log density, in the coordinates of the attempt.
        settings: with the target of this attempt.
    """

    density: Whitened
    settings: Settings

    @property
    @abc.abstractmethod
    def path(self) -> str:
        """Its name in reports."""

    @property
    def warnings(self) -> list[str]:
        """Warnings that do not depend on the draws."""
        return []

    @property
    @abc.abstractmethod
    def num_warmup(self) -> int:
        """Warm-up steps a chain."""

    @abc.abstractmethod
    def draw(self, key: Any, advanced: Callable[[float], None]) -> Sample:
        """Draws (chain, draw, dimension), and the sampler's statistics, name -> (chain, draw)."""

    def _draw_by(
        self, sampler: Callable[..., Sample], key: Any, advanced: Callable[[float], None], **options: Any
    ) -> Sample:
        return sampler(
            self.density,
            key,
            num_warmup=self.num_warmup,
            num_samples=self.settings.num_samples,
            num_chains=self.settings.num_chains,
            target=self.settings.target,
            advanced=advanced,
            **options,
        )

    @abc.abstractmethod
    def fallback(self, sample: Sample) -> "Attempt | None":
        """The next attempt, if these draws are not to be trusted; else None."""


@dataclasses.dataclass(frozen=True)
class WhitenedAttempt(Attempt):
    """NUTS with unit masses in coordinates whitened at the mode.

    Attributes:
        first_target: the target that the user asked for.
    """

    first_target: float

    @property
    def path(self) -> str:
        return "whitened"

    @property
    def num_warmup(self) -> int:
        """A short one, for the step size alone."""
        return self.settings.num_warmup or WARMUP_WHITENED

    def draw(self, key: Any, advanced: Callable[[float], None]) -> Sample:
        return self._draw_by(sample_whitened, key, advanced, patience=LONG_TRAJECTORY)

    def fallback(self, sample: Sample) -> Attempt | None:
        """Smaller steps where a few draws diverged; adapted masses where the coordinates are wrong."""
        share = sample[1]["diverging"].mean()
        if self.settings.target < CAREFUL and 0 < share < HOPELESS:
            return dataclasses.replace(self, settings=dataclasses.replace(self.settings, target=CAREFUL))
        failure = self._failure(*sample)
        if failure is None:
            return None
        settings = dataclasses.replace(self.settings, target=self.first_target)
        return AdaptedAttempt(self.density, settings, f"{failure} in whitened coordinates")

    def _failure(self, draws: np.ndarray, stats: dict[str, np.ndarray]) -> str | None:
        if stats["diverging"].mean() > MANY_DIVERGING:
            return "chains diverged"
        if stats["num_steps"].mean() > LONG_TRAJECTORY:
            return "trajectories were long"
        several = self.settings.num_chains > 1 and self.settings.num_samples >= 100
        # chains may be at mirrored points, of which only the density can be compared
        compared = stats["potential_energy"][..., None] if self.density.has_symmetries else draws
        if several and largest_split_rhat(compared) > DISAGREEMENT:
            return "chains disagreed"
        return None


@dataclasses.dataclass(frozen=True)
class AdaptedAttempt(Attempt):
    """NumPyro's NUTS, which adapts step size and masses.

    Attributes:
        reason: why coordinates are not whitened.
        several_modes: whether the reason is that there are several modes.
        dense_mass: whether the mass matrix is dense, up to `MOST_DENSE` dimensions.
    """

    reason: str
    several_modes: bool = False
    dense_mass: bool = True

    @property
    def path(self) -> str:
        return f"adapted: {self.reason}"

    @property
    def warnings(self) -> list[str]:
        return [self.reason] if self.several_modes else []

    @property
    def num_warmup(self) -> int:
        """A long one, for the masses."""
        return self.settings.num_warmup or WARMUP_ADAPTED

    def draw(self, key: Any, advanced: Callable[[float], None]) -> Sample:
        return self._draw_by(sample_adapted, key, advanced, dense_mass=self.dense_mass)

    def fallback(self, sample: Sample) -> None:
        """None: diagnostics judge these draws."""
        return None


@dataclasses.dataclass(frozen=True)
class Chains:
    """Draws from a density by Markov chains.

    Attributes:
        values: constrained draws, name -> (chain, draw, ...).
        stats: the sampler's statistics, name -> (chain, draw).
        attempt: the last attempt, which made them.
    """

    values: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    attempt: Attempt


def sample(first: Attempt, key: Any, progress: bool | None) -> Chains:
    """Draw by an attempt and its fallbacks, until draws may be trusted. Inside float64.

    Args:
        first: the first attempt.
        key: JAX key, the same for every attempt.
        progress: whether to show progress; None for in a terminal only.
    """
    attempt: Attempt | None = first
    while attempt is not None:
        last = attempt
        with bar("sampling", last.num_warmup + last.settings.num_samples, progress) as advanced:
            drawn = last.draw(key, advanced)
        attempt = last.fallback(drawn)
    values = constrain_draws(last.density, drawn[0])
    return Chains({name: np.asarray(value) for name, value in values.items()}, drawn[1], last)


def unwhitened(density: LogDensity, settings: Settings, reason: str) -> AdaptedAttempt:
    """The attempt in unconstrained coordinates, with a diagonal mass matrix."""
    shift = AffineMap.shift(np.zeros(density.dimension))
    return AdaptedAttempt(Whitened(density, shift), settings, reason, dense_mass=False)


def whitened_at_mode(density: LogDensity, settings: Settings, find_starts: Callable[[], Iterable[Vector]]) -> Attempt:
    """The attempt in coordinates whitened at the mode, or with adapted masses without a usable mode. Inside float64.

    Where the structure of the whitened density is known beforehand, the mode search evaluates it by the compiled
    sampler, see `evaluator_by_steps`. This makes a first fit 1.26 times as fast (`python -m benchmarks --only cold`).

    Args:
        density: log density.
        settings: of the sampler.
        find_starts: starts of the mode search.

    Raises:
        FitError: where the density is not finite at any start.
    """
    if density.dimension > MOST_DENSE_AXES:
        return laplace(density, settings, evaluator_of(density), find_starts())
    expected = Whitened(density, AffineMap.dense(density.dimension))
    return laplace(density, settings, evaluator_by_steps(expected, settings.num_chains), find_starts())


def laplace(density: LogDensity, settings: Settings, evaluator: Evaluator, starts: Iterable[Vector]) -> Attempt:
    """The attempt whitened by the Laplace approximation at the mode, or with adapted masses where it is not usable.

    Raises:
        FitError: where the density is not finite at any start.
    """
    optimum = search(evaluator, starts, density.has_symmetries)
    centred = Whitened(density, AffineMap.shift(optimum.vector))
    if optimum.num_modes > 1:
        reason = f"{optimum.num_modes} modes were found, and chains need not visit all of them in their proportions"
        return AdaptedAttempt(centred, settings, reason, several_modes=True)
    if optimum.converged:
        return WhitenedAttempt(Whitened(density, AffineMap.at_peak(optimum)), settings, settings.target)
    if np.abs(optimum.gradient).max(initial=0.0) > NO_MODE * max(1.0, abs(optimum.value)):
        origin = Whitened(density, AffineMap.shift(np.zeros(density.dimension)))
        return AdaptedAttempt(origin, settings, "no mode was found in the unconstrained space")
    return AdaptedAttempt(centred, settings, "the Hessian at the mode is not positive definite")


def largest_split_rhat(draws: Float[np.ndarray, "chains draws D"]) -> float:
    """The largest split R-hat of any coordinate, without ranks; 1 for constant draws."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rhats = array_stats.rhat(draws, chain_axis=0, draw_axis=1, method="split")
    return float(np.where(np.isnan(rhats), 1.0, rhats).max())
