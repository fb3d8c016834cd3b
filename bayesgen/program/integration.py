"""Integrals over a few unbounded coordinates of densities known by their logs. Traceable.

A mode is found by Newton's method. The width of a density, and where it is negligible, are measured by the falls of
its log at distances from the mode that double.

In one dimension the rule is the trapezoid in t of x = sinh(pi/2 sinh(t)), between the points where the density is
negligible; its error is below 1e-8 for smooth densities, with heavy tails or without (Takahasi and Mori 1974, Double
exponential formulas for numerical integration). Where the log density rises again at one of those distances, there is
another mode; the rule of several modes is the trapezoid in the sum of their t. Up to four modes are found so. With four
of them, and integrals that differ by 1 % between all points and every second one, the integral is NaN: there may be
more. A peak between two such distances that neither of them shows is not found.

In more dimensions the rule is importance sampling with Student's t of two degrees of freedom, whose quantiles are at a
shifted lattice: first along the axes of the curvature at the mode, then, with more points, along those of the mean and
covariance that the first ones show. All points are weighted by the mixture of both densities (Veach and Guibas 1995,
the balance heuristic).

Points are held fixed where integrals are differentiated, so that the gradient is the integral of the gradient by the
same rule.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.typing import Array, Bool, Float, Int, Shaped

MOST_AXES = 4
IN_ONE, FIRST, SECOND = 81, 512, 4096  # numbers of points
STARTS = 4.0 ** np.arange(-2, 8)  # distances from the origin at which a mode is looked for
PARTS = np.array([0.0, 2.0, 1.0, *4.0 ** -np.arange(1, 6)])  # of Newton's step
WIDTH_FACTORS = 2.0 ** np.arange(-11, 24)  # of widths by curvature, at which the fall of the log density is measured
NEGLIGIBLE = 33.0  # fall of the log density at the ends of the rule
MOST_MODES = 4  # in one coordinate
UNRESOLVED = 0.01  # difference of logs of integrals by all points, and by every second one
RISE = 1e-6  # of a log density, that is no rounding
PROPOSALS = 4  # of an exact draw
MOST_STEPS = 30
PROBES = np.array([-6.0, -3.0, -1.0, -0.5, 0.5, 1.0, 3.0, 6.0])  # deviations at which densities may prove not normal
MOST_NORMAL_MISFIT = 1e-6  # of the log of a normal density there
SHIFTS = np.sqrt([2.0, 3.0, 5.0, 7.0])

LogDensities = Callable[[Any, Float[Array, "C d"]], Float[Array, " C"]]
ManyLogDensities = Callable[[Float[Array, "m C d"]], Float[Array, "m C"]]


def num_points(num_axes: int) -> int:
    """The number of points of a rule; 1 where there is nothing to integrate out."""
    return FIRST + SECOND if num_axes > 1 else IN_ONE if num_axes else 1


class DensityLine(NamedTuple):
    """Densities of one coordinate at even distances along a line that is dense about each of their modes.

    The place of x is the sum over modes of t, where x = mode + width sinh(pi/2 sinh(t)).

    Attributes:
        modes: of each density; past the last one, copies of the first.
        widths: of each mode.
        counts: 1 for a mode, 0 for a copy.
        first: the place of the first point.
        step: between the places of successive points.
        logs: log densities of x.
        slopes: derivatives of x by its place.
    """

    modes: Float[Array, "modes C"]
    widths: Float[Array, "modes C"]
    counts: Float[Array, "modes C"]
    first: Float[Array, " C"]
    step: Float[Array, " C"]
    logs: Float[Array, "m C"]
    slopes: Float[Array, "m C"]

    @classmethod
    def of(cls, log_densities: LogDensities, parameters: Any, num_cases: int, num_points: int) -> "DensityLine":
        """The line of densities, differentiable by their parameters."""
        *peaks, ends = _peaks(log_densities, jax.lax.stop_gradient(parameters), num_cases)
        line = cls(*peaks, *2 * [ends[0]], *2 * [jnp.zeros((0, num_cases))])
        first, last = line._places(ends)[0]
        line = line._replace(first=first, step=(last - first) / (num_points - 1))
        points, slopes = line.at(jnp.arange(num_points)[:, None])
        return line._replace(logs=_safe(log_densities, parameters)(points), slopes=slopes)

    def _places(self, x: Float[Array, "m C"]) -> tuple[Float[Array, "m C"], Float[Array, "m C"]]:
        """The places of points x, and their derivatives by x."""
        scaled = (x[:, None] - self.modes) / self.widths
        outer = 2 / np.pi * _arcsinh(scaled)
        slopes = 2 / np.pi / (self.widths * jnp.sqrt((1 + scaled**2) * (1 + outer**2)))
        return (self.counts * _arcsinh(outer)).sum(1), (self.counts * slopes).sum(1)

    def at(self, places: Float[Array, "m _"]) -> tuple[Float[Array, "m C 1"], Float[Array, "m C"]]:
        """x and its derivative at places along the line, in steps.

        With one mode they are explicit; else Newton's method, held in a bracket, solves for x from the nearest mode.
        """
        targets = self.first + places * self.step
        at_modes = self._places(self.modes)[0]
        distances = jnp.where(self.counts > 0, jnp.abs(targets[:, None] - at_modes), jnp.inf)
        mode, width, start = _entries_at_best(-distances, (self.modes, self.widths, at_modes), axis=1)

        def mapped(t: Float[Array, "m C"]) -> tuple[Float[Array, "m C"], Float[Array, "m C"]]:
            odd, even = _hyperbolic(t)
            outer_odd, outer_even = _hyperbolic(np.pi / 2 * odd)
            return mode + width * outer_odd, np.pi / 2 * width * outer_even * even

        def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
            count, t, low, high, *_ = state
            x, slope = mapped(t)
            place, by_x = self._places(x)
            error = place - targets
            low, high = jnp.where(error > 0, low, t), jnp.where(error > 0, t, high)
            moved = t - error / (slope * by_x)
            inside = (low <= moved) & (moved <= high)
            return count + 1, jnp.where(inside, moved, (low + high) / 2), low, high, x, 1 / by_x, jnp.abs(error).max()

        def goes_on(state: tuple[Array, ...]) -> Bool[Array, ""]:
            return (state[0] < MOST_STEPS) & (state[-1] > 1e-10)

        far = targets - start  # t at x if there is no other mode, beyond it else
        error = jnp.where((self.counts.sum(0) > 1).any(), jnp.inf, 0.0)
        state: tuple[Array, ...] = (
            jnp.zeros((), int),
            far,
            jnp.minimum(far, 0),
            jnp.maximum(far, 0),
            *mapped(far),
            error,
        )
        *_, x, slopes, _ = jax.lax.while_loop(goes_on, step, state)
        return x[..., None], slopes

    def log_integrals(self, every: int = 1) -> Float[Array, " C"]:
        """Logs of the integrals, by the trapezoid rule on every, or every second point."""
        return logsumexp(self.logs[::every], axis=0, b=every * self.slopes[::every] * self.step)

    def draw(self, log_densities: LogDensities, parameters: Any, key: Any) -> Float[Array, " C"]:
        """A draw from each density, in the limit of many proposals.

        Proposals have the density that is linear between the points. A few Metropolis-Hastings steps among them leave
        no trace of their density: all but one in some hundred is accepted.
        """
        shape = PROPOSALS, len(self.step)
        numbers = jax.random.uniform(key, (4, *shape), self.logs.dtype)
        top = self.logs.max(0)
        densities = self.slopes * jnp.exp(self.logs - top)
        bounds = jnp.cumsum(densities, axis=0)
        nodes = (bounds < numbers[0][:, None] * bounds[-1]).sum(1)
        positions = jnp.clip(nodes + numbers[1] + numbers[2] - 1, 0, len(densities) - 1.001)
        before = positions.astype(int)
        low, high = (jnp.take_along_axis(densities, index, axis=0) for index in (before, before + 1))
        points, slopes = self.at(positions)
        logs = _safe(log_densities, parameters)(points) - top
        ratios = logs + jnp.log(slopes / (low + (positions - before) * (high - low)))
        chosen: tuple[Array, ...] = points[0, :, 0], ratios[0]
        for index in range(1, PROPOSALS):
            is_accepted = jnp.log(numbers[3, index]) < ratios[index] - chosen[1]
            pairs = zip((points[index, :, 0], ratios[index]), chosen, strict=True)
            chosen = tuple(jnp.where(is_accepted, new, old) for new, old in pairs)
        return chosen[0]


def _arcsinh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The inverse of sinh by one logarithm: XLA compiles its own for seconds."""
    size = jnp.abs(x)
    return jnp.sign(x) * jnp.log1p(size + size**2 / (1 + jnp.sqrt(1 + size**2)))


