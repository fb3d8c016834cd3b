"""Contexts of a Markov chain, the symbols before a time step, as rows of one table: those of the start first.

A chain of order k over s symbols has 1 + s + ... + s^(k-1) contexts of fewer than k symbols, at the first k time steps,
the empty one first, and then s^k contexts of k symbols. In each group the latest symbol varies fastest. The symbol that
ends a sequence is in no context.
"""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from bayesgen.data import PADDING
from bayesgen.errors import ModelError
from bayesgen.statistics import is_inside, namespace
from bayesgen.typing import Array, Bool, Integer, PRNGKeyArray, Shaped

Carried = TypeVar("Carried")
MOST_ENTRIES = 1 << 25  # of a table of one class: 268 MB


@dataclasses.dataclass(frozen=True)
class Contexts:
    """The contexts of Markov chains.

    Attributes:
        order: k, the number of symbols that a time step depends on.
        num_symbols: r, the symbol that ends a sequence included.
        end: its code; None where there is none.
    """

    order: int
    num_symbols: int
    end: int | None = None

    def is_informative(
        self, values: Shaped[Array, "*batch T"], observed: Bool[Array, "*batch T"]
    ) -> Bool[Array, "*batch"]:
        """Mask of the sequences with an observed time step, or with any time step where these may be the end.

        A sequence that is missing altogether has none, because its first time step is PADDING.
        """
        has_steps: Any = is_inside(values) & (observed | (self.end is not None))
        return has_steps.any(-1)

    @property
    def num_before(self) -> int:
        """How many symbols may come before others."""
        return self.num_symbols - (self.end is not None)

    def check_size(self, name: str) -> None:
        """Refuse a table that is too large to be kept."""
        if self.size * self.num_symbols > MOST_ENTRIES:
            raise ModelError(
                f"{name}: order {self.order} over {self.num_symbols} symbols has {self.size} contexts with "
                f"{self.num_symbols} probabilities each, and at most {MOST_ENTRIES} are kept. Take a lower order, or "
                "fewer symbols."
            )

    def offset(self, num_preceding: int) -> int:
        """The index of the first context of this number of symbols."""
        return sum(self.num_before**length for length in range(num_preceding))

    @property
    def num_starts(self) -> int:
        """How many contexts have fewer than k symbols."""
        return self.offset(self.order)

    @property
    def num_full(self) -> int:
        """How many contexts have k symbols."""
        return self.num_before**self.order

    @property
    def size(self) -> int:
        """How many contexts there are."""
        return self.num_starts + self.num_full

    def names(self, symbols: Sequence[Hashable]) -> list[str]:
        """The contexts as they are written: symbols side by side, after "^" where a sequence begins with them."""
        texts, names = [str(symbol) for code, symbol in enumerate(symbols) if code != self.end], [""]
        joint = "" if all(len(text) == 1 for text in texts) else " "
        groups = []
        for _ in range(self.order):
            groups.append([joint.join(filter(None, ("^", name))) for name in names])
            names = [joint.join(filter(None, (name, text))) for name in names for text in texts]
        return [name for group in groups for name in group] + names

    def by_step(self, codes: Integer[Array, "*batch T"]) -> Integer[Array, "*batch T"]:
        """The context of each time step; arbitrary past the end."""
        xp, codes = namespace(codes), self.before(codes)
        num_steps = codes.shape[-1]
        offsets = [self.offset(min(step, self.order)) for step in range(num_steps)]
        contexts = xp.broadcast_to(xp.asarray(offsets, codes.dtype), codes.shape)
        power = 1
        for back in range(1, min(self.order, num_steps - 1) + 1):
            before = xp.zeros((*codes.shape[:-1], back), codes.dtype)
            contexts = contexts + power * xp.concatenate([before, codes[..., :-back]], -1)
            power *= self.num_before
        return contexts

    def before(self, codes: Integer[Array, "*shape"]) -> Integer[Array, "*shape"]:
        """Codes among the symbols that may precede others; arbitrary for the end."""
        return codes if self.end is None else codes - (codes >= max(self.end, 1))

    def entries(self, codes: Integer[Array, "*batch T"]) -> Integer[Array, "*batch T"]:
        """The index of each time step in the flat table of contexts and symbols; arbitrary past the end."""
        return self.by_step(codes) * self.num_symbols + codes

    def counts_by_row(self, codes: Integer[Array, "n T"], inside: Bool[Array, "n T"]) -> scipy.sparse.csr_array:
        """Counts of each row by entry of the flat table, (n, contexts x symbols), as ones that repeat. NumPy only."""
        ends = np.concatenate([[0], np.cumsum(inside.sum(1))])
        columns = np.asarray(self.entries(codes))[np.asarray(inside)]
        shape = (len(codes), self.size * self.num_symbols)
        return scipy.sparse.csr_array((np.ones(len(columns)), columns, ends), shape=shape)


def integer_codes(values: Shaped[Array, "..."]) -> tuple[Integer[Array, "..."], Any]:
    """Codes as integers, 0 past the end, and a mask of the time steps before the end."""
    xp = namespace(values)
    inside = is_inside(values)
    return xp.where(inside, values, 0).astype(xp.int64 if xp is np else int), inside


def follows_the_end(codes: Integer[Array, "*batch T"], end: int | None) -> Bool[jax.Array, "*batch T"]:
    """Mask of the time steps right after the end, which are impossible."""
    is_end = jnp.zeros(codes.shape, bool) if end is None else jnp.asarray(codes) == end
    return jnp.roll(is_end, 1, -1).at[..., :1].set(False)


def sample_steps(
    contexts: Contexts,
    key: PRNGKeyArray,
    shape: tuple[int, ...],
    num_steps: int,
    draw: Callable[[PRNGKeyArray, jax.Array, Carried], tuple[jax.Array, Carried]],
    carried: Carried,
) -> Integer[jax.Array, "*shape T"]:
    """Codes of sequences drawn time step by time step, PADDING after the end.

    Args:
        contexts: of the chain.
        key: for random numbers.
        shape: of the sequences.
        num_steps: T.
        draw: (key, the context of each sequence, state) -> (codes, next state).
        carried: the first state.
    """
    offsets = jnp.asarray([contexts.offset(min(step, contexts.order)) for step in range(num_steps)], int)

    def next_step(
        state: tuple[jax.Array, jax.Array, Carried], at: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array, Carried], jax.Array]:
        (latest, is_over, carried), (step_key, offset) = state, at
        drawn, carried = draw(step_key, offset + latest, carried)
        latest = (latest * contexts.num_before + contexts.before(drawn)) % contexts.num_full
        shown = jnp.where(is_over, PADDING, drawn)
        return (latest, is_over if contexts.end is None else is_over | (drawn == contexts.end), carried), shown

    start = jnp.zeros(shape, int), jnp.zeros(shape, bool), carried
    _, steps = jax.lax.scan(next_step, start, (jax.random.split(key, num_steps), offsets))
    return jnp.moveaxis(steps, 0, -1)
