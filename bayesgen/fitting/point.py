"""`PointMethod`: methods that look for one process, in closed form, by EM or by search."""

import abc
import dataclasses
import itertools
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from bayesgen.errors import DataError, ModelError
from bayesgen.families import Advice
from bayesgen.models import Conjugate
from bayesgen.posteriors import Point
from bayesgen.program import ProgramDensity
from bayesgen.records import copied, fill
from bayesgen.runtime import as_key, generator
from bayesgen.statistics import Classes, SufficientStatistics, merged

from .clustering import groupings
from .em import Options, search_by_em
from .exact import Exact
from .expectation import Target
from .fit import Fit
from .given_parameters import GivenParameters, are_parameters
from .maximum import point_at_maximum
from .nuts import NUTS
from .objectives import Joint, as_objective
from .problem import Method, ProgramProblem
from .searching import Searching
from .starts import Starts, rows_of_classes

ASSIGNMENTS = ("soft", "hard")
AVERAGING: tuple[Method, ...] = (Exact(), NUTS())
GROUPINGS = 2  # among the starts of a search where no row has its label: by k-means++, and about random rows
LABELLED_STARTS, UNLABELLED_STARTS = 4, 8  # where every row has its label, likelihoods seldom have several maxima


@dataclasses.dataclass(frozen=True)
class PointMethod(Searching):
    """A method whose fit is a point. See `MLE` and `MAP` for its arguments."""

    num_starts: int | None = None
    starts: Any = None
    assignment: str = "soft"
    unlabelled_weight: float = 1.0
    objective: Any = "joint"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.num_starts is not None:
            self.check_counts(num_starts=self.num_starts)
        if self.assignment not in ASSIGNMENTS:
            raise ModelError(f"{name}: assignment must be one of {list(ASSIGNMENTS)}, got {self.assignment!r}.")
        weight = self.unlabelled_weight
        if not isinstance(weight, numbers.Real) or isinstance(weight, bool) or not 0 <= weight < np.inf:
            raise ModelError(f"{name}: unlabelled_weight must be a finite number and at least 0, got {weight!r}.")
        if self.starts is not None and not isinstance(self.starts, Starts | GivenParameters):
            fill(self, starts=(GivenParameters if are_parameters(self.starts) else Starts)(self.starts))
        fill(self, objective=as_objective(self.objective))
        if self.objective != Joint() and self.assignment == "hard":
            raise ModelError(
                f"{name}: assignment='hard' is for objective='joint' alone, which is what k-means maximises."
            )
        stated = {"starts": isinstance(self.starts, Starts), "unlabelled_weight": weight != 1}
        idle = [argument for argument, is_stated in stated.items() if is_stated]
        if idle and not self.objective.looks_at_unlabelled:
            raise ModelError(
                f"{name}: {' and '.join(idle)} {'is' if len(idle) == 1 else 'are'} for rows without labels, which have "
                f"no part in objective={self.objective!r}. Leave {'it' if len(idle) == 1 else 'them'} out, or use "
                "objective='joint' or Hybrid(coupling)."
            )

    def __repr__(self) -> str:
        fields = [field.name for field in dataclasses.fields(self) if field.name != "objective" or self.needs_rows]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"

    @property
    def needs_rows(self) -> bool:
        """As the objective does."""
        return self.objective.needs_rows

    def solve(self, problem: ProgramProblem) -> Fit:
        """Maximise the objective.

        Raises:
            ModelError: a weight of rows without class, where the label is continuous.
        """
        if problem.data.model.response is not None and self.unlabelled_weight != 1:
            raise ModelError(
                f"{type(self).__name__}: unlabelled_weight={self.unlabelled_weight!r} is of rows without a class, and "
                "this model's label is continuous: y is a cell like others there. Leave it out, and give rows without "
                "y a weight of their own by sample_weight."
            )
        return self.objective.solved(self, problem)

    def joint_fit(self, problem: ProgramProblem) -> Fit:
        """Maximise the joint density of rows and labels."""
        problem.warn_of_unnamed_classes()
        conjugate, statistics = problem.conjugate, self.counted(problem.data.statistics)
        if conjugate is None or not self._has_closed_form(conjugate):
            return problem.result(self, self._by_search(problem, statistics), problem.about_labels)
        target = self._target(copied(conjugate, advice=_advice(problem, conjugate)))
        if statistics.is_complete and self.starts is not None:
            raise DataError(
                f"{type(self).__name__}: starts= says where EM starts, and of data of which nothing is missing or "
                "hidden the maximum has a closed form. Leave it out."
            )
        if statistics.is_complete:
            return problem.result(self, Point(None, target.maximum(statistics), conjugate), problem.about_labels)
        options = Options(self.climbs(is_labelled=False), self.starts, self.assignment == "hard")
        search = search_by_em(problem, conjugate, target, statistics, options)
        point = Point(None, search.best.point, conjugate)
        return problem.result(self, point, search.attributes | problem.about_labels)

    def counted(self, statistics: SufficientStatistics) -> SufficientStatistics:
        """The statistics with the weight that rows without labels have here."""
        rows = statistics.unlabelled
        if rows is None and isinstance(self.starts, Starts):
            raise DataError(
                f"{type(self).__name__}: starts= says where to start looking for the classes of rows without labels, "
                "and every row has its label. Leave it out."
            )
        if rows is None or self.unlabelled_weight == 1:
            return statistics
        assert rows.weights is not None
        weighted = dataclasses.replace(rows, weights=rows.weights * self.unlabelled_weight)
        return dataclasses.replace(statistics, unlabelled=weighted if self.unlabelled_weight else None)

    @abc.abstractmethod
    def _has_closed_form(self, conjugate: Conjugate) -> bool:
        """Whether the maximum of complete rows has a closed form."""

    @abc.abstractmethod
    def _target(self, conjugate: Conjugate) -> Target:
        """What is maximised, for blocks."""

    @abc.abstractmethod
    def joint_density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> ProgramDensity:
        """What a joint fit maximises, for a program."""

    def _by_search(self, problem: ProgramProblem, statistics: SufficientStatistics) -> Point:
        density = self.joint_density(problem, statistics.padded())
        if isinstance(self.starts, GivenParameters):
            return point_at_maximum(problem, density, len(self.starts.given), self.what, given=self.starts)
        starts = _complete_data(problem, statistics, self.starts)
        num_climbs = len(starts) if self.starts else self.climbs(statistics.unlabelled is None)
        return point_at_maximum(problem, density, num_climbs, self.what, starts)

    def climbs(self, is_labelled: bool = True) -> int:
        """From how many points a search climbs, where every row has its label and where some have none."""
        return self.num_starts or (LABELLED_STARTS if is_labelled else UNLABELLED_STARTS)


