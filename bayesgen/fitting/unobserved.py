"""Unobserved values of rows: hidden states of sequences, and imputation of missing cells by means or draws."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import scipy.special

from bayesgen.data import Rows, Schema, Table, collected, read_table, sequence_lengths, warn_of_unknown
from bayesgen.describe import Described, Description, quote_some
from bayesgen.errors import ModelError, PredictionError, check_integer
from bayesgen.posteriors import ProcessPosterior, chunk_table
from bayesgen.program import Conjugate, Densities, sites_with_states
from bayesgen.records import by_content
from bayesgen.runtime import TABLE_CELLS, as_key, chunks, generator, positions, public, requested
from bayesgen.typing import Data, Float, Int, Seed, Shaped

from .trained import TrainedProgram

if TYPE_CHECKING:
    import pandas as pd


@by_content
class HiddenStates(Described):
    """The hidden states of n sequences of up to T time steps, of S states; NaN, or -1, past the end of a sequence.

    Where the model has classes, states are given each class: an axis of the K classes follows that of the rows. State 0
    of one class is unrelated to state 0 of another. Steps of a discrete latent of rows, `Fit.local`, are its cells in a
    row, and states its values.

    Attributes:
        site: the column, block or attribute site.
        probabilities: smoothed p(state at each time step | the whole sequence). Also NaN where the sequence is
            impossible under the class.
        paths: the most probable path of states as a whole (Viterbi), of `PlugIn()`. None for averages over processes,
            for which no recursion finds it. See `most_probable`.
        lengths: number of time steps of each sequence.
        log_marginal: log p(x) of each row, states and classes marginalised, as in the rule's prediction.
        classes: the labels, in the order of their axis; empty where the model has no classes.
        standard_error: Monte Carlo standard error of each probability; None where it is exact.
        pareto_k: tail index of the weights of draws, as in `ClassPrediction`; None where draws have no weights.
        reordered: the share of draws whose states were reordered to match the draw of highest density; 0 where the
            prior is not exchangeable in the states. None where no draws are averaged.
        index: the index of X, if X is a pandas frame; `to_frame` names rows by it. Else None.
    """

    site: str
    probabilities: Float[np.ndarray, "n *K T S"]
    paths: Int[np.ndarray, "n *K T"] | None
    lengths: Int[np.ndarray, " n"]
    log_marginal: Float[np.ndarray, " n"]
    classes: Shaped[np.ndarray, " K"]
    standard_error: Float[np.ndarray, "n *K T S"] | None = None
    pareto_k: Float[np.ndarray, " n"] | None = None
    reordered: float | None = None
    index: "pd.Index | None" = None

    def _description(self) -> Description:
        num_states = self.probabilities.shape[-1]
        highest = self.probabilities.max(-1, initial=0.0)
        highest = highest[~np.isnan(highest)]
        lines = {
            "classes": quote_some(self.classes.tolist()) if len(self.classes) else None,
            "steps": f"{self.lengths.min()} to {self.lengths.max()}" if len(self.lengths) else None,
            "probability of the most probable state": f"{highest.min():.3f} to {highest.max():.3f}, mean "
            f"{highest.mean():.3f}"
            if highest.size
            else None,
            "next": "states.probabilities, states.paths, states.most_probable, states.to_frame()",
        }
        return f"HiddenStates of {len(self.lengths)} sequences, {num_states} states", lines

    def until(self, lengths: Int[np.ndarray, " n"]) -> "HiddenStates":
        """The states with NaN, and -1, past these lengths, and where sequences are impossible."""
        inside = np.arange(self.probabilities.shape[-2]) < lengths[:, None]
        is_defined = (inside[:, None] if len(self.classes) else inside) & (self.probabilities.sum(-1) > 0)
        error = self.standard_error
        return dataclasses.replace(
            self,
            probabilities=np.where(is_defined[..., None], self.probabilities, np.nan),
            paths=None if self.paths is None else np.where(is_defined, self.paths, -1),
            lengths=lengths,
            standard_error=None if error is None else np.where(is_defined[..., None], error, np.nan),
        )

    @property
    def most_probable(self) -> Int[np.ndarray, "n *K T"]:
        """The most probable state at each time step, the first of equal ones; -1 past the end of a sequence.

        It maximises the expected number of correct states; as a path it may be less probable than `paths`.
        """
        best = np.nan_to_num(self.probabilities, nan=-1.0).argmax(-1)
        return np.where(np.isnan(self.probabilities).any(-1), -1, best)

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame with a line for each row, class (if there are any), time step and state, and its probability.

        Column "row" names the rows of X: by its index, or by position where it has none.
        """
        import pandas as pd

        rows, steps = np.nonzero(np.arange(self.probabilities.shape[-2]) < self.lengths[:, None])
        by_class = self.probabilities if len(self.classes) else self.probabilities[:, None]
        probabilities = np.moveaxis(by_class, 1, 2)[rows, steps]  # step, class, state
        step, code, state = np.indices(probabilities.shape)
        row = rows[step.ravel()]
        columns: dict[str, Any] = {"row": row if self.index is None else self.index.take(row)}
        if len(self.classes):
            columns["class"] = self.classes[code.ravel()]
        columns |= {"step": steps[step.ravel()], "state": state.ravel(), "probability": probabilities.ravel()}
        return pd.DataFrame(columns)


