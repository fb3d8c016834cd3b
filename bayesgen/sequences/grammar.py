"""Probabilistic context-free grammars as distributions over whole strings, and their likelihood."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import validate_sample

from bayesgen.data import PADDING, UNKNOWN, Rows, SequenceOf, padded_symbols, refuse_unknown, step_codes, steps_of
from bayesgen.errors import DataError, ModelError, check_integer, warn
from bayesgen.runtime import ROUNDING, chunks, compiled
from bayesgen.statistics import (
    LatentLikelihood,
    Parameters,
    RetainedRows,
    Sample,
    SequenceDistribution,
    is_inside,
    is_missing,
    namespace,
    precise,
    register,
    sequences,
)
from bayesgen.typing import Array, Bool, Float, Int, PRNGKeyArray, Real

from .grammar_rules import GrammarRules, NormalForm, StatedRules, Symbol, normal_form
from .inside import ParseTree, inside, log_inside, log_length_probabilities, most_probable_parse, random_codes
from .semirings import BOOLEAN, LOG, safe_log

MOST_NEWTON_STEPS = 200


def total_probabilities(rules: GrammarRules, probs: Float[np.ndarray, " R"]) -> Float[np.ndarray, " N"]:
    """The total probability of the strings of each nonterminal: below 1 where derivations may not end.

    These are the least solution of z = f(z), where f sums p(rule) times the product of z over its nonterminals, to
    which Newton's method from 0 rises.

    Source: Etessami and Yannakakis (2009), Recursive Markov chains, stochastic grammars, and monotone systems of
    nonlinear equations, section 5.
    """
    size = len(rules.nonterminals)
    lefts = [rules.place(left) for left, _ in rules.rules]
    rights = [[place for place in map(rules.place, right) if place is not None] for _, right in rules.rules]
    totals = np.zeros(size)
    for _ in range(MOST_NEWTON_STEPS):
        values, slopes = np.zeros(size), np.zeros((size, size))
        for left, right, prob in zip(lefts, rights, probs, strict=True):
            values[left] += prob * np.prod(totals[right])
            for index, place in enumerate(right):
                slopes[left, place] += prob * np.prod(totals[right[:index] + right[index + 1 :]])
        step = np.linalg.lstsq(np.eye(size) - slopes, values - totals, rcond=None)[0]
        totals = np.clip(totals + step, 0.0, 1.0)
        if np.abs(step).max() < ROUNDING:
            break
    return totals


MAX_LENGTH = 50  # of samples, by default
SUM_TOLERANCE = 1e-4  # for sums of probabilities in single precision
String: TypeAlias = str | Sequence[Symbol]


class ProbabilisticGrammar(SequenceDistribution):
    """Strings of a context-free grammar whose rules have probabilities.

    Generative story::

        the string is the start symbol
        while it has a nonterminal: rewrite the first one, by one of its rules ~ Categorical(probabilities)

    The probability of a string is the sum over all its parse trees of the products of the probabilities of their rules,
    by the inside algorithm, whose time is cubic in the length. The length of a string is random, too. The empty string,
    and strings outside the language, have probability 0. Where derivations may not end, the probabilities of all
    strings sum to less than 1; a warning says so where probabilities are numbers.

    Values are codes of the terminals `symbols`, (..., T), padded by -1 at the end; `encode` and `decode` convert
    between strings and codes, and data of programs may be strings. Samples have at most `max_length` symbols, as if
    longer strings were rejected. Densities are not conditioned on this length, and exist for strings of any length.

    Args:
        rules: nonterminal -> list of right-hand sides, each a list or tuple of symbols, or a string that is split at
            white space. Symbols that are not keys are terminals. Rules may have any length but 0. Or checked
            `GrammarRules`.
        probabilities: nonterminal -> (..., number of its rules); or the array, where there is one nonterminal.
        start: the nonterminal that derivations begin with; by default the first one.
        max_length: the number of time steps T of samples.

    Raises:
        ModelError: invalid rules, see `GrammarRules.of`; probabilities that are missing, of another number than the
            rules, negative, or that do not sum to 1.

    Source: Baker (1979), Trainable grammars for speech recognition; Manning and Schütze (1999), Foundations of
    Statistical Natural Language Processing, chapter 11.

    >>> brackets = ProbabilisticGrammar({"S": ["( )", "( S )", "S S"]}, np.array([0.6, 0.3, 0.1]))
    >>> codes = brackets.encode(["()", "(())", "()()", ")("])
    >>> [round(float(p), 3) for p in jnp.exp(brackets.log_prob(codes))]
    [0.6, 0.18, 0.036, 0.0]
    >>> tree, log_prob = brackets.parse("(())()")
    >>> print(tree)
    (S (S ( (S ( )) )) (S ( )))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.independent(constraints.unit_interval, 1),
    }
    pytree_data_fields = ("probs",)
    pytree_aux_fields = ("rules",)
    symbols: tuple[Symbol, ...]

    def __init__(
        self,
        rules: StatedRules | GrammarRules,
        probabilities: Mapping[Symbol, Any] | Any,
        *,
        start: Symbol | None = None,
        max_length: int | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.rules = rules if isinstance(rules, GrammarRules) else GrammarRules.of(rules, start)
        self.probs = _joined(self.rules, probabilities)
        num_steps = MAX_LENGTH if max_length is None else max_length
        check_integer("ProbabilisticGrammar: max_length", num_steps, 1)
        least = self.rules.least_lengths[self.rules.start]
        if num_steps < least:
            raise ModelError(
                f"ProbabilisticGrammar: the shortest string has {least:g} symbols, more than max_length={num_steps}."
            )
        super().__init__(
            self.probs.shape[:-1],
            None,
            max_length=int(num_steps),
            symbols=self.rules.symbols,
            validate_args=validate_args,
        )
        if not isinstance(rules, GrammarRules) and not isinstance(self.probs, jax.core.Tracer):
            total = self.total_probability
            if (total < 1 - SUM_TOLERANCE).any():
                warn(
                    f"ProbabilisticGrammar: the probabilities of all strings sum to {np.min(total):.4g}, because "
                    "derivations may go on for ever. Rules that end are too improbable for the others."
                )

    @property
    def total_probability(self) -> Float[np.ndarray, "..."]:
        """The sum of the probabilities of all strings: 1, or less where derivations may not end."""
        place, probs = normal_form(self.rules).start, np.asarray(self.probs, np.float64)
        distinct, distinct_index = np.unique(probs.reshape(-1, probs.shape[-1]), axis=0, return_inverse=True)
        totals = np.array([total_probabilities(self.rules, row)[place] for row in distinct])
        return totals[distinct_index.ravel()].reshape(self.batch_shape)

    @property
    def most_steps(self) -> None:
        """None: data may have any length; `max_length` is that of samples."""
        return

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return sequences(len(self.rules.symbols))

    @validate_sample
    @compiled
    def log_prob(self, value: Real[Array, "... T"]) -> Float[Array, "..."]:
        """Log probability of each string, over all its parse trees."""
        codes, form = jnp.asarray(value), normal_form(self.rules)
        batch = lax.broadcast_shapes(self.batch_shape, codes.shape[:-1])
        num_rows = math.prod(batch)
        codes = jnp.broadcast_to(codes, (*batch, codes.shape[-1])).reshape(num_rows, codes.shape[-1])
        choices, leaves = (
            jnp.broadcast_to(table, (*batch, *table.shape[-2:])).reshape(num_rows, *table.shape[-2:])
            for table in form.weights(LOG, jnp.asarray(safe_log(self.probs)))
        )
        return log_probs_of(form, choices, leaves, codes).reshape(batch)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Int[Array, "... T"]:
        """Independent strings of at most `max_length` symbols.

        Raises:
            ModelError: no such string has a positive probability. Where probabilities are traced, the strings are
                empty instead.
        """
        assert key is not None
        form, num_steps = normal_form(self.rules), self.steps_to_sample
        log_probs = safe_log(self.probs).reshape(-1, len(self.rules.rules))
        lengths, tables = jax.vmap(log_length_probabilities, (None, 0, None))(form, log_probs, num_steps)
        if not isinstance(lengths, jax.core.Tracer) and np.isneginf(lengths).all(-1).any():
            raise ModelError(
                f"ProbabilisticGrammar: no string of at most {num_steps} symbols has a positive probability. Give a "
                "greater max_length."
            )
        num_draws = int(np.prod(sample_shape, dtype=int))
        keys = jax.random.split(key, (num_draws, len(log_probs)))
        derive_batch = jax.vmap(random_codes, (None, 0, 0, 0, 0))
        codes = jax.vmap(derive_batch, (None, None, None, None, 0))(form, log_probs, lengths, tables, keys)
        return codes.reshape(*sample_shape, *self.batch_shape, num_steps)

    def encode(self, strings: Iterable[String]) -> Int[np.ndarray, "n T"]:
        """Codes of strings of terminals, padded by -1.

        Raises:
            DataError: not a list of strings; a symbol that is not a terminal, with its row and time step.
        """
        if isinstance(strings, str) or not isinstance(strings, Iterable):
            raise DataError(f"encode takes a list of strings, got {strings!r}. Give [string] for one.")
        rows = list(strings)
        steps = steps_of(np.fromiter(rows, object, len(rows)), "strings")
        codes, _ = step_codes(steps, "The list of strings", self.symbols)
        if (codes == UNKNOWN).any():
            refuse_unknown(steps, codes, "The list of strings", self.symbols)
        padded, observed = padded_symbols(codes, steps.lengths, steps.missing)
        if not observed.all():
            row, step = np.argwhere(~observed)[0].tolist()
            raise DataError(
                f"String {row} is missing, or has no symbol at step {step}. Give it whole, or leave it out."
            )
        return padded[:, : steps.lengths.max(initial=0)]

    def decode(self, codes: Int[Array, "n T"]) -> list[String]:
        """Strings of codes: text where every terminal is one character, else tuples of terminals.

        Raises:
            DataError: not rows of codes of terminals, padded by -1 at the end.
        """
        array = np.asarray(codes)
        is_right = array.ndim == 2 and array.dtype.kind in "iuf" and self.support(array).all()
        if not is_right:
            raise DataError(
                f"decode takes codes (n, T), each row whole numbers from 0 to {len(self.symbols) - 1} and then "
                f"{PADDING}; got {codes!r}."
            )
        rows = SequenceOf().decode("strings", self.symbols, array.astype(int))
        return [row if isinstance(row, str) else tuple(row) for row in rows]

    def parse(self, string: String) -> tuple[ParseTree, float]:
        """The most probable parse tree of a string, over the rules as they were written, and its log probability.

        Raises:
            DataError: a symbol that is not a terminal; a string that is not in the language.
            ModelError: this is a batch of grammars.
        """
        if self.batch_shape:
            raise ModelError("ProbabilisticGrammar: a batch of grammars has no one parse. Take one of them.")
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.asarray(self.probs, np.float64))
        best = most_probable_parse(self.rules, log_probs, self.encode([string])[0], list(string))
        if best is None:
            raise DataError(f"{string!r} is not in the language of the grammar: it has no parse tree.")
        return best


