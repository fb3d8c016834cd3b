"""Training for p(y | x): the process under which the labels of rows are most probable given their attributes.

The search starts at the joint fit, in coordinates in which the joint density has curvature one there. Labels given
attributes carry at most the information of rows and labels together, so the curvature of log p(y | x) is between 0 and
1 in every direction, for all units of the columns and numbers of rows: 0 where p(y | x) does not change.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows, joined_rows
from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import ParameterArrays, Point
from bayesgen.program import (
    AttributesDensity,
    ConditionalDensity,
    GenerativeProgram,
    Response,
    ResponseDensity,
    free_vector,
)
from bayesgen.records import record
from bayesgen.runtime import placed
from bayesgen.solvers import AffineMap, Supremum, Whitened, curvature_at, evaluator_of, find_supremum
from bayesgen.statistics import SufficientStatistics, merged, padded_rows
from bayesgen.typing import Array, Float

from .fit import Fit
from .identification import CERTAIN, MOST_DIMENSIONS, LogOddsSlopes
from .problem import ProgramProblem, Searching
from .starts import made_finite, rows_of_classes

Searched = TypeVar("Searched", Whitened, "CoupledDensity")  # an objective in the coordinates of its search
LARGEST_COORDINATE = 700.0  # in place of infinity: a probability of 1e-304


def initial_vector(problem: ProgramProblem, joint: Fit) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of the joint fit; coordinates of probabilities of zero are made finite."""
    program = problem.program
    vector = _vector(program, joint.posterior.parameters)
    conjugate = problem.conjugate
    if not np.isfinite(vector).all() and conjugate is not None and conjugate.is_closed:
        statistics = dataclasses.replace(problem.data.statistics, unlabelled=None)
        center = _vector(program, conjugate.update(conjugate.initial_statistics(statistics)).center())
        vector = np.where(np.isfinite(vector), vector, center)
    return made_finite(vector)


def objective_at_joint_fit(problem: ProgramProblem, joint: Fit, density: LogDensity, whitening: AffineMap) -> float:
    """The objective at the joint fit itself, which may have probabilities of zero."""
    vector = _vector(problem.program, joint.posterior.parameters)
    center = np.nan_to_num(vector, nan=0.0, posinf=LARGEST_COORDINATE, neginf=-LARGEST_COORDINATE)
    evaluator = evaluator_of(Whitened(density, dataclasses.replace(whitening, center=center)))
    return evaluator.at(np.zeros(len(center)))[0]


def _vector(program: GenerativeProgram, parameters: ParameterArrays) -> Float[np.ndarray, " D"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        latents = program.latents_of(parameters)
        return free_vector(program, {name: latents[name] for name in program.latents})


def whitening_at(
    method: Searching, problem: ProgramProblem, statistics: SufficientStatistics, start: Float[np.ndarray, " D"]
) -> AffineMap:
    """Coordinates in which the joint density of complete data has curvature one about the start."""
    evaluator = evaluator_of(method.joint_density(problem, statistics.padded()))
    return AffineMap.at_point(start, curvature_at(evaluator, start))


def refine(
    method: Searching,
    problem: ProgramProblem,
    joint: Fit,
    statistics: SufficientStatistics,
    objective_in: Callable[[AffineMap], Searched],
) -> tuple[Searched, Supremum]:
    """The maximum of an objective above the joint fit. Inside float64.

    Args:
        method: the training method.
        problem: of the rows that the joint fit was trained on.
        joint: the joint fit.
        statistics: of complete data, at which the joint density has curvature one in the coordinates of the search.
        objective_in: these coordinates -> the objective.

    Returns:
        (the objective in the coordinates of the search, its maximum)

    Raises:
        FitError: an objective without an upper bound; names the site along which it rises.
    """
    whitening = whitening_at(method, problem, statistics, initial_vector(problem, joint))
    objective = objective_in(whitening)
    found = find_supremum(objective, np.zeros(objective.dimension))
    check_bounded(objective, found, method)
    return objective, found


def check_bounded(objective: Searched, found: Supremum, method: Searching) -> None:
    """Refuse an objective without an upper bound; a `FitError` names the site along which it rises."""
    if found.recession is not None:
        direction = np.asarray(objective.point(found.recession)) - objective.whitening.center
        raise unbounded_objective(direction, objective.whitening, objective, method)


def unbounded_objective(
    direction: Float[np.ndarray, " D"], whitening: AffineMap, density: LogDensity, method: Searching
) -> FitError:
    """The error for an objective that rises without end along a direction."""
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
    program: GenerativeProgram, density: LogDensity, vector: Float[np.ndarray, " D"], known: ParameterArrays
) -> ParameterArrays:
    """The parameters of an unconstrained vector; those that are no latents keep their known values."""
    values = {name: np.asarray(value) for name, value in density.constrain(vector).items()}
    found = program.parameters_of(values)
    return {name: found.get(name, value) for name, value in known.items()}


