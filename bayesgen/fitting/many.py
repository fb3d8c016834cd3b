"""`fit_many`: many fits of one model and method, in one compiled call where they have closed forms."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Schema
from bayesgen.errors import (
    BayesgenError,
    DataError,
    FitError,
    each_warning_once,
    keywords_stated,
)
from bayesgen.posteriors import Draws
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.runtime import (
    bar,
    beyond_memory,
    check_seed,
    chunks,
    interrupts_kept,
    over_chunks,
    requested,
    used,
)
from bayesgen.statistics import any_known, any_of, with_failed_checks
from bayesgen.typing import Array, Bool, Data, Float, Seed, Values

from .data_sets import (
    UNKNOWN_MOMENTS,
    DataSets,
    Scaled,
    SetsOfRows,
    moments_of,
    num_sets_at_once,
    read_sets,
    with_moments,
)
from .fit import Fit
from .fit_batch import ClosedFits, FitBatch, SeparateFits, fit_of_set, problem_of_set
from .nuts import TOGETHER
from .problem import ClosedSolution, Method, ProgramProblem, why_not_closed
from .summaries import Summaries

SETS_AT_ONCE = 256  # that are sampled together and whose draws are in memory before they are summarised


@keywords_stated
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
    batch.

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
        progress: whether to show progress on standard error; None means in a terminal.
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
    if not isinstance(method, Method):
        raise DataError(f"method must be an object such as MLE(), MAP(), Exact() or NUTS(), got {method!r}.")
    if keep not in ("draws", "summary"):
        raise DataError(f"keep must be 'draws' or 'summary', got {keep!r}.")
    check_seed(seed)
    with requested(device), interrupts_kept():
        sets = read_sets(model, X, y, weights, schema)
        reason = why_separate(sets, method)
        if reason is None:
            return _closed_fits(model, method, sets, seed)
        return _separate_fits(model, method, sets, seed, keep == "summary", reason, progress)


def why_separate(sets: DataSets, method: Method) -> str | None:
    """The reason why fits are made one by one; None where one compiled call makes all."""
    concrete, statistics = sets.model, sets.example
    if concrete.is_traceable and not sets.are_alike:
        return "one by one: labels or cells are missing in some sets"
    schema = concrete.with_scale(sets.schema, statistics.summaries)
    rows = sets.rows if isinstance(sets, SetsOfRows) else None
    reason = why_not_closed(concrete, schema, method, statistics, rows)
    return None if reason is None else f"one by one: {reason}"


def _closed_fits(model: Recipe, method: Method, sets: DataSets, seed: Seed) -> ClosedFits:
    size = num_sets_at_once(sets.cells_per_set)
    with jax.enable_x64(True):
        plain = with_moments(sets.schema, UNKNOWN_MOMENTS)
        solve = functools.partial(
            _solutions, sets.shared, model=sets.model, schema=plain, method=method, statistics_of=sets.statistics_of
        )
        (solution, is_constant), has_failed = over_chunks(solve, sets.of_each, sets.num_sets, size)
    refused: dict[int, BayesgenError] = {}
    with each_warning_once(sets.num_sets) as noted:
        warned = np.flatnonzero(is_constant & ~has_failed).tolist()  # the first of them has the warning of all
        for indices in [*([index] for index in np.flatnonzero(has_failed).tolist()), *([warned] if warned else [])]:
            with noted(*indices):
                try:
                    fit_of_set(model, method, sets, indices[0], seed)
                except BayesgenError as refusal:
                    refused[indices[0]] = refusal
    for leaf in jax.tree.leaves((solution.parameters, solution.log_evidence)):
        leaf[list(refused)] = np.nan
    return ClosedFits(
        model=model,
        method=method,
        sets=sets,
        parameters=solution.parameters,
        log_evidence=solution.log_evidence,
        refused=refused,
        attributes={"path": "one compiled call", "device": used()},
        diagnostics={},
        seed=seed,
        solution=solution,
    )


@functools.partial(jax.jit, static_argnames=("model", "schema", "method", "statistics_of"))
def _solutions(
    shared: Any,
    sets: Any,
    *,
    model: ConcreteModel,
    schema: Schema,
    method: Method,
    statistics_of: Callable[..., Scaled],
) -> tuple[tuple[ClosedSolution, Bool[Array, " B"]], Bool[Array, " B"]]:
    """The fits of all sets, which have columns that do not vary, and for which a check failed."""

    def of_set(arrays: Any) -> tuple[ClosedSolution, Array]:
        known, statistics = statistics_of(model, schema, shared, arrays)
        any_known(statistics.class_weights.sum() == 0)
        scaled = model.with_scale(known, statistics.summaries)
        _, variance, _, of_response = moments_of(scaled)
        is_constant = [jnp.any(value == 0) for value in (variance, of_response) if value is not None]
        return method.closed_form(model.conjugate(scaled), statistics), any_of(is_constant)

    return jax.vmap(with_failed_checks(of_set))(sets)


def _separate_fits(
    model: Recipe, method: Method, sets: DataSets, seed: Seed, are_summaries: bool, path: str, progress: bool | None
) -> SeparateFits:
    fits: dict[int, Fit] = {}
    found: dict[int, dict[str, Any]] = {}
    refused: dict[int, BayesgenError] = {}
    with each_warning_once(sets.num_sets) as noted, bar("Data sets", sets.num_sets, progress) as advance:

        @contextlib.contextmanager
        def attempted(index: int) -> Iterator[None]:
            with noted(index):
                try:
                    yield
                except BayesgenError as refusal:
                    refused[index] = refusal
                    advance(1)

        for block in chunks(sets.num_sets, SETS_AT_ONCE):
            problems: dict[int, ProgramProblem] = {}
            for index in range(block.start, block.stop):
                with attempted(index):
                    problems[index] = problem_of_set(method, sets, index, seed)
            needed = sets.num_sets * max(map(method.bytes_kept, problems.values()), default=0.0)
            too_much = beyond_memory(f"The draws of {sets.num_sets:,} fits", needed)
            if too_much is not None and not are_summaries:
                raise FitError(f"{too_much} Give keep='summary' for their means and diagnostics alone, or draw less.")
            for index, solve in zip(problems, method.solvers_of(list(problems.values())), strict=True):
                with attempted(index):
                    fit = dataclasses.replace(solve(), model=model)
                    is_short = are_summaries and fit.is_sampled
                    found[index] = _numbers_of(fit, is_short)
                    if not is_short:
                        fits[index] = fit
                    advance(1)
    if not found:
        raise refused[0]
    absent = jax.tree.map(lambda array: np.full(np.shape(array), np.nan), next(iter(found.values())))
    of_sets = (found.get(index, absent) for index in range(sets.num_sets))
    numbers: Any = jax.tree.map(lambda *arrays: np.stack(arrays), *of_sets)
    num_together = sum(each["is_together"] for each in found.values())
    return SeparateFits(
        model=model,
        method=method,
        sets=sets,
        parameters=numbers["parameters"],
        log_evidence=numbers["log_evidence"],
        refused=refused,
        attributes={
            "path": f"chains of {num_together} of {sets.num_sets} run side by side" if num_together else path,
            "device": used(),
        },
        seed=seed,
        diagnostics=numbers["diagnostics"],
        fits=fits,
    )


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
    }
