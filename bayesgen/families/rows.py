"""Densities of rows under the predictive distributions of families, which have no sufficient statistics."""

import math

import numpy as np
import scipy.sparse
import scipy.special

from bayesgen.distributions import CHUNK_STEPS, Contexts, UrnChain, as_codes
from bayesgen.errors import PredictionError
from bayesgen.records import record, static
from bayesgen.runtime import chunks
from bayesgen.statistics import (
    Cells,
    ColumnwiseDensity,
    Ellipsoids,
    RowDensity,
    column_sums,
    conditional_draws,
    conditional_means,
    filled,
    flatten_rows,
    log_factorial,
    log_rising,
    namespace,
    refuse_missing,
    row_sums,
    scaled_squares,
    sum_log_rising,
    sum_log_rising_of_cells,
)
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

FACTORS = 32  # of one product, whose logarithm is taken; where it overflows, logarithms are added
MOST_HALVES = 1e7  # of (df + 1) / 2; above, the logarithm of a product has too few digits


@record
class StudentTDensity(ColumnwiseDensity):
    """Independent Student-t columns."""

    df: Float[Array, "K D"]
    loc: Float[Array, "K D"]
    scale: Float[Array, "K D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        rows = flatten_rows(values if observed is None else filled(values, observed))
        df, loc, scale = (flatten_rows(array) for array in (self.df, self.loc, self.scale))
        xp = namespace(rows, loc, observed)
        half = 0.5 * (df + 1)
        constants = log_rising(0.5 * df, 0.5) - 0.5 * xp.log(df * math.pi) - xp.log(scale)
        constant = constants.sum(-1) if observed is None else observed.astype(float) @ constants.T
        precision = 1 / (scale * xp.sqrt(df))
        if xp is np and observed is None and half.max() < MOST_HALVES and not np.ptp(half, axis=1).any():
            return constant - half[:, 0] * _sums_of_logs(rows, loc, precision)
        columns = rows.T
        logs = [xp.log1p(scaled_squares(columns, *unit)) for unit in zip(loc, precision, strict=True)]
        if observed is not None:
            logs = [xp.where(observed.T, cells, 0.0) for cells in logs]
        return constant - xp.stack([weights @ cells for weights, cells in zip(half, logs, strict=True)], -1)

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
    return np.stack(
        [np.log1p(scaled_squares(columns, *of_class)).sum(0) for of_class in zip(loc, precision, strict=True)], -1
    )


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
        return _joint_student_t(self.df, squares, half_log_det, distances.dimension[..., 0])

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
        rows = flatten_rows(values if observed is None else filled(values, observed))
        df, loc, scale = (flatten_rows(array) for array in (self.df, self.loc, self.scale))
        xp, columns = namespace(rows, loc, observed), rows.T.copy()
        squares = [column_sums(scaled_squares(columns, *unit), observed) for unit in zip(loc, 1 / scale, strict=True)]
        present = xp.ones((1, rows.shape[1])) if observed is None else observed.astype(float)
        half_log_det, dimension = present @ xp.log(scale).T, present.sum(-1, keepdims=True)
        return _joint_student_t(df[:, 0], xp.stack(squares, -1), half_log_det, dimension)

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
        return loc + scale * spread * rng.standard_normal(values.shape)


def _joint_student_t(
    df: Float[Array, " K"],
    squares: Float[Array, "n K"],
    half_log_det: Float[Array, "#n K"],
    dimension: Real[Array, "#n 1"],
) -> Float[Array, "n K"]:
    """Log density of multivariate Student-t rows at squared distances."""
    xp = namespace(squares, df)
    half = 0.5 * (df + dimension)
    constant = log_rising(0.5 * df, 0.5 * dimension) - 0.5 * dimension * xp.log(df * math.pi) - half_log_det
    return constant - half * xp.log1p(squares / df)


@record
class NegativeBinomialDensity(ColumnwiseDensity):
    """Columns of counts, Poisson with a gamma rate."""

    concentration: Float[Array, "K D"]
    rate: Float[Array, "K D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        rows = flatten_rows(values if observed is None else filled(values, observed, 0.0))
        shape, rate = flatten_rows(self.concentration), flatten_rows(self.rate)
        xp = namespace(rows, shape)
        constants = -shape * xp.log1p(1 / rate)
        constant = constants.sum(-1) if observed is None else observed.astype(float) @ constants.T
        counts = sum_log_rising(rows, shape) - rows @ xp.log1p(rate).T
        return constant + counts - log_factorial(rows).sum(-1)[:, None]

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        return np.asarray(self.concentration / self.rate)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        return rng.poisson(rng.gamma(self.concentration[classes]) / self.rate[classes]).astype(float)


@record
class DirichletMultinomialDensity(RowDensity):
    """Vectors of counts, multinomial with Dirichlet probabilities. Of sparse rows only the nonzero cells cost."""

    concentration: Float[Array, "K V"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n V"] | None = None) -> Float[Array, "n K"]:
        if observed is not None:
            refuse_missing("a Dirichlet-multinomial distribution")
        if hasattr(values, "tocsr"):
            of_cells = sum_log_rising_of_cells(values.tocsr(), np.asarray(self.concentration))
            return of_cells + _lengths(self.concentration, row_sums(values))
        words = sum_log_rising(values, self.concentration)
        return words + _lengths(self.concentration, values.sum(-1)) - log_factorial(values).sum(-1)[:, None]


def _lengths(concentration: Float[Array, "K V"], lengths: Real[Array, " n"]) -> Float[Array, "n K"]:
    """The terms that depend on the length of a row alone."""
    totals, lengths = concentration.sum(-1, keepdims=True), lengths[:, None]
    return log_factorial(lengths) - sum_log_rising(lengths, totals)


MOST_COMPLETIONS = 1 << 16  # of one sequence with missing time steps


@record
class DirichletMarkovDensity(RowDensity):
    """Markov chains with Dirichlet probabilities, integrated out: a Polya urn for each context.

    Missing time steps are marginalised by adding up all completions.

    Attributes:
        concentration: of the contexts of each class.
        contexts: of the chain.
    """

    concentration: Float[Array, "K contexts r"]
    contexts: Contexts = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n T"] | None = None) -> Float[Array, "n K"]:
        if observed is None:
            return self._of_complete(values)
        rows, mask = np.asarray(values).astype(np.int64), np.asarray(observed)
        is_needed = mask.all(-1) | self.contexts.is_informative(rows, mask)  # the others have factor 1
        num_missing = np.where(is_needed, (~mask).sum(-1), -1)
        total = np.zeros((len(rows), len(self.concentration)))
        for number in np.unique(num_missing[num_missing >= 0]).tolist():
            self._check_number(number)
            places = np.flatnonzero(num_missing == number)
            size = CHUNK_STEPS // max(self.contexts.num_symbols**number * rows.shape[1], 1)
            for part in chunks(len(places), max(size, 1)):
                total[places[part]] = self._marginalised(rows[places[part]], mask[places[part]], number)
        return total

    def _check_number(self, number: int) -> None:
        num_symbols = self.contexts.num_symbols
        if num_symbols**number > MOST_COMPLETIONS:
            raise PredictionError(
                f"A sequence lacks {number} of its steps, each of which may be any of {num_symbols} symbols: the exact "
                f"predictive adds up at most {MOST_COMPLETIONS} completions. Use PlugIn(), or NUTS() and BMA(), which "
                "sum missing steps out one after another, or mark the sequence as missing altogether."
            )

    def _marginalised(
        self, rows: Int[np.ndarray, "n T"], observed: Bool[np.ndarray, "n T"], number: int
    ) -> Float[np.ndarray, "n K"]:
        """Log probabilities of rows with this number of missing time steps, by adding up all completions."""
        if number == 0:
            return np.asarray(self._of_complete(rows))
        num_symbols, (num_rows, num_steps) = self.contexts.num_symbols, rows.shape
        options = np.indices((num_symbols,) * number).reshape(number, -1).T
        completed = np.repeat(rows[:, None], len(options), 1)
        lacking = np.nonzero(~observed)[1].reshape(num_rows, 1, number)
        np.put_along_axis(completed, lacking, options[None], -1)
        logs = np.asarray(self._of_complete(completed.reshape(-1, num_steps))).reshape(num_rows, len(options), -1)
        if self.contexts.end is not None:
            is_followed = (completed[..., :-1] == self.contexts.end) & (completed[..., 1:] >= 0)
            logs = np.where(is_followed.any(-1)[..., None], -np.inf, logs)
        return scipy.special.logsumexp(logs, axis=1)

    def _of_complete(self, values: Cells) -> Float[Array, "n K"]:
        """Log probabilities of complete rows."""
        if namespace(self.concentration, values) is not np:
            contexts = self.contexts
            chain = UrnChain(self.concentration, contexts.order, end=contexts.end, validate_args=False)
            return chain.log_prob(values[:, None])
        codes, inside = as_codes(values)
        alpha = np.asarray(self.concentration)
        total = np.zeros((len(codes), len(alpha)))
        for part in chunks(len(codes), max(CHUNK_STEPS // max(codes.shape[1], 1), 1)):
            drawn = self.contexts.counts_by_row(codes[part], inside[part])
            shape, places = (drawn.shape[0], self.contexts.size), drawn.indices // self.contexts.num_symbols
            urns = scipy.sparse.csr_array((drawn.data.copy(), places, drawn.indptr.copy()), shape=shape)
            for counts, starts in ((drawn, alpha.reshape(len(alpha), -1)), (urns, alpha.sum(-1))):
                counts.sum_duplicates()
                sums = sum_log_rising_of_cells(counts, starts, by_factorials=False)
                total[part] += sums if counts is drawn else -sums
        return total
