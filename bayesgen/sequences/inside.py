"""Parse trees of strings: the inside recursion, which adds up the weights of all of them in any semiring.

For a node A of the normal form and the w symbols from i on,

    inside(A, i, w) = sum over pairs B C of A, and 0 < k < w, of w(A -> B C) inside(B, i, k) inside(C, i + k, w - k).

The widths w go one after another; all starts, pairs and splits of a width are one array operation. The table is stored
by starts and by ends of spans, so that both factors are contiguous: (first, start, width - 1) and (second, end,
T - width). In logs it is traced, and gives the log density; its derivative by log p(A -> B C) is the expected number of
uses of the rule in the parse tree, given x, by the outside recursion, which goes through the widths backwards. In NumPy
it gives the most probable parse tree (CKY), and whether strings are derived at all.

Source: Baker (1979), Trainable grammars for speech recognition; Goodman (1999), Semiring parsing; Eisner (2016),
Inside-outside and forward-backward algorithms are just backprop.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bayesgen.data import PADDING
from bayesgen.statistics import namespace
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Shaped

from .grammar_rules import GrammarRules, NormalForm, Symbol, normal_form, rule_name
from .semirings import LOG, MAX, Semiring, finite_or_zero, log_sum_exp


@dataclass(frozen=True)
class ParseTree:
    """A parse tree: a nonterminal and what it is rewritten to.

    Attributes:
        symbol: the nonterminal.
        children: a `ParseTree` for each nonterminal of the right-hand side, and its terminals as they are.

    >>> print(ParseTree("S", (ParseTree("S", ("a",)), ParseTree("S", ("b",)))))
    (S (S a) (S b))
    """

    symbol: Symbol
    children: "tuple[ParseTree | Symbol, ...]"

    def __str__(self) -> str:
        parts: list[str] = []
        pending: list[tuple[bool, ParseTree | Symbol]] = [(False, self)]  # and whether it is the end of a tree
        while pending:
            is_end, node = pending.pop()
            if is_end:
                parts.append(")")
            elif isinstance(node, ParseTree):
                parts.append(f" ({node.symbol}")
                pending += [(True, node), *((False, child) for child in reversed(node.children))]
            else:
                parts.append(f" {node}")
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"ParseTree{self}"

    @property
    def rule(self) -> str:
        """The rule at the root, as it is written."""
        right = tuple(child.symbol if isinstance(child, ParseTree) else child for child in self.children)
        return rule_name(self.symbol, right)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The string that the tree derives: its terminals from left to right."""
        return tuple(node for node in self._nodes() if not isinstance(node, ParseTree))

    def rules(self) -> list[str]:
        """The rules that the tree uses, from the root down and from left to right."""
        return [node.rule for node in self._nodes() if isinstance(node, ParseTree)]

    def _nodes(self) -> "Iterator[ParseTree | Symbol]":
        """All trees in this one and all terminals, from the root down and from left to right."""
        pending: list[ParseTree | Symbol] = [self]
        while pending:  # no recursion: trees may be as deep as strings are long
            node = pending.pop()
            yield node
            if isinstance(node, ParseTree):
                pending += reversed(node.children)


Tables: TypeAlias = tuple[Shaped[Array, "P starts T *batch"], Shaped[Array, "P ends widths *batch"]]
"""For each pair: its first nodes by (start, width - 1), its second nodes by (end, T - width)."""
Loop: TypeAlias = tuple[int, int]
"""The first and the last width that share arrays of one shape."""
SHORT = 8  # widths up to this one share one loop
GROWTH = 2.0  # ratio of the widths that share one loop: fewer loops compile sooner and compute more


def inside(
    semiring: Semiring,
    form: NormalForm,
    choices: Shaped[Array, "N C"],
    leaves: Shaped[Array, "N starts *batch"],
    lengths: Int[Array, "..."],
    num_steps: int,
    longest: Int[Array, ""] | None = None,
) -> tuple[Shaped[Array, "..."], Tables]:
    """Weights of strings, zero of empty ones and of those outside the language; and the tables of their spans.

    Args:
        semiring: of the weights.
        form: the normal form.
        choices: weights of the pairs of each node.
        leaves: weights of each symbol under each node; arbitrary past the end. One start where all symbols are equal,
            as missing ones are: the weight of a span then depends on its width alone.
        lengths: of each string; of one string also several, of which it begins with as many symbols.
        num_steps: T, the largest length.
        longest: the largest width to compute; None is T. JAX only.
    """
    xp, num_starts, batch = namespace(leaves), leaves.shape[1], leaves.shape[2:]
    loops = _loops(xp, num_starts, num_steps) if len(form.pairs) else ()
    space = max((last - first for first, last in loops), default=0)
    num_ends = num_starts + 1 + space if num_starts > 1 else 1
    shapes = (num_starts, num_steps), (num_ends, num_steps + space)
    by_start, by_end = (xp.full((len(form.pairs), *shape, *batch), semiring.zero, leaves.dtype) for shape in shapes)
    total = xp.where(lengths == 1, leaves[form.start, 0], semiring.zero)

    def fill_width(loop: Loop, width: Any, state: tuple[Tables, Array]) -> tuple[Tables, Array]:
        tables, total = state
        spans = _node_weights(semiring, form, choices, _splits(semiring, tables, width, loop))
        return _put(form, tables, spans, width), xp.where(lengths == width, spans[form.start, 0], total)

    state = _put(form, (by_start, by_end), leaves, 1), total
    for loop in loops:
        if xp is np:
            state = fill_width(loop, loop[0], state)
        else:
            last = jnp.minimum(loop[1], num_steps if longest is None else longest)
            state = lax.fori_loop(loop[0], last + 1, functools.partial(fill_width, loop), state)
    return state[1], state[0]


