"""Log scores of rows, and of rows that are left out of the training rows of a fit."""

import contextlib
import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows, Schema
from bayesgen.families import DirichletCategorical
from bayesgen.fitting import (
    DataSets,
    Fit,
    Method,
    num_sets_at_once,
    statistics_of_set,
    summaries_of_rows,
    why_not_closed,
    with_moments,
    without_moments,
)
from bayesgen.posteriors import At, ConjugatePosterior, chunk_table, numbers_per_row
from bayesgen.program import ConcreteModel, scores_of
from bayesgen.runtime import THREAD_CELLS, even_chunks, in_threads, padded_size
from bayesgen.statistics import SufficientStatistics, merged, with_failed_checks
from bayesgen.typing import Array, Bool, Float, Int

from .rule import Rule

FEW_FOLDS = 32  # whose fits take less time than compiling one function for all (0.3 to 1 s): `left_out` in benchmarks


class LogScores(NamedTuple):
    """Log scores of rows: log p(y | x); log p(x, y), with what is given and not modelled; tail indices of draws.

    Of rows without a label both scores are log p(x): 0 where x is given and not modelled.
    """

    given_row: Float[np.ndarray, " n"]
    joint: Float[np.ndarray, " n"]
    pareto_k: Float[np.ndarray, " n"] | None = None


def table_by(fit: Fit, rule: Rule, rows: Rows) -> Float[np.ndarray, "n K"] | None:
    """The table of log-joints that alone makes the answer by a rule; None where the answer takes more."""
    if fit.concrete.response is not None or rule.closed_at is None or not fit.posterior.can(rule.closed_at):
        return None
    return fit.log_joint(rows, at=rule.closed_at)


def scores_by(fit: Fit, rule: Rule, rows: Rows, table: Float[np.ndarray, "n K"] | None = None) -> LogScores:
    """Log scores of rows by a fit; y may be a number, and x given and not modelled. `table` is `table_by`, if known."""
    response, tails = fit.concrete.response, None
    if response is not None:
        answer, values = rule.respond(fit, response.without(rows)), response.values(rows)
        log_marginal = np.zeros(rows.num_rows) if answer.log_marginal is None else np.asarray(answer.log_marginal)
        given_row = np.asarray(answer.log_density(values))
        given_row = np.where(np.isnan(given_row), -np.inf, given_row)  # no process makes x possible
        scores = np.where(np.isnan(values), log_marginal, [given_row, given_row + log_marginal])
        return LogScores(*scores)
    table = table_by(fit, rule, rows) if table is None else table
    if table is None:
        prediction = rule.apply(fit, rows)
        marginal, tails = np.asarray(prediction.log_marginal)[:, None], prediction.pareto_k
        table = np.where(np.isneginf(marginal), -np.inf, prediction.log_probabilities + marginal)
    return LogScores(*scores_of(table, None if rows.labels is None else np.asarray(rows.labels)), tails)


def scores_without(
    fit: Fit,
    rule: Rule,
    rows: Rows,
    folds: Int[np.ndarray, " n"],
    skipped: tuple[type[Exception], ...] = (),
    table: Float[np.ndarray, "n K"] | None = None,
) -> LogScores:
    """Log scores of the rows of each fold by the fit of all others.

    Fits in closed form take a row out of the posterior, or merge the statistics of all other folds, in one compiled
    call. Other fits are made again, and so are those without one of a few folds, and those where a check failed.

    Args:
        fit: a fit of these rows, whose prior is kept.
        rule: rule of prediction.
        rows: its training rows, with labels and weights.
        folds: the fold of each row; -1 for rows that are never left out, whose score is NaN.
        skipped: errors of fits without a fold for which its scores are NaN; others are raised.
        table: the `table_by` of the rows, if it is known.
    """
    scores, remaining = np.full((3, rows.num_rows), np.nan), folds
    codes = None if rows.labels is None else np.asarray(rows.labels)
    for make in (_table_by_short_form, _table_by_merging) if _is_closed(fit, rule, rows) else ():
        table_of_others = make(fit, rule, rows, remaining, table)
        if table_of_others is not None:
            is_scored = ~np.isnan(table_of_others).any(1)
            scores[:2, is_scored] = np.stack(scores_of(table_of_others, codes))[:, is_scored]
            remaining = np.where(is_scored, -1, remaining)
    for fold in np.unique(remaining[remaining >= 0]):
        is_out = folds == fold
        with contextlib.suppress(*skipped):
            fit_without = refitted(fit, rows.take(np.flatnonzero(~is_out)))
            given_row, joint, tails = scores_by(fit_without, rule, rows.take(np.flatnonzero(is_out)))
            scores[:, is_out] = given_row, joint, np.full(len(joint), np.nan) if tails is None else tails
    return LogScores(*scores)


