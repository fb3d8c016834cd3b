"""Training for p(y | x): the process under which the labels of rows are most probable given their attributes.

The search starts at the joint fit, in coordinates in which the joint density has curvature one there. Labels given
attributes carry at most the information of rows and labels together, so the curvature of log p(y | x) is between 0 and
1 in every direction, for all units of the columns and numbers of rows: 0 where p(y | x) does not change.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows, joined_rows
from bayesgen.errors import FitError
from bayesgen.log_density import LogDensity
from bayesgen.posteriors import ParameterArrays, Point
from bayesgen.program import (
    ProgramDensity,
    Response,
    RowsTerm,
    StatisticsTerm,
)
from bayesgen.records import record
from bayesgen.runtime import placed
from bayesgen.solvers import (
    MOST_DECOMPOSED,
    AffineMap,
    Optimum,
    Status,
    Whitened,
    curvature_at,
    evaluator_of,
    find_supremum,
)
from bayesgen.statistics import SufficientStatistics, merged, padded_rows
from bayesgen.typing import Array, Float

from .fit import Fit
from .identification import CERTAIN, LogOddsSlopes
from .joint import JointMethod
from .log_linear import log_linear_maximum
from .problem import ProgramProblem
from .starts import free_parameters, made_finite, rows_of_classes

Searched = TypeVar("Searched", Whitened, "CoupledDensity")  # an objective in the coordinates of its search


def initial_vector(problem: ProgramProblem, joint: Fit) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of the joint fit; coordinates of probabilities of zero are made finite."""
    program, conjugate = problem.program, problem.conjugate
    vector = free_parameters(program, joint.posterior.parameters)
    if not np.isfinite(vector).all() and conjugate is not None and conjugate.is_closed:
        statistics = dataclasses.replace(problem.data.statistics, unlabelled=None)
        center = conjugate.update(conjugate.initial_statistics(statistics)).center()
        vector = np.where(np.isfinite(vector), vector, free_parameters(program, center))
    return made_finite(vector)


@dataclasses.dataclass(frozen=True)
class Refinement:
    """A search from a joint fit, in coordinates in which the joint density of complete data has curvature one there.

    Attributes:
        method: the training method.
        problem: of the rows that the joint fit was trained on.
        joint: the joint fit.
        statistics: of the complete data.
    """

    method: JointMethod
    problem: ProgramProblem
    joint: Fit
    statistics: SufficientStatistics

    def whitening(self) -> AffineMap:
        """Coordinates about the joint fit in which the joint density of complete data has curvature one. In float64."""
        start = initial_vector(self.problem, self.joint)
        density = self.method.joint_density(self.problem, self.statistics)
        return AffineMap.at_point(start, curvature_at(evaluator_of(density), start))

    def maximum(self, objective: Searched) -> Optimum:
        """The maximum of an objective in these coordinates. Inside float64.

        Raises:
            FitError: an objective without an upper bound; names the site along which it rises.
        """
        optimum = find_supremum(objective, np.zeros(objective.dimension))
        check_bounded(objective, optimum, self.method)
        return optimum

    def parameters_at(self, density: LogDensity, vector: Float[np.ndarray, " D"]) -> ParameterArrays:
        """The parameters of an unconstrained vector; those that are no latents are as in the joint fit."""
        values = {name: np.asarray(value) for name, value in density.constrain(vector).items()}
        parameters = self.problem.program.parameters_of(values)
        return {name: parameters.get(name, value) for name, value in self.joint.posterior.parameters.items()}

    def result(self, values: ParameterArrays, attributes: dict[str, Any]) -> Fit:
        """The fit at a point, with a posterior of the same kind as that of the joint fit."""
        assert isinstance(self.joint.posterior, Point)
        posterior = dataclasses.replace(self.joint.posterior, values=values)
        return self.problem.result(self.method, posterior, attributes)

    def objective_of_joint_fit(self, objective: Whitened) -> dict[str, float]:
        """The objective at the joint fit itself, which may have probabilities of zero."""
        vector = free_parameters(self.problem.program, self.joint.posterior.parameters)
        largest = 700.0  # in place of infinity: a probability of 1e-304
        center = np.nan_to_num(vector, nan=0.0, posinf=largest, neginf=-largest)
        centered = Whitened(objective.density, dataclasses.replace(objective.whitening, center=center))
        return {"objective_of_joint_fit": evaluator_of(centered).at(np.zeros(len(center)))[0]}


def check_bounded(objective: Searched, optimum: Optimum, method: JointMethod) -> None:
    """Refuse an objective without an upper bound; a `FitError` names the site along which it rises."""
    if optimum.status is Status.UNBOUNDED:
        assert optimum.direction is not None
        direction = np.asarray(objective.point(optimum.direction)) - objective.whitening.center
        raise unbounded_objective(direction, objective.whitening, objective, method)
    optimum.check(objective, f"conditional {method.what}")


