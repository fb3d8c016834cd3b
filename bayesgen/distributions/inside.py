"""Parse trees of strings: the inside algorithm, which sums over all of them, and the most probable one (CKY).

For a node A of the normal form and the w symbols from i on,

    inside(A, i, w) = sum over pairs B C of A, and 0 < k < w, of p(A -> B C) inside(B, i, k) inside(C, i + k, w - k),

all in logs. The widths w go one after another; all starts, pairs and splits of a width are one array operation. The
table is stored by starts and by ends of spans, so that both factors are contiguous: (first, start, width - 1) and
(second, end, T - width).

The derivative of log p(x) by log p(A -> B C) is the expected number of uses of the rule in the parse tree, given x. The
outside algorithm computes it, which goes through the widths backwards.

Source: Baker (1979), Trainable grammars for speech recognition; Eisner (2016), Inside-outside and forward-backward
algorithms are just backprop.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bayesgen.typing import Array, Float, Int

from .grammar_rules import GrammarRules, NormalForm, Symbol, normal_form, rule_name
from .hidden_chains import finite_or_zero, log_sum


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


Span: TypeAlias = tuple[int, int, int]
"""A node, where it starts and where it ends."""
TERMINAL = -1  # in place of the node, where a nonterminal is rewritten to one terminal


def most_probable_parse(
    rules: GrammarRules, log_probs: Float[np.ndarray, " R"], codes: Int[np.ndarray, " T"], string: Sequence[Symbol]
) -> tuple[ParseTree, float] | None:
    """The most probable parse tree of a string, and its log probability; None where the string has no tree.

    Source: Jurafsky and Martin, Speech and Language Processing, the CKY algorithm for probabilistic grammars.
    """
    chart = _Chart(normal_form(rules), log_probs, codes)
    root = chart.form.start, 0, len(codes)
    if not len(codes) or np.isneginf(chart.best[root]):
        return None
    return chart.tree(root, string), float(chart.best[root])


class _Chart:
    """Log probabilities of the most probable trees of all spans, and the rules at their roots.

    Attributes:
        best: (N, T + 1, T + 1), by node, start and end.
    """

    def __init__(self, form: NormalForm, log_probs: Float[np.ndarray, " R"], codes: Int[np.ndarray, " T"]) -> None:
        num_steps = len(codes)
        self.form, self.log_probs = form, np.append(log_probs, 0.0)
        self.best = np.full((form.num_nodes, num_steps + 1, num_steps + 1), -np.inf)
        self.split = np.zeros((len(form.pairs), num_steps + 1, num_steps + 1), int)
        self.rule = np.full(self.best.shape, -2)  # indices of rules: leaves, then pairs, then units
        starts = np.arange(num_steps)
        for place, (node, code, rule) in enumerate(form.leaf_rules):
            here = starts[codes == code]
            self._offer(node, here, 1, np.full(len(here), self.log_probs[rule]), place)
        self._units(starts, 1)
        for width in range(2, num_steps + 1):
            starts = np.arange(num_steps - width + 1)
            self._pairs(starts, width)
            self._units(starts, width)

    def _offer(
        self, node: int, starts: Int[np.ndarray, " s"], width: int, log_probs: Float[np.ndarray, " s"], rule: int
    ) -> None:
        """Use a rule for the spans of a node where it is more probable than the best rule so far."""
        ends, is_better = starts + width, log_probs > self.best[node, starts, starts + width]
        self.best[node, starts[is_better], ends[is_better]] = log_probs[is_better]
        self.rule[node, starts[is_better], ends[is_better]] = rule

    def _pairs(self, starts: Int[np.ndarray, " s"], width: int) -> None:
        """Rules of two nodes, at their best splits."""
        ends, splits = starts + width, starts[:, None] + np.arange(1, width)
        log_probs = []
        for pair, (first, second) in enumerate(self.form.pairs):
            terms = self.best[first, starts[:, None], splits] + self.best[second, splits, ends[:, None]]
            at_best = terms.argmax(1)
            self.split[pair, starts, ends] = splits[np.arange(len(starts)), at_best]
            log_probs.append(terms.max(1))
        for place, (node, pair, rule) in enumerate(self.form.pair_rules):
            self._offer(node, starts, width, self.log_probs[rule] + log_probs[pair], len(self.form.leaf_rules) + place)

    def _units(self, starts: Int[np.ndarray, " s"], width: int) -> None:
        """Rules of one nonterminal, after those of the nonterminals that they lead to."""
        first = len(self.form.leaf_rules) + len(self.form.pair_rules)
        for place in self.form.rules.unit_order:
            for index, (source, to, rule) in enumerate(self.form.rules.units):
                if source == place:
                    log_probs = self.log_probs[rule] + self.best[to, starts, starts + width]
                    self._offer(source, starts, width, log_probs, first + index)

    def tree(self, root: Span, string: Sequence[Symbol]) -> ParseTree:
        """The tree of a span of a nonterminal."""
        spans, children = [root], dict[Span, list[Span]]()
        trees: dict[Span, ParseTree] = {}
        for span in spans:  # which grows: no recursion, as trees may be as deep as strings are long
            children[span] = self._children(span)
            spans += [child for child in children[span] if self._is_tree(child)]
        for span in reversed(spans):
            parts = (trees[child] if self._is_tree(child) else string[child[1]] for child in children[span])
            trees[span] = ParseTree(self.form.rules.nonterminals[span[0]], tuple(parts))
        return trees[root]

    def _is_tree(self, span: Span) -> bool:
        """Whether this is the span of a nonterminal, and not of a terminal."""
        return 0 <= span[0] < len(self.form.rules.nonterminals)

    def _children(self, root: Span) -> list[Span]:
        """The spans of the symbols of the rule at a root."""
        (_, start, end), place, num_leaves = root, int(self.rule[root]), len(self.form.leaf_rules)
        if place < num_leaves:
            return [(TERMINAL, start, end)]
        if place < num_leaves + len(self.form.pair_rules):
            return self._parts(root)
        return [(self.form.rules.units[place - num_leaves - len(self.form.pair_rules)][1], start, end)]

    def _parts(self, root: Span) -> list[Span]:
        """The spans of the symbols of a rule; nodes for the rest of a right-hand side are expanded."""
        rest, parts = root, list[Span]()
        while not parts or self.form.is_rest[rest[0]]:
            _, start, end = rest
            _, pair, _ = self.form.pair_rules[self.rule[rest] - len(self.form.leaf_rules)]
            split, (first, second) = int(self.split[pair, start, end]), self.form.pairs[pair].tolist()
            parts.append((first, start, split))
            rest = second, split, end
        return [*parts, rest]


Tables: TypeAlias = tuple[Float[jax.Array, "P T T"], Float[jax.Array, "P ends widths"]]
"""For each pair: its first nodes by (start, width - 1), its second nodes by (end, T - width)."""
SHORT = 8  # widths up to this one share one loop
GROWTH = 2.0  # ratio of the widths that share one loop: fewer loops compile sooner and compute more


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_inside(
    form: NormalForm,
    choices: Float[Array, "N C"],
    leaves: Float[Array, "T N"],
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
    return _inside(form, choices, leaves, length, longest)[0]


@log_inside.defjvp
def _log_inside_jvp(
    form: NormalForm,
    primals: tuple[Float[Array, "N C"], Float[Array, "T N"], Int[Array, ""], Int[Array, ""]],
    tangents: tuple[Float[Array, "N C"], Float[Array, "T N"], Array, Array],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The derivatives are expected numbers of uses."""
    log_prob, tables = _inside(form, *primals)
    of_choices, of_leaves = _outside(form, *primals, tables)
    return log_prob, (of_choices * tangents[0]).sum() + (of_leaves * tangents[1]).sum()


