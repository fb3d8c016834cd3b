"""The forward-backward algorithm: in probabilities, as far as these have room for what is to be told, else in logs.

Arrays have steps or states first, and sequences (or classes, or chains of a sampler) last: T steps, S states, *batch.
Probabilities are scaled at every step (Rabiner 1989, section V.A), so that nothing underflows however long a sequence
is. But a state that is 1e308 times less probable than another counts for nothing then, even where the steps to come
are possible in that state alone. Results tell whether that may have been, and then they are made again in logs, which
cost several times as much. Each pass is a loop of its own and small: XLA compiles those into one function for
processors, and needs a tenth of the time for a step of them: see benchmarks/hidden_markov.py. Transfer matrices of
blocks of steps, made at once, and an associative scan were measured too: up to 5,000 steps neither was faster.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from bayesgen.typing import Bool, Float

UNROLLED = 20  # states up to which sums over them are written out: what is compiled is faster, but takes longer

First: TypeAlias = Float[jax.Array, " S *#batch"]
Matrix: TypeAlias = Float[jax.Array, "S S *#batch"]
Steps: TypeAlias = Float[jax.Array, "T S *#batch"]
Active: TypeAlias = Bool[jax.Array, " T *#batch"] | None
Counts: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]


def _with_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays with batches last, which decides once for all of them, mapped or not."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def _(size: int, is_mapped: Any, *arrays: Any) -> Any:
        turned = jax.tree.map(
            lambda array, is_one: jnp.moveaxis(array, 0, -1) if is_one else array[..., None], arrays, tuple(is_mapped)
        )
        results = mapped(*turned)
        return jax.tree.map(lambda array: jnp.moveaxis(array, -1, 0), results), jax.tree.map(lambda _: True, results)

    return jax.jit(mapped)


@_with_batches
def forward(initial: First, transition: Matrix, emissions: Steps, active: Active) -> Float[jax.Array, "*batch"]:
    """Log densities of sequences, states summed out.

    Args:
        initial: log probabilities of the first state.
        transition: of the next state, given the state before.
        emissions: log densities of the steps in each state.
        active: which steps are before the end; None where all are.
    """
    moves, active_later = jnp.exp(transition), None if active is None else active[1:]
    joint_of_first = _joint_of_first(initial, transition, emissions, active)
    first, factors, value = _scaled(joint_of_first, emissions, active_later)
    shares, scales = _filtered(first, moves, factors)
    value = value + _where(active_later, jnp.log(scales), 0.0).sum(0)
    ways = (transition > -jnp.inf).astype(moves.dtype)  # of which products with shares may have no room, these have
    is_reached = (_moved(shares[:-1], ways) > 0) & (emissions[1:] > -jnp.inf)
    is_lost = _where(active_later, (is_reached & (shares[1:] < _lost(shares))).any(1), False).any()
    is_first_lost = ((joint_of_first > -jnp.inf) & (first < _lost(first))).any()
    is_exact = jnp.isfinite(value).all() & ((moves >= _all_mix(moves)).all() | ~(is_lost | is_first_lost))
    return jax.lax.cond(is_exact, lambda: value, lambda: forward_in_logs(initial, transition, emissions, active))


@_with_batches
def forward_backward(
    initial: First, transition: Matrix, emissions: Steps, active: Active
) -> tuple[Float[jax.Array, "*batch"], Counts]:
    """Log densities, and expected counts: of first states, of transitions, and of states at each step."""
    moves, active_later = jnp.exp(transition), None if active is None else active[1:]
    joint_of_first = _joint_of_first(initial, transition, emissions, active)
    first, factors, value = _scaled(joint_of_first, emissions, active_later)
    shares, scales = _filtered(first, moves, factors)
    value = value + _where(active_later, jnp.log(scales), 0.0).sum(0)
    ahead = _ahead(moves, factors, active_later, first.shape)
    joint = jnp.concatenate([shares[:1], _moved(shares[:-1], moves) * factors]) * ahead
    totals = joint.sum(1)  # of which little is left where what is likely so far is not so from the other side
    states = joint / totals[:, None]
    from_states, to_states = shares[:-1] / totals[1:, None], _where(active_later, factors * ahead[1:], 0.0)
    transitions = moves * jnp.einsum("ti...,tj...->ij...", from_states, to_states)
    has_room = ((moves > 0) | (transition == -jnp.inf)).all()
    is_exact = jnp.isfinite(value).all() & has_room & (_where(active, totals, 1.0) >= _lost(totals)).all()
    return jax.lax.cond(
        is_exact,
        lambda: (value, (states[0], transitions, _where(active, states, 0.0))),
        lambda: forward_backward_in_logs(initial, transition, emissions, active),
    )


def _lost(shares: jax.Array) -> float:
    """Share of a state, or of all paths through a step, below which probabilities may not tell of others."""
    return float(jnp.finfo(shares.dtype).tiny) ** (1 / 2)  # 1e-154 in double precision


def _all_mix(moves: jax.Array) -> float:
    """Transition probability from which on no state is so far behind the others for longer than a step."""
    return float(jnp.finfo(moves.dtype).tiny) ** (1 / 3)


def _joint_of_first(initial: First, transition: Matrix, emissions: Steps, active: Active) -> jax.Array:
    """Log densities of the first step and its state, all axes of batches in full."""
    shapes = initial.shape[1:], transition.shape[2:], emissions.shape[2:], () if active is None else active.shape[1:]
    return jnp.broadcast_to(initial + emissions[0], (len(initial), *jnp.broadcast_shapes(*shapes)))


def _scaled(joint: jax.Array, emissions: Steps, active: Active) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Shares of the first states, densities of later steps over the best state's, and the logs that are left out."""
    value = log_sum(joint, 0)
    later = _where(active, emissions[1:], 0.0)
    peaks = finite(later.max(1))
    return jnp.exp(joint - finite(value)), jnp.exp(later - peaks[:, None]), value + peaks.sum(0)


