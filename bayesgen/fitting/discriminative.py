"""Training for p(y | x): the process under which the labels of rows are most probable given their attributes.

The search starts at the joint fit, and in coordinates in which the joint density there has curvature one. What labels
given attributes tell of a process is at most what rows and labels tell of it together, so that curvatures are between 0
and 1, whatever the units of the columns and the number of rows: 0 along directions that leave p(y | x) as it is.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from bayesgen.data import Rows, joined
from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import Parameters, Point
from bayesgen.program import AttributesDensity, ConditionalDensity, GenerativeProgram, free_vector
from bayesgen.runtime import placed
from bayesgen.solvers import Rise, Whitened, Whitening, curvature_at, evaluator_of, rise
from bayesgen.statistics import SufficientStatistics, merged, padded_rows
from bayesgen.typing import Float

from .coupled import CoupledDensity
from .fit import Fit
from .identification import MOST_DIMENSIONS, SURE, Effects
from .problem import ProgramProblem
from .searching import Searching
from .starts import rows_of_classes

AT_THE_EDGE = 12.0  # where a coordinate starts that the joint fit has infinitely far out: a probability of 1e-5


def conditional_fit(method: Searching, problem: ProgramProblem) -> Fit:
    """The fit that maximises log p(y | X, Q), and the log prior where the method has one.

    Raises:
        FitError: rows without any label, or of which only summaries are left; an objective without a maximum.
    """
    rows = labelled_rows(problem)
    labelled = _without_unlabelled(problem)
    joint = method.joint_fit(labelled)
    program, statistics = problem.program, labelled.data.statistics
    density = ConditionalDensity(program, padded_rows(rows), method.has_prior)
    with jax.enable_x64(True), placed(density.cost):
        start = _start(labelled, joint)
        whitening = _whitening(method, labelled, statistics, start)
        found = rise(Whitened(density, whitening), np.zeros(len(start)))
        _refuse_endless(found, whitening, density, method)
        vector = np.asarray(whitening(found.vector))
        num_unidentified = _checked(density, rows, vector, found.value, whitening, method)
        attributes = {
            "objective": found.value,
            "objective_of_joint_fit": evaluator_of(Whitened(density, whitening)).at(np.zeros(len(start)))[0],
            "unidentified_directions": num_unidentified,
        }
        point = _values(program, density, vector, joint.posterior.parameters)
    return _result(method, problem, joint, point, attributes)


def hybrid_fit(method: Searching, problem: ProgramProblem, coupling: float) -> Fit:
    """The fit that maximises the objective of `Hybrid`.

    Raises:
        FitError: as `conditional_fit` does.
    """
    rows = labelled_rows(problem)
    joint = method.joint_fit(problem)
    program, statistics = problem.program, method.counted(problem.data.statistics)
    everything = [dataclasses.replace(rows, labels=None)]
    if statistics.unlabelled is not None:
        everything.append(statistics.unlabelled)
    labels = ConditionalDensity(program, padded_rows(rows), method.has_prior)
    attributes = AttributesDensity(program, padded_rows(joined(everything)))
    with jax.enable_x64(True), placed(labels.cost + attributes.cost):
        start = _start(problem, joint)
        complete = _complete(problem, statistics, joint)
        whitening = _whitening(method, problem, complete, start)
        density = CoupledDensity(labels, attributes, whitening, np.asarray(coupling**2 * complete.total_weight))
        found = rise(density, np.zeros(density.dimension))
        _refuse_endless(found, whitening, labels, method)
        first, second = (np.asarray(vector) for vector in density.pair(found.vector))
        known = joint.posterior.parameters
        about = {"objective": found.value, "other_parameters": _values(program, labels, second, known)}
        point = _values(program, labels, first, known)
    return _result(method, problem, joint, point, about)


def labelled_rows(problem: ProgramProblem) -> Rows:
    """The rows with labels.

    Raises:
        FitError: where there are none, or they were not kept.
    """
    if not problem.has_labels:
        raise FitError(
            "There are no labels, so there is no p(y | x) to maximise. Give y, and the model itself where it is a "
            "Mixture; or objective='joint'."
        )
    if problem.data.model.response is not None:
        raise FitError(
            "The label is continuous, and log p(x) of a regression is not at hand to be left out of the joint density. "
            "Use objective='joint'; LinearRegression is discriminative as it stands."
        )
    if problem.data.rows is None:
        raise FitError(
            "Summaries do not tell p(y | x), which objective='conditional' and Hybrid() maximise: they need the rows. "
            "Give X and y to fit; or objective='joint'."
        )
    if problem.program.num_classes < 2:
        raise FitError("There is one class, so p(y | x) is 1 whatever the process. Give objective='joint'.")
    if not problem.data.rows.num_rows or not np.any(problem.data.rows.frequencies):
        raise FitError("No row has a label, so there is no p(y | x) to maximise. Label rows of each class.")
    return problem.data.rows


def _without_unlabelled(problem: ProgramProblem) -> ProgramProblem:
    """The problem of the labelled rows alone: others say nothing of p(y | x). The prior stays that of all rows."""
    data = problem.data
    if data.statistics.unlabelled is None:
        return problem
    statistics = dataclasses.replace(data.statistics, unlabelled=None)
    of_labelled = dataclasses.replace(data, schema=data.scaled_schema, statistics=statistics, unlabelled_places=None)
    return dataclasses.replace(problem, data=of_labelled)


def _start(problem: ProgramProblem, joint: Fit) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of the joint fit, inside the space where that has probabilities of zero."""
    program = problem.program
    vector = _vector(program, joint.posterior.parameters)
    conjugate = problem.conjugate
    if not np.isfinite(vector).all() and conjugate is not None and conjugate.is_closed:
        statistics = dataclasses.replace(problem.data.statistics, unlabelled=None)
        middle = _vector(program, conjugate.update(conjugate.available(statistics)).center())
        vector = np.where(np.isfinite(vector).all(), vector, middle)
    return np.nan_to_num(vector, nan=0.0, posinf=AT_THE_EDGE, neginf=-AT_THE_EDGE)


