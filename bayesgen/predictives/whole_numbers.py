"""Whole numbers as the support of a number: sums over all of them, by adaptive panels."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.polynomial import legendre
from numpyro.distributions.constraints import Constraint

from bayesgen.records import by_content
from bayesgen.typing import Bool, Float, Int

from .quadrature import NODES, Support


@by_content
class WholeNumbers(Support):
    """The whole numbers from one to another in each row. A coordinate is the number itself.

    Panels have 15, 60, 240, ... numbers: the sum over 15 is exact. Of others 15 are evaluated, near the nodes of
    Kronrod, and their polynomial is summed over all.

    Attributes:
        low, high: the least and the greatest number; infinite where there is none.
    """

    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]

    spacing = 1.0

    @classmethod
    def of(cls, support: Constraint, num_rows: int) -> "WholeNumbers":
        """The whole numbers of a NumPyro support, whose bounds may differ from row to row."""
        bounds = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
        return cls(*(np.broadcast_to(np.asarray(bound, np.float64), (num_rows,)) for bound in bounds))

    def take(self, part: slice) -> "WholeNumbers":
        return WholeNumbers(self.low[part], self.high[part])

    @property
    def start(self) -> Float[np.ndarray, " n"]:
        return np.clip(0.0, self.low, self.high)

    @property
    def edges(self) -> Float[np.ndarray, " edges"]:
        """Multiples of 15 up to 255, so that sums up to there are exact, and powers of 16 less 1, up to 10^12."""
        edges = np.concatenate([np.arange(0.0, 255.0, 15.0), 16.0 ** np.arange(2, 11) - 1])
        ends = np.abs([self.low, self.high])
        edges = edges[: np.searchsorted(edges, ends.max(initial=0)) + 2]
        return edges if (self.low >= 0).all() else np.concatenate([1 - edges[:0:-1], edges + 1])

    def values(
        self, u: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."] | int = 0
    ) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        y = np.clip(u, self.low[rows], self.high[rows])
        return y, np.where(y == u, 0.0, -np.inf)

    def coordinates(
        self, y: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."] | int = 0
    ) -> Float[np.ndarray, "..."]:
        return np.where(y < self.low[rows], -np.inf, np.where(y > self.high[rows], np.inf, y))

    def holds(self, y: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        return np.isfinite(self.coordinates(y, rows)) & (y == np.floor(y))

    def nodes(self, left: Float[np.ndarray, " P"], right: Float[np.ndarray, " P"]) -> Float[np.ndarray, "P 15"]:
        return left[:, None] + _by_width(right - left, lambda rule, _: rule.positions)

    def rules(
        self, left: Float[np.ndarray, " P"], right: Float[np.ndarray, " P"]
    ) -> tuple[Float[np.ndarray, "P 15"], Float[np.ndarray, "P 15"]]:
        """By the polynomial through all nodes, and through every second one."""
        widths = right - left
        return self.weights_up_to(right - 1, left, right), _by_width(widths, lambda rule, _: rule.coarse)

    def weights_up_to(
        self, u: Float[np.ndarray, "..."], left: Float[np.ndarray, "..."], right: Float[np.ndarray, "..."]
    ) -> Float[np.ndarray, "... 15"]:
        widths = right - left
        last = np.clip(np.floor(u) - left, 0, widths - 1)
        return _by_width(widths, lambda rule, chosen: rule.up_to(last[chosen]))

    def quantiles(
        self,
        probabilities: Float[np.ndarray, "*m"],
        densities: Float[np.ndarray, "*m 15"],
        left: Float[np.ndarray, "*m"],
        right: Float[np.ndarray, "*m"],
    ) -> Float[np.ndarray, "*m"]:
        """The first numbers at which sums reach the probabilities."""
        low, high = left - 1, right - 1
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            enough = (densities * self.weights_up_to(middle, left, right)).sum(-1) >= probabilities
            low, high = np.where(enough, low, middle), np.where(enough & (middle > low), middle, high)
        return high


class SummationRule(NamedTuple):
    """Weights of the nodes for sums over the successive whole numbers of a panel.

    Attributes:
        positions: of the nodes among the numbers, 0 for the first.
        up_to: positions of numbers -> weights of the nodes for the sum up to these.
        coarse: weights of every second node for the sum over all; 0 for the others.
    """

    positions: Float[np.ndarray, " 15"]
    up_to: Callable[[Float[np.ndarray, " m"]], Float[np.ndarray, "m 15"]]
    coarse: Float[np.ndarray, " 15"]


@functools.cache
def _rule(width: float) -> SummationRule:
    """The rule of panels with this many numbers."""
    if width == len(NODES):
        every = np.ones(len(NODES))
        return SummationRule(np.arange(width), lambda last: np.tri(len(NODES))[last.astype(int)], every)
    positions = np.rint((NODES + 1) * width / 2 - 0.5)
    fine, coarse = _sums(positions, width), np.zeros(len(NODES))
    coarse[1::2] = _sums(positions[1::2], width).sum(0)
    return SummationRule(
        positions, lambda last: legendre.legvander(2 * (last + 1) / width - 1, len(NODES)) @ fine, coarse
    )


def _sums(positions: Float[np.ndarray, " nodes"], width: float) -> Float[np.ndarray, "_ nodes"]:
    """Legendre's coefficients of the sums of interpolating polynomials, as functions of the last number.

    Polynomial i is 1 at position i, and 0 at the others. The sum of a polynomial p over successive numbers is the
    integral of D/2 / sinh(D/2) p, with D the derivative, from half a number before the first to half a number after
    the last (the midpoint form of the Euler-Maclaurin formula, Abramowitz & Stegun 23.1.32); finitely many terms differ
    from 0.
    """
    half, degree = width / 2, len(positions) - 1
    coefficients = np.linalg.inv(legendre.legvander((positions + 0.5) / half - 1, degree))
    derivative = np.pad(legendre.legder(np.eye(degree + 1)), ((0, 1), (0, 0))) / half
    orders = np.arange(0, degree + 1, 2)
    factors = (2.0 ** (1 - orders) - 1) * scipy.special.bernoulli(degree)[orders] / scipy.special.factorial(orders)
    terms = [f * np.linalg.matrix_power(derivative, order) for f, order in zip(factors, orders.tolist(), strict=True)]
    return half * legendre.legint(sum(terms) @ coefficients, lbnd=-1)


def _by_width(
    widths: Float[np.ndarray, "*m"],
    ask: Callable[[SummationRule, Bool[np.ndarray, "*m"]], Float[np.ndarray, "#some 15"]],
) -> Float[np.ndarray, "*m 15"]:
    """Weights of the nodes of each panel, from a function of the rule of a width and the mask of its panels."""
    weights = np.empty((*widths.shape, len(NODES)))
    for width in np.unique(widths):
        is_width = widths == width
        weights[is_width] = ask(_rule(float(width)), is_width)
    return weights
