"""Fits that hold draws, or a point, without a sampler or a search."""

import dataclasses

import jax
import numpy as np

import bayesgen as bg
from bayesgen.fitting import Method, fit_of_draws, prepare
from bayesgen.posteriors import Draws, Point


def drawn(exact, num_chains=4, num_samples=250, seed=0):
    """A fit that holds independent draws from an exact posterior, as a perfect sampler would give them.

    Each other number of draws is compiled for once more.
    """
    draws = exact.posterior.draws(num_chains * num_samples, jax.random.key(seed))
    chains = {name: value.reshape(num_chains, num_samples, *value.shape[2:]) for name, value in draws.items()}
    posterior = Draws(exact.program, chains, exact.program.parameters_of(chains), {})
    return dataclasses.replace(exact, posterior=posterior)


@dataclasses.dataclass(frozen=True)
class IndependentDraws(Method):
    """Independent draws from the exact posterior; all of one chain may be moved."""

    shift: float = 0.0
    num_samples: int = 250
    keeps_statistics = False

    def solve(self, problem):
        posterior = problem.conjugate.update(problem.data.statistics)
        shape = (4, self.num_samples)
        values = posterior.sample(shape, np.random.default_rng(0))
        for name, value in values.items():
            if name.endswith("mean"):
                value[0] += self.shift
        draws = ({name: value[place] for name, value in values.items()} for place in np.ndindex(shape))
        energies = -np.reshape([posterior.log_prior(draw) for draw in draws], shape)
        sites = problem.program.latents_of(values)
        problems = ["the first chain was moved"] if self.shift else []
        stats = {"potential_energy": energies, "energy": energies, "num_steps": np.ones(shape, int)}
        return fit_of_draws(self, problem, problem.program, sites, stats, {"path": "independent"}, problems)


def at_point(program, latents, X, y=None, **options):
    """A fit of a program of one's own that holds this process, as a search for the mode would have found it there."""
    problem = prepare(program, X, y, **options)
    values = {name: np.asarray(value, np.float64) for name, value in latents.items()}
    return problem.result(bg.MAP(), Point(problem.program, values))