def _vector(program: GenerativeProgram, parameters: Parameters) -> Float[np.ndarray, " D"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        latents = program.latents_of(parameters)
        return free_vector(program, {name: latents[name] for name in program.latents})


def _whitening(
    method: Searching, problem: ProgramProblem, statistics: SufficientStatistics, start: Float[np.ndarray, " D"]
) -> Whitening:
    """Coordinates in which the joint density of complete data has curvature one about the start."""
    evaluator = evaluator_of(method.joint_density(problem, statistics.padded()))
    return Whitening.at_point(start, curvature_at(evaluator, start))


def _complete(problem: ProgramProblem, statistics: SufficientStatistics, joint: Fit) -> SufficientStatistics:
    """The statistics of all rows, those without labels in all classes with their responsibilities at the joint fit."""
    rows, data = statistics.unlabelled, problem.data
    labelled = dataclasses.replace(statistics, unlabelled=None)
    if rows is None:
        return labelled
    table = joint.posterior.log_joint(rows)
    shares = np.exp(table - np.logaddexp.reduce(table, axis=1, keepdims=True))
    return merged([labelled, data.model.summarize(data.schema, rows_of_classes(rows, shares))])


def _refuse_endless(found: Rise, whitening: Whitening, density: LogDensity, method: Searching) -> None:
    """Refuse an objective that rises without end.

    Raises:
        FitError: naming the site along which it does.
    """
    if found.endless is None:
        return
    direction = found.endless.reshape(-1, density.dimension).sum(0)  # of the first point, where there are two
    raise _endless(np.asarray(whitening(direction)) - whitening.center, whitening, density, method)


def _checked(
    density: ConditionalDensity,
    rows: Rows,
    vector: Float[np.ndarray, " D"],
    value: float,
    whitening: Whitening,
    method: Searching,
) -> int | None:
    """In how many directions p(y | x) does not change at a point; None where dimensions are too many to tell.

    Raises:
        FitError: where classes are separable.
    """
    if len(vector) > MOST_DIMENSIONS:
        if not method.has_prior and value >= -SURE * float(np.sum(rows.frequencies)):
            raise _endless(vector - whitening.center, whitening, density, method)
        return None
    effects = Effects.at(density, rows, vector, whitening.widths)
    direction = effects.separation(effects.without_prior)
    if direction is not None:
        raise _endless(direction, whitening, density, method)
    return effects.num_unidentified


def _endless(
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


def _values(
    program: GenerativeProgram, density: LogDensity, vector: Float[np.ndarray, " D"], known: Parameters
) -> Parameters:
    """The parameters of an unconstrained vector; what is no latent is as it was."""
    values = {name: np.asarray(value) for name, value in density.constrain(vector).items()}
    found = program.parameters_of(values)
    return {name: found.get(name, value) for name, value in known.items()}


def _result(
    method: Searching, problem: ProgramProblem, joint: Fit, point: Parameters, attributes: dict[str, Any]
) -> Fit:
    """The fit at a point, of the kind that the joint fit is."""
    assert isinstance(joint.posterior, Point)
    return problem.result(method, dataclasses.replace(joint.posterior, values=point), attributes | problem.about_labels)
