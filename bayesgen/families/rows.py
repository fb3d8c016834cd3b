"""Densities of rows under the predictive distributions of the families: they have no summary of fixed size."""

import dataclasses
import math

import numpy as np

from ..statistics import RowDensity
from ..statistics.arrays import flatten_rows, log_factorial, namespace, special, sum_gammaln
from ..statistics.mahalanobis import squared_distances, with_whitening

LARGEST_FACTOR = 1e37  # eight of them do not overflow


@dataclasses.dataclass(frozen=True)
class StudentTRows(RowDensity):
    """Independent Student-t columns. Parameters: `df`, `loc`, `scale`, each (K, D) or (K,)."""

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        rows = flatten_rows(values)
        df, loc, scale = (flatten_rows(parameters[name]) for name in ("df", "loc", "scale"))
        xp = namespace(rows, loc)
        gammaln = special(xp).gammaln
        half = 0.5 * (df + 1)
        constant = (gammaln(half) - gammaln(0.5 * df) - 0.5 * xp.log(df * math.pi) - xp.log(scale)).sum(-1)
        width = scale * xp.sqrt(df)
        columns = rows.T.copy()  # sums over columns are then sums of long vectors
        pairs = zip(loc[:, :, None], width[:, :, None], half, strict=True)
        classes = [_scaled_logs(((columns - m) / w) ** 2, h) for m, w, h in pairs]
        return constant - xp.stack(classes, -1)


def _scaled_logs(squares, half):
    """Sum over columns of half * log(1 + squares), (D, n) -> (n,).

    Where the columns share their degrees of freedom, the logarithm is taken of products of eight columns: logarithms
    are what a Student t costs over a normal distribution.
    """
    if namespace(squares, half) is not np or np.ptp(half) > 0 or not squares.max(initial=0.0) < LARGEST_FACTOR:
        xp = namespace(squares, half)
        return (xp.log1p(squares) * half[:, None]).sum(0)
    squares += 1.0
    total = sum(np.log(squares[start : start + 8].prod(0)) for start in range(0, len(squares), 8))
    return half[0] * total


@dataclasses.dataclass(frozen=True)
class MultivariateStudentTRows(RowDensity):
    """Multivariate Student-t rows. Parameters: `df` (K,), `loc` (K, D), `scale_tril` (K, D, D)."""

    def prepare(self, parameters):
        """Invert the Cholesky factors once."""
        return with_whitening(parameters)

    def row_log_prob(self, parameters, values):
        """Log density of rows, (n, K)."""
        squares, half_log_det, dimension = squared_distances(parameters, values)
        xp = namespace(squares)
        gammaln = special(xp).gammaln
        df = parameters["df"]
        half = 0.5 * (df + dimension)
        constant = gammaln(half) - gammaln(0.5 * df) - 0.5 * dimension * xp.log(df * math.pi) - half_log_det[:, 0]
        return constant - half * xp.log1p(squares[..., 0] / df)


@dataclasses.dataclass(frozen=True)
class NegativeBinomialRows(RowDensity):
    """Columns of counts, Poisson with a gamma rate. Parameters: `concentration`, `rate`, each (K, D) or (K,)."""

    def row_log_prob(self, parameters, values):
        """Log probability of rows, (n, K)."""
        rows = flatten_rows(values)
        shape, rate = (flatten_rows(parameters[name]) for name in ("concentration", "rate"))
        xp = namespace(rows, shape)
        constant = (shape * xp.log(rate / (rate + 1)) - special(xp).gammaln(shape)).sum(-1)
        counts = sum_gammaln(rows, shape) - rows @ xp.log1p(rate).T
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
            return self._sparse(concentration, values.tocsr())
        xp = namespace(concentration, values)
        gammaln = special(xp).gammaln
        words = sum_gammaln(values, concentration) - gammaln(concentration).sum(-1)
        return words + _lengths(concentration, values.sum(-1)) - log_factorial(values).sum(-1)[:, None]

    def _sparse(self, concentration, values):
        gammaln = special(np).gammaln
        cells = np.stack([gammaln(values.data + a[values.indices]) - gammaln(a[values.indices]) for a in concentration])
        cells = cells - log_factorial(values.data)
        starts = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)], axis=1)
        words = np.diff(starts[:, values.indptr], axis=1).T
        return words + _lengths(concentration, np.asarray(values.sum(1)).ravel())


def _lengths(concentration, lengths):
    """log of B(A, n) terms that depend on a row's length alone, its factorial included: (n, K)."""
    gammaln = special(namespace(concentration, lengths)).gammaln
    total, lengths = concentration.sum(-1), lengths[:, None]
    return gammaln(total) - gammaln(total + lengths) + gammaln(lengths + 1)
