"""`PointMethod`: methods that look for one process, in closed form, by EM or by search."""

import abc
import dataclasses
import itertools
import numbers
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import DataError, ModelError
from bayesgen.models import Conjugate
from bayesgen.posteriors import Point
from bayesgen.program import ProgramDensity
from bayesgen.records import fill
from bayesgen.runtime import as_key, generator
from bayesgen.statistics import Classes, SufficientStatistics, merged

from .clustering import groupings
from .em import Options, search_by_em
from .expectation import Target
from .fit import Fit
from .maximum import point_at_maximum
from .problem import Method, ProgramProblem
from .starts import Starts

ASSIGNMENTS = ("soft", "hard")
GROUPINGS = 2  # among the starts of a search where no row has its label: by k-means++, and about random rows
LABELLED_STARTS, UNLABELLED_STARTS = 4, 8  # where every row has its label, likelihoods seldom have several maxima


@dataclasses.dataclass(frozen=True)
class PointMethod(Method):
    """A method whose fit is a point. See `MLE` and `MAP` for its arguments."""

    num_starts: int | None = None
    starts: Any = None
    assignment: str = "soft"
    unlabelled_weight: float = 1.0
    what: ClassVar[str]
    """What is maximised, for messages."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.num_starts is not None:
            self.check_counts(num_starts=self.num_starts)
        if self.assignment not in ASSIGNMENTS:
            raise ModelError(f"{name}: assignment must be one of {list(ASSIGNMENTS)}, got {self.assignment!r}.")
        weight = self.unlabelled_weight
        if not isinstance(weight, numbers.Real) or isinstance(weight, bool) or not 0 <= weight < np.inf:
            raise ModelError(f"{name}: unlabelled_weight must be a finite number and at least 0, got {weight!r}.")
        if self.starts is not None and not isinstance(self.starts, Starts):
            fill(self, starts=Starts(self.starts))

    def solve(self, problem: ProgramProblem) -> Fit:
        """Maximise."""
        problem.warn_of_unnamed_classes()
        conjugate, statistics = problem.conjugate, self._counted(problem.data.statistics)
        if conjugate is None or not self._has_closed_form(conjugate):
            return problem.result(self, self._by_search(problem, statistics), problem.about_labels)
        target = self._target(conjugate)
        if statistics.is_complete:
            return problem.result(self, Point(None, target.maximum(statistics), conjugate), problem.about_labels)
        options = Options(self.climbs(is_labelled=False), self.starts, self.assignment == "hard")
        search = search_by_em(problem, conjugate, target, statistics, options)
        point = Point(None, search.best.point, conjugate)
        return problem.result(self, point, search.attributes | problem.about_labels)

    def _counted(self, statistics: SufficientStatistics) -> SufficientStatistics:
        """The statistics with the weight that rows without labels have here."""
        rows = statistics.unlabelled
        if rows is None and self.starts is not None:
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
    def _density(self, problem: ProgramProblem, statistics: SufficientStatistics) -> ProgramDensity:
        """What is maximised, for a program."""

    def _by_search(self, problem: ProgramProblem, statistics: SufficientStatistics) -> Point:
        density = self._density(problem, statistics.padded())
        starts = _complete_data(problem, statistics, self.starts)
        num_climbs = len(starts) if self.starts else self.climbs(statistics.unlabelled is None)
        return point_at_maximum(problem, density, num_climbs, self.what, starts)

    def climbs(self, is_labelled: bool = True) -> int:
        """From how many points a search climbs, where every row has its label and where some have none."""
        return self.num_starts or (LABELLED_STARTS if is_labelled else UNLABELLED_STARTS)


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
    return [merged([labelled, data.model.summarize(data.schema, _with_classes(rows, classes))]) for classes in given]


def _with_classes(rows: Rows, classes: Classes) -> Rows:
    """Rows with these classes; where responsibilities are given, each row once in every class, with its share."""
    if classes.ndim == 1:
        return dataclasses.replace(rows, labels=classes)
    num_rows, num_classes = classes.shape
    copies = rows.take(np.tile(np.arange(num_rows), num_classes))
    assert rows.weights is not None
    weights = (classes * np.asarray(rows.weights)[:, None]).T.ravel()
    return dataclasses.replace(copies, labels=np.repeat(np.arange(num_classes), num_rows), weights=weights)
