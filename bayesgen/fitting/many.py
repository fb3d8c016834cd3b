"""`fit_many`: many fits of one model and method, in one compiled call where they have closed forms."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows, RowsLike, Schema, category_array
from bayesgen.describe import Described, Description, stated
from bayesgen.errors import (
    BayesgenError,
    BayesgenWarning,
    DataError,
    FitError,
    PredictionError,
    check_object,
    each_warning_once,
    warn,
    warnings_told_to,
)
from bayesgen.posteriors import At, Draws, ProcessPosterior, chunk_table
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.records import by_content, record, stacked
from bayesgen.runtime import (
    as_key,
    bar,
    beyond_memory,
    check_seed,
    chunks,
    in_units,
    over_chunks,
    public,
    requested,
    used,
)
from bayesgen.saving import Savable
from bayesgen.statistics import SufficientStatistics, any_known, any_of, with_failed_checks
from bayesgen.typing import Array, Bool, Data, Float, Result, Seed, Shaped, Values

from .data_sets import (
    ColumnMoments,
    DataSets,
    num_sets_at_once,
    read_sets,
    schema_moments,
    statistics_of_set,
    with_moments,
    without_moments,
)
from .export import axes, datatree, groups_of_draws, tree_attributes
from .fit import Fit
from .nuts import TOGETHER
from .problem import Method, ProgramProblem, why_not_closed, why_not_compiled
from .sampling import process_posterior
from .summaries import Summaries

if TYPE_CHECKING:
    from xarray import DataTree

SETS_AT_ONCE = 64  # a unit: they are sampled together, and their draws are in memory before they are summarised


@record
class ScaledStatistics:
    """The sufficient statistics of one data set, or of many, (B, ...), with the moments that resolve default priors.

    Fits in closed form are functions of these.
    """

    moments: ColumnMoments
    statistics: SufficientStatistics

    def prior(self, model: ConcreteModel, schema: Schema) -> Any:
        """The model's blocks with resolved priors, for one data set. Traceable."""
        return model.conjugate(with_moments(schema, self.moments))

    def posterior(self, model: ConcreteModel, schema: Schema, method: Method) -> ProcessPosterior:
        """The posterior of one data set, or its point, by a method with a closed form. Traceable."""
        return method.closed_form(model, schema, self.prior(model, schema), self.statistics)


@by_content
class FitBatch(Described, Savable, Sequence[Fit]):
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
        fits: index of a set -> its fit, where fits are made one by one; none of draws where a summary alone is kept.
        scaled: of fits in closed form the statistics of all sets, from which each fit is made when it is asked for,
            without its rows; else None.
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
    fits: Mapping[int, Fit] = dataclasses.field(default_factory=dict)
    scaled: ScaledStatistics | None = None

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
        indices = [index for index in range(len(self)) if index not in self.refused]
        if not indices:
            raise self.refused[0]
        return indices

    @property
    def rhat(self) -> dict[str, Float[np.ndarray, "B ..."]] | None:
        """Rank-normalised split R-hat of each parameter of each fit; None without chains."""
        return self.diagnostics.get("rhat")

    @property
    def ess(self) -> dict[str, Float[np.ndarray, "B ..."]] | None:
        """Bulk effective sample size of each parameter of each fit; None without chains."""
        return self.diagnostics.get("ess")

    def log_joint(self, rows: Rows, at: At) -> tuple[Float[np.ndarray, "B n K"], dict[int, FitError]] | None:
        """Tables of log-joints of rows by all fits, made in one compiled call; None where no such call makes them.

        They are NaN where a set has no fit, or its fit no answer, as a posterior may have no mode. The second item has
        the errors of fits without an answer, by the index of the set.
        """
        if self.scaled is None or (at == "predictive" and not self.method.gives_evidence):
            return None
        prior = self._scaled(self.known[0]).prior(self.sets.model, without_moments(self.schema))
        if why_not_compiled(prior, rows, at == "predictive") is not None:
            return None
        size = num_sets_at_once(rows.num_rows * rows.cells_per_row * max(1, len(self.classes)))
        static = {"model": self.sets.model, "schema": without_moments(self.schema), "method": self.method, "at": at}
        with jax.enable_x64(True):
            table, has_failed = over_chunks(
                lambda scaled: _tables(scaled, rows, **static), self.scaled, len(self), size
            )
        refused: dict[int, FitError] = {}
        for index in self.known:
            if has_failed[index]:
                try:
                    self[index].log_joint(rows, at=at)
                except FitError as refusal:
                    refused[index] = refusal
        table[[*self.refused, *refused]] = np.nan
        return table, refused

    @overload
    def __getitem__(self, index: int) -> Fit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fit]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        if position in self.refused:
            raise self.refused[position]
        if self.scaled is not None:
            data = self.sets.summaries(position, statistics=self._scaled(position).statistics)
            return self.method.fitted(self.model, data, jax.random.fold_in(as_key(self.seed), position), False)
        if position not in self.fits:
            raise PredictionError(
                "keep='summary' keeps the means and diagnostics of draws, and no draws. Fit with keep='draws' for fits "
                "and predictions."
            )
        return self.fits[position]

    def _posterior(self, index: int) -> ProcessPosterior:
        """The posterior of a set that has a fit: of fits in closed form by its statistics, without the fit."""
        if self.scaled is None:
            return process_posterior(self[index])
        return self._scaled(index).posterior(self.sets.model, without_moments(self.schema), self.method)

    def _scaled(self, index: int) -> ScaledStatistics:
        """The statistics of a set, of fits in closed form."""
        return jax.tree.map(lambda leaf: np.asarray(leaf[index]), self.scaled)

    def _description(self) -> Description:
        lines = {
            "method": stated(self.method),
            "how": str(self.attributes["path"]),
            "refused": f"{len(self.refused)} in batch.refused, the first of data set {first}: {self.refused[first]}"
            if (first := min(self.refused, default=None)) is not None
            else None,
            "next": "batch.parameters, batch.log_evidence, batch[0], predict(batch, X, rule=...)",
        }
        return f"FitBatch of {len(self)} data sets, {stated(self.model)}", lines

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
        key, indices = as_key(seed), self.known
        exported = (
            groups_of_draws(self._posterior(index), int(num_draws), jax.random.fold_in(key, index)) for index in indices
        )
        groups = jax.tree.map(lambda *values: np.stack(values, axis=2), *exported)
        coords, dims = axes(self[indices[0]])
        batch_dims = {name: ("data_set", *dims.get(name, ())) for group in groups.values() for name in group}
        return datatree(groups, {"data_set": indices, **coords}, batch_dims, tree_attributes(self))


