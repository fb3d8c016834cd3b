"""The best point that EM reaches from several starts, for models with conjugate blocks."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from bayesgen.errors import ConvergenceWarning, FitError, warn
from bayesgen.models import Conjugate
from bayesgen.posteriors import Parameters
from bayesgen.runtime import ONE_THREAD_A_PRODUCT, as_key, bar, generator
from bayesgen.solvers import Ascent, ascend
from bayesgen.statistics import Classes, SufficientStatistics
from bayesgen.typing import Int

from .clustering import Grouping, groupings
from .expectation import ExpectationMaximization, Target
from .given_parameters import GivenParameters
from .problem import ProgramProblem
from .starts import Starts

LEAST_GAIN = 5e-8  # of the objective, left where EM ends: less than a thousandth of a standard error of each parameter
SAME_MAXIMUM = 1e-4  # by which ends of climbs to one maximum may differ
STARTS_INSIDE, LEAST_GAIN_INSIDE = 4, 1e-3  # where samplers are to start, whose own search goes on from there


@dataclasses.dataclass(frozen=True)
class Options:
    """What EM is asked for.

    Attributes:
        num_starts: how many starts are tried, where none are given.
        starts: where to start: at classes of the rows without labels, or at parameters.
        hard: whether rows without labels are taken for one of their most probable class alone.
    """

    num_starts: int
    starts: Starts | GivenParameters | None = None
    hard: bool = False


@dataclasses.dataclass(frozen=True)
class Search:
    """What starts have led to.

    Attributes:
        steps: the steps of EM that were taken.
        best: the ascent to the highest objective.
        num_starts: how many starts were tried.
        num_dropped: how many of them led to a class without rows or without spread, where there is no estimate.
    """

    steps: ExpectationMaximization
    best: Ascent[Parameters]
    num_starts: int
    num_dropped: int

    @property
    def attributes(self) -> dict[str, object]:
        """What a fit tells of it."""
        return {
            "objective": self.best.objective,
            "num_iterations": self.best.num_steps,
            "converged": self.best.converged,
            "num_starts": self.num_starts,
            "num_starts_dropped": self.num_dropped,
        }


def search_by_em(
    problem: ProgramProblem,
    conjugate: Conjugate,
    target: Target,
    statistics: SufficientStatistics,
    options: Options,
) -> Search:
    """Climb from every start, and keep the best.

    Args:
        problem: training problem, some of whose labels or cells are missing.
        conjugate: its blocks, whose hyperparameters are numbers.
        target: what is maximised.
        statistics: those of the problem, its rows without labels with the weights that they have here.
        options: what is asked for.

    Raises:
        FitError: where no start leads to an estimate.
        DataError: starts that do not fit the data.
    """
    if not options.hard:  # else they count: as rows of the most probable class
        problem, statistics = _without_empty_rows(problem, conjugate, statistics)
    labelled = dataclasses.replace(statistics, unlabelled=None)
    steps = ExpectationMaximization(conjugate, target, labelled, statistics.unlabelled, options.hard)
    return _best_of(steps, _starts(problem, steps, options), problem.progress)


def inner_point(problem: ProgramProblem, conjugate: Conjugate) -> Parameters:
    """A point near the mode and inside the space, for samplers to start from, where labels or cells are missing."""
    problem, statistics = _without_empty_rows(problem, conjugate, problem.data.statistics)
    labelled = dataclasses.replace(statistics, unlabelled=None)
    steps = ExpectationMaximization(conjugate, Target.inside(conjugate), labelled, statistics.unlabelled)
    starts = _starts(problem, steps, Options(STARTS_INSIDE))
    with ONE_THREAD_A_PRODUCT:
        ascents = [ascend(steps.step, start(), LEAST_GAIN_INSIDE, coordinates=steps.coordinates) for start in starts]
    return max(ascents, key=lambda ascent: ascent.objective).point


def _without_empty_rows(
    problem: ProgramProblem, conjugate: Conjugate, statistics: SufficientStatistics
) -> tuple[ProgramProblem, SufficientStatistics]:
    """The same without the rows that have neither label nor cell: they say nothing, and each makes EM slower."""
    data, rows = problem.data, statistics.unlabelled
    if rows is None:
        return problem, statistics
    places = np.flatnonzero(~conjugate.are_empty(rows))
    if len(places) == rows.num_rows:
        return problem, statistics
    kept = None if data.unlabelled_places is None else data.unlabelled_places[places]
    others = dataclasses.replace(data, schema=data.scaled_schema, unlabelled_places=kept)
    unlabelled = rows.take(places) if len(places) else None
    return dataclasses.replace(problem, data=others), dataclasses.replace(statistics, unlabelled=unlabelled)


def _best_of(steps: ExpectationMaximization, starts: list["Start"], progress: bool | None) -> Search:
    best: Ascent[Parameters] | None = None
    refusals: list[FitError] = []
    # hidden states have the order of the first start that leads to a maximum, or to its mirror image
    margin = SAME_MAXIMUM if steps.conjugate.has_several_maxima else 0.0
    # matrices of the M-step are small; rows go in chunks, which have threads
    with ONE_THREAD_A_PRODUCT, bar("EM, by starts", len(starts), progress) as advanced:
        for start in starts:
            try:
                ascent = ascend(steps.step, start(), LEAST_GAIN, coordinates=steps.coordinates)
            except FitError as refusal:
                refusals.append(refusal)
            else:
                best = ascent if best is None or ascent.objective > best.objective + margin else best
            advanced(1)
    if best is None:
        message = f"EM reaches no estimate from any of {len(starts)} starts. The first: {refusals[0]}"
        raise FitError(f"{message} {steps.target.remedy}".rstrip()) from refusals[0]
    if not best.converged:
        if steps.unlabelled is not None:
            hardly = "The classes are hardly told apart by these columns; fewer of them, or more labels, would be."
        elif steps.conjugate.has_several_maxima:
            hardly = "Rows hardly tell what is hidden; fewer hidden states, or MAP() and its prior, ask for less."
        else:
            hardly = (
                "The cells that are there hardly tell how columns vary together; MAP() or covariance='diag' asks for "
                "less."
            )
        warn(f"EM has not converged in {best.num_steps} steps: the objective still rises. {hardly}", ConvergenceWarning)
    return Search(steps, best, len(starts), len(refusals))


Start: TypeAlias = Callable[[], Parameters]


def _starts(problem: ProgramProblem, steps: ExpectationMaximization, options: Options) -> list[Start]:
    """Where to start: as was asked for; else in the middle of the posterior of the labelled rows, and around it.

    Without any label: at rows grouped by k-means++ and at random in turn.
    """
    data, rows = problem.data, steps.unlabelled
    conjugate, prior = steps.conjugate, steps.conjugate.center()
    rng, num_classes = generator(as_key(problem.seed)), len(conjugate.classes)
    if isinstance(options.starts, GivenParameters):
        given = options.starts.processes(problem.program, _first(problem, steps))
        return [functools.partial(dict, parameters) for parameters in given]
    if rows is None:
        num_others = options.num_starts - 1 if conjugate.has_several_maxima else 0
        return [functools.partial(_middle, steps), *[functools.partial(_middle, steps, rng)] * num_others]
    if options.starts is not None:
        assert data.unlabelled_places is not None
        labellings = options.starts.classes(data.scaled_schema, data.num_rows, data.unlabelled_places)
        return [functools.partial(_maximum, steps, classes, prior) for classes in labellings]
    without_rows = int((steps.labelled.class_weights == 0).sum())
    if without_rows == num_classes:
        found = itertools.islice(groupings(rows, conjugate, num_classes, rng), options.num_starts)
        draws = [None, *[rng] * (options.num_starts - 1)]
        return [
            functools.partial(_among_groups, steps, prior, groups, draw)
            for groups, draw in zip(found, draws, strict=True)
        ]
    # classes without rows have one prior and cannot be told apart in the middle of it
    first = [functools.partial(_middle, steps)] if without_rows < 2 else []
    others = [
        functools.partial(_around_rows, steps, prior, _some_rows(rows.num_rows, num_classes, rng), rng)
        for _ in range(options.num_starts - len(first))
    ]
    return [*first, *others]


def _first(problem: ProgramProblem, steps: ExpectationMaximization) -> Parameters:
    """What is tried first where nothing else is said: what starts lack is taken from there."""
    return _starts(problem, steps, Options(1))[0]()


def _some_rows(num_rows: int, size: int, rng: np.random.Generator) -> Int[np.ndarray, " K"]:
    return rng.choice(num_rows, size, replace=num_rows < size)


def _middle(steps: ExpectationMaximization, rng: np.random.Generator | None = None) -> Parameters:
    """The middle of the posterior of the labelled rows, of which the cells that are there stand for all."""
    return steps.conjugate.middle(steps.conjugate.available(steps.labelled, rng))


def _around_rows(
    steps: ExpectationMaximization,
    prior: Parameters,
    places: Int[np.ndarray, " K"],
    rng: np.random.Generator,
) -> Parameters:
    """The middle of the posterior of the labelled rows and one more row in each class."""
    assert steps.unlabelled is not None
    rows = dataclasses.replace(steps.unlabelled.take(places), weights=np.ones(len(places)))
    return steps.conjugate.middle(steps.given_classes(rows, np.arange(len(places)), prior, rng))


def _among_groups(
    steps: ExpectationMaximization, prior: Parameters, groups: Grouping, rng: np.random.Generator | None = None
) -> Parameters:
    """The middle of the posterior if the groups were the classes: it exists where a group is empty or has one row."""
    assert steps.unlabelled is not None
    return steps.conjugate.middle(steps.given_classes(steps.unlabelled, groups, prior, rng))


def _maximum(steps: ExpectationMaximization, classes: Classes, prior: Parameters) -> Parameters:
    """The maximum if rows without labels had these classes."""
    assert steps.unlabelled is not None
    return steps.target.maximum(steps.given_classes(steps.unlabelled, classes, prior))
