"""Jointly normal columns: covariances as unconstrained vectors, checks of their estimates, EM for missing cells."""

import abc
import math
from collections.abc import Callable, Mapping

import numpy as np
import numpyro.distributions as dist

from bayesgen.errors import FitError, ModelError
from bayesgen.runtime import ROUNDING
from bayesgen.statistics import (
    Moments,
    PatternMoments,
    Summary,
    any_known,
    class_moments,
    correlations_of,
    expected_moments,
)
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .base import IncompleteFamily, ParameterTables
from .hyperparameters import ANONYMOUS, Hyperparameter, Names, Pooling, Stated, TableShape, check_counted
from .special import may_be_singular


def vector_of_factors(factors: Float[Array, "*K D D"]) -> Float[np.ndarray, " F"]:
    """Lower-triangular matrices as an unconstrained vector, with the logs of their diagonals."""
    dimension = factors.shape[-1]
    diagonal = np.arange(dimension)
    logs = np.array(factors)
    logs[..., diagonal, diagonal] = np.log(logs[..., diagonal, diagonal])
    return np.ravel(logs[(..., *np.tril_indices(dimension))])


def covariances_at(vector: Float[np.ndarray, " F"], shape: tuple[int, ...]) -> Float[np.ndarray, "*K D D"] | None:
    """The inverse of `vector_of_factors`, as covariances L L^T; None where one is singular in floating point."""
    diagonal = np.arange(shape[-1])
    factors = np.zeros(shape)
    rows, columns = np.tril_indices(shape[-1])
    factors[..., rows, columns] = vector.reshape(*shape[:-2], -1)
    with np.errstate(over="ignore", invalid="ignore"):
        factors[..., diagonal, diagonal] = np.exp(factors[..., diagonal, diagonal])
        covariances = factors @ np.swapaxes(factors, -1, -2)
    if not np.isfinite(covariances).all() or (covariances[..., diagonal, diagonal] == 0).any():
        return None
    return covariances if np.linalg.eigvalsh(correlations_of(covariances)).min() > ROUNDING else None


def check_scale(scale: Stated) -> None:
    """Refuse a scale matrix that is not symmetric and positive definite, and a hyperprior whose draws are no matrices.

    None passes, and of tracers only the shape is looked at.
    """
    shape: tuple[int, ...] = scale.shape() if isinstance(scale, dist.Distribution) else getattr(scale, "shape", ())
    is_matrix = scale is None or (len(shape) >= 2 and shape[-1] == shape[-2])
    if is_matrix and isinstance(scale, np.ndarray):
        is_symmetric = np.allclose(scale, np.swapaxes(scale, -1, -2), rtol=1e-10)
        is_matrix = is_symmetric and bool((np.linalg.eigvalsh(scale) > 0).all())
    if not is_matrix:
        raise ModelError("NormalInverseWishart: scale must be a symmetric positive-definite matrix (D, D).")


def check_ranks(
    summary: Moments, pool: Callable[[Float[Array, "..."]], Float[Array, "..."]], tied: bool, names: Names
) -> None:
    """Refuse covariances that rows cannot determine: too few rows, or columns that are linear combinations."""
    dimension, scatter = summary.mean.shape[-1], pool(summary.scatter)
    if np.ndim(summary.count):
        check_counted(names, summary.count == 0)
    if any_known(may_be_singular(scatter)):
        counts = pool(np.asarray(summary.count))
        for index in np.ndindex(counts.shape):
            who = "all classes together" if tied else names.class_name(index)
            _check_rank(who, float(counts[index]), scatter[index], dimension, names)


def _check_rank(who: str, count: float, scatter: Float[Array, "D D"], dimension: int, names: Names) -> None:
    spread = np.sqrt(np.diagonal(scatter))
    if (spread == 0).any():
        raise FitError(
            f"Block {names.block!r}: the variance is zero at {who}, {names.column_name(int(np.argmin(spread)))} (a "
            f"constant column), so the likelihood is unbounded. Use {names.with_prior}, or drop the column."
        )
    correlations = correlations_of(scatter)
    is_known = bool(np.isfinite(correlations).all())  # else steps of EM towards a singular one have lost its digits
    rank = int(np.linalg.matrix_rank(correlations, hermitian=True)) if is_known else 0
    if rank < dimension:
        problem = f" has rank {rank}, so it" if is_known else ""
        raise FitError(
            f"Block {names.block!r}: {who} has {count:g} rows, and their covariance of dimension {dimension}{problem} "
            f"is singular and the likelihood unbounded. Use {names.with_prior}, a tied or diag covariance, or at least "
            f"{dimension + 1} rows that are not linear combinations of each other."
        )


