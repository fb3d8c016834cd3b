"""Averages over draws from tables of log-joints that come in batches of draws, and their Monte Carlo errors.

Batches (about 100, see `bayesgen.runtime.in_batches`) are of successive draws of one chain. The spread of the batch
means measures the Monte Carlo error with the autocorrelation inside batches accounted for: the method of batch means
(Flegal and Jones 2010), which needs one pass and no table of all draws.

Tables are anchors (K, n) and deviations from them (K, draws, n). The exponential of a cell is what these averages cost,
so it is taken once: entropies come from sum p log p = sum p (log u + log w), where log u is the cell and log w what it
is measured against. Weights relative to the largest one have digits enough in single precision, entropies have not:
they are differences.
"""

from typing import Any

import jax
import jax.numpy as jnp

from bayesgen.program import Reduction, finite
from bayesgen.typing import Array, Float

Averages = dict[str, Any]  # name -> array: of one batch, (K, n) or (n,); of all batches, with the batches first

NOTHING = -746.0  # its exponential is zero, and its product with zero too
TINY = 1e-300  # has a logarithm, and adds nothing


def _joint(anchor: Float[Array, "K n"], deviations: Float[Array, "K draws n"]) -> Averages:
    """Log of the largest joint, and means of the joints and of their squares relative to it, (K, n)."""
    peak = deviations.max(1)
    joint = _once(jnp.exp(deviations - finite(peak)[:, None]))
    return _means(joint, anchor + peak)


def _joint_and_entropy(anchor: Float[Array, "K n"], deviations: Float[Array, "K draws n"]) -> Averages:
    """The same, the mean of p(x | Q) times the entropy of p(y | x, Q), (n,), and the log of what it is relative to."""
    peak = deviations.max(1)
    logs = jnp.maximum(deviations - finite(peak)[:, None], NOTHING)
    joint = _once(jnp.exp(logs))  # p(x, y | Q) over the largest of its class
    top = anchor + peak  # -inf where no draw makes the class possible
    largest = top.max(0)
    weight = jnp.exp(top - finite(largest))
    marginal = _once(_over_classes(joint, weight) + TINY)
    entropy = (marginal * jnp.log(marginal)).sum(0)
    entropy = entropy - (weight * ((joint * logs).sum(1) + joint.sum(1) * finite(top - finite(largest)))).sum(0)
    return _means(joint, top) | {"entropy": entropy / deviations.shape[1], "largest": largest}


def _conditional(anchor: Float[Array, "K n"], deviations: Float[Array, "K draws n"]) -> Averages:
    """Means over draws of p(y | x, Q), (K, n), of its entropy, and the log of the mean of p(x | Q)."""
    tables = anchor[:, None] + deviations
    top = finite(tables.max(0))  # of each draw: here all draws count alike
    logs = jnp.maximum(tables - top, NOTHING)
    joint = _once(jnp.exp(logs))
    marginal = _once(joint.sum(0))
    conditional = joint / marginal
    entropy = jnp.log(marginal) - (conditional * logs).sum(0)
    return {
        "probabilities": conditional.mean(1),
        "entropy": entropy.mean(0),
        "log_marginal": jax.nn.logsumexp(jnp.log(marginal) + top, axis=0) - jnp.log(len(marginal)),
    }


def _means(joint: Float[Array, "K draws n"], top: Float[Array, "K n"]) -> Averages:
    return {"top": top, "mean": joint.mean(1), "square": (joint * joint).mean(1)}


def _over_classes(joint: Float[Array, "K draws n"], weight: Float[Array, "K n"]) -> Float[Array, "draws n"]:
    """Weighted sums over the first axis; written out, because a reduction within others is not vectorised."""
    return sum(of_class * factor for of_class, factor in zip(joint, weight, strict=True))


