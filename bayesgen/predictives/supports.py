"""Supports of a number: a stretched line, or whole numbers; their rules for integrals and sums on panels, and roots."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from numpy.polynomial import legendre
from numpyro.distributions import constraints
from numpyro.distributions.transforms import IdentityTransform, Transform, biject_to

from bayesgen.records import by_content
from bayesgen.runtime import CACHE_ROWS, over_chunks
from bayesgen.typing import Array, Bool, Float, Int, Shaped

# Piessens et al. (1983), QUADPACK, routine QK15: nodes in [0, 1], weights of Kronrod, weights of Gauss
_HALF = np.array(
    [
        [0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0],
        [0.949107912342758524526189684047851, 0.063092092629978553290700663189204, 0.129484966168869693270611432679082],
        [0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0],
        [0.741531185599394439863864773280788, 0.140653259715525918745189590510238, 0.279705391489276667901467771423780],
        [0.586087235467691130294144691693331, 0.169004726639267902826583426598550, 0.0],
        [0.405845151377397166906606412076961, 0.190350578064785409913256402421014, 0.381830050505118944950369775488975],
        [0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0],
        [0.0, 0.209482141084727828012999174891714, 0.417959183673469387755102040816327],
    ]
)
NODES: Float[np.ndarray, " 15"] = np.concatenate([-_HALF[:, 0], _HALF[-2::-1, 0]])
KRONROD: Float[np.ndarray, " 15"] = np.concatenate([_HALF[:, 1], _HALF[-2::-1, 1]])
GAUSS: Float[np.ndarray, " 15"] = np.concatenate([_HALF[:, 2], _HALF[-2::-1, 2]])
_DEGREE = len(NODES) - 1
_COEFFICIENTS = np.linalg.inv(legendre.legvander(NODES, _DEGREE))  # of Legendre's polynomials, from values at the nodes
_ANTIDERIVATIVES = legendre.legint(_COEFFICIENTS, lbnd=-1)

EDGES: Float[np.ndarray, " edges"] = np.linspace(-20.0, 20.0, 25)  # of the panels at first, in u


class Support(abc.ABC):
    """The values that a number y may take, at coordinates u, and rules for sums over panels of these.

    Rows have supports of their own where `rows` are arguments: the row of each value, of a shape that broadcasts.
    """

    spacing: ClassVar[float]
    """The distance of neighbouring values; 0 where they are real numbers."""

    @property
    def real_scale(self) -> tuple[float, float] | None:
        """Rough center and scale of y where it may be any real number, as if it were normal; else None."""
        return None

    @property
    def edges(self) -> Float[np.ndarray, " edges"]:
        """The edges of the panels at first, in u."""
        return EDGES

    @property
    @abc.abstractmethod
    def start(self) -> float | Float[np.ndarray, " n"]:
        """Some value in the support, of all rows or of each."""

    @abc.abstractmethod
    def values(
        self, u: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."] | int = 0
    ) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """y at coordinates u, and log |dy/du|; -inf, and some value in the support, where there is none."""

    @abc.abstractmethod
    def coordinates(
        self, y: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."] | int = 0
    ) -> Float[np.ndarray, "..."]:
        """Coordinates u of values; infinite beyond the support."""

    def holds(self, y: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        """Whether y is in the support."""
        return np.isfinite(self.coordinates(y, rows))

    @abc.abstractmethod
    def nodes(self, left: Float[np.ndarray, " P"], right: Float[np.ndarray, " P"]) -> Float[np.ndarray, "P 15"]:
        """The nodes of panels between these ends, in u."""

    @abc.abstractmethod
    def rules(
        self, left: Float[np.ndarray, " P"], right: Float[np.ndarray, " P"]
    ) -> tuple[Float[np.ndarray, "P 15"], Float[np.ndarray, "P 15"]]:
        """Weights of the nodes for the sum over a panel, by a rule and by one of lower order."""

    @abc.abstractmethod
    def weights_up_to(
        self, u: Float[np.ndarray, "..."], left: Float[np.ndarray, "..."], right: Float[np.ndarray, "..."]
    ) -> Float[np.ndarray, "... 15"]:
        """Weights of the nodes for the sum from the left end of a panel up to u."""

    @abc.abstractmethod
    def quantiles(
        self,
        probabilities: Float[np.ndarray, "*m"],
        densities: Float[np.ndarray, "*m 15"],
        left: Float[np.ndarray, "*m"],
        right: Float[np.ndarray, "*m"],
    ) -> Float[np.ndarray, "*m"]:
        """The y up to which sums from the left end of a panel reach these probabilities."""

    def take(self, part: slice) -> "Support":
        """The support of some of the rows."""
        return self


@dataclasses.dataclass(frozen=True)
class Line(Support):
    """The change of variable y = f(center + scale sinh(u)), by which heavy tails in y are short tails in u.

    Attributes:
        transform: f, from the real line to the support of y.
        center, scale: of the marginal distribution of y, roughly, in unconstrained coordinates.
    """

    transform: Transform
    center: float
    scale: float

    spacing = 0.0

    @classmethod
    def of(cls, support: constraints.Constraint, values: Float[np.ndarray, " m"]) -> "Line":
        """The change of variable for a support, fitted to typical values of the response."""
        transform = biject_to(support)
        with jax.enable_x64(True):
            free = np.asarray(transform.inv(jnp.asarray(values, float)))
        free = free[np.isfinite(free)]
        if not len(free):
            return cls(transform, 0.0, 1.0)
        low, median, high = np.quantile(free, [0.25, 0.5, 0.75])
        deviation = (high - low) / 1.349  # as for a normal distribution
        return cls(transform, float(median), float(deviation or max(abs(median), 1.0)))

    @property
    def is_real(self) -> bool:
        """Whether y may be any number."""
        return isinstance(self.transform, IdentityTransform)

    @property
    def real_scale(self) -> tuple[float, float] | None:
        return (self.center, self.scale) if self.is_real else None

    @functools.cached_property
    def start(self) -> float:
        """y at u = 0."""
        return self.center if self.is_real else float(_mapped(self._constrained, np.full(1, self.center))[0][0])

    def values(
        self, u: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."] | int = 0
    ) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """y at coordinates u, and log |dy/du|; -inf where y overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            free = self.center + self.scale * np.sinh(u)
            log_slope = np.log(self.scale) + np.logaddexp(u, -u) - np.log(2.0)
            if self.is_real:
                return free, log_slope
            y, jacobian, possible = _mapped(self._constrained, free)
            inside = possible & np.isfinite(y)
            return np.where(inside, y, self.start), np.where(inside, log_slope + jacobian, -np.inf)

    def _constrained(self, free: Float[Array, " m"]) -> tuple[Array, Array, Array]:
        y = self.transform(free)
        return y, self.transform.log_abs_det_jacobian(free, y), self.transform.codomain(y)

    def coordinates(
        self, y: Float[np.ndarray, "..."], rows: Int[np.ndarray, "..."] | int = 0
    ) -> Float[np.ndarray, "..."]:
        if self.is_real:
            return np.arcsinh((y - self.center) / self.scale)
        (possible,) = _mapped(lambda values: (self.transform.codomain(values),), y)
        (free,) = _mapped(lambda values: (self.transform.inv(values),), np.where(possible, y, self.start))
        u = np.arcsinh((free - self.center) / self.scale)
        return np.where(possible, u, np.where(y < self.start, -np.inf, np.inf))

    def nodes(self, left: Float[np.ndarray, " P"], right: Float[np.ndarray, " P"]) -> Float[np.ndarray, "P 15"]:
        return 0.5 * ((right - left)[:, None] * NODES + (left + right)[:, None])

    def rules(
        self, left: Float[np.ndarray, " P"], right: Float[np.ndarray, " P"]
    ) -> tuple[Float[np.ndarray, "P 15"], Float[np.ndarray, "P 15"]]:
        """Weights of the rules of Kronrod and of Gauss."""
        halves = 0.5 * (right - left)[:, None]
        return halves * KRONROD, halves * GAUSS

    def weights_up_to(
        self, u: Float[np.ndarray, "..."], left: Float[np.ndarray, "..."], right: Float[np.ndarray, "..."]
    ) -> Float[np.ndarray, "... 15"]:
        share = np.clip((2 * u - left - right) / (right - left), -1.0, 1.0)
        return 0.5 * (right - left)[..., None] * antiderivatives(share)

    def quantiles(
        self,
        probabilities: Float[np.ndarray, "*m"],
        densities: Float[np.ndarray, "*m 15"],
        left: Float[np.ndarray, "*m"],
        right: Float[np.ndarray, "*m"],
    ) -> Float[np.ndarray, "*m"]:
        halves, ones = 0.5 * (right - left), np.ones(probabilities.shape)
        share = find_roots(
            lambda x: halves * (densities * antiderivatives(x)).sum(-1) - probabilities,
            lambda x: halves * (densities * interpolants(x)).sum(-1),
            -ones,
            ones,
        )
        return self.values(0.5 * (left + right) + halves * share)[0]


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
    def of(cls, support: constraints.Constraint, num_rows: int) -> "WholeNumbers":
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


