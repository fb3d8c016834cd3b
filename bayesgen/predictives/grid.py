"""Distributions of a response that are known by their log joint alone: normalised by adaptive quadrature."""

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

from .base import PredictiveDistribution
from .mixture import solved

# The line on which a response is looked for: its support, stretched so that tails of any weight have ends.

CHUNK_VALUES = 4096
MIDDLE_HALF = 1.349  # of a standard normal: what lies between its quartiles


@dataclasses.dataclass(frozen=True)
class Line:
    """y = f(center + scale sinh(u)), where f maps the real line to the support of y, and u is the coordinate.

    Attributes:
        transform: f.
        center, scale: where y is before x is known, roughly, in coordinates without constraints.
    """

    transform: Transform
    center: float
    scale: float

    @classmethod
    def of(cls, support: constraints.Constraint, values: Float[np.ndarray, " m"]) -> "Line":
        """The line of a support, about values that the response may take."""
        transform = biject_to(support)
        with jax.enable_x64(True):
            free = np.asarray(transform.inv(jnp.asarray(values, float)))
        free = free[np.isfinite(free)]
        if not len(free):
            return cls(transform, 0.0, 1.0)
        low, middle, high = np.quantile(free, [0.25, 0.5, 0.75])
        return cls(transform, float(middle), float((high - low) / MIDDLE_HALF or max(abs(middle), 1.0)))

    @property
    def is_real(self) -> bool:
        """Whether y may be any number."""
        return isinstance(self.transform, IdentityTransform)

    def values(self, u: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """y at coordinates, and log |dy/du|; -inf where y is beyond what floating point holds."""
        with np.errstate(over="ignore", invalid="ignore"):
            free = self.center + self.scale * np.sinh(u)
            log_slope = np.log(self.scale) + np.logaddexp(u, -u) - np.log(2.0)
            if self.is_real:
                return free, log_slope
            y, jacobian, possible = _mapped(self._constrained, free)
            inside = possible & np.isfinite(y)
            middle = float(_mapped(self._constrained, np.full(1, self.center))[0][0])
            return np.where(inside, y, middle), np.where(inside, log_slope + jacobian, -np.inf)

    def _constrained(self, free: Float[Array, " m"]) -> tuple[Array, Array, Array]:
        y = self.transform(free)
        return y, self.transform.log_abs_det_jacobian(free, y), self.transform.codomain(y)

    def coordinates(self, y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Coordinates of values; infinite ones beyond the support."""
        if self.is_real:
            return np.arcsinh((y - self.center) / self.scale)
        (possible,) = _mapped(lambda values: (self.transform.codomain(values),), y)
        middle = float(_mapped(self._constrained, np.full(1, self.center))[0][0])
        (free,) = _mapped(lambda values: (self.transform.inv(values),), np.where(possible, y, middle))
        u = np.arcsinh((free - self.center) / self.scale)
        return np.where(possible, u, np.where(y < middle, -np.inf, np.inf))


def _mapped(
    function: Callable[[Array], tuple[Array, ...]], values: Float[np.ndarray, "*shape"]
) -> tuple[Shaped[np.ndarray, "*shape"], ...]:
    """What JAX makes of values, at one size, because it compiles for each."""
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

END, FIRST_PANELS, PIECES = 20.0, 24, 4  # of the line, in its coordinate; how panels that are too coarse are cut
TOLERANCE = 1e-9  # of the integral, for the difference of two rules of one panel: that of the better one is far below
NARROWEST = 1e-13  # panel, of its place on the line: what jumps of a density are cut down to
NEAR, STEP = 30.0, 3.0  # nats: how far below the peak a panel still counts; how much neighbours may differ
UNSEEN, OPTIMISM = 0.5, 4.0  # nats that a peak may be higher than nodes; how much more than parabolas tell
NOTHING = 1e-18  # of the integral: panels that hold less are let go


def interpolants(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """What values at the nodes weigh in the polynomial through them at x."""
    return legendre.legvander(x, _DEGREE) @ _COEFFICIENTS


def antiderivatives(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """What values at the nodes weigh in the integral from -1 to x of the polynomial through them."""
    polynomials = legendre.legvander(x, _DEGREE + 1)
    degrees = np.arange(1, _DEGREE + 1)
    integrals = (polynomials[..., 2:] - polynomials[..., :-2]) / (2 * degrees + 1)
    return np.concatenate([polynomials[..., :1] + polynomials[..., 1:2], integrals], -1) @ _COEFFICIENTS


@by_content
class Panels:
    """Pieces of the line, sorted by row and place.

    Attributes:
        rows: to which row each belongs.
        left, right: ends, in the line's coordinate.
        values: y at the nodes.
        logs: log densities of the coordinate at the nodes, not normalised.
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

    The line is cut into panels, the same for all rows at first. Panels in which the two rules of Gauss and Kronrod
    differ are cut again, until the integral has settled; so are those beside panels from which the density rises
    towards a peak that they have not seen.

    Args:
        log_joint: log p(x, y).
        num_rows: n.
        line: where y is looked for.

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
    """Which panels are to be cut."""
    peaks = _peaks(panels, num_rows)[panels.rows]
    with np.errstate(invalid="ignore"):  # of rows that are impossible
        densities = np.where(np.isneginf(peaks)[:, None], 0.0, np.exp(panels.logs - peaks[:, None]))
    halves = 0.5 * (panels.right - panels.left)
    integrals = halves * (densities @ KRONROD)
    differences = abs(integrals - halves * (densities @ GAUSS))
    totals = np.bincount(panels.rows, integrals, num_rows)[panels.rows]
    coarse = differences > TOLERANCE * totals
    # between neighbours: the last node of one, and the first of the next
    one, next_one = panels.logs[:-1, -1], panels.logs[1:, 0]
    together = panels.rows[:-1] == panels.rows[1:]
    with np.errstate(invalid="ignore"):
        is_near = np.maximum(one, next_one) > peaks[:-1] - NEAR
        jumps = together & is_near & ~(abs(one - next_one) <= STEP)
    coarse[:-1] |= jumps
    coarse[1:] |= jumps
    coarse |= _with_unseen_peaks(panels, peaks)
    return coarse & (halves > NARROWEST * np.maximum(abs(panels.left), 1e-3))


def _with_unseen_peaks(panels: Panels, peaks: Float[np.ndarray, " P"]) -> Bool[np.ndarray, " P"]:
    """Panels with a node that is higher than its neighbours, where the peak near it may be much higher still.

    By how much is told by the parabola through the three and, where its neighbours are far below, by how far: a node
    may happen to lie on its parabola's peak, and far from that of the density.
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
        drop = np.where(drop > STEP, drop, 0.0)
        is_peak = (before >= 0) & (after <= 0) & (curvature < 0) & (rows[2:] == rows[:-2])
        is_rough = (rise > UNSEEN) | (drop > 0)
        unseen = is_peak & is_rough & (logs[1:-1] + np.maximum(OPTIMISM * rise, drop) > tops[1:-1] - NEAR)
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
        kept = integrals > NOTHING * totals[panels.rows]
        densities = (densities / totals[panels.rows][:, None])[kept]
    return GridPredictive(log_joint, line, panels.take(kept), densities, log_normalizer), log_normalizer


@by_content
class GridPredictive(PredictiveDistribution):
    """Distributions of y by their log joint, and panels on which it is integrated.

    Attributes:
        log_joint: log p(x, y).
        line: where y is looked for.
        panels: those that hold some of it.
        densities: of the coordinate, at the nodes.
        log_normalizer: log p(x).
    """

    log_joint: LogJoint
    line: Line
    panels: Panels
    densities: Float[np.ndarray, "P 15"]
    log_normalizer: Float[np.ndarray, " n"]

    @property
    def num_rows(self) -> int:
        """As many as there are normalizers."""
        return len(self.log_normalizer)

    def nodes_of(self, row: int) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Values of y, and logs of what they weigh in integrals of functions of y over dy."""
        here = slice(*self._starts[row : row + 2])
        left, right = self.panels.left[here], self.panels.right[here]
        halves = 0.5 * (right - left)[:, None]
        values, log_slopes = self.line.values(halves * NODES + 0.5 * (left + right)[:, None])
        return values.ravel(), (np.log(halves * KRONROD) + log_slopes).ravel()

    @property
    def weights(self) -> Float[np.ndarray, "P 15"]:
        """What the nodes weigh in integrals over the density."""
        return (0.5 * (self.panels.right - self.panels.left))[:, None] * self.densities * KRONROD

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Means; NaN for a row that is impossible."""
        return self._integral(self.panels.values)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """Standard deviations."""
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
        """The first panel of each row, and where the last row ends."""
        return np.searchsorted(self.panels.rows, np.arange(self.num_rows + 1))

    def _before(self) -> Float[np.ndarray, " P"]:
        """The probability to the left of each panel."""
        inside = self.weights.sum(1)
        total = inside.cumsum() - inside
        starts = self._starts[:-1]
        firsts = total[np.minimum(starts, max(len(total) - 1, 0))] if len(total) else np.zeros(self.num_rows)
        return total - firsts[self.panels.rows]

    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "..."]:
        """Integrals up to the values."""
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
        """The last panel of each row whose key is at most what is wanted; -1 where there is none."""
        starts = self._starts
        low = np.broadcast_to(starts[:-1] - 1, wanted.shape).copy()
        high = np.broadcast_to(starts[1:], wanted.shape).copy()  # the first that is too far
        for _ in range(int(np.ceil(np.log2(max(np.diff(starts).max(initial=1), 1) + 1))) + 1):
            middle = (low + high) // 2
            active = high - low > 1
            is_before = active & (keys[np.clip(middle, 0, max(len(keys) - 1, 0))] <= wanted)
            low, high = np.where(is_before, middle, low), np.where(active & ~is_before, middle, high)
        return np.where(low >= starts[:-1], low, -1)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        """Where the integral is so large."""
        return self._at(np.full(self.num_rows, probability))

    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num n"]:
        """Quantiles at random probabilities."""
        return self._at(rng.random((num_draws, self.num_rows)))

    def _at(self, probabilities: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "... n"]:
        """The values at which the integral is so large."""
        if not len(self.panels.rows):
            return np.full(probabilities.shape, np.nan)
        before = self._before()
        panel = np.maximum(self._last_panel(before, probabilities), 0)
        halves = 0.5 * (self.panels.right - self.panels.left)[panel]
        densities, missing = self.densities[panel], probabilities - before[panel]
        ones = np.ones(probabilities.shape)
        share = solved(
            lambda x: halves * (densities * antiderivatives(x)).sum(-1) - missing,
            lambda x: halves * (densities * interpolants(x)).sum(-1),
            -ones,
            ones,
        )
        u = 0.5 * ((self.panels.left + self.panels.right)[panel]) + halves * share
        impossible = np.isneginf(self.log_normalizer)
        return np.where(impossible, np.nan, self.line.values(u)[0])
