"""The prior of a few factors and noise: its moments, draws and density."""

from collections.abc import Mapping

import numpy as np
from scipy.special import gammaln

from bayesgen.runtime import generator
from bayesgen.typing import Array, ArrayOrNumber, Float

from .base import Family, Key
from .hyperparameters import Hyperparameter
from .incomplete import Parameters
from .naming import ANONYMOUS, Names
from .special import LOG_2PI, log_normal


class LowRankPrior(Family):
    """What `LowRankNormal` knows of its parameters before any data: see there for the story of the prior."""

    num_factors: int
    location: Hyperparameter
    kappa: Hyperparameter
    loadings_scale: Hyperparameter
    shape: Hyperparameter
    scale: Hyperparameter

    def _isotropic(self, noise: Float[ArrayOrNumber, "*K"], loadings: Float[ArrayOrNumber, "*K"]) -> Parameters:
        """A process without preferred axes: the variance of loadings counts once for each factor."""
        total = noise + self.num_factors * loadings
        covariance = np.asarray(total)[..., None, None] * np.eye(self.batch_shape[-1])
        return {"mean": self.location, "covariance": covariance, "noise_variance": noise}

    def mean(self) -> Parameters:
        """Prior mean; the factors' mean variance, and the noise's, on the diagonal."""
        family = self.closed("mean")
        return family._isotropic(family._expected_noise(), family.loadings_scale**2)

    def _expected_noise(self) -> Float[np.ndarray, "*K"]:
        excess = np.asarray(self.shape - 1)
        return np.where(excess > 0, self.scale / np.where(excess > 0, excess, 1.0), np.inf)

    def mode(self, names: Names = ANONYMOUS) -> Parameters:
        """Joint mode of mean, loadings (all zero) and noise variance; the mean's scale counts."""
        family = self.closed("mode")
        noise = family.scale / (family.shape + 1 + 0.5 * family.batch_shape[-1])
        return family._isotropic(noise, 0.0 * family.loadings_scale)

    def variance(self) -> Parameters:
        """Variance of the mean, of each entry of the covariance, and of the noise variance."""
        family = self.closed("variance")
        expected, fourth = family.mean(), family.loadings_scale[..., None, None] ** 4
        exists = family.shape > 2
        spare = np.where(exists, family.shape, 3.0)
        noise = np.where(exists, (family.scale / (spare - 1)) ** 2 / (spare - 2), np.inf)
        diagonal = np.eye(family.batch_shape[-1], dtype=bool)
        of_noise = np.where(diagonal, noise[..., None, None], 0.0)
        return {
            "mean": np.diagonal(expected["covariance"], axis1=-2, axis2=-1) / family.kappa[..., None],
            "covariance": family.num_factors * fourth * (1 + diagonal) + of_noise,
            "noise_variance": noise,
        }

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Parameters:
        """Independent draws of the parameters."""
        family, rng = self.closed("sample"), generator(key)
        classes, dimension = family.batch_shape[:-1], family.batch_shape[-1]
        noise = family.scale / rng.standard_gamma(family.shape, (*shape, *classes))
        normal = rng.standard_normal((*shape, *classes, dimension, family.num_factors))
        loadings = family.loadings_scale[..., None, None] * normal
        factors = rng.standard_normal((*shape, *classes, family.num_factors, 1))
        noises = np.sqrt(noise)[..., None] * rng.standard_normal((*shape, *classes, dimension))
        mean = family.location + ((loadings @ factors)[..., 0] + noises) / np.sqrt(family.kappa)[..., None]
        covariance = loadings @ np.swapaxes(loadings, -1, -2) + noise[..., None, None] * np.eye(dimension)
        return {"mean": mean, "covariance": covariance, "noise_variance": noise}

    def _log_prior(self, parameters: Mapping[str, Array]) -> float:
        """Of mean, loadings and noise variance, whose size the trace of the covariance tells."""
        family, covariance, noise = self.closed("log_prior"), parameters["covariance"], parameters["noise_variance"]
        dimension, variance = family.batch_shape[-1], family.loadings_scale**2
        squares = np.trace(covariance, axis1=-2, axis2=-1) - dimension * noise
        of_loadings = -0.5 * (squares / variance + dimension * family.num_factors * (LOG_2PI + np.log(variance)))
        constant = family.shape * np.log(family.scale) - gammaln(family.shape)
        of_noise = constant - (family.shape + 1) * np.log(noise) - family.scale / noise
        of_mean = log_normal(parameters["mean"] - family.location, covariance / family.kappa[..., None, None])
        return float(np.sum(of_loadings + of_noise + of_mean))
