"""Markov chains of any order as distributions over whole sequences, given their probabilities or a prior on these."""

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import validate_sample

from bayesgen.errors import ModelError, is_integer
from bayesgen.runtime import compiled
from bayesgen.statistics import Length, SequenceDistribution, precise, register, sequences
from bayesgen.typing import Array, Bool, Float, Int, PRNGKeyArray, Real, Shaped

from .contexts import Contexts, follows_the_end, integer_codes, sample_steps
from .markov_likelihood import MarkovLikelihood, MissingSteps
from .semirings import safe_log


def flat_tables(initial: Any, transition: Any, order: int | None, end: int | None) -> tuple[Array | None, Array]:
    """`initial` and `transition` of a chain as arrays with one axis of contexts, none of which holds the end."""
    arrays = None if initial is None else precise(initial), _flat(precise(transition), order, end)
    return arrays if end is None else _without_end(*arrays, end)


def _without_end(initial: Array | None, transition: Array, end: int) -> tuple[Array | None, Array]:
    """Tables without the rows of contexts that hold the end, which nothing follows."""
    num_rows, num_symbols = (1, *transition.shape)[-2:]
    order = round(math.log(num_rows, num_symbols)) if num_symbols > 1 else 0
    if not order or num_symbols**order != num_rows or not (is_integer(end) and 0 <= end < num_symbols):
        return initial, transition
    groups = [np.flatnonzero((np.indices((num_symbols,) * length) != end).all(0)) for length in range(order + 1)]
    contexts = Contexts(order, num_symbols)
    if order > 1 and initial is not None and initial.shape[-2:-1] == (contexts.num_starts,):
        starts = np.concatenate([contexts.offset(length) + groups[length] for length in range(order)])
        initial = initial[..., starts, :]
    return initial, transition[..., groups[order], :]


def _flat(transition: Float[Array, "..."], order: int | None, end: int | None) -> Float[Array, "... contexts r"]:
    """One axis of contexts in place of one axis for each preceding symbol."""
    if order is None or order < 2 or transition.ndim <= order:
        return transition
    sizes, num_symbols = set(transition.shape[-order - 1 : -1]), transition.shape[-1]
    if len(sizes) > 1 or not sizes <= {num_symbols, num_symbols - (end is not None)} - {1}:
        return transition
    return transition.reshape(*transition.shape[: -order - 1], sizes.pop() ** order, num_symbols)


def batch_of(transition: tuple[int, ...], starts: tuple[int, ...] | None) -> tuple[int, ...]:
    """The batch shape of both."""
    try:
        return lax.broadcast_shapes(transition[:-2], () if starts is None else starts[:-2])
    except ValueError:
        raise ModelError(
            f"MarkovChain: transition has the shape {transition} and initial that of {starts} as a table, whose first "
            "axes, all but the last two, are of chains and have to broadcast. Contexts of k symbols have one axis, "
            "(..., r^k, r); give order=k where they have one for each symbol."
        ) from None


def order_of(initial: Array | None, transition: Array, stated: int | None, end: int | None) -> int:
    """The order of the chain that has these tables."""
    if transition.ndim < 2:
        raise ModelError(f"MarkovChain: transition has the shape {transition.shape}, and needs (..., r^k, r).")
    num_rows, num_symbols = transition.shape[-2:]
    if end is not None and not (is_integer(end) and 0 <= end < num_symbols):
        raise ModelError(f"MarkovChain: end={end!r} is none of the codes 0 to {num_symbols - 1}.")
    if end is not None and num_symbols == 1:
        raise ModelError("MarkovChain: the end is the only symbol. Give rows with one more.")
    num_before = Contexts(0, num_symbols, end).num_before
    order = 0 if initial is None else 1
    while stated is None and num_before > 1 and num_before**order < num_rows:
        order += 1
    order = order if stated is None else stated
    if num_before**order != num_rows or (initial is None) != (order == 0):
        besides = "" if end is None else " besides the end"
        raise ModelError(
            f"MarkovChain: transition has {num_rows} rows for contexts of {num_before} symbols{besides}, which are "
            f"those of no order k: it needs {num_before}^k, and initial, unless k = 0. Give one row for each k symbols."
        )
    num_starts = Contexts(order, num_symbols, end).num_starts
    needed = (num_symbols,) if order == 1 else (num_starts, num_symbols)
    if initial is not None and initial.shape[-len(needed) :] != needed:
        raise ModelError(
            f"MarkovChain: initial has the shape {initial.shape}, and a chain of order {order} over {num_symbols} "
            f"symbols needs {('...', *needed)}: one row for each beginning of fewer than {order} symbols."
        )
    return order


