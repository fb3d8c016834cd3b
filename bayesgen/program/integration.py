"""Integrals over a few unbounded coordinates of densities known by their logs. Traceable.

The mode is found by Newton's method, and widths at it by curvature and by how far the log density falls. In one
dimension the rule is the trapezoid in t of x = sinh(pi/2 sinh(t)), whose error is about 1e-8 for smooth densities, with
heavy tails or without (Takahasi and Mori 1974, Double exponential formulas for numerical integration). In more it is
importance sampling with Student's t of two degrees of freedom along the axes of the curvature, whose quantiles are at a
shifted lattice.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.typing import Array, Bool, Float

MOST_AXES = 4
IN_ONE, IN_MORE = 81, 512  # numbers of points
FARTHEST = 3.0  # t of the last point, x = 6.6e6
STARTS = 4.0 ** np.arange(-2, 8)  # distances from the origin at which a mode is looked for
PARTS = np.array([0.0, 2.0, 1.0, *4.0 ** -np.arange(1, 6)])  # of Newton's step
FACTORS = 2.0 ** np.arange(-12, 13, 2)  # of widths by curvature
MOST_STEPS = 30
SHIFTS = np.sqrt([2.0, 3.0, 5.0, 7.0])

LogDensities = Callable[[Float[Array, "C d"]], Float[Array, " C"]]
ManyLogDensities = Callable[[Float[Array, "m C d"]], Float[Array, "m C"]]


def num_points(num_axes: int) -> int:
    """The number of points of a rule; 1 where there is nothing to integrate out."""
    return IN_MORE if num_axes > 1 else IN_ONE if num_axes else 1


def log_integrals(
    log_densities: LogDensities, num_cases: int, num_axes: int, shift: Float[Array, ""]
) -> Float[Array, " C"]:
    """Logs of the integrals of several densities.

    Args:
        log_densities: of one point for each case. It is traced once.
        num_cases: C.
        num_axes: d.
        shift: any number, by which the lattice is moved, so that errors at different numbers are independent.
    """

    log_densities = jax.jit(log_densities)

    def safe(points: Float[Array, "m C d"]) -> Float[Array, "m C"]:
        return jnp.nan_to_num(jax.vmap(log_densities)(points), nan=-jnp.inf, posinf=-jnp.inf, neginf=-jnp.inf)

    axes = np.eye(num_axes)[:, None, :] * np.concatenate([[0.0], STARTS, -STARTS])[None, :, None]
    starts = jnp.broadcast_to(axes.reshape(-1, 1, num_axes), (axes[..., 0].size, num_cases, num_axes))
    mode, curved, level = _mode(log_densities, safe, _best(starts, safe(starts))[0])
    nodes, log_weights = _in_one() if num_axes == 1 else _in_more(num_axes, shift)
    scaled = curved * _factors(safe, mode, curved, level)[:, None, :]
    logs = safe(mode + jnp.einsum("cij,mj->mci", scaled, nodes))
    log_volume = jnp.log(jnp.linalg.norm(scaled, axis=1)).sum(-1)  # the axes are orthogonal
    return logsumexp(logs + log_weights[:, None], axis=0) + log_volume


def _best(points: Float[Array, "m C d"], logs: Float[Array, "m C"]) -> tuple[Float[Array, "C d"], Float[Array, " C"]]:
    """The points of highest density, and its logs."""
    best = logs.argmax(0)
    chosen = jnp.take_along_axis(points, best[None, :, None], axis=0)[0]
    return chosen, jnp.take_along_axis(logs, best[None], axis=0)[0]


def _mode(
    log_densities: LogDensities, safe: ManyLogDensities, start: Float[Array, "C d"]
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
        return (state[0] < MOST_STEPS) & (state[-1] > 1e-4)

    num_cases, num_axes = start.shape
    unknown = jnp.zeros(num_cases), jnp.zeros((num_cases, num_axes, num_axes)), jnp.full((), jnp.inf)
    first: tuple[Array, ...] = (jnp.zeros((), int), start, *unknown)
    _, mode, level, axes, _ = jax.lax.while_loop(goes_on, step, first)
    return mode, axes, level


def _factors(
    safe: ManyLogDensities, mode: Float[Array, "C d"], axes: Float[Array, "C d d"], level: Float[Array, " C"]
) -> Float[Array, "C d"]:
    """Factors of widths along axes at which the log density falls by about 1/2, as that of a normal density at one."""
    found = []
    for index in range(mode.shape[1]):
        moves = jnp.reshape(jnp.asarray(np.outer([1.0, -1.0], FACTORS)), (-1, 1, 1)) * axes[None, :, :, index]
        falls = (level - safe(mode + moves)).reshape(2, len(FACTORS), -1).max(0)
        off = jnp.abs(jnp.log(jnp.clip(falls, 1e-300, 1e300)) - np.log(0.5))
        found.append(jnp.asarray(FACTORS)[off.argmin(0)])
    return jnp.stack(found, axis=-1)


def _in_one() -> tuple[Float[np.ndarray, "m 1"], Float[np.ndarray, " m"]]:
    """Points, and logs of their weights."""
    t, step = np.linspace(-FARTHEST, FARTHEST, IN_ONE, retstep=True)
    stretched = np.pi / 2 * np.sinh(t)
    weights = step * np.pi / 2 * np.cosh(t) * np.cosh(stretched)
    return np.sinh(stretched)[:, None], np.log(weights)


def _in_more(num_axes: int, shift: Float[Array, ""]) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
    """Points, and logs of their weights."""
    golden = np.roots([1.0, *np.zeros(num_axes - 1), -1.0, -1.0]).real.max()  # of d + 1 dimensions
    lattice = np.outer(np.arange(IN_MORE), golden ** -np.arange(1.0, num_axes + 1))
    shares = jnp.clip(jnp.mod(lattice + jnp.mod(1e4 * shift * SHIFTS[:num_axes], 1), 1), 1e-9, 1 - 1e-9)
    points = (2 * shares - 1) / jnp.sqrt(2 * shares * (1 - shares))
    return points, (1.5 * jnp.log1p(points**2 / 2) + 0.5 * np.log(8)).sum(1) - np.log(IN_MORE)
