"""What labels given attributes tell of a process: in how many directions nothing, and in which ones too much.

Classes are separable where some direction makes no wrong class of any row more probable, against its label, and some
less. At a maximum there is no such direction; where there is one, a search ends only because what is left to gain is
below rounding. Whether there is one is a linear program in the slopes of the log odds. It is put only where some
direction moves no row that is in doubt: elsewhere the doubts prove that there is none (Gordan's theorem: shares of the
wrong classes are positive multipliers under which the slopes sum to the gradient, zero).

Source: Albert and Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models;
Konis (2007), Linear programming algorithms for detecting separated data, section 4.
"""

import dataclasses
import math

import numpy as np
import scipy.optimize
import scipy.special

from bayesgen.data import Rows
from bayesgen.program import ConditionalDensity, GenerativeProgram, program_table, slope_along, slopes_of_log_odds
from bayesgen.records import copied
from bayesgen.runtime import over_chunks
from bayesgen.solvers import evaluator_of
from bayesgen.statistics import padded_rows
from bayesgen.typing import Bool, Float, Int

MOST_DIMENSIONS = 1200  # up to which slopes are looked at
UNCHANGED = 1e-8  # of the largest effect: smaller ones are rounding
SURE = 1e-6  # a mean share of wrong classes, below which rows are in no doubt
GAIN, HARM = 1e-4, 1e-6  # by how much some log odds fall at least, and others may rise by rounding, along a separation
ROUNDS, MORE_ROWS = 50, 500  # of linear programs, and rows that each adds to the next one
CHUNK_ROWS = 4096  # whose changes are computed at once
POINTS = 3  # about which priors are looked at

Direction = Float[np.ndarray, " D"]


@dataclasses.dataclass(frozen=True)
class Effects:
    """Slopes of log odds of wrong classes against labels at a point, of some rows, in units of the coordinates.

    Attributes:
        density: what is maximised.
        rows: all labelled rows.
        vector: the point.
        widths: the units.
        chosen: positions of the rows looked at: those that are most in doubt, and some others.
        slopes: by row and class.
        shares: probabilities of the wrong classes.
    """

    density: ConditionalDensity
    rows: Rows
    vector: Direction
    widths: Direction
    chosen: Int[np.ndarray, " m"]
    slopes: Float[np.ndarray, "m K D"]
    shares: Float[np.ndarray, "m K"]

    @classmethod
    def at(cls, density: ConditionalDensity, rows: Rows, vector: Direction, widths: Direction) -> "Effects":
        """The effects at a point."""
        program = density.program
        table = program_table(program, dict(density.constrain(vector)), rows)
        shares = scipy.special.softmax(table, axis=1)
        shares[np.arange(rows.num_rows), rows.codes] = 0.0
        counting = np.flatnonzero(rows.frequencies)
        wanted = 2 * math.ceil(len(vector) / (program.num_classes - 1)) + 16
        in_doubt = counting[np.argsort(-shares[counting].sum(1), kind="stable")[:wanted]]
        others = np.random.default_rng(0).choice(counting, min(wanted, len(counting)), replace=False)
        chosen = np.union1d(in_doubt, others)
        return cls(
            density, rows, vector, widths, chosen, _slopes(program, vector, rows, chosen, widths), shares[chosen]
        )

    @property
    def num_unidentified(self) -> int:
        """In how many directions p(y | x) does not change."""
        effects = np.linalg.svd(self.slopes.reshape(-1, len(self.vector)), compute_uv=False)
        return len(self.vector) - int((effects > UNCHANGED * effects[0]).sum())

    def separation(self, free: Bool[np.ndarray, " D"]) -> Direction | None:
        """A direction along free coordinates that makes labels of some rows surer, and of none less."""
        slopes, chosen = self.slopes[:, :, free], self.chosen
        flat = slopes.reshape(len(slopes) * slopes.shape[1], -1)
        left, effects, right = np.linalg.svd(flat, full_matrices=False)
        kept = effects > UNCHANGED * effects[:1]
        left, to_free = left[:, kept], (right[kept] / effects[kept, None]).T
        if not kept.any() or np.linalg.eigvalsh(left.T * self.shares.ravel() @ left)[0] > SURE:
            return None
        for _ in range(ROUNDS):
            reduced = slopes.reshape(-1, slopes.shape[2]) @ to_free
            direction = np.zeros(len(self.vector))
            direction[free] = to_free @ _least_harm(reduced * np.sqrt(len(reduced)))
            changes = self._changes(direction)
            gain, harm = -changes.min(initial=0.0), changes.max(initial=0.0)
            if gain <= GAIN:
                return None
            if harm <= HARM * gain:
                return direction * self.widths
            worst = np.setdiff1d(np.argsort(-changes.max(1), kind="stable")[:MORE_ROWS], chosen)
            if not len(worst):
                return None  # what is left of harm is the solver's rounding: there is no clear separation
            more = _slopes(self.density.program, self.vector, self.rows, worst, self.widths)[:, :, free]
            slopes, chosen = np.concatenate([slopes, more]), np.concatenate([chosen, worst])
        return None

    def _changes(self, direction: Direction) -> Float[np.ndarray, "n K"]:
        """Slopes of all rows along a direction."""
        along = direction * self.widths
        changes = over_chunks(
            lambda part: slope_along(self.density.program, self.vector, along, part),
            self.rows,
            self.rows.num_rows,
            CHUNK_ROWS,
        )
        return np.where(self.rows.frequencies[:, None] > 0, changes, 0.0) * np.sqrt(self.slopes.shape[0])

    @property
    def without_prior(self) -> Bool[np.ndarray, " D"]:
        """Coordinates of which the prior, if it counts, says nothing."""
        if not self.density.prior:
            return np.ones(len(self.vector), bool)
        silent = dataclasses.replace(self.density.rows, weights=np.zeros(self.density.rows.num_rows))
        moves = np.random.default_rng(0).normal(size=(POINTS, len(self.vector))) * self.widths
        gradients = evaluator_of(copied(self.density, rows=silent)).gradients(self.vector + moves)
        return np.asarray((gradients == 0).all(0))


def _slopes(
    program: GenerativeProgram, vector: Direction, rows: Rows, places: Int[np.ndarray, " m"], widths: Direction
) -> Float[np.ndarray, "m K D"]:
    some = padded_rows(rows.take(places))
    return np.asarray(slopes_of_log_odds(program, vector, some))[: len(places)] * widths


def _least_harm(slopes: Float[np.ndarray, "m r"]) -> Float[np.ndarray, " r"]:
    """The direction along which slopes sum to least, none of them being positive."""
    result = scipy.optimize.linprog(slopes.sum(0), A_ub=slopes, b_ub=np.zeros(len(slopes)), bounds=(-1, 1))
    return np.zeros(slopes.shape[1]) if result.x is None else result.x
