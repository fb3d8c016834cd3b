"""The rules of a grammar as users write them, and what is wrong with those that are none."""

import functools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bayesgen.errors import ModelError

Symbol: TypeAlias = Hashable
RightSide: TypeAlias = tuple[Symbol, ...]
StatedRules: TypeAlias = Mapping[Symbol, Iterable[str | Sequence[Symbol]]]


@dataclass(frozen=True)
class GrammarRules:
    """The rules of a context-free grammar without empty strings, checked: see `GrammarRules.of`.

    Attributes:
        nonterminals: what can be rewritten, in the order in which it was written.
        right_sides: of each nonterminal, what it can be rewritten to.
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
                white space. What is no key is a terminal.
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
        """Where the rules of each nonterminal are among all."""
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
        """How many terminals the shortest string of each nonterminal has; infinity where it derives none."""
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
        """The nonterminals, each after all that it can be rewritten to one by one; shorter where there is a cycle."""
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
        """Refuse grammars that are none, by name."""
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
        endless = [n for n, length in self.least_lengths.items() if math.isinf(length)]
        if endless:
            raise ModelError(
                f"{_listed(endless)} derives no string of terminals: every rule leads back to nonterminals without "
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
