"""Expectation and maximisation for models with conjugate blocks, some of whose labels or cells are not known.

The E-step finds what rows that are not complete are expected to add to the sufficient statistics; the M-step is the
closed form for complete rows. Both are done in one pass over the rows without labels, chunk by chunk in threads.

Source: Dempster, Laird and Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import FitError
from bayesgen.models import Conjugate, Densities
from bayesgen.posteriors import Parameters, chunk_table, numbers_per_row
from bayesgen.runtime import even_chunks, in_threads
from bayesgen.solvers import Coordinates
from bayesgen.statistics import Classes, Statistic, SufficientStatistics, Sums, class_counts, merged, summaries_of
from bayesgen.typing import Float, Int

CHUNK_CELLS = 1 << 19  # of rows x classes x columns: what threads do not wait for each other with


@dataclasses.dataclass(frozen=True)
class Target:
    """What is maximised besides the likelihood, and how complete data are.

    Attributes:
        log_prior: parameters -> the log of what the likelihood is multiplied with.
        maximum: statistics of complete rows -> the parameters at the maximum; a `FitError` where there is none.
        remedy: what to do where there is none from any start, for messages.
    """

    log_prior: Callable[[Parameters], float]
    maximum: Callable[[SufficientStatistics], Parameters]
    remedy: str = ""

    @classmethod
    def likelihood(cls, conjugate: Conjugate) -> "Target":
        """The likelihood alone."""
        remedy = "MAP() keeps the rows and the spread of classes by its prior."
        return cls(lambda parameters: 0.0, conjugate.maximum_likelihood, conjugate.without_maximum or remedy)

    @classmethod
    def posterior(cls, conjugate: Conjugate) -> "Target":
        """The posterior density."""
        return cls(conjugate.log_prior, conjugate.maximum_posterior)

    @classmethod
    def inside(cls, conjugate: Conjugate) -> "Target":
        """The likelihood, by steps to the middles of posteriors: inside the space, where modes may lie at its edge."""
        return cls(lambda parameters: 0.0, conjugate.middle)


@dataclasses.dataclass(frozen=True)
class OpenCoordinates(Coordinates[Parameters]):
    """The parameters that missing cells leave to be looked for: all others are known after one step."""

    conjugate: Conjugate

    def vector_of(self, point: Parameters) -> Float[np.ndarray, " F"]:
        """Those of the blocks."""
        return self.conjugate.open_vector(point)

    def point_at(self, vector: Float[np.ndarray, " F"], near: Parameters) -> Parameters | None:
        """These, and all others of another point."""
        return self.conjugate.at_open_vector(vector, near)


@dataclasses.dataclass(frozen=True)
class ExpectationMaximization:
    """The steps of EM for a model and its data.

    Attributes:
        conjugate: the class prior and the blocks.
        target: what is maximised.
        labelled: the statistics of the rows with labels.
        unlabelled: the other rows, if there are any, with the weights that they have in the objective.
        hard: whether a row without label is taken for one of its most probable class alone (Celeux and Govaert 1992,
            A classification EM algorithm).
    """

    conjugate: Conjugate
    target: Target
    labelled: SufficientStatistics
    unlabelled: Rows | None
    hard: bool = False

    @property
    def coordinates(self) -> OpenCoordinates | None:
        """Those in which to leap, where it is cells alone that are missing."""
        of_cells_alone = self.unlabelled is None and not self.conjugate.has_several_maxima
        return OpenCoordinates(self.conjugate) if of_cells_alone else None

    def step(self, parameters: Parameters) -> tuple[float, Parameters]:
        """The objective at a point, and the next point, at which it is not lower.

        The objective is the log-likelihood of the cells and labels that are there (and the log prior): for a row
        without label log sum_k p(x, k), or log max_k p(x, k) if assignments are hard, times its weight.
        """
        log_likelihood, expected = self.expectation(parameters)
        return log_likelihood + self.target.log_prior(parameters), self.target.maximum(expected)

    def expectation(self, parameters: Parameters) -> tuple[float, SufficientStatistics]:
        """The log-likelihood at a point, and the expected statistics of all rows."""
        log_likelihood, parts = self._log_base, []
        if self._has_labelled:
            of_labelled, completed = self.conjugate.expectation(self.labelled, parameters)
            if np.isneginf(of_labelled):
                raise FitError(
                    "Rows with labels have probability zero: a class that they are of is given the probability zero. "
                    "Give it a positive one, class_prior=[...], or leave its rows out."
                )
            log_likelihood, parts = log_likelihood + of_labelled, [completed]
        if self.unlabelled is not None:
            densities = self._densities(parameters)
            of_chunk = functools.partial(self._expected_of_chunk, self.unlabelled, densities, parameters)
            for log_likelihood_of_chunk, expected in in_threads(of_chunk, self._chunks):
                log_likelihood += log_likelihood_of_chunk
                parts.append(expected)
        return log_likelihood, merged(parts)

    def given_classes(
        self, rows: Rows, classes: Classes, parameters: Parameters, rng: np.random.Generator | None = None
    ) -> SufficientStatistics:
        """The statistics of the labelled rows and of these, whose classes are given.

        Parameters fill missing cells. What else is hidden is begun with: see `Family.available` for random numbers.
        """

        def of_chunk(part: slice) -> SufficientStatistics:
            return self._statistics_of(rows.take(part), classes[part], parameters, cells_alone=True)

        parts = in_threads(of_chunk, self._chunks_of(rows))
        whole = merged([self.conjugate.completed(self.labelled, parameters, cells_alone=True), *parts])
        return self.conjugate.available(whole, rng) if self.conjugate.has_several_maxima else whole

    def _expected_of_chunk(
        self, rows: Rows, densities: Densities, parameters: Parameters, part: slice
    ) -> tuple[float, SufficientStatistics]:
        rows = rows.take(part)
        table = chunk_table(densities, rows, slice(0, rows.num_rows))
        of_rows, classes = (_most_probable if self.hard else _responsibilities)(table)
        if not np.isfinite(of_rows).all():
            raise FitError(
                "Rows without labels have probability zero under every class, so no class is expected of them."
            )
        return float(of_rows @ rows.weights), self._statistics_of(rows, classes, parameters)

    def _statistics_of(
        self, rows: Rows, classes: Classes, parameters: Parameters, *, cells_alone: bool = False
    ) -> SufficientStatistics:
        """The expected statistics of rows in one pass, in this thread."""
        num_classes = len(self.conjugate.classes)
        summaries = summaries_of(rows, self._statistics, classes, num_classes)
        statistics = SufficientStatistics(class_counts(classes, num_classes, rows.weights), summaries)
        return self.conjugate.completed(statistics, parameters, cells_alone=cells_alone)

    def _densities(self, parameters: Parameters) -> Densities:
        """Those of the blocks, without what does not depend on parameters."""
        with np.errstate(divide="ignore"):
            log_class_probs = np.log(parameters["class_probs"])
        of_blocks = ((block, self.conjugate.of_block(block, parameters)) for block in self.conjugate.blocks)
        return log_class_probs, [
            (
                block.name,
                self._statistics[block.name].density(self.conjugate.table(block).likelihood_parameters(of_block)),
            )
            for block, of_block in of_blocks
        ]

    @functools.cached_property
    def _has_labelled(self) -> bool:
        return self.unlabelled is None or bool(self.labelled.class_weights.any())

    @functools.cached_property
    def _statistics(self) -> dict[str, Statistic]:
        return {block.name: block.family.statistic.without_base() for block in self.conjugate.blocks}

    @functools.cached_property
    def _log_base(self) -> float:
        """What the likelihood of rows without labels has whatever the parameters: computed once, not in each step."""
        statistics = {block.name: block.family.statistic for block in self.conjugate.blocks}
        with_base = {name: each for name, each in statistics.items() if each is not self._statistics[name]}
        rows = self.unlabelled
        if rows is None or not with_base:
            return 0.0

        def of_chunk(part: slice) -> float:
            chunk = rows.take(part)
            summaries = summaries_of(chunk, with_base, chunk.codes, 1)
            return float(sum(np.sum(summary.log_base) for summary in summaries.values() if isinstance(summary, Sums)))

        return sum(in_threads(of_chunk, self._chunks), start=0.0)

    @functools.cached_property
    def _chunks(self) -> list[slice]:
        return [] if self.unlabelled is None else self._chunks_of(self.unlabelled)

    def _chunks_of(self, rows: Rows) -> list[slice]:
        return even_chunks(rows.num_rows, CHUNK_CELLS / numbers_per_row(rows, len(self.conjugate.classes)))


def _responsibilities(table: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n K"]]:
    """Log densities of rows, classes summed out, and p(class | row)."""
    by_class = np.ascontiguousarray(table.T)  # NumPy is slow with short rows
    peaks = by_class.max(0)
    with np.errstate(invalid="ignore"):  # of rows that no class can have, which are refused
        by_class -= peaks
    totals = np.exp(by_class, out=by_class).sum(0)
    by_class /= totals
    return peaks + np.log(totals), by_class.T


def _most_probable(table: Float[np.ndarray, "n K"]) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Log joint densities of rows and their most probable classes, and these classes."""
    codes = table.argmax(1)
    return np.take_along_axis(table, codes[:, None], 1)[:, 0], codes
