"""Chains of which steps are missing: the forward recursion over contexts sums them out."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from bayesgen.statistics import LatentStatistic, Parameters
from bayesgen.typing import Array, Bool, Float, Int, Integer, Real

from .contexts import Contexts, as_codes


@dataclasses.dataclass(frozen=True)
class MissingSteps(LatentStatistic):
    """Chains that lack steps. Parameters: `log_probs`, (K, contexts, r).

    Attributes:
        contexts: of the chain.
    """

    contexts: Contexts

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T ..."]) -> float:
        """A table of probabilities, and the probabilities of contexts at each step."""
        return float(self.contexts.size * self.contexts.num_symbols * 2 + values.shape[1] * self.contexts.num_whole)

    def log_probs(
        self,
        parameters: Parameters,
        values: Real[Array, "m T ..."],
        observed: Bool[Array, "m T ..."] | None,
        classes: Int[Array, " m"],
    ) -> Float[Array, " m"]:
        """Log of the sum over all symbols that the missing steps may be. See `LatentStatistic.log_probs`."""
        codes, inside = as_codes(jnp.asarray(values))
        seen = jnp.ones(codes.shape, bool) if observed is None else jnp.asarray(observed)
        table = jnp.exp(jnp.asarray(parameters["log_probs"]))[classes]
        may_be = self._may_be(codes, inside, seen)
        return jax.vmap(self._of_row)(table, may_be, inside)

    def _may_be(
        self, codes: Integer[Array, "m T"], inside: Bool[Array, "m T"], seen: Bool[Array, "m T"]
    ) -> Float[Array, "m T r"]:
        """Which symbols each step may be: the end only where nothing follows."""
        symbols = jnp.arange(self.contexts.num_symbols)
        may_be = jnp.where(seen[..., None], codes[..., None] == symbols, True)
        if self.contexts.end is not None:
            is_followed = jnp.concatenate([inside[:, 1:], jnp.zeros((len(inside), 1), bool)], 1)
            may_be &= ~((symbols == self.contexts.end) & is_followed[..., None])
        return may_be.astype(float)

    def _of_row(
        self, table: Float[Array, "contexts r"], may_be: Float[Array, "T r"], inside: Bool[Array, " T"]
    ) -> Float[Array, ""]:
        """The forward recursion of one row: probabilities of contexts, relative to their sum, and its log."""
        order = self.contexts.order
        contexts, total = jnp.ones(1), jnp.zeros(())
        num_starts = min(order, len(may_be))
        for step in range(num_starts):
            start = self.contexts.offset(step)
            joint = contexts[:, None] * table[start : start + len(contexts)] * may_be[step]
            contexts, log_sum = self._following(joint, jnp.ravel)
            total = total + jnp.where(inside[step], log_sum, 0.0)
        if len(may_be) <= order:
            return total
        whole = table[self.contexts.num_starts :]

        def next_step(
            state: tuple[jax.Array, jax.Array], at: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[jax.Array, jax.Array], None]:
            (before, total), (may_be_here, is_inside) = state, at
            joint = before[:, None] * whole * may_be_here
            after, log_sum = self._following(joint, lambda of_next: of_next.reshape(-1, len(before)).sum(0))
            return (jnp.where(is_inside, after, before), jnp.where(is_inside, total + log_sum, total)), None

        later = jnp.asarray(may_be[order:]), jnp.asarray(inside[order:])
        (_, total), _ = jax.lax.scan(next_step, (contexts, total), later)
        return total

    def _following(
        self, joint: Float[jax.Array, "contexts r"], arranged: Callable[[jax.Array], jax.Array]
    ) -> tuple[Float[jax.Array, " after"], Float[jax.Array, ""]]:
        """Probabilities of the contexts after a step, relative to the sum of all, and its log.

        Where all are zero: zeros and -inf, with slopes of zero. After the end comes nothing.
        """
        total = joint.sum()
        is_possible = total > 0
        safe = jnp.where(is_possible, total, 1.0)
        end = self.contexts.end
        of_next = joint if end is None else jnp.delete(joint, end, axis=1, assume_unique_indices=True)
        return arranged(of_next / safe), jnp.where(is_possible, jnp.log(safe), -jnp.inf)
