"""Algorithms for hidden Markov chains: what they see is arrays, batched over sequences.

    z_1 ~ initial,  z_t ~ transition[z_(t-1)],  x_t ~ the emission distribution of state z_t

Axes: T steps, S states; `*batch` are sequences, classes, or both, and broadcast. The table of emissions holds
log p(x_t | z_t = s); steps that are not seen have the factor 1, so their logs are 0. A sequence that is shorter than
the table has a length: what stands in later steps does not matter.

Source: Rabiner (1989), A tutorial on hidden Markov models, Proceedings of the IEEE 77, section III.
"""

import functools

import jax
import jax.numpy as jnp

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, PRNGKeyArray

from .forward_backward import Counts, forward, forward_backward, forward_backward_in_logs


@record
class ExpectedCounts:
    """What is expected of the hidden states of sequences: derivatives of their log densities.

    Attributes:
        initial: probability of each state at the first step; with respect to log initial probabilities.
        transition: expected number of transitions; with respect to log transition probabilities.
        states: probability of each state at each step, 0 past the end; with respect to log emission densities.
    """

    initial: Float[Array, "*batch S"]
    transition: Float[Array, "*batch S S"]
    states: Float[Array, "*batch T S"]


def log_density(
    log_initial: Float[Array, "*#batch S"],
    log_transition: Float[Array, "*#batch S S"],
    log_emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None = None,
) -> Float[Array, "*batch"]:
    """Log density of sequences, hidden states summed out (the forward algorithm).

    Its gradient is `expected_counts`, and costs one pass backward. Where a sequence is impossible it is -inf, and the
    gradient 0.

    >>> initial, transition = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> emissions = jnp.log(jnp.array([[0.3, 0.7], [0.3, 0.7]]))
    >>> print(f"{jnp.exp(log_density(initial, transition, emissions)):.4f}")
    0.2680
    """
    initial, transition, steps, active = _batches_last(log_initial, log_transition, log_emissions, lengths)
    if not len(steps):
        return jnp.zeros(_batch_shape(log_initial, log_transition, log_emissions, lengths))
    total = _log_density(initial, transition, steps, active)
    return total if active is None else jnp.where(active[0], total, 0.0)


def expected_counts(
    log_initial: Float[Array, "*#batch S"],
    log_transition: Float[Array, "*#batch S S"],
    log_emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None = None,
) -> ExpectedCounts:
    """Expected states and transitions given each sequence (the forward-backward algorithm); 0 where it cannot be."""
    batch = _batch_shape(log_initial, log_transition, log_emissions, lengths)
    arrays = tuple(
        jnp.broadcast_to(array, batch + array.shape[array.ndim - event :])
        for array, event in ((log_initial, 1), (log_transition, 2), (log_emissions, 2))
    )

    def total(initial: jax.Array, transition: jax.Array, emissions: jax.Array) -> jax.Array:
        return log_density(initial, transition, emissions, lengths).sum()

    return ExpectedCounts(*jax.grad(total, (0, 1, 2))(*arrays))