def _filtered(first: jax.Array, moves: jax.Array, factors: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Probabilities of states given all steps until then (T, S, *batch), and scales of the later steps."""

    def move(shares: jax.Array, factor: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        joint = _times(shares, moves) * factor
        scale = joint.sum(0)
        return joint / scale, (joint / scale, scale)

    _, (shares, scales) = jax.lax.scan(move, first, factors)
    return jnp.concatenate([first[None], shares]), scales


def _ahead(moves: jax.Array, factors: jax.Array, active: Active, shape: tuple[int, ...]) -> jax.Array:
    """Densities of all steps ahead given the state (T, S, *batch), scaled so that they sum to 1 over states."""
    transposed, last = jnp.swapaxes(moves, 0, 1), jnp.full(shape, 1 / shape[0])

    def move(ahead: jax.Array, step: tuple[jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        factor, is_active = step
        behind = _times(ahead * factor, transposed)
        moved = behind / behind.sum(0)
        moved = moved if is_active is None else jnp.where(is_active, moved, ahead)
        return moved, moved

    _, others = jax.lax.scan(move, last, (factors, active), reverse=True)
    return jnp.concatenate([others, last[None]])


def _moved(shares: jax.Array, moves: jax.Array) -> jax.Array:
    """Probabilities of the states at the next steps, all at once."""
    return jnp.moveaxis(_times(jnp.moveaxis(shares, 1, 0), moves[:, :, None]), 0, 1)


def _times(vector: jax.Array, matrix: jax.Array) -> jax.Array:
    """Vectors times matrices, states first."""
    if len(vector) > UNROLLED:
        return (vector[:, None] * matrix).sum(0)
    total = vector[0] * matrix[0]
    for share, row in zip(vector[1:], matrix[1:], strict=True):
        total = total + share * row
    return total


def _where(active: Active, steps: jax.Array, other: float | bool) -> jax.Array:
    """Steps (T, S, *batch) or (T, *batch), with something else past the end."""
    if active is None:
        return steps
    return jnp.where(active if active.ndim == steps.ndim else active[:, None], steps, other)


# --- logs, which hold everything --------------------------------------------------------------------------------------


def forward_in_logs(initial: First, transition: Matrix, emissions: Steps, active: Active) -> jax.Array:
    """`forward`, in logs."""
    return _filtered_in_logs(initial, transition, emissions, active)[0].sum(0)


def forward_backward_in_logs(
    initial: First, transition: Matrix, emissions: Steps, active: Active
) -> tuple[jax.Array, Counts]:
    """`forward_backward`, in logs. Expected counts of sequences that are impossible are 0."""
    scales, filtered = _filtered_in_logs(initial, transition, emissions, active)
    value = scales.sum(0)

    def move(
        state: tuple[jax.Array, jax.Array], step: tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        ahead, transitions = state
        before, emission, scale, is_active = step
        through = transition + (emission + ahead - scale)[None]
        used, behind = jnp.exp(before[:, None] + through), log_sum(through, 1)
        if is_active is not None:
            used, behind = jnp.where(is_active, used, 0.0), jnp.where(is_active, behind, ahead)
        return (behind, transitions + used), jnp.exp(before + behind)

    last = filtered[-1]
    start = jnp.zeros_like(last), jnp.zeros((len(last), *last.shape))
    later = filtered[:-1], emissions[1:], finite(scales[1:]), None if active is None else active[1:]
    (_, transitions), others = jax.lax.scan(move, start, later, reverse=True)
    states = jnp.concatenate([others, jnp.exp(last)[None]])
    is_possible = ~jnp.isneginf(value)
    first, transitions, states = (jnp.where(is_possible, array, 0.0) for array in (states[0], transitions, states))
    return value, (first, transitions, _where(active, states, 0.0))


def _filtered_in_logs(
    initial: First, transition: Matrix, emissions: Steps, active: Active
) -> tuple[jax.Array, jax.Array]:
    """Log densities of each step given those before (T, *batch), and of states given all until then (T, S, *batch)."""
    start = _normalised(_joint_of_first(initial, transition, emissions, active))

    def move(
        filtered: jax.Array, step: tuple[jax.Array, jax.Array | None]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        emission, is_active = step
        scale, moved = _normalised(log_sum(filtered[:, None] + transition, 0) + emission)
        if is_active is not None:
            scale, moved = jnp.where(is_active, scale, 0.0), jnp.where(is_active, moved, filtered)
        return moved, (scale, moved)

    _, others = jax.lax.scan(move, start[1], (emissions[1:], None if active is None else active[1:]))
    scales, filtered = (jnp.concatenate([one[None], rest]) for one, rest in zip(start, others, strict=True))
    return scales, filtered


def _normalised(logs: Float[jax.Array, " S *batch"]) -> tuple[jax.Array, jax.Array]:
    """The log of the sum over states, and logs of shares in it; -inf where the sum is 0."""
    total = log_sum(logs, 0)
    return total, logs - finite(total)


def log_sum(logs: Float[jax.Array, "..."], axis: int) -> Float[jax.Array, "..."]:
    """Logs of sums of exponentials, -inf where all are."""
    peak = jax.lax.stop_gradient(finite(logs.max(axis)))
    total = jnp.exp(logs - jnp.expand_dims(peak, axis)).sum(axis)
    is_zero = total == 0
    return jnp.where(is_zero, -jnp.inf, jnp.log(jnp.where(is_zero, 1.0, total)) + peak)


def finite(logs: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
    """Logs to measure others against, which are all -inf where these are."""
    return jnp.where(jnp.isneginf(logs), 0.0, logs)
