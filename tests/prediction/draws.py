"""Fits that hold draws, or a point, without a sampler or a search."""

import dataclasses

import jax
import numpy as np

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.posteriors import Draws, Point


def drawn(exact, num_chains=4, num_samples=250, seed=0):
    """A fit that holds independent draws from an exact posterior, as a perfect sampler would give them.

    Each other number of draws is compiled for once more.
    """
    draws = exact.posterior.draws(num_chains * num_samples, jax.random.key(seed))
    chains = {name: value.reshape(num_chains, num_samples, *value.shape[2:]) for name, value in draws.items()}
    posterior = Draws(exact.program, chains, exact.program.parameters_of(chains), {})
    return dataclasses.replace(exact, posterior=posterior)


def at_point(program, latents, X, y=None, **options):
    """A fit of a program of one's own that holds this process, as a search for the mode would have found it there."""
    problem = prepare(program, X, y, **options)
    values = {name: np.asarray(value, np.float64) for name, value in latents.items()}
    return problem.result(bg.MAP(), Point(problem.program, values))
