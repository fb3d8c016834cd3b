"""EM for models with conjugate blocks, some of whose labels or cells are missing, from several starts.

The E-step finds the expected sufficient statistics of incomplete rows; the M-step is the closed form for complete rows.
Both are done in one pass over the rows without labels, chunk by chunk in threads.

Source: Dempster, Laird and Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import ConvergenceWarning, FitError, warn
from bayesgen.posteriors import ParameterArrays, chunk_table, numbers_per_row
from bayesgen.program import Conjugate, Densities
from bayesgen.runtime import SINGLE_THREADED_BLAS, THREAD_CELLS, as_key, bar, even_chunks, generator, in_threads
from bayesgen.solvers import Ascent, ascend
from bayesgen.statistics import Classes, Likelihood, SufficientStatistics, Sums, class_counts, merged, summaries_of
from bayesgen.typing import Float, Int

from .problem import ProgramProblem
from .starts import GivenClasses, GivenParameters, groupings


@dataclasses.dataclass(frozen=True)
class CompleteDataObjective:
    """The objective that the M-step maximises: the complete-data log-likelihood, and perhaps a log prior.

    Attributes:
        log_prior: parameters -> the log prior density, or 0.
        maximum: statistics of complete rows -> the parameters at the maximum; a `FitError` where there is none.
        remedy: what to do where no start leads to a maximum, for messages.
    """

    log_prior: Callable[[ParameterArrays], float]
    maximum: Callable[[SufficientStatistics], ParameterArrays]
    remedy: str = ""

    @classmethod
    def of(cls, conjugate: Conjugate, has_prior: bool) -> "CompleteDataObjective":
        """The posterior density, or the likelihood alone."""
        if has_prior:
            return cls(conjugate.log_prior, conjugate.maximum_posterior)
        remedy = "MAP() keeps the rows and the spread of classes by its prior."
        return cls(lambda parameters: 0.0, conjugate.maximum_likelihood, conjugate.without_maximum or remedy)


@dataclasses.dataclass(frozen=True)
class ExpectationMaximization:
    """The steps of EM for a model and its data.

    Attributes:
        conjugate: the class prior and the blocks.
        objective: of the M-step.
        labelled: the statistics of the rows with labels.
        unlabelled: the other rows, if there are any, with their weights in the objective.
        hard: whether a row without label counts in its most probable class alone (Celeux and Govaert 1992, A
            classification EM algorithm).
    """

    conjugate: Conjugate
    objective: CompleteDataObjective
    labelled: SufficientStatistics
    unlabelled: Rows | None
    hard: bool = False

    @property
    def coordinates(self) -> Conjugate | None:
        """What has the coordinates for acceleration, where only cells are missing.

        EM iterates over free parameters there: all others have their values after one step.
        """
        only_cells_missing = self.unlabelled is None and not self.conjugate.has_several_maxima
        return self.conjugate if only_cells_missing else None

    def step(self, parameters: ParameterArrays) -> tuple[float, ParameterArrays]:
        """The objective at a point, and the next point, at which it is not lower.

        The objective is the log-likelihood of the observed cells and labels (and the log prior): for a row without
        label log sum_k p(x, k), or log max_k p(x, k) if assignments are hard, times its weight.
        """
        log_likelihood, expected = self.e_step(parameters)
        return log_likelihood + self.objective.log_prior(parameters), self.objective.maximum(expected)

    def e_step(self, parameters: ParameterArrays) -> tuple[float, SufficientStatistics]:
        """The log-likelihood at a point, and the expected statistics of all rows."""
        log_likelihood, parts = self._log_base, []
        if self.unlabelled is None or self.labelled.class_weights.any():
            labelled_log_likelihood, completed = self.conjugate.e_step_with_log_likelihood(self.labelled, parameters)
            if np.isneginf(labelled_log_likelihood):
                raise FitError(
                    "Rows with labels have probability zero: a class that they are of is given the probability zero. "
                    "Give it a positive one, class_prior=[...], or leave its rows out."
                )
            log_likelihood, parts = log_likelihood + labelled_log_likelihood, [completed]
        if self.unlabelled is None:
            return log_likelihood, merged(parts)
        rows, densities = self.unlabelled, self._densities(parameters)

        def chunk_e_step(part: slice) -> tuple[float, SufficientStatistics]:
            chunk = rows.take(part)
            table = np.asarray(chunk_table(densities, chunk))
            log_probs, classes = _most_probable(table) if self.hard else _responsibilities(table)
            if not np.isfinite(log_probs).all():
                raise FitError(
                    "Rows without labels have probability zero under every class, so no class is expected of them."
                )
            return float(log_probs @ chunk.weights), self._expected(chunk, classes, parameters)

        for chunk_log_likelihood, expected in in_threads(chunk_e_step, self._chunks(rows)):
            log_likelihood += chunk_log_likelihood
            parts.append(expected)
        return log_likelihood, merged(parts)

    def given_classes(
        self, rows: Rows, classes: Classes, rng: np.random.Generator | None = None
    ) -> SufficientStatistics:
        """The statistics of the labelled rows and of these, whose classes are given.

        Missing cells have their expectations at the centre of the prior. For other latent variables and for random
        numbers see `IncompleteFamily.initial_summary`.
        """
        prior = self.conjugate.center()

        def expected(part: slice) -> SufficientStatistics:
            return self._expected(rows.take(part), classes[part], prior, cells_alone=True)

        parts = in_threads(expected, self._chunks(rows))
        statistics = merged([self.conjugate.e_step(self.labelled, prior, cells_alone=True), *parts])
        return self.conjugate.initial_statistics(statistics, rng) if self.conjugate.has_several_maxima else statistics

    def _expected(
        self, rows: Rows, classes: Classes, parameters: ParameterArrays, *, cells_alone: bool = False
    ) -> SufficientStatistics:
        """The expected statistics of rows given their classes, in one pass, in this thread."""
        num_classes = len(self.conjugate.classes)
        summaries = summaries_of(rows, self._likelihoods, classes, num_classes)
        statistics = SufficientStatistics(class_counts(classes, num_classes, rows.weights), summaries)
        return self.conjugate.e_step(statistics, parameters, cells_alone=cells_alone)

    def _densities(self, parameters: ParameterArrays) -> Densities:
        """Those of the blocks, without the base measure, which does not depend on parameters."""
        blocks = []
        for block in self.conjugate.blocks:
            family, values = self.conjugate.table(block), self.conjugate.block_parameters(block, parameters)
            blocks.append((block.name, self._likelihoods[block.name].density(family.likelihood_parameters(values))))
        with np.errstate(divide="ignore"):
            return np.log(parameters["class_probs"]), blocks

    @functools.cached_property
    def _likelihoods(self) -> dict[str, Likelihood]:
        return {block.name: block.family.likelihood.without_base() for block in self.conjugate.blocks}

    @functools.cached_property
    def _log_base(self) -> float:
        """The log base measure of the rows without labels, which is the same in each step."""
        likelihoods = {block.name: block.family.likelihood for block in self.conjugate.blocks}
        with_base = {name: base for name, base in likelihoods.items() if base is not self._likelihoods[name]}
        rows = self.unlabelled
        if rows is None or not with_base:
            return 0.0

        def chunk_log_base(part: slice) -> float:
            chunk = rows.take(part)
            summaries = summaries_of(chunk, with_base, chunk.codes, 1)
            return float(sum(np.sum(summary.log_base) for summary in summaries.values() if isinstance(summary, Sums)))

        return sum(in_threads(chunk_log_base, self._chunks(rows)), start=0.0)

    def _chunks(self, rows: Rows) -> list[slice]:
        return even_chunks(rows.num_rows, THREAD_CELLS / 2 / numbers_per_row(rows, len(self.conjugate.classes)))


def _responsibilities(table: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n K"]]:
    """log p(row), the class marginalised, and p(class | row)."""
    by_class = np.ascontiguousarray(table.T)  # NumPy is slow with short rows
    peaks = by_class.max(0)
    with np.errstate(invalid="ignore"):  # of rows that are impossible in every class, which are refused
        by_class -= peaks
    totals = np.exp(by_class, out=by_class).sum(0)
    by_class /= totals
    return peaks + np.log(totals), by_class.T


def _most_probable(table: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Log joint densities of rows and their most probable classes, and these classes."""
    codes = table.argmax(1)
    return np.take_along_axis(table, codes[:, None], 1)[:, 0], codes


