"""Identification of a process by labels given attributes: directions without effect, and separable classes.

Classes are separable where, along some direction, the log odds of no wrong class against the label rise in any row, and
some fall. Then p(y | x) has no maximum, and a search ends only because further gains are below rounding. Such a
direction is found by a linear program in the slopes of the log odds. The program is solved only where some direction
changes no uncertain row: elsewhere Gordan's theorem excludes separation, as the probabilities of the wrong classes are
positive multipliers under which the slopes sum to the gradient, zero.

Source: Albert and Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models;
Konis (2007), Linear programming algorithms for detecting separated data, section 4.
"""

import dataclasses
import math

import numpy as np
import scipy.optimize
import scipy.special

from bayesgen.data import Rows
from bayesgen.program import LogPriorKind, Program, ProgramDensity, program_table, slope_along, slopes_of_log_odds
from bayesgen.runtime import CACHE_ROWS, EQUAL_DENSITIES, over_chunks
from bayesgen.solvers import Optimum, Status, evaluator_of
from bayesgen.statistics import padded_rows
from bayesgen.typing import Bool, Float, Int

UNCHANGED = 1e-8  # of the largest singular value: smaller ones are rounding
CERTAIN = 1e-6  # mean probability of wrong classes, below which labels are certain

Direction = Float[np.ndarray, " D"]


@dataclasses.dataclass(frozen=True)
class LogOddsSlopes:
    """Slopes of the log odds of wrong classes against labels at a point, for some rows, in units of the coordinates.

    Attributes:
        density: the objective.
        rows: all labelled rows.
        vector: the point.
        widths: the units.
        chosen: positions of these rows: the most uncertain ones, and some others.
        slopes: by row and class.
        shares: probabilities of the wrong classes.
    """

    density: ProgramDensity
    rows: Rows
    vector: Direction
    widths: Direction
    chosen: Int[np.ndarray, " m"]
    slopes: Float[np.ndarray, "m K D"]
    shares: Float[np.ndarray, "m K"]

    @classmethod
    def at(cls, density: ProgramDensity, rows: Rows, vector: Direction, widths: Direction) -> "LogOddsSlopes":
        """The slopes at a point."""
        program = density.program
        table = program_table(program, dict(density.constrain(vector)), rows)
        shares = scipy.special.softmax(table, axis=1)
        shares[np.arange(rows.num_rows), rows.codes] = 0.0
        counting = np.flatnonzero(rows.frequencies)
        num_rows = 2 * math.ceil(len(vector) / (program.num_classes - 1)) + 16
        uncertain = counting[np.argsort(-shares[counting].sum(1), kind="stable")[:num_rows]]
        at_random = np.random.default_rng(0).choice(counting, min(num_rows, len(counting)), replace=False)
        chosen = np.union1d(uncertain, at_random)
        return cls(
            density, rows, vector, widths, chosen, _slopes(program, vector, rows, chosen, widths), shares[chosen]
        )

    @property
    def num_unidentified(self) -> int:
        """The number of directions in which p(y | x) does not change."""
        singular_values = np.linalg.svd(self.slopes.reshape(-1, len(self.vector)), compute_uv=False)
        return len(self.vector) - int((singular_values > UNCHANGED * singular_values[0]).sum())

    def separation(self) -> Direction | None:
        """A direction on which the prior does not depend that separates classes, in part or all; None without one."""
        free = np.ones(len(self.vector), bool)
        if self._moves(free) is None:  # told without the prior, whose slopes would be compiled
            return None
        free = self._without_prior
        if (to_free := self._moves(free)) is None:
            return None
        slopes, chosen = self.slopes[:, :, free], self.chosen
        for _ in range(50):  # each linear program adds rows to the next one
            reduced = slopes.reshape(-1, slopes.shape[2]) @ to_free
            direction = np.zeros(len(self.vector))
            direction[free] = to_free @ _separating_direction(reduced * np.sqrt(len(reduced)))
            changes = self._slopes_along(direction)
            fall, rise = -changes.min(initial=0.0), changes.max(initial=0.0)
            if fall <= 1e-4:  # of log odds
                return None
            if rise <= EQUAL_DENSITIES * fall:
                return direction * self.widths
            worst = np.setdiff1d(np.argsort(-changes.max(1), kind="stable")[:500], chosen)
            if not len(worst):
                return None  # the remaining rises are rounding of the solver: no clear separation
            more = _slopes(self.density.program, self.vector, self.rows, worst, self.widths)[:, :, free]
            slopes, chosen = np.concatenate([slopes, more]), np.concatenate([chosen, worst])
        return None

    def _moves(self, free: Bool[np.ndarray, " D"]) -> Float[np.ndarray, "free r"] | None:
        """Moves of free coordinates that change the log odds, by unit changes; None where no classes are separable."""
        flat = self.slopes[:, :, free].reshape(self.shares.size, -1)
        left, singular_values, right = np.linalg.svd(flat, full_matrices=False)
        is_changing = singular_values > UNCHANGED * singular_values[:1]
        left = left[:, is_changing]
        if not is_changing.any() or np.linalg.eigvalsh(left.T * self.shares.ravel() @ left)[0] > CERTAIN:
            return None
        return (right[is_changing] / singular_values[is_changing, None]).T

    def _slopes_along(self, direction: Direction) -> Float[np.ndarray, "n K"]:
        """Slopes of all rows along a direction."""
        along = direction * self.widths
        changes = over_chunks(
            lambda part: slope_along(self.density.program, self.vector, along, part),
            self.rows,
            self.rows.num_rows,
            CACHE_ROWS,
        )
        return np.where(self.rows.frequencies[:, None] > 0, changes, 0.0) * np.sqrt(self.slopes.shape[0])

    @property
    def _without_prior(self) -> Bool[np.ndarray, " D"]:
        """Coordinates on which the prior does not depend; all of them where it does not count."""
        if self.density.prior is LogPriorKind.NONE:
            return np.ones(len(self.vector), bool)
        moves = np.random.default_rng(0).normal(size=(3, len(self.vector))) * self.widths
        _, gradients = evaluator_of(self.density.with_terms()).evaluate(self.vector + moves)
        return np.asarray((gradients == 0).all(0))


def unless_separable(density: ProgramDensity, rows: Rows | None, optimum: Optimum) -> Optimum:
    """The optimum of a likelihood of nothing but labels, its status `SEPARABLE` where classes are."""
    if rows is None or density.program.attributes or density.prior is not LogPriorKind.NONE:
        return optimum
    slopes = LogOddsSlopes.at(density, rows, optimum.vector, np.ones(len(optimum.vector)))
    direction = slopes.separation()
    return optimum if direction is None else dataclasses.replace(optimum, status=Status.SEPARABLE, direction=direction)


def _slopes(
    program: Program, vector: Direction, rows: Rows, positions: Int[np.ndarray, " m"], widths: Direction
) -> Float[np.ndarray, "m K D"]:
    some = padded_rows(rows.take(positions))
    return np.asarray(slopes_of_log_odds(program, vector, some))[: len(positions)] * widths


def _separating_direction(slopes: Float[np.ndarray, "m r"]) -> Float[np.ndarray, " r"]:
    """The direction along which the sum of slopes is least, none of them being positive."""
    result = scipy.optimize.linprog(slopes.sum(0), A_ub=slopes, b_ub=np.zeros(len(slopes)), bounds=(-1, 1))
    return np.zeros(slopes.shape[1]) if result.x is None else result.x