def _inside(
    form: NormalForm,
    choices: Float[Array, "N C"],
    leaves: Float[Array, "T N"],
    length: Int[Array, ""],
    longest: Int[Array, ""],
) -> tuple[Float[Array, ""], Tables]:
    """Log probability of a string, and the tables of its spans."""
    num_pairs, num_steps, space = len(form.pairs), len(leaves), _space(len(leaves))
    by_start = jnp.full((num_pairs, num_steps, num_steps), -jnp.inf, leaves.dtype)
    by_end = jnp.full((num_pairs, num_steps + 1 + space, num_steps + space), -jnp.inf, leaves.dtype)
    log_prob = jnp.where(length == 1, leaves[0, form.start], -jnp.inf)
    state = _put(form, (by_start, by_end), leaves.T, 1), log_prob

    def of_width(loop: tuple[int, int], width: Array, state: tuple[Tables, jax.Array]) -> tuple[Tables, jax.Array]:
        tables, log_prob = state
        of_pairs = log_sum(_splits(tables, width, loop))
        spans = log_sum(choices[..., None] + of_pairs[form.choices], 1)
        log_prob = jnp.where(length == width, spans[form.start, 0], log_prob)
        return _put(form, tables, spans, width), log_prob

    for loop in _loops(num_steps) if num_pairs else ():
        last = jnp.minimum(loop[1], longest)
        state = lax.fori_loop(loop[0], last + 1, functools.partial(of_width, loop), state)
    return state[1], state[0]


