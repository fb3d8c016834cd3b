"""Rows of a few factors and noise of which cells are missing: what EM asks of their family."""

import math
from collections.abc import Mapping

import numpy as np

from bayesgen.errors import FitError
from bayesgen.statistics import PatternMoments, Summary
from bayesgen.typing import Array, Float

from .covariances import covariances_at, vector_of_factors
from .factors import covariance_of, least_squares, spectrum_of
from .hyperparameters import Hyperparameter
from .incomplete import Parameters
from .joint_cells import JointCells
from .naming import ANONYMOUS, Names


class LowRankCells(JointCells):
    """What `LowRankNormal` knows of rows of which cells are missing, besides what all jointly normal ones do."""

    num_factors: int
    loadings_scale: Hyperparameter

    def check_estimable(self, summary: Summary, names: Names = ANONYMOUS) -> None:
        """Every class needs a cell of every column; how columns vary together the factors tell."""
        if not isinstance(summary, PatternMoments):
            return
        counts = np.zeros(self.batch_shape)
        np.add.at(counts, summary.classes, summary.count[:, None] * summary.observed)
        if (counts == 0).any():
            raise FitError(
                f"Block {names.block!r}: no cell is there at {names.where(counts == 0)}, so maximum likelihood has no "
                "estimate of its mean. Use MAP(), or leave out that class or column."
            )

    def open_vector(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """Means, and Cholesky factors of the covariances with logs of their diagonals, in the units of the prior."""
        unit = self._unit
        factors = np.linalg.cholesky(parameters["covariance"]) / unit
        return np.concatenate([np.ravel((parameters["mean"] - self.location) / unit), vector_of_factors(factors)])

    def at_open_vector(self, vector: Float[np.ndarray, " F"]) -> Parameters | None:
        """The inverse of `open_vector`, covariances being made the nearest ones of the family."""
        unit, num_means = self._unit, math.prod(self.batch_shape)
        covariance = covariances_at(vector[num_means:], (*self.batch_shape, self.batch_shape[-1]))
        if covariance is None:
            return None
        values, vectors = spectrum_of(covariance * unit**2)
        lengths, noise = least_squares(values, self.num_factors)
        return {
            "mean": self.location + vector[:num_means].reshape(self.batch_shape) * unit,
            "covariance": covariance_of(lengths, noise, vectors),
            "noise_variance": noise,
        }

    @property
    def _unit(self) -> float:
        return float(np.mean(self.loadings_scale))