def _loops(xp: Any, num_starts: int, num_steps: int) -> tuple[Loop, ...]:
    """Widths that share arrays of one shape: in NumPy none, where strings have one start all."""
    if xp is np:
        return tuple((width, width) for width in range(2, num_steps + 1))
    if num_starts == 1:
        return ((2, num_steps + 1),) if num_steps > 1 else ()
    loops, first = [], 2
    while first <= num_steps:
        last = min(max(int(GROWTH * first), SHORT), num_steps)
        loops.append((first, last))
        first = last + 1
    return tuple(loops)


def _splits(semiring: Semiring, tables: Tables, width: Any, loop: Loop) -> Shaped[Array, "P starts splits *batch"]:
    """Weights of the pairs at each split of the spans of a width, by the starts of these."""
    (by_start, by_end), (first, last) = tables, loop
    num_starts, num_steps = by_start.shape[1:3]
    starts = num_steps - first + 1 if num_starts > 1 else 1
    second = _part(by_end, _end(tables, width), num_steps - width + 1, (starts, last - 1))
    return semiring.times(by_start[:, :starts, : last - 1], second)


def _node_weights(
    semiring: Semiring,
    form: NormalForm,
    choices: Shaped[Array, "N C"],
    splits: Shaped[Array, "P starts splits *batch"],
) -> Shaped[Array, "N starts *batch"]:
    """Weights of the spans of a width by node."""
    pair_weights = semiring.plus(splits, 2)
    weights = choices.reshape(*choices.shape, *(1,) * (pair_weights.ndim - 1))
    return semiring.plus(semiring.times(weights, pair_weights[form.choices]), 1)


def _put(form: NormalForm, tables: Tables, spans: Shaped[Array, "N starts *batch"], width: Any) -> Tables:
    """The tables with the spans of a width written into them."""
    first, second = (spans[form.pairs[:, side], :, None] for side in (0, 1))
    by_start, by_end = tables
    column = by_start.shape[2] - width
    return _written(by_start, 0, width - 1, first), _written(by_end, _end(tables, width), column, second)


def _end(tables: Tables, width: Any) -> Any:
    """The place of the end of the first span of a width."""
    return width if tables[0].shape[1] > 1 else 0


def _part(table: Shaped[Array, "P a b *batch"], row: Any, column: Any, shape: Sequence[int]) -> Shaped[Array, "..."]:
    """The part of a table of this shape from a row and a column on."""
    if isinstance(table, np.ndarray):
        return table[:, row : row + shape[0], column : column + shape[1]]
    return lax.dynamic_slice(table, (0, row, column), (len(table), *shape))


def _written(table: Array, row: Any, column: Any, part: Shaped[Array, "P a b *batch"]) -> Array:
    """The table with a part replaced from a row and a column on; a NumPy array itself is changed."""
    if not isinstance(table, np.ndarray):
        return lax.dynamic_update_slice(table, part, (0, row, column))
    table[:, row : row + part.shape[1], column : column + part.shape[2]] = part
    return table


# --- in logs: densities, and expected numbers of uses ----------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_inside(
    form: NormalForm,
    choices: Float[Array, "N C"],
    leaves: Float[Array, "N T"],
    length: Int[Array, ""],
    longest: Int[Array, ""],
) -> Float[Array, ""]:
    """Log probability of a string: -inf where it is empty, or not in the language of the grammar. Traceable.

    Args:
        form: the normal form.
        choices: log probabilities of the pairs of each node.
        leaves: log probabilities of each symbol under each node; arbitrary past the end.
        length: of the string.
        longest: the largest width to compute: the length of the longest of many strings.
    """
    return inside(LOG, form, choices, leaves, length, leaves.shape[1], longest)[0]


