"""Training for p(y | x) where log odds of classes are linear in the columns, as in multinomial logistic regression.

That is so where the families of all blocks say how densities change by factors exp(slope * x), see `Family.tilted`:
slopes of log odds may then be any numbers, and intercepts too, by the class probabilities. The objective is concave in
them, and each evaluation takes two matrix products. Of all processes with the same log odds, the fit is the one whose
densities are those of the joint fit but for such factors, whose slopes add up to zero over the classes.

Source: Efron (1975), The efficiency of logistic regression compared to normal discriminant analysis, section 1.
"""

import dataclasses
import functools

import numpy as np
import scipy.linalg
import scipy.special

from bayesgen.data import Rows
from bayesgen.posteriors import ParameterArrays, Point
from bayesgen.runtime import CACHE_ROWS, chunks
from bayesgen.solvers import MOST_DECOMPOSED, CoordinateAxes, advance_climb, along, begin_climb
from bayesgen.statistics import class_sums
from bayesgen.typing import Float, Int

from .identification import CERTAIN, UNCHANGED

LEAST_INDEPENDENT = 1e-10  # eigenvalue of the correlations of columns that are whitened
MOST_SCALED, ROWS_PER_COEFFICIENT = 300, 20  # coefficients that are scaled by their curvature, and rows that it is of
MOST_LOG_ODDS = 600.0  # below which exponentials and their sums are finite
MOST_STEPS, LAST_DECREMENT, LAST_STEP = 400, 1e-14, 1e-3  # evaluations; gain and length of a step that ends a climb

Coefficients = Float[np.ndarray, "K F"]


