"""Training for p(y | x): the process under which the labels of rows are most probable given their attributes.

The search starts at the joint fit, and in coordinates in which the joint density there has curvature one. What labels
given attributes tell of a process is at most what rows and labels tell of it together, so that curvatures are between 0
and 1, whatever the units of the columns and the number of rows: 0 along directions that leave p(y | x) as it is.
"""

import dataclasses

import jax
import numpy as np

from bayesgen.data import Rows, joined
from bayesgen.errors import FitError
from bayesgen.program import AttributesDensity, ConditionalDensity
from bayesgen.runtime import placed
from bayesgen.solvers import Whitened, Whitening, rise
from bayesgen.statistics import SufficientStatistics, merged, padded_rows
from bayesgen.typing import Float

from .climbing import endless, objective_at_joint_fit, refuse_endless, result_at, start_of, values_at, whitening_at
from .coupled import CoupledDensity
from .fit import Fit
from .identification import MOST_DIMENSIONS, SURE, Effects
from .problem import ProgramProblem
from .response_given import response_fit
from .searching import Searching
from .starts import rows_of_classes


def conditional_fit(method: Searching, problem: ProgramProblem) -> Fit:
    """The fit that maximises log p(y | X, Q), and the log prior where the method has one.

    Raises:
        FitError: rows without any label, or of which only summaries are left; an objective without a maximum.
    """
    if problem.data.model.response is not None:
        return response_fit(method, problem, problem.data.model.response)
    rows = labelled_rows(problem)
    labelled = _without_unlabelled(problem)
    joint = method.joint_fit(labelled)
    program, statistics = problem.program, labelled.data.statistics
    density = ConditionalDensity(program, padded_rows(rows), method.has_prior)
    with jax.enable_x64(True), placed(density.cost):
        start = start_of(labelled, joint)
        whitening = whitening_at(method, labelled, statistics, start)
        found = rise(Whitened(density, whitening), np.zeros(len(start)))
        refuse_endless(found, whitening, whitening, density, method)
        vector = np.asarray(whitening(found.vector))
        num_unidentified = _checked(density, rows, vector, found.value, whitening, method)
        attributes = {
            "objective": found.value,
            "objective_of_joint_fit": objective_at_joint_fit(labelled, joint, density, whitening),
            "unidentified_directions": num_unidentified,
        }
        point = values_at(program, density, vector, joint.posterior.parameters)
    return result_at(method, problem, joint, point, attributes)


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
        start = start_of(problem, joint)
        complete = _complete(problem, statistics, joint)
        whitening = whitening_at(method, problem, complete, start)
        density = CoupledDensity(labels, attributes, whitening, np.asarray(coupling**2 * complete.total_weight))
        found = rise(density, np.zeros(density.dimension))
        refuse_endless(found, lambda vector: density.pair(vector)[0], whitening, labels, method)
        first, second = (np.asarray(vector) for vector in density.pair(found.vector))
        known = joint.posterior.parameters
        about = {"objective": found.value, "other_parameters": values_at(program, labels, second, known)}
        point = values_at(program, labels, first, known)
    return result_at(method, problem, joint, point, about)


def labelled_rows(problem: ProgramProblem) -> Rows:
    """The rows with labels.

    Raises:
        FitError: where there are none, or they were not kept.
    """
    response = problem.data.model.response
    if response is not None:
        others = "objective='joint'" if response.is_needed else "objective='joint' or 'conditional'"
        raise FitError(f"The label is continuous, and Hybrid() is of classes. Use {others}.")
    if not problem.has_labels and problem.program.num_classes < 2:
        raise FitError("This model has no classes to tell apart, so no p(y | x) to maximise. Use objective='joint'.")
    if not problem.has_labels:
        raise FitError(
            "There are no labels, so there is no p(y | x) to maximise. Give y, and the model itself where it is a "
            "Mixture; or objective='joint'."
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


def _complete(problem: ProgramProblem, statistics: SufficientStatistics, joint: Fit) -> SufficientStatistics:
    """The statistics of all rows, those without labels in all classes with their responsibilities at the joint fit."""
    rows, data = statistics.unlabelled, problem.data
    labelled = dataclasses.replace(statistics, unlabelled=None)
    if rows is None:
        return labelled
    table = joint.posterior.log_joint(rows)
    shares = np.exp(table - np.logaddexp.reduce(table, axis=1, keepdims=True))
    return merged([labelled, data.model.summarize(data.schema, rows_of_classes(rows, shares))])


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
            raise endless(vector - whitening.center, whitening, density, method)
        return None
    effects = Effects.at(density, rows, vector, whitening.widths)
    direction = effects.separation(effects.without_prior)
    if direction is not None:
        raise endless(direction, whitening, density, method)
    return effects.num_unidentified
