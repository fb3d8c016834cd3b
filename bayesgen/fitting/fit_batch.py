"""`FitBatch`: the fits of many data sets by one model and method."""

import abc
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import jax
import numpy as np

from bayesgen.data import Rows, RowsLike, Schema, category_array
from bayesgen.describe import described
from bayesgen.errors import BayesgenError, FitError, PredictionError
from bayesgen.posteriors import At, ProcessPosterior
from bayesgen.program import Recipe
from bayesgen.records import by_content
from bayesgen.runtime import as_key, over_chunks
from bayesgen.saving import Savable
from bayesgen.statistics import with_failed_checks
from bayesgen.typing import Array, Bool, Float, Seed, Shaped

from .data_sets import DataSets, num_sets_at_once
from .export import about, axes, datatree, groups_of_draws
from .fit import Fit
from .problem import ClosedSolution, Method, ProgramProblem, is_sparse

if TYPE_CHECKING:
    from xarray import DataTree


@by_content
class FitBatch(Savable, Sequence[Fit], abc.ABC):
    """The fits of B data sets by one model and method: a sequence of `Fit`.

    `predict` takes a batch like a fit, and its answer has a leading axis (B). A data set whose fit is refused has NaN
    in all arrays; indexing this fit raises its error.

    Attributes:
        model: the model as the user gave it.
        method: the training method.
        sets: the training sets.
        parameters: name -> (B, ...), the `parameters` of each fit; their posterior means where keep="summary".
        log_evidence: log probability of each training set, where the method gives it, else None.
        refused: index of a set -> the error of its fit.
        attributes: how the fits were made; "path" says whether in one call or one by one, and why.
        diagnostics: "rhat", "ess" -> name -> (B, ...), of chains; empty without chains.
        seed: of the fits.
    """

    model: Any
    method: Method
    sets: DataSets
    parameters: dict[str, Shaped[np.ndarray, "B ..."]]
    log_evidence: Float[np.ndarray, " B"] | None
    refused: Mapping[int, BayesgenError]
    attributes: dict[str, Any]
    diagnostics: Mapping[str, dict[str, Float[np.ndarray, "B ..."]]]
    seed: Seed = dataclasses.field(compare=False)

    def __len__(self) -> int:
        return self.sets.num_sets

    @property
    def schema(self) -> Schema:
        """The schema of all sets. The schema of a single fit also has the means and variances of its set."""
        return self.sets.schema

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels in the order of the tables' columns, of the labels' own type."""
        return category_array(self.schema.classes or ())

    def read(self, X: RowsLike) -> Rows:
        """Rows of new data, as the fits read them: see `Fit.read`."""
        return self[self.known[0]].read(X)

    @property
    def known(self) -> list[int]:
        """Indices of the sets that have a fit.

        Raises:
            FitError: no set has a fit; the message is that of the first set.
        """
        known = [index for index in range(len(self)) if index not in self.refused]
        if not known:
            raise self.refused[0]
        return known

    @property
    def rhat(self) -> dict[str, Float[np.ndarray, "B ..."]] | None:
        """Rank-normalised split R-hat of each parameter of each fit; None without chains."""
        return self.diagnostics.get("rhat")

    @property
    def ess(self) -> dict[str, Float[np.ndarray, "B ..."]] | None:
        """Bulk effective sample size of each parameter of each fit; None without chains."""
        return self.diagnostics.get("ess")

    @abc.abstractmethod
    def _fit(self, index: int) -> Fit:
        """The fit of a set that is not refused."""

    def log_joint(self, rows: Rows, at: At) -> "TablesOfSets | None":
        """Tables of log-joints of rows by all fits, made in one compiled call; None where no such call makes them."""
        return None

    @overload
    def __getitem__(self, index: int) -> Fit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fit]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place in self.refused:
            raise self.refused[place]
        return self._fit(place)

    def __repr__(self) -> str:
        lines = {
            "method": repr(self.method),
            "path": str(self.attributes["path"]),
            "refused": f"{len(self.refused)}: see batch.refused" if self.refused else None,
            "next": "batch.parameters, batch.log_evidence, batch[0], predict(batch, X, rule=...)",
        }
        return described(f"FitBatch of {len(self)} data sets, {self.model!r}", lines)

    def to_datatree(
        self,
        X: Any = None,
        y: Any = None,
        *,
        prior: bool = False,
        predictive: bool = False,
        num_draws: int = 1000,
        seed: Seed = 0,
    ) -> "DataTree":
        """Export to an `xarray.DataTree`, like `Fit.to_datatree`, with a dimension `data_set` after chain and draw.

        Refused sets are left out: the coordinate of `data_set` has the indices of the others.

        Raises:
            PredictionError: groups besides the parameters, which have to be asked of one fit.
        """
        if X is not None or y is not None or prior or predictive:
            raise PredictionError(
                "A batch exports the parameters of its fits, whose rows differ. Ask one fit for other groups: "
                "batch[0].to_datatree(X, y, ...)."
            )
        exported, kept = [], self.known
        for index in kept:
            posterior = self[index].posterior
            assert isinstance(posterior, ProcessPosterior)
            exported.append(groups_of_draws(posterior, int(num_draws), jax.random.fold_in(as_key(seed), index)))
        groups = jax.tree.map(lambda *values: np.stack(values, axis=2), *exported)
        coords, dims = axes(self[kept[0]])
        dims_of = {name: ("data_set", *dims.get(name, ())) for group in groups.values() for name in group}
        return datatree(groups, {"data_set": kept, **coords}, dims_of, about(self))


class TablesOfSets(NamedTuple):
    """Tables of log-joints of rows by the fits of several sets; NaN where a set has no fit, or its fit no answer.

    `refused` holds the errors of fits without an answer, by the index of the set: a posterior may have no mode.
    """

    log_joint: Float[np.ndarray, "B n K"]
    refused: dict[int, FitError]


@by_content
class ClosedFits(FitBatch):
    """Fits in closed form, whose numbers came from one compiled call. Each is made when it is asked for.

    Attributes:
        solution: of all sets, (B, ...).
    """

    solution: ClosedSolution

    def _fit(self, index: int) -> Fit:
        return fit_of_set(self.model, self.method, self.sets, index, self.seed)

    def log_joint(self, rows: Rows, at: At) -> "TablesOfSets | None":
        if is_sparse(rows) or not self.solution.can(at):
            return None
        size = num_sets_at_once(rows.num_rows * rows.cells_per_row * max(1, len(self.classes)))
        with jax.enable_x64(True):
            table, has_failed = over_chunks(
                lambda solution: _tables(solution, rows, at=at), self.solution, len(self), size
            )
        refused: dict[int, FitError] = {}
        for index in self.known:
            if has_failed[index]:
                try:
                    self[index].log_joint(rows, at=at)
                except FitError as refusal:
                    refused[index] = refusal
        table[[*self.refused, *refused]] = np.nan
        return TablesOfSets(table, refused)


@functools.partial(jax.jit, static_argnames="at")
def _tables(solutions: ClosedSolution, rows: Rows, *, at: At) -> tuple[Float[Array, "B n K"], Bool[Array, " B"]]:
    """Tables of log-joints, and for which of the solutions a check failed."""
    return jax.vmap(with_failed_checks(lambda solution: solution.log_joint(rows, at)))(solutions)


@by_content
class SeparateFits(FitBatch):
    """Fits made one by one.

    Attributes:
        fits: index of a set -> its fit; none of draws where a summary alone is kept.
    """

    fits: Mapping[int, Fit]

    def _fit(self, index: int) -> Fit:
        if index not in self.fits:
            raise PredictionError(
                "keep='summary' keeps the means and diagnostics of draws, and no draws. Fit with keep='draws' for fits "
                "and predictions."
            )
        return self.fits[index]


def fit_of_set(model: Recipe, method: Method, sets: DataSets, index: int, seed: Seed) -> Fit:
    """The fit of one set, made alone.

    Raises:
        FitError: a set that the method refuses.
    """
    return dataclasses.replace(method.solve(problem_of_set(method, sets, index, seed)), model=model)


def problem_of_set(method: Method, sets: DataSets, index: int, seed: Seed) -> ProgramProblem:
    """The training problem of a set, which its method does not refuse."""
    summaries = sets.summaries(index, method.needs_rows)
    problem = ProgramProblem(summaries.model, summaries, jax.random.fold_in(as_key(seed), index), False)
    return problem.ready_for(method)