@public
def fit_many(
    model: Recipe,
    X: Data | Iterable[tuple] | Iterable[Summaries],
    y: Values | None = None,
    *,
    weights: Float[np.ndarray, "B n"] | None = None,
    method: Method,
    schema: Schema | None = None,
    seed: Seed = 0,
    keep: Literal["draws", "summary"] = "draws",
    progress: bool | None = None,
    device: str | None = None,
) -> FitBatch:
    """Fit one model to many data sets by one method.

    The data are read and encoded once, with one schema: its classes, categories and edges of bins are inferred from all
    sets together. Default priors are resolved for each set: each fit equals the result of `fit` with the schema of the
    batch, up to rounding.

    Args:
        model: as `fit` takes it; not an average, nor a concept learner.
        X, y: one data set, with weights; or X an iterable of data sets and no y: tuples (X,), (X, y) or
            (X, y, sample_weight), or `Summaries` with one schema.
        weights: (B, n) nonnegative frequency weights of the rows of X, one row a data set. Bootstrap samples, folds and
            subsets are weights of one data set.
        method: as `fit` takes it.
        schema: declarations for the columns; the rest is inferred from all sets together.
        seed: integer or JAX key; set i is fitted with `jax.random.fold_in(key, i)`.
        keep: "draws", or "summary" for only the means and diagnostics of the draws, in little memory.
        progress: whether to show bars on standard error; None means in a terminal. Unless it is False, a call that
            shows none for four seconds says in one line what it is doing.
        device: as `fit` takes it.

    Exact and point fits of complete data are made by one compiled call. Chains of `NUTS` run side by side, as far as
    coordinates whiten the posteriors; other fits are made one by one. `batch.attributes["path"]` says which.

    Raises:
        DataError: weights of another shape; columns that differ between sets.
        FitError: draws that do not fit the memory of the machine; no set that can be fitted.

    If the fit of a single set is refused, `batch.refused` holds its error, by the index of the set.

    >>> import bayesgen as bg
    >>> X, y = [[1.0], [2.0], [3.0], [7.0], [8.0], [9.0]], ["a", "a", "a", "b", "b", "b"]
    >>> weights = np.random.default_rng(0).multinomial(6, [1 / 6] * 6, size=100)  # bootstrap samples
    >>> batch = fit_many(bg.NaiveBayes(), X, y, weights=weights, method=bg.Exact())
    >>> batch.log_evidence.shape, batch.parameters["real_mean"].shape
    ((100,), (100, 2, 1))
    >>> bg.predict(batch, [[2.5], [6.0]], rule=bg.BMA()).probabilities.shape
    (100, 2, 2)
    """
    check_object("method", method, Method, DataError)
    if not isinstance(keep, str) or keep not in ("draws", "summary"):
        raise DataError(f"keep must be 'draws' or 'summary', got {keep!r}.")
    check_seed(seed)
    with requested(device):
        sets = read_sets(model, X, y, weights, schema)
        if (reason := why_separate(sets, method)) is None:
            return _closed_fits(model, method, sets, seed)
        return _separate_fits(model, method, sets, seed, keep == "summary", reason, progress, device)


