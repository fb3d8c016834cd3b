"""The number game: two spaces of concepts over the numbers from 1 to 100."""

import numpy as np

from ..errors import ModelError
from .space import HypothesisSpace

NUMBERS = range(1, 101)


def number_game(which="murphy", *, rule_weight=2 / 3, scale=10.0) -> HypothesisSpace:
    """A hypothesis space of the number game.

    Args:
        which: "murphy", 32 rules, or "tenenbaum", 34 rules and all 5050 intervals.
        rule_weight: prior probability that the concept is a rule ("tenenbaum").
        scale: intervals of n numbers have prior weight n exp(-n / scale) ("tenenbaum").

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 3.2 (pmtk3, numbersGame.m); Tenenbaum
    (1999), A Bayesian framework for concept learning.

    >>> len(number_game("murphy").names), len(number_game("tenenbaum").names)
    (32, 5084)
    """
    if which not in GAMES:
        raise ModelError(f"The number games are {list(GAMES)}, got {which!r}.")
    return GAMES[which](rule_weight, scale)


def _murphy(rule_weight, scale):
    rules = _parity(("even", "odd")) | _in("squares", [n * n for n in range(1, 11)]) | _multiples(range(3, 11))
    rules |= _endings(range(1, 10)) | _powers(range(2, 11)) | {"all": lambda x: True}
    twos = {2**k for k in range(1, 7)}
    rules |= _in("powers of 2 plus 37", twos | {37}) | _in("powers of 2 except 32", twos - {32})
    return HypothesisSpace.of(rules, NUMBERS, [0.5] * 2 + [0.1] * 28 + [0.001] * 2)


def _tenenbaum(rule_weight, scale):
    if not 0 < rule_weight < 1 or not scale > 0:
        raise ModelError("rule_weight must be between 0 and 1, and scale positive.")
    rules = _parity(("odd", "even")) | _in("squares", [n**2 for n in range(1, 11)])
    rules |= _in("cubes", [n**3 for n in range(1, 5)])
    rules |= _in("primes", [n for n in range(2, 101) if all(n % k for k in range(2, n))])
    rules |= _multiples(range(3, 13)) | _powers(range(2, 11)) | _endings(range(10))
    first, last = np.asarray([(a, b) for a in NUMBERS for b in NUMBERS if a <= b]).T
    numbers, lengths = np.asarray(NUMBERS), last - first + 1
    extensions = (first[:, None] <= numbers) & (numbers <= last[:, None])
    names = [f"{a} to {b}" for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    intervals = HypothesisSpace(names, extensions, NUMBERS, lengths * np.exp(-lengths / scale))
    return HypothesisSpace.union([(rule_weight, HypothesisSpace.of(rules, NUMBERS)), (1 - rule_weight, intervals)])


GAMES = {"murphy": _murphy, "tenenbaum": _tenenbaum}


def _parity(names):
    remainders = {"even": 0, "odd": 1}
    return {name: lambda x, rest=remainders[name]: x % 2 == rest for name in names}


def _in(name, members):
    return {name: frozenset(members).__contains__}


def _multiples(factors):
    return {f"multiples of {k}": lambda x, k=k: x % k == 0 for k in factors}


def _endings(digits):
    return {f"ends in {d}": lambda x, d=d: x % 10 == d for d in digits}


def _powers(bases):
    return {f"powers of {k}": frozenset(k**e for e in range(1, 7)).__contains__ for k in bases}