def _advice(problem: ProgramProblem, conjugate: Conjugate) -> Advice:
    """What to recommend for a problem: of the methods that average, the first that has an answer to it."""
    answering = [f"{type(method).__name__}()" for method in AVERAGING if method.refusal(problem) is None]
    if problem.has_labels:
        without_class = Advice.without_class
    else:
        without_class = "leave that column out" if conjugate.class_prior is None else "ask for fewer components"
    return Advice(answering[0] if answering else "MAP()", without_class)


def _complete_data(
    problem: ProgramProblem, statistics: SufficientStatistics, starts: Starts | None
) -> list[SufficientStatistics]:
    """Data without gaps whose maxima a search starts from: the labelled rows, or all rows with classes as given.

    Rows without labels stay beside them with weight 0, so that nothing else is compiled for these data.
    """
    data, rows = problem.data, statistics.unlabelled
    if rows is None:
        return []
    silent = dataclasses.replace(rows, weights=np.zeros(rows.num_rows))
    labelled = dataclasses.replace(statistics, unlabelled=silent)
    if starts is None and statistics.class_weights.any():
        return [labelled]
    if starts is None:
        rng = generator(as_key(problem.seed))
        given: Iterable[Classes] = itertools.islice(groupings(rows, None, problem.program.num_classes, rng), GROUPINGS)
    else:
        assert data.unlabelled_places is not None
        given = starts.classes(data.scaled_schema, data.num_rows, data.unlabelled_places)
    return [merged([labelled, data.model.summarize(data.schema, rows_of_classes(rows, classes))]) for classes in given]