def _hyperbolic(t: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """sinh(t) and cosh(t) by one exponential, which takes most of their time."""
    power = jnp.exp(t)
    return 0.5 * (power - 1 / power), 0.5 * (power + 1 / power)


class _ModeSearch(NamedTuple):
    """The search for the modes of each density, between two climbs.

    Attributes:
        num_climbs: so far.
        start, spare: where the next climb begins, and the one after it if no better start is seen: log density (-inf
            for nowhere), point, and the points on either side between which the climb stays.
        levels: log densities of the modes; -inf where there are fewer.
        modes, widths: see `DensityLine`.
        ends: points beyond which the densities are negligible.
    """

    num_climbs: Int[Array, ""]
    start: Float[Array, "4 C"]
    spare: Float[Array, "4 C"]
    levels: Float[Array, "modes C"]
    modes: Float[Array, "modes C"]
    widths: Float[Array, "modes C"]
    ends: Float[Array, "2 C"]


def _peaks(
    log_densities: LogDensities, parameters: Any, num_cases: int
) -> tuple[Float[Array, "modes C"], Float[Array, "modes C"], Float[Array, "modes C"], Float[Array, "2 C"]]:
    """`modes`, `widths` and `counts` of `DensityLine`, and the points beyond which the densities are negligible.

    The first climb begins at the best of `STARTS`. Where the density, at distances from the last mode that double,
    rises again, the next climb begins at the highest such point, and stays between its neighbours.
    """
    safe = _safe(log_densities, parameters)

    def climb(search: _ModeSearch) -> _ModeSearch:
        return _with_next_mode(search, lambda points: log_densities(parameters, points), safe)

    def goes_on(search: _ModeSearch) -> Bool[Array, ""]:
        return (search.num_climbs < MOST_MODES) & (search.start[0] > -jnp.inf).any()

    search = jax.lax.while_loop(goes_on, climb, _begun_search(safe, num_cases))
    is_mode = (jnp.arange(MOST_MODES)[:, None] == 0) | (search.levels > search.levels.max(0) - NEGLIGIBLE)
    modes, widths = (jnp.where(is_mode, row, row[0]) for row in (search.modes, search.widths))
    return modes, widths, is_mode.astype(modes.dtype), search.ends


def _begun_search(safe: ManyLogDensities, num_cases: int) -> _ModeSearch:
    """The search before its first climb."""
    starts = np.concatenate([[0.0], STARTS, -STARTS])[:, None, None] + jnp.zeros((num_cases, 1))
    zeros, infinite = jnp.zeros((MOST_MODES, num_cases)), jnp.full(num_cases, jnp.inf)
    best = _best(starts, safe(starts))[0][:, 0]
    return _ModeSearch(
        num_climbs=jnp.zeros((), int),
        start=jnp.stack([zeros[0], best, -infinite, infinite]),
        spare=jnp.stack([-infinite, *zeros[:3]]),
        levels=zeros - jnp.inf,
        modes=zeros,
        widths=zeros,
        ends=jnp.stack([infinite, -infinite]),
    )


def _with_next_mode(
    search: _ModeSearch, log_density: Callable[[Float[Array, "C 1"]], Float[Array, " C"]], safe: ManyLogDensities
) -> _ModeSearch:
    """The search after a climb from its start, where it has one."""
    score, start, low, high = search.start
    is_new = score > -jnp.inf
    mode, axes, level = _mode(log_density, safe, start[:, None], low[:, None], high[:, None])
    falls, radius, mode = _falls(safe, mode, axes, level), axes[:, 0, 0], mode[:, 0]
    is_next = (jnp.arange(MOST_MODES)[:, None] == search.num_climbs) & is_new
    levels, modes = jnp.where(is_next, level, search.levels), jnp.where(is_next, mode, search.modes)
    reach = 1.15 * radius * _reach(falls, falls < NEGLIGIBLE, NEGLIGIBLE)[:, 0]
    wider = jnp.stack([jnp.minimum(search.ends[0], mode - reach[1]), jnp.maximum(search.ends[1], mode + reach[0])])
    scores, *neighbours = _rises(mode, radius, level, falls)
    rises = jnp.stack([jnp.where(is_new, scores, -jnp.inf), *neighbours])
    following, spare = _best_starts(jnp.concatenate([rises, search.spare[:, None]], axis=1), modes, levels)
    return _ModeSearch(
        num_climbs=search.num_climbs + 1,
        start=following,
        spare=spare,
        levels=levels,
        modes=modes,
        widths=jnp.where(is_next, 2 * radius * _widths(falls)[0], search.widths),
        ends=jnp.where(is_new & (level >= levels.max(0) - NEGLIGIBLE), wider, search.ends),
    )


def _rises(
    mode: Float[Array, " C"], radius: Float[Array, " C"], level: Float[Array, " C"], falls: Float[Array, "2 F 1 C"]
) -> tuple[Float[Array, "m C"], ...]:
    """Log densities at points about a mode, -inf where a neighbour is higher; the points, and those beside them."""
    points = mode + np.concatenate([-WIDTH_FACTORS[::-1], [0.0], WIDTH_FACTORS])[:, None] * radius
    logs = level - jnp.concatenate([falls[1, ::-1, 0], jnp.zeros((1, len(mode))), falls[0, :, 0]])
    rises = logs[1:-1] - logs[:-2], logs[1:-1] - logs[2:]
    is_higher = (jnp.minimum(*rises) > 0) & (jnp.maximum(*rises) > RISE)
    return jnp.where(is_higher, logs[1:-1], -jnp.inf), points[1:-1], points[:-2], points[2:]


def _best_starts(
    starts: Float[Array, "4 m C"], modes: Float[Array, "modes C"], levels: Float[Array, "modes C"]
) -> tuple[Float[Array, "4 C"], Float[Array, "4 C"]]:
    """The best start of a climb, and the second best, of those with no known mode between their neighbours."""
    scores, points, low, high = starts
    has_mode = ((low < modes[:, None]) & (modes[:, None] < high) & (levels[:, None] > -jnp.inf)).any(0)
    scores = jnp.where(has_mode, -jnp.inf, scores)
    best = _entries_at_best(scores, (scores, points, low, high), axis=0)
    scores = jnp.where(points == best[1], -jnp.inf, scores)
    return best, _entries_at_best(scores, (scores, points, low, high), axis=0)


def _entries_at_best(
    scores: Float[Array, "..."], columns: Iterable[Float[Array, "..."]], axis: int
) -> Float[Array, "..."]:
    """Entries of columns where scores are highest along an axis: quicker to compile than indexes are."""
    is_best = scores == scores.max(axis, keepdims=True)
    return jnp.stack([jnp.where(is_best, column, -jnp.inf).max(axis) for column in columns])


def log_integrals(
    log_densities: LogDensities, parameters: Any, num_cases: int, num_axes: int, shift: Float[Array, ""]
) -> Float[Array, " C"]:
    """Logs of the integrals of several densities.

    Args:
        log_densities: (parameters, one point for each case) -> log densities. It is traced once.
        parameters: by which integrals over one coordinate may be differentiated.
        num_cases: C.
        num_axes: d.
        shift: any number, by which the lattice is moved, so that errors at different numbers are independent.
    """
    log_densities = jax.jit(log_densities)
    if num_axes == 1:
        line = DensityLine.of(log_densities, parameters, num_cases, IN_ONE)
        fine, coarse = map(line.log_integrals, (1, 2))
        return jnp.where((line.counts.sum(0) == MOST_MODES) & (jnp.abs(fine - coarse) > UNRESOLVED), jnp.nan, fine)
    mode, axes, falls = _searched(log_densities, parameters, num_cases, num_axes)
    safe, first = _safe(log_densities, parameters), _Proposal(mode, axes * _widths(falls).T[:, None, :])
    points = first.points(FIRST, shift)
    logs = safe(points)
    second = first.adapted(points, logs - first.log_density(points))
    more = second.points(SECOND, shift)
    points, logs = jnp.concatenate([points, more]), jnp.concatenate([logs, safe(more)])
    by_proposal = jnp.stack([proposal.log_density(points) for proposal in (first, second)])
    shares = np.array([FIRST, SECOND])[:, None, None]
    return logsumexp(logs - logsumexp(by_proposal, axis=0, b=shares), axis=0)


class NormalLine(NamedTuple):
    """Densities of one coordinate whose logs are quadratic in it.

    Attributes:
        log_integrals: logs of their integrals.
        means, deviations: of the coordinate; NaN where a density is not normal.
        errors: zero where the log of a density is that of a normal one, up to some deviations from the mean, else NaN.
    """

    log_integrals: Float[Array, " C"]
    means: Float[Array, " C"]
    deviations: Float[Array, " C"]
    errors: Float[Array, " C"]

    @classmethod
    def of(cls, log_densities: LogDensities, parameters: Any, num_cases: int) -> "NormalLine":
        """The densities, differentiable by their parameters, from derivatives at two points."""

        def at(x: Float[Array, " C"]) -> Float[Array, " C"]:
            return log_densities(parameters, x[:, None])

        def slopes(x: Float[Array, " C"]) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
            return jax.jvp(at, (x,), (jnp.ones(num_cases),))

        (_, slope), (_, bend) = jax.jvp(slopes, (jnp.zeros(num_cases),), (jnp.ones(num_cases),))
        near = jax.lax.stop_gradient(-slope / bend)  # the mean but for rounding, which a second step mends
        level, slope = slopes(near)
        means, top = near - slope / bend, level - 0.5 * slope**2 / bend
        deviations = 1 / jnp.sqrt(-bend)
        probed = jax.vmap(at)(means + deviations * PROBES[:, None])
        is_normal = (jnp.abs(probed - top + 0.5 * PROBES[:, None] ** 2) < MOST_NORMAL_MISFIT).all(0)
        errors = jnp.where(is_normal, 0.0, jnp.nan)
        return cls(top + 0.5 * np.log(2 * np.pi) + jnp.log(deviations), means, deviations, errors)


def _safe(log_densities: LogDensities, parameters: Any) -> ManyLogDensities:
    """Log densities of many points, -inf where they are not finite."""

    def safe(points: Float[Array, "m C d"]) -> Float[Array, "m C"]:
        logs = jax.vmap(log_densities, (None, 0))(parameters, points)
        return jnp.nan_to_num(logs, nan=-jnp.inf, posinf=-jnp.inf, neginf=-jnp.inf)

    return safe


def _searched(
    log_densities: LogDensities, parameters: Any, num_cases: int, num_axes: int
) -> tuple[Float[Array, "C d"], Float[Array, "C d d"], Float[Array, "2 F d C"]]:
    """Modes, axes of the curvature (C, coordinates, axes), and falls of log densities at `WIDTH_FACTORS` of these."""
    safe = _safe(log_densities, parameters)
    units = np.eye(num_axes)[:, None, :] * np.concatenate([[0.0], STARTS, -STARTS])[None, :, None]
    starts = jnp.broadcast_to(units.reshape(-1, 1, num_axes), (units[..., 0].size, num_cases, num_axes))
    mode, axes, level = _mode(lambda points: log_densities(parameters, points), safe, _best(starts, safe(starts))[0])
    return mode, axes, _falls(safe, mode, axes, level)


def _falls(
    safe: ManyLogDensities, mode: Float[Array, "C d"], axes: Float[Array, "C d d"], level: Float[Array, " C"]
) -> Float[Array, "2 F d C"]:
    """Falls of log densities from the mode at `WIDTH_FACTORS` of its axes, on either side."""
    moves = np.multiply.outer([1.0, -1.0], WIDTH_FACTORS)[..., None, None, None] * jnp.moveaxis(axes, 2, 0)
    falls = level - safe((mode + moves).reshape(-1, *mode.shape)).reshape(moves.shape[:-1])
    return jnp.nan_to_num(falls, nan=jnp.inf)


def _widths(falls: Float[Array, "2 F d C"]) -> Float[Array, "d C"]:
    """Factors at which the log density first falls by 1/2, as that of a normal density at one, on the steeper side."""
    return _reach(falls, jnp.cumprod(falls < 0.5, axis=1), 0.5).min(0)


def _reach(falls: Float[Array, "2 F d C"], is_within: Shaped[Array, "2 F d C"], level: float) -> Float[Array, "2 d C"]:
    """Factors at which log densities fall by a level, after the last of `WIDTH_FACTORS` that is within, on either side.

    Between two factors, the log of the fall is linear in the log of the factor, as it is for powers.
    """
    indices = np.arange(len(WIDTH_FACTORS))[:, None, None]
    last = jnp.clip(jnp.where(is_within, indices, 0).max(1, keepdims=True), 0, len(WIDTH_FACTORS) - 2)
    around = (jnp.take_along_axis(falls, index, axis=1)[:, 0] for index in (last, last + 1))
    low, high = (jnp.log(jnp.clip(fall, 1e-12, 1e6)) for fall in around)
    share = jnp.clip((np.log(level) - low) / jnp.where(high > low, high - low, 1.0), 0, 1)
    return WIDTH_FACTORS[0] * jnp.exp((last[:, 0] + share) * np.log(WIDTH_FACTORS[1] / WIDTH_FACTORS[0]))


def _best(points: Float[Array, "m C d"], logs: Float[Array, "m C"]) -> tuple[Float[Array, "C d"], Float[Array, " C"]]:
    """The points of highest density, and its logs."""
    best = logs.argmax(0)
    chosen = jnp.take_along_axis(points, best[None, :, None], axis=0)[0]
    return chosen, jnp.take_along_axis(logs, best[None], axis=0)[0]


def _mode(
    log_densities: Callable[[Float[Array, "C d"]], Float[Array, " C"]],
    safe: ManyLogDensities,
    start: Float[Array, "C d"],
    low: Float[Array, "C 1"] | float = -jnp.inf,
    high: Float[Array, "C 1"] | float = jnp.inf,
) -> tuple[Float[Array, "C d"], Float[Array, "C d d"], Float[Array, " C"]]:
    """Modes, principal axes of the curvature there, scaled to its radii, (C, coordinates, axes), and log densities."""
    slope = jax.grad(lambda points: log_densities(points).sum())

    def axes_at(point: Float[Array, "C d"]) -> tuple[Float[Array, "C d"], Float[Array, "C d d"]]:
        directions = [jnp.broadcast_to(unit, point.shape) for unit in np.eye(point.shape[1])]
        columns = [jax.jvp(slope, (point,), (direction,)) for direction in directions]
        bent = -jnp.nan_to_num(jnp.stack([column for _, column in columns], axis=-1))
        sizes, vectors = (bent[..., 0], jnp.ones_like(bent)) if point.shape[1] == 1 else jnp.linalg.eigh(bent)
        radii = 1 / jnp.sqrt(jnp.clip(jnp.abs(sizes), 1e-10, 1e20))
        return jnp.nan_to_num(columns[0][0]), vectors * radii[:, None, :]

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        count, point, *_ = state
        gradient, axes = axes_at(point)
        along = jnp.einsum("cij,ci->cj", axes, gradient)
        parts = jnp.reshape(jnp.asarray(PARTS), (-1, 1, 1))
        points = jnp.clip(point + parts * jnp.einsum("cij,cj->ci", axes, along), low, high)
        return count + 1, *_best(points, safe(points)), axes, jnp.abs(along).max()

    def goes_on(state: tuple[Array, ...]) -> Bool[Array, ""]:
        return (state[0] < MOST_STEPS) & (state[-1] > 0.03)

    num_cases, num_axes = start.shape
    unknown = jnp.zeros(num_cases), jnp.zeros((num_cases, num_axes, num_axes)), jnp.full((), jnp.inf)
    first: tuple[Array, ...] = (jnp.zeros((), int), start, *unknown)
    _, mode, level, axes, _ = jax.lax.while_loop(goes_on, step, first)
    return mode, axes, level


class _Proposal(NamedTuple):
    """Products of Student's t of two degrees of freedom along orthogonal axes, one for each density.

    Attributes:
        center: of each.
        axes: (C, coordinates, axes), as long as the scales along them.
    """

    center: Float[Array, "C d"]
    axes: Float[Array, "C d d"]

    def points(self, number: int, shift: Float[Array, ""]) -> Float[Array, "m C d"]:
        """Quantiles at a lattice that is shifted."""
        num_axes = self.center.shape[1]
        golden = np.roots([1.0, *np.zeros(num_axes - 1), -1.0, -1.0]).real.max()  # of d + 1 dimensions
        lattice = np.outer(np.arange(number), golden ** -np.arange(1.0, num_axes + 1))
        shares = jnp.clip(jnp.mod(lattice + jnp.mod(1e4 * shift * SHIFTS[:num_axes], 1), 1), 1e-9, 1 - 1e-9)
        nodes = (2 * shares - 1) / jnp.sqrt(2 * shares * (1 - shares))
        return self.center + jnp.einsum("cij,mj->mci", self.axes, nodes)

    def log_density(self, points: Float[Array, "m C d"]) -> Float[Array, "m C"]:
        """Log densities at points."""
        lengths = jnp.linalg.norm(self.axes, axis=1)
        nodes = jnp.einsum("cij,mci->mcj", self.axes / lengths[:, None] ** 2, points - self.center)
        return -(1.5 * jnp.log1p(nodes**2 / 2) + 0.5 * np.log(8) + jnp.log(lengths)).sum(-1)

    def adapted(self, points: Float[Array, "m C d"], log_weights: Float[Array, "m C"]) -> "_Proposal":
        """The proposal about the mean and the covariance of weighted points; the same where all weights are zero."""
        weights = jnp.exp(log_weights - logsumexp(log_weights, axis=0))
        mean = jnp.einsum("mc,mci->ci", weights, points)
        sizes, vectors = jnp.linalg.eigh(jnp.einsum("mc,mci,mcj->cij", weights, points - mean, points - mean))
        axes = vectors * jnp.sqrt(sizes)[:, None, :]
        is_known = jnp.isfinite(axes).all((1, 2)) & (sizes > 1e-12 * sizes.max(-1, keepdims=True)).all(-1)
        return _Proposal(
            jnp.where(is_known[:, None], mean, self.center), jnp.where(is_known[:, None, None], axes, self.axes)
        )
