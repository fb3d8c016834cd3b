"""The rules of a grammar as users write them, their checks, and their Chomsky normal form."""

import functools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bayesgen.errors import ModelError
from bayesgen.statistics import namespace
from bayesgen.typing import Array, Bool, Int, Shaped

from .semirings import BOOLEAN, Semiring

Symbol: TypeAlias = Hashable
RightSide: TypeAlias = tuple[Symbol, ...]
StatedRules: TypeAlias = Mapping[Symbol, Iterable[str | Sequence[Symbol]]]


@dataclass(frozen=True)
class GrammarRules:
    """The rules of a context-free grammar without empty strings, checked: see `GrammarRules.of`.

    Attributes:
        nonterminals: in the order in which they were written.
        right_sides: the right-hand sides of each nonterminal.
        start: the nonterminal that derivations begin with.
    """

    nonterminals: tuple[Symbol, ...]
    right_sides: tuple[tuple[RightSide, ...], ...]
    start: Symbol

    @classmethod
    def of(cls, rules: StatedRules, start: Symbol | None = None) -> "GrammarRules":
        """Read rules, and check them.

        Args:
            rules: nonterminal -> its right-hand sides, each a list or tuple of symbols, or a string that is split at
                white space. Symbols that are not keys are terminals.
            start: the nonterminal that derivations begin with; None is the first one.

        Raises:
            ModelError: no rules; an empty right-hand side; a rule twice; nonterminals that rewrite each other one by
                one without end, that no derivation reaches, or that derive no string of terminals; by name.

        >>> GrammarRules.of({"S": ["S S", "a"]}).rule_names
        ('S -> S S', 'S -> a')
        """
        if not isinstance(rules, Mapping) or not rules:
            raise ModelError(
                "A grammar is a mapping from nonterminals to lists of right-hand sides, such as {'S': ['S S', 'a']}; "
                f"got {rules!r}."
            )
        nonterminals = tuple(rules)
        grammar = cls(
            nonterminals,
            tuple(_right_sides(nonterminal, rules[nonterminal]) for nonterminal in nonterminals),
            nonterminals[0] if start is None else start,
        )
        grammar._check()
        return grammar

    def __str__(self) -> str:
        alternatives = (
            " | ".join(" ".join(map(str, side)) for side in right_sides) for right_sides in self.right_sides
        )
        pairs = zip(self.nonterminals, alternatives, strict=True)
        return "; ".join(f"{nonterminal} -> {right_sides}" for nonterminal, right_sides in pairs)

    @functools.cached_property
    def rules(self) -> tuple[tuple[Symbol, RightSide], ...]:
        """All rules, nonterminal by nonterminal: (left-hand side, right-hand side)."""
        return tuple(
            (left, right) for left, sides in zip(self.nonterminals, self.right_sides, strict=True) for right in sides
        )

    @functools.cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The terminals: sorted, or in the order in which they occur where they cannot be."""
        terminals = dict.fromkeys(symbol for _, right in self.rules for symbol in right if symbol not in self._places)
        try:
            return tuple(sorted(terminals))  # type: ignore[type-var]
        except TypeError:
            return tuple(terminals)

    @functools.cached_property
    def rule_names(self) -> tuple[str, ...]:
        """The rules as they are written."""
        return tuple(rule_name(*rule) for rule in self.rules)

    @functools.cached_property
    def slices(self) -> tuple[slice, ...]:
        """The slice of all rules that each nonterminal has."""
        ends = [0]
        for sides in self.right_sides:
            ends.append(ends[-1] + len(sides))
        return tuple(slice(*ends[index : index + 2]) for index in range(len(self.nonterminals)))

    def place(self, symbol: Symbol) -> int | None:
        """The number of a nonterminal; None for a terminal."""
        return self._places.get(symbol)

    @functools.cached_property
    def _places(self) -> dict[Symbol, int]:
        return {nonterminal: place for place, nonterminal in enumerate(self.nonterminals)}

    @functools.cached_property
    def least_lengths(self) -> dict[Symbol, float]:
        """The length of the shortest string of each nonterminal; infinity where it derives none."""
        lengths = dict.fromkeys(self.nonterminals, math.inf)
        for _ in self.nonterminals:
            for left, right in self.rules:
                length = sum(lengths.get(symbol, 1.0) for symbol in right)
                lengths[left] = min(lengths[left], length)
        return lengths

    @functools.cached_property
    def units(self) -> tuple[tuple[int, int, int], ...]:
        """The rules that rewrite a nonterminal to one other: numbers of the two, and of the rule."""
        return tuple(
            (self._places[left], self._places[right[0]], index)
            for index, (left, right) in enumerate(self.rules)
            if len(right) == 1 and right[0] in self._places
        )

    @functools.cached_property
    def unit_order(self) -> tuple[int, ...]:
        """The nonterminals in topological order of the unit rules; without those on or before a cycle."""
        order: list[int] = []
        while True:
            ready = [
                place
                for place in range(len(self.nonterminals))
                if place not in order and all(to in order for source, to, _ in self.units if source == place)
            ]
            if not ready:
                return tuple(order)
            order += ready

    def _check(self) -> None:
        """Refuse invalid grammars, by name."""
        if self.start not in self._places:
            raise ModelError(
                f"start={self.start!r} has no rules. It has to be one of the nonterminals {_listed(self.nonterminals)}."
            )
        twice = [name for name in dict.fromkeys(self.rule_names) if self.rule_names.count(name) > 1]
        if twice and len(set(self.rules)) < len(self.rules):
            raise ModelError(f"The rule {twice[0]!r} is there twice: its two probabilities cannot be told apart.")
        in_cycle = [n for place, n in enumerate(self.nonterminals) if place not in self.unit_order]
        if in_cycle:
            cycle = self._cycle(in_cycle)
            rules = [rule_name(left, (to,)) for left, to in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
            to_what = "to each other one by one" if cycle[1:] else "to itself"
            raise ModelError(
                f"{_listed(cycle)} can be rewritten {to_what} without end, so a string has infinitely many parse "
                f"trees. Leave {'one of the rules' if cycle[1:] else 'the rule'} {_listed(rules)} out."
            )
        unending = [n for n, length in self.least_lengths.items() if math.isinf(length)]
        if unending:
            raise ModelError(
                f"{_listed(unending)} derives no string of terminals: every rule leads back to nonterminals without "
                "end. Add a rule that ends, or is a terminal missing among the keys?"
            )
        reached = {self.start}
        for _ in self.nonterminals:
            reached |= {symbol for left, right in self.rules if left in reached for symbol in right}
        unreached = [n for n in self.nonterminals if n not in reached]
        if unreached:
            raise ModelError(
                f"No derivation from {self.start!r} reaches {_listed(unreached)}, so no data tell of its rules. Leave "
                "it out, or give start=."
            )

    def _cycle(self, candidates: list[Symbol]) -> list[Symbol]:
        """Nonterminals on a cycle of unit rules, from those that are on one or lead to one."""
        path = [candidates[0]]
        while True:
            steps = [self.nonterminals[to] for source, to, _ in self.units if self.nonterminals[source] == path[-1]]
            after = next(symbol for symbol in steps if symbol in candidates)
            if after in path:
                return path[path.index(after) :]
            path.append(after)


def rule_name(left: Symbol, right: RightSide) -> str:
    """A rule as it is written."""
    return f"{left} -> {' '.join(map(str, right))}"


def _right_sides(nonterminal: Symbol, stated: Iterable[str | Sequence[Symbol]]) -> tuple[RightSide, ...]:
    """The right-hand sides of a nonterminal."""
    if isinstance(stated, str) or not isinstance(stated, Iterable):
        raise ModelError(
            f"The rules of {nonterminal!r} are a list of right-hand sides, such as ['S S', 'a']; got {stated!r}."
        )
    sides = []
    for side in stated:
        if not isinstance(side, str | Sequence):
            raise ModelError(
                f"A right-hand side of {nonterminal!r} is a string of symbols with white space between, or a list or "
                f"tuple of symbols; got {side!r}."
            )
        symbols = tuple(side.split()) if isinstance(side, str) else tuple(side)
        if not symbols:
            raise ModelError(
                f"A right-hand side of {nonterminal!r} is empty. Rewrite the grammar without it: where {nonterminal!r} "
                "may vanish, add a rule that leaves it out."
            )
        unhashable = [symbol for symbol in symbols if not _is_hashable(symbol)]
        if unhashable:
            raise ModelError(
                f"A right-hand side of {nonterminal!r} has {unhashable[0]!r}, which is no symbol: these are hashable, "
                "such as texts, numbers or tuples of them."
            )
        sides.append(symbols)
    if not sides:
        raise ModelError(f"{nonterminal!r} has no right-hand sides. Add one, or leave it out to make it a terminal.")
    return tuple(sides)


def _is_hashable(symbol: object) -> bool:
    try:
        hash(symbol)
    except TypeError:
        return False
    return True


def _listed(symbols: Iterable[Symbol]) -> str:
    return ", ".join(repr(symbol) for symbol in symbols)


# The Chomsky normal form of a grammar: every node is rewritten to two nodes, or to one symbol.
#
# Probabilities and priors belong to the users' rules; weights of the normal form are functions of them. Three changes
# leave the probabilities of strings and parse trees as they are:
#
# - A terminal beside other symbols becomes a node of its own, which is rewritten to it with probability 1.
# - A right-hand side of more than two symbols becomes its first one and a node for the rest, which is rewritten to the
#   rest with probability 1. Rules with the same rest share the node.
# - Unit rules, A -> B, are eliminated: A gets the rules of B, with the product of the weights, added up over all
#   chains of unit rules from A to B, of which there are finitely many.
#
# Source: Hopcroft and Ullman (1979), Introduction to Automata Theory, Languages, and Computation, theorem 4.5.


CERTAIN_RULE = -1  # the rule of a node that is rewritten in one way only


@dataclass(frozen=True, eq=False)
class NormalForm:
    """The structure of a normal form, without probabilities.

    Nodes are the nonterminals, then the added ones. Pairs are the distinct pairs of nodes on right-hand sides; leaves
    are (node, symbol).

    Attributes:
        pairs: (P, 2), the nodes of each pair.
        pair_rules: (node, pair, rule) before unit rules are eliminated; the rule may be `CERTAIN_RULE`.
        leaf_rules: (node, symbol, rule), likewise.
        num_nodes: N.
        rules: the users' rules.
    """

    pairs: Int[np.ndarray, "P 2"]
    pair_rules: Int[np.ndarray, "b 3"]
    leaf_rules: Int[np.ndarray, "l 3"]
    num_nodes: int
    rules: GrammarRules

    @property
    def start(self) -> int:
        """The node that derivations begin with."""
        place = self.rules.place(self.rules.start)
        assert place is not None
        return place

    @functools.cached_property
    def _choices(self) -> tuple[Int[np.ndarray, "N C"], Bool[np.ndarray, "N C"]]:
        """The pairs of each node, padded by 0, and a mask of those that are not padding."""
        rules = np.ones(len(self.rules.rules), bool)
        is_pair = np.asarray(self._without_units(BOOLEAN, rules, self.pair_rules, len(self.pairs)))
        numbers = is_pair.sum(1)
        is_choice = np.arange(int(numbers.max())) < numbers[:, None]
        choices = np.zeros(is_choice.shape, np.int32)
        choices[is_choice] = np.nonzero(is_pair)[1]
        return choices, is_choice

    @property
    def choices(self) -> Int[np.ndarray, "N C"]:
        """The pairs that each node may be rewritten to, padded by 0."""
        return self._choices[0]

    def weights(
        self, semiring: Semiring, rules: Shaped[Array, "*batch R"]
    ) -> tuple[Shaped[Array, "*batch N C"], Shaped[Array, "*batch N V"]]:
        """Weights of the choices of each node, and of each symbol under each node, V = r + 1. Traceable.

        The last column is that of a missing symbol: the sum over all symbols.

        Args:
            semiring: of the weights.
            rules: the weight of each rule.
        """
        xp, (choices, is_choice) = namespace(rules), self._choices
        leaf_weights = self._without_units(semiring, rules, self.leaf_rules, len(self.rules.symbols))
        leaf_weights = xp.concatenate([leaf_weights, semiring.plus(leaf_weights, -1)[..., None]], -1)
        if not choices.size:
            return xp.zeros((*rules.shape[:-1], *choices.shape), rules.dtype), leaf_weights
        pair_weights = self._without_units(semiring, rules, self.pair_rules, len(self.pairs))
        chosen = pair_weights[..., np.arange(self.num_nodes, dtype=np.int32)[:, None], choices]
        return xp.where(is_choice, chosen, semiring.zero), leaf_weights

    def _without_units(
        self, semiring: Semiring, rules: Shaped[Array, "*batch R"], entries: Int[np.ndarray, "e 3"], size: int
    ) -> Shaped[Array, "*batch N {size}"]:
        """Weights in a table of nodes and pairs, or nodes and symbols, unit rules being eliminated."""
        xp, num_rules = namespace(rules), len(self.rules.rules)
        impossible, certain = num_rules, num_rules + 1  # after the weights of the rules stand a zero and a one
        rule_of_entry = np.full((self.num_nodes, size), impossible)
        rule_of_entry[entries[:, 0], entries[:, 1]] = np.where(entries[:, 2] == CERTAIN_RULE, certain, entries[:, 2])
        constants = np.broadcast_to(np.array([semiring.zero, semiring.one]), (*rules.shape[:-1], 2))
        table = xp.concatenate([rules, xp.asarray(constants, rules.dtype)], -1)[..., rule_of_entry]
        if not self.rules.units:
            return table
        rows = [table[..., place, :] for place in range(len(self.rules.nonterminals))]
        for place in self.rules.unit_order:
            for source, to, rule in self.rules.units:
                if source == place:
                    by_unit = semiring.times(rules[..., rule, None], rows[to])
                    rows[place] = semiring.plus(xp.stack([rows[place], by_unit]), 0)
        return xp.concatenate([xp.stack(rows, -2), table[..., len(rows) :, :]], -2)


@functools.lru_cache(maxsize=256)
def normal_form(rules: GrammarRules) -> NormalForm:
    """The normal form of a grammar."""
    nodes: dict[RightSide, int] = {(nonterminal,): place for place, nonterminal in enumerate(rules.nonterminals)}
    codes = {symbol: code for code, symbol in enumerate(rules.symbols)}
    pairs: dict[tuple[int, int], int] = {}
    pair_rules: list[tuple[int, int, int]] = []
    leaf_rules: list[tuple[int, int, int]] = []

    def node_of(symbols: RightSide) -> tuple[int, bool]:
        """The node that derives these symbols, and whether it had to be made."""
        is_new = symbols not in nodes
        if is_new:
            nodes[symbols] = len(nodes)
            if len(symbols) == 1:
                leaf_rules.append((nodes[symbols], codes[symbols[0]], CERTAIN_RULE))
        return nodes[symbols], is_new

    def add_pair(node: int, symbols: RightSide, rule: int) -> None:
        """A node is rewritten to the first symbol and the tail, and the tail likewise."""
        chain, is_new = [], True
        while is_new and len(symbols) > 1:
            (first, _), (tail, is_new) = node_of(symbols[:1]), node_of(symbols[1:])
            chain.append((node, (first, tail), rule))
            node, symbols, rule = tail, symbols[1:], CERTAIN_RULE
        for node, pair, rule in reversed(chain):
            pair_rules.append((node, pairs.setdefault(pair, len(pairs)), rule))

    for rule, (left, right) in enumerate(rules.rules):
        node = nodes[left,]
        if len(right) > 1:
            add_pair(node, right, rule)
        elif right[0] in codes:
            leaf_rules.append((node, codes[right[0]], rule))
    return NormalForm(
        np.array(list(pairs), np.int32).reshape(-1, 2),
        np.array(pair_rules, np.int32).reshape(-1, 3),
        np.array(leaf_rules, np.int32).reshape(-1, 3),
        len(nodes),
        rules,
    )
