"""Roots of increasing functions of one number, one a row."""

from collections.abc import Callable

import numpy as np

from bayesgen.typing import Float


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