@jax.jit
def most_probable_paths(
    log_initial: Float[Array, "*#batch S"],
    log_transition: Float[Array, "*#batch S S"],
    log_emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None = None,
) -> tuple[Int[Array, "*batch T"], Float[Array, "*batch"]]:
    """The most probable path of states of each sequence, -1 past its end, and the log density of both together.

    Of paths that are equally probable, one with the lowest states at the end (the algorithm of Viterbi).
    """
    initial, transition, steps, known = _batches_last(log_initial, log_transition, log_emissions, lengths)
    batch = _batch_shape(log_initial, log_transition, log_emissions, lengths)
    if not len(steps):
        return jnp.zeros((*batch, 0), int), jnp.zeros(batch)
    active = jnp.ones((len(steps), *(1,) * len(batch)), bool) if known is None else known
    first = jnp.broadcast_to(initial + steps[0], (len(initial), *batch))
    same = jnp.arange(len(initial)).reshape(-1, *(1,) * len(batch))

    def forward(best: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        emission, is_active = step
        through = best[:, None] + transition
        moved = jnp.where(is_active, through.max(0) + emission, best)
        return moved, jnp.where(is_active, through.argmax(0), same)

    last, origins = jax.lax.scan(forward, first, (steps[1:], active[1:]))
    end = last.argmax(0)

    def backward(state: jax.Array, origin: jax.Array) -> tuple[jax.Array, jax.Array]:
        before = jnp.take_along_axis(origin, state[None], 0)[0]
        return before, before

    _, before = jax.lax.scan(backward, end, origins, reverse=True)
    paths = jnp.where(active, jnp.concatenate([before, end[None]]), -1)
    return jnp.moveaxis(paths, 0, -1), jnp.where(active[0], last.max(0), 0.0)


@functools.partial(jax.jit, static_argnames=("num_steps", "sample_shape"))
def sample_paths(
    key: PRNGKeyArray,
    initial: Float[Array, "*batch S"],
    transition: Float[Array, "*batch S S"],
    num_steps: int,
    sample_shape: tuple[int, ...] = (),
) -> Int[Array, "*sample_and_batch T"]:
    """Independent paths of states."""
    batch = jnp.broadcast_shapes(initial.shape[:-1], transition.shape[:-2])
    shape = (*sample_shape, *batch)
    if not num_steps:
        return jnp.zeros((*shape, 0), int)
    log_transition = jnp.broadcast_to(jnp.log(transition), shape + transition.shape[-2:])
    keys = jax.random.split(key, num_steps)
    first = jax.random.categorical(keys[0], jnp.log(initial), shape=shape)

    def move(state: jax.Array, step_key: PRNGKeyArray) -> tuple[jax.Array, jax.Array]:
        logits = jnp.take_along_axis(log_transition, state[..., None, None], -2)[..., 0, :]
        following = jax.random.categorical(step_key, logits)
        return following, following

    _, others = jax.lax.scan(move, first, keys[1:])
    return jnp.moveaxis(jnp.concatenate([first[None], others]), 0, -1)


# --- arrays with the steps or states first, and batches last ---------------------------------------------------------


def _batches_last(
    initial: Float[Array, "*#batch S"],
    transition: Float[Array, "*#batch S S"],
    emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """The arrays with as many axes of batches each, which come last; and which steps are before the end."""
    num_axes = len(_batch_shape(initial, transition, emissions, lengths))

    def turned(array: Array, event: int) -> jax.Array:
        widened = jnp.reshape(array, (1,) * (num_axes + event - array.ndim) + array.shape)
        return jnp.moveaxis(widened, range(num_axes, num_axes + event), range(event))

    steps = turned(emissions, 2)
    numbers = jnp.arange(len(steps)).reshape(-1, *(1,) * num_axes)
    return turned(initial, 1), turned(transition, 2), steps, None if lengths is None else numbers < jnp.asarray(lengths)


def _batch_shape(initial: Array, transition: Array, emissions: Array, lengths: Array | None) -> tuple[int, ...]:
    of_lengths = () if lengths is None else jnp.shape(lengths)
    return jnp.broadcast_shapes(initial.shape[:-1], transition.shape[:-2], emissions.shape[:-2], of_lengths)


@jax.custom_jvp
def _log_density(
    initial: Float[jax.Array, " S *#batch"],
    transition: Float[jax.Array, "S S *#batch"],
    emissions: Float[jax.Array, "T S *#batch"],
    active: Bool[jax.Array, " T *#batch"] | None,
) -> Float[jax.Array, "*batch"]:
    return forward(initial, transition, emissions, active)


@_log_density.defjvp
def _log_density_jvp(
    primals: tuple[jax.Array, jax.Array, jax.Array, jax.Array | None],
    tangents: tuple[jax.Array, jax.Array, jax.Array, object],
) -> tuple[jax.Array, jax.Array]:
    """The derivative of a log density is linear in expected counts, which are computed once."""
    value, counts = _value_and_counts(*primals)
    of_initial, of_transition, of_emissions = (
        (count * tangent).sum(tuple(range(count.ndim - value.ndim)))
        for count, tangent in zip(counts, tangents[:3], strict=True)
    )
    return value, of_initial + of_transition + of_emissions


@jax.custom_jvp
def _value_and_counts(
    initial: Float[jax.Array, " S *#batch"],
    transition: Float[jax.Array, "S S *#batch"],
    emissions: Float[jax.Array, "T S *#batch"],
    active: Bool[jax.Array, " T *#batch"] | None,
) -> tuple[jax.Array, Counts]:
    return forward_backward(initial, transition, emissions, active)


@_value_and_counts.defjvp
def _value_and_counts_jvp(
    primals: tuple[jax.Array, jax.Array, jax.Array, jax.Array | None],
    tangents: tuple[jax.Array, jax.Array, jax.Array, object],
) -> tuple[tuple[jax.Array, Counts], tuple[jax.Array, Counts]]:
    """Second derivatives are those of the algorithm in logs."""

    def in_logs(initial: jax.Array, transition: jax.Array, emissions: jax.Array) -> tuple[jax.Array, Counts]:
        return forward_backward_in_logs(initial, transition, emissions, primals[3])

    return jax.jvp(in_logs, primals[:3], tangents[:3])
