"""The fit at the maximum of the joint density of rows and labels, in closed form, by EM or by search."""

import abc
import dataclasses
import itertools
import numbers
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Schema
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, ModelError
from bayesgen.posteriors import Point
from bayesgen.program import (
    PRIOR_STARTS,
    ConcreteModel,
    Conjugate,
    LogPriorKind,
    ProgramDensity,
    StatisticsTerm,
    dispersed_starts,
)
from bayesgen.records import copied, fill
from bayesgen.runtime import as_key, generator, placed
from bayesgen.solvers import Optimum, climb, evaluator_of, maximize
from bayesgen.statistics import Classes, SufficientStatistics, merged
from bayesgen.typing import Float

from .em import CompleteDataObjective, SearchOptions, search_by_em
from .fit import Fit
from .identification import unless_separable
from .problem import Method, ProgramProblem, values_of
from .starts import GivenClasses, GivenParameters, are_parameters, groupings, rows_of_classes

ASSIGNMENTS = ("soft", "hard")


@dataclasses.dataclass(frozen=True)
class JointMethod(Method, abc.ABC):
    """A method with a fit at the maximum of the joint density, or that begins there. See `MLE` for the arguments."""

    gives_draws = False

    num_starts: int | None = None
    starts: Any = None
    assignment: str = "soft"
    unlabelled_weight: float = 1.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.num_starts is not None:
            self.check_counts(num_starts=self.num_starts)
        if not isinstance(self.assignment, str) or self.assignment not in ASSIGNMENTS:
            raise ModelError(f"{name}: assignment must be one of {list(ASSIGNMENTS)}, got {self.assignment!r}.")
        weight = self.unlabelled_weight
        if not isinstance(weight, numbers.Real) or isinstance(weight, bool) or not 0 <= weight < np.inf:
            raise ModelError(f"{name}: unlabelled_weight must be a finite number and at least 0, got {weight!r}.")
        if self.starts is not None and not isinstance(self.starts, GivenClasses | GivenParameters):
            fill(self, starts=(GivenParameters if are_parameters(self.starts) else GivenClasses)(self.starts))

    @property
    def what(self) -> str:
        """The name of the joint density in messages."""
        return "posterior density" if self.has_prior else "likelihood"

    @property
    def prior(self) -> LogPriorKind:
        """The log prior density that is added to log-likelihoods: in the coordinates that are reported, or none."""
        return LogPriorKind.PARAMETERS if self.has_prior else LogPriorKind.NONE

    def refusal(self, problem: ProgramProblem) -> str | None:
        """Continuous latents of each row: a maximum over them says nothing of the rest. Enumeration of p(y | x, Q)."""
        finite = () if problem.conjugate is not None else problem.program.structure.finite
        if finite and self.needs_rows:
            return (
                f"{self!r} does not enumerate discrete latents that all rows share, as {finite[0].name!r} is. Use "
                "objective='joint', or Exact()."
            )
        if not problem.samples_rows:
            return problem.nothing_to_learn
        named = quote_some([name for name, _ in problem.program.structure.continuous_local])
        return (
            f"{type(self).__name__}() does not integrate out the continuous latents of each row, {named}. Use NUTS(), "
            "which samples them with the rest."
        )

    def has_closed_form(self, conjugate: Conjugate) -> bool:
        return self.starts is None and conjugate.is_closed

    def closed_form(
        self, model: ConcreteModel, schema: Schema, prior: Conjugate, statistics: SufficientStatistics
    ) -> Point:
        return Point(None, CompleteDataObjective.of(prior, self.has_prior).maximum(statistics), prior)

    def joint_fit(self, problem: ProgramProblem) -> Fit:
        """The fit that maximises the joint density of rows and labels."""
        conjugate, statistics = problem.conjugate, self.counted(problem.data.statistics)
        if self.has_prior:
            problem.warn_of_constant_columns()
        elif conjugate is not None and statistics.unlabelled is None:
            conjugate.check_estimable(statistics)
        problem.warn_of_unnamed_classes()
        if conjugate is None or (self.has_prior and not conjugate.is_number):
            return problem.result(self, self._by_search(problem, statistics), problem.about_products)
        objective = CompleteDataObjective.of(_with_remedies(conjugate, problem), self.has_prior)
        if statistics.is_complete and self.starts is not None:
            raise DataError(
                f"{type(self).__name__}: starts= says where EM starts, and of data of which nothing is missing or "
                "hidden the maximum has a closed form. Leave it out."
            )
        if statistics.is_complete:
            return problem.result(self, Point(None, objective.maximum(statistics), conjugate))
        options = SearchOptions(self.climbs(is_labelled=False), self.starts, self.assignment == "hard")
        search = search_by_em(problem, conjugate, objective, statistics, options)
        point = Point(None, search.best.point, conjugate)
        return problem.result(self, point, search.attributes)

    def counted(self, statistics: SufficientStatistics) -> SufficientStatistics:
        """The statistics, rows without labels with their weights in the objective."""
        rows = statistics.unlabelled
        if rows is None and isinstance(self.starts, GivenClasses):
            raise DataError(
                f"{type(self).__name__}: starts= says where to start looking for the classes of rows without labels, "
                "and every row has its label. Leave it out."
            )
        if rows is None or self.unlabelled_weight == 1:
            return statistics
        assert rows.weights is not None
        weighted = dataclasses.replace(rows, weights=rows.weights * self.unlabelled_weight)
        return dataclasses.replace(statistics, unlabelled=weighted if self.unlabelled_weight else None)

    def joint_density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> ProgramDensity:
        """The density that a joint fit of a program maximises."""
        if statistics is problem.data.statistics and statistics.unlabelled is None:
            return ProgramDensity(problem.program, problem.log_likelihoods, self.prior)
        data = StatisticsTerm(statistics.padded(), hard=self.assignment == "hard")
        return ProgramDensity(problem.program, (data,), self.prior)

    def _by_search(self, problem: ProgramProblem, statistics: SufficientStatistics) -> Point:
        """The point at the maximum of the density of the problem's program.

        Raises:
            FitError: where the density is unbounded or its mode not unique; names the site.
        """
        program, conjugate = problem.program, problem.conjugate
        if conjugate is not None:  # loadings that are triangular in other axes have several maxima
            program = program.reparametrised(conjugate.moment_estimates(statistics))
        density = dataclasses.replace(self.joint_density(problem, statistics), program=program)
        with jax.enable_x64(True), placed(density.cost):
            if problem.is_enumerable:
                density, vector = copied(density, given=values_of(density).mode()), np.zeros(0)
            else:
                density, optimum = _best_value(density, *self._starts_of_search(problem, statistics, density))
                optimum = unless_separable(density, statistics.rows, optimum)
                optimum.check(density, self.what)
                vector = optimum.vector
            values = density.constrain(jnp.asarray(vector))
        parameters = program.parameters_of({name: np.asarray(value) for name, value in values.items()})
        return Point(problem.program, parameters)

    def _starts_of_search(
        self, problem: ProgramProblem, statistics: SufficientStatistics, density: ProgramDensity
    ) -> tuple[Float[np.ndarray, "starts D"], int]:
        """The starts of a search, and how many of them are searched from. Inside float64.

        Where labels are missing, and no parameters were given, searches start at the maxima for complete data, and at
        dispersed points where more are wanted.
        """
        if isinstance(self.starts, GivenParameters):
            program: Any = density.program
            first = {name: values[0] for name, values in program.structure.finite_values.items()}
            origin = first | density.constrain(jnp.zeros(density.dimension))
            defaults = program.parameters_of({name: origin[name] for name in program.latents})
            return self.starts.vectors(program, defaults), len(self.starts.parameters)
        complete = _complete_data(problem, statistics, self.starts)
        num_searches = len(complete) if self.starts else self.climbs(statistics.unlabelled is None)
        dispersed = dispersed_starts(density.program, problem.seed, max(PRIOR_STARTS, num_searches))
        if density.has_symmetries:  # at the origin all components are equal, and a search from there ends at a saddle
            dispersed = dispersed[1:]
        complete_densities = (density.with_terms(StatisticsTerm(data.padded())) for data in complete)
        # densities of complete data seldom have several maxima: two starts
        tops = [climb(evaluator_of(target), dispersed[:2])[0].vector[None] for target in complete_densities]
        starts = np.concatenate([*tops, dispersed])
        return starts[:num_searches] if len(tops) >= num_searches else starts, num_searches

    def climbs(self, is_labelled: bool = True) -> int:
        """The number of starts of a search, where every row has its label and where some have none."""
        return self.num_starts or (4 if is_labelled else 8)  # without labels, there may be several maxima


