"""Integrals over a few unbounded coordinates of densities known by their logs. Traceable.

The mode is found by Newton's method, and distances from it by how far the log density falls. In one dimension the rule
is the trapezoid in t of x = sinh(pi/2 sinh(t)), between the points where the density is negligible; its error is below
1e-8 for smooth densities, with heavy tails or without (Takahasi and Mori 1974, Double exponential formulas for
numerical integration). In more it is importance sampling with Student's t of two degrees of freedom along the axes of
the curvature, whose quantiles are at a shifted lattice.

Points do not move with the parameters where integrals are differentiated, so that gradients are integrals by the same
rule.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.typing import Array, Bool, Float, Shaped

MOST_AXES = 4
IN_ONE, IN_MORE = 81, 512  # numbers of points
STARTS = 4.0 ** np.arange(-2, 8)  # distances from the origin at which a mode is looked for
PARTS = np.array([0.0, 2.0, 1.0, *4.0 ** -np.arange(1, 6)])  # of Newton's step
FACTORS = 5.0 ** np.arange(-5, 11)  # of widths by curvature, at which the fall of the log density is measured
NEGLIGIBLE = 33.0  # fall of the log density at the ends of the rule
PROPOSALS = 4  # of an exact draw
MOST_STEPS = 30
SHIFTS = np.sqrt([2.0, 3.0, 5.0, 7.0])

LogDensities = Callable[[Any, Float[Array, "C d"]], Float[Array, " C"]]
ManyLogDensities = Callable[[Float[Array, "m C d"]], Float[Array, "m C"]]


def num_points(num_axes: int) -> int:
    """The number of points of a rule; 1 where there is nothing to integrate out."""
    return IN_MORE if num_axes > 1 else IN_ONE if num_axes else 1


class Line(NamedTuple):
    """Densities of one coordinate at even distances of t, where x = mode + width sinh(pi/2 sinh(t)).

    Attributes:
        mode: of each density.
        width: of each.
        first: the first t.
        step: between successive t.
        logs: log densities of x.
        slopes: derivatives of x.
    """

    mode: Float[Array, " C"]
    width: Float[Array, " C"]
    first: Float[Array, " C"]
    step: Float[Array, " C"]
    logs: Float[Array, "m C"]
    slopes: Float[Array, "m C"]

    @classmethod
    def of(cls, log_densities: LogDensities, parameters: Any, num_cases: int, num_points: int) -> "Line":
        """The line of densities, differentiable by their parameters."""
        mode, axes, falls = _searched(log_densities, jax.lax.stop_gradient(parameters), num_cases, 1)
        radius = axes[:, 0, 0]
        width = 2 * radius * _widths(falls)[0]
        farthest = 1.15 * radius * _reach(falls, falls < NEGLIGIBLE, NEGLIGIBLE)[:, 0] / width
        ends = jnp.arcsinh(2 / np.pi * jnp.arcsinh(farthest))
        step = (ends[0] + ends[1]) / (num_points - 1)
        line = cls(mode[:, 0], width, -ends[1], step, *2 * [jnp.zeros((0, num_cases))])
        points, slopes = line.at(jnp.arange(num_points)[:, None])
        return line._replace(logs=_safe(log_densities, parameters)(points), slopes=slopes)

    def at(self, places: Float[Array, "m _"]) -> tuple[Float[Array, "m C 1"], Float[Array, "m C"]]:
        """x and its derivative at places along the line, in steps."""
        odd, even = _hyperbolic(self.first + places * self.step)
        outer_odd, outer_even = _hyperbolic(np.pi / 2 * odd)
        return (self.mode + self.width * outer_odd)[..., None], np.pi / 2 * self.width * outer_even * even

    def log_integrals(self, every: int = 1) -> Float[Array, " C"]:
        """Logs of the integrals, by the trapezoid rule on every, or every second point."""
        return logsumexp(self.logs[::every], axis=0, b=every * self.slopes[::every] * self.step)

    def draw(self, log_densities: LogDensities, parameters: Any, key: Any) -> Float[Array, " C"]:
        """A draw from each density, in the limit of many proposals.

        Proposals have the density that is linear between the points. A few Metropolis-Hastings steps among them leave
        no trace of their density: all but one in some hundred is accepted.
        """
        shape = PROPOSALS, len(self.mode)
        numbers = jax.random.uniform(key, (4, *shape), self.logs.dtype)
        top = self.logs.max(0)
        densities = self.slopes * jnp.exp(self.logs - top)
        bounds = jnp.cumsum(densities, axis=0)
        nodes = (bounds < numbers[0][:, None] * bounds[-1]).sum(1)
        places = jnp.clip(nodes + numbers[1] + numbers[2] - 1, 0, len(densities) - 1.001)
        before = places.astype(int)
        low, high = (jnp.take_along_axis(densities, index, axis=0) for index in (before, before + 1))
        points, slopes = self.at(places)
        logs = _safe(log_densities, parameters)(points) - top
        ratios = logs + jnp.log(slopes / (low + (places - before) * (high - low)))
        chosen: tuple[Array, ...] = points[0, :, 0], ratios[0]
        for index in range(1, PROPOSALS):
            is_accepted = jnp.log(numbers[3, index]) < ratios[index] - chosen[1]
            pairs = zip((points[index, :, 0], ratios[index]), chosen, strict=True)
            chosen = tuple(jnp.where(is_accepted, new, old) for new, old in pairs)
        return chosen[0]


def _hyperbolic(t: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """sinh(t) and cosh(t) by one exponential, which takes most of their time."""
    power = jnp.exp(t)
    return 0.5 * (power - 1 / power), 0.5 * (power + 1 / power)


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
        return Line.of(log_densities, parameters, num_cases, IN_ONE).log_integrals()
    mode, axes, falls = _searched(log_densities, parameters, num_cases, num_axes)
    nodes, log_weights = _in_more(num_axes, shift)
    scaled = axes * _widths(falls).T[:, None, :]
    logs = _safe(log_densities, parameters)(mode + jnp.einsum("cij,mj->mci", scaled, nodes))
    log_volume = jnp.log(jnp.linalg.norm(scaled, axis=1)).sum(-1)  # the axes are orthogonal
    return logsumexp(logs + log_weights[:, None], axis=0) + log_volume


def _safe(log_densities: LogDensities, parameters: Any) -> ManyLogDensities:
    """Log densities of many points, -inf where they are not finite."""

    def safe(points: Float[Array, "m C d"]) -> Float[Array, "m C"]:
        logs = jax.vmap(log_densities, (None, 0))(parameters, points)
        return jnp.nan_to_num(logs, nan=-jnp.inf, posinf=-jnp.inf, neginf=-jnp.inf)

    return safe


def _searched(
    log_densities: LogDensities, parameters: Any, num_cases: int, num_axes: int
) -> tuple[Float[Array, "C d"], Float[Array, "C d d"], Float[Array, "2 F d C"]]:
    """Modes, axes of the curvature (C, coordinates, axes), and falls of log densities at `FACTORS` of these."""
    safe = _safe(log_densities, parameters)
    units = np.eye(num_axes)[:, None, :] * np.concatenate([[0.0], STARTS, -STARTS])[None, :, None]
    starts = jnp.broadcast_to(units.reshape(-1, 1, num_axes), (units[..., 0].size, num_cases, num_axes))
    mode, axes, level = _mode(lambda points: log_densities(parameters, points), safe, _best(starts, safe(starts))[0])
    moves = np.multiply.outer([1.0, -1.0], FACTORS)[..., None, None, None] * jnp.moveaxis(axes, 2, 0)
    falls = level - safe((mode + moves).reshape(-1, num_cases, num_axes)).reshape(moves.shape[:-1])
    return mode, axes, jnp.nan_to_num(falls, nan=jnp.inf)


def _widths(falls: Float[Array, "2 F d C"]) -> Float[Array, "d C"]:
    """Factors at which the log density first falls by 1/2, as that of a normal density at one, on the steeper side."""
    return _reach(falls, jnp.cumprod(falls < 0.5, axis=1), 0.5).min(0)


def _reach(falls: Float[Array, "2 F d C"], is_within: Shaped[Array, "2 F d C"], level: float) -> Float[Array, "2 d C"]:
    """Factors at which log densities fall by a level, after the last of `FACTORS` that is within, on either side.

    Between two factors, the log of the fall is linear in the log of the factor, as it is for powers.
    """
    places = np.arange(len(FACTORS))[:, None, None]
    last = jnp.clip(jnp.where(is_within, places, 0).max(1, keepdims=True), 0, len(FACTORS) - 2)
    around = (jnp.take_along_axis(falls, index, axis=1)[:, 0] for index in (last, last + 1))
    low, high = (jnp.log(jnp.clip(fall, 1e-12, 1e6)) for fall in around)
    share = jnp.clip((np.log(level) - low) / jnp.where(high > low, high - low, 1.0), 0, 1)
    return FACTORS[0] * jnp.exp((last[:, 0] + share) * np.log(FACTORS[1] / FACTORS[0]))


def _best(points: Float[Array, "m C d"], logs: Float[Array, "m C"]) -> tuple[Float[Array, "C d"], Float[Array, " C"]]:
    """The points of highest density, and its logs."""
    best = logs.argmax(0)
    chosen = jnp.take_along_axis(points, best[None, :, None], axis=0)[0]
    return chosen, jnp.take_along_axis(logs, best[None], axis=0)[0]


def _mode(
    log_densities: Callable[[Float[Array, "C d"]], Float[Array, " C"]],
    safe: ManyLogDensities,
    start: Float[Array, "C d"],
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
        points = point + parts * jnp.einsum("cij,cj->ci", axes, along)
        return count + 1, *_best(points, safe(points)), axes, jnp.abs(along).max()

    def goes_on(state: tuple[Array, ...]) -> Bool[Array, ""]:
        return (state[0] < MOST_STEPS) & (state[-1] > 0.03)

    num_cases, num_axes = start.shape
    unknown = jnp.zeros(num_cases), jnp.zeros((num_cases, num_axes, num_axes)), jnp.full((), jnp.inf)
    first: tuple[Array, ...] = (jnp.zeros((), int), start, *unknown)
    _, mode, level, axes, _ = jax.lax.while_loop(goes_on, step, first)
    return mode, axes, level


def _in_more(num_axes: int, shift: Float[Array, ""]) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
    """Points, and logs of their weights."""
    golden = np.roots([1.0, *np.zeros(num_axes - 1), -1.0, -1.0]).real.max()  # of d + 1 dimensions
    lattice = np.outer(np.arange(IN_MORE), golden ** -np.arange(1.0, num_axes + 1))
    shares = jnp.clip(jnp.mod(lattice + jnp.mod(1e4 * shift * SHIFTS[:num_axes], 1), 1), 1e-9, 1 - 1e-9)
    points = (2 * shares - 1) / jnp.sqrt(2 * shares * (1 - shares))
    return points, (1.5 * jnp.log1p(points**2 / 2) + 0.5 * np.log(8)).sum(1) - np.log(IN_MORE)