@runtime_checkable
class HiddenStatesRule(Protocol):
    """A rule of prediction that gives hidden states."""

    def states(self, fit: Any, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """The states of a site in sequences of these lengths, missing time steps included."""


@public
def states(self: TrainedProgram, X: Data, *, rule: HiddenStatesRule, site: str | None = None) -> HiddenStates:
    """The hidden states of sequences at each time step: of `DirichletHiddenMarkov`, and of `HiddenMarkov` sites.

    `PlugIn()` smooths at its process, p(state | all time steps, Q), and gives the most probable path. `BMA()`
    averages over draws from the posterior, each weighted by p(x | Q), the class included where there are classes;
    `ConditionalAverage()` weights all draws equally. Where the prior is exchangeable in the states, draws may have
    them in different orders; all are put in the order of the draw of highest density. At a missing time step,
    states are inferred from the other time steps.

    Args:
        X: sequences, in any form that `fit` takes.
        rule: an object such as `PlugIn()` or `BMA()`.
        site: the column, block or attribute site, where several have states.

    Raises:
        ModelError: a model without hidden states; several sites with states, and none named.
        PredictionError: a rule that the fit cannot answer; an average over structures.

    Source: Rabiner (1989), A tutorial on hidden Markov models, section III, problem 2.

    >>> import bayesgen as bg
    >>> X = {"level": [[0.1, -0.2, 0.0, 5.1, 4.9, 5.0, 5.2, 0.1], [5.0, 5.1, 0.2, -0.1]]}
    >>> model = bg.GenerativeClassifier([("level", bg.DirichletHiddenMarkov(2), ["level"])], class_prior=None)
    >>> fit = bg.fit(model, X, method=bg.MAP(num_starts=1))
    >>> states = fit.states({"level": [[5.2, None, 0.3]]}, rule=bg.PlugIn())
    >>> states.paths.tolist(), states.probabilities.round(2).tolist()
    ([[1, 0, 0]], [[[0.0, 1.0], [0.53, 0.47], [1.0, 0.0]]])
    """
    return _states_by(rule, self, X, site, are_local=False)


@public
def local(self: TrainedProgram, X: Data, *, rule: HiddenStatesRule, site: str | None = None) -> HiddenStates:
    """The posterior of a discrete latent of each row, of a program with `local=(...)`, given all else in the row.

    The answer is that of `states`, its time steps the cells of the latent in a row: one, unless it is sampled in a
    further plate. State s is the s-th of its values. Where there are classes, it is given each class. `PlugIn()`
    also gives the most probable joint value of all local latents, `paths`.

    Args:
        X: rows, in any form that `fit` takes.
        rule: an object such as `PlugIn()` or `BMA()`.
        site: the latent, where there are several.

    Raises:
        ModelError: a model without local latents; several of them, and none named.
        PredictionError: a rule that the fit cannot answer; an average over structures.
    """
    return _states_by(rule, self, X, site, are_local=True)


def _site_of_states(fit: TrainedProgram, site: str | None, are_local: bool) -> str:
    """The site with hidden states, or the local latent: that of this name, or the only one.

    Raises:
        ModelError: a model without any, or with several such sites and none named.
        PredictionError: an average over structures.
    """
    if not isinstance(fit.posterior, ProcessPosterior):
        raise PredictionError(
            "The members of an average have states of their own: ask one, fit.best.states(X, rule=...)."
        )
    sites = () if fit.concrete.response is not None else sites_with_states(fit.program)
    sites = tuple(fit.program.structure.joint_values()) if are_local else sites
    if not sites and are_local:
        raise ModelError(
            f"{type(fit.model).__name__} has no discrete latents of its rows: they are sites of one's own program, "
            "GenerativeProgram(function, local=(...))."
        )
    if not sites:
        raise ModelError(
            f"{type(fit.model).__name__} has no hidden states: none of its blocks, or of the sites of one's own "
            "program, is sampled from a distribution whose likelihood has hidden states."
        )
    if site is None and len(sites) > 1:
        raise ModelError(
            f"There are several {'local latents' if are_local else 'chains of hidden states'}: name one of them, "
            f"site={quote_some(sites)}."
        )
    if site is not None and site not in sites:
        kind = "is no local latent. These are" if are_local else "has no hidden states. Those that have are"
        raise ModelError(f"site={site!r} {kind} {quote_some(sites)}.")
    return sites[0] if site is None else site


def _states_by(rule: HiddenStatesRule, fit: TrainedProgram, X: Data, site: str | None, are_local: bool) -> HiddenStates:
    """The states of a site, or the values of a local latent, by a rule."""
    if isinstance(rule, type) or not isinstance(rule, HiddenStatesRule):
        raise PredictionError(f"rule= is {rule!r}, and must be an object, such as PlugIn() or BMA().")
    with requested(None):
        name = _site_of_states(fit, site, are_local)
        table = read_table(X, least_rows=0)
        rows = fit.rows_of(table)
        warn_of_unknown(table.unknown_cells)
        latent = dict(fit.program.structure.local).get(name)
        lengths = _lengths(fit, table, name) if latent is None else np.full(rows.num_rows, math.prod(latent.row_shape))
        return dataclasses.replace(rule.states(fit, rows, name, lengths), index=table.index)


def _lengths(fit: TrainedProgram, table: Table, site: str) -> Int[np.ndarray, " n"]:
    """Number of time steps of each sequence as given: in padded arrays of numbers an end cannot be seen."""
    conjugate, are_symbols = fit.concrete.column_blocks(fit.schema), fit.program.structure.attribute[site].discrete
    block = None if conjugate is None else next(block for block in conjugate.blocks if block.name == site)
    if block is not None and not fit.are_sites(table.names):
        names = list(fit.schema.names_in(table, block.columns))
    elif block is not None and block.family.traits.covariate is not None:  # simulated rows, with columns of lengths
        return np.asarray(table.column(f"{site}_{block.family.traits.covariate}")).astype(np.int64)
    else:
        names = [site] if table.named else list(table.names)
    if are_symbols:
        return sequence_lengths({name: table.sequences(name) for name in names}, are_symbols)
    cells = {name: table.column(name) for name in names}
    if any(column.ndim > 2 for column in cells.values()):  # time steps that are arrays
        return np.array([steps.shape[0] for steps in cells[names[0]]], int)
    return sequence_lengths(dict(cells), are_symbols)


Filled = dict[str, Shaped[np.ndarray, "draws n D"]]  # block -> its cells


@public
def impute(self: TrainedProgram, X: Data, num_draws: int = 0, *, seed: Seed = 0) -> Any:
    """X with its missing cells imputed, given the observed cells of their row.

    The default is the mean, sum_k p(k | x_observed) E[x_missing | k, x_observed] over classes k, and the most
    probable value in categorical and binary columns. Draws also show the uncertainty of the cells. Parameters are
    integrated out in exact fits, and averaged over 200 of the draws of `NUTS`, each weighted by the probability of
    the row. `fit` and `predict` do not need imputation: they marginalise.

    Args:
        X: rows, in any form that `fit` takes. The result has the same form, but lists and series become arrays.
        Draws are the first axis of an array, or a list of frames.
        num_draws: number of imputed copies of X to draw; 0 for one of means and most probable values.
        seed: integer or JAX key, of the draws.

    Raises:
        ModelError: a program of one's own, whose cells have no known conditional distributions.
        PredictionError: an average over structures; a row that is impossible under every class.

    >>> import bayesgen as bg
    >>> X = [[1.0, 2.1], [2.0, 3.9], [3.0, 6.2], [7.0, 1.0], [8.0, 2.0], [9.0, 2.9]]
    >>> fit = bg.fit(bg.GaussianDiscriminant("tied"), X, list("aaabbb"), method=bg.Exact())
    >>> fit.impute([[2.5, None], [8.5, 2.4]]).round(1).tolist()
    [[2.5, 4.2], [8.5, 2.4]]
    >>> fit.impute([[2.5, None], [8.5, 2.4]], num_draws=100).shape
    (100, 2, 2)
    """
    conjugate = self.concrete.column_blocks(self.schema)
    if conjugate is None:
        raise ModelError(
            "A program of one's own has no known conditional distributions of its cells, so it imputes none. State the "
            "model by blocks, GenerativeClassifier(...); predictions marginalise missing cells anyway."
        )
    response = self.concrete.response
    if response is not None and (response.column is None or response.is_parent):
        raise ModelError(
            f"{type(self.model).__name__} has no distribution of the cells of X alone: they are given, or made "
            "from y. JointGaussianRegression() imputes cells."
        )
    check_integer("impute: num_draws", num_draws, 0, PredictionError)
    table = read_table(X)
    rows = self.concrete.read_rows(self.schema, table)
    warn_of_unknown(table.unknown_cells)
    self.concrete.check_rows(self.schema, rows.values)
    _refuse_sequences(conjugate, rows)
    processes = self.posterior.densities(conjugate)
    rng = generator(as_key(seed))
    row_size = len(processes) * max(len(self.classes), 1) + max(num_draws, 1) * sum(
        np.shape(values)[1] for values in rows.values.values()
    )
    parts = []
    for part in chunks(rows.num_rows, max(1, TABLE_CELLS // row_size)):
        chunk = rows.take(part)
        responsibilities = _responsibilities(processes, chunk, part.start)
        drawn = _draws(processes, chunk, responsibilities, num_draws, rng) if num_draws else None
        parts.append(_means(processes, chunk, responsibilities) if drawn is None else drawn)
    filled = {name: np.concatenate([part[name] for part in parts], axis=1) for name in rows.observed}
    copies = [
        table.with_cells(_cells(self.schema, table, conjugate, rows, filled, draw)) for draw in range(max(num_draws, 1))
    ]
    return collected(copies) if num_draws else copies[0]


def _refuse_sequences(conjugate: Conjugate, rows: Rows) -> None:
    """Refuse missing sequences, and sequences with missing time steps, which are not imputed."""
    for block in conjugate.blocks:
        if block.family.kind.has_steps and block.name in rows.observed:
            raise ModelError(
                f"Block {block.name!r} is of sequences, of which some are missing or lack steps, and impute does not "
                "fill in cells of sequences. Leave these rows out, or impute by a model without this block; fit and "
                "predict marginalise missing time steps."
            )


def _responsibilities(processes: Sequence[Densities], rows: Rows, start: int) -> Float[np.ndarray, "S n K"]:
    """Probability of each process and class, given the observed cells of each row."""
    tables = np.stack([chunk_table(densities, rows, slice(0, rows.num_rows)) for densities in processes])
    total = scipy.special.logsumexp(tables, axis=(0, 2))
    if np.isneginf(total).any():
        row = start + int(np.argmax(np.isneginf(total)))
        raise PredictionError(
            f"Row {row} is impossible under every class, so nothing follows from it for its missing cells. Fit with "
            "MAP() under a prior that leaves every value some probability, or with one that averages over processes."
        )
    return np.exp(tables - total[:, None])


def _means(processes: Sequence[Densities], rows: Rows, responsibilities: Float[np.ndarray, "S n K"]) -> Filled:
    """The mean of each missing cell; of categorical and binary ones the most probable value (of equals the first)."""
    means: dict[str, Any] = dict.fromkeys(rows.observed, 0.0)
    for (_, blocks), class_weights in zip(processes, responsibilities, strict=True):
        for name, density in blocks:
            if name in means:
                expected = density.expected(np.asarray(rows.values[name], np.float64), np.asarray(rows.observed[name]))
                weights = class_weights.reshape(*class_weights.shape, *[1] * (expected.ndim - 2))
                means[name] = means[name] + (weights * expected).sum(1)
    modes = {name: mean.argmax(-1) if mean.ndim > 2 else mean for name, mean in means.items()}
    return {name: mode[None] for name, mode in modes.items()}


def _draws(
    processes: Sequence[Densities],
    rows: Rows,
    responsibilities: Float[np.ndarray, "S n K"],
    num_draws: int,
    rng: np.random.Generator,
) -> Filled:
    """Draws of a process and a class given the observed cells, and of the missing cells given these."""
    num_processes, num_rows, num_classes = responsibilities.shape
    by_row = responsibilities.transpose(1, 0, 2).reshape(num_rows, num_processes * num_classes)
    process_of, class_of = np.divmod(positions(rng, by_row, num_draws), num_classes)
    filled: Filled = {name: np.zeros((num_draws, *np.shape(rows.values[name]))) for name in rows.observed}
    for index, (_, blocks) in enumerate(processes):
        draw, row = np.nonzero(process_of == index)
        for name, density in blocks:
            if name in filled and len(row):
                values, observed = (np.asarray(part[name])[row] for part in (rows.values, rows.observed))
                filled[name][draw, row] = density.sample(values.astype(np.float64), observed, class_of[draw, row], rng)
    return filled


def _cells(
    schema: Schema, table: Table, conjugate: Conjugate, rows: Rows, filled: Filled, draw: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Column of the table -> the rows in which it is missing, and the imputed values, decoded."""
    cells = {}
    for block in conjugate.blocks:
        if block.name not in rows.observed:
            continue
        response = None if schema.response is None else schema.response.name  # the last column, and none of X
        columns = [column for column in block.columns if column != response]
        names = schema.names_in(table, columns)
        for index, (column, name) in enumerate(zip(columns, names, strict=True)):
            missing = np.flatnonzero(~np.asarray(rows.observed[block.name][:, index]))
            if len(missing):
                kind, categories = schema.kind_of(column), schema.categories.get(column, ())
                imputed_cells = kind.decode(column, categories, filled[block.name][draw, missing, index])
                cells[name] = (missing, np.asarray(imputed_cells))
    return cells