def result_at(
    method: Searching, problem: ProgramProblem, joint: Fit, point: ParameterArrays, attributes: dict[str, Any]
) -> Fit:
    """The fit at a point, with a posterior of the same kind as that of the joint fit."""
    assert isinstance(joint.posterior, Point)
    return problem.result(method, dataclasses.replace(joint.posterior, values=point), attributes | problem.about_labels)


# Training for p(y | x) where the label y is continuous.
#
# log p(y | x, Q) = log p(x, y | Q) - log p(x | Q), and both are densities of sufficient statistics: of the rows, and of
# the same rows without y. So only sites without a likelihood are evaluated row by row.


def response_fit(method: Searching, problem: ProgramProblem, response: Response) -> Fit:
    """The fit that maximises log p(y | X, Q), and the log prior where the method has one.

    Raises:
        FitError: attributes that are made from y, so that log p(x) has no closed form; no row with y; summaries in
            place of rows; an objective without a maximum.
    """
    rows, data = problem.data.rows, problem.data
    if response.is_parent:
        raise FitError(
            f"The attributes are made from the response {response.site!r}, so log p(x), which objective='conditional' "
            "leaves out of the joint density, is an integral over it that no likelihood has. Use objective='joint', or "
            "a model that has p(y | x) at hand: JointGaussianRegression, LinearRegression, or a program that makes y "
            "from them."
        )
    if rows is None:
        raise FitError(
            "Summaries do not determine p(y | x), which objective='conditional' maximises: it needs the rows. Give X "
            "and y to fit; or objective='joint'."
        )
    if not rows.num_rows or not np.any(rows.frequencies):
        raise FitError("No row has its y, so there is no p(y | x) to maximise.")
    statistics = data.model.summarize(data.schema, rows)
    of_labelled = dataclasses.replace(data, schema=data.scaled_schema, statistics=statistics)
    joint = method.joint_fit(dataclasses.replace(problem, data=of_labelled))
    if response.is_only_attribute(rows):  # then x is given, and the joint density is that of y given x
        return result_at(method, problem, joint, joint.posterior.parameters, {})
    without = data.model.summarize(data.schema, response.without(rows))
    density = ResponseDensity(problem.program, statistics.padded(), without.padded(), method.has_prior)
    with jax.enable_x64(True), placed(density.cost):
        objective, found = refine(method, problem, joint, statistics, functools.partial(Whitened, density))
        about = {
            "objective": found.value,
            "objective_of_joint_fit": objective_at_joint_fit(problem, joint, density, objective.whitening),
        }
        point = values_at(problem.program, objective, found.vector, joint.posterior.parameters)
    return result_at(method, problem, joint, point, about)


# The objective of hybrid training.


@record
class CoupledDensity(LogDensity):
    """The sum of the log densities of two points and of a normal log density of their distance.

    The vector holds whitened coordinates (a, b) of the pair a + t b and a - t b. The distance is normal with a variance
    v in each coordinate, -(2 t b)^2 / (2 v), and t = sqrt(v / (v + 4)) keeps the curvature along b below 1 however
    small v is, and tends to 1 as it grows.

    Attributes:
        first, second: the log densities.
        whitening: from whitened coordinates to those of the densities.
        variance: v.
    """

    first: LogDensity
    second: LogDensity
    whitening: AffineMap
    variance: Float[Array, ""]

    @property
    def dimension(self) -> int:
        return 2 * len(self.whitening.center)

    def pair(self, vector: Float[Array, " D"]) -> tuple[Float[Array, " half"], Float[Array, " half"]]:
        """Both points, in the coordinates of their densities."""
        center, apart = jnp.split(jnp.asarray(vector), 2)
        shift = jnp.sqrt(self.variance / (self.variance + 4)) * apart
        return self.whitening(center + shift), self.whitening(center - shift)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        one, other = self.pair(vector)
        apart = jnp.split(jnp.asarray(vector), 2)[1]
        return self.first(one) + self.second(other) - 2 * (apart**2).sum() / (self.variance + 4)

    def point(self, vector: Float[Array, " D"]) -> Float[Array, " half"]:
        """The first point, in the coordinates of its density."""
        return self.pair(vector)[0]

    def constrain(self, vector: Float[Array, " D"]) -> Mapping[str, Array]:
        """The parameters of the first point."""
        return self.first.constrain(self.point(vector))

    def name_of(self, index: int) -> str:
        return self.first.name_of(index)

    @property
    def cost(self) -> float:
        return self.first.cost + self.second.cost

    @property
    def loops_over_rows(self) -> bool:
        return self.first.loops_over_rows or self.second.loops_over_rows

    @property
    def owner(self) -> Any:
        return self.first.owner


