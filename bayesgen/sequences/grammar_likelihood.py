"""The likelihood of strings of a grammar: rows are retained, and parse trees are marginalised."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import PADDING, Rows
from bayesgen.runtime import chunks
from bayesgen.statistics import LatentLikelihood, Parameters, RetainedRows, Sample, is_inside, is_missing
from bayesgen.typing import Array, Bool, Float, Int, Real

from .grammar_rules import GrammarRules, NormalForm, normal_form
from .inside import inside, log_inside
from .semirings import BOOLEAN, LOG

CHART_CELLS = 1 << 24  # of tables of nodes and spans of strings that are parsed at once


def _are_derived(form: NormalForm, chart_codes: Int[np.ndarray, "n T"]) -> Bool[np.ndarray, " n"]:
    """Mask of the strings that are derived; codes are followed by one for missing symbols and one for padding."""
    if not chart_codes.shape[1]:
        return np.zeros(len(chart_codes), bool)
    choices, leaves = form.weights(BOOLEAN, np.ones(len(form.rules.rules), bool))
    leaves = np.pad(leaves, ((0, 0), (0, 1)))[:, chart_codes.T]
    lengths = (chart_codes <= len(form.rules.symbols)).sum(1)
    return np.asarray(inside(BOOLEAN, form, choices, leaves, lengths, chart_codes.shape[1])[0])


BLOCK_ROWS = 16  # of about the same length, parsed together: see benchmarks/grammars.py
TABLES_AT_ONCE = 4  # of pairs by spans, in the density of a string and its gradient


@dataclasses.dataclass(frozen=True)
class GrammarLikelihood(LatentLikelihood):
    """Strings of a grammar, (n, T), padded. Parameters: `log_probs` (K, R), log probabilities of the rules.

    Missing symbols are marginalised; their number is known, and the length is part of the model. A string that is
    missing altogether has factor 1: its first time step is padding, and not observed.
    """

    rules: GrammarRules

    def why_impossible(self, site: str, rows: Rows, numbers: Int[np.ndarray, " n"]) -> str | None:
        """The first string with a weight that the grammar does not derive, and how many there are; None if none."""
        form, codes, observed = normal_form(self.rules), np.asarray(rows.values[site]), rows.observed.get(site)
        chart_codes = np.where(codes == PADDING, len(self.rules.symbols) + 1, codes)
        if observed is not None:
            chart_codes = np.where(observed | (codes == PADDING), chart_codes, len(self.rules.symbols))
        distinct, distinct_index = np.unique(chart_codes, axis=0, return_inverse=True)
        cells_per_row = max(form.num_nodes, len(form.pairs)) * codes.shape[1] ** 2
        parts = chunks(len(distinct), CHART_CELLS // max(cells_per_row, 1))
        is_derived = np.concatenate([np.zeros(0, bool), *(_are_derived(form, distinct[part]) for part in parts)])
        is_string = np.ones(len(codes), bool) if observed is None else ~is_missing(codes, observed)
        outside = np.flatnonzero(~is_derived[distinct_index.ravel()] & is_string & (np.asarray(rows.frequencies) > 0))
        if not outside.size:
            return None
        shown = [
            (*self.rules.symbols, None)[code] for code in chart_codes[outside[0]] if code <= len(self.rules.symbols)
        ]
        is_text = all(isinstance(symbol, str) and len(symbol) == 1 for symbol in shown)
        string = repr("".join(map(str, shown)) if is_text else shown) if shown else "the empty string"
        return (
            f"{site!r} has in row {numbers[outside[0]]} {string}, which is not in the language of the grammar "
            f"{self.rules}. No probabilities of its rules explain it. Add rules, or drop such rows: there are "
            f"{outside.size}."
        )

    def summary_of(self, sample: Sample) -> RetainedRows:
        """The distinct strings of each class with their weights, because short strings repeat."""
        values, classes, weights = sample.values, sample.classes, sample.weights
        if sample.observed is None:
            keys = np.asarray(values) if classes.ndim == 2 else np.column_stack([classes, values])
            _, firsts, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            counts = np.ones(len(keys)) if weights is None else np.asarray(weights, float)
            shares = counts[:, None] * (1.0 if classes.ndim == 1 else np.asarray(classes))
            sums = np.zeros((len(firsts), shares.shape[1]))
            np.add.at(sums, groups.ravel(), shares)
            values = np.asarray(values)[firsts]
            classes, weights = (classes[firsts], sums[:, 0]) if classes.ndim == 1 else (sums, None)
            sample = dataclasses.replace(sample, values=values, classes=classes, weights=weights)
        return super().summary_of(sample)

    @functools.partial(jax.jit, static_argnums=0)
    def log_probs(
        self,
        parameters: Parameters,
        values: Real[Array, "m T"],
        observed: Bool[Array, "m T"] | None,
        classes: Int[Array, " m"],
    ) -> Float[Array, " m"]:
        form = normal_form(self.rules)
        choices, leaves = form.weights(LOG, jnp.asarray(parameters["log_probs"]))
        return log_probs_of(form, choices[classes], leaves[classes], jnp.asarray(values), observed)

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T"]) -> float:
        """The sizes of the tables of spans."""
        return float(TABLES_AT_ONCE * max(len(normal_form(self.rules).pairs), 1) * values.shape[1] ** 2 + 1)


@functools.partial(jax.jit, static_argnums=0)
def log_probs_of(
    form: NormalForm,
    choices: Float[Array, "m N C"],
    leaves: Float[Array, "m N V"],
    codes: Real[Array, "m T"],
    observed: Bool[Array, "m T"] | None = None,
) -> Float[Array, " m"]:
    """Log probability of each string under weights of its own; 0 for a missing string. Traceable."""
    lengths, num_symbols = is_inside(codes).sum(-1), leaves.shape[-1] - 1
    if not codes.size:
        return jnp.full(len(codes), -jnp.inf, choices.dtype)
    is_symbol = (codes >= 0) & (codes < num_symbols)
    columns = jnp.where(is_symbol, codes, num_symbols).astype(int)
    if observed is not None:
        is_symbol, columns = is_symbol | ~observed, jnp.where(observed, columns, num_symbols)
    steps = jnp.take_along_axis(leaves, columns[:, None], -1)
    steps = jnp.where(is_symbol[:, None], steps, -jnp.inf)
    log_probs = _by_length(form, choices, steps, lengths)
    return log_probs if observed is None else jnp.where(is_missing(codes, observed), 0.0, log_probs)


def _by_length(
    form: NormalForm, choices: Float[Array, "m N C"], leaves: Float[Array, "m N T"], lengths: Int[Array, " m"]
) -> Float[Array, " m"]:
    """Log probabilities of strings, in blocks of about the same length, because time is cubic in the longest."""
    num_rows = len(lengths)
    num_blocks = -(-num_rows // BLOCK_ROWS)
    order = jnp.resize(jnp.argsort(lengths), (num_blocks * BLOCK_ROWS,))

    def block_log_probs(rows: Int[Array, " b"]) -> Float[Array, " b"]:
        block = choices[rows], leaves[rows], lengths[rows]
        longest = block[2].max(initial=0)
        return jax.vmap(lambda *row: log_inside(form, *row, longest))(*block)

    if num_blocks == 1:
        return block_log_probs(jnp.arange(num_rows))
    in_order = jax.lax.map(block_log_probs, order.reshape(num_blocks, BLOCK_ROWS)).ravel()
    return jnp.zeros_like(in_order[:num_rows]).at[order[:num_rows]].set(in_order[:num_rows])