def _outside(
    form: NormalForm,
    choices: Float[Array, "N C"],
    leaves: Float[Array, "T N"],
    length: Int[Array, ""],
    longest: Int[Array, ""],
    tables: Tables,
) -> tuple[Float[Array, "N C"], Float[Array, "T N"]]:
    """Expected numbers of uses of each pair of a node, and of each node at each symbol."""
    root = jnp.zeros((form.num_nodes, 1), leaves.dtype).at[form.start].set(1.0)

    def of_spans(used: Tables, width: Int[Array, ""] | int, num_starts: int) -> Float[jax.Array, "N starts"]:
        """Expected numbers of spans of a width, by node and start."""
        by_node = _taken(form, used, width, num_starts)
        return by_node.at[:, :1].add(jnp.where(length == width, root, 0.0))

    def of_width(loop: tuple[int, int], step: Array, state: tuple[Tables, jax.Array]) -> tuple[Tables, jax.Array]:
        (used, of_choices), width = state, loop[0] + jnp.minimum(loop[1], longest) - step
        splits = _splits(tables, width, loop)
        of_pairs = log_sum(splits)
        shares = _shares(choices[..., None] + of_pairs[form.choices], 1)
        chosen = of_spans(used, width, shares.shape[-1])[:, None] * shares
        pairs = jnp.zeros_like(of_pairs).at[form.choices].add(chosen)
        return _added(used, pairs[..., None] * _shares(splits), width), of_choices + chosen.sum(-1)

    state = (jnp.zeros_like(tables[0]), jnp.zeros_like(tables[1])), jnp.zeros_like(choices)
    for loop in reversed(_loops(len(leaves)) if len(form.pairs) else ()):
        last = jnp.minimum(loop[1], longest)
        state = lax.fori_loop(loop[0], last + 1, functools.partial(of_width, loop), state)
    used, of_choices = state
    is_used = jnp.isfinite(leaves) & (jnp.arange(len(leaves)) < length)[:, None]
    return of_choices, jnp.where(is_used, of_spans(used, 1, len(leaves)).T, 0.0)


def _loops(num_steps: int) -> tuple[tuple[int, int], ...]:
    """The first and the last width of each loop."""
    loops, first = [], 2
    while first <= num_steps:
        last = min(max(int(GROWTH * first), SHORT), num_steps)
        loops.append((first, last))
        first = last + 1
    return tuple(loops)


def _space(num_steps: int) -> int:
    """The padding of the tables that arrays of the loops need."""
    return max((last - first for first, last in _loops(num_steps)), default=0)


def _splits(tables: Tables, width: Int[Array, ""] | int, loop: tuple[int, int]) -> Float[Array, "P starts splits"]:
    """Log probabilities of the pairs at each split of the spans of a width, by the starts of these."""
    by_start, by_end = tables
    (first, last), num_steps = loop, by_start.shape[-1]
    shape = len(by_start), num_steps - first + 1, last - 1
    return by_start[:, : shape[1], : shape[2]] + lax.dynamic_slice(by_end, (0, width, num_steps - width + 1), shape)


def _put(form: NormalForm, tables: Tables, spans: Float[Array, "N starts"], width: Int[Array, ""] | int) -> Tables:
    """The tables with the spans of a width written into them."""
    (by_start, by_end), num_steps = tables, tables[0].shape[-1]
    first, second = (spans[form.pairs[:, side], :, None] for side in (0, 1))
    return (
        lax.dynamic_update_slice(by_start, first, (0, 0, width - 1)),
        lax.dynamic_update_slice(by_end, second, (0, width, num_steps - width)),
    )


def _taken(
    form: NormalForm, used: Tables, width: Int[Array, ""] | int, num_starts: int
) -> Float[jax.Array, "N {num_starts}"]:
    """The entries of the tables for spans of a width, summed by node."""
    (by_start, by_end), num_steps = used, used[0].shape[-1]
    shape = len(form.pairs), num_starts, 1
    first = lax.dynamic_slice(by_start, (0, 0, width - 1), shape)[..., 0]
    second = lax.dynamic_slice(by_end, (0, width, num_steps - width), shape)[..., 0]
    by_node = jnp.zeros((form.num_nodes, num_starts), by_start.dtype)
    return by_node.at[form.pairs[:, 0]].add(first).at[form.pairs[:, 1]].add(second)


def _added(used: Tables, splits: Float[Array, "P starts splits"], width: Int[Array, ""] | int) -> Tables:
    """Tables to which uses of pairs at splits of the spans of a width are added."""
    (by_start, by_end), num_steps = used, used[0].shape[-1]
    place = 0, width, num_steps - width + 1
    before = lax.dynamic_slice(by_end, place, splits.shape)
    return (
        by_start.at[:, : splits.shape[1], : splits.shape[2]].add(splits),
        lax.dynamic_update_slice(by_end, before + splits, place),
    )


def _shares(logs: Float[Array, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Softmax; 0 where all logs are -inf."""
    peak = finite_or_zero(lax.stop_gradient(logs).max(axis, keepdims=True, initial=-jnp.inf))
    exponentials = jnp.exp(logs - peak)
    total = exponentials.sum(axis, keepdims=True)
    return exponentials / jnp.where(total > 0, total, 1.0)
