"""Integrals and sums of functions of one number over its support, one a row, by adaptive panels."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import numpy as np

from bayesgen.records import record
from bayesgen.runtime import ROUNDING
from bayesgen.typing import Bool, Float, Int

from .supports import NODES, Support

LogFunction: TypeAlias = Callable[[Int[np.ndarray, " m"], Float[np.ndarray, " m"]], Float[np.ndarray, " m"]]
"""Positions of rows, and a value of y for each -> log of the function of y that is integrated, such as log p(x, y)."""

# difference of two rules on a panel, as a part of the integral; the error of the better rule is far lower
QUADRATURE_TOLERANCE = 1e-9
NEAR_PEAK, LARGEST_JUMP = 30.0, 3.0  # nats: below the peak, of relevant panels; between neighbouring nodes, at most
UNSEEN, OPTIMISM = 0.5, 4.0  # nats of a peak above nodes, at most; factor on the rise of a parabola


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
    for shift in (-1, 1):  # the parabola's peak may be beyond the next node, in the next panel
        coarse[(nodes + shift) // len(NODES)] = True
    return coarse
