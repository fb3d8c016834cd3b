"""Log joints that are parabolas in the response, so that it is normal in closed form: looked for, and checked."""

import dataclasses
import math

import numpy as np

from bayesgen.predictives import Line, LogJoint, NormalPredictive
from bayesgen.typing import Bool, Float

POINTS = np.array([-3.0, -1.0, 0.0, 1.5, 2.5])  # in standard deviations: five, of which no two lie alike
ROUGHLY, CLOSELY = 1e-6, 1e-8  # of the curvature: what may be left beside the parabola, far away and where it counts
MOST_LOOKS, SETTLED = 8, 0.1
_VANDERMONDE = np.linalg.inv(np.vander(POINTS, increasing=True))  # coefficients of powers 0 to 4


@dataclasses.dataclass(frozen=True)
class Parabolas:
    """Parabolas through log joints at five points each.

    Attributes:
        loc, scale: of the normal distributions that they are logs of.
        log_integral: logs of their integrals.
        fits: whether the log joint is this parabola at all five points.
    """

    loc: Float[np.ndarray, "..."]
    scale: Float[np.ndarray, "..."]
    log_integral: Float[np.ndarray, "..."]
    fits: Bool[np.ndarray, "..."]


def points_about(center: Float[np.ndarray, "..."], unit: Float[np.ndarray, "..."]) -> Float[np.ndarray, "5 ..."]:
    """Where log joints are to be looked at."""
    return center + unit * POINTS.reshape(-1, *(1,) * np.ndim(center))


def parabolas(
    logs: Float[np.ndarray, "5 ..."],
    center: Float[np.ndarray, "..."],
    unit: Float[np.ndarray, "..."],
    tolerance: float = CLOSELY,
) -> Parabolas:
    """The parabolas through log joints at `points_about` a center."""
    level = logs[2]  # at the center
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        constant, slope, half, *others = np.tensordot(_VANDERMONDE, logs - level, 1)
        reach = np.abs(logs - level).max(0)
        digits = 64 * np.finfo(float).eps  # of log joints, and of y
        rounding = digits * (reach * (1 + np.abs(center / unit)) + np.abs(level))
        left = np.max(np.abs(others), axis=0)
        fits = (half < 0) & (left <= tolerance * np.abs(half) + rounding) & np.isfinite(logs).all(0)
        half = np.where(fits, half, -0.5)
        vertex, scale = -slope / (2 * half), np.sqrt(-0.5 / half)
        top = level + constant - slope**2 / (4 * half)
        log_integral = top + np.log(scale * unit) + 0.5 * math.log(2 * math.pi)
    return Parabolas(center + unit * vertex, unit * scale, log_integral, fits)


def as_normal(
    log_joint: LogJoint, num_rows: int, line: Line
) -> tuple[NormalPredictive, Float[np.ndarray, " n"]] | None:
    """Normal distributions of y and log p(x), where the log joints of all rows are parabolas in y; else None.

    They are looked at about where y may be, and then again about where it is, until that does not move.
    """
    if not line.is_real:
        return None
    center, unit, rows = np.full(num_rows, line.center), np.full(num_rows, line.scale), np.arange(num_rows)
    tolerance = ROUGHLY
    for _ in range(MOST_LOOKS):
        points = points_about(center, unit)
        logs = log_joint(np.tile(rows, len(POINTS)), points.ravel()).reshape(points.shape)
        found = parabolas(logs, center, unit, tolerance)
        if not found.fits.all():
            return None
        moved = np.abs(found.loc - center) / found.scale + np.abs(np.log(found.scale / unit))
        if tolerance == CLOSELY and (moved < SETTLED).all():
            return NormalPredictive(found.loc, found.scale), found.log_integral
        center, unit, tolerance = found.loc, found.scale, CLOSELY
    return None