@log_inside.defjvp
def _log_inside_jvp(
    form: NormalForm,
    primals: tuple[Float[Array, "N C"], Float[Array, "N T"], Int[Array, ""], Int[Array, ""]],
    tangents: tuple[Float[Array, "N C"], Float[Array, "N T"], Array, Array],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The derivatives are expected numbers of uses."""
    choices, leaves, length, longest = primals
    log_prob, tables = inside(LOG, form, choices, leaves, length, leaves.shape[1], longest)
    choice_uses, leaf_uses = _outside(form, *primals, tables)
    return log_prob, (choice_uses * tangents[0]).sum() + (leaf_uses * tangents[1]).sum()


def _outside(
    form: NormalForm,
    choices: Float[Array, "N C"],
    leaves: Float[Array, "N T"],
    length: Int[Array, ""],
    longest: Int[Array, ""],
    tables: Tables,
) -> tuple[Float[Array, "N C"], Float[Array, "N T"]]:
    """Expected numbers of uses of each pair of a node, and of each node at each symbol."""
    root, num_steps = jnp.zeros((form.num_nodes, 1), leaves.dtype).at[form.start].set(1.0), leaves.shape[1]

    def span_uses(used: Tables, width: Int[Array, ""] | int, num_starts: int) -> Float[jax.Array, "N starts"]:
        """Expected numbers of spans of a width, by node and start."""
        first = _part(used[0], 0, width - 1, (num_starts, 1))[..., 0]
        second = _part(used[1], _end(used, width), num_steps - width, (num_starts, 1))[..., 0]
        by_node = jnp.zeros((form.num_nodes, num_starts), leaves.dtype)
        by_node = by_node.at[form.pairs[:, 0]].add(first).at[form.pairs[:, 1]].add(second)
        return by_node.at[:, :1].add(jnp.where(length == width, root, 0.0))

    def descend(loop: Loop, step: Array, state: tuple[Tables, jax.Array]) -> tuple[Tables, jax.Array]:
        ((by_start, by_end), choice_uses), width = state, loop[0] + jnp.minimum(loop[1], longest) - step
        splits = _splits(LOG, tables, width, loop)
        pair_logs = log_sum_exp(splits)
        choice_logs = choices[..., None] + pair_logs[form.choices]
        shares = jnp.exp(choice_logs - finite_or_zero(log_sum_exp(choice_logs, 1))[:, None])
        chosen = span_uses((by_start, by_end), width, shares.shape[-1])[:, None] * shares
        pairs = jnp.zeros_like(pair_logs).at[form.choices].add(chosen)
        uses = pairs[..., None] * jnp.exp(splits - finite_or_zero(pair_logs)[..., None])
        place = _end(tables, width), num_steps - width + 1
        _, *shape = uses.shape
        by_start = jnp.asarray(by_start).at[:, : shape[0], : shape[1]].add(uses)
        by_end = _written(by_end, *place, _part(by_end, *place, shape) + uses)
        return ((by_start, by_end), choice_uses + chosen.sum(-1))

    state = (jnp.zeros_like(tables[0]), jnp.zeros_like(tables[1])), jnp.zeros_like(choices)
    for loop in reversed(_loops(jnp, num_steps, num_steps) if len(form.pairs) else ()):
        last = jnp.minimum(loop[1], longest)
        state = lax.fori_loop(loop[0], last + 1, functools.partial(descend, loop), state)
    used, choice_uses = state
    is_used = jnp.isfinite(leaves) & (jnp.arange(num_steps) < length)
    return choice_uses, jnp.where(is_used, span_uses(used, 1, num_steps), 0.0)


# --- random strings ---------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=(0, 2))
def log_length_probabilities(
    form: NormalForm, log_probs: Float[Array, " R"], num_steps: int
) -> tuple[Float[Array, " {num_steps}"], Tables]:
    """Log probabilities of the lengths 1, 2, ... of strings, and the tables of spans of missing symbols. Traceable."""
    choices, leaves = form.weights(LOG, log_probs)
    return inside(LOG, form, choices, leaves[:, -1:], jnp.arange(1, num_steps + 1), num_steps)


@functools.partial(jax.jit, static_argnums=0)
def random_codes(
    form: NormalForm, log_probs: Float[Array, " R"], lengths: Float[Array, " T"], tables: Tables, key: PRNGKeyArray
) -> Int[Array, " T"]:
    """Codes of a random string of at most T symbols, padded. Traceable.

    The length is drawn first, then the derivation given the length, from the left: a node and its number of symbols are
    popped from a stack, and either its symbol is drawn, or its pair and the number of symbols of the first of the two.

    Args:
        form: the normal form.
        log_probs: of the rules.
        lengths, tables: log probabilities of lengths and of spans, see `log_length_probabilities`.
        key: a JAX key.
    """
    num_steps, (choices, leaves) = len(lengths), form.weights(LOG, log_probs)
    key_of_length, key = jax.random.split(key)
    length = jax.random.categorical(key_of_length, lengths) + 1
    stack = jnp.zeros((num_steps + 1, 2), int).at[0].set(jnp.stack([jnp.asarray(form.start), length]))
    codes = jnp.full(num_steps, PADDING)

    def rewrite_node(step: Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        stack, size, codes, place = state
        node, length = stack[size - 1, 0], stack[size - 1, 1]
        symbol_key, pair_key = jax.random.split(jax.random.fold_in(key, step))
        is_leaf, is_over = length == 1, size == 0
        symbol = jax.random.categorical(symbol_key, leaves[node, :-1])
        codes = jnp.where(is_leaf & ~is_over, codes.at[place].set(symbol, mode="drop"), codes)
        if len(form.pairs) and num_steps > 1:
            splits = _splits(LOG, tables, length, (2, num_steps + 1))[:, 0]
            terms = choices[node][:, None] + splits[jnp.asarray(form.choices)[node]]
            choice, split = jnp.divmod(jax.random.categorical(pair_key, terms.ravel()), num_steps)
            pair = jnp.asarray(form.pairs)[jnp.asarray(form.choices)[node, choice]]
            first, second = jnp.stack([pair[0], split + 1]), jnp.stack([pair[1], length - split - 1])
            pushed = stack.at[size - 1].set(second).at[size].set(first, mode="drop")
            stack = jnp.where(is_leaf | is_over, stack, pushed)
        change = jnp.where(is_leaf, -1, 1)
        return stack, jnp.where(is_over, size, size + change), codes, place + (is_leaf & ~is_over)

    start = stack, jnp.asarray(1), codes, jnp.asarray(0)
    # a derivation of L symbols has L leaves and L - 1 pairs; where no length is possible, the string is empty
    codes = lax.fori_loop(0, 2 * num_steps - 1, rewrite_node, start)[2]
    return jnp.where(jnp.isfinite(lengths.max()), codes, PADDING)


# --- the most probable parse ------------------------------------------------------------------------------------------


Span: TypeAlias = tuple[int, int, int]
"""A node, where it starts and where it ends."""


def most_probable_parse(
    rules: GrammarRules, log_probs: Float[np.ndarray, " R"], codes: Int[np.ndarray, " T"], string: Sequence[Symbol]
) -> tuple[ParseTree, float] | None:
    """The most probable parse tree of a string, and its log probability; None where the string has no tree.

    Source: Jurafsky and Martin, Speech and Language Processing, the CKY algorithm for probabilistic grammars.
    """
    form, num_steps = normal_form(rules), len(codes)
    if not num_steps:
        return None
    choices, symbol_weights = form.weights(MAX, log_probs)
    leaves = symbol_weights[:, codes]
    best, tables = inside(MAX, form, choices, leaves, np.array(num_steps), num_steps)
    if np.isneginf(best):
        return None
    log_weights = np.append(log_probs, 0.0)  # the last one is that of the rule -1, which is certain

    def best_spans(span: Span) -> list[Span]:
        """The spans on the right-hand side of the best rule of a node; none where it is a symbol."""
        options: list[tuple[float, list[Span]]] = []
        root, start, end = span
        if end - start == 1:
            spans = leaves[:, start]
            options += [
                (log_weights[rule], []) for node, code, rule in form.leaf_rules if (node, code) == (root, codes[start])
            ]
        else:
            splits = _splits(MAX, tables, end - start, (end - start, end - start))[:, start : start + 1]
            spans = _node_weights(MAX, form, choices, splits)[:, 0]
            for _, pair, rule in form.pair_rules[form.pair_rules[:, 0] == root].tolist():
                cut, (first, second) = int(splits[pair, 0].argmax()), form.pairs[pair].tolist()
                middle = start + 1 + cut
                options.append(
                    (log_weights[rule] + splits[pair, 0, cut], [(first, start, middle), (second, middle, end)])
                )
        options += [
            (log_weights[rule] + spans[to], [(to, start, end)]) for source, to, rule in rules.units if source == root
        ]
        return max(options, key=lambda option: option[0])[1]

    spans, below, parts = [(form.start, 0, num_steps)], dict[Span, list[Span]](), dict[Span, tuple]()
    for span in spans:  # which grows: no recursion, as trees may be as deep as strings are long
        below[span] = best_spans(span)
        spans += below[span]
    for span in reversed(spans):
        inner = tuple(part for child in below[span] for part in parts[child]) or (string[span[1]],)
        is_tree = span[0] < len(rules.nonterminals)
        parts[span] = (ParseTree(rules.nonterminals[span[0]], inner),) if is_tree else inner
    return parts[spans[0]][0], float(best)
