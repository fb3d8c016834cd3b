"""Events of which a part may be missing: sequences, whose lengths vary, and densities of the observed cells of any."""

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import lax
from numpyro.distributions import constraints

from bayesgen.data import PADDING
from bayesgen.errors import ModelError
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import LOG_2PI
from .conditioning import observed_distances

UNKNOWN_STEPS = 2  # in the event shape where the length is not known
Length: TypeAlias = int | Real[Array, "..."] | None


class SequenceDistribution(dist.Distribution):
    """A distribution over sequences, x = (x_1, ..., x_T), as rows of one array that is padded at its end. Abstract.

    The length is given, unless the distribution itself models the end of a sequence. `length` is that of samples, and
    the largest of values; `log_prob` conditions on the length of each value, the number of time steps before its
    padding, and takes arrays of any T. Numbers are padded by NaN, like missing time steps: both have factor 1. Data
    that bayesgen passes to programs may have any length. Values from NumPyro's own handlers, as `condition` for `MCMC`,
    must be padded to `length`, or `max_length`, because NumPyro compares their shape with that of the site.

    A subclass adds `sample` and `log_prob`.

    Args:
        batch_shape: that of the parameters; lengths broadcast against it.
        length: number of time steps, or an array of them; None where it is not known, or part of the distribution.
        max_length: number of time steps T of the array; by default the longest length. Samples need it where lengths
            are traced.
        step_shape: the shape of a time step: () for symbols and single numbers.
        of_symbols: whether time steps are codes of symbols, padded by PADDING, or numbers, padded by NaN.
        symbols: the distinct symbols of the codes 0, 1, ..., or None. Data may then hold them.

    Raises:
        ModelError: lengths that are not whole numbers from 0, or above `max_length`; repeated symbols.
    """

    pytree_data_fields: tuple[str, ...] = ("lengths",)
    pytree_aux_fields: tuple[str, ...] = ("num_steps", "of_symbols", "symbols")

    lengths: Int[Array, "..."] | None
    num_steps: int | None
    of_symbols: bool
    symbols: tuple[Hashable, ...] | None

    def __init__(
        self,
        batch_shape: tuple[int, ...],
        length: Length,
        *,
        max_length: int | None = None,
        step_shape: tuple[int, ...] = (),
        of_symbols: bool = True,
        symbols: Sequence[Hashable] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.lengths, self.num_steps = _lengths(type(self).__name__, length, max_length)
        self.of_symbols, self.symbols = of_symbols, None if symbols is None else tuple(symbols)
        check_symbols(type(self).__name__, self.symbols)
        batch_shape = lax.broadcast_shapes(batch_shape, () if self.lengths is None else self.lengths.shape)
        event_shape = (UNKNOWN_STEPS if self.num_steps is None else self.num_steps, *step_shape)
        super().__init__(batch_shape=batch_shape, event_shape=event_shape, validate_args=validate_args)

    @property
    def padding(self) -> int | float:
        """The value past the end of a sequence."""
        return PADDING if self.of_symbols else np.nan

    @property
    def steps_to_sample(self) -> int:
        """T, the number of time steps of samples.

        Raises:
            ModelError: it is not known.
        """
        if self.num_steps is None:
            raise ModelError(
                f"{type(self).__name__}: how long samples may be is not known. Give length, or max_length where "
                "lengths are computed while a program is traced."
            )
        return self.num_steps

    @property
    def most_steps(self) -> int | None:
        """The largest number of time steps of sequences of data; None where it is unknown or unlimited."""
        return self.num_steps

    @property
    def step_support(self) -> constraints.Constraint:
        """The support of a time step, where these are numbers."""
        raise NotImplementedError(f"{type(self).__name__} does not tell of its steps.")

    @property
    def whole_step_axes(self) -> int:
        """How many last axes of a time step are an event of which no part may be missing."""
        return len(self.event_shape) - 1

    def log_prob_of_cells(self, value: Shaped[Array, "..."], observed: Bool[Array, "..."]) -> Float[Array, "..."]:
        """Log density of the observed time steps.

        Args:
            value: sequences; symbols are padded, and numbers end at the last observed time step.
            observed: mask of the observed time steps, of the shape of `value`; of symbols True past the end.
        """
        raise NotImplementedError(f"{type(self).__name__} has no density of sequences of which steps are missing.")

    def cut(self, steps: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        """Time steps of this batch with padding past the lengths, where these are given."""
        if self.lengths is None:
            return steps
        inside = jnp.arange(self.steps_to_sample) < jnp.asarray(self.lengths)[..., None]
        step_axes = tuple(range(-len(self.event_shape) + 1, 0))
        return jnp.where(jnp.expand_dims(inside, step_axes), steps, self.padding)


class _Sequences(constraints.Constraint):
    """Codes 0..r-1 and then padding; where there is an end, only padding follows it."""

    is_discrete = True
    event_dim = 1

    def __init__(self, num_symbols: int, end: int | None = None) -> None:
        self.num_symbols, self.end = num_symbols, end

    def __call__(self, x: Real[Array, "*batch T"]) -> Bool[Array, "*batch"]:
        xp: Any = jnp if isinstance(x, jax.core.Tracer) else np  # of numbers that are known, nothing is compiled
        x = xp.asarray(x)
        is_padding = x == PADDING
        is_symbol = (x >= 0) & (x < self.num_symbols) & (x == xp.floor(x))
        is_over = is_padding if self.end is None else is_padding | (x == self.end)
        follows = is_over[..., :-1] <= is_padding[..., 1:]  # once it is over, it stays so
        return (is_padding | is_symbol).all(-1) & follows.all(-1)

    def __repr__(self) -> str:
        return f"sequences(num_symbols={self.num_symbols}, end={self.end})"

    def feasible_like(self, prototype: Shaped[Array, "*batch T"]) -> Int[Array, "*batch T"]:
        return jnp.full(jnp.shape(prototype), PADDING)

    def tree_flatten(self) -> tuple[tuple[()], tuple[tuple[()], dict[str, int | None]]]:
        return (), ((), {"num_symbols": self.num_symbols, "end": self.end})

    def eq(self, other: object, static: bool = False) -> bool:
        return isinstance(other, _Sequences) and (self.num_symbols, self.end) == (other.num_symbols, other.end)


def sequences(num_symbols: int, end: int | None = None) -> constraints.Constraint:
    """The support of padded sequences of codes 0..num_symbols-1, in which only padding follows `end`.

    >>> sequences(3)(np.array([[0, 2, -1, -1], [0, -1, 2, -1]])).tolist()
    [True, False]
    >>> sequences(3, end=2)(np.array([[0, 2, -1], [2, 0, -1], [0, 1, -1]])).tolist()
    [True, False, True]
    """
    return _Sequences(num_symbols, end)


def check_symbols(name: str, symbols: tuple[Hashable, ...] | None) -> None:
    """Refuse an alphabet that is empty, or has repeated or unhashable symbols. None passes."""
    if symbols is None:
        return
    if not symbols:
        raise ModelError(f"{name}: there are no symbols. Give one at least, such as symbols='abc'.")
    try:
        distinct = set(symbols)
    except TypeError:
        raise ModelError(f"{name}: symbols have to be hashable, as numbers and texts are, got {symbols!r}.") from None
    if len(distinct) < len(symbols):
        raise ModelError(f"{name}: every symbol has to be another one, got {symbols!r}.")


def is_inside(codes: Real[Array, "*batch T"]) -> Bool[Array, "*batch T"]:
    """Mask of the time steps before the first padding."""
    xp: Any = jnp if isinstance(codes, jax.Array) else np
    return xp.cumsum(codes == PADDING, -1) == 0


def is_missing(codes: Real[Array, "*batch T"], observed: Bool[Array, "*batch T"]) -> Bool[Array, "*batch"]:
    """Mask of the sequences that are missing altogether; the padding of empty ones is observed.

    >>> is_missing(np.array([[-1, -1], [-1, -1], [0, 0]]), np.array([[False, False], [True, True], [False, False]]))
    array([ True, False, False])
    """
    return ((codes == PADDING) & ~observed)[..., :1].any(-1)


def _lengths(name: str, length: Length, max_length: int | None) -> tuple[Int[Array, "..."] | None, int | None]:
    """Lengths, or None where all are the number of time steps T of the array; and T, or None where it is not known."""
    if length is None:
        return None, max_length
    if isinstance(length, jax.core.Tracer):
        return jnp.asarray(length).astype(int), max_length
    numbers = np.asarray(length)
    is_whole = numbers.dtype.kind in "iuf" and bool((np.isfinite(numbers) & (numbers >= 0)).all())
    if not is_whole or (numbers != np.floor(numbers)).any():
        raise ModelError(f"{name}: lengths must be whole numbers from 0 on, got {length!r}.")
    longest = int(numbers.max(initial=0))
    if max_length is not None and longest > max_length:
        raise ModelError(f"{name}: a length of {longest} is more than max_length={max_length}.")
    num_steps = longest if max_length is None else max_length
    if numbers.ndim == 0 and longest == num_steps:
        return None, num_steps
    return numbers.astype(np.int64), num_steps


# --- observed cells of events ---

JOINTLY_NORMAL = dist.MultivariateNormal | dist.LowRankMultivariateNormal


SMALLEST = float(np.finfo(np.float32).tiny)  # of rates, in either precision


def innermost(distribution: dist.Distribution) -> dist.Distribution:
    """The distribution inside `to_event`, `expand` and `mask`."""
    while isinstance(distribution, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return distribution


def event_axes(distribution: dist.Distribution) -> int:
    """How many last axes of a value are an event without marginal densities of its parts.

    0 for numbers, for jointly normal vectors, and for sequences of numbers, of which any time step may be missing.
    """
    leaf = innermost(distribution)
    if isinstance(leaf, SequenceDistribution):
        return leaf.whole_step_axes
    return 0 if isinstance(leaf, JOINTLY_NORMAL) else len(leaf.event_shape)


def log_prob_of_cells(
    distribution: dist.Distribution, value: Shaped[Array, "..."], observed: Bool[Array, "..."]
) -> Float[Array, "..."]:
    """Log density of the observed cells, elementwise over batch axes.

    Args:
        distribution: of the values.
        value: with possible values in missing cells.
        observed: mask of the observed cells, of the shape of the value.
    """
    if isinstance(distribution, dist.Independent):
        cell_log_probs = log_prob_of_cells(distribution.base_dist, value, observed)
        return cell_log_probs.sum(tuple(range(-distribution.reinterpreted_batch_ndims, 0)))
    if isinstance(distribution, dist.ExpandedDistribution):
        return log_prob_of_cells(distribution.base_dist, value, observed)
    if isinstance(distribution, dist.MaskedDistribution):
        return jnp.where(distribution._mask, log_prob_of_cells(distribution.base_dist, value, observed), 0.0)
    if isinstance(distribution, SequenceDistribution):
        return distribution.log_prob_of_cells(value, observed)
    if isinstance(distribution, JOINTLY_NORMAL):
        squares, half_log_det = observed_distances(distribution.loc, distribution.scale_tril, value, observed)
        return -0.5 * (squares + LOG_2PI * observed.sum(-1)) - half_log_det
    events = tuple(range(-len(distribution.event_shape), 0))
    return jnp.where(observed.all(events), log_prob_of_values(distribution, value), 0.0)


def log_prob_of_values(distribution: dist.Distribution, value: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Log density, elementwise over batch axes.

    Its gradient is finite at a Poisson count of 0 with the rate 0, where that of NumPyro's `log_prob` is NaN.
    """
    log_probs = distribution.log_prob(value)
    if not isinstance(innermost(distribution), dist.Poisson):
        return log_probs
    positive = jax.tree.map(lambda leaf: jnp.where(leaf == 0, SMALLEST, leaf) if _is_real(leaf) else leaf, distribution)
    is_impossible = jnp.isneginf(lax.stop_gradient(log_probs))
    return jnp.where(is_impossible, -jnp.inf, positive.log_prob(value))


def _is_real(leaf: object) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
