"""The sampling problem that all samplers share: full GDA with one prior, its draws, and how good they are."""

import dataclasses
import functools

import numpy as np
from arviz_stats.base import array_stats
from sklearn.datasets import load_iris

NUM_DRAWS = 1000  # a chain, of which there are four
NUM_CHAINS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Labelled rows, and the default prior of `GaussianDiscriminant` on them.

    Generative story: class_probs ~ Dirichlet(1); covariance[k] ~ inverse Wishart(df, scale);
    mean[k] ~ Normal(location, covariance[k] / kappa); y ~ class_probs; x ~ Normal(mean[y], covariance[y]).
    """

    X: np.ndarray
    y: np.ndarray

    kappa = 0.01

    @property
    def num_classes(self):
        return int(self.y.max()) + 1

    @property
    def df(self):
        return float(self.X.shape[1] + 2)

    @functools.cached_property
    def location(self):
        return self.X.mean(0)

    @functools.cached_property
    def scale(self):
        return np.diag(self.X.var(0))

    @functools.cached_property
    def by_class(self):
        """The rows of each class."""
        return [self.X[self.y == k] for k in range(self.num_classes)]

    @functools.cached_property
    def statistics(self):
        """Counts (K,), means (K, D) and scatters (K, D, D): what a careful user would compress the rows to."""
        means = np.stack([rows.mean(0) for rows in self.by_class])
        centred = [rows - mean for rows, mean in zip(self.by_class, means, strict=True)]
        return np.bincount(self.y), means, np.stack([rows.T @ rows for rows in centred])


def iris(num_rows=150) -> Problem:
    """Iris, or as many rows as asked for from the normal distributions of its classes."""
    X, y = load_iris(return_X_y=True)
    if num_rows == len(y):
        return Problem(X, y)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, num_rows)
    means = np.stack([X[y == k].mean(0) for k in range(3)])
    factors = np.stack([np.linalg.cholesky(np.cov(X[y == k].T)) for k in range(3)])
    noise = rng.normal(size=(num_rows, X.shape[1]))
    return Problem(means[labels] + np.einsum("nij,nj->ni", factors[labels], noise), labels)


@dataclasses.dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the latents, each (chain, draw, ...); of the covariances, the Cholesky factor."""

    class_probs: np.ndarray
    mean: np.ndarray
    scale_tril: np.ndarray

    @functools.cached_property
    def flat(self):
        """(chain, draw, latent), without the zeros above the diagonals."""
        rows, columns = np.tril_indices(self.mean.shape[-1])
        parts = (self.class_probs, self.mean, self.scale_tril[..., rows, columns])
        return np.concatenate([np.asarray(part, np.float64).reshape(*part.shape[:2], -1) for part in parts], axis=2)

    @functools.cached_property
    def sizes(self):
        """(latent,) bulk effective sample sizes."""
        return array_stats.ess(self.flat, chain_axis=0, draw_axis=1, method="bulk")

    @property
    def smallest_size(self):
        """The smallest of them."""
        return float(self.sizes.min())


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One run of a sampler: its draws, and the seconds that `NUM_DRAWS` draws a chain take."""

    draws: Draws
    seconds: float

    @property
    def rate(self):
        """Smallest bulk effective sample size a second."""
        return self.draws.smallest_size * NUM_DRAWS / self.draws.mean.shape[1] / self.seconds


def largest_difference(one: Draws, other: Draws) -> float:
    """Of the posterior means, in Monte Carlo standard errors of the difference."""
    errors = [draws.flat.var(axis=(0, 1)) / draws.sizes for draws in (one, other)]
    shift = one.flat.mean((0, 1)) - other.flat.mean((0, 1))
    return float(np.abs(shift / np.sqrt(sum(errors))).max())