def refitted(fit: Fit, rows: Rows) -> Fit:
    """The fit of these rows under the prior of all rows, whose scale the schema keeps."""
    data = summaries_of_rows(fit.concrete, fit.schema, rows, fit.method.needs_rows)
    return fit.method.fitted(fit.model, data, progress=False)


def _is_closed(fit: Fit, rule: Rule, rows: Rows) -> bool:
    """Whether one compiled call makes the tables of log-joints by which the rule predicts."""
    if fit.summaries is None or rule.closed_at is None or fit.concrete.response is not None:
        return False
    predicts, statistics = rule.closed_at == "predictive", fit.summaries.statistics
    return why_not_closed(fit.concrete, fit.schema, fit.method, statistics, rows, predicts) is None


def _table_by_short_form(
    fit: Fit, rule: Rule, rows: Rows, folds: Int[np.ndarray, " n"], table: Float[np.ndarray, "n K"] | None
) -> Float[np.ndarray, "n K"] | None:
    """Log-joints of rows, each by the exact posterior of all others; NaN where a short form has no digits left for it.

    None where several rows leave together, or a family has no short form.
    """
    if rule.closed_at != "predictive" or not isinstance(fit.posterior, ConjugatePosterior):
        return None
    if len(np.unique(folds[folds >= 0])) < rows.num_rows:
        return None
    conjugate, codes, weights = fit.posterior.conjugate, np.asarray(rows.codes), np.asarray(rows.frequencies)
    if not isinstance(conjugate.class_prior, DirichletCategorical):
        return None

    def log_probs_by_block(part: slice) -> list[Float[np.ndarray, " m"] | None]:
        values = {name: np.asarray(cells[part], np.float64) for name, cells in rows.values.items()}
        return [b.family.log_prob_left_out(values[b.name], codes[part], weights[part]) for b in conjugate.blocks]

    cells = numbers_per_row(rows, len(fit.classes))
    log_probs_of_rows = []
    for log_probs in in_threads(log_probs_by_block, even_chunks(rows.num_rows, THREAD_CELLS / cells)):
        from_blocks = [log_prob for log_prob in log_probs if log_prob is not None]
        if len(from_blocks) < len(log_probs):
            return None
        log_probs_of_rows.append(np.sum(from_blocks, axis=0))
    counts = np.repeat(conjugate.class_prior.concentration[None], rows.num_rows, axis=0)
    log_class_probs = np.log(counts / counts.sum(1, keepdims=True))
    table = (fit.log_joint(rows, at="predictive") if table is None else table) - log_class_probs
    row_indices = np.arange(rows.num_rows)
    table[row_indices, codes] = np.concatenate(log_probs_of_rows)
    counts[row_indices, codes] -= weights
    return table + np.log(counts / counts.sum(1, keepdims=True))