def why_separate(sets: DataSets, method: Method, predicts: bool = False) -> str | None:
    """The reason why fits, or their predictives too, are made one by one; None where one compiled call makes all."""
    concrete, statistics = sets.model, sets.example
    if concrete.is_traceable and not sets.are_alike:
        return "one by one: labels or cells are missing in some sets"
    schema = concrete.with_scale(sets.schema, statistics.summaries)
    reason = why_not_closed(concrete, schema, method, statistics, sets.rows, predicts)
    return None if reason is None else f"one by one: {reason}"


def _closed_fits(model: Recipe, method: Method, sets: DataSets, seed: Seed) -> FitBatch:
    size, schema = num_sets_at_once(sets.cells_per_set), without_moments(sets.schema)
    solve = functools.partial(_solutions, sets.shared_arrays, model=sets.model, schema=schema, method=method)
    with jax.enable_x64(True):
        (scaled, numbers, is_constant), has_failed = over_chunks(solve, sets.arrays_by_set, sets.num_sets, size)
    refused: dict[int, BayesgenError] = {}
    with each_warning_once(sets.num_sets) as noted:
        warned = np.flatnonzero(is_constant & ~has_failed).tolist()  # the first of them has the warning of all
        for indices in [*([index] for index in np.flatnonzero(has_failed).tolist()), *([warned] if warned else [])]:
            with noted(*indices):
                try:
                    problem = _problem_of_set(model, method, sets, indices[0], seed)
                    method.solve(problem)
                except BayesgenError as refusal:
                    refused[indices[0]] = refusal
    for leaf in jax.tree.leaves(numbers):
        leaf[list(refused)] = np.nan
    parameters, log_evidence = numbers
    return FitBatch(
        model=model,
        method=method,
        sets=sets,
        parameters=parameters,
        log_evidence=log_evidence,
        refused=refused,
        attributes={"path": "one compiled call", "device": used()},
        diagnostics={},
        seed=seed,
        scaled=scaled,
    )


@functools.partial(jax.jit, static_argnames=("model", "schema", "method"))
def _solutions(
    shared_arrays: Any, arrays_by_set: Any, *, model: ConcreteModel, schema: Schema, method: Method
) -> tuple[tuple[ScaledStatistics, tuple[Any, Any], Bool[Array, " B"]], Bool[Array, " B"]]:
    """Statistics of all sets, (parameters, log evidence), which have constant columns, and where a check failed."""

    def solution(arrays: Any) -> tuple[ScaledStatistics, tuple[Any, Any], Array]:
        known_schema, statistics = statistics_of_set(model, schema, shared_arrays, arrays)
        any_known(statistics.class_weights.sum() == 0)
        scaled = ScaledStatistics(schema_moments(model.with_scale(known_schema, statistics.summaries)), statistics)
        posterior, (_, variance, _, response_variance) = scaled.posterior(model, schema, method), scaled.moments
        is_constant = [jnp.any(value == 0) for value in (variance, response_variance) if value is not None]
        log_evidence = scaled.prior(model, schema).log_evidence(statistics) if method.gives_evidence else None
        return scaled, (posterior.parameters, log_evidence), any_of(is_constant)

    return jax.vmap(with_failed_checks(solution))(arrays_by_set)


@functools.partial(jax.jit, static_argnames=("model", "schema", "method", "at"))
def _tables(
    scaled: ScaledStatistics, rows: Rows, *, model: ConcreteModel, schema: Schema, method: Method, at: At
) -> tuple[Float[Array, "B n K"], Bool[Array, " B"]]:
    """Tables of log-joints, and for which of the sets a check failed."""

    def table(scaled_set: ScaledStatistics) -> Float[Array, "n K"]:
        return chunk_table(scaled_set.posterior(model, schema, method).densities_at(at), rows, slice(None))

    return jax.vmap(with_failed_checks(table))(scaled)


