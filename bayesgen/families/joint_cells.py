"""Jointly normal rows of which cells are missing: EM, whose expectations are regressions of these on the others."""

import abc
import math
from collections.abc import Mapping

import numpy as np

from bayesgen.statistics import Moments, PatternMoments, Summary, expected_moments
from bayesgen.typing import Array, ArrayOrNumber, Float

from .covariances import check_cells, covariances_at, vector_of_factors
from .hyperparameters import Hyperparameter, TableShape
from .incomplete import Incomplete, Parameters
from .naming import ANONYMOUS, Names
from .pooling import Pooling


class JointCells(Incomplete):
    """What `NormalInverseWishart` knows of rows of which cells are missing. Source: see `expected_moments`."""

    location: Hyperparameter
    scale: Hyperparameter
    pooling: Pooling
    batch_shape: TableShape
    why_open = (
        "cells of its jointly normal columns are missing. Use NUTS() or MAP(), leave those rows out, or give each "
        "column a variance of its own (covariance='diag', NaiveBayes, NaiveBayesRegression)."
    )

    @abc.abstractmethod
    def mode(self, names: Names = ANONYMOUS) -> Parameters:
        """See `Family`."""

    @abc.abstractmethod
    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> Parameters:
        """See `Family`."""

    def _pool(self, matrices: Float[ArrayOrNumber, "..."]) -> Float[ArrayOrNumber, "..."]:
        """Sum over classes where they share one covariance, keeping the axis."""
        return matrices.sum(0, keepdims=True) if self.pooling.tied else matrices

    def _covariance(self, matrices: Float[Array, "*K D D"]) -> Float[Array, "..."]:
        return matrices[0] if self.pooling.tied else matrices

    def has_closed_form(self, summary: Summary) -> bool:
        """Not where cells are missing: the likelihood is then a product over patterns of the cells that are there."""
        return not isinstance(summary, PatternMoments)

    def check_estimable(self, summary: Summary, names: Names = ANONYMOUS) -> None:
        """Every class needs cells of every column, not all equal; every covariance a row that has both its columns."""
        if not isinstance(summary, PatternMoments):
            return
        weights = np.zeros((self.batch_shape[0], summary.num_groups))
        weights[summary.classes, np.arange(summary.num_groups)] = summary.count
        together = np.einsum("kg,gd,ge->kde", weights, summary.observed, summary.observed, optimize=True)
        counts, scatter = np.diagonal(together, axis1=1, axis2=2), self._pool(np.asarray(summary.by_column().scatter))
        check_cells(self._pool(together), counts, scatter, self.pooling.tied, names)

    def available(self, summary: Summary, rng: np.random.Generator | None = None) -> Summary:
        """Means and variances of the cells of each column; of columns without cells in a class, those of the prior."""
        if not isinstance(summary, PatternMoments):
            return summary
        columns = summary.by_column()
        count = np.bincount(summary.classes, summary.count, len(columns.count))
        is_seen = columns.count > 0
        of_prior = np.diagonal(self.mode()["covariance"], axis1=-2, axis2=-1)
        variance = np.where(is_seen, columns.scatter / np.where(is_seen, columns.count, 1.0), of_prior)
        scatter = (count[:, None] * variance)[..., None] * np.eye(variance.shape[-1])
        return Moments(count, np.where(is_seen, columns.mean, self.location), scatter, np.zeros(len(count)))

    def completed(self, summary: Summary, parameters: Mapping[str, Array]) -> Summary:
        """Expected moments of whole rows, those of the cells that are missing by regression on the others."""
        return self.expectation(summary, parameters)[1] if isinstance(summary, PatternMoments) else summary

    def expectation(self, summary: Summary, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """The log-likelihood and `completed`. See `Family.expectation`."""
        if not isinstance(summary, PatternMoments):
            return super().expectation(summary, parameters)
        moments, log_likelihood = expected_moments(summary, **self.likelihood_parameters(parameters))
        return float(log_likelihood.sum()), moments

    def open_vector(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """Means, and factors with logs of their diagonals, in the units of the prior."""
        units, covariance = self._units, np.reshape(parameters["covariance"], self.scale.shape)
        shifts = (parameters["mean"] - self.location) / units
        return np.concatenate(
            [np.ravel(shifts), vector_of_factors(np.linalg.cholesky(covariance / np.outer(units, units)))]
        )

    def at_open_vector(self, vector: Float[np.ndarray, " F"]) -> Parameters | None:
        """The inverse of `open_vector`."""
        units, num_means = self._units, math.prod(self.batch_shape)
        covariance = covariances_at(vector[num_means:], self.scale.shape)
        if covariance is None:
            return None
        mean = self.location + vector[:num_means].reshape(self.batch_shape) * units
        return {"mean": mean, "covariance": self._covariance(covariance * np.outer(units, units))}

    @property
    def _units(self) -> Float[np.ndarray, " D"]:
        return np.sqrt(np.diagonal(self.scale, axis1=-2, axis2=-1).mean(0))