@dataclasses.dataclass(frozen=True)
class LinearLogOdds:
    """The log-likelihood of labels whose log odds are linear in features of the rows.

    Attributes:
        features: ones, and columns that are whitened.
        codes, weights: of the rows.
        start: coefficients of the joint fit, up to what all classes share.
    """

    features: Float[np.ndarray, "F n"]
    codes: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    start: Coefficients

    @property
    def num_free(self) -> int:
        """The number of coefficients but for what all classes share."""
        return (len(self.start) - 1) * len(self.features)

    @functools.cached_property
    def label_sums(self) -> Coefficients:
        """Weighted sums of the features of each class, of which the scores of labels are made."""
        return np.asarray(class_sums(self.features.T, self.codes, len(self.start), self.weights))

    def at(self, coefficients: Coefficients) -> tuple[float, Coefficients]:
        """Value and gradient."""
        contrasts, slopes = coefficients[:-1] - coefficients[-1], self.label_sums.copy()
        value = float((contrasts * slopes[:-1]).sum())
        for part in chunks(len(self.weights), CACHE_ROWS):
            cells, weights = self.features[:, part], self.weights[part]
            table = contrasts @ cells  # log odds against the last class
            peaks = np.zeros(()) if table.max() < MOST_LOG_ODDS else np.maximum(table.max(axis=0), 0.0)
            table -= peaks
            np.exp(table, out=table)
            totals = table.sum(axis=0) + np.exp(-peaks)
            value -= float(weights @ (peaks + np.log(totals)))
            table *= weights / totals
            slopes[:-1] -= table @ cells.T
        slopes[-1] = -slopes[:-1].sum(axis=0)
        return value, slopes

    def maximum(self) -> tuple[Coefficients, float, float]:
        """The coefficients at the maximum, the value there and at the start; NaN where there is no clear maximum."""
        axes, climb = self._axes, begin_climb(np.zeros(self.start.size))
        values: list[float] = []
        coefficients = self.start
        while not climb.is_over and len(values) < MOST_STEPS:
            value, slopes = self.at(coefficients)
            climb = advance_climb(climb, np.asarray(value), along(axes.T, slopes.ravel()), np.asarray(LAST_DECREMENT))
            coefficients = self.start + along(axes, climb.trial).reshape(self.start.shape)
            values.append(value)
        coefficients = self.start + along(axes, climb.point).reshape(self.start.shape)
        is_end = climb.is_converged and np.linalg.norm(climb.direction) <= LAST_STEP
        is_clear = is_end and not self.is_certain(coefficients, float(climb.value))
        return coefficients, float(climb.value) if is_clear else np.nan, values[0]

    @property
    def _axes(self) -> CoordinateAxes:
        """Axes of coordinates about the start in which the curvature is about one."""
        if self.start.size > MOST_SCALED:
            class_weights = np.bincount(self.codes, self.weights, len(self.start))
            return np.repeat(1 / np.sqrt(np.maximum(class_weights, 1.0)), self.start.shape[1])
        features, weights = self.features[:, self._some_rows], self.weights[self._some_rows]
        shares = scipy.special.softmax(self.start @ features, axis=0)
        against_last = np.kron(np.delete(np.eye(len(shares)) - np.eye(len(shares))[-1], -1, 0), np.eye(len(features)))
        curvature = against_last.T @ _information(shares[:-1], features.T * np.sqrt(weights)[:, None]) @ against_last
        sizes, directions = np.linalg.eigh(curvature * (self.weights.sum() / max(weights.sum(), 1.0)))
        return directions / np.sqrt(np.maximum(sizes, 1.0))

    def is_certain(self, coefficients: Coefficients, value: float) -> bool:
        """Whether labels are certain along some direction, or coefficients are not identified.

        Elsewhere classes are not separable: see `bayesgen.fitting.identification`. Some rows can show that they are
        not; where they do not, all rows are looked at.
        """
        if self.num_free > MOST_DECOMPOSED:
            return value >= -CERTAIN * float(self.weights.sum())
        return all(self._seem_certain(coefficients, rows) for rows in (self._some_rows, slice(None)))

    def _seem_certain(self, coefficients: Coefficients, rows: slice) -> bool:
        """Whether the most uncertain ones of some rows of each class leave a direction certain, or not identified."""
        features, weights = self.features[:, rows], self.weights[rows]
        shares = np.where(weights > 0, scipy.special.softmax(coefficients @ features, axis=0), 0.0)
        most = min(4 * len(features), len(weights))
        chosen = np.unique(np.argpartition(shares * (shares - 1), most - 1, axis=1)[:, :most])
        directions, sizes, _ = np.linalg.svd(features[:, chosen].T, full_matrices=False)
        least = np.linalg.eigvalsh(_information(shares[:-1, chosen], directions))[0]
        return bool(sizes[-1] <= UNCHANGED * sizes[0] or least <= CERTAIN)

    @property
    def _some_rows(self) -> slice:
        """Rows at equal distances: some for each coefficient, or as many as take the time of a few evaluations."""
        size = self.start.size
        return slice(None, None, max(1, min(len(self.codes) // (ROWS_PER_COEFFICIENT * size), size // 8)))


def _information(shares: Float[np.ndarray, "k m"], rows: Float[np.ndarray, "m F"]) -> Float[np.ndarray, "D D"]:
    """The information of labels with these probabilities on the coefficients of each class."""
    products = (shares.T[:, :, None] * rows[:, None]).reshape(len(rows), -1)
    by_class = scipy.linalg.block_diag(*((rows.T * class_shares) @ rows for class_shares in shares))
    return by_class - products.T @ products


def log_linear_maximum(joint: Point, rows: Rows) -> tuple[ParameterArrays, dict[str, float], int] | None:
    """The maximum of log p(y | x) above a joint fit, where log odds are linear in the columns.

    Returns:
        The parameters; attributes of the fit, the objective there and at the joint fit; and the number of coefficients.
        None where log odds are not linear, or cells missing or sparse, and where it is not clear that there is one
        maximum, as with classes that are separable.
    """
    conjugate, parameters = joint.conjugate, joint.parameters
    is_dense = not rows.observed and not any(hasattr(cells, "tocsr") for cells in rows.values.values())
    if conjugate is None or not is_dense:
        return None
    none = {name: np.zeros((len(conjugate.classes), cells.shape[1])) for name, cells in rows.values.items()}
    if conjugate.tilted(parameters, none) is None:
        return None
    names, weights = [block.name for block in conjugate.blocks], np.asarray(rows.frequencies, np.float64)
    parts = [np.asarray(rows.values[name], np.float64) for name in names]
    cells = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    whitened = _whitened(cells, weights)
    if whitened is None:
        return None
    means, deviations, whitening, features = whitened
    probes, moves = _probes(cells, features, deviations)
    probe_rows = Rows(dict(zip(names, np.split(probes, ends, axis=1), strict=True)))
    table = joint.log_joint(probe_rows).T
    if not np.isfinite(table).all():  # a probability of zero or one
        return None
    slopes = (table[:, 1:] - table[:, [0]]) / moves
    start = np.column_stack([table[:, 0] + slopes @ (means - probes[0]), slopes @ np.linalg.inv(whitening)])
    odds = LinearLogOdds(features, np.asarray(rows.codes), weights, start - start.mean(axis=0))
    coefficients, value, value_of_joint_fit = odds.maximum()
    tilts = np.split((coefficients - odds.start)[:, 1:] @ whitening, ends, axis=1)
    tilted = conjugate.tilted(parameters, dict(zip(names, tilts, strict=True)))
    assert tilted is not None
    values = {**parameters, **tilted}
    log_odds = coefficients @ np.insert(whitening @ (probes - means).T, 0, 1.0, axis=0)
    with np.errstate(all="ignore"):  # where classes are far apart in these coordinates, the check below fails
        shifts = log_odds - dataclasses.replace(joint, values=values).log_joint(probe_rows).T
        values["class_probs"] = scipy.special.softmax(np.log(values["class_probs"]) + shifts[:, 0])
        differences = shifts - shifts[:, [0]]  # equal in all classes, where log odds are these
        are_equal = np.allclose(differences, differences[0], rtol=0, atol=UNCHANGED)
    if not (np.isfinite(value) and are_equal and values["class_probs"].all()):
        return None
    return values, {"objective": value, "objective_of_joint_fit": value_of_joint_fit}, odds.num_free


def _whitened(
    cells: Float[np.ndarray, "n D"], weights: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"], Float[np.ndarray, "D D"], Float[np.ndarray, "F n"]] | None:
    """Means, deviations, a matrix that makes columns uncorrelated, and ones and the results; None of dependent ones."""
    means = weights @ cells / weights.sum()
    columns = (cells - means).T
    covariance = (columns if (weights == 1).all() else weights * columns) @ columns.T / weights.sum()
    deviations = np.sqrt(np.diagonal(covariance))
    if not (deviations > 0).all():
        return None
    sizes, directions = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    if sizes[0] < LEAST_INDEPENDENT:
        return None
    whitening = (directions / np.sqrt(sizes)).T / deviations
    features = np.ones((len(means) + 1, len(cells)))
    np.matmul(whitening, columns, out=features[1:])
    return means, deviations, whitening, features


def _probes(
    cells: Float[np.ndarray, "n D"], features: Float[np.ndarray, "F n"], deviations: Float[np.ndarray, " D"]
) -> tuple[Float[np.ndarray, "F D"], Float[np.ndarray, " D"]]:
    """A row in the middle, and rows that differ from it in one cell, by moves to the farther extreme of many rows."""
    first_rows, first_features = cells[:CACHE_ROWS], features[:, :CACHE_ROWS]
    middle = first_rows[int(np.einsum("fn,fn->n", first_features, first_features).argmin())]
    for spread_rows in (first_rows, cells):
        rise, fall = spread_rows.max(axis=0) - middle, spread_rows.min(axis=0) - middle
        moves = np.where(rise > -fall, rise, fall)
        if (np.abs(moves) >= deviations).all():  # by shorter moves slopes would have too few digits
            break
    return middle + np.concatenate([np.zeros((1, len(moves))), np.diag(moves)]), moves