def find_roots(
    function: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]],
    slope: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]],
    low: Float[np.ndarray, "..."],
    high: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "..."]:
    """Roots of increasing functions in brackets: by Newton's steps, or bisection where these leave the bracket."""
    tolerance = 1e-15  # of a root relative to its bracket, and of the function, a probability
    least = tolerance * np.maximum(abs(low), abs(high))
    point = 0.5 * (low + high)
    for _ in range(200):
        value = function(point)
        low, high = np.where(value <= 0, point, low), np.where(value >= 0, point, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = point - value / slope(point)
        is_small = abs(step - point) <= least  # also to or past a near end
        is_inside = (step > low) & (step < high)
        is_converged = (high - low <= least) | is_small | (abs(value) <= tolerance) | np.isnan(point)
        point = np.where(is_converged, point, np.where(is_inside, step, 0.5 * (low + high)))
        if is_converged.all():
            break
    return point


def _mapped(
    function: Callable[[Array], tuple[Array, ...]], values: Float[np.ndarray, "*shape"]
) -> tuple[Shaped[np.ndarray, "*shape"], ...]:
    """A JAX function of values, in chunks of one size, so that it compiles once."""
    flat = np.asarray(values, np.float64).ravel()
    with jax.enable_x64(True):
        columns = over_chunks(lambda part: function(jnp.asarray(part)), flat, len(flat), CACHE_ROWS, least=CACHE_ROWS)
    return tuple(column.reshape(values.shape) for column in columns)


def interpolants(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """Weights of values at the nodes, for the interpolating polynomial at x."""
    return legendre.legvander(x, _DEGREE) @ _COEFFICIENTS


def antiderivatives(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """Weights of values at the nodes, for the integral of the interpolating polynomial from -1 to x."""
    return legendre.legvander(x, _DEGREE + 1) @ _ANTIDERIVATIVES