class MarkovChain(SequenceDistribution):
    """A chain of symbols, each of which depends on the k symbols before it.

    Generative story::

        x_1 ~ Categorical(initial)
        x_t ~ Categorical(transition[x_(t-1)])                    for t = 2..length, where k = 1

    For k = 2, x_2 depends on x_1 by an initial row of its own, and so on: every order is a distribution over the same
    sequences. The length is given, and densities condition on it; or the symbol `end` ends the sequence, whose length
    is then random. In that case a value without `end` is the beginning of a sequence, with the probability of its
    steps.

    Values are codes 0..r-1, (..., T), padded by -1 at the end.

    Args:
        initial: probabilities of the first k symbols. Order 1: (..., r). Order k > 1: (..., S, r), one row for each
            beginning of fewer than k symbols, S = 1 + s + ... + s^(k-1): the empty one, those of one symbol, and so
            on, the latest symbol varying fastest. Order 0: None.
        transition: (..., s^k, r), probabilities of the next symbol, one row for each k symbols, of which the latest
            varies fastest. s is r, or r - 1 where there is an `end`: rows for contexts that hold it may be left out,
            and are ignored, here and in `initial`. With `order` also (..., s, ..., s, r), one axis for each symbol,
            the earliest first.
        length: of samples: a number, or an array of them, one for each sequence of the batch.
        end: the code of the symbol that ends a sequence; None where lengths are given. Samples are no longer than
            `length`, or `max_length`.
        max_length: number of time steps T of arrays of samples; by default the longest length.
        order: k, where shapes do not determine it: with one symbol besides the end, or one axis for each symbol.
        symbols: the symbols of the codes, such as "abc". Data of programs may then be strings.
        which: the index of the chain of each sequence, where the first axis of `initial` and `transition` is one of
            chains, such as classes. This avoids a copy of the tables for each sequence.

    Raises:
        ModelError: shapes that fit no order; an end that is not a code; what `SequenceDistribution` refuses.

    Source: Cover and Thomas (2006), Elements of Information Theory, section 4.1.

    >>> import jax.numpy as jnp, numpy as np
    >>> chain = MarkovChain(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.4, 0.6]]), length=3)
    >>> [round(float(p), 3) for p in jnp.exp(chain.log_prob(jnp.array([[0, 0, 1], [1, 1, -1]])))]
    [0.045, 0.3]
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "initial": constraints.simplex,
        "transition": constraints.independent(constraints.simplex, 1),
    }
    pytree_data_fields = ("initial", "transition", "which")
    pytree_aux_fields = ("end", "order")

    def __init__(
        self,
        initial: Real[Array, "*batch r"] | Sequence[Any] | None,
        transition: Real[Array, "*batch contexts r"] | Sequence[Any],
        length: Length = None,
        end: int | None = None,
        *,
        max_length: int | None = None,
        order: int | None = None,
        symbols: Sequence[Hashable] | None = None,
        which: Int[Array, "*batch"] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.which = which
        self.initial, self.transition = flat_tables(initial, transition, order, end)
        self.end, self.order = end, order_of(self.initial, self.transition, order, end)
        starts = self._starts_shape
        if symbols is not None and len(symbols) != self.contexts.num_symbols:
            raise ModelError(
                f"MarkovChain: {len(symbols)} symbols, and the rows of transition have {self.contexts.num_symbols} "
                "entries. Give one for each."
            )
        table_batch = batch_of(self.transition.shape, starts)
        if which is not None and len(table_batch) != 1:
            raise ModelError(
                f"MarkovChain: `which` chooses among tables with one axis of chains first, and there are {table_batch}."
            )
        super().__init__(
            table_batch if which is None else which.shape,
            length,
            max_length=max_length,
            symbols=symbols,
            validate_args=validate_args,
        )

    def get_args(self) -> dict[str, Any]:
        """The arguments to check, without None."""
        return {name: value for name, value in super().get_args().items() if value is not None}

    @property
    def contexts(self) -> Contexts:
        """The contexts, the first of which are those of `initial`."""
        return Contexts(self.order, self.transition.shape[-1], self.end)

    @property
    def _starts_shape(self) -> tuple[int, ...] | None:
        """The shape of the rows of `initial` as a table of contexts."""
        if self.initial is None:
            return None
        shape = self.initial.shape
        return shape if self.order > 1 else (*shape[:-1], 1, shape[-1])

    @property
    def probs(self) -> Float[Array, "*tables contexts r"]:
        """The probabilities of the next symbol by context, those of the start first."""
        batch = lax.broadcast_shapes(self.transition.shape[:-2], (self._starts_shape or ())[:-2])
        tables = [] if self.initial is None else [jnp.reshape(self.initial, self._starts_shape)]
        tables.append(jnp.asarray(self.transition))
        return jnp.concatenate([jnp.broadcast_to(table, (*batch, *table.shape[-2:])) for table in tables], -2)

    @property
    def log_probs(self) -> Float[Array, "*batch contexts r"]:
        """Logs of `probs` for each sequence."""
        return self._log_tables if self.which is None else self._log_tables[self.which]

    @property
    def _log_tables(self) -> Float[Array, "*tables contexts r"]:
        """Logs of the probabilities of each chain, with gradient 0 where they are -inf."""
        return safe_log(self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return sequences(self.contexts.num_symbols, self.end)

    @validate_sample
    @compiled
    def log_prob(self, value: Real[Array, "... T"]) -> Float[Array, "..."]:
        """Log probability of each sequence, given its length unless there is an `end`."""
        codes, inside = integer_codes(jnp.asarray(value))
        batch = lax.broadcast_shapes(self.batch_shape, codes.shape[:-1])
        is_possible = (codes < self.contexts.num_symbols) & ~follows_the_end(codes, self.end)
        entries = jnp.where(is_possible & inside, self.contexts.entries(codes), 0)
        tables = self._log_tables
        flat = jnp.reshape(tables, (*tables.shape[:-2], -1))
        logs = self._at(flat, jnp.broadcast_to(entries, (*batch, codes.shape[-1])))
        return jnp.where(inside, jnp.where(is_possible, logs, -jnp.inf), 0.0).sum(-1)

    @compiled
    def log_prob_of_cells(self, value: Shaped[Array, "... T"], observed: Bool[Array, "... T"]) -> Float[Array, "..."]:
        batch, num_steps = lax.broadcast_shapes(self.batch_shape, value.shape[:-1]), value.shape[-1]
        tables = self._log_tables
        num_tables = math.prod(tables.shape[:-2])
        which = jnp.arange(num_tables).reshape(tables.shape[:-2]) if self.which is None else self.which
        values, seen = (
            jnp.broadcast_to(array, (*batch, num_steps)).reshape(-1, num_steps) for array in (value, observed)
        )
        log_probs = MissingSteps(self.contexts).log_probs(
            {"log_probs": tables.reshape(num_tables, *tables.shape[-2:])},
            values,
            seen,
            jnp.broadcast_to(which, batch).ravel(),
        )
        return jnp.where(self.contexts.is_informative(values, seen), log_probs, 0.0).reshape(batch)

    @functools.partial(compiled, static_argnames="sample_shape")
    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Int[Array, "... T"]:
        assert key is not None
        tables, batch = self._log_tables, (*sample_shape, *self.batch_shape)

        def draw(key: PRNGKeyArray, contexts: jax.Array, _: None) -> tuple[jax.Array, None]:
            rows = self._at(tables, contexts[..., None], event_dim=1)
            return jax.random.categorical(key, rows[..., 0, :]), None

        return self.cut(sample_steps(self.contexts, key, batch, self.steps_to_sample, draw, None))

    def _at(
        self, tables: Float[Array, "..."], entries: Int[Array, "*batch n"], event_dim: int = 0
    ) -> Float[Array, "..."]:
        """The entries of the table of each sequence at these indices."""
        if self.which is None:
            return _take_by_batch(tables, entries, entries.shape[:-1], event_dim)
        return jnp.asarray(tables)[jnp.broadcast_to(self.which, entries.shape[:-1])[..., None], entries]


register(
    MarkovChain,
    lambda chain: MarkovLikelihood(chain.contexts),
    lambda chain: {"log_probs": chain.log_probs},
    event_dims={"log_probs": 2},
)


class UrnChain(SequenceDistribution):
    """A Dirichlet-multinomial Markov chain: each sequence has transition probabilities of its own, integrated out.

    Generative story::

        probs[context] ~ Dirichlet(concentration[context])
        x_t            ~ Categorical(probs[context of x_t])

    Within one sequence, each symbol drawn adds to the counts of its context, as in a Polya urn.

    Args:
        concentration: (..., contexts, r), in the order of `Contexts`.
        order: number of symbols that a time step depends on.
        length, end, max_length, symbols: as those of `MarkovChain`.

    Source: MacKay and Peto (1995), A hierarchical Dirichlet language model, eq. 13, with one row for each context.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.independent(constraints.positive, 2)
    }
    pytree_data_fields = ("concentration",)
    pytree_aux_fields = ("order", "end")

    def __init__(
        self,
        concentration: Float[Array, "*batch contexts r"],
        order: int,
        length: Length = None,
        end: int | None = None,
        *,
        max_length: int | None = None,
        symbols: Sequence[Hashable] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration, self.order, self.end = concentration, order, end
        super().__init__(
            concentration.shape[:-2], length, max_length=max_length, symbols=symbols, validate_args=validate_args
        )

    @property
    def contexts(self) -> Contexts:
        return Contexts(self.order, self.concentration.shape[-1], self.end)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return sequences(self.contexts.num_symbols, self.end)

    @validate_sample
    @compiled
    def log_prob(self, value: Real[Array, "... T"]) -> Float[Array, "..."]:
        """Log probability of each sequence: (alpha + earlier count of the symbol) / (total alpha + earlier count)."""
        codes, inside = integer_codes(jnp.asarray(value))
        batch = lax.broadcast_shapes(self.batch_shape, codes.shape[:-1])
        contexts, entries = self.contexts.by_step(codes), self.contexts.entries(codes)
        alpha = jnp.reshape(self.concentration, (*self.concentration.shape[:-2], -1))
        logs = jnp.log(_take_by_batch(alpha, entries, batch) + _num_earlier(entries))
        logs = logs - jnp.log(_take_by_batch(jnp.sum(self.concentration, -1), contexts, batch) + _num_earlier(contexts))
        logs = jnp.where(follows_the_end(codes, self.end), -jnp.inf, logs)
        return jnp.where(inside, logs, 0.0).sum(-1)

    @functools.partial(compiled, static_argnames="sample_shape")
    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Int[Array, "... T"]:
        assert key is not None
        num_steps = self.steps_to_sample
        shape = (*sample_shape, *self.batch_shape)
        rows = jnp.arange(int(np.prod(shape, dtype=int)))
        alpha = jnp.broadcast_to(self.concentration, (*shape, *self.concentration.shape[-2:]))
        alpha = alpha.reshape(len(rows), *alpha.shape[-2:])

        def draw(key: PRNGKeyArray, contexts: jax.Array, urns: jax.Array) -> tuple[jax.Array, jax.Array]:
            drawn = jax.random.categorical(key, jnp.log(urns[rows, contexts]))
            return drawn, urns.at[rows, contexts, drawn].add(1.0)

        steps = sample_steps(self.contexts, key, rows.shape, num_steps, draw, jnp.asarray(alpha, float))
        return self.cut(steps.reshape(*shape, num_steps))


def _take_by_batch(
    tables: Float[Array, "..."], entries: Int[Array, "... n"], batch: tuple[int, ...], event_dim: int = 0
) -> Float[Array, "..."]:
    """The entries of tables at indices, batch by batch; both broadcast to the batch."""
    by_batch = jnp.broadcast_to(tables, (*batch, *tables.shape[-1 - event_dim :]))
    entries = jnp.broadcast_to(entries, (*batch, entries.shape[-1]))
    return jnp.take_along_axis(by_batch, jnp.expand_dims(entries, tuple(range(-event_dim, 0))), -1 - event_dim)


def _num_earlier(entries: Int[Array, "... T"]) -> Int[Array, "... T"]:
    """The number of earlier time steps with the same entry."""
    order = jnp.argsort(entries, -1, stable=True)
    together = jnp.take_along_axis(entries, order, -1)
    steps = jnp.arange(entries.shape[-1])
    is_first = jnp.ones(entries.shape, bool).at[..., 1:].set(together[..., 1:] != together[..., :-1])
    ranks = steps - lax.cummax(jnp.where(is_first, steps, 0), entries.ndim - 1)
    return jnp.take_along_axis(ranks, jnp.argsort(order, -1), -1)
