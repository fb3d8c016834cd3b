"""NUTS on a program's compressed density: NumPyro's kernel, vectorised over chains, compiled once for every N."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc

from .optimize import constrain, posterior_density, value_and_gradient

RECORDED = ("num_steps", "accept_prob", "diverging", "energy", "potential_energy")


def _kernel(program, evidence, whitening):
    """NumPyro's (init, sample) for the density in whitened coordinates."""

    def potential():
        return lambda z: -posterior_density(program, whitening(z), evidence)

    return hmc(potential_fn_gen=potential, algo="NUTS")


def _start(init_kernel, key, z, settings, plan):
    return init_kernel(
        z,
        plan.num_warmup,
        step_size=settings["step_size"],
        adapt_mass_matrix=plan.adapt_mass,
        dense_mass=plan.dense_mass,
        target_accept_prob=settings["target_accept_prob"],
        rng_key=key,
    )


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """What the sampler adapts, and for how long. Hashable: compiled functions are keyed by it."""

    num_warmup: int
    adapt_mass: bool = False
    dense_mass: bool = False


def start(program, evidence, whitening, keys, points, settings, *, plan):
    """The states of the chains before the first step.

    The state is set up on a toy density, which compiles once for all programs; density and gradient at the starting
    points are then put in.
    """
    states = _toy_start(keys, points, settings, plan=plan)
    found = [_at_point(program, evidence, whitening, point) for point in points]
    energies, gradients = (jnp.stack(parts) for parts in zip(*found, strict=True))
    return states._replace(potential_energy=energies, energy=energies, z_grad=gradients)


def _at_point(program, evidence, whitening, z):
    value, gradient = value_and_gradient(program, np.asarray(whitening(np.asarray(z))), evidence)
    factor = np.asarray(whitening.factor)
    gradient = factor.T @ np.asarray(gradient) if factor.ndim == 2 else factor * np.asarray(gradient)
    return -value, -jnp.asarray(gradient)


@functools.partial(jax.jit, static_argnames="plan")
def _toy_start(keys, points, settings, *, plan):
    init_kernel, _ = hmc(potential_fn_gen=lambda: lambda z: 0.5 * (z**2).sum(), algo="NUTS")
    return jax.vmap(lambda key, z: _start(init_kernel, key, z, settings, plan))(keys, points)


@functools.partial(jax.jit, static_argnames=("plan", "num_steps"))
def advance(program, evidence, whitening, states, settings, *, plan, num_steps):
    """Take steps with every chain, adapting while in warm-up.

    Returns:
        (states, unconstrained draws (chain, step, dimension), statistics (chain, step)).
    """
    init_kernel, sample_kernel = _kernel(program, evidence, whitening)

    def chain(state):
        # this sets the kernel up; its result is not used, so nothing of it is computed
        _start(init_kernel, jax.random.key(0), state.z, settings, plan)

        def step(state, _):
            state = sample_kernel(state)
            stats = {name: getattr(state, name) for name in RECORDED}
            return state, (whitening(state.z), stats | {"step_size": state.adapt_state.step_size})

        return jax.lax.scan(step, state, length=num_steps)

    states, (draws, stats) = jax.vmap(chain)(states)
    return states, draws, stats


def pool_step_sizes(states):
    """Give every chain the geometric mean of the step sizes: in whitened coordinates they estimate one number."""
    adapt = states.adapt_state
    pooled = jnp.broadcast_to(jnp.exp(jnp.log(adapt.step_size).mean()), adapt.step_size.shape)
    return states._replace(adapt_state=adapt._replace(step_size=pooled))


@jax.jit
def constrain_draws(program, draws):
    """Constrained latents and deterministic sites of unconstrained draws (chain, draw, dimension)."""
    return jax.vmap(jax.vmap(lambda one: constrain(program, one)))(draws)


def starting_points(key, num_chains, dimension):
    """A key for each chain, and dispersed starting points in whitened coordinates."""
    first, second = jax.random.split(key)
    points = 0.5 * jax.random.normal(second, (num_chains, dimension), jnp.float64)
    return jax.random.split(first, num_chains), points
