"""Kernels that reduce the log-joint tables of a batch of draws, and the Monte Carlo errors of what comes out.

Draws are reduced in batches (about 100), each of successive draws of one chain. The spread of the batch means
measures the Monte Carlo error with the autocorrelation inside batches accounted for: the method of batch means
(Flegal and Jones 2010), which needs one pass and no table of all draws.

Tables are (draws, K, n). The exponential of a cell is what these averages cost, so it is taken once: entropies come
from sum p log p = sum p (log u + log w), where log u is the cell and log w what it is measured against.
"""

import jax
import jax.numpy as jnp
import numpy as np

NOTHING = -746.0  # its exponential is zero, and its product with zero too
TINY = 1e-300  # has a logarithm, and adds nothing


def joint_kernel(tables):
    """Logs of the mean joint, of its mean square, and of the mean of p(x | Q) times the entropy of p(y | x, Q)."""
    peak = tables.max(0)
    top, largest = _finite(peak), _finite(peak.max(0))
    logs = jnp.maximum(tables - top, NOTHING)
    joint = jnp.exp(logs)  # p(x, y | Q) over the largest of its class
    weight = jnp.exp(peak - largest)
    total, marginal = joint.sum(0), (joint * weight).sum(1) + TINY
    entropy = (marginal * jnp.log(marginal)).sum(0)
    entropy = entropy - (weight * ((joint * logs).sum(0) + total * (top - largest))).sum(0)
    log_size = jnp.log(len(tables))
    return {
        "log_joint": (jnp.log(total) + top - log_size).T,
        "log_square": (jnp.log((joint * joint).sum(0)) + 2 * top - log_size).T,
        "log_entropy": jnp.log(jnp.maximum(entropy, 0.0)) + largest - log_size,
    }


def conditional_kernel(tables):
    """Means over draws of p(y | x, Q), of its entropy, and the log of the mean of p(x | Q)."""
    top = _finite(tables.max(1))  # of each draw: here all draws count alike
    logs = jnp.maximum(tables - top[:, None], NOTHING)
    joint = jnp.exp(logs)
    marginal = joint.sum(1)
    conditional = joint / marginal[:, None]
    entropy = jnp.log(marginal) - (conditional * logs).sum(1)
    return {
        "probabilities": conditional.mean(0).T,
        "entropy": entropy.mean(0),
        "log_marginal": jax.nn.logsumexp(jnp.log(marginal) + top, axis=0) - jnp.log(len(tables)),
    }


def _finite(logs):
    """Logs to measure others against: zero in place of -inf."""
    return jnp.where(jnp.isneginf(logs), 0.0, logs)


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
