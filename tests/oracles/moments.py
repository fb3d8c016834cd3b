"""What draws are held against."""

import numpy as np
from arviz_stats.base import array_stats


def assert_mean(draws, expected, name=""):
    """Means of draws (chain, draw, ...) within four Monte Carlo errors."""
    error = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean")
    assert (np.abs(draws.mean((0, 1)) - expected) < 4 * error).all(), (name, draws.mean((0, 1)), expected, error)


def assert_moments(draws, mean, covariance, name=""):
    """Means of draws (chain, draw, D), and of the products of what is left of them."""
    assert_mean(draws, mean, name)
    away = draws - mean
    upper = np.triu_indices(draws.shape[-1])
    products = away[..., :, None] * away[..., None, :]
    assert_mean(products[..., upper[0], upper[1]], covariance[upper], f"covariance of {name}")


def assert_law(draws, law, name=""):
    """Shares of draws (chain, draw) below the deciles of a SciPy distribution."""
    shares = np.arange(1, 10) / 10
    assert_mean((draws[..., None] < law.ppf(shares)).astype(float), shares, f"deciles of {name}")
