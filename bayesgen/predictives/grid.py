"""Distributions of a response by their log joint density, normalised by adaptive quadrature."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre
from numpyro.distributions import constraints
from numpyro.distributions.transforms import IdentityTransform, Transform, biject_to

from bayesgen.records import by_content
from bayesgen.runtime import over_chunks
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int, Shaped

from .base import PredictiveDistribution, find_roots

CHUNK_VALUES = 4096
INTERQUARTILE_RANGE = 1.349  # of a standard normal


@dataclasses.dataclass(frozen=True)
class Line:
    """The change of variable y = f(center + scale sinh(u)), by which heavy tails in y are short tails in u.

    Attributes:
        transform: f, from the real line to the support of y.
        center, scale: of the marginal distribution of y, roughly, in unconstrained coordinates.
    """

    transform: Transform
    center: float
    scale: float

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
        return cls(transform, float(median), float((high - low) / INTERQUARTILE_RANGE or max(abs(median), 1.0)))

    @property
    def is_real(self) -> bool:
        """Whether y may be any number."""
        return isinstance(self.transform, IdentityTransform)

    def values(self, u: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """y at coordinates u, and log |dy/du|; -inf where y overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            free = self.center + self.scale * np.sinh(u)
            log_slope = np.log(self.scale) + np.logaddexp(u, -u) - np.log(2.0)
            if self.is_real:
                return free, log_slope
            y, jacobian, possible = _mapped(self._constrained, free)
            inside = possible & np.isfinite(y)
            center = float(_mapped(self._constrained, np.full(1, self.center))[0][0])
            return np.where(inside, y, center), np.where(inside, log_slope + jacobian, -np.inf)

    def _constrained(self, free: Float[Array, " m"]) -> tuple[Array, Array, Array]:
        y = self.transform(free)
        return y, self.transform.log_abs_det_jacobian(free, y), self.transform.codomain(y)

    def coordinates(self, y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Coordinates u of values; infinite beyond the support."""
        if self.is_real:
            return np.arcsinh((y - self.center) / self.scale)
        (possible,) = _mapped(lambda values: (self.transform.codomain(values),), y)
        center = float(_mapped(self._constrained, np.full(1, self.center))[0][0])
        (free,) = _mapped(lambda values: (self.transform.inv(values),), np.where(possible, y, center))
        u = np.arcsinh((free - self.center) / self.scale)
        return np.where(possible, u, np.where(y < center, -np.inf, np.inf))


def _mapped(
    function: Callable[[Array], tuple[Array, ...]], values: Float[np.ndarray, "*shape"]
) -> tuple[Shaped[np.ndarray, "*shape"], ...]:
    """A JAX function of values, in chunks of one size, so that it compiles once."""
    flat = np.asarray(values, np.float64).ravel()
    with jax.enable_x64(True):
        found = over_chunks(lambda part: function(jnp.asarray(part)), flat, len(flat), CHUNK_VALUES, one_size=True)
    return tuple(array.reshape(values.shape) for array in found)


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

LogJoint: TypeAlias = Callable[[Int[np.ndarray, " m"], Float[np.ndarray, " m"]], Float[np.ndarray, " m"]]
"""Positions of rows, and a value of y for each -> log p(x, y)."""

END, FIRST_PANELS, PIECES = 20.0, 24, 4  # limit of |u|; number of panels at first; pieces of a coarse panel
QUADRATURE_TOLERANCE = (
    1e-9  # of the integral, for the difference of two rules on a panel; the error of the better one is far lower
)
NARROWEST = 1e-13  # width of a panel relative to its place, reached at jumps of a density
NEAR_PEAK, LARGEST_JUMP = 30.0, 3.0  # nats: below the peak, of relevant panels; between neighbouring nodes, at most
UNSEEN, OPTIMISM = 0.5, 4.0  # nats of a peak above nodes, at most; factor on the rise of a parabola
NEGLIGIBLE_SHARE = 1e-18  # of the integral: smaller panels are dropped


def interpolants(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """Weights of values at the nodes, for the interpolating polynomial at x."""
    return legendre.legvander(x, _DEGREE) @ _COEFFICIENTS


def antiderivatives(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """Weights of values at the nodes, for the integral of the interpolating polynomial from -1 to x."""
    polynomials = legendre.legvander(x, _DEGREE + 1)
    degrees = np.arange(1, _DEGREE + 1)
    integrals = (polynomials[..., 2:] - polynomials[..., :-2]) / (2 * degrees + 1)
    return np.concatenate([polynomials[..., :1] + polynomials[..., 1:2], integrals], -1) @ _COEFFICIENTS


@by_content
class Panels:
    """Intervals of u with quadrature nodes, sorted by row and place.

    Attributes:
        rows: the row of each panel.
        left, right: ends, in u.
        values: y at the nodes.
        logs: unnormalised log densities of u at the nodes.
    """

    rows: Int[np.ndarray, " P"]
    left: Float[np.ndarray, " P"]
    right: Float[np.ndarray, " P"]
    values: Float[np.ndarray, "P 15"]
    logs: Float[np.ndarray, "P 15"]

    def take(self, places: Int[np.ndarray, " _"] | Bool[np.ndarray, " P"]) -> "Panels":
        """Some of them, or all in another order."""
        return Panels(*(array[places] for array in dataclasses.astuple(self)))

    def joined(self, others: "Panels") -> "Panels":
        """These and others, sorted."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(others), strict=True)
        both = Panels(*(np.concatenate(pair) for pair in pairs))
        return both.take(np.lexsort((both.left, both.rows)))


def predictive_on_grid(
    log_joint: LogJoint, num_rows: int, line: Line
) -> "tuple[GridPredictive, Float[np.ndarray, ' n']]":
    """The distribution of y in each row, and log of the integral of the joint: log p(x).

    The range of u is cut into panels, at first the same for all rows. Panels are cut again while the rules of Gauss and
    Kronrod differ on them, or while the nodes may have missed a peak.

    Args:
        log_joint: log p(x, y).
        num_rows: n.
        line: the change of variable.

    Source: Piessens et al. (1983), QUADPACK, rule of 15 points; stretched tails as in Takahasi and Mori (1974), Double
    exponential formulas for numerical integration.
    """
    edges = np.linspace(-END, END, FIRST_PANELS + 1)
    rows = np.repeat(np.arange(num_rows), FIRST_PANELS)
    panels = _panels(log_joint, line, rows, np.tile(edges[:-1], num_rows), np.tile(edges[1:], num_rows))
    while (coarse := _too_coarse(panels, num_rows)).any():
        parents = panels.take(coarse)
        steps = (parents.right - parents.left)[:, None] * np.arange(PIECES + 1) / PIECES
        cuts = parents.left[:, None] + steps
        cuts[:, -1] = parents.right
        pieces = _panels(log_joint, line, np.repeat(parents.rows, PIECES), cuts[:, :-1].ravel(), cuts[:, 1:].ravel())
        panels = panels.take(~coarse).joined(pieces)
    return _normalized(log_joint, line, panels, num_rows)


def _panels(
    log_joint: LogJoint,
    line: Line,
    rows: Int[np.ndarray, " P"],
    left: Float[np.ndarray, " P"],
    right: Float[np.ndarray, " P"],
) -> Panels:
    nodes = 0.5 * ((right - left)[:, None] * NODES + (left + right)[:, None])
    values, log_slopes = line.values(nodes)
    flat_rows = np.repeat(rows, len(NODES))
    logs = log_joint(flat_rows, values.ravel()).reshape(values.shape) + log_slopes
    impossible = np.isneginf(log_slopes) | (np.isnan(logs) & ~np.isfinite(values))
    return Panels(rows, left, right, values, np.where(impossible, -np.inf, logs))


def _peaks(panels: Panels, num_rows: int) -> Float[np.ndarray, " n"]:
    """The largest log density of each row."""
    peaks = np.full(num_rows, -np.inf)
    np.maximum.at(peaks, panels.rows, panels.logs.max(1))
    return peaks


def _too_coarse(panels: Panels, num_rows: int) -> Bool[np.ndarray, " P"]:
    """Which panels to cut."""
    peaks = _peaks(panels, num_rows)[panels.rows]
    with np.errstate(invalid="ignore"):  # of impossible rows
        densities = np.where(np.isneginf(peaks)[:, None], 0.0, np.exp(panels.logs - peaks[:, None]))
    halves = 0.5 * (panels.right - panels.left)
    integrals = halves * (densities @ KRONROD)
    differences = abs(integrals - halves * (densities @ GAUSS))
    totals = np.bincount(panels.rows, integrals, num_rows)[panels.rows]
    coarse = differences > QUADRATURE_TOLERANCE * totals
    # between neighbours: the last node of one, and the first of the next
    one, next_one = panels.logs[:-1, -1], panels.logs[1:, 0]
    together = panels.rows[:-1] == panels.rows[1:]
    with np.errstate(invalid="ignore"):
        is_near = np.maximum(one, next_one) > peaks[:-1] - NEAR_PEAK
        jumps = together & is_near & ~(abs(one - next_one) <= LARGEST_JUMP)
    coarse[:-1] |= jumps
    coarse[1:] |= jumps
    coarse |= _with_unseen_peaks(panels, peaks)
    return coarse & (halves > NARROWEST * np.maximum(abs(panels.left), 1e-3))


def _with_unseen_peaks(panels: Panels, peaks: Float[np.ndarray, " P"]) -> Bool[np.ndarray, " P"]:
    """Panels with a node above its neighbours near which the density may have a much higher peak.

    The height of the peak is estimated by the parabola through the three nodes and, where the neighbours are far below,
    by their distance: the node may lie on the peak of its parabola, far from the peak of the density.
    """
    nodes = 0.5 * ((panels.right - panels.left)[:, None] * NODES + (panels.left + panels.right)[:, None])
    u, logs = nodes.ravel(), panels.logs.ravel()
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
    places = np.flatnonzero(unseen) + 1
    coarse = np.zeros(len(panels.rows), bool)
    for shift in (-1, 0, 1):  # the parabola's peak may be beyond the next node
        coarse[(places + shift) // len(NODES)] = True
    return coarse


def _normalized(
    log_joint: LogJoint, line: Line, panels: Panels, num_rows: int
) -> "tuple[GridPredictive, Float[np.ndarray, ' n']]":
    peaks = _peaks(panels, num_rows)
    of_rows = np.where(np.isneginf(peaks), 0.0, peaks)[panels.rows]
    halves = 0.5 * (panels.right - panels.left)
    densities = np.exp(panels.logs - of_rows[:, None])
    integrals = halves * (densities @ KRONROD)
    totals = np.bincount(panels.rows, integrals, num_rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_normalizer = np.log(totals) + peaks
        kept = integrals > NEGLIGIBLE_SHARE * totals[panels.rows]
        densities = (densities / totals[panels.rows][:, None])[kept]
    return GridPredictive(log_joint, line, panels.take(kept), densities, log_normalizer), log_normalizer


@by_content
class GridPredictive(PredictiveDistribution):
    """Distributions of y by their log joint density and its integrals on panels.

    Attributes:
        log_joint: log p(x, y).
        line: the change of variable.
        panels: the panels.
        densities: of u, at the nodes.
        log_normalizer: log p(x).
    """

    log_joint: LogJoint
    line: Line
    panels: Panels
    densities: Float[np.ndarray, "P 15"]
    log_normalizer: Float[np.ndarray, " n"]

    @property
    def num_rows(self) -> int:
        return len(self.log_normalizer)

    def nodes_of(self, row: int) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """The nodes of a row in y, and logs of their quadrature weights for integrals over y."""
        here = slice(*self._starts[row : row + 2])
        left, right = self.panels.left[here], self.panels.right[here]
        halves = 0.5 * (right - left)[:, None]
        values, log_slopes = self.line.values(halves * NODES + 0.5 * (left + right)[:, None])
        return values.ravel(), (np.log(halves * KRONROD) + log_slopes).ravel()

    @property
    def weights(self) -> Float[np.ndarray, "P 15"]:
        """Weights of the nodes in expectations."""
        return (0.5 * (self.panels.right - self.panels.left))[:, None] * self.densities * KRONROD

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        return self._integral(self.panels.values)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        return np.sqrt(self._integral((self.panels.values - self.mean[self.panels.rows][:, None]) ** 2))

    def _integral(self, values: Float[np.ndarray, "P 15"]) -> Float[np.ndarray, " n"]:
        with np.errstate(invalid="ignore", over="ignore"):
            terms = np.where(self.weights > 0, self.weights * values, 0.0).sum(1)
        totals = np.bincount(self.panels.rows, terms, self.num_rows)
        return np.where(np.isneginf(self.log_normalizer), np.nan, totals)

    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        """The log joint at the values themselves, less the log normalizer; -inf beyond the support."""
        values = np.asarray(values, np.float64)
        whole = np.broadcast_to(values, np.broadcast_shapes(values.shape, (self.num_rows,)))
        rows = np.broadcast_to(np.arange(self.num_rows), whole.shape)
        possible = np.isfinite(self.line.coordinates(whole))
        start = self.line.values(np.zeros(()))[0]
        logs = self.log_joint(rows.ravel(), np.where(possible, whole, start).ravel()).reshape(whole.shape)
        return np.where(possible, logs - self.log_normalizer, np.where(np.isnan(whole), np.nan, -np.inf))

    @property
    def _starts(self) -> Int[np.ndarray, " n_and_1"]:
        """Index of the first panel of each row, and the number of panels."""
        return np.searchsorted(self.panels.rows, np.arange(self.num_rows + 1))

    def _before(self) -> Float[np.ndarray, " P"]:
        """Probability to the left of each panel."""
        inside = self.weights.sum(1)
        total = inside.cumsum() - inside
        starts = self._starts[:-1]
        firsts = total[np.minimum(starts, max(len(total) - 1, 0))] if len(total) else np.zeros(self.num_rows)
        return total - firsts[self.panels.rows]

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        values = np.asarray(values, np.float64)
        whole = np.broadcast_to(values, np.broadcast_shapes(values.shape, (self.num_rows,)))
        u = self.line.coordinates(whole)
        place = self._last_panel(self.panels.left, u)
        inside = place >= 0
        panel = np.where(inside, place, 0)
        if not len(self.panels.rows):
            return np.full(whole.shape, np.nan)
        left, right = self.panels.left[panel], self.panels.right[panel]
        share = np.clip((2 * u - left - right) / (right - left), -1.0, 1.0)
        within = 0.5 * (right - left) * (self.densities[panel] * antiderivatives(share)).sum(-1)
        found = np.where(inside, np.clip(self._before()[panel] + within, 0.0, 1.0), 0.0)
        return np.where(np.isneginf(self.log_normalizer) | np.isnan(whole), np.nan, found)

    def _last_panel(
        self, keys: Float[np.ndarray, " P"], wanted: Float[np.ndarray, "... n"]
    ) -> Int[np.ndarray, "... n"]:
        """The last panel of each row whose key is at most `wanted`; -1 without one."""
        starts = self._starts
        low = np.broadcast_to(starts[:-1] - 1, wanted.shape).copy()
        high = np.broadcast_to(starts[1:], wanted.shape).copy()  # exclusive
        for _ in range(int(np.ceil(np.log2(max(np.diff(starts).max(initial=1), 1) + 1))) + 1):
            middle = (low + high) // 2
            active = high - low > 1
            is_before = active & (keys[np.clip(middle, 0, max(len(keys) - 1, 0))] <= wanted)
            low, high = np.where(is_before, middle, low), np.where(active & ~is_before, middle, high)
        return np.where(low >= starts[:-1], low, -1)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        return self._at(np.full(self.num_rows, probability))

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        return self._at(rng.random((num_draws, self.num_rows)))

    def _at(self, probabilities: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "... n"]:
        """The values at which the distribution function has these probabilities."""
        if not len(self.panels.rows):
            return np.full(probabilities.shape, np.nan)
        before = self._before()
        panel = np.maximum(self._last_panel(before, probabilities), 0)
        halves = 0.5 * (self.panels.right - self.panels.left)[panel]
        densities, missing = self.densities[panel], probabilities - before[panel]
        ones = np.ones(probabilities.shape)
        share = find_roots(
            lambda x: halves * (densities * antiderivatives(x)).sum(-1) - missing,
            lambda x: halves * (densities * interpolants(x)).sum(-1),
            -ones,
            ones,
        )
        u = 0.5 * ((self.panels.left + self.panels.right)[panel]) + halves * share
        impossible = np.isneginf(self.log_normalizer)
        return np.where(impossible, np.nan, self.line.values(u)[0])