def _once(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """What several sums need: the compiler would find cheaper to compute it again, which exponentials are not."""
    return jax.lax.optimization_barrier(array)


def _of_joints(batches: Averages) -> Averages:
    """Log of the mean joint (n, K), standard error of its share (n, K), effective share of the draws (n, K).

    And what `_information` gives, where there are entropies. Logs are left until the end: of rows far away they are so
    large that a sum with the log of a mean would leave nothing of it.
    """
    highest = batches["top"].max(0)
    weight = jnp.exp(batches["top"] - finite(highest))
    means = weight * batches["mean"]
    mean = means.mean(0)
    log_joint = jnp.log(mean) + highest
    largest = finite(log_joint.max(0))
    relative = means * jnp.exp(highest - largest)
    averages = {
        "log_joint": log_joint.T,
        "error": ratio_error(relative, relative.sum(1)).T,
        "effective": (mean**2 / (weight**2 * batches["square"]).mean(0)).T,
    }
    if "entropy" in batches:
        averages |= _information(relative, relative.sum(1), batches["entropy"] * jnp.exp(batches["largest"] - largest))
    return averages


def _of_conditionals(batches: Averages) -> Averages:
    """Mean probabilities (n, K), their standard errors, what `_information` gives, and the log of mean p(x | Q)."""
    probabilities = batches["probabilities"]
    return {
        "probabilities": probabilities.mean(0).T,
        "error": mean_error(probabilities).T,
        "log_marginal": _mean_of_logs(batches["log_marginal"]),
    } | _information(probabilities, jnp.ones_like(batches["entropy"]), batches["entropy"])


def _information(
    joint: Float[Array, "batches K n"], marginal: Float[Array, "batches n"], entropy: Float[Array, "batches n"]
) -> Averages:
    """Share of the entropy that is expected entropy (n,), and the standard error of the mutual information (n,).

    The mutual information is the mean of the divergences KL(p(y | x, Q) || p(y | x)), whose spread is its error. Both
    entropies are of the same draws, so that their noise cancels: each moves by much more than they differ.

    Args:
        joint: batch means of the joint.
        marginal: those of its sum over classes.
        entropy: those of the marginal times the entropy of p(y | x, Q).
    """
    probabilities = joint.mean(0) / marginal.mean(0)
    logs = jnp.log(jnp.where(probabilities > 0, probabilities, 1.0))
    whole, expected = -(probabilities * logs).sum(0), entropy.mean(0) / marginal.mean(0)
    divergence = -(joint * logs).sum(1) - entropy
    return {
        "expected_share": jnp.where(whole > 0, jnp.clip(expected / whole, 0.0, 1.0), 1.0),
        "information_error": ratio_error(divergence[:, None], marginal)[0],
    }


def ratio_error(parts: Float[Array, "batches K n"], total: Float[Array, "batches n"]) -> Float[Array, "K n"]:
    """Standard error of sum(parts) / sum(total) by the delta method, from batch means.

    Args:
        parts: batch means of the numerators.
        total: batch means of the denominator.
    """
    ratio = parts.mean(0) / total.mean(0)
    return mean_error((parts - ratio * total[:, None]) / total.mean(0))


def mean_error(batch_means: Float[Array, "batches ..."]) -> Float[Array, "..."]:
    """Standard error of the mean of batch means; NaN for a single one."""
    size = len(batch_means)
    return batch_means.std(0, ddof=1) / size**0.5 if size > 1 else jnp.full(batch_means.shape[1:], jnp.nan)


def _mean_of_logs(batches: Float[Array, "batches n"]) -> Float[Array, " n"]:
    """Log of the mean over batches of logs of means."""
    return jax.nn.logsumexp(batches, axis=0) - jnp.log(len(batches))


JOINT = Reduction(_joint, _of_joints, "float32")
JOINT_AND_ENTROPY = Reduction(_joint_and_entropy, _of_joints, "float64")
CONDITIONAL = Reduction(_conditional, _of_conditionals, "float64")
