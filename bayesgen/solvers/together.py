"""Draws from many log densities of one structure, whose modes and chains are searched and run together.

The coordinates of all are those that whiten the first density, whitened once more by each density's own curvature
there. Chains of all densities take their leapfrog steps side by side, so that the overhead of a step is paid once for
all of them. A density whose mode is not found so, or whose chains diverge or disagree, is left to `sample`.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.log_density import LogDensity
from bayesgen.records import record
from bayesgen.runtime import OwnedJit, Pool, carrying, num_cores
from bayesgen.typing import Array, Bool, Float, PRNGKeyArray

from .attempts import CAREFUL, Preparation, Settings, failure_of
from .curvature import AffineMap, Whitened
from .maximize import CONVERGED_DECREMENT, LAST_DECREMENT
from .quasi_newton import LIGHT_OPTIMISATION, begin, climbed, unit_axes
from .sampler import LEAPFROGS_A_CALL, STATISTICS, Chain, RandomNumbers, advance_sets, draw_numbers, start


@record
class Sampled:
    """Draws from several densities, (S, chain, draw, ...).

    Attributes:
        draws: unconstrained draws.
        statistics: of the sampler, by name.
        is_kept: which densities these draws are good for.
    """

    draws: Float[np.ndarray, "S chains draws D"]
    statistics: dict[str, np.ndarray]
    is_kept: Bool[np.ndarray, " S"]


def sample_together(
    densities: Any,
    first: Preparation,
    keys: Sequence[PRNGKeyArray],
    settings: Settings,
) -> Sampled:
    """Draws from densities of one structure. Inside float64.

    Args:
        densities: a pytree of log densities, its leaves with an axis of the S densities first.
        first: coordinates that whiten the first of them.
        keys: a JAX key of each density.
        settings: of the sampler.
    """
    size = min(32, len(keys))  # more take more memory, and are hardly faster
    groups = [np.arange(at, at + size).clip(max=len(keys) - 1) for at in range(0, len(keys), size)]

    def of_group(places: Any) -> Sampled:
        some = jax.tree.map(lambda leaf: np.asarray(leaf)[places], densities)
        maps, is_peak = jax.tree.map(np.asarray, _whitened(some, first.density.whitening))
        found = _sampled(Whitened(some, maps), [keys[place] for place in places], settings)
        return dataclasses.replace(found, is_kept=found.is_kept & is_peak)

    parts = [of_group(groups[0])]  # alone, as programs are traced in one thread
    with Pool(min(len(groups), num_cores())) as pool:
        parts += pool.results(carrying(of_group), groups[1:])
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(keys)], *parts)
    return whole


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


def _sampled(densities: Whitened, keys: Sequence[PRNGKeyArray], settings: Settings) -> Sampled:
    """Draws by NUTS from whitened densities; each has a step size of its own, found in a warm-up."""
    randoms = [np.random.default_rng(np.asarray(jax.random.key_data(key))) for key in keys]
    num_chains, dimension = settings.num_chains, densities.whitening.center.shape[-1]
    begun = [start(dimension, random, num_chains) for random in randoms]
    chains = jax.tree.map(lambda *leaves: np.stack(leaves), *begun)
    num_warmup, target = settings.num_warmup or 150, settings.target
    chains, _, _ = _run(densities, num_warmup, target, True, randoms, chains)
    guess = np.exp(np.asarray(chains.averages)[..., 0].mean(1, keepdims=True))
    chains = chains._replace(step_size=np.broadcast_to(guess, (len(keys), num_chains)))
    _, draws, stats = _run(densities, settings.num_samples, target, False, randoms, chains)
    statistics: dict[str, np.ndarray] = {
        name: stats[..., at].astype(kind) for at, (name, kind) in enumerate(STATISTICS.items())
    }
    is_kept = np.array(
        [
            failure_of(of_set, {name: values[index] for name, values in statistics.items()}, False) is None
            and not (target < CAREFUL and statistics["diverging"][index].any())
            for index, of_set in enumerate(draws)
        ]
    )
    points = np.asarray(_points(densities.whitening, draws))
    return Sampled(points, statistics, is_kept)


@jax.jit
def _points(maps: AffineMap, draws: Float[Array, "S chains draws D"]) -> Float[Array, "S chains draws D"]:
    return jax.vmap(lambda whitening, of_set: jax.vmap(jax.vmap(whitening))(of_set))(maps, draws)


def _run(
    densities: Whitened,
    num_draws: int,
    target: float,
    adapt: bool,
    randoms: Sequence[np.random.Generator],
    chains: Chain,
) -> tuple[Chain, np.ndarray, np.ndarray]:
    """Make `num_draws` draws with each chain of each density: (chains, draws, statistics)."""
    num_sets, num_chains = chains.step_size.shape
    dimension = densities.whitening.center.shape[-1]
    draws = np.empty((num_sets, num_chains, num_draws, dimension))
    stats = np.empty((num_sets, num_chains, num_draws, len(STATISTICS)))
    made = np.zeros((num_sets, num_chains), np.int32)
    while (made < num_draws).any():
        each = [draw_numbers(random, num_chains, dimension) for random in randoms]
        numbers = RandomNumbers(*map(np.stack, zip(*each, strict=True)))
        left = (num_draws - made).astype(np.int32)
        chains, new, of_new = advance_sets(densities, chains, numbers, left, target, adapt, LEAPFROGS_A_CALL)
        counts, new, of_new = np.asarray(chains.num_draws), np.asarray(new), np.asarray(of_new)
        for place in np.ndindex(made.shape):
            count, at = counts[place], made[place]
            draws[place][at : at + count], stats[place][at : at + count] = new[place][:count], of_new[place][:count]
        made = made + counts
    return chains, draws, stats
