"""The process at the maximum of a program's density, found by search: what MLE and MAP give where no closed form is."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import FitError
from bayesgen.posteriors import Point
from bayesgen.program import DRAWS, ProgramDensity, dispersed_starts
from bayesgen.records import copied
from bayesgen.runtime import placed
from bayesgen.solvers import climb, evaluator_of, maximize
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Float

from .given_parameters import GivenParameters
from .problem import ProgramProblem

FIRST_STARTS = 2  # of a climb for data without gaps, whose density seldom has several maxima


def point_at_maximum(
    problem: ProgramProblem,
    density: ProgramDensity,
    num_starts: int,
    what: str,
    complete: Sequence[SufficientStatistics] = (),
    given: GivenParameters | None = None,
) -> Point:
    """The point at the maximum of a density of the problem's program.

    Args:
        problem: training problem.
        density: what is maximised.
        num_starts: number of climbs.
        what: what the density is, for messages.
        complete: data without gaps, where those of the density have some: climbs begin at the maxima for these, and
            elsewhere where more are asked for.
        given: where climbs begin, and nowhere else, if that is said.

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
        others = dispersed_starts(program, problem.seed, max(DRAWS, num_starts))
        if density.has_symmetries:  # at the origin all components are alike, and a climb from there ends at a saddle
            others = others[1:]
        tops = [_top(density, statistics.padded(), others[:FIRST_STARTS]) for statistics in complete]
        starts = np.concatenate([*(top[None] for top in tops), others])
        starts = starts[:num_starts] if len(tops) >= num_starts else starts
        if given is not None:
            origin = density.constrain(jnp.zeros(density.dimension))
            starts = given.vectors(program, program.parameters_of({name: origin[name] for name in program.latents}))
        optimum = maximize(density, starts, num_starts, what)
        values = density.constrain(jnp.asarray(optimum.vector))
    return Point(program, program.parameters_of({name: np.asarray(value) for name, value in values.items()}))


def _top(
    density: ProgramDensity, statistics: SufficientStatistics, starts: Float[np.ndarray, "starts D"]
) -> Float[np.ndarray, " D"]:
    """Where the density would be highest if these were the data. Inside float64."""
    of_these: ProgramDensity = copied(density, statistics=statistics)
    return climb(evaluator_of(of_these), starts)[0].vector