def check_cells(
    together: Float[Array, "#K D D"],
    counts: Float[Array, "K D"],
    scatter: Float[Array, "#K D"],
    tied: bool,
    names: Names,
) -> None:
    """Refuse means without observed cells, columns without variance, and pairs of columns that no row observes both of.

    Args:
        together: weight of the rows in which both of two columns are observed.
        counts: weight of the cells of each column, by class.
        scatter: of the cells of each column.
        tied: whether classes have one covariance.
        names: for messages.
    """
    remedy = "Use MAP(), or columns with variances of their own (covariance='diag', NaiveBayes)."
    check_counted(names, counts == 0, remedy="MAP()")
    if (scatter == 0).any():
        index, column = (int(i) for i in np.argwhere(scatter == 0)[0])
        who = "all classes together" if tied else names.class_name((index,))
        raise FitError(
            f"Block {names.block!r}: the variance is zero at {who}, {names.column_name(column)} (a constant column), "
            "so the likelihood is unbounded. Use MAP(), or drop the column."
        )
    if (together == 0).any():
        index, first, second = (int(i) for i in np.argwhere(together == 0)[0])
        who = "all classes together" if tied else names.class_name((index,))
        raise FitError(
            f"Block {names.block!r}: no row of {who} has both {names.column_name(first)} and "
            f"{names.column_name(second)}, so the likelihood does not depend on their covariance. {remedy}"
        )


def _dependent_column(
    summary: PatternMoments, groups: Int[np.ndarray, " groups"], num_classes: int
) -> tuple[int, float] | None:
    """A column that is a linear combination of others in all rows of these groups that have it; and their weight."""
    patterns, pattern_of_column = np.unique(summary.observed[groups], axis=1, return_inverse=True)
    for pattern, has_columns in enumerate(patterns.T):
        rows = groups[has_columns]
        shared = np.flatnonzero(summary.observed[rows].all(0))
        if len(shared) == 1:
            continue
        means, weights = summary.mean[rows][:, shared], summary.count[rows]
        between = class_moments(means, summary.classes[rows], num_classes, weights, matrix=True).scatter.sum(0)
        spread = summary.spread[np.isin(summary.spread_groups, rows)][:, shared]
        dependent = shared[_dependent_columns(between + spread.T @ spread)]
        columns = np.intersect1d(dependent, np.flatnonzero(pattern_of_column.ravel() == pattern))
        if len(columns):
            return int(columns[0]), float(weights.sum())
    return None


def _dependent_columns(scatter: Float[Array, "D D"]) -> list[int]:
    """The columns that are linear combinations of the others and a constant: without one, the rank is the same."""
    correlations = correlations_of(scatter)
    rank = np.linalg.matrix_rank(correlations, hermitian=True)
    if rank == len(scatter):
        return []
    reduced = (np.delete(np.delete(correlations, i, axis=0), i, axis=1) for i in range(len(scatter)))
    return [i for i, matrix in enumerate(reduced) if np.linalg.matrix_rank(matrix, hermitian=True) == rank]


def check_noise(
    values: Float[np.ndarray, "*K D"], count: Float[np.ndarray, "*K"], num_factors: int, names: Names
) -> None:
    """Refuse rows that factors describe without noise."""
    dimension = values.shape[-1]
    rank = (values > dimension * np.finfo(float).eps * np.maximum(values[..., :1], 0.0)).sum(-1)
    if (rank <= num_factors).any():
        index = tuple(int(i) for i in np.argwhere(rank <= num_factors)[0])
        raise FitError(
            f"Block {names.block!r}: {names.class_name(index)} has {float(count[index]):g} rows, whose covariance has "
            f"rank {int(rank[index])}, so {num_factors} factors describe them without noise, and the likelihood is "
            "unbounded. Use MAP(), fewer factors, or more rows."
        )


