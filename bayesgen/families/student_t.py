"""Densities of rows under Student-t distributions, the predictive distributions of normal families."""

import math

import numpy as np

from bayesgen.records import record
from bayesgen.statistics import (
    Cells,
    ColumnwiseDensity,
    Ellipsoids,
    RowDensity,
    column_sums,
    conditional_draws,
    conditional_means,
    filled_matrix,
    flatten_rows,
    log_rising,
    namespace,
    scaled_squares,
    table_by_class,
)
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

FACTORS = 32  # of one product, whose logarithm is taken; where it overflows, logarithms are added


@record
class StudentTDensity(ColumnwiseDensity):
    """Independent Student-t columns."""

    df: Float[Array, "K D"]
    loc: Float[Array, "K D"]
    scale: Float[Array, "K D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        rows, observed = filled_matrix(values, observed)
        df, loc, scale = (flatten_rows(array) for array in (self.df, self.loc, self.scale))
        xp = namespace(rows, loc, observed)
        half = 0.5 * (df + 1)
        constants = log_rising(0.5 * df, 0.5) - 0.5 * xp.log(df * math.pi) - xp.log(scale)
        constant = constants.sum(-1) if observed is None else observed.astype(float) @ constants.T
        precision = 1 / (scale * xp.sqrt(df))
        has_digits = xp is np and half.max() < 1e7  # the logarithm of a product is multiplied by half
        if has_digits and observed is None and not np.ptp(half, axis=1).any():
            return constant - half[:, 0] * _sums_of_logs(rows, loc, precision)
        columns = rows.T

        def weighted_sums(half: Array, loc: Array, precision: Array) -> Float[Array, " n"]:
            cells = xp.log1p(scaled_squares(columns, loc, precision))
            return half @ (cells if observed is None else xp.where(observed.T, cells, 0.0))

        return constant - table_by_class(xp, weighted_sums, half, loc, precision)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        return np.asarray(self.loc)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        loc, scale, df = (np.asarray(array)[classes] for array in (self.loc, self.scale, self.df))
        return loc + scale * rng.standard_t(df)


def _sums_of_logs(
    rows: Float[np.ndarray, "n D"], loc: Float[np.ndarray, "K D"], precision: Float[np.ndarray, "K D"]
) -> Float[np.ndarray, "n K"]:
    """Sum over columns of log(1 + ((row - loc) * precision) ** 2).

    The logarithm is taken of products of many columns; one logarithm for each cell takes 1.3 times as long (`price` in
    benchmarks). Calls are few and for many rows each, because threads wait for each other between them.
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
    return np.asarray(table_by_class(np, lambda *unit: np.log1p(scaled_squares(columns, *unit)).sum(0), loc, precision))


@record
class MultivariateStudentTDensity(RowDensity):
    """Multivariate Student-t rows. Observed columns of a row have the same degrees of freedom."""

    df: Float[Array, " K"]
    ellipsoids: Ellipsoids

    @classmethod
    def of(
        cls, df: Float[Array, " K"], loc: Float[Array, "K D"], scale_tril: Float[Array, "K D D"]
    ) -> "MultivariateStudentTDensity":
        """Invert the Cholesky factors of the scale matrices once."""
        return cls(df, Ellipsoids.of(loc, scale_tril))

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        distances = self.ellipsoids.distances(values, observed)
        squares, half_log_det = distances.squares[..., 0], distances.half_log_det[..., 0]
        return joint_student_t(self.df, squares, half_log_det, distances.dimension[..., 0])

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        return conditional_means(self.ellipsoids, values, observed)

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        return conditional_draws(self.ellipsoids, values, observed, classes, rng, np.asarray(self.df))


@record
class SphericalStudentTDensity(RowDensity):
    """Multivariate Student-t rows whose scale matrix is diagonal. Degrees of freedom repeat one number a class."""

    df: Float[Array, "K D"]
    loc: Float[Array, "K D"]
    scale: Float[Array, "K D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        rows, observed = filled_matrix(values, observed)
        df, loc, scale = (flatten_rows(array) for array in (self.df, self.loc, self.scale))
        xp, columns = namespace(rows, loc, observed), rows.T.copy()
        squares = table_by_class(
            xp, lambda *unit: column_sums(scaled_squares(columns, *unit), observed), loc, 1 / scale
        )
        present = xp.ones((1, rows.shape[1])) if observed is None else observed.astype(float)
        half_log_det, dimension = present @ xp.log(scale).T, present.sum(-1, keepdims=True)
        return joint_student_t(df[:, 0], squares, half_log_det, dimension)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        return np.asarray(self.loc)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        loc, scale, df = self.loc[classes], self.scale[classes], self.df[classes, :1]
        squares = np.where(observed, ((values - loc) / scale) ** 2, 0.0).sum(1, keepdims=True)
        freedom = df + observed.sum(1, keepdims=True)
        spread = np.sqrt((df + squares) / rng.chisquare(freedom))
        return np.asarray(loc + scale * spread * rng.standard_normal(values.shape))


def joint_student_t(
    df: Float[Array, " K"],
    squares: Float[Array, "n K"],
    half_log_det: Float[Array, "#n K"],
    dimension: Real[Array, "#n 1"],
) -> Float[Array, "n K"]:
    """Log density of multivariate Student-t rows at squared distances."""
    xp = namespace(squares, df, dimension)
    half = 0.5 * (df + dimension)
    sizes = np.arange(np.max(dimension, initial=0) + 1.0)[:, None] if xp is np else dimension  # few, of many rows
    constants = log_rising(0.5 * df, 0.5 * sizes) - 0.5 * sizes * xp.log(df * math.pi)
    constants = constants[dimension[:, 0].astype(int)] if xp is np else constants
    return constants - half_log_det - half * xp.log1p(squares / df)
