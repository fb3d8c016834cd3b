"""Densities of rows under the predictive distributions of the families: they have no summary of fixed size."""

import dataclasses
import math

import numpy as np

from bayesgen.statistics import (
    RowDensity,
    flatten_rows,
    log_factorial,
    log_rising,
    namespace,
    row_sums,
    scaled_squares,
    squared_distances,
    sum_log_rising,
    sum_log_rising_of_cells,
    with_whitening,
)
from bayesgen.typing import Array, Float

FACTORS = 32  # of one product; it may overflow, and then their logarithms are added
MOST_HALVES = 1e7  # of a degree of freedom: more of them leave too few digits of a logarithm of a product


@dataclasses.dataclass(frozen=True)
class StudentTRows(RowDensity):
    """Independent Student-t columns. Parameters: `df`, `loc`, `scale`, each (K, D) or (K,)."""

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        rows = flatten_rows(values)
        df, loc, scale = (flatten_rows(parameters[name]) for name in ("df", "loc", "scale"))
        xp = namespace(rows, loc)
        half = 0.5 * (df + 1)
        constant = (log_rising(0.5 * df, 0.5) - 0.5 * xp.log(df * math.pi) - xp.log(scale)).sum(-1)
        precision = 1 / (scale * xp.sqrt(df))
        if xp is np and half.max() < MOST_HALVES and not np.ptp(half, axis=1).any():
            return constant - half[:, 0] * _sums_of_logs(rows, loc, precision)
        columns = rows.T
        logs = [half[k] @ xp.log1p(scaled_squares(columns, loc[k], precision[k])) for k in range(len(loc))]
        return constant - xp.stack(logs, -1)


def _sums_of_logs(rows, loc, precision):
    """Sum over columns of log(1 + ((row - loc) * precision) ** 2), (n, K).

    The logarithm is taken of products of many columns: logarithms are what a Student t costs over a normal
    distribution. Few calls for many rows each, because threads wait for each other between them.
    """
    columns = rows.T.copy()  # sums over columns are then sums of long vectors
    squares, groups = np.empty_like(columns), range(0, len(columns), FACTORS)
    products = np.empty((len(loc), len(groups), len(rows)))
    for k in range(len(loc)):
        scaled_squares(columns, loc[k], precision[k], out=squares)
        squares += 1.0
        for group, start in enumerate(groups):
            np.multiply.reduce(squares[start : start + FACTORS], axis=0, out=products[k, group])
    if np.isfinite(products).all():
        return np.log(products, out=products).sum(1).T
    return np.stack(
        [np.log1p(scaled_squares(columns, *of_class)).sum(0) for of_class in zip(loc, precision, strict=True)], -1
    )


@dataclasses.dataclass(frozen=True)
class MultivariateStudentTRows(RowDensity):
    """Multivariate Student-t rows. Parameters: `df` (K,), `loc` (K, D), `scale_tril` (K, D, D)."""

    def prepare(self, parameters):
        """Invert the Cholesky factors once."""
        return with_whitening(parameters)

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        squares, half_log_det, dimension = squared_distances(parameters, values)
        return _joint_student_t(parameters["df"], squares[..., 0], half_log_det[:, 0], dimension)


@dataclasses.dataclass(frozen=True)
class ConcentricStudentTRows(RowDensity):
    """Multivariate Student-t rows whose scale matrix is diagonal. Parameters: `df`, `loc`, `scale`, each (K, D).

    The degrees of freedom are those of the row: one number for each class, repeated.
    """

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        rows = flatten_rows(values)
        df, loc, scale = (flatten_rows(parameters[name]) for name in ("df", "loc", "scale"))
        xp, columns, df = namespace(rows, loc), rows.T.copy(), df[:, 0]
        squares = xp.stack([scaled_squares(columns, loc[k], 1 / scale[k]).sum(0) for k in range(len(loc))], -1)
        return _joint_student_t(df, squares, xp.log(scale).sum(-1), rows.shape[1])


def _joint_student_t(df, squares, half_log_det, dimension):
    """Log density of multivariate Student-t rows at squared distances (n, K)."""
    xp = namespace(squares, df)
    half = 0.5 * (df + dimension)
    constant = log_rising(0.5 * df, 0.5 * dimension) - 0.5 * dimension * xp.log(df * math.pi) - half_log_det
    return constant - half * xp.log1p(squares / df)


@dataclasses.dataclass(frozen=True)
class NegativeBinomialRows(RowDensity):
    """Columns of counts, Poisson with a gamma rate. Parameters: `concentration`, `rate`, each (K, D) or (K,)."""

    def row_log_prob(self, parameters, values):
        """Log probability of rows, (n, K)."""
        rows = flatten_rows(values)
        shape, rate = (flatten_rows(parameters[name]) for name in ("concentration", "rate"))
        xp = namespace(rows, shape)
        constant = -(shape * xp.log1p(1 / rate)).sum(-1)
        counts = sum_log_rising(rows, shape) - rows @ xp.log1p(rate).T
        return constant + counts - log_factorial(rows).sum(-1)[:, None]


@dataclasses.dataclass(frozen=True)
class DirichletMultinomialRows(RowDensity):
    """Vectors of counts, multinomial with Dirichlet probabilities. Parameter: `concentration`, (K, V).

    Rows may be sparse: only their nonzero cells cost anything.
    """

    def row_log_prob(self, parameters, values):
        """Log probability of rows, (n, K), the multinomial coefficient included."""
        concentration = parameters["concentration"]
        if hasattr(values, "tocsr"):
            words = sum_log_rising_of_cells(values.tocsr(), concentration)
            return words + _lengths(concentration, row_sums(values))
        words = sum_log_rising(values, concentration)
        return words + _lengths(concentration, values.sum(-1)) - log_factorial(values).sum(-1)[:, None]


def _lengths(concentration: Float[Array, "K V"], lengths: Float[Array, " n"]) -> Float[Array, "n K"]:
    """What depends on a row's length alone, its factorial included."""
    totals, lengths = concentration.sum(-1, keepdims=True), lengths[:, None]
    return log_factorial(lengths) - sum_log_rising(lengths, totals)
