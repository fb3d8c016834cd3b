"""Draws from many log densities of one structure, whose modes and chains are searched and run side by side.

The coordinates of all are those that whiten the first density, whitened once more by each density's own curvature
there. The chains of some densities take their leapfrog steps together, so that the overhead of a step is paid once for
all of them; where a density has its draws, the next one takes its place. A density whose mode is not found so, whose
trajectories are long, or whose chains diverge or disagree, is left to `sample`.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.runtime import OwnedJit, Pool, chunks, devices_in_use, divided, num_cores
from bayesgen.statistics import inverse_lower
from bayesgen.typing import Array, Bool, Float, PRNGKeyArray

from .attempts import CAREFUL, LONG_TRAJECTORY, Settings, failure_of
from .curvature import AffineMap, Whitened
from .maximize import CONVERGED_DECREMENT, LAST_DECREMENT
from .quasi_newton import LIGHT_OPTIMISATION, begin_climb, climbed, unit_axes
from .sampler import (
    STATISTICS,
    Chain,
    ChainDraws,
    RandomNumbers,
    advance_sets,
    at_step_size,
    draw_numbers,
    is_cpu,
    named_statistics,
    start,
)

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

    def numbers(self) -> RandomNumbers:
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
            jax.tree.map(lambda *leaves: np.stack(leaves), *values)
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
