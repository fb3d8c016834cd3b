"""Kernels that reduce the log-joint tables of a batch of draws, and the Monte Carlo errors of what comes out.

Draws are reduced in batches (about 100), each of successive draws of one chain. The spread of the batch means
measures the Monte Carlo error with the autocorrelation inside batches accounted for: the method of batch means
(Flegal and Jones 2010), which needs one pass and no table of all draws.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr


def joint_kernel(tables):
    """Logs of the mean joint, of its mean square, and of the mean of p(x | Q) times the entropy of p(y | x, Q)."""
    log_size = jnp.log(tables.shape[0])
    log_marginal = jax.nn.logsumexp(tables, axis=2)
    conditional = jnp.exp(tables - log_marginal[..., None])
    entropies = entr(conditional).sum(2)
    return {
        "log_joint": jax.nn.logsumexp(tables, axis=0) - log_size,
        "log_square": jax.nn.logsumexp(2 * tables, axis=0) - log_size,
        "log_entropy": jax.nn.logsumexp(log_marginal, axis=0, b=entropies) - log_size,
    }


def conditional_kernel(tables):
    """Means over draws of p(y | x, Q), of its entropy, and the log of the mean of p(x | Q)."""
    log_marginal = jax.nn.logsumexp(tables, axis=2)
    conditional = jnp.exp(tables - log_marginal[..., None])
    return {
        "probabilities": conditional.mean(0),
        "entropy": entr(conditional).sum(2).mean(0),
        "log_marginal": jax.nn.logsumexp(log_marginal, axis=0) - jnp.log(tables.shape[0]),
    }


def ratio_error(parts, total):
    """Standard error of sum(parts) / sum(total) by the delta method, from batch means.

    Args:
        parts: (batches, n, K) batch means of the numerators.
        total: (batches, n) batch means of the denominator.
    """
    ratio = parts.mean(0) / total.mean(0)[:, None]
    influence = (parts - ratio * total[..., None]) / total.mean(0)[:, None]
    return mean_error(influence)


def mean_error(batch_means):
    """Standard error of the mean of (batches, ...) batch means."""
    return np.std(batch_means, axis=0, ddof=1) / np.sqrt(len(batch_means))
