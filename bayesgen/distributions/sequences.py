"""What distributions of whole sequences share: lengths, what is past the end, and the sequences that they can take."""

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

UNKNOWN_STEPS = 2  # of an event whose length is not known: a sequence with a step that follows another
Length: TypeAlias = int | Int[Array, "..."] | None


class SequenceDistribution(dist.Distribution):
    """A distribution over sequences, x = (x_1, ..., x_T), as rows of one array that is padded at its end. Abstract.

    The length is given, unless the distribution itself says where a sequence ends. `length` says how long samples
    are, and how long values may be; `log_prob` conditions on the length of the value itself, which is the number of
    steps before the first that is padding, and takes arrays of any T. Steps of numbers are padded by NaN; a NaN
    before the end is a step that was not seen, and both are one and the same. Programs that are given data by bayesgen
    take sequences of any length. Values that NumPyro's own handlers put in, as `condition` for `MCMC`, have to be
    padded to `length`, or `max_length`, as NumPyro compares their shape with that of the site.

    A subclass adds `sample` and `log_prob`.

    Args:
        batch_shape: that of the parameters; lengths broadcast against it.
        length: number of steps, or an array of them; None where it is not known, or where sequences end by
            themselves.
        max_length: the number of steps T of the array; by default the longest length. Needed where lengths are
            traced, and no samples are drawn without it.
        step_shape: the shape of a step: () for symbols and single numbers.
        of_symbols: whether steps are codes of symbols, padded by PADDING, or numbers, padded by NaN.
        symbols: the symbols that the codes 0, 1, ... stand for, all different, or None. Data may then hold them.

    Raises:
        ModelError: lengths that are no whole numbers from 0 on, or above `max_length`; symbols that are the same.
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
        """What stands past the end of a sequence."""
        return PADDING if self.of_symbols else np.nan

    @property
    def steps_to_sample(self) -> int:
        """T, the number of steps of samples.

        Raises:
            ModelError: where it is not known.
        """
        if self.num_steps is None:
            raise ModelError(
                f"{type(self).__name__}: how long samples may be is not known. Give length, or max_length where "
                "lengths are computed while a program is traced."
            )
        return self.num_steps

    @property
    def most_steps(self) -> int | None:
        """How many steps the sequences of data may have; None where that is not known, or any number."""
        return self.num_steps

    @property
    def step_support(self) -> constraints.Constraint:
        """What a step may be, where steps are numbers."""
        raise NotImplementedError(f"{type(self).__name__} does not tell of its steps.")

    @property
    def whole_step_axes(self) -> int:
        """How many last axes of a step are one event, of which no part may be missing."""
        return len(self.event_shape) - 1

    def log_prob_of_cells(self, value: Shaped[Array, "..."], observed: Bool[Array, "..."]) -> Float[Array, "..."]:
        """Log density of the observed time steps, whatever stands at the others.

        Args:
            value: sequences; symbols are padded as they are, numbers are over where no more steps are seen.
            observed: mask of the observed time steps, of the shape of `value`; of symbols True past the end.
        """
        raise NotImplementedError(f"{type(self).__name__} has no density of sequences of which steps are missing.")

    def cut(self, steps: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        """The same with padding past the lengths, where they are given: steps (..., T, *step) of this batch."""
        if self.lengths is None:
            return steps
        inside = jnp.arange(self.steps_to_sample) < jnp.asarray(self.lengths)[..., None]
        step_axes = tuple(range(-len(self.event_shape) + 1, 0))
        return jnp.where(jnp.expand_dims(inside, step_axes), steps, self.padding)


class _Sequences(constraints.Constraint):
    """Codes 0..r-1 and then padding; where there is an end, padding and nothing else after it, and there at once."""

    is_discrete = True
    event_dim = 1

    def __init__(self, num_symbols: int, end: int | None = None) -> None:
        self.num_symbols, self.end = num_symbols, end

    def __call__(self, x: Real[Array, "*batch T"]) -> Bool[Array, "*batch"]:
        """Whether each row is such a sequence."""
        xp: Any = jnp if isinstance(x, jax.Array) else np
        is_padding = x == PADDING
        is_symbol = (x >= 0) & (x < self.num_symbols) & (x == xp.floor(x))
        is_over = is_padding if self.end is None else is_padding | (x == self.end)
        follows = is_over[..., :-1] <= is_padding[..., 1:]  # once it is over, it stays so
        return (is_padding | is_symbol).all(-1) & follows.all(-1)

    def __repr__(self) -> str:
        return f"sequences(num_symbols={self.num_symbols}, end={self.end})"

    def feasible_like(self, prototype: Shaped[Array, "*batch T"]) -> Int[Array, "*batch T"]:
        """Empty sequences."""
        return jnp.full(jnp.shape(prototype), PADDING)

    def tree_flatten(self) -> tuple[tuple[()], tuple[tuple[()], dict[str, int | None]]]:
        """No arrays."""
        return (), ((), {"num_symbols": self.num_symbols, "end": self.end})

    def eq(self, other: object, static: bool = False) -> bool:
        """Whether it is the same set of sequences."""
        return isinstance(other, _Sequences) and (self.num_symbols, self.end) == (other.num_symbols, other.end)


def sequences(num_symbols: int, end: int | None = None) -> constraints.Constraint:
    """The padded sequences of codes 0..num_symbols-1, of which `end` is the code that nothing follows.

    >>> sequences(3)(np.array([[0, 2, -1, -1], [0, -1, 2, -1]])).tolist()
    [True, False]
    >>> sequences(3, end=2)(np.array([[0, 2, -1], [2, 0, -1], [0, 1, -1]])).tolist()
    [True, False, True]
    """
    return _Sequences(num_symbols, end)


def is_whole(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_symbols(name: str, symbols: tuple[Hashable, ...] | None) -> None:
    """Refuse an alphabet that is empty, has a symbol twice, or symbols that cannot be looked up. None passes."""
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
    """Which steps come before the first that is padding."""
    xp: Any = jnp if isinstance(codes, jax.Array) else np
    return xp.cumsum(codes == PADDING, -1) == 0


def is_missing(codes: Real[Array, "*batch T"], observed: Bool[Array, "*batch T"]) -> Bool[Array, "*batch"]:
    """Which sequences are missing altogether: an empty one is padding that is there.

    >>> is_missing(np.array([[-1, -1], [-1, -1], [0, 0]]), np.array([[False, False], [True, True], [False, False]]))
    array([ True, False, False])
    """
    return ((codes == PADDING) & ~observed)[..., :1].any(-1)


def _lengths(name: str, length: Length, max_length: int | None) -> tuple[Int[Array, "..."] | None, int | None]:
    """Lengths that differ from the number of steps T of the array, or None; and T, or None where it is not known."""
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
