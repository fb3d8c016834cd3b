"""How probable numbers of factors are, from eigenvalues alone."""

import math

import numpy as np
from scipy.special import gammaln

from bayesgen.typing import Float

from .special import LOG_PI


def log_evidences_of_factors(values: Float[np.ndarray, " D"], count: float) -> Float[np.ndarray, " numbers"]:
    """Approximate log evidences of 1, ..., D - 1 factors, by Laplace's method, up to what all of them share.

    Factors have a uniform prior on their axes, and a prior on lengths and noise that is worth little. What depends on
    the numbers of rows and columns alone is left out, so only differences among numbers of factors of the same rows
    mean something. -inf where no noise is left, or a factor without length.

    Args:
        values: eigenvalues of the covariance of the rows (denominator N - 1), the largest first.
        count: N, the weight of the rows.

    Source: Minka (2000), Automatic choice of dimensionality for PCA: the integral over axes, lengths and noise of
    probabilistic principal component analysis by Laplace's method, in the form that scikit-learn has it.
    """
    numbers = range(1, len(values))
    return np.array([_log_evidence(values, count, number) for number in numbers], np.float64)


def _log_evidence(values: Float[np.ndarray, " D"], count: float, number: int) -> float:
    dimension, noise = len(values), float(values[number:].mean())
    least = dimension * np.finfo(float).eps * values[0]
    if not (noise > least and values[number - 1] > least):
        return -math.inf
    free = dimension - np.arange(number)
    of_axes = -number * math.log(2) + float((gammaln(0.5 * free) - 0.5 * free * LOG_PI).sum())
    of_lengths = -0.5 * count * float(np.log(values[:number]).sum())
    of_noise = -0.5 * count * (dimension - number) * math.log(noise)
    num_angles = dimension * number - number * (number + 1) / 2
    of_angles = 0.5 * (num_angles + number) * math.log(2 * math.pi) - 0.5 * number * math.log(count)
    smoothed = np.concatenate([values[:number], np.full(dimension - number, noise)])
    first, second = np.triu_indices(number, 1, dimension)
    gaps = values[first] - values[second]
    if (gaps <= 0).any():  # axes of equal lengths are not told apart: the curvature is none
        return -math.inf
    curvature = np.log(gaps * (1 / smoothed[second] - 1 / smoothed[first])).sum() + len(first) * math.log(count)
    return of_axes + of_lengths + of_noise + of_angles - 0.5 * float(curvature)