def _table_by_merging(
    fit: Fit, rule: Rule, rows: Rows, folds: Int[np.ndarray, " n"], table: Float[np.ndarray, "n K"] | None
) -> Float[np.ndarray, "n K"] | None:
    """Log-joints of rows by the fits of all rows but their fold; NaN where a check failed. None for a few folds.

    Statistics of the other folds are merged: differences of statistics would lose all digits beside a row far away.
    """
    order = np.argsort(folds, kind="stable")[np.count_nonzero(folds < 0) :]
    _, fold, sizes = np.unique(folds[order], return_inverse=True, return_counts=True)
    if len(sizes) <= FEW_FOLDS:
        return None
    assert rule.closed_at is not None
    cells = max(1, len(fit.classes)) * sum(np.prod(values.shape[1:]) ** 2 for values in rows.values.values())
    length = min(num_sets_at_once(sizes.max() * cells), padded_size(len(sizes)))
    num_blocks = math.ceil(len(sizes) / length)
    position = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[fold]
    positions, weights = np.zeros((num_blocks * length, sizes.max()), int), np.zeros((num_blocks * length, sizes.max()))
    positions[fold, position], weights[fold, position] = order, rows.frequencies[order]
    sets = DataSets(fit.concrete, fit.schema, dataclasses.replace(rows, weights=None), positions, weights)
    block_of_row = np.full(rows.num_rows, -1)
    block_of_row[order] = fold // length

    def statistics_of(first: int, last: int) -> SufficientStatistics:
        members = np.flatnonzero((first <= block_of_row) & (block_of_row < last))
        block_rows = rows.take(members) if len(members) else dataclasses.replace(rows.take([0]), weights=np.zeros(1))
        return fit.concrete.summarize(fit.schema, block_rows)

    def tables_of(first: int, last: int, others: SufficientStatistics) -> list[Float[np.ndarray, "folds m K"]]:
        """Tables of blocks of folds, by halves, where rows of no such block have these statistics."""
        middle = (first + last) // 2
        if first < middle:
            left_tables = tables_of(first, middle, others + statistics_of(middle, last))
            return left_tables + tables_of(middle, last, others + statistics_of(first, middle))
        tables, has_failed = _tables_without(
            others,
            sets.shared_arrays,
            jax.tree.map(lambda array: array[first * length : last * length], sets.arrays_by_set),
            model=fit.concrete,
            schema=without_moments(fit.schema),
            method=fit.method,
            at=rule.closed_at,
        )
        return [np.where(np.asarray(has_failed)[:, None, None], np.nan, tables)]

    with jax.enable_x64(True):
        tables = np.concatenate(tables_of(0, num_blocks, statistics_of(-1, 0)))
    table_of_others = np.full((rows.num_rows, tables.shape[-1]), np.nan)
    table_of_others[order] = tables[fold, position]
    return table_of_others


@functools.partial(jax.jit, static_argnames=("model", "schema", "method", "at"))
def _tables_without(
    never_out: SufficientStatistics,
    shared: Any,
    folds: Any,
    *,
    model: ConcreteModel,
    schema: Schema,
    method: Method,
    at: At,
) -> tuple[Float[Array, "folds m K"], Bool[Array, " folds"]]:
    """The table of log-joints of the rows of each fold by the fit of all others, and where a check of it failed.

    Args:
        never_out: statistics of the rows of no fold.
        shared, folds: see `DataSets`.
    """
    prior = model.conjugate(with_moments(schema, shared[0]))
    fold_statistics = jax.vmap(lambda fold: statistics_of_set(model, schema, shared, fold)[1])(folds)
    never_out = jax.tree.map(lambda leaf, fold_leaf: jnp.asarray(leaf, fold_leaf.dtype), never_out, fold_statistics)

    def merging(total: SufficientStatistics, part: SufficientStatistics) -> tuple[Any, SufficientStatistics]:
        return total + part, total

    _, before = jax.lax.scan(merging, never_out, fold_statistics)
    _, after = jax.lax.scan(merging, jax.tree.map(jnp.zeros_like, never_out), fold_statistics, reverse=True)

    def table_of_fold(fold: Any, *parts: SufficientStatistics) -> Float[Array, "m K"]:
        posterior = method.closed_form(model, schema, prior, merged(parts))
        return chunk_table(posterior.densities_at(at), shared[1].take(fold[0]), slice(None))

    return jax.vmap(with_failed_checks(table_of_fold))(folds, before, after)
