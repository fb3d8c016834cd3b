"""NUTS with NumPyro's kernel and its adaptation of masses, for posteriors that cannot be whitened beforehand."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.runtime import OwnedJit
from bayesgen.typing import Array, Float

from .evaluator import evaluator_of
from .sampler import Sample
from .whitening import Whitened

CHUNK = 50  # steps of one call, between which progress is told
MOST_DENSE = 100  # dimensions up to which a dense matrix of masses is adapted
RECORDED = ("num_steps", "accept_prob", "diverging", "energy", "potential_energy")


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """What the sampler adapts, and for how long. Hashable: compiled functions are keyed by it."""

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
        density: log density in the coordinates that masses are adapted in.
        key: JAX key.
        target: acceptance probability that the step size is adapted to.
        dense_mass: whether the masses are a matrix, where there are not too many of them.
        advanced: called with the number of steps that each chain took.

    Returns:
        (draws (chain, draw, dimension), statistics name -> (chain, draw)).
    """
    plan = Adaptation(num_warmup, dense_mass and density.dimension <= MOST_DENSE)
    first, second = jax.random.split(key)
    points = 0.5 * jax.random.normal(second, (num_chains, density.dimension), jnp.float64)
    states = start(density, jax.random.split(first, num_chains), points, target, plan=plan)
    for size in _chunks(num_warmup):
        states, _, _ = advance(density, states, target, plan=plan, num_steps=size)
        advanced(size)
    parts = []
    for size in _chunks(num_samples):
        states, draws, stats = advance(density, states, target, plan=plan, num_steps=size)
        parts.append((np.asarray(draws), jax.tree.map(np.asarray, stats)))
        advanced(size)
    draws = np.concatenate([part for part, _ in parts], axis=1)
    return draws, {name: np.concatenate([stats[name] for _, stats in parts], axis=1) for name in parts[0][1]}


def _chunks(total: int) -> list[int]:
    """Sizes of the chunks in which steps are taken: equal ones, so that one function is compiled, and a rest."""
    return [CHUNK] * (total // CHUNK) + ([total % CHUNK] if total % CHUNK else [])


def start(density: Whitened, keys: Any, points: Float[Array, "chain D"], target: float, *, plan: Adaptation) -> Any:
    """The states of the chains before the first step.

    The state is set up on a toy density, which compiles once for all programs; density and gradient at the starting
    points are then put in.
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
def advance(density: LogDensity, states: Any, target: Any, *, plan: Adaptation, num_steps: int) -> Any:
    """Take steps with every chain, adapting while in warm-up.

    Returns:
        (states, draws (chain, step, dimension), statistics (chain, step)).
    """
    init_kernel, sample_kernel = hmc(potential_fn_gen=lambda: lambda z: -density(z), algo="NUTS")

    def chain(state: Any) -> Any:
        # this sets the kernel up; its result is not used, so nothing of it is computed
        _start(init_kernel, jax.random.key(0), state.z, target, plan)

        def step(state: Any, _: None) -> Any:
            state = sample_kernel(state)
            stats = {name: getattr(state, name) for name in RECORDED}
            return state, (state.z, stats | {"step_size": state.adapt_state.step_size})

        return jax.lax.scan(step, state, length=num_steps)

    states, (draws, stats) = jax.vmap(chain)(states)
    return states, draws, stats