def _joined(rules: GrammarRules, probabilities: Mapping[Symbol, Any] | Any) -> Float[Array, "*batch R"]:
    """Probabilities of all rules in one array, checked unless they are traced."""
    if not isinstance(probabilities, Mapping):
        if len(rules.nonterminals) > 1:
            raise ModelError(
                f"ProbabilisticGrammar: there are {len(rules.nonterminals)} nonterminals. Give probabilities as a "
                "mapping from each of them to those of its rules."
            )
        probabilities = {rules.start: probabilities}
    if set(probabilities) != set(rules.nonterminals):
        without_any = [repr(symbol) for symbol in rules.nonterminals if symbol not in probabilities]
        terminals = [repr(symbol) for symbol in probabilities if symbol not in rules.nonterminals]
        raise ModelError(
            "ProbabilisticGrammar: probabilities are for each nonterminal; without any: "
            f"{', '.join(without_any) or 'none'}; no nonterminal: {', '.join(terminals) or 'none'}."
        )
    arrays = [_numbers(nonterminal, probabilities[nonterminal]) for nonterminal in rules.nonterminals]
    for nonterminal, sides, array in zip(rules.nonterminals, rules.right_sides, arrays, strict=True):
        if array.shape[-1:] != (len(sides),):
            raise ModelError(
                f"ProbabilisticGrammar: {nonterminal!r} has {len(sides)} rules, and its probabilities have the shape "
                f"{array.shape}. The last axis is that of the rules."
            )
        if not isinstance(array, jax.core.Tracer):
            numbers = np.asarray(array, np.float64)
            if not ((numbers >= 0).all() and (np.abs(numbers.sum(-1) - 1) < SUM_TOLERANCE).all()):
                raise ModelError(
                    f"ProbabilisticGrammar: the probabilities of the rules of {nonterminal!r} must be nonnegative and "
                    f"sum to 1, got {numbers.tolist()}."
                )
    batch = lax.broadcast_shapes(*(array.shape[:-1] for array in arrays))
    xp = namespace(*arrays)
    return xp.concatenate([xp.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays], -1)


def _numbers(nonterminal: Symbol, values: Any) -> Float[Array, "..."]:
    """A JAX array as it is; other numbers as a NumPy array in double precision."""
    try:
        return precise(values)
    except (TypeError, ValueError):
        raise ModelError(
            f"ProbabilisticGrammar: the probabilities of the rules of {nonterminal!r} are no numbers, got {values!r}."
        ) from None


# --- the likelihood ---------------------------------------------------------------------------------------------------


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


register(
    ProbabilisticGrammar,
    lambda grammar: GrammarLikelihood(grammar.rules),
    lambda grammar: {"log_probs": safe_log(grammar.probs)},
    event_dims={"log_probs": 1},
)
