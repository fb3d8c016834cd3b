"""NUTS on a program's compressed density: NumPyro's kernel, vectorised over chains, compiled once for every N."""

import functools

import jax
import jax.numpy as jnp
from numpyro.infer.hmc import hmc

from .optimize import constrain, posterior_density

RECORDED = ("num_steps", "accept_prob", "diverging", "energy", "potential_energy")


def _kernel(program, evidence, whitening):
    """NumPyro's (init, sample) for the density in whitened coordinates."""

    def potential():
        return lambda z: -posterior_density(program, whitening(z), evidence)

    return hmc(potential_fn_gen=potential, algo="NUTS")


def _start(init_kernel, key, z, settings, adapt_mass, dense_mass, num_warmup):
    return init_kernel(
        z,
        num_warmup,
        step_size=settings["step_size"],
        adapt_mass_matrix=adapt_mass,
        dense_mass=dense_mass,
        target_accept_prob=settings["target_accept_prob"],
        max_tree_depth=10,
        rng_key=key,
    )


@functools.partial(jax.jit, static_argnames=("num_warmup", "adapt_mass", "dense_mass"))
def warm_up(program, evidence, whitening, keys, starts, settings, *, num_warmup, adapt_mass, dense_mass):
    """Initialise and adapt every chain; returns the batched states."""
    init_kernel, sample_kernel = _kernel(program, evidence, whitening)

    def chain(key, z):
        state = _start(init_kernel, key, z, settings, adapt_mass, dense_mass, num_warmup)
        return jax.lax.fori_loop(0, num_warmup, lambda _, s: sample_kernel(s), state)

    return jax.vmap(chain)(keys, starts)


@functools.partial(jax.jit, static_argnames=("num_warmup", "num_draws", "adapt_mass", "dense_mass"))
def draw(program, evidence, whitening, states, settings, *, num_warmup, num_draws, adapt_mass, dense_mass):
    """Draw from every chain: (states, unconstrained draws (chain, draw, ...), statistics (chain, draw))."""
    init_kernel, sample_kernel = _kernel(program, evidence, whitening)

    def chain(state):
        # sets the kernel up; its result is not used, so nothing of it is computed
        _start(init_kernel, jax.random.key(0), state.z, settings, adapt_mass, dense_mass, num_warmup)

        def step(state, _):
            state = sample_kernel(state)
            stats = {name: getattr(state, name) for name in RECORDED}
            return state, (whitening(state.z), stats | {"step_size": state.adapt_state.step_size})

        return jax.lax.scan(step, state, length=num_draws)

    states, (draws, stats) = jax.vmap(chain)(states)
    return states, draws, stats


@jax.jit
def constrain_draws(program, draws):
    """Constrained latents and deterministic sites of unconstrained draws (chain, draw, dimension)."""
    return jax.vmap(jax.vmap(lambda one: constrain(program, one)))(draws)


def starting_states(key, num_chains, dimension, spread):
    """Dispersed starts in whitened coordinates, and a key for each chain."""
    first, second = jax.random.split(key)
    return jax.random.split(first, num_chains), spread * jax.random.normal(second, (num_chains, dimension), jnp.float64)
