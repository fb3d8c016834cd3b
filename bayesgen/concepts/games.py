"""Hypothesis spaces of the literature: the number game, and rectangles on a grid."""

import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from bayesgen.errors import ModelError, check_integer
from bayesgen.typing import Array, Float

from .prior import Hyperparameter, Number
from .space import Extensions, HypothesisSpace

Predicates: TypeAlias = dict[str, Callable[..., bool]]

NUMBER_DOMAIN = range(1, 101)
POSITIVE = (0, np.inf)


def number_game(
    which: str = "murphy", *, rule_weight: Hyperparameter = 2 / 3, scale: Hyperparameter = 10.0
) -> HypothesisSpace:
    """A hypothesis space of the number game, over the numbers from 1 to 100.

    Args:
        which: "murphy", 32 rules, or "tenenbaum", 34 rules and all 5050 intervals.
        rule_weight: prior probability that the concept is a rule ("tenenbaum"), or its NumPyro distribution.
        scale: intervals of n numbers have prior weight n exp(-n / scale) ("tenenbaum"); or its NumPyro distribution.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 3.2 (pmtk3, numbersGame.m); Tenenbaum
    (1999), A Bayesian framework for concept learning.

    >>> len(number_game("murphy").names), len(number_game("tenenbaum").names)
    (32, 5084)

    With an unknown hyperparameter:

    >>> import bayesgen as bg, numpyro.distributions as dist
    >>> space = number_game("tenenbaum", rule_weight=dist.Beta(2, 2))
    >>> fit = bg.fit(bg.ConceptLearner(space), [16, 8, 2, 64], method=bg.MAP())  # or NUTS()
    >>> print(fit.parameters["rule_weight"].round(3))
    0.667
    """
    if not isinstance(which, str) or which not in GAMES:
        raise ModelError(f"The number games are {list(GAMES)}, got {which!r}.")
    return GAMES[which](rule_weight, scale)


@functools.cache
def _murphy_space() -> HypothesisSpace:
    rules = _parity(("even", "odd")) | _in("squares", [n * n for n in range(1, 11)]) | _multiples(range(3, 11))
    rules |= _endings(range(1, 10)) | _powers(range(2, 11)) | {"all": lambda x: True}
    twos = {2**k for k in range(1, 7)}
    rules |= _in("powers of 2 plus 37", twos | {37}) | _in("powers of 2 except 32", twos - {32})
    return HypothesisSpace.of(rules, NUMBER_DOMAIN, [0.5] * 2 + [0.1] * 28 + [0.001] * 2)


def _tenenbaum(rule_weight: Hyperparameter, scale: Hyperparameter) -> HypothesisSpace:
    names, extensions = _intervals(len(NUMBER_DOMAIN))
    intervals = HypothesisSpace(
        names, extensions, NUMBER_DOMAIN, _gamma_shaped, ranges={"scale": POSITIVE}, scale=scale
    )
    weighted = [(_share_of_rules, _tenenbaum_rules()), (_share_of_intervals, intervals)]
    return HypothesisSpace.union(weighted, ranges={"rule_weight": (0, 1)}, rule_weight=rule_weight)


# module-level functions, so that all spaces of the game share one compiled density


def _share_of_rules(rule_weight: Number) -> Number:
    return rule_weight


def _share_of_intervals(rule_weight: Number) -> Number:
    return 1 - rule_weight


def _gamma_shaped(sizes: Float[Array, " G"], scale: Number) -> Float[Array, " G"]:
    return np.log(sizes) - sizes / scale


@functools.cache
def _tenenbaum_rules() -> HypothesisSpace:
    rules = _parity(("odd", "even")) | _in("squares", [n**2 for n in range(1, 11)])
    rules |= _in("cubes", [n**3 for n in range(1, 5)])
    rules |= _in("primes", [n for n in range(2, 101) if all(n % k for k in range(2, n))])
    rules |= _multiples(range(3, 13)) | _powers(range(2, 11)) | _endings(range(10))
    return HypothesisSpace.of(rules, NUMBER_DOMAIN)


@functools.cache
def _intervals(size: int) -> tuple[list[str], Extensions]:
    """Names and extensions of all intervals of 1, ..., size."""
    first, last = (index + 1 for index in np.triu_indices(size))
    numbers = np.arange(1, size + 1)
    extensions = Extensions.of((first[:, None] <= numbers) & (numbers <= last[:, None]))
    return [f"{a} to {b}" for a, b in zip(first.tolist(), last.tolist(), strict=True)], extensions


MOST_CELLS = 2**31  # bytes, of the rectangles that hold each point
GAMES = {"murphy": lambda rule_weight, scale: _murphy_space(), "tenenbaum": _tenenbaum}


def rectangles(width: int, height: int, *, scale: Hyperparameter | None = None) -> HypothesisSpace:
    """All axis-parallel rectangles on a grid of points (x, y), x from 1 to width and y from 1 to height.

    For example, a patient is healthy if the levels of two hormones are both within unknown bounds.

    Args:
        width, height: numbers of points.
        scale: None for equal prior weights; else rectangles of n points have prior weight exp(-n / scale). A number,
            or a NumPyro distribution.

    Source: Tenenbaum (1999), Bayesian modeling of human concept learning.

    >>> import bayesgen as bg
    >>> healthy = bg.ConceptLearner(bg.rectangles(6, 5))
    >>> fit = bg.fit(healthy, [(2, 2), (4, 3), (3, 2)], method=bg.Exact())
    >>> fit.ties
    ('2 to 4 by 2 to 3',)
    >>> bg.predict(fit, [(3, 3), (5, 3), (6, 5)], rule=bg.BMA()).membership.round(2).tolist()
    [1.0, 0.41, 0.01]
    """
    for name, size in (("width", width), ("height", height)):
        check_integer(f"rectangles: {name}", size, 1)
    num_cells = width * (width + 1) * height * (height + 1) // 4 * width * height
    if num_cells > MOST_CELLS:
        raise ModelError(f"rectangles({width}, {height}): rectangles × points would be {num_cells:,} cells in memory.")
    across, up = _intervals(width), _intervals(height)
    names = [f"{horizontal} by {vertical}" for horizontal in across[0] for vertical in up[0]]
    sides = (np.asarray(extensions) for _, extensions in (across, up))
    inside = np.einsum("ax,by->abxy", *sides).reshape(len(names), width * height)
    domain = [(x, y) for x in range(1, width + 1) for y in range(1, height + 1)]
    if scale is None:
        return HypothesisSpace(names, inside, domain, np.ones(len(names)))
    return HypothesisSpace(names, inside, domain, _exponential, ranges={"scale": POSITIVE}, scale=scale)


def _exponential(sizes: Float[Array, " G"], scale: Number) -> Float[Array, " G"]:
    return -sizes / scale


def _parity(names: Iterable[str]) -> Predicates:
    remainders = {"even": 0, "odd": 1}
    return {name: lambda x, rest=remainders[name]: x % 2 == rest for name in names}


def _in(name: str, members: Iterable[int]) -> Predicates:
    return {name: frozenset(members).__contains__}


def _multiples(factors: Iterable[int]) -> Predicates:
    return {f"multiples of {k}": lambda x, k=k: x % k == 0 for k in factors}


def _endings(digits: Iterable[int]) -> Predicates:
    return {f"ends in {d}": lambda x, d=d: x % 10 == d for d in digits}


def _powers(bases: Iterable[int]) -> Predicates:
    return {f"powers of {k}": frozenset(k**e for e in range(1, 7)).__contains__ for k in bases}