class JointNormalFamily(IncompleteFamily, abc.ABC):
    """Jointly normal columns, of which EM predicts missing cells by regression on the observed ones of the row.

    Source: see `expected_moments`.
    """

    location: Hyperparameter
    scale: Hyperparameter
    pooling: Pooling
    batch_shape: TableShape
    why_no_closed_form = (
        "cells of its jointly normal columns are missing. Use NUTS() or MAP(), leave those rows out, or give each "
        "column a variance of its own (covariance='diag', NaiveBayes, NaiveBayesRegression)."
    )

    def _pool(self, matrices: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Sum over classes where they share one covariance, keeping the axis."""
        return matrices.sum(0, keepdims=True) if self.pooling.tied else matrices

    def _covariance(self, matrices: Float[Array, "*K D D"]) -> Float[Array, "..."]:
        return matrices[0] if self.pooling.tied else matrices

    def check_estimable(self, summary: PatternMoments, names: Names = ANONYMOUS) -> None:
        """Each class needs observed cells of each column, not all equal, and rows that observe each pair of columns.

        No column may be a linear combination of others in all rows that have it: its variance given them would be zero.
        """
        weights = np.zeros((self.batch_shape[0], summary.num_groups))
        weights[summary.classes, np.arange(summary.num_groups)] = summary.count
        together = np.einsum("kg,gd,ge->kde", weights, summary.observed, summary.observed, optimize=True)
        counts, scatter = np.diagonal(together, axis1=1, axis2=2), self._pool(np.asarray(summary.by_column().scatter))
        check_cells(self._pool(together), counts, scatter, self.pooling.tied, names)
        for index in range(len(scatter)):
            dependent = _dependent_column(
                summary, np.flatnonzero(self.pooling.tied | (summary.classes == index)), len(counts)
            )
            if dependent is not None:
                who = "all classes together" if self.pooling.tied else names.class_name((index,))
                raise FitError(
                    f"Block {names.block!r}: in the rows of {who} that have {names.column_name(dependent[0])}, a "
                    f"weight of {dependent[1]:g}, it is a linear combination of other columns, so the likelihood is "
                    "unbounded. Use MAP(), or drop the column."
                )

    def initial_summary(self, summary: PatternMoments, rng: np.random.Generator | None = None) -> Summary:
        """Means and variances of the observed cells of each column; the prior's for columns without any in a class."""
        columns = summary.by_column()
        count = np.bincount(summary.classes, summary.count, len(columns.count))
        is_observed = columns.count > 0
        prior_variance = np.diagonal(self.mode()["covariance"], axis1=-2, axis2=-1)
        variance = np.where(is_observed, columns.scatter / np.where(is_observed, columns.count, 1.0), prior_variance)
        scatter = (count[:, None] * variance)[..., None] * np.eye(variance.shape[-1])
        return Moments(count, np.where(is_observed, columns.mean, self.location), scatter, np.zeros(len(count)))

    def e_step(self, summary: PatternMoments, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """Expected moments of complete rows."""
        moments, log_likelihood = expected_moments(summary, **self.likelihood_parameters(parameters))
        return float(log_likelihood.sum()), moments

    def free_parameters(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """Means, and Cholesky factors with the logs of their diagonals, in the units of the prior."""
        units, matrices = self._units, (*self._covariances, *self.batch_shape[-1:] * 2)
        covariance = np.reshape(parameters["covariance"], matrices)
        shifts = (parameters["mean"] - self.location) / units
        return np.concatenate(
            [np.ravel(shifts), vector_of_factors(np.linalg.cholesky(covariance / np.outer(units, units)))]
        )

    def at_free_parameters(self, vector: Float[np.ndarray, " F"]) -> ParameterTables | None:
        units, num_means = self._units, math.prod(self.batch_shape)
        covariance = covariances_at(vector[num_means:], (*self._covariances, *self.batch_shape[-1:] * 2))
        if covariance is None:
            return None
        mean = self.location + vector[:num_means].reshape(self.batch_shape) * units
        return {"mean": mean, "covariance": self._covariance(covariance * np.outer(units, units))}

    @property
    def _covariances(self) -> tuple[int, ...]:
        """The shape of the table of covariances, with length 1 where classes share one."""
        return (1,) if self.pooling.tied else self.batch_shape[:-1]

    @property
    def _units(self) -> Float[np.ndarray, " D"]:
        return np.sqrt(np.diagonal(self.scale, axis1=-2, axis2=-1).mean(0))
