"""Integrals and sums of functions of one number over its support, one a row, by adaptive panels; and roots."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre
from numpyro.distributions import constraints
from numpyro.distributions.transforms import IdentityTransform, Transform, biject_to

from bayesgen.records import record
from bayesgen.runtime import CACHE_ROWS, ROUNDING, over_chunks
from bayesgen.typing import Array, Bool, Float, Int, Shaped


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

LogFunction: TypeAlias = Callable[[Int[np.ndarray, " m"], Float[np.ndarray, " m"]], Float[np.ndarray, " m"]]
"""Positions of rows, and a value of y for each -> log of the function of y that is integrated, such as log p(x, y)."""

EDGES: Float[np.ndarray, " edges"] = np.linspace(-20.0, 20.0, 25)  # of the panels at first, in u
# difference of two rules on a panel, as a part of the integral; the error of the better rule is far lower
QUADRATURE_TOLERANCE = 1e-9
NEAR_PEAK, LARGEST_JUMP = 30.0, 3.0  # nats: below the peak, of relevant panels; between neighbouring nodes, at most
UNSEEN, OPTIMISM = 0.5, 4.0  # nats of a peak above nodes, at most; factor on the rise of a parabola


def interpolants(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """Weights of values at the nodes, for the interpolating polynomial at x."""
    return legendre.legvander(x, _DEGREE) @ _COEFFICIENTS


def antiderivatives(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """Weights of values at the nodes, for the integral of the interpolating polynomial from -1 to x."""
    return legendre.legvander(x, _DEGREE + 1) @ _ANTIDERIVATIVES


@record
class Panels:
    """Intervals of u with quadrature nodes, sorted by row and place.

    Attributes:
        rows: the row of each panel.
        left, right: ends, in u.
        nodes: in u.
        values: y at the nodes.
        logs: logs of the function of u at the nodes.
    """

    rows: Int[np.ndarray, " P"]
    left: Float[np.ndarray, " P"]
    right: Float[np.ndarray, " P"]
    nodes: Float[np.ndarray, "P 15"]
    values: Float[np.ndarray, "P 15"]
    logs: Float[np.ndarray, "P 15"]

    def take(self, places: Int[np.ndarray, " _"] | Bool[np.ndarray, " P"]) -> "Panels":
        """Some of them, or all in another order."""
        return jax.tree.map(lambda array: array[places], self)


@record
class Integrals:
    """The function on panels, and its integrals.

    Attributes:
        peaks: log of the largest value of each row, in u; -inf where it is zero.
        functions: relative to the peaks, at the nodes.
        by_panel: integrals of these.
        errors: differences from the integrals by the rule of lower order.
        totals: sums of the integrals of panels.
    """

    peaks: Float[np.ndarray, " n"]
    functions: Float[np.ndarray, "P 15"]
    by_panel: Float[np.ndarray, " P"]
    errors: Float[np.ndarray, " P"]
    totals: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, panels: Panels, num_rows: int, support: Support) -> "Integrals":
        """The integrals on these panels."""
        peaks = np.full(num_rows, -np.inf)
        np.maximum.at(peaks, panels.rows, panels.logs.max(1))
        functions = np.exp(panels.logs - np.where(np.isneginf(peaks), 0.0, peaks)[panels.rows, None])
        by_panel, coarser = (
            np.einsum("pi,pi->p", functions, rule) for rule in support.rules(panels.left, panels.right)
        )
        return cls(peaks, functions, by_panel, by_panel - coarser, np.bincount(panels.rows, by_panel, num_rows))

    @property
    def logs(self) -> Float[np.ndarray, " n"]:
        """Logs of the integrals of rows."""
        with np.errstate(divide="ignore"):
            return np.log(self.totals) + self.peaks


def integrate(
    log_function: LogFunction, num_rows: int, support: Support, edges: Float[np.ndarray, " edges"] | None = None
) -> tuple[Panels, Integrals]:
    """The integrals over y of a positive function in each row, and the panels on which they were computed.

    Integrals over whole numbers are sums. The range of u is cut into panels, at first the same for all rows. Panels are
    cut again while two rules differ on them, or while the nodes may have missed a peak.

    Args:
        log_function: log of the function.
        num_rows: n.
        support: the values of y.
        edges: of the panels at first, in u, if not those of the support.

    Source: Piessens et al. (1983), QUADPACK, rule of 15 points; stretched tails as in Takahasi and Mori (1974), Double
    exponential formulas for numerical integration.
    """
    edges = support.edges if edges is None else edges
    panels = _panels(log_function, support, np.arange(num_rows), np.tile(edges, (num_rows, 1)))
    while (coarse := _too_coarse(panels, integrals := Integrals.of(panels, num_rows, support), support)).any():
        parents = panels.take(coarse)
        cuts = parents.left[:, None] + (parents.right - parents.left)[:, None] * np.linspace(0.0, 1.0, 5)
        cuts[:, -1] = parents.right
        pieces = _panels(log_function, support, parents.rows, cuts)
        panels = jax.tree.map(lambda *arrays: np.concatenate(arrays), panels.take(~coarse), pieces)
        panels = panels.take(np.lexsort((panels.left, panels.rows)))
    return panels, integrals


def _panels(
    log_function: LogFunction, support: Support, rows: Int[np.ndarray, " R"], edges: Float[np.ndarray, "R edges"]
) -> Panels:
    """Panels between successive edges."""
    rows, left, right = np.repeat(rows, edges.shape[1] - 1), edges[:, :-1].ravel(), edges[:, 1:].ravel()
    nodes = support.nodes(left, right)
    values, log_slopes = support.values(nodes, rows[:, None])
    logs = log_function(np.repeat(rows, len(NODES)), values.ravel()).reshape(values.shape) + log_slopes
    impossible = np.isneginf(log_slopes) | (np.isnan(logs) & ~np.isfinite(values))
    return Panels(rows, left, right, nodes, values, np.where(impossible, -np.inf, logs))


def _too_coarse(panels: Panels, integrals: Integrals, support: Support) -> Bool[np.ndarray, " P"]:
    """Which panels to cut."""
    peaks, totals = integrals.peaks[panels.rows], integrals.totals[panels.rows]
    coarse = abs(integrals.errors) > QUADRATURE_TOLERANCE * totals
    # between neighbours: the last node of a panel, and the first of the next
    last, first = panels.logs[:-1, -1], panels.logs[1:, 0]
    together = panels.rows[:-1] == panels.rows[1:]
    with np.errstate(invalid="ignore"):  # of impossible rows
        is_near = np.maximum(last, first) > peaks[:-1] - NEAR_PEAK
        jumps = together & is_near & ~(abs(last - first) <= LARGEST_JUMP)
    coarse[:-1] |= jumps
    coarse[1:] |= jumps
    coarse |= _with_unseen_peaks(panels, peaks)
    narrowest = np.maximum(2 * ROUNDING * np.maximum(abs(panels.left), 1e-3), len(NODES) * support.spacing)
    return coarse & (panels.right - panels.left > narrowest)  # not at a jump of the function, nor where it is exact


def _with_unseen_peaks(panels: Panels, peaks: Float[np.ndarray, " P"]) -> Bool[np.ndarray, " P"]:
    """Panels with a node above its neighbours near which the function may have a much higher peak.

    The height of the peak is estimated by the parabola through the three nodes and, where the neighbours are far below,
    by their distance: the node may lie on the peak of its parabola, far from the peak of the function.
    """
    u, logs = panels.nodes.ravel(), panels.logs.ravel()
    rows, tops = (np.repeat(array, len(NODES)) for array in (panels.rows, peaks))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        before, after = (np.diff(logs) / np.diff(u))[:-1], (np.diff(logs) / np.diff(u))[1:]
        curvature = (after - before) / (u[2:] - u[:-2])
        slope = before + curvature * (u[1:-1] - u[:-2])
        rise = -(slope**2) / (4 * curvature)
        drop = np.minimum(logs[1:-1] - logs[:-2], logs[1:-1] - logs[2:])
        drop = np.where(drop > LARGEST_JUMP, drop, 0.0)
        is_peak = (before >= 0) & (after <= 0) & (curvature < 0) & (rows[2:] == rows[:-2])
        is_rough = (rise > UNSEEN) | (drop > 0)
        unseen = is_peak & is_rough & (logs[1:-1] + np.maximum(OPTIMISM * rise, drop) > tops[1:-1] - NEAR_PEAK)
    nodes = np.flatnonzero(unseen) + 1
    coarse = np.zeros(len(panels.rows), bool)
    for shift in (-1, 0, 1):  # the parabola's peak may be beyond the next node
        coarse[(nodes + shift) // len(NODES)] = True
    return coarse
