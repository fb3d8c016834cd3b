"""Special functions of arrays, from SciPy."""

import math

import numpy as np
from scipy.special import betaln, gammaln, multigammaln

LOG_2PI = math.log(2 * math.pi)
LOG_PI = math.log(math.pi)


def log_multigamma(a, dimension):
    """Log of the multivariate gamma function, elementwise in `a`."""
    a = np.asarray(a, np.float64)
    return np.reshape([multigammaln(one, dimension) for one in a.ravel()], a.shape)


def slogdet(matrices):
    """Log-determinants of positive-definite matrices (..., D, D), by Cholesky."""
    return 2 * np.log(np.diagonal(np.linalg.cholesky(matrices), axis1=-2, axis2=-1)).sum(-1)


__all__ = ["LOG_2PI", "LOG_PI", "betaln", "gammaln", "log_multigamma", "slogdet"]
