"""Training for p(y | x) where the label y is continuous.

log p(y | x, Q) = log p(x, y | Q) - log p(x | Q), and both are densities of statistics: of the rows, and of the same
rows without their y. So nothing is looked at row by row, but for sites that have no statistic.
"""

import dataclasses

import jax
import numpy as np

from bayesgen.errors import FitError
from bayesgen.program import Response, ResponseDensity
from bayesgen.runtime import placed
from bayesgen.solvers import Whitened, rise

from .climbing import objective_at_joint_fit, refuse_endless, result_at, start_of, values_at, whitening_at
from .fit import Fit
from .problem import ProgramProblem
from .searching import Searching


def response_fit(method: Searching, problem: ProgramProblem, response: Response) -> Fit:
    """The fit that maximises log p(y | X, Q), and the log prior where the method has one.

    Raises:
        FitError: where log p(x) is not at hand, because x is made from y; rows without any y, or of which only
            summaries are left; an objective without a maximum.
    """
    rows, data = problem.data.rows, problem.data
    if response.is_needed:
        raise FitError(
            f"The attributes are made from the response {response.site!r}, so log p(x), which objective='conditional' "
            "leaves out of the joint density, is an integral over it that no statistic has. Use objective='joint', or "
            "a model that has p(y | x) at hand: JointGaussianRegression, LinearRegression, or a program that makes y "
            "from them."
        )
    if rows is None:
        raise FitError(
            "Summaries do not tell p(y | x), which objective='conditional' maximises: it needs the rows. Give X and y "
            "to fit; or objective='joint'."
        )
    if not rows.num_rows or not np.any(rows.frequencies):
        raise FitError("No row has its y, so there is no p(y | x) to maximise.")
    statistics = data.model.summarize(data.schema, rows)
    of_labelled = dataclasses.replace(data, schema=data.scaled_schema, statistics=statistics)
    joint = method.joint_fit(dataclasses.replace(problem, data=of_labelled))
    if response.is_alone(rows):  # then x is given, and the joint density is that of y given x
        return result_at(method, problem, joint, joint.posterior.parameters, {})
    without = data.model.summarize(data.schema, response.without(rows))
    density = ResponseDensity(problem.program, statistics.padded(), without.padded(), method.has_prior)
    with jax.enable_x64(True), placed(density.cost):
        start = start_of(problem, joint)
        whitening = whitening_at(method, problem, statistics, start)
        found = rise(Whitened(density, whitening), np.zeros(len(start)))
        refuse_endless(found, whitening, whitening, density, method)
        vector = np.asarray(whitening(found.vector))
        about = {
            "objective": found.value,
            "objective_of_joint_fit": objective_at_joint_fit(problem, joint, density, whitening),
        }
        point = values_at(problem.program, density, vector, joint.posterior.parameters)
    return result_at(method, problem, joint, point, about)
