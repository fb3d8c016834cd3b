"""The Chomsky normal form of a grammar: every node is rewritten to two nodes, or to one symbol.

What users write stays what probabilities and priors are of: weights of the normal form are functions of the
probabilities of the users' rules. Three things are changed, of which no string and no parse tree gets another
probability:

- A terminal beside other symbols becomes a node of its own, which is rewritten to it with probability 1.
- A right-hand side of more than two symbols is its first one and a node for the rest, which is rewritten to that with
  probability 1. Rules with the same rest share the node.
- Unit rules, A -> B, are gone through: A is rewritten to whatever B is, with the product of the probabilities, summed
  over all ways from A to B, of which there are finitely many.

Source: Hopcroft and Ullman (1979), Introduction to Automata Theory, Languages, and Computation, theorem 4.5.
"""

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from bayesgen.typing import Array, Bool, Float, Int

from .grammar_rules import GrammarRules, RightSide


@dataclass(frozen=True, eq=False)
class NormalForm:
    """The structure of a normal form: what does not depend on probabilities.

    Nodes are the nonterminals, then what was added. Pairs are the distinct pairs of nodes that nodes are rewritten to;
    leaves are (node, symbol).

    Attributes:
        pairs: (P, 2), the nodes of each pair.
        pair_rules: (node, pair, rule) before unit rules are gone through; rule -1 has probability 1.
        leaf_rules: (node, symbol, rule), likewise.
        num_nodes: N.
        choices: (N, C), the pairs that each node can be rewritten to; filled up with 0.
        is_choice: (N, C), which of them are there.
        is_leaf: (N, r), the symbols that each node can be rewritten to.
        is_rest: (N,), which nodes stand for the rest of a right-hand side.
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

    def weights(self, probs: Float[Array, "*batch R"]) -> tuple[Float[Array, "*batch N C"], Float[Array, "*batch N V"]]:
        """Log probabilities of the choices of each node, and of each symbol under each node, V = r + 1. Traceable.

        The last column is that of a symbol that is not known: the sum over all symbols.
        """
        probs = jnp.asarray(probs)
        of_pairs = self._through_units(probs, self._table(probs, self.pair_rules, len(self.pairs)))
        of_leaves = self._through_units(probs, self._table(probs, self.leaf_rules, len(self.rules.symbols)))
        of_leaves = jnp.concatenate([of_leaves, of_leaves.sum(-1, keepdims=True)], -1)
        if not len(self.pairs):
            return jnp.full((*probs.shape[:-1], *self.choices.shape), -jnp.inf, probs.dtype), safe_log(of_leaves)
        chosen = of_pairs[..., np.arange(self.num_nodes, dtype=np.int32)[:, None], self.choices]
        return safe_log(jnp.where(self.is_choice, chosen, 0.0)), safe_log(of_leaves)

    def _table(
        self, probs: Float[Array, "*batch R"], entries: Int[np.ndarray, "e 3"], size: int
    ) -> Float[Array, "*batch N {size}"]:
        """Probabilities of rules in a table of nodes and what they are rewritten to."""
        values = jnp.concatenate([probs, jnp.ones((*probs.shape[:-1], 1), probs.dtype)], -1)[..., entries[:, 2]]
        table = jnp.zeros((*probs.shape[:-1], self.num_nodes, size), probs.dtype)
        return table.at[..., entries[:, 0], entries[:, 1]].add(values)

    def _through_units(
        self, probs: Float[Array, "*batch R"], table: Float[Array, "*batch N m"]
    ) -> Float[Array, "*batch N m"]:
        """The same table of nodes, to which what they can be rewritten to one by one has been added."""
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
    """Logarithms, whose derivative is 0 where they are -inf."""
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
    of_nodes = _through_units(rules, pair_rules, len(nodes))
    width = max(max(map(len, of_nodes)), 1)
    is_leaf = np.zeros((len(nodes), len(codes)), bool)
    for place, symbols in enumerate(_through_units(rules, leaf_rules, len(nodes))):
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


def _through_units(rules: GrammarRules, entries: list[tuple[int, int, int]], num_nodes: int) -> list[list[int]]:
    """The pairs, or the symbols, that each node can be rewritten to, unit rules gone through."""
    reached: list[set[int]] = [{to for node, to, _ in entries if node == place} for place in range(num_nodes)]
    for place in rules.unit_order:
        for source, to, _ in rules.units:
            if source == place:
                reached[place] |= reached[to]
    return [sorted(of_node) for of_node in reached]
