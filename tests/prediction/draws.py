"""Fits that hold draws, without a sampler."""

import dataclasses

import jax

from bayesgen.posteriors import Draws


def drawn(exact, num_chains=4, num_samples=250, seed=0):
    """A fit that holds independent draws from an exact posterior, as a perfect sampler would give them.

    Each other number of draws is compiled for once more.
    """
    draws = exact.posterior.draws(num_chains * num_samples, jax.random.key(seed))
    chains = {name: value.reshape(num_chains, num_samples, *value.shape[2:]) for name, value in draws.items()}
    posterior = Draws(exact.program, chains, exact.program.parameters_of(chains), {})
    return dataclasses.replace(exact, posterior=posterior)
