"""Draws from a log density: by NUTS in whitened coordinates, or else in coordinates adapted to its draws.

Draws in whitened coordinates are judged. Where some draws diverge, smaller steps in the same coordinates
help, and adapted ones do not (two normal classes on 12 rows, against quadrature); where many diverge, the coordinates
are wrong.

The modes and chains of many densities of one structure are searched and run side by side. The coordinates of all are
those that whiten the first density, whitened once more by each density's own curvature there. The chains of some
densities take their leapfrog steps together, so that the overhead of a step is paid once for all of them; where a
density has its draws, the next one takes its place. A density whose mode is not found so, whose trajectories are long,
or whose chains diverge or disagree, is left to `sample`.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.records import stacked
from bayesgen.runtime import LIGHT_OPTIMISATION, OwnedJit, Pool, bar, chunks, devices_in_use, divided, num_cores
from bayesgen.statistics import inverse_lower, split_rhats
from bayesgen.typing import Array, Bool, Float, PRNGKeyArray

from .curvature import AffineMap, Whitened, constrained
from .maximize import CONVERGED_DECREMENT, LAST_DECREMENT, search
from .quasi_newton import Vector, begin_climb, climbed, evaluator_of, unit_axes
from .sampler import (
    STATISTICS,
    Chain,
    ChainDraws,
    StepNumbers,
    advance_sets,
    at_step_size,
    draw_numbers,
    is_cpu,
    named_statistics,
    sample_chains,
    start,
)

MOST_DENSE = 100  # dimensions up to which coordinates are adapted to correlations
NUM_ADAPTED = 400  # warm-up draws of four chains that adapt together
CAREFUL = 0.95  # target acceptance probability of smaller steps
LONG_TRAJECTORY = 63  # mean leapfrog steps a draw, above which whitening has failed
MOST_DIVERGING = 0.02  # share of draws


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a sampler.

    Attributes:
        num_warmup: warm-up steps a chain; None for the default of the attempt.
        num_samples: draws a chain.
        num_chains: number of chains.
        target_accept_prob: target of the step-size adaptation, in (0, 1).
    """

    num_warmup: int | None = None
    num_samples: int = 1000
    num_chains: int = 4
    target_accept_prob: float = 0.8


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
    yields: Callable[[], bool] | None = None,
) -> Chains:
    """Draws in coordinates whitened at the mode, or adapted ones where those cannot be trusted. Inside float64.

    Args:
        density: log density.
        settings: of the sampler.
        find_starts: starts of the mode search; None for plain adaptation.
        key: JAX key, the same for every attempt.
        progress: whether to show progress; None for in a terminal only.
        yields: asked where draws diverge: whether an easier density is to be sampled in its place, so that the first
            draws will do; None for never.

    Raises:
        FitError: where the density is not finite at any start.
    """
    if find_starts is None:
        prepared = Preparation(_shifted(density, np.zeros(density.dimension)), "precondition=False")
    else:
        with bar(f"finding the mode of {density.dimension:,} numbers", 1, progress):
            prepared = laplace(density, find_starts())
    reason, drawn = prepared.reason, functools.partial(_drawn, settings, key, progress)
    for target in (settings.target_accept_prob, CAREFUL) if reason is None else ():
        fails = functools.partial(_fails, target < CAREFUL)
        coordinates, sampled = drawn(prepared.density, settings.num_warmup or 150, target, fails=fails)
        failure = failure_of(*sampled, density.has_symmetries)
        share, steps = (sampled[1][name].mean() for name in ("diverging", "num_steps"))
        if (failure is None and (share == 0 or target >= CAREFUL)) or (share > 0 and yields and yields()):
            return Chains(constrained(coordinates, sampled[0]), sampled[1], coordinates, "whitened", target, [])
        reason = f"{failure or 'some draws diverged'} in whitened coordinates"
        # smaller steps do not help if more diverge, or twice as many would be too many
        if not 0 < share < 0.2 or steps > LONG_TRAJECTORY / 2 or target >= CAREFUL:
            break
    num_warmup = settings.num_warmup or NUM_ADAPTED
    windows = [size for share in (1, 2, 4, 6) if (size := share * num_warmup // 16) >= 10]
    adapting = _adapting(prepared.density)
    coordinates, sampled = drawn(adapting, num_warmup - sum(windows), settings.target_accept_prob, windows=windows)
    if not np.isfinite(sampled[1]["potential_energy"]).all():
        raise FitError("The density is not finite where chains start: check the priors, factors and the data's scale.")
    return Chains(
        values=constrained(coordinates, sampled[0]),
        stats=sampled[1],
        density=coordinates,
        path=f"adapted: {reason}",
        target=settings.target_accept_prob,
        warnings=[prepared.reason] if prepared.num_modes > 1 and prepared.reason else [],
    )


def _drawn(
    settings: Settings,
    key: Any,
    progress: bool | None,
    coordinates: Whitened,
    num_warmup: int,
    target: float,
    **options: Any,
) -> tuple[Whitened, ChainDraws]:
    """Draws in coordinates, or in others that windows adapt, and these: see `sample_chains` for the options."""
    total = sum(options.get("windows", ())) + num_warmup + settings.num_samples
    with bar(f"sampling {coordinates.dimension:,} numbers", total, progress) as advanced:
        adapted, draws = sample_chains(
            coordinates,
            key,
            num_warmup=num_warmup,
            num_samples=settings.num_samples,
            num_chains=settings.num_chains,
            target=target,
            advanced=advanced,
            **options,
        )
    return cast(Whitened, adapted), draws


def _fails(is_bold: bool, stats: Mapping[str, np.ndarray], is_warm: bool) -> bool:
    """Whether coordinates have failed by the first draws; one that diverges is enough, if steps may be smaller."""
    diverge = stats["diverging"].any() if is_bold else stats["diverging"].mean() > MOST_DIVERGING
    return bool((is_warm and diverge) or stats["num_steps"].mean() > LONG_TRAJECTORY)


def _adapting(density: Whitened) -> Whitened:
    """The density in coordinates that can be adapted, from which adaptation starts: one block, or none."""
    whitening, dimension = density.whitening, density.dimension
    if whitening.factors[0].shape[1] != dimension:
        widths = whitening.widths[:, None, None]
        factors = widths if dimension > MOST_DENSE else np.diag(whitening.widths)[None]
        whitening = AffineMap(whitening.center, (factors,))
    return Whitened(density.density, whitening)


def failure_of(draws: np.ndarray, stats: dict[str, np.ndarray], has_symmetries: bool) -> str | None:
    """Why draws in whitened coordinates are not to be trusted, or None."""
    if stats["diverging"].mean() > MOST_DIVERGING:
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


def laplace(density: LogDensity, starts: Iterable[Vector]) -> Preparation:
    """Coordinates whitened by the Laplace approximation at the mode, or others where it is not usable.

    Raises:
        FitError: where the density is not finite at any start.
    """
    optimum = search(evaluator_of(density), starts, density.has_symmetries)
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


# densities whose chains are one array on a device; on a processor with few enough coordinates for the cache of a core
AT_ONCE_ON_CPU, AT_ONCE_ON_GPU = 32, 1024
COORDINATES_AT_ONCE = 1408  # 32 times the 44 of iris: with the 314 of wine, chains of 4 cost 0.7 of those of 24
STEPS_A_CALL = 256  # after which densities with their draws make place for others


def sample_together(
    densities: Any, near: AffineMap, keys: Sequence[PRNGKeyArray], settings: Settings
) -> list[ChainDraws | None]:
    """Draws (chain, draw, D) of densities of one structure and statistics; None of a density to be sampled alone.

    Inside float64.

    Args:
        densities: a pytree of log densities, its leaves with an axis of the S densities first.
        near: the map that whitens the first of them.
        keys: a JAX key of each density.
        settings: of the sampler.
    """
    num_devices, dimension = len(devices_in_use()), len(near.center)
    in_cache = min(AT_ONCE_ON_CPU, max(COORDINATES_AT_ONCE // dimension, 1))
    at_once = num_devices * (in_cache if is_cpu() else AT_ONCE_ON_GPU)
    num_groups = num_cores() if num_devices == 1 and is_cpu() else 1
    size = min(at_once, num_devices * math.ceil(len(keys) / (num_devices * num_groups)))
    whitened, is_peak = _all_whitened(densities, near, len(keys), size)
    waiting = iter(np.flatnonzero(is_peak).tolist())
    samples: dict[int, ChainDraws | None] = {}
    with Pool(num_groups) as pool:
        runs = [_Runs(whitened, waiting, keys, settings, size, pool) for _ in range(num_groups)]
        runs[0].compile()  # here, as programs are traced in one thread
        for finished in pool.results(_Runs.finished, runs):
            samples |= finished
    return [samples.get(index) for index in range(len(keys))]


def _all_whitened(densities: Any, near: AffineMap, number: int, size: int) -> tuple[Whitened, Bool[np.ndarray, " S"]]:
    """The densities in coordinates that whiten them, `size` in a call, and which of them are at a peak."""
    parts = []
    for part in chunks(number, size):
        positions = np.arange(part.start, part.start + size).clip(max=number - 1)
        parts.append(jax.tree.map(np.asarray, _whitened(divided(_at(densities, positions)), near)))
    maps, is_peak = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *parts)
    return Whitened(densities, maps), is_peak


@functools.partial(OwnedJit, compiler_options=LIGHT_OPTIMISATION)
def _whitened(densities: LogDensity, near: AffineMap) -> tuple[AffineMap, Bool[Array, " S"]]:
    """Maps of the Laplace approximations of densities, and which of them are at a peak."""

    def whitening_map(density: LogDensity) -> tuple[AffineMap, Array]:
        dimension, coordinates = len(near.center), Whitened(density, near)
        origin, axes = jnp.zeros(dimension), unit_axes(dimension)
        climb = climbed(coordinates, origin, axes, begin_climb(np.zeros(dimension)), 400, LAST_DECREMENT)
        inverses = [inverse_lower(jnp.linalg.cholesky(block)) for block in _blocks(coordinates, climb.point)]
        to_peak = AffineMap(climb.point, tuple(inverse.mT for inverse in inverses))
        whitened_gradient = jax.vjp(to_peak, origin)[1](climb.gradient)[0]
        peak = to_peak(whitened_gradient)
        is_peak = jnp.isfinite(peak).all() & (whitened_gradient @ whitened_gradient <= CONVERGED_DECREMENT)
        factors = (factor @ inverse.mT for factor, inverse in zip(near.factors, inverses, strict=True))
        safe = (jnp.where(is_peak, factor, jnp.eye(factor.shape[1])) for factor in factors)
        return AffineMap(near(jnp.where(is_peak, peak, climb.point)), tuple(safe), near.positions), is_peak

    return jax.vmap(whitening_map)(densities)


def _blocks(density: Whitened, point: Float[Array, " D"]) -> Iterator[Float[Array, "blocks size size"]]:
    """Blocks of minus the Hessian at a point, those of one size together: of the structure of the whitening."""
    start, gradient = 0, jax.grad(density)
    for factor in density.whitening.factors:
        number, size, _ = factor.shape
        span = slice(start, start := start + number * size)
        probes = jnp.zeros((size, len(point))).at[:, span].set(np.tile(np.eye(size), number))
        slopes = jax.vmap(lambda probe: jax.jvp(gradient, (point,), (probe,))[1])(probes)
        yield -slopes[:, span].reshape(size, number, size).swapaxes(0, 1)


def _at(values: Any, positions: Any) -> Any:
    """The values of some densities, from arrays with an axis of all densities first."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[positions], values)


class _Run:
    """The chains of one density between two calls: its warm-up, then its draws.

    Attributes:
        chains: their states.
        left: draws that each has still to make.
        is_warm: whether the step size has been found, one for all chains.
    """

    def __init__(self, key: PRNGKeyArray, settings: Settings, dimension: int) -> None:
        self._random, self._settings = np.random.default_rng(np.asarray(jax.random.key_data(key))), settings
        self._num_warmup, self._dimension, self.is_warm = settings.num_warmup or 150, dimension, False
        self.chains = start(dimension, self._random, settings.num_chains)
        self._begin(self._num_warmup)

    def _begin(self, num_draws: int) -> None:
        self.left = np.full(self._settings.num_chains, num_draws, np.int32)
        self._draws = np.empty((len(self.left), num_draws, self._dimension))
        self._stats = np.empty((len(self.left), num_draws, len(STATISTICS)))

    def numbers(self) -> StepNumbers:
        """Random numbers for one call."""
        return draw_numbers(self._random, len(self.left), self._dimension, STEPS_A_CALL)

    def take(
        self, chains: Chain, draws: Float[np.ndarray, "chains m D"], stats: Float[np.ndarray, "chains m s"]
    ) -> None:
        """Keep what a call has made."""
        num_made = self._draws.shape[1] - self.left
        for chain, (first, count) in enumerate(zip(num_made, chains.num_draws, strict=True)):
            self._draws[chain, first : first + count] = draws[chain, :count]
            self._stats[chain, first : first + count] = stats[chain, :count]
        self.chains, self.left = chains, self.left - chains.num_draws
        if not self.is_warm and not self.left.any():
            self.is_warm = True
            self.chains = at_step_size(chains, float(np.exp(chains.averages[:, 0].mean())))
            self._begin(self._settings.num_samples)

    @property
    def is_given_up(self) -> bool:
        """Whether its warm-up takes more steps than that of a whitened density."""
        num_made = self._draws.shape[1] - self.left
        num_steps = sum(stats[:count, 0].sum() for stats, count in zip(self._stats, num_made, strict=True))
        return not self.is_warm and bool(num_steps > LONG_TRAJECTORY * self._num_warmup * len(num_made))

    @property
    def is_over(self) -> bool:
        """Whether it has its draws, or will not have them."""
        return self.is_given_up or (self.is_warm and not self.left.any())

    def sample(self) -> ChainDraws | None:
        """Its draws in whitened coordinates, if they are good, and their statistics."""
        if self.is_given_up:
            return None
        statistics = named_statistics(self._stats)
        wants_care = self._settings.target_accept_prob < CAREFUL and statistics["diverging"].any()
        return None if wants_care or failure_of(self._draws, statistics, False) else (self._draws, statistics)


@dataclasses.dataclass(frozen=True)
class _Runs:
    """Places for the chains of some densities, which are run together.

    Attributes:
        densities: all densities, whitened, as NumPy arrays.
        waiting: the next densities, shared by all threads.
        keys: a JAX key of each density.
        settings: of the sampler.
        size: number of places.
        pool: of the threads.
    """

    densities: Whitened
    waiting: Iterator[int]
    keys: Sequence[PRNGKeyArray]
    settings: Settings
    size: int
    pool: Pool

    def compile(self) -> None:
        """Compile a call, by one without any draws."""
        self._advance({0: self._begun(0)}, num_wanting=0)

    def finished(self) -> dict[int, ChainDraws | None]:
        """Index of each density that came here -> its draws and statistics."""
        running: dict[int, _Run] = {}
        samples: dict[int, ChainDraws | None] = {}
        while True:
            if self.pool.was_interrupted:
                raise concurrent.futures.CancelledError
            running |= {index: self._begun(index) for index in itertools.islice(self.waiting, self.size - len(running))}
            if not running:
                return samples
            self._advance(running)
            for index in [index for index, run in running.items() if run.is_over]:
                sample = running.pop(index).sample()
                whitening = _at(self.densities.whitening, index)
                samples[index] = sample and (np.asarray(_points(whitening, sample[0])), sample[1])

    def _begun(self, index: int) -> _Run:
        return _Run(self.keys[index], self.settings, self.densities.whitening.center.shape[-1])

    def _advance(self, running: Mapping[int, _Run], num_wanting: int | None = None) -> None:
        """Take the next steps of chains, in one call. Places that are free repeat the first chains, without draws."""
        indices, numbers = list(running), {index: run.numbers() for index, run in running.items()}
        chosen = indices + indices[:1] * (self.size - len(indices))
        left = np.stack([running[index].left for index in chosen])
        left[len(indices) if num_wanting is None else num_wanting :] = 0
        adapts = np.array([not running[index].is_warm for index in chosen])
        densities = _at(self.densities, chosen)
        chains, random = (
            stacked(values)
            for values in ([running[index].chains for index in chosen], [numbers[index] for index in chosen])
        )
        state = map(divided, (densities, chains, random, left, adapts))
        chains, draws, stats = jax.tree.map(
            np.asarray, advance_sets(*state, self.settings.target_accept_prob, STEPS_A_CALL)
        )
        for place, index in enumerate(indices):
            running[index].take(_at(chains, place), draws[place], stats[place])


@jax.jit
def _points(whitening: AffineMap, draws: Float[Array, "chains draws D"]) -> Float[Array, "chains draws D"]:
    return jax.vmap(jax.vmap(whitening))(draws)