LEAST_GAIN = 5e-8  # of the objective, where EM ends: less than a thousandth of a standard error of each parameter


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Options of a search by EM.

    Attributes:
        num_starts: how many starts are tried, where none are given.
        starts: where to start: at classes of the rows without labels, or at parameters.
        hard: whether rows without labels count in their most probable class alone.
        least_gain: of the objective, where EM ends.
    """

    num_starts: int
    starts: GivenClasses | GivenParameters | None = None
    hard: bool = False
    least_gain: float = LEAST_GAIN


@dataclasses.dataclass(frozen=True)
class Search:
    """Result of EM from several starts.

    Attributes:
        steps: the steps of EM that were taken.
        best: the ascent to the highest objective.
        num_starts: how many starts were tried.
        num_dropped: how many of them led to a class without rows or without variance, where there is no estimate.
    """

    steps: ExpectationMaximization
    best: Ascent[ParameterArrays]
    num_starts: int
    num_dropped: int

    @property
    def attributes(self) -> dict[str, object]:
        """For the attributes of a fit."""
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
    objective: CompleteDataObjective,
    statistics: SufficientStatistics,
    options: SearchOptions,
) -> Search:
    """Run EM from every start, and keep the best result.

    Args:
        problem: training problem, some of whose labels or cells are missing.
        conjugate: its blocks, whose hyperparameters are numbers.
        objective: of the M-step.
        statistics: those of the problem, rows without labels with their weights in the objective.
        options: of the search.

    Raises:
        FitError: where no start leads to an estimate.
        DataError: starts that do not fit the data.
    """
    rows, data = statistics.unlabelled, problem.data
    if rows is not None and not options.hard:  # else they count in their most probable class
        informative = np.flatnonzero(~conjugate.are_empty(rows))  # rows without label or cell carry no information
        positions = None if data.unlabelled_places is None else data.unlabelled_places[informative]
        data = dataclasses.replace(data, schema=data.scaled_schema, unlabelled_places=positions)
        problem, rows = dataclasses.replace(problem, data=data), rows.take(informative) if len(informative) else None
    # of copies, because summaries cache what the steps share, and this memory ends with the search
    labelled = jax.tree.map(lambda leaf: leaf, dataclasses.replace(statistics, unlabelled=None))
    steps = ExpectationMaximization(conjugate, objective, labelled, rows, options.hard)
    return _best_of(steps, _starts(problem, steps, options), options.least_gain, problem.progress)


def interior_point(problem: ProgramProblem, conjugate: Conjugate) -> ParameterArrays:
    """An interior point near the mode, where samplers start if labels or cells are missing."""
    # posterior centres are interior points, where modes may lie on the boundary
    objective = CompleteDataObjective(lambda parameters: 0.0, conjugate.posterior_center)
    options = SearchOptions(4, least_gain=1e-3)
    quietly = dataclasses.replace(problem, progress=False)
    return search_by_em(quietly, conjugate, objective, problem.data.statistics, options).best.point


def _best_of(steps: ExpectationMaximization, starts: list["Start"], least_gain: float, progress: bool | None) -> Search:
    best: Ascent[ParameterArrays] | None = None
    refusals: list[FitError] = []
    # of maxima that differ by the order of hidden states, the one that is reached first is kept
    margin = 1e-4 if steps.conjugate.has_several_maxima else 0.0
    # matrices of the M-step are small; rows go in chunks, which have threads
    with SINGLE_THREADED_BLAS, bar("EM, by starts", len(starts), progress) as advanced:
        for start in starts:
            try:
                ascent = ascend(steps.step, start(), least_gain, coordinates=steps.coordinates)
            except FitError as refusal:
                refusals.append(refusal)
            else:
                best = ascent if best is None or ascent.objective > best.objective + margin else best
            advanced(1)
    if best is None:
        message = f"EM reaches no estimate from any of {len(starts)} starts. The first: {refusals[0]}"
        raise FitError(f"{message} {steps.objective.remedy}".rstrip()) from refusals[0]
    if not best.converged:
        if steps.unlabelled is not None:
            hardly = "The classes hardly differ in these columns; use fewer of them, or more labels."
        elif steps.conjugate.has_several_maxima:
            hardly = "Rows hardly determine hidden states; use fewer of them, or MAP() and its prior."
        else:
            hardly = "The observed cells hardly determine covariances; use MAP() or covariance='diag'."
        warn(f"EM has not converged in {best.num_steps} steps: the objective still rises. {hardly}", ConvergenceWarning)
    return Search(steps, best, len(starts), len(refusals))


Start: TypeAlias = Callable[[], ParameterArrays]


def _starts(problem: ProgramProblem, steps: ExpectationMaximization, options: SearchOptions) -> list[Start]:
    """Starts as given by the user; else the posterior centre of the labelled rows, and points around it.

    Without any label: the posterior centres of groups of rows, by k-means++ and at random in turn.
    """
    data, rows, conjugate, num_starts = problem.data, steps.unlabelled, steps.conjugate, options.num_starts
    rng, num_classes = generator(as_key(problem.seed)), len(conjugate.classes)

    def start(
        estimate: Callable[[SufficientStatistics], ParameterArrays],
        draws: np.random.Generator | None,
        rows: Rows | None = None,
        classes: Any = None,
    ) -> ParameterArrays:
        """The estimate from the labelled rows, and from further rows in these classes."""
        if rows is None:
            return estimate(conjugate.initial_statistics(steps.labelled, draws))
        return estimate(steps.given_classes(rows, classes, draws))

    center = functools.partial(start, conjugate.posterior_center)
    if isinstance(options.starts, GivenParameters):
        default = _starts(problem, steps, SearchOptions(1))[0]()
        return [functools.partial(dict, process) for process in options.starts.processes(problem.program, default)]
    if rows is None:
        draws = [rng] * (num_starts - 1 if conjugate.has_several_maxima else 0)
        return [functools.partial(center, start_draws) for start_draws in (None, *draws)]
    if options.starts is not None:
        assert data.unlabelled_places is not None
        labellings = options.starts.classes(data.scaled_schema, data.num_rows, data.unlabelled_places)
        return [functools.partial(start, steps.objective.maximum, None, rows, classes) for classes in labellings]
    without_rows = int((steps.labelled.class_weights == 0).sum())
    if without_rows == num_classes:
        groups = itertools.islice(groupings(rows, conjugate, num_classes, rng), num_starts)
        pairs = zip([None, *[rng] * (num_starts - 1)], groups, strict=True)
        return [functools.partial(center, draws, rows, classes) for draws, classes in pairs]
    # classes without rows have the same prior, at whose centre they would be equal
    first: list[Start] = [functools.partial(center, None)] if without_rows < 2 else []
    few = rows.num_rows < num_classes
    chosen = [rng.choice(rows.num_rows, num_classes, replace=few) for _ in range(num_starts - len(first))]
    one_each = [dataclasses.replace(rows.take(positions), weights=np.ones(num_classes)) for positions in chosen]
    return [*first, *(functools.partial(center, rng, rows, np.arange(num_classes)) for rows in one_each)]