def unbounded_objective(
    direction: Float[np.ndarray, " D"], whitening: AffineMap, density: LogDensity, method: JointMethod
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


# Training for p(y | x) where the label y is continuous.
#
# log p(y | x, Q) = log p(x, y | Q) - log p(x | Q), and both are densities of sufficient statistics: of the rows, and of
# the same rows without y. So only sites without a likelihood are evaluated row by row.


def response_fit(method: JointMethod, problem: ProgramProblem, response: Response) -> Fit:
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
    labelled = dataclasses.replace(data, schema=data.scaled_schema, statistics=statistics)
    joint = method.joint_fit(dataclasses.replace(problem, data=labelled))
    search = Refinement(method, problem, joint, statistics)
    if response.is_only_attribute(rows):  # then x is given, and the joint density is that of y given x
        return search.result(joint.posterior.parameters, {})
    without = data.model.summarize(data.schema, response.without(rows))
    terms = StatisticsTerm(statistics.padded()), StatisticsTerm(without.padded(), sign=-1)
    density = ProgramDensity(problem.program, terms, method.prior)
    return _conditional_fit(search, density, None)


def _conditional_fit(search: Refinement, density: ProgramDensity, rows: Rows | None) -> Fit:
    """The fit at the maximum of log p(y | x), and the log prior where it counts.

    Args:
        search: from the joint fit.
        density: the objective.
        rows: the rows, where labels are classes, which may be separable; else None.

    Raises:
        FitError: an objective without a maximum.
    """
    with jax.enable_x64(True), placed(density.cost):
        objective = Whitened(density, search.whitening())
        optimum = search.maximum(objective)
        attributes: dict[str, Any] = {"objective": optimum.value, **search.objective_of_joint_fit(objective)}
        if rows is not None:
            vector = np.asarray(objective.point(optimum.vector))
            num_unidentified = _checked(density, rows, vector, optimum.value, objective.whitening, search.method)
            attributes["unidentified_directions"] = num_unidentified
        values = search.parameters_at(objective, optimum.vector)
    return search.result(values, attributes)


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
        first, second = self.pair(vector)
        apart = jnp.split(jnp.asarray(vector), 2)[1]
        return self.first(first) + self.second(second) - 2 * (apart**2).sum() / (self.variance + 4)

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


def conditional_fit(method: JointMethod, problem: ProgramProblem) -> Fit:
    """The fit that maximises log p(y | X, Q), and the log prior where the method has one.

    Raises:
        FitError: no row with a label; summaries in place of rows; an objective without a maximum.
    """
    if problem.data.model.response is not None:
        return response_fit(method, problem, problem.data.model.response)
    rows = class_labelled_rows(problem)
    labelled = _without_unlabelled(problem)
    joint = method.joint_fit(labelled)
    density = ProgramDensity(problem.program, (), method.prior)
    search = Refinement(method, problem, joint, labelled.data.statistics)
    assert isinstance(joint.posterior, Point)
    maximum = None if method.has_prior else log_linear_maximum(joint.posterior, rows)
    if maximum is None:
        return _conditional_fit(search, density.with_terms(RowsTerm(padded_rows(rows), given_attributes=True)), rows)
    values, attributes, num_coefficients = maximum
    return search.result(values, {**attributes, "unidentified_directions": density.dimension - num_coefficients})


def hybrid_fit(method: JointMethod, problem: ProgramProblem, coupling: float) -> Fit:
    """The fit that maximises the objective of `Hybrid`.

    Raises:
        FitError: as `conditional_fit` does.
    """
    rows = class_labelled_rows(problem)
    joint = method.joint_fit(problem)
    program, statistics = problem.program, method.counted(problem.data.statistics)
    everything = [dataclasses.replace(rows, labels=None)]
    if statistics.unlabelled is not None:
        everything.append(statistics.unlabelled)
    labels = ProgramDensity(program, (RowsTerm(padded_rows(rows), given_attributes=True),), method.prior)
    attributes = ProgramDensity(program, (RowsTerm(padded_rows(joined_rows(everything))),))
    search = Refinement(method, problem, joint, _complete(problem, statistics, joint))
    variance = np.asarray(coupling**2 * search.statistics.total_weight)
    with jax.enable_x64(True), placed(labels.cost + attributes.cost):
        objective = CoupledDensity(labels, attributes, search.whitening(), variance)
        optimum = search.maximum(objective)
        values, other_values = (search.parameters_at(labels, np.asarray(v)) for v in objective.pair(optimum.vector))
    return search.result(values, {"objective": optimum.value, "other_parameters": other_values})


def class_labelled_rows(problem: ProgramProblem) -> Rows:
    """The rows with labels.

    Raises:
        FitError: where there are none, or they were not kept.
    """
    response = problem.data.model.response
    if response is not None:
        remedy = "objective='joint'" if response.is_parent else "objective='joint' or 'conditional'"
        raise FitError(f"The label is continuous, and Hybrid() is of classes. Use {remedy}.")
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
    labelled = dataclasses.replace(data, schema=data.scaled_schema, statistics=statistics, unlabelled_places=None)
    return dataclasses.replace(problem, data=labelled)


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
    density: ProgramDensity,
    rows: Rows,
    vector: Float[np.ndarray, " D"],
    value: float,
    whitening: AffineMap,
    method: JointMethod,
) -> int | None:
    """The number of directions in which p(y | x) does not change at a point; None in too many dimensions.

    Raises:
        FitError: where classes are separable.
    """
    if len(vector) > MOST_DECOMPOSED:
        if not method.has_prior and value >= -CERTAIN * float(np.sum(rows.frequencies)):
            raise unbounded_objective(vector - whitening.center, whitening, density, method)
        return None
    slopes = LogOddsSlopes.at(density, rows, vector, whitening.widths)
    direction = slopes.separation()
    if direction is not None:
        raise unbounded_objective(direction, whitening, density, method)
    return slopes.num_unidentified
