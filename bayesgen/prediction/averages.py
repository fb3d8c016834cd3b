"""Averages over draws of p(x, y | Q), computed batch by batch, and their Monte Carlo errors.

A batch of draws comes as two arrays, because single precision holds deviations but not their sums::

    log p(x_i, y = k | Q_s) = reference[k, i] + deviation[k, s, i]

The exponential of each deviation is the cost of an average, so it is taken once. Entropies use it again: with
u = exp(deviation - peak) and p = u w, sum p log p = sum p (log u + log w). They are differences of nearly equal numbers
and need double precision. Errors come from the means of about 100 batches (`bayesgen.runtime.in_batches`), by
`ratio_of_batches`, in one pass and without a table of all draws.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from bayesgen.describe import quote_some
from bayesgen.errors import ConvergenceWarning, warn
from bayesgen.program import Reduction, finite_reference, ratio_of_batches
from bayesgen.runtime import LATENT_CELLS, LOG_OF_ZERO, PRACTICALLY_EQUAL, VANISHING
from bayesgen.typing import Array, Bool, Float, Int

from .answers import normalize

if TYPE_CHECKING:
    import pandas as pd

MAX_K = 0.7  # above it, the error of an average falls too slowly with more draws
UNEVEN_SHARE = 0.25  # share of effective draws, below which weights are examined
SMALL_SHARE = 1e-4  # classes less probable than this do not matter to the answer
MIN_TAIL = 5  # weights in a tail that is fitted


def pareto_k(log_joint: Float[np.ndarray, "draws n K"]) -> Float[np.ndarray, " n"]:
    """Tail index of the weights of draws in each row's average.

    The one-step answer for a row is an average over draws of p(x, y = k | Q), class by class. Few draws dominate it
    where processes that make x probable are rare in the posterior. A generalised Pareto distribution is fitted to the
    tail of the weights, about the largest fifth; moments of order below 1 / k are finite. Where k is above 0.7, neither
    the average nor its standard error is reliable.

    Args:
        log_joint: log p(x_i, y = k | Q_s).

    Returns:
        The largest k over the classes of notable probability; 0 where the weights are so even (an effective sample
        size above a half of the draws) that no tail was fitted; infinity where too few draws have weight to fit one.

    Source: Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, section 3.
    """
    num_draws = len(log_joint)
    largest = log_joint.max(axis=0)
    shifted = log_joint - np.where(np.isfinite(largest), largest, 0.0)
    weights = np.exp(shifted)
    total = weights.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = total**2 / (weights**2).sum(axis=0)
        level = np.log(total) + largest
        share = np.exp(level - level.max(axis=1, keepdims=True))  # NaN for an impossible row
    k = np.zeros(share.shape)
    for place in np.argwhere((share >= SMALL_SHARE) & (size < num_draws / 2)):
        k[tuple(place)] = _tail_index(weights[:, *place])
    return k.max(axis=1)


def are_robust(log_joint: Float[np.ndarray, "draws n K"]) -> Bool[np.ndarray, " n"]:
    """Whether each row's probabilities are practically the same for every weight of its heaviest draws.

    Where Pareto's k is large, the total weight of the heaviest draws of a class, those in the tail of its weights
    p(x, y = k | Q), is uncertain. A row is robust if in both extremes, by these draws alone and by all others alone,
    every class has a probability within 0.01 of the answer, for the heaviest draws of each class of notable
    probability.

    Args:
        log_joint: log p(x_i, y = k | Q_s).
    """
    answer = _shares(log_joint)
    size = max(1, _tail_size(len(log_joint)))
    cutoff = np.partition(log_joint, -size, axis=0)[-size]
    is_robust = np.full(len(answer), True)
    for k in range(answer.shape[1]):
        is_heavy = log_joint[:, :, k] >= cutoff[:, k]
        extremes = [_shares(np.where(part[..., None], log_joint, -np.inf)) for part in (is_heavy, ~is_heavy)]
        is_equal = np.abs(np.stack(extremes) - answer).max(axis=(0, 2)) <= PRACTICALLY_EQUAL
        is_robust &= is_equal | (answer[:, k] < SMALL_SHARE)
    return is_robust


def _shares(log_joint: Float[np.ndarray, "draws n K"]) -> Float[np.ndarray, "n K"]:
    """Class probabilities averaged over draws; NaN where every class is impossible under all draws."""
    largest = log_joint.max(axis=0)
    peak = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        return np.exp(normalize(np.log(np.exp(log_joint - peak).sum(axis=0)) + peak)[0])


def _tail_size(num_draws: int) -> int:
    """The number of largest weights in the tail."""
    return int(3 * num_draws**0.5 if num_draws > 225 else num_draws / 5)


def _tail_index(weights: Float[np.ndarray, " draws"]) -> float:
    """Tail index of the weights of draws, of which the largest is 1."""
    cutoff, *tail = np.sort(weights)[-_tail_size(len(weights)) - 1 :]
    exceedances = np.asarray(tail) - cutoff
    exceedances = exceedances[exceedances > VANISHING]
    if cutoff == 1.0:
        return 0.0  # the largest weights are equal
    return _generalized_pareto_shape(exceedances) if len(exceedances) >= MIN_TAIL else np.inf


def _generalized_pareto_shape(exceedances: Float[np.ndarray, " tail"]) -> float:
    """Shape k of the generalised Pareto distribution of ascending exceedances: an average over a grid of scales.

    Source: Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto distribution;
    shrunk towards 0.5 with the weight of ten observations as in Vehtari et al. (2024), appendix G.
    """
    number = len(exceedances)
    grid_size = 30 + int(number**0.5)
    quantiles = (np.arange(grid_size) + 0.5) / grid_size
    grid = 1 / exceedances[-1] + (1 - quantiles**-0.5) / (3 * exceedances[int(number / 4 + 0.5) - 1])
    shapes = np.log1p(-grid[:, None] * exceedances).mean(axis=1)
    with np.errstate(invalid="ignore"):
        log_likelihood = number * (np.log(-grid / shapes) - shapes - 1)  # NaN at a scale that is infinite
    posterior = scipy.special.softmax(np.nan_to_num(log_likelihood, nan=-np.inf))
    shape = np.log1p(-(posterior @ grid) * exceedances).mean()
    return float((number * shape + 10 * 0.5) / (number + 10))


def average_of_draws(
    values: Float[np.ndarray, "draws n"], log_weights: Float[np.ndarray, "draws n"], num_batches: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Monte Carlo standard error of the weighted mean of values, and Pareto's k of the weights.

    Args:
        values: of each draw, batches of successive draws of one chain one after another.
        log_weights: logs of the weights of each row, which sum to 1.
        num_batches: number of batches.
    """
    weights = np.exp(log_weights)
    by_batch = (num_batches, len(values) // num_batches, values.shape[1])
    terms = weights * (values - (weights * values).sum(0))  # centred, so that no digits are lost
    parts, totals = (array.reshape(by_batch).mean(1) for array in (terms, weights))
    with np.errstate(invalid="ignore", divide="ignore"):
        (_, error), effective = ratio_of_batches(parts, totals), 1 / (weights**2).sum(0)
    level = np.zeros((values.shape[1], 1))
    k, _ = tail_indices(lambda rows: log_weights[:, rows, None], level, effective[:, None], len(values))
    return np.asarray(error), k


def tail_indices(
    table_of_draws: Callable[[Int[np.ndarray, " m"]], Float[np.ndarray, "draws m K"]],
    mean: Float[np.ndarray, "n K"],
    effective: Float[np.ndarray, "n K"],
    num_draws: int,
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Pareto's k of the rows of a prediction from draws, and whether they are robust, for rows of uneven weights.

    Args:
        table_of_draws: function of the positions of a few rows that gives their table of every draw.
        mean: log of the mean over draws of p(x_i, y = k | Q).
        effective: effective number of draws in this mean.
        num_draws: number of draws.

    Returns:
        k: 0 for rows of even weights; infinity where fewer than five draws are effective; NaN for rows of uneven
        weights beyond the most uneven ones, which are examined. And whether k is at most 0.7, or the row is robust
        nevertheless (see `are_robust`).
    """
    size = least_effective(mean, effective, num_draws)
    k = np.where(size < UNEVEN_SHARE * num_draws, np.nan, 0.0)
    k[size < MIN_TAIL] = np.inf
    uneven = np.flatnonzero(np.isnan(k))
    most = max(1, min(LATENT_CELLS // num_draws, 2000) // mean.shape[1])  # tails are fitted one by one
    examined = uneven[np.argsort(size[uneven])[:most]]
    is_robust = k <= MAX_K
    if len(examined):
        table = table_of_draws(examined)
        k[examined] = pareto_k(table)
        is_heavy = ~(k[examined] <= MAX_K)
        is_robust[examined] = ~is_heavy
        is_robust[examined[is_heavy]] = are_robust(table[:, is_heavy])
    return k, is_robust


def least_effective(
    mean: Float[np.ndarray, "n K"], effective: Float[np.ndarray, "n K"], num_draws: int
) -> Float[np.ndarray, " n"]:
    """The least effective number of draws among the classes of notable probability. See `tail_indices`."""
    with np.errstate(invalid="ignore"):
        matters = mean - mean.max(axis=1, keepdims=True) >= np.log(SMALL_SHARE)
    return np.where(matters, effective, num_draws).min(axis=1, initial=num_draws)


def warn_of_few_draws(
    k: Float[np.ndarray, " n"],
    is_robust: Bool[np.ndarray, " n"] | None = None,
    index: "pd.Index | None" = None,
    by: str = "",
) -> None:
    """Warn once of rows whose averages few draws dominate, and say whether their answers are robust.

    Args:
        k: Pareto's k of each row.
        is_robust: whether its answer is the same in both extremes, see `are_robust`; None where that is unknown.
        index: names of the rows; None for their positions.
        by: whose averages they are, in front of the message.
    """
    decided, unknown = k > MAX_K, int(np.isnan(k).sum())
    if not decided.any():
        return
    distrusted = decided if is_robust is None else decided & ~is_robust
    num_robust = int(decided.sum() - distrusted.sum())
    subject = f"few draws decide the average over all (Pareto k above {MAX_K})"
    if distrusted.any():
        text = f"{_rows(distrusted, index)} {subject}: probabilities and standard errors there cannot be trusted."
        text += f" In {num_robust} more it makes no difference to the class probabilities." if num_robust else ""
    else:
        text = (
            f"{_rows(decided, index)} {subject}, but class probabilities are within {PRACTICALLY_EQUAL} whether these "
            "draws count or not: labels hold, log_marginal and standard errors may not."
        )
    text += f" {unknown} more have uneven weights and were not looked at." if unknown else ""
    warn(f"{by}{text} Use Exact() where the model has a closed form, or more draws.", ConvergenceWarning)


def _rows(chosen: Bool[np.ndarray, " n"], index: "pd.Index | None") -> str:
    """The number of rows, and the first of them."""
    positions = np.flatnonzero(chosen)
    names = positions if index is None else index[positions]
    return f"In {len(positions)} of {len(chosen)} rows ({quote_some(names.tolist())})"


Averages = dict[str, Any]  # name -> array: of one batch, (K, n) or (n,); of all batches, with the batches first


def _joint(reference: Float[Array, "K n"], deviations: Float[Array, "K draws n"]) -> Averages:
    """Log of the largest joint, and means of the joints and of their squares relative to it, (K, n)."""
    peak = deviations.max(1)
    joint = _computed_once(jnp.exp(deviations - finite_reference(peak)[:, None]))
    return _means(joint, reference + peak)


def _joint_and_entropy(reference: Float[Array, "K n"], deviations: Float[Array, "K draws n"]) -> Averages:
    """`_joint`, the mean of p(x | Q) times the entropy of p(y | x, Q), (n,), and the log of its scale."""
    peak = deviations.max(1)
    logs = jnp.maximum(deviations - finite_reference(peak)[:, None], LOG_OF_ZERO)
    joint = _computed_once(jnp.exp(logs))  # p(x, y | Q) over the largest of its class
    top = reference + peak  # -inf where no draw makes the class possible
    largest = top.max(0)
    weight = jnp.exp(top - finite_reference(largest))
    marginal = _computed_once(_over_classes(joint, weight) + VANISHING)
    entropy = (marginal * jnp.log(marginal)).sum(0)
    entropy = entropy - (
        weight * ((joint * logs).sum(1) + joint.sum(1) * finite_reference(top - finite_reference(largest)))
    ).sum(0)
    return _means(joint, top) | {"entropy": entropy / deviations.shape[1], "largest": largest}


def _conditional(reference: Float[Array, "K n"], deviations: Float[Array, "K draws n"]) -> Averages:
    """Means over draws of p(y | x, Q), (K, n), of its entropy, and the log of the mean of p(x | Q)."""
    tables = reference[:, None] + deviations
    top = finite_reference(tables.max(0))  # of each draw, as draws have equal weights
    logs = jnp.maximum(tables - top, LOG_OF_ZERO)
    joint = _computed_once(jnp.exp(logs))
    marginal = _computed_once(joint.sum(0))
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
    """Weighted sums over the first axis, written out because a reduction within others is not vectorised."""
    return sum(class_joint * factor for class_joint, factor in zip(joint, weight, strict=True))


def _computed_once(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """The array behind a barrier: the compiler would else compute it again for each of several sums."""
    return jax.lax.optimization_barrier(array)


def _merged_joints(batches: Averages) -> Averages:
    """Log of the mean joint (n, K), standard error of its share (n, K), effective share of the draws (n, K).

    With entropies, also the results of `_information`. Logs are added last: those of rows far away are so large that
    the log of a mean would be lost to rounding.
    """
    highest = batches["top"].max(0)
    weight = jnp.exp(batches["top"] - finite_reference(highest))
    means = weight * batches["mean"]
    mean = means.mean(0)
    log_joint = jnp.log(mean) + highest
    largest = finite_reference(log_joint.max(0))
    relative = means * jnp.exp(highest - largest)
    averages = {
        "log_joint": log_joint.T,
        "error": ratio_of_batches(relative, relative.sum(1, keepdims=True))[1].T,
        "effective": (mean**2 / (weight**2 * batches["square"]).mean(0)).T,
    }
    if "entropy" in batches:
        averages |= _information(relative, relative.sum(1), batches["entropy"] * jnp.exp(batches["largest"] - largest))
    return averages


def _merged_conditionals(batches: Averages) -> Averages:
    """Mean probabilities (n, K), their standard errors, the results of `_information`, and the log of mean p(x | Q)."""
    ones = jnp.ones_like(batches["entropy"])
    probabilities, error = ratio_of_batches(batches["probabilities"], ones[:, None])
    return {
        "probabilities": probabilities.T,
        "error": error.T,
        "log_marginal": jax.nn.logsumexp(batches["log_marginal"], axis=0) - jnp.log(len(ones)),
    } | _information(batches["probabilities"], ones, batches["entropy"])


def _information(
    joint: Float[Array, "batches K n"], marginal: Float[Array, "batches n"], entropy: Float[Array, "batches n"]
) -> Averages:
    """Share of the entropy that is expected entropy (n,), and the standard error of the mutual information (n,).

    The mutual information is the mean of the divergences KL(p(y | x, Q) || p(y | x)), whose variance gives its error.
    Both entropies are of the same draws, so that their noise, much larger than their difference, cancels.

    Args:
        joint: batch means of the joint.
        marginal: those of its sum over classes.
        entropy: those of the marginal times the entropy of p(y | x, Q).
    """
    probabilities, _ = ratio_of_batches(joint, marginal[:, None])
    logs = jnp.log(jnp.where(probabilities > 0, probabilities, 1.0))
    entropy_of_mean, (expected, _) = -(probabilities * logs).sum(0), ratio_of_batches(entropy, marginal)
    return {
        "expected_share": jnp.where(entropy_of_mean > 0, jnp.clip(expected / entropy_of_mean, 0.0, 1.0), 1.0),
        "information_error": ratio_of_batches(-(joint * logs).sum(1) - entropy, marginal)[1],
    }


JOINT = Reduction(_joint, _merged_joints, "float32")
JOINT_AND_ENTROPY = Reduction(_joint_and_entropy, _merged_joints, "float64")
CONDITIONAL = Reduction(_conditional, _merged_conditionals, "float64")
