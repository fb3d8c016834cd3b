"""Semirings: how a recursion over paths or parse trees adds weights up, and multiplies them along each.

The same recursion gives the log probability of a string by `LOG`, that of its most probable parse by `MAX`, and by
`BOOLEAN` whether it has any parse.

Source: Goodman (1999), Semiring parsing, Computational Linguistics 25, section 2.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.statistics import namespace
from bayesgen.typing import Array, Float, Real


@dataclass(frozen=True)
class Semiring:
    """Weights, with their sum and product.

    Attributes:
        zero: the weight of what is impossible.
        one: the weight of what is certain.
        plus: (weights, axis) -> their sum over the axis.
        times: the product of two arrays of weights.
    """

    zero: float
    one: float
    plus: Callable[[Array, int], Array]
    times: Callable[[Array, Array], Array]


def log_sum_exp(logs: Float[Array, "..."], axis: int = -1) -> Float[jax.Array, "..."]:
    """Logs of sums of exponentials; -inf, with gradient 0, where all are."""
    peak = jax.lax.stop_gradient(finite_or_zero(logs.max(axis, initial=-jnp.inf)))
    total = jnp.exp(logs - jnp.expand_dims(peak, axis)).sum(axis)
    is_zero = total == 0
    return jnp.where(is_zero, -jnp.inf, jnp.log(jnp.where(is_zero, 1.0, total)) + peak)


def finite_or_zero(logs: Float[Array, "..."]) -> Float[jax.Array, "..."]:
    """Logs with 0 in place of -inf, as references to subtract."""
    return jnp.where(jnp.isneginf(logs), 0.0, logs)


def safe_log(values: Real[Array, "..."]) -> Float[Array, "..."]:
    """Logarithms, -inf of 0, where gradients are 0."""
    xp, is_positive = namespace(values), values > 0
    return xp.where(is_positive, xp.log(xp.where(is_positive, values, 1.0)), -xp.inf)


LOG = Semiring(-np.inf, 0.0, log_sum_exp, operator.add)
MAX = Semiring(-np.inf, 0.0, lambda logs, axis: logs.max(axis, initial=-np.inf), operator.add)
BOOLEAN = Semiring(False, True, lambda conditions, axis: conditions.max(axis, initial=False), operator.and_)
