"""`HiddenStates`: the states of the hidden chains that may have made sequences, step by step."""

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from bayesgen.data import Rows, Table, read_table, sequence_lengths
from bayesgen.describe import described, quote_some
from bayesgen.errors import ModelError, PredictionError
from bayesgen.posteriors import ProcessPosterior
from bayesgen.program import sites_with_states
from bayesgen.records import by_content
from bayesgen.typing import Float, Int, Shaped

from .reading import TrainedOnRows

if TYPE_CHECKING:
    import pandas as pd


@by_content
class HiddenStates:
    """The hidden states of n sequences of up to T steps, of S states. What is past the end of a sequence is NaN, or -1.

    Where the model has classes, states are told for each of them, as if the sequence were of that class: an axis of
    the K classes follows that of the rows. State 0 of one class has nothing to do with state 0 of another.

    Attributes:
        site: the column, block or attribute site.
        probabilities: p(state at each step | the whole sequence): smoothed, from the steps before and after. NaN, too,
            where the sequence is impossible under the class.
        paths: the path of states that is most probable as a whole (Viterbi), of `PlugIn()`. None for averages over
            processes: no recursion finds the path that is most probable on the average. See `most_probable`.
        lengths: how many steps each sequence has.
        log_marginal: log p(x) of each row, states and classes summed out, as in the rule's prediction.
        classes: the labels, in the order of their axis; empty where the model has no classes.
        standard_error: Monte Carlo standard error of each probability; None where it is exact.
        pareto_k: tail index of the weights of draws, as in `ClassPrediction`; None where no draws are weighed.
        reordered: the share of draws whose states had another order than those of the draw of highest density, and
            were put in that order: 0 where states have names of their own, as the prior treats them differently. None
            where no draws are averaged.
        index: the index of X, of a pandas frame, by which `to_frame` names rows; None where they have positions alone.
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

    def __repr__(self) -> str:
        num_states = self.probabilities.shape[-1]
        highest = self.probabilities.max(-1, initial=0.0)
        highest = highest[~np.isnan(highest)]
        facts = {
            "classes": quote_some(self.classes.tolist()) if len(self.classes) else None,
            "steps": f"{self.lengths.min()} to {self.lengths.max()}" if len(self.lengths) else None,
            "probability of the most probable state": f"{highest.min():.3f} to {highest.max():.3f}, mean "
            f"{highest.mean():.3f}"
            if highest.size
            else None,
            "next": "states.probabilities, states.paths, states.most_probable, states.to_frame()",
        }
        return described(f"HiddenStates of {len(self.lengths)} sequences, {num_states} states", facts)

    def until(self, lengths: Int[np.ndarray, " n"]) -> "HiddenStates":
        """The same of sequences that end there: NaN, and -1, past their ends, and where they are impossible."""
        inside = np.arange(self.probabilities.shape[-2]) < lengths[:, None]
        known = (inside[:, None] if len(self.classes) else inside) & (self.probabilities.sum(-1) > 0)

        error = self.standard_error
        return dataclasses.replace(
            self,
            probabilities=np.where(known[..., None], self.probabilities, np.nan),
            paths=None if self.paths is None else np.where(known, self.paths, -1),
            lengths=lengths,
            standard_error=None if error is None else np.where(known[..., None], error, np.nan),
        )

    @property
    def most_probable(self) -> Int[np.ndarray, "n *K T"]:
        """The most probable state at each step by itself (the first of equal ones), -1 where there is none.

        No path has more states right, expected; as a path, it may be less probable than `paths`, or impossible.
        """
        best = np.nan_to_num(self.probabilities, nan=-1.0).argmax(-1)
        return np.where(np.isnan(self.probabilities).any(-1), -1, best)

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame with a line for each row, class (if there are any), step and state, and its probability.

        Column "row" names the rows of X: by its index, or by position where it has none.
        """
        import pandas as pd

        places = np.nonzero(np.arange(self.probabilities.shape[-2]) < self.lengths[:, None])
        by_class = self.probabilities if len(self.classes) else self.probabilities[:, None]
        chosen = np.moveaxis(by_class, 1, 2)[places]  # step, class, state
        step, of_class, state = np.indices(chosen.shape)
        row = places[0][step.ravel()]
        columns: dict[str, Any] = {"row": row if self.index is None else self.index.take(row)}
        if len(self.classes):
            columns["class"] = self.classes[of_class.ravel()]
        columns |= {"step": places[1][step.ravel()], "state": state.ravel(), "probability": chosen.ravel()}
        return pd.DataFrame(columns)


@runtime_checkable
class TellsStates(Protocol):
    """A rule of prediction, as far as hidden states go."""

    def states(self, fit: Any, rows: Rows, site: str, lengths: Int[np.ndarray, " n"]) -> HiddenStates:
        """The states of a site at the steps of each sequence, which has so many, missing ones included."""


def site_of_states(fit: TrainedOnRows, site: str | None) -> str:
    """The site whose states are asked for: that of this name, or the only one there is.

    Raises:
        ModelError: a model without hidden states, or with several chains of them and none named.
        PredictionError: an average over structures.
    """
    if not isinstance(fit.posterior, ProcessPosterior):
        raise PredictionError(
            "The members of an average have states of their own: ask one, fit.best.states(X, rule=...)."
        )
    sites = () if fit.concrete.response is not None else sites_with_states(fit.program)
    if not sites:
        raise ModelError(
            f"{type(fit.model).__name__} has no hidden states: states are those of DirichletHiddenMarkov(), or of a "
            "site of one's own program that is sampled from HiddenMarkov(), its emissions of a registered distribution."
        )
    if site is None and len(sites) > 1:
        raise ModelError(f"There are several chains of hidden states: name one of them, site={quote_some(sites)}.")
    if site is not None and site not in sites:
        raise ModelError(f"site={site!r} has no hidden states. Those that have are {quote_some(sites)}.")
    return sites[0] if site is None else site


def states_by(rule: TellsStates, fit: TrainedOnRows, X: Any, site: str) -> HiddenStates:
    """What a rule tells of the states of a site."""
    table = read_table(X, least_rows=0)
    fit.warn_of_new_values(table)
    states = rule.states(fit, fit.rows_of(table), site, _lengths(fit, table, site))
    return dataclasses.replace(states, index=table.index)


def _lengths(fit: TrainedOnRows, table: Table, site: str) -> Int[np.ndarray, " n"]:
    """How many steps each sequence has, as the user gives it: arrays of numbers say nothing of what is past an end."""
    conjugate, of_symbols = fit.concrete.conjugate(fit.schema), fit.program.structure.attribute[site].discrete
    block = None if conjugate is None else next(block for block in conjugate.blocks if block.name == site)
    if block is not None and not fit.are_sites(table.names):
        names = list(fit.schema.names_in(table, block.columns))
    elif block is not None and block.family.covariate is not None:  # simulated rows, which tell their lengths
        return np.asarray(table.column(f"{site}_{block.family.covariate}")).astype(np.int64)
    else:
        names = [site] if table.named else list(table.names)
    if of_symbols:
        return sequence_lengths({name: table.sequences(name) for name in names}, of_symbols)
    cells = {name: table.column(name) for name in names}
    if any(of_column.ndim > 2 for of_column in cells.values()):  # steps that are arrays
        return np.array([of_row.shape[0] for of_row in cells[names[0]]], int)
    return sequence_lengths(dict(cells), of_symbols)
