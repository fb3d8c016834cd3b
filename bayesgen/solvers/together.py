"""Draws from many log densities of one structure, whose modes and chains are searched and run together.

The coordinates of all are those that whiten the first density, whitened once more by each density's own curvature
there. Chains of all densities take their leapfrog steps side by side, so that the overhead of a step is paid once for
all of them. A density whose mode is not found so, or whose chains diverge or disagree, is left to `sample`.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.runtime import OwnedJit, Pool, carrying, chunks, devices_in_use, divided, num_cores
from bayesgen.typing import Array, Bool, Float, PRNGKeyArray

from .attempts import CAREFUL, Settings, failure_of
from .curvature import AffineMap, Whitened
from .maximize import CONVERGED_DECREMENT, LAST_DECREMENT
from .quasi_newton import LIGHT_OPTIMISATION, begin, climbed, unit_axes
from .sampler import (
    LEAPFROGS_A_CALL,
    RandomNumbers,
    Sample,
    advance_sets,
    at_step_size,
    draw_numbers,
    is_cpu,
    named_statistics,
    run,
    start,
)

# densities whose chains are one array on a device; more take more memory, and on a processor are no faster
AT_ONCE_ON_CPU, AT_ONCE_ON_GPU = 32, 1024


def sample_together(
    densities: Any, near: AffineMap, keys: Sequence[PRNGKeyArray], settings: Settings
) -> list[Sample | None]:
    """Draws (chain, draw, D) of densities of one structure and statistics; None of a density to be sampled alone.

    Inside float64.

    Args:
        densities: a pytree of log densities, its leaves with an axis of the S densities first.
        near: the map that whitens the first of them.
        keys: a JAX key of each density.
        settings: of the sampler.
    """
    num_devices = len(devices_in_use())
    at_once = num_devices * (AT_ONCE_ON_CPU if is_cpu() else AT_ONCE_ON_GPU)
    size = min(at_once, num_devices * math.ceil(len(keys) / num_devices))
    groups = [np.arange(part.start, part.start + size).clip(max=len(keys) - 1) for part in chunks(len(keys), size)]

    def of_group(places: Any) -> list[Sample | None]:
        some = divided(jax.tree.map(lambda leaf: np.asarray(leaf)[places], densities))
        maps, is_peak = _whitened(some, near)
        found = _sampled(Whitened(some, maps), [keys[place] for place in places], settings)
        return [sample if good else None for sample, good in zip(found, np.asarray(is_peak), strict=True)]

    parts = [of_group(groups[0])]  # alone, as programs are traced in one thread
    with Pool(num_cores() if num_devices == 1 and is_cpu() else 1) as pool:
        parts += pool.results(carrying(of_group), groups[1:])
    return [sample for part in parts for sample in part][: len(keys)]


@functools.partial(OwnedJit, compiler_options=LIGHT_OPTIMISATION)
def _whitened(densities: LogDensity, near: AffineMap) -> tuple[AffineMap, Bool[Array, " S"]]:
    """Maps of the Laplace approximations of densities, and which of them are at a peak."""

    def of_density(density: LogDensity) -> tuple[AffineMap, Array]:
        dimension, coordinates = len(near.center), Whitened(density, near)
        origin, axes = jnp.zeros(dimension), unit_axes(dimension)
        climb = climbed(coordinates, origin, axes, begin(np.zeros(dimension)), 400, LAST_DECREMENT)
        point = climb.point
        curvature = -jax.hessian(coordinates)(point)
        root = jnp.linalg.cholesky(curvature)
        inverse = jax.scipy.linalg.solve_triangular(root, jnp.eye(dimension), lower=True)
        step = inverse.T @ (inverse @ climb.gradient)
        is_peak = jnp.isfinite(inverse).all() & (climb.gradient @ step <= CONVERGED_DECREMENT)
        factor = jax.jacfwd(near)(point) @ inverse.T
        safe = jnp.where(is_peak, factor, jnp.eye(dimension))
        return AffineMap(near(point + jnp.where(is_peak, step, 0.0)), (safe[None],)), is_peak

    return jax.vmap(of_density)(densities)


def _sampled(densities: Whitened, keys: Sequence[PRNGKeyArray], settings: Settings) -> Iterator[Sample | None]:
    """Draws by NUTS from whitened densities; each has a step size of its own, found in a warm-up."""
    randoms = [np.random.default_rng(np.asarray(jax.random.key_data(key))) for key in keys]
    num_chains, dimension = settings.num_chains, densities.whitening.center.shape[-1]

    def numbers() -> RandomNumbers:
        each = [draw_numbers(random, num_chains, dimension) for random in randoms]
        return RandomNumbers(*map(np.stack, zip(*each, strict=True)))

    def run_all(num_draws: int, adapt: bool, chains: Any) -> Any:
        def advance(*state: Any) -> Any:
            return advance_sets(densities, *map(divided, state), settings.target, adapt, LEAPFROGS_A_CALL)

        return run(advance, num_draws, chains, numbers, lambda _: None)

    begun = [start(dimension, random, num_chains) for random in randoms]
    warm, _, _ = run_all(settings.num_warmup or 150, True, jax.tree.map(lambda *leaves: np.stack(leaves), *begun))
    guess = np.exp(np.asarray(warm.averages)[..., 0].mean(1, keepdims=True))
    _, draws, stats = run_all(settings.num_samples, False, at_step_size(warm, guess))
    for of_density, point, values in zip(draws, np.asarray(_points(densities.whitening, draws)), stats, strict=True):
        statistics = named_statistics(values)
        wants_care = settings.target < CAREFUL and statistics["diverging"].any()
        is_good = not wants_care and failure_of(of_density, statistics, False) is None
        yield (point, statistics) if is_good else None


@jax.jit
def _points(maps: AffineMap, draws: Float[Array, "S chains draws D"]) -> Float[Array, "S chains draws D"]:
    return jax.vmap(lambda whitening, of_set: jax.vmap(jax.vmap(whitening))(of_set))(maps, draws)
