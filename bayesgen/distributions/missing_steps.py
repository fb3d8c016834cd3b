"""Chains of which steps are missing: the forward recursion over what they may be sums them out."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.statistics import LatentStatistic, Parameters
from bayesgen.typing import Array, Bool, Float, Int, Integer, Real

from .contexts import Contexts, as_codes


@dataclasses.dataclass(frozen=True)
class MissingSteps(LatentStatistic):
    """Chains that lack steps. Parameters: `log_probs`, (K, contexts, r).

    The recursion goes over what the latest missing steps may be, as many as a context can have. A step takes the rows
    of the table that these come to, so that what it costs grows with them, and not with the number of contexts. What
    probabilities are divided by, lest they underflow, has no slope: expected counts are sums of products of
    probabilities, none of them below 0.

    Attributes:
        contexts: of the chain.
        most: how many of any k steps in a row are missing, at most; None where it is not known.
    """

    contexts: Contexts
    most: int | None = None

    def numbers_per_row(self, parameters: Parameters, values: Real[Array, "m T ..."]) -> float:
        """At each step, probabilities of the symbol there with each of what the missing ones before it may be."""
        return float(values.shape[1] * self._num_options(values.shape[1]) * self.contexts.num_symbols)

    def _num_kept(self, num_steps: int) -> int:
        """How many missing steps the recursion keeps apart."""
        most = self.contexts.order if self.most is None else self.most
        return min(most, self.contexts.order, num_steps)

    def _num_options(self, num_steps: int) -> int:
        """In how many ways these may be filled."""
        return self.contexts.num_before ** self._num_kept(num_steps)

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
        codes = jnp.where(seen, codes, 0)
        num_rows, num_steps = codes.shape
        table = jnp.exp(jnp.asarray(parameters["log_probs"]))
        rows = table.reshape(-1, self.contexts.num_symbols)
        first_rows = (jnp.asarray(classes) * self.contexts.size)[:, None] + self.contexts.of_steps(codes)
        num_kept, num_options = self._num_kept(num_steps), self._num_options(num_steps)
        options = np.indices((self.contexts.num_before,) * num_kept).reshape(num_kept, num_options)

        def next_step(state: tuple[jax.Array, ...], at: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], None]:
            (before, mass, log_scale, steps_ago), (first_row, may_be, is_missing, is_inside) = state, at
            contexts = first_row[:, None] + self._place_values(steps_ago) @ options
            joint = before[:, :, None] * rows[contexts] * may_be[:, None]
            scale = jax.lax.stop_gradient(joint.sum((1, 2)))
            scale = jnp.where(scale > 0, scale, 1.0)
            joint = joint / scale[:, None, None]
            steps_ago = jnp.where(is_missing[:, None], jnp.roll(steps_ago, -1, 1).at[:, -1:].set(0), steps_ago) + 1
            before = jnp.where(is_inside[:, None], self._following(joint, is_missing), before)
            mass = jnp.where(is_inside, joint.sum((1, 2)), mass)
            return (before, mass, log_scale + jnp.where(is_inside, jnp.log(scale), 0.0), steps_ago), None

        start: tuple[jax.Array, ...] = (
            jnp.zeros((num_rows, num_options), table.dtype).at[:, 0].set(1.0),
            jnp.ones(num_rows, table.dtype),
            jnp.zeros(num_rows, table.dtype),
            jnp.full((num_rows, num_kept), num_steps + self.contexts.order),  # none of the steps
        )
        may_be = self._may_be(codes, inside, seen)
        by_step = tuple(jnp.moveaxis(array, 1, 0) for array in (first_rows, may_be, ~seen, inside))
        (_, mass, log_scale, _), _ = jax.lax.scan(next_step, start, by_step)
        is_possible = mass > 0
        return jnp.where(is_possible, log_scale + jnp.log(jnp.where(is_possible, mass, 1.0)), -jnp.inf)

    def _place_values(self, steps_ago: Integer[jax.Array, "m kept"]) -> Integer[jax.Array, "m kept"]:
        """What the symbols so many steps ago count in the number of a context: nothing beyond the k latest."""
        powers = np.array([0, *(self.contexts.num_before**back for back in range(self.contexts.order)), 0])
        return jnp.asarray(powers)[jnp.minimum(steps_ago, self.contexts.order + 1)]

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

    def _following(
        self, joint: Float[jax.Array, "m options r"], is_missing: Bool[jax.Array, " m"]
    ) -> Float[jax.Array, "m options"]:
        """Probabilities of what the latest missing steps are after a step. After the end comes nothing.

        A step that is missing takes the place of the earliest of them, which is summed out.
        """
        end = self.contexts.end
        of_next = joint if end is None else jnp.delete(joint, end, axis=2, assume_unique_indices=True)
        of_missing = of_next.reshape(len(joint), -1, joint.shape[1]).sum(1)
        return jnp.where(is_missing[:, None], of_missing, of_next.sum(2))


def most_missing(observed: Bool[np.ndarray, "m T"], num_steps: int) -> int:
    """How many of any so many steps in a row are missing, at most."""
    if not num_steps:
        return 0
    until = np.cumsum(np.pad(~observed, ((0, 0), (num_steps, 0))), 1)
    return int((until[:, num_steps:] - until[:, :-num_steps]).max(initial=0))
