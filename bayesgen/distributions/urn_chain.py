"""Markov chains with Dirichlet probabilities that are integrated out: a Polya urn for each context."""

import functools
from collections.abc import Hashable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import validate_sample

from bayesgen.runtime import compiled
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Real

from .contexts import Contexts, as_codes, follows_the_end, sample_steps
from .sequences import Length, SequenceDistribution, sequences


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
        codes, inside = as_codes(jnp.asarray(value))
        batch = lax.broadcast_shapes(self.batch_shape, codes.shape[:-1])
        contexts = self.contexts.of_steps(codes)
        entries = self.contexts.entries(codes)
        alpha = jnp.reshape(self.concentration, (*self.concentration.shape[:-2], -1))
        logs = jnp.log(_taken(alpha, entries, batch) + _before(entries))
        logs = logs - jnp.log(_taken(jnp.sum(self.concentration, -1), contexts, batch) + _before(contexts))
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


def _taken(table: Float[Array, "... m"], places: Int[Array, "... T"], batch: tuple[int, ...]) -> Float[Array, "... T"]:
    """The entries of tables at indices, batch by batch."""
    table = jnp.broadcast_to(table, (*batch, table.shape[-1]))
    return jnp.take_along_axis(table, jnp.broadcast_to(places, (*batch, places.shape[-1])), -1)


def _before(places: Int[Array, "... T"]) -> Int[Array, "... T"]:
    """The number of earlier time steps with the same entry."""
    order = jnp.argsort(places, -1, stable=True)
    together = jnp.take_along_axis(places, order, -1)
    steps = jnp.arange(places.shape[-1])
    is_first = jnp.ones(places.shape, bool).at[..., 1:].set(together[..., 1:] != together[..., :-1])
    ranks = steps - lax.cummax(jnp.where(is_first, steps, 0), places.ndim - 1)
    return jnp.take_along_axis(ranks, jnp.argsort(order, -1), -1)