def _best_value(
    density: ProgramDensity, starts: Float[np.ndarray, "starts D"], num_searches: int
) -> tuple[ProgramDensity, Optimum]:
    """The density at the best value of its discrete latents, which may be none, and its maximum there."""
    joint_values = density.program.structure.finite_values
    by_value = [
        {name: values[j] for name, values in joint_values.items()} for j in range(density.program.structure.num_finite)
    ]
    targets = [copied(density, given=given) for given in by_value]
    possible = [target for target in targets if np.isfinite(evaluator_of(target).evaluate(starts)[0]).any()]
    optima = [(maximize(target, starts, num_searches), target) for target in possible or targets[:1]]
    optimum, best = max(optima, key=lambda pair: pair[0].value)
    return best, optimum


def _with_remedies(conjugate: Conjugate, problem: ProgramProblem) -> Conjugate:
    """The blocks with what messages recommend where there is no maximum."""
    is_closed = conjugate.is_closed and problem.data.statistics.is_complete
    without_class = "leave that column out" if conjugate.class_prior is None else "ask for fewer components"
    remedies = {} if problem.has_labels else {"without_class": without_class}
    return copied(conjugate, averaging="Exact()" if is_closed else "NUTS()", **remedies)


def _complete_data(
    problem: ProgramProblem, statistics: SufficientStatistics, starts: GivenClasses | None
) -> list[SufficientStatistics]:
    """Complete data at whose maxima a search starts: the labelled rows, or all rows with classes as given.

    Rows without labels are kept with weight 0, so that the compiled density is that of the incomplete data.
    """
    data, rows = problem.data, statistics.unlabelled
    if rows is None:
        return []
    silent = dataclasses.replace(rows, weights=np.zeros(rows.num_rows))
    labelled = dataclasses.replace(statistics, unlabelled=silent)
    if starts is None and statistics.class_weights.any():
        return [labelled]
    if not rows.values:
        raise DataError(
            "No row has a label, and the program models nothing else of a row, so there is nothing to learn from. Give "
            "labels."
        )
    if starts is None:
        rng = generator(as_key(problem.seed))
        # two groupings, by k-means++ and about random rows
        labellings: Iterable[Classes] = itertools.islice(groupings(rows, None, problem.program.num_classes, rng), 2)
    else:
        assert data.unlabelled_places is not None
        labellings = starts.classes(data.scaled_schema, data.num_rows, data.unlabelled_places)
    rows_by_start = (rows_of_classes(rows, classes) for classes in labellings)
    return [merged([labelled, data.model.summarize(data.schema, classed_rows)]) for classed_rows in rows_by_start]
