"""The most probable parse tree of a string, over the rules as users write them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bayesgen.typing import Float, Int

from .grammar_rules import GrammarRules, Symbol, rule_name
from .normal_form import NormalForm, normal_form


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
        self.rule = np.full(self.best.shape, -2)  # rules of pairs and leaves by their places, units after them
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
        """A rule by which a node may derive spans: taken where it is more probable than what is there."""
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
        """The spans of the symbols of a rule: nodes that stand for rests are taken apart."""
        rest, parts = root, list[Span]()
        while not parts or self.form.is_rest[rest[0]]:
            _, start, end = rest
            _, pair, _ = self.form.pair_rules[self.rule[rest] - len(self.form.leaf_rules)]
            split, (first, second) = int(self.split[pair, start, end]), self.form.pairs[pair].tolist()
            parts.append((first, start, split))
            rest = second, split, end
        return [*parts, rest]
