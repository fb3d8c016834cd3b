"""Chains whose probabilities are integrated out: an urn for each context, to which every symbol drawn is added."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import validate_sample

from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Real

from .contexts import Contexts, as_codes, follows_the_end, sample_steps
from .sequences import Length, SequenceDistribution, sequences


class UrnChain(SequenceDistribution):
    """A Markov chain whose rows have Dirichlet distributions and are integrated out, each sequence having its own.

    Generative story::

        probs[context] ~ Dirichlet(concentration[context])
        x_t            ~ Categorical(probs[context of x_t])

    Within one sequence, what has followed a context makes the same more probable: each symbol drawn is put into the urn
    of its context (Polya's urns).

    Args:
        concentration: (..., contexts, r), as `Contexts` orders them: those of the start first.
        order: number of symbols before a step that tell of it.
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
        """The contexts."""
        return Contexts(self.order, self.concentration.shape[-1], self.end)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        """Codes, then padding."""
        return sequences(self.contexts.num_symbols, self.end)

    @validate_sample
    def log_prob(self, value: Real[Array, "... T"]) -> Float[Array, "..."]:
        """Log probability of the steps of each sequence: alpha and what came before in the same urn, over all of it."""
        codes, inside = as_codes(jnp.asarray(value))
        batch = lax.broadcast_shapes(self.batch_shape, codes.shape[:-1])
        contexts = self.contexts.of_steps(codes)
        entries = self.contexts.entries(codes)
        alpha = jnp.reshape(self.concentration, (*self.concentration.shape[:-2], -1))
        logs = jnp.log(_taken(alpha, entries, batch) + _before(entries))
        logs = logs - jnp.log(_taken(jnp.sum(self.concentration, -1), contexts, batch) + _before(contexts))
        logs = jnp.where(follows_the_end(codes, self.end), -jnp.inf, logs)
        return jnp.where(inside, logs, 0.0).sum(-1)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Int[Array, "... T"]:
        """Independent sequences, each with probabilities of its own."""
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
    """The entries of tables at places, batch by batch."""
    table = jnp.broadcast_to(table, (*batch, table.shape[-1]))
    return jnp.take_along_axis(table, jnp.broadcast_to(places, (*batch, places.shape[-1])), -1)


def _before(places: Int[Array, "... T"]) -> Int[Array, "... T"]:
    """How many earlier steps are at the same place."""
    order = jnp.argsort(places, -1, stable=True)
    together = jnp.take_along_axis(places, order, -1)
    steps = jnp.arange(places.shape[-1])
    is_first = jnp.ones(places.shape, bool).at[..., 1:].set(together[..., 1:] != together[..., :-1])
    ranks = steps - lax.cummax(jnp.where(is_first, steps, 0), places.ndim - 1)
    return jnp.take_along_axis(ranks, jnp.argsort(order, -1), -1)
