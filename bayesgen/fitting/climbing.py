"""Climbs from the joint fit: where they start, in which coordinates, and what is made of where they lead."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import Parameters, Point
from bayesgen.program import GenerativeProgram, free_vector
from bayesgen.solvers import Rise, Whitened, Whitening, curvature_at, evaluator_of
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float

from .fit import Fit
from .given_parameters import inside
from .problem import ProgramProblem
from .searching import Searching

BEYOND = 700.0  # where that stands for infinity: a probability of 1e-304


def start_of(problem: ProgramProblem, joint: Fit) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of the joint fit, inside the space where that has probabilities of zero."""
    program = problem.program
    vector = _vector(program, joint.posterior.parameters)
    conjugate = problem.conjugate
    if not np.isfinite(vector).all() and conjugate is not None and conjugate.is_closed:
        statistics = dataclasses.replace(problem.data.statistics, unlabelled=None)
        middle = _vector(program, conjugate.update(conjugate.available(statistics)).center())
        vector = np.where(np.isfinite(vector), vector, middle)
    return inside(vector)


def objective_at_joint_fit(problem: ProgramProblem, joint: Fit, density: LogDensity, whitening: Whitening) -> float:
    """The density at the joint fit itself, which may lie at the edge of the space, by the function of the climb."""
    vector = _vector(problem.program, joint.posterior.parameters)
    center = np.nan_to_num(vector, nan=0.0, posinf=BEYOND, neginf=-BEYOND)
    evaluator = evaluator_of(Whitened(density, dataclasses.replace(whitening, center=center)))
    return evaluator.at(np.zeros(len(center)))[0]


def _vector(program: GenerativeProgram, parameters: Parameters) -> Float[np.ndarray, " D"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        latents = program.latents_of(parameters)
        return free_vector(program, {name: latents[name] for name in program.latents})


def whitening_at(
    method: Searching, problem: ProgramProblem, statistics: SufficientStatistics, start: Float[np.ndarray, " D"]
) -> Whitening:
    """Coordinates in which the joint density of complete data has curvature one about the start."""
    evaluator = evaluator_of(method.joint_density(problem, statistics.padded()))
    return Whitening.at_point(start, curvature_at(evaluator, start))


def refuse_endless(
    found: Rise,
    point_of: Callable[[Float[np.ndarray, " _"]], Float[Array, " D"]],
    whitening: Whitening,
    density: LogDensity,
    method: Searching,
) -> None:
    """Refuse an objective that rises without end.

    Args:
        found: where the climb has led.
        point_of: from the coordinates of the climb to those of the density, linear about the whitening's center.
        whitening: of the density.
        density: that of p(y | x).
        method: what was asked for.

    Raises:
        FitError: naming the site along which it does.
    """
    if found.endless is not None:
        raise endless(np.asarray(point_of(found.endless)) - whitening.center, whitening, density, method)


def endless(
    direction: Float[np.ndarray, " D"], whitening: Whitening, density: LogDensity, method: Searching
) -> FitError:
    """What to say of an objective that rises without end along a direction."""
    site = density.name_of(int(np.argmax(np.abs(direction) / whitening.widths)))
    remedy = (
        "Give that site a prior that bounds it (concentrations, a and b above 1)"
        if method.has_prior
        else "MAP(objective='conditional') has one, by its prior"
    )
    return FitError(
        f"The conditional {method.what} has no maximum: it rises without end along site {site!r}, as it does where "
        f"classes are separable, wholly or in part, so that some labels follow from these columns with certainty. "
        f"{remedy}; or use objective='joint'."
    )


def values_at(
    program: GenerativeProgram, density: LogDensity, vector: Float[np.ndarray, " D"], known: Parameters
) -> Parameters:
    """The parameters of an unconstrained vector; what is no latent is as it was."""
    values = {name: np.asarray(value) for name, value in density.constrain(vector).items()}
    found = program.parameters_of(values)
    return {name: found.get(name, value) for name, value in known.items()}


def result_at(
    method: Searching, problem: ProgramProblem, joint: Fit, point: Parameters, attributes: dict[str, Any]
) -> Fit:
    """The fit at a point, of the kind that the joint fit is."""
    assert isinstance(joint.posterior, Point)
    return problem.result(method, dataclasses.replace(joint.posterior, values=point), attributes | problem.about_labels)
