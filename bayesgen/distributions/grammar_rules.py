"""The rules of a grammar as users write them, their checks, and their Chomsky normal form."""

import functools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.errors import ModelError
from bayesgen.typing import Array, Bool, Float, Int

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
        made = cls(
            nonterminals,
            tuple(_right_sides(nonterminal, rules[nonterminal]) for nonterminal in nonterminals),
            nonterminals[0] if start is None else start,
        )
        made._check()
        return made

    def __str__(self) -> str:
        sides = (" | ".join(" ".join(map(str, side)) for side in of_one) for of_one in self.right_sides)
        pairs = zip(self.nonterminals, sides, strict=True)
        return "; ".join(f"{nonterminal} -> {of_one}" for nonterminal, of_one in pairs)

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
# - Unit rules, A -> B, are eliminated: A gets the rules of B, with the product of the probabilities, summed over all
#   chains of unit rules from A to B, of which there are finitely many.
#
# Source: Hopcroft and Ullman (1979), Introduction to Automata Theory, Languages, and Computation, theorem 4.5.


@dataclass(frozen=True, eq=False)
class NormalForm:
    """The structure of a normal form, without probabilities.

    Nodes are the nonterminals, then the added ones. Pairs are the distinct pairs of nodes on right-hand sides; leaves
    are (node, symbol).

    Attributes:
        pairs: (P, 2), the nodes of each pair.
        pair_rules: (node, pair, rule) before unit rules are eliminated; rule -1 has probability 1.
        leaf_rules: (node, symbol, rule), likewise.
        num_nodes: N.
        choices: (N, C), the pairs of each node, padded by 0.
        is_choice: (N, C), mask of the choices that are not padding.
        is_leaf: (N, r), the symbols that each node can be rewritten to.
        is_rest: (N,), mask of the nodes for the rest of a right-hand side.
        rules: the users' rules.
    """

    pairs: Int[np.ndarray, "P 2"]
    pair_rules: Int[np.ndarray, "b 3"]
    leaf_rules: Int[np.ndarray, "l 3"]
    num_nodes: int
    choices: Int[np.ndarray, "N C"]
    is_choice: Bool[np.ndarray, "N C"]
    is_leaf: Bool[np.ndarray, "N r"]
    is_rest: Bool[np.ndarray, " N"]
    rules: GrammarRules

    @property
    def start(self) -> int:
        """The node that derivations begin with."""
        place = self.rules.place(self.rules.start)
        assert place is not None
        return place

    @functools.partial(jax.jit, static_argnums=0)
    def weights(self, probs: Float[Array, "*batch R"]) -> tuple[Float[Array, "*batch N C"], Float[Array, "*batch N V"]]:
        """Log probabilities of the choices of each node, and of each symbol under each node, V = r + 1. Traceable.

        The last column is that of a missing symbol: the sum over all symbols.
        """
        probs = jnp.asarray(probs)
        of_pairs = self._without_units(probs, self._table(probs, self.pair_rules, len(self.pairs)))
        of_leaves = self._without_units(probs, self._table(probs, self.leaf_rules, len(self.rules.symbols)))
        of_leaves = jnp.concatenate([of_leaves, of_leaves.sum(-1, keepdims=True)], -1)
        if not len(self.pairs):
            return jnp.full((*probs.shape[:-1], *self.choices.shape), -jnp.inf, probs.dtype), safe_log(of_leaves)
        chosen = of_pairs[..., np.arange(self.num_nodes, dtype=np.int32)[:, None], self.choices]
        return safe_log(jnp.where(self.is_choice, chosen, 0.0)), safe_log(of_leaves)

    def _table(
        self, probs: Float[Array, "*batch R"], entries: Int[np.ndarray, "e 3"], size: int
    ) -> Float[Array, "*batch N {size}"]:
        """Probabilities of rules in a table of nodes and pairs, or nodes and symbols."""
        values = jnp.concatenate([probs, jnp.ones((*probs.shape[:-1], 1), probs.dtype)], -1)[..., entries[:, 2]]
        table = jnp.zeros((*probs.shape[:-1], self.num_nodes, size), probs.dtype)
        return table.at[..., entries[:, 0], entries[:, 1]].add(values)

    def _without_units(
        self, probs: Float[Array, "*batch R"], table: Float[Array, "*batch N m"]
    ) -> Float[Array, "*batch N m"]:
        """The table of nodes with unit rules eliminated."""
        units = self.rules.units
        if not units:
            return table
        rows = {place: table[..., place, :] for place in range(len(self.rules.nonterminals))}
        for place in self.rules.unit_order:
            for source, to, rule in units:
                if source == place:
                    rows[place] = rows[place] + probs[..., rule, None] * rows[to]
        of_nonterminals = jnp.stack([rows[place] for place in range(len(rows))], -2)
        return jnp.concatenate([of_nonterminals, table[..., len(rows) :, :]], -2)


def safe_log(values: Float[Array, "..."]) -> Float[Array, "..."]:
    """Logarithms with derivative 0 where they are -inf."""
    is_positive = values > 0
    return jnp.where(is_positive, jnp.log(jnp.where(is_positive, values, 1.0)), -jnp.inf)


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
                leaf_rules.append((nodes[symbols], codes[symbols[0]], -1))
        return nodes[symbols], is_new

    def add_pair(node: int, symbols: RightSide, rule: int) -> None:
        """A node is rewritten to the first symbol and the rest, and the rest likewise."""
        chain, is_new = [], True
        while is_new and len(symbols) > 1:
            (first, _), (rest, is_new) = node_of(symbols[:1]), node_of(symbols[1:])
            chain.append((node, (first, rest), rule))
            node, symbols, rule = rest, symbols[1:], -1
        for node, pair, rule in reversed(chain):
            pair_rules.append((node, pairs.setdefault(pair, len(pairs)), rule))

    for rule, (left, right) in enumerate(rules.rules):
        node = nodes[left,]
        if len(right) > 1:
            add_pair(node, right, rule)
        elif right[0] in codes:
            leaf_rules.append((node, codes[right[0]], rule))
    of_nodes = _without_units(rules, pair_rules, len(nodes))
    width = max(max(map(len, of_nodes)), 1)
    is_leaf = np.zeros((len(nodes), len(codes)), bool)
    for place, symbols in enumerate(_without_units(rules, leaf_rules, len(nodes))):
        is_leaf[place, symbols] = True
    return NormalForm(
        np.array(list(pairs), np.int32).reshape(-1, 2),
        np.array(pair_rules, np.int32).reshape(-1, 3),
        np.array(leaf_rules, np.int32).reshape(-1, 3),
        len(nodes),
        np.array([[*of_node, *[0] * (width - len(of_node))] for of_node in of_nodes], np.int32),
        np.array([[place < len(of_node) for place in range(width)] for of_node in of_nodes]),
        is_leaf,
        np.array([len(symbols) > 1 for symbols in nodes]),
        rules,
    )


def _without_units(rules: GrammarRules, entries: list[tuple[int, int, int]], num_nodes: int) -> list[list[int]]:
    """The pairs, or the symbols, of each node, with unit rules eliminated."""
    reached: list[set[int]] = [{to for node, to, _ in entries if node == place} for place in range(num_nodes)]
    for place in rules.unit_order:
        for source, to, _ in rules.units:
            if source == place:
                reached[place] |= reached[to]
    return [sorted(of_node) for of_node in reached]
