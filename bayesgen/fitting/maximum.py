"""The process at the maximum of a program's density, found by search: what MLE and MAP give where no closed form is."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import FitError
from bayesgen.posteriors import Point
from bayesgen.program import DRAWS, ProgramDensity, dispersed_starts
from bayesgen.runtime import placed
from bayesgen.solvers import maximize

from .problem import ProgramProblem


def point_at_maximum(problem: ProgramProblem, density: ProgramDensity, num_starts: int, what: str) -> Point:
    """The point at the maximum of a density of the problem's program.

    Args:
        problem: training problem.
        density: what is maximised.
        num_starts: number of climbs.
        what: what the density is, for messages.

    Raises:
        FitError: where the density is unbounded or its mode not unique; names the site.
    """
    program = problem.program
    if density.dimension == 0:
        raise FitError(
            "There is nothing to learn: the program has no continuous latent site, so it is one known process. Ask it "
            "for program.log_joint({}, X)."
        )
    with jax.enable_x64(True), placed(density.cost):
        starts = dispersed_starts(program, problem.seed, max(DRAWS, num_starts))
        optimum = maximize(density, starts, num_starts, what)
        values = density.constrain(jnp.asarray(optimum.vector))
    return Point(program, program.parameters_of({name: np.asarray(value) for name, value in values.items()}))