def conditional_fit(method: Searching, problem: ProgramProblem) -> Fit:
    """The fit that maximises log p(y | X, Q), and the log prior where the method has one.

    Raises:
        FitError: no row with a label; summaries in place of rows; an objective without a maximum.
    """
    if problem.data.model.response is not None:
        return response_fit(method, problem, problem.data.model.response)
    rows = labelled_rows(problem)
    labelled = _without_unlabelled(problem)
    joint = method.joint_fit(labelled)
    program, statistics = problem.program, labelled.data.statistics
    density = ConditionalDensity(program, padded_rows(rows), method.has_prior)
    with jax.enable_x64(True), placed(density.cost):
        objective, found = refine(method, labelled, joint, statistics, functools.partial(Whitened, density))
        vector, whitening = np.asarray(objective.point(found.vector)), objective.whitening
        attributes = {
            "objective": found.value,
            "objective_of_joint_fit": objective_at_joint_fit(labelled, joint, density, whitening),
            "unidentified_directions": _checked(density, rows, vector, found.value, whitening, method),
        }
        point = values_at(program, objective, found.vector, joint.posterior.parameters)
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
    attributes = AttributesDensity(program, padded_rows(joined_rows(everything)))
    with jax.enable_x64(True), placed(labels.cost + attributes.cost):
        complete = _complete(problem, statistics, joint)
        variance, known = np.asarray(coupling**2 * complete.total_weight), joint.posterior.parameters
        objective, found = refine(
            method, problem, joint, complete, lambda whitening: CoupledDensity(labels, attributes, whitening, variance)
        )
        other = values_at(program, labels, np.asarray(objective.pair(found.vector)[1]), known)
        about = {"objective": found.value, "other_parameters": other}
        point = values_at(program, objective, found.vector, known)
    return result_at(method, problem, joint, point, about)


def labelled_rows(problem: ProgramProblem) -> Rows:
    """The rows with labels.

    Raises:
        FitError: where there are none, or they were not kept.
    """
    response = problem.data.model.response
    if response is not None:
        others = "objective='joint'" if response.is_parent else "objective='joint' or 'conditional'"
        raise FitError(f"The label is continuous, and Hybrid() is of classes. Use {others}.")
    if not problem.has_labels and problem.program.num_classes < 2:
        raise FitError("This model has fewer than two classes, so no p(y | x) to maximise. Use objective='joint'.")
    if not problem.has_labels:
        raise FitError(
            "There are no labels, so there is no p(y | x) to maximise. Give y, and the model itself where it is a "
            "Mixture; or objective='joint'."
        )
    if problem.data.rows is None:
        raise FitError(
            "Summaries do not determine p(y | x), which objective='conditional' and Hybrid() maximise: they need the "
            "rows. Give X and y to fit; or objective='joint'."
        )
    if problem.program.num_classes < 2:
        raise FitError("There is one class, so p(y | x) is 1 whatever the process. Give objective='joint'.")
    if not problem.data.rows.num_rows or not np.any(problem.data.rows.frequencies):
        raise FitError("No row has a label, so there is no p(y | x) to maximise. Label rows of each class.")
    return problem.data.rows


def _without_unlabelled(problem: ProgramProblem) -> ProgramProblem:
    """The problem of the labelled rows alone, which determine p(y | x). The prior stays that of all rows."""
    data = problem.data
    if data.statistics.unlabelled is None:
        return problem
    statistics = dataclasses.replace(data.statistics, unlabelled=None)
    of_labelled = dataclasses.replace(data, schema=data.scaled_schema, statistics=statistics, unlabelled_places=None)
    return dataclasses.replace(problem, data=of_labelled)


def _complete(problem: ProgramProblem, statistics: SufficientStatistics, joint: Fit) -> SufficientStatistics:
    """The expected statistics of all rows, by the responsibilities of the joint fit where labels are missing."""
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
    whitening: AffineMap,
    method: Searching,
) -> int | None:
    """The number of directions in which p(y | x) does not change at a point; None in too many dimensions.

    Raises:
        FitError: where classes are separable.
    """
    if len(vector) > MOST_DIMENSIONS:
        if not method.has_prior and value >= -CERTAIN * float(np.sum(rows.frequencies)):
            raise unbounded_objective(vector - whitening.center, whitening, density, method)
        return None
    slopes = LogOddsSlopes.at(density, rows, vector, whitening.widths)
    direction = slopes.separation(slopes.without_prior)
    if direction is not None:
        raise unbounded_objective(direction, whitening, density, method)
    return slopes.num_unidentified