def _separate_fits(
    model: Recipe,
    method: Method,
    sets: DataSets,
    seed: Seed,
    are_summaries: bool,
    path: str,
    progress: bool | None,
    device: str | None,
) -> FitBatch:
    fits: dict[int, Fit] = {}
    numbers_by_set: dict[int, dict[str, Any]] = {}
    refused: dict[int, BayesgenError] = {}
    fits_of_unit = functools.partial(_fits_of_unit, model, method, sets, seed, are_summaries, device)
    with each_warning_once(sets.num_sets) as noted, bar("Data sets", sets.num_sets, progress) as advance:
        for index, fit, numbers, caught in in_units(fits_of_unit, chunks(sets.num_sets, SETS_AT_ONCE), _lost):
            with noted(index):
                for warning in caught:
                    warn(*warning)
            if isinstance(fit, BayesgenError):
                refused[index] = fit
            else:
                numbers_by_set[index] = numbers
                fits |= {} if fit is None else {index: fit}
            advance(1)
    if not numbers_by_set:
        raise refused[0]
    absent = jax.tree.map(lambda array: np.full(np.shape(array), np.nan), next(iter(numbers_by_set.values())))
    all_numbers = (numbers_by_set.get(index, absent) for index in range(sets.num_sets))
    numbers = stacked(all_numbers)
    num_together = sum(set_numbers["is_together"] for set_numbers in numbers_by_set.values())
    return FitBatch(
        model=model,
        method=method,
        sets=sets,
        parameters=numbers["parameters"],
        log_evidence=numbers["log_evidence"],
        refused=refused,
        attributes={
            "path": f"chains of {num_together} of {sets.num_sets} run side by side" if num_together else path,
            "device": "gpu" if any(set_numbers["is_on_gpu"] for set_numbers in numbers_by_set.values()) else "cpu",
        },
        seed=seed,
        diagnostics=numbers["diagnostics"],
        fits=fits,
    )


Warnings = list[tuple[str, type[BayesgenWarning]]]
OutcomeOfSet = tuple[int, Fit | BayesgenError | None, Any, Warnings]
"""Index of a set; its fit, None where a summary alone is kept, or its refusal; its numbers; its warnings."""


def _fits_of_unit(
    model: Recipe, method: Method, sets: DataSets, seed: Seed, are_summaries: bool, device: str | None, unit: slice
) -> Iterator[OutcomeOfSet]:
    """The fits of successive sets, which are sampled together if they can be."""
    caught: dict[int, Warnings] = {index: [] for index in range(unit.start, unit.stop)}

    def attempted(index: int, function: Callable[..., Result], *arguments: Any) -> Result | BayesgenError:
        with requested(device), warnings_told_to(lambda *warning: caught[index].append(warning)):
            try:
                return function(*arguments)
            except BayesgenError as refusal:
                return refusal

    attempts = {index: attempted(index, _problem_of_set, model, method, sets, index, seed) for index in caught}
    problems = {index: problem for index, problem in attempts.items() if not isinstance(problem, BayesgenError)}
    needed = sets.num_sets * max(map(method.bytes_kept, problems.values()), default=0.0)
    too_much = beyond_memory(f"The draws of {sets.num_sets:,} fits", needed)
    if too_much is not None and not are_summaries:
        raise FitError(f"{too_much} Give keep='summary' for their means and diagnostics alone, or draw less.")
    with requested(device):
        solvers = dict(zip(problems, method.solvers(list(problems.values())), strict=True))
    for index, attempt in attempts.items():
        fit: Any = attempted(index, solvers[index]) if index in solvers else attempt
        if isinstance(fit, BayesgenError):
            yield index, fit, None, caught[index]
        else:
            is_short = are_summaries and fit.is_sampled
            yield index, None if is_short else fit, _numbers_of(fit, is_short), caught[index]


def _lost(unit: slice, error: Exception) -> list[OutcomeOfSet]:
    """Refusals of the sets of a unit that failed, or whose worker was lost."""
    refusal = FitError(f"The worker of this data set, and {unit.stop - unit.start - 1} more, failed: {error!r}")
    return [(index, refusal, None, []) for index in range(unit.start, unit.stop)]


def _numbers_of(fit: Fit, is_short: bool) -> dict[str, Any]:
    """Parameters, log evidence and diagnostics of a fit; of parameters the means alone, if it is to be short."""
    entries = fit.posterior.entries if isinstance(fit.posterior, Draws) else None
    return {
        "parameters": {k: draws.mean((0, 1)) for k, draws in fit.parameters.items()} if is_short else fit.parameters,
        "log_evidence": None if fit.log_evidence is None else np.asarray(fit.log_evidence),
        "diagnostics": {}
        if entries is None
        else {"rhat": entries.by_site(entries.rhats), "ess": entries.by_site(entries.sizes)},
        "is_together": fit.attributes.get("chain_method") == TOGETHER,
        "is_on_gpu": fit.attributes["device"] == "gpu",
    }


def _problem_of_set(model: Recipe, method: Method, sets: DataSets, index: int, seed: Seed) -> ProgramProblem:
    """The training problem of a set; a `FitError` where the method refuses it."""
    data = sets.summaries(index, method.needs_rows)
    return ProgramProblem(model, data, jax.random.fold_in(as_key(seed), index), False).checked_for(method)
