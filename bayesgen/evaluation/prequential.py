"""`prequential`: every row predicted from the rows before it, then learned."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from bayesgen.data import Rows, Schema, as_array, is_chunked
from bayesgen.describe import Described, Description
from bayesgen.errors import DataError, FitError
from bayesgen.fitting import (
    DataSets,
    Exact,
    Fit,
    Method,
    ProgramProblem,
    num_sets_at_once,
    read_sets,
    statistics_of_set,
    summaries_of_rows,
    why_separate,
    without_moments,
)
from bayesgen.posteriors import At, chunk_table
from bayesgen.prediction import BMA, PlugIn, Rule, scores_by
from bayesgen.program import ConcreteModel, Recipe, scores_of
from bayesgen.records import by_content
from bayesgen.runtime import compiled_for, over_chunks, public
from bayesgen.statistics import SufficientStatistics, with_failed_checks
from bayesgen.typing import Array, Bool, Data, Float, Int, Values

from .comparison import Pair, checked_pairs, names_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXACT_AVERAGE: Pair = (Exact(), BMA())


@by_content
class Prequential(Described):
    """The scores of rows, each predicted from the rows before it.

    Arrays have the axes (pairs, sequences, rows). The axis of pairs is there for several pairs, the axis of sequences
    for several orders or data sets. A score is NaN where the rows before give a method no estimate (`num_unscored`),
    and where there is no row: at a weight of 0, and past the end of a sequence.

    Attributes:
        log_scores: log p(y | x, rows before) of each row's own label; for rows without labels log p(x | rows before).
        log_joint_scores: log p(x, y | rows before), given those columns that the model takes as given.
        pairs: names of the methods and rules.
        two_step: whether the rule of each pair is a plug-in, not an average.
        weights: the weights with which rows are learned, without the axis of pairs; 0 where there is no row.
    """

    log_scores: Float[np.ndarray, "*sequences n"]
    log_joint_scores: Float[np.ndarray, "*sequences n"]
    pairs: tuple[str, ...]
    two_step: tuple[bool, ...]
    weights: Float[np.ndarray, "*orders n"]

    @property
    def code_length(self) -> Float[np.ndarray, "*sequences n"]:
        """Cumulative code length of labels, -sum of log p(y | x, rows before), in nats, of rows that all pairs score.

        So a pair gains nothing by rows of which it has no estimate: see `num_unscored`.
        """
        return self._code_length(self.log_scores)

    @property
    def joint_code_length(self) -> Float[np.ndarray, "*sequences n"]:
        """Cumulative code length of rows and labels, in nats, of rows that all pairs score.

        Of rows of weight 1 it is at the end minus the log evidence, for exact BMA under a proper prior.
        """
        return self._code_length(self.log_joint_scores)

    def _code_length(self, scores: Float[np.ndarray, "*sequences n"]) -> Float[np.ndarray, "*sequences n"]:
        is_scored = ~np.isnan(scores)
        if len(self.pairs) > 1:
            is_scored &= is_scored.all(axis=0)
        return -np.cumsum(np.where(is_scored, scores, 0.0), axis=-1)

    @property
    def num_unscored(self) -> Int[np.ndarray, "*sequences"]:
        """Number of rows that have no score."""
        return (np.isnan(self.log_scores) & (self.weights > 0)).sum(-1)

    def _description(self) -> Description:
        totals, unscored = -self.code_length[..., -1], int(self.num_unscored.sum())
        lines = {
            "pairs": ", ".join(self.pairs),
            "sum of log scores": f"{totals.min():,.6g} to {totals.max():,.6g}",
            "rows without a score": f"{unscored:,}, of which the rows before give no estimate" if unscored else None,
            "next": "result.log_scores, result.code_length, result.to_frame(), result.plot()",
        }
        return f"Prequential of {self.log_scores.shape[-1]} rows", lines

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with a line for each pair, sequence and row: pair, sequence, row and both scores."""
        num_rows, scores = self.log_scores.shape[-1], self.log_scores.ravel()
        axes = [self.pairs, range(len(scores) // (len(self.pairs) * num_rows)), range(num_rows)]
        index = pd.MultiIndex.from_product(axes, names=["pair", "sequence", "row"])
        columns = {"log_score": scores, "log_joint_score": self.log_joint_scores.ravel()}
        return pd.DataFrame(columns, index).reset_index()

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """Mean log scores over sequences, by row; of one sequence, means over successive rows."""
        from bayesgen.plots import prequential

        return prequential(self, ax=ax)


@public
def prequential(
    model: Recipe,
    X: Data | Iterable[tuple],
    y: Values | None = None,
    *,
    pairs: Sequence[Pair] | None = None,
    order: Int[np.ndarray, "*orders n"] | None = None,
    schema: Schema | None = None,
) -> Prequential:
    """Predict every row from the rows before it, then learn it.

    The sum of the log joint scores of the exact one-step answer is the log evidence (the chain rule) under a proper
    prior, so that two models, or the two-step and the one-step answer, can be compared by their predictions of rows
    that they have not seen.

    Args:
        model: as `fit` takes it; models without labels too.
        X, y: rows, in any form that `fit` takes; or X an iterable of tuples (X,), (X, y) or (X, y, sample_weight), a
            sequence of rows each, and no y. A row with a weight is predicted once, and learned with its weight; one of
            weight 0 is neither.
        pairs: (method, rule) pairs, as `compare` takes them; None for `Exact()` and `BMA()`.
        order: a permutation of the rows, (n,), or several, (R, n). None for the rows as they are.
        schema: declarations for the columns; the rest is inferred from all rows.

    Default priors, categories and edges of bins are resolved once, from all given rows, also from rows that are still
    to be predicted. For a prior that does not depend on the data, state its hyperparameters.

    The first rows may have no score, where the rows before give a method no estimate, such as those of one class `MLE`.

    Raises:
        DataError: rows that do not fit the model; an order that is not a permutation.
        FitError: a method that refuses the model, or that has no estimate from the rows before any row.

    Source: Dawid (1984), Present position and potential developments: some personal views. Statistical theory: the
    prequential approach.

    >>> import bayesgen as bg
    >>> tosses = [[True], [True], [False], [True]]
    >>> result = bg.prequential(bg.NaiveBayes(bg.BetaBernoulli(0.5, 0.5), class_prior=None), tosses)
    >>> np.exp(result.log_scores).round(3).tolist()  # the estimator of Krichevsky and Trofimov
    [0.5, 0.75, 0.167, 0.625]
    """
    scored_pairs = checked_pairs([EXACT_AVERAGE] if pairs is None else pairs)
    order = None if order is None else as_array(order, "order", takes_lists=True)
    several = y is None and is_chunked(X) if order is None else np.ndim(order) > 1
    data_sets = X if order is None and several else [(X,) if y is None else (X, y)]
    sets: Any = read_sets(model, data_sets, None, None, schema)
    sets = sets if order is None else _reordered(sets, np.atleast_2d(order))
    names = tuple(f"{method} + {rule}" for method, rule in names_of(scored_pairs))
    tables = [_scores(sets, method, rule) for method, rule in scored_pairs]
    scores = [np.stack(by_pair) for by_pair in zip(*tables, strict=True)]
    if not several:
        scores = [array[:, 0] for array in scores]
    if pairs is None or len(scored_pairs) == 1:
        scores = [array[0] for array in scores]
    log_scores, log_joint_scores = scores
    two_step = tuple(isinstance(rule, PlugIn) for _, rule in scored_pairs)
    return Prequential(log_scores, log_joint_scores, names, two_step, sets.weights if several else sets.weights[0])


def _reordered(sets: DataSets, orders: Int[np.ndarray, "R n"]) -> DataSets:
    """The only set in several orders of its rows."""
    num_rows, is_whole = sets.weights.shape[1], orders.dtype.kind in "iu"
    shape = orders.shape[1:]
    if not is_whole or shape != (num_rows,) or (np.sort(orders, axis=1) != np.arange(num_rows)).any():
        raise DataError(
            f"order has to hold each of the positions 0 to {num_rows - 1} once: a permutation of the {num_rows} rows, "
            f"({num_rows},), or several, (R, {num_rows}). Got the shape {orders.shape} of {orders.dtype}."
        )
    assert sets.positions is not None
    return dataclasses.replace(sets, positions=sets.positions[0][orders], weights=sets.weights[0][orders])


Scores: TypeAlias = tuple[Float[np.ndarray, "sequences n"], Float[np.ndarray, "sequences n"]]


def _scores(sets: DataSets, method: Method, rule: Rule) -> Scores:
    """Log scores and log joint scores of all rows of all sequences; NaN where there is none.

    Raises:
        FitError: a method that refuses the model, or that scores no row at all.
    """
    assert sets.rows is not None
    has_response, is_average = sets.model.response is not None, rule.closed_at == "predictive"
    is_refused = is_average and not method.gives_evidence  # by the fits, in words of their own
    if rule.closed_at is None or has_response or is_refused or why_separate(sets, method, is_average) is not None:
        with compiled_for(sets.weights.shape[1]):
            return _checked(sets, method, _one_by_one(sets, method, rule))
    static = {"model": sets.model, "schema": without_moments(sets.schema), "method": method, "at": rule.closed_at}
    ask = functools.partial(_tables, sets.shared_arrays, **static)
    with jax.enable_x64(True):
        tables, is_unknown = over_chunks(ask, sets.arrays_by_set, sets.num_sets, num_sets_at_once(sets.cells_per_set))
    is_unknown |= sets.weights == 0
    codes = None if sets.rows.labels is None else np.asarray(sets.rows.labels)[sets.positions]
    given_row, joint = scores_of(tables, codes)
    scores = np.where(is_unknown, np.nan, given_row), np.where(is_unknown, np.nan, joint)
    return _checked(sets, method, scores)


def _checked(sets: DataSets, method: Method, scores: Scores) -> Scores:
    """The scores, unless no row has one: then the fits of all rows, and of all but the last, say why."""
    if np.isnan(scores[0]).all():
        weights, schema = sets.weights[0], sets.summaries(0).scaled_schema
        for last in (len(weights), np.flatnonzero(weights)[-1]):
            _fit_before(sets, schema, 0, last, method)
    return scores


@functools.partial(jax.jit, static_argnames=("model", "schema", "method", "at"))
def _tables(
    shared: Any, sequences: Any, *, model: ConcreteModel, schema: Schema, method: Method, at: At
) -> tuple[Float[Array, "sequences n K"], Bool[Array, "sequences n"]]:
    """The table of log-joints of each row given the rows before it, and where the method has no estimate yet."""
    _, rows = shared

    def tables_of_sequence(sequence: Any) -> tuple[Array, Array]:
        scaled_schema, everything = statistics_of_set(model, schema, shared, sequence)
        prior = model.conjugate(model.with_scale(scaled_schema, everything.summaries))

        def table_of(learned: SufficientStatistics, row: Rows) -> Float[Array, "1 K"]:
            posterior = method.closed_form(model, schema, prior, learned)
            return chunk_table(posterior.densities_at(at), row, slice(None))

        def step(learned: SufficientStatistics, at_row: Any) -> tuple[SufficientStatistics, tuple[Array, Array]]:
            position, weight, _ = at_row
            row = dataclasses.replace(rows.take(position[None]), weights=weight[None])
            table, is_unknown = with_failed_checks(lambda: table_of(learned, row))()
            return learned + model.summarize(scaled_schema, row), (table[0], is_unknown)

        nothing = model.summarize(scaled_schema, dataclasses.replace(rows.take(sequence[0][:1]), weights=jnp.zeros(1)))
        return jax.lax.scan(step, nothing, sequence)[1]

    return jax.vmap(tables_of_sequence)(sequences)


def _one_by_one(sets: DataSets, method: Method, rule: Rule) -> Scores:
    """The scores by a fit for each row."""
    assert sets.rows is not None and sets.positions is not None
    log_scores, joint = np.full((2, *sets.positions.shape), np.nan)
    for index, positions in enumerate(sets.positions):
        everything = sets.summaries(index, method.needs_rows)
        ProgramProblem(sets.model, everything).checked_for(method)
        for position in np.flatnonzero(sets.weights[index]).tolist():
            row = sets.rows.take(positions[[position]])
            try:
                fit = _fit_before(sets, everything.scaled_schema, index, position, method)
            except (DataError, FitError):  # these rows give no estimate
                continue
            with contextlib.suppress(FitError):  # of a posterior without a mode
                (log_scores[index, position],), (joint[index, position],) = scores_by(fit, rule, row)[:2]
    return log_scores, joint


def _fit_before(sets: DataSets, schema: Schema, index: int, position: int, method: Method) -> Fit:
    """The fit of the rows of a sequence before a position, with the scale of all its rows, which the schema has."""
    assert sets.rows is not None and sets.positions is not None
    weights = sets.weights[index, :position]
    positions = np.flatnonzero(weights)
    rows = dataclasses.replace(sets.rows.take(sets.positions[index, positions]), weights=weights[positions])
    learned = summaries_of_rows(sets.model, schema, rows, method.needs_rows)
    return method.fitted(sets.model, learned, len(positions), False)
