"""Algorithms for hidden Markov chains, on arrays that are batched over sequences.

    z_1 ~ initial,  z_t ~ transition[z_(t-1)],  x_t ~ the emission distribution of state z_t

Axes: T time steps, S states; `*batch` are sequences, classes, or both, and broadcast. The table of emissions holds
log p(x_t | z_t = s), which is 0 at missing time steps. Where sequences have lengths, later entries are ignored.

Source: Rabiner (1989), A tutorial on hidden Markov models, Proceedings of the IEEE 77, section III.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, P, Result

from .semirings import finite_or_zero, log_sum_exp

# The forward-backward algorithm, in probabilities where these do not underflow, else in logs.
#
# Arrays have time steps or states first, and batches (sequences, classes, or chains of a sampler) last. Probabilities
# are scaled at every step (Rabiner 1989, section V.A), so that they do not underflow however long a sequence is. But a
# state that is 1e308 times less probable than another gets probability 0, even where later steps are possible in that
# state alone. Where that may have happened, results are computed again in logs, which cost several times as much. Each
# pass is a small loop of its own, which XLA fuses for CPUs, ten times as fast: see benchmarks/hidden_markov.py.
# Transfer matrices of blocks of steps, and an associative scan, were not faster up to 5,000 steps.

UNROLLED_STATES = 20  # up to which sums over states are unrolled, which is faster but compiles longer

First: TypeAlias = Float[jax.Array, " S *#batch"]
Matrix: TypeAlias = Float[jax.Array, "S S *#batch"]
EmissionTable: TypeAlias = Float[jax.Array, "T S *#batch"]
Active: TypeAlias = Bool[jax.Array, " T *#batch"] | None
Counts: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]


def _with_batches(function: Callable[P, Result]) -> Callable[P, Result]:
    """A jitted function of arrays with batches last, in which `vmap` adds one more batch axis."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def _(size: int, is_mapped: Sequence[bool], *arrays: jax.Array) -> tuple:
        turned = jax.tree.map(
            lambda array, is_one: jnp.moveaxis(array, 0, -1) if is_one else array[..., None], arrays, tuple(is_mapped)
        )
        results = mapped(*turned)
        return jax.tree.map(lambda array: jnp.moveaxis(array, -1, 0), results), jax.tree.map(lambda _: True, results)

    return jax.jit(mapped)


@_with_batches
def forward(initial: First, transition: Matrix, emissions: EmissionTable, active: Active) -> Float[jax.Array, "*batch"]:
    """Log densities of sequences, states marginalised.

    Args:
        initial: log probabilities of the first state.
        transition: log probabilities of the next state given the previous one.
        emissions: log densities of the time steps in each state.
        active: mask of the time steps before the end; None where all are.
    """
    moves, active_later = jnp.exp(transition), None if active is None else active[1:]
    joint_of_first = _joint_of_first(initial, transition, emissions, active)
    value, shares, _ = _filtered(joint_of_first, moves, emissions, active_later)
    possible = (transition > -jnp.inf).astype(moves.dtype)  # unlike probabilities, these do not underflow
    is_reached = (_predicted(shares[:-1], possible) > 0) & (emissions[1:] > -jnp.inf)
    is_lost = _where(active_later, (is_reached & (shares[1:] < _underflow_limit(shares))).any(1), False).any()
    is_first_lost = ((joint_of_first > -jnp.inf) & (shares[0] < _underflow_limit(shares))).any()
    is_exact = jnp.isfinite(value).all() & ((moves >= _mixing_limit(moves)).all() | ~(is_lost | is_first_lost))
    return jax.lax.cond(is_exact, lambda: value, lambda: forward_in_logs(initial, transition, emissions, active))


@_with_batches
def forward_backward(
    initial: First, transition: Matrix, emissions: EmissionTable, active: Active
) -> tuple[Float[jax.Array, "*batch"], Counts]:
    """Log densities, and expected counts of first states, of transitions, and of states at each time step."""
    moves, active_later = jnp.exp(transition), None if active is None else active[1:]
    joint_of_first = _joint_of_first(initial, transition, emissions, active)
    value, shares, factors = _filtered(joint_of_first, moves, emissions, active_later)
    backward = _backward(moves, factors, active_later, joint_of_first.shape)
    joint = jnp.concatenate([shares[:1], _predicted(shares[:-1], moves) * factors]) * backward
    totals = joint.sum(1)  # tiny where states that are likely given the past are unlikely given the future
    states = joint / totals[:, None]
    from_states, to_states = shares[:-1] / totals[1:, None], _where(active_later, factors * backward[1:], 0.0)
    transitions = moves * jnp.einsum("ti...,tj...->ij...", from_states, to_states)
    is_precise = ((moves > 0) | (transition == -jnp.inf)).all()
    is_exact = jnp.isfinite(value).all() & is_precise & (_where(active, totals, 1.0) >= _underflow_limit(totals)).all()
    return jax.lax.cond(
        is_exact,
        lambda: (value, (states[0], transitions, _where(active, states, 0.0))),
        lambda: forward_backward_in_logs(initial, transition, emissions, active),
    )


def _underflow_limit(shares: jax.Array) -> float:
    """The least share, of a state or of all paths through a time step, beside which no other one has underflowed."""
    return float(jnp.finfo(shares.dtype).tiny) ** (1 / 2)  # 1e-154 in double precision


def _mixing_limit(moves: jax.Array) -> float:
    """The transition probability from which on a state recovers from underflow within a time step."""
    return float(jnp.finfo(moves.dtype).tiny) ** (1 / 3)


def _joint_of_first(initial: First, transition: Matrix, emissions: EmissionTable, active: Active) -> jax.Array:
    """Log densities of the first time step and its state, broadcast to all batch axes."""
    shapes = initial.shape[1:], transition.shape[2:], emissions.shape[2:], () if active is None else active.shape[1:]
    return jnp.broadcast_to(initial + emissions[0], (len(initial), *jnp.broadcast_shapes(*shapes)))


def _filtered(
    joint_of_first: jax.Array, moves: jax.Array, emissions: EmissionTable, active_later: Active
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Log densities, states given the time steps so far (T, S, *batch), and later densities over the best state's."""
    value, later = log_sum_exp(joint_of_first, 0), _where(active_later, emissions[1:], 0.0)
    first, peaks = jnp.exp(joint_of_first - finite_or_zero(value)), finite_or_zero(later.max(1))
    factors = jnp.exp(later - peaks[:, None])

    def move(shares: jax.Array, factor: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        joint = _vector_matrix(shares, moves) * factor
        scale = joint.sum(0)
        return joint / scale, (joint / scale, scale)

    _, (shares, scales) = jax.lax.scan(move, first, factors)
    value = value + peaks.sum(0) + _where(active_later, jnp.log(scales), 0.0).sum(0)
    return value, jnp.concatenate([first[None], shares]), factors


def _backward(moves: jax.Array, factors: jax.Array, active: Active, shape: tuple[int, ...]) -> jax.Array:
    """Densities of all later time steps given the state, (T, S, *batch), scaled to sum to 1 over states."""
    transposed, last = jnp.swapaxes(moves, 0, 1), jnp.full(shape, 1 / shape[0])

    def move(backward: jax.Array, step: tuple[jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        factor, is_active = step
        behind = _vector_matrix(backward * factor, transposed)
        moved = behind / behind.sum(0)
        moved = moved if is_active is None else jnp.where(is_active, moved, backward)
        return moved, moved

    _, earlier = jax.lax.scan(move, last, (factors, active), reverse=True)
    return jnp.concatenate([earlier, last[None]])


def _predicted(shares: jax.Array, moves: jax.Array) -> jax.Array:
    """Probabilities of the states at the next time steps, all at once."""
    return jnp.moveaxis(_vector_matrix(jnp.moveaxis(shares, 1, 0), moves[:, :, None]), 0, 1)


def _vector_matrix(vector: jax.Array, matrix: jax.Array) -> jax.Array:
    """Vectors times matrices, states first."""
    if len(vector) > UNROLLED_STATES:
        return (vector[:, None] * matrix).sum(0)
    total = vector[0] * matrix[0]
    for share, row in zip(vector[1:], matrix[1:], strict=True):
        total = total + share * row
    return total


def _where(active: Active, steps: jax.Array, other: float | bool) -> jax.Array:
    """Values by time step, (T, S, *batch) or (T, *batch), with another one past the end."""
    if active is None:
        return steps
    return jnp.where(active if active.ndim == steps.ndim else active[:, None], steps, other)


# --- in logs, which do not underflow ----------------------------------------------------------------------------------


def forward_in_logs(initial: First, transition: Matrix, emissions: EmissionTable, active: Active) -> jax.Array:
    """`forward`, in logs."""
    return _filtered_in_logs(initial, transition, emissions, active)[0].sum(0)


def forward_backward_in_logs(
    initial: First, transition: Matrix, emissions: EmissionTable, active: Active
) -> tuple[jax.Array, Counts]:
    """`forward_backward`, in logs. Expected counts of impossible sequences are 0."""
    scales, filtered = _filtered_in_logs(initial, transition, emissions, active)
    value = scales.sum(0)

    def move(
        state: tuple[jax.Array, jax.Array], step: tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        backward, transitions = state
        before, emission, scale, is_active = step
        through = transition + (emission + backward - scale)[None]
        used, behind = jnp.exp(before[:, None] + through), log_sum_exp(through, 1)
        if is_active is not None:
            used, behind = jnp.where(is_active, used, 0.0), jnp.where(is_active, behind, backward)
        return (behind, transitions + used), jnp.exp(before + behind)

    last = filtered[-1]
    start = jnp.zeros_like(last), jnp.zeros((len(last), *last.shape))
    later = filtered[:-1], emissions[1:], finite_or_zero(scales[1:]), None if active is None else active[1:]
    (_, transitions), earlier = jax.lax.scan(move, start, later, reverse=True)
    states = jnp.concatenate([earlier, jnp.exp(last)[None]])
    is_possible = ~jnp.isneginf(value)
    first, transitions, states = (jnp.where(is_possible, array, 0.0) for array in (states[0], transitions, states))
    return value, (first, transitions, _where(active, states, 0.0))


def _filtered_in_logs(
    initial: First, transition: Matrix, emissions: EmissionTable, active: Active
) -> tuple[jax.Array, jax.Array]:
    """Log densities of each time step given the past, (T, *batch), and of states given past and present."""
    start = _normalised(_joint_of_first(initial, transition, emissions, active))

    def move(
        filtered: jax.Array, step: tuple[jax.Array, jax.Array | None]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        emission, is_active = step
        scale, moved = _normalised(log_sum_exp(filtered[:, None] + transition, 0) + emission)
        if is_active is not None:
            scale, moved = jnp.where(is_active, scale, 0.0), jnp.where(is_active, moved, filtered)
        return moved, (scale, moved)

    _, later = jax.lax.scan(move, start[1], (emissions[1:], None if active is None else active[1:]))
    scales, filtered = (
        jnp.concatenate([first[None], following]) for first, following in zip(start, later, strict=True)
    )
    return scales, filtered


def _normalised(logs: Float[jax.Array, " S *batch"]) -> tuple[jax.Array, jax.Array]:
    """The log of the sum over states, and log shares in it; -inf where the sum is 0."""
    total = log_sum_exp(logs, 0)
    return total, logs - finite_or_zero(total)


@record
class ExpectedCounts:
    """Log densities of sequences, and expected counts of their hidden states: the derivatives of these.

    Attributes:
        log_density: of each sequence, states marginalised.
        initial: probability of each state at the first step; with respect to log initial probabilities.
        transition: expected number of transitions; with respect to log transition probabilities.
        states: probability of each state at each time step, 0 past the end; with respect to log emission densities.
    """

    log_density: Float[Array, "*batch"]
    initial: Float[Array, "*batch S"]
    transition: Float[Array, "*batch S S"]
    states: Float[Array, "*batch T S"]


@jax.jit
def log_density(
    log_initial: Float[Array, "*#batch S"],
    log_transition: Float[Array, "*#batch S S"],
    log_emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None = None,
) -> Float[Array, "*batch"]:
    """Log density of sequences, hidden states marginalised (the forward algorithm).

    Its gradient is `expected_counts`, and costs one backward pass. Impossible sequences have -inf, with gradient 0.

    >>> initial, transition = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> emissions = jnp.log(jnp.array([[0.3, 0.7], [0.3, 0.7]]))
    >>> print(f"{jnp.exp(log_density(initial, transition, emissions)):.4f}")
    0.2680
    """
    initial, transition, steps, active = _batches_last(log_initial, log_transition, log_emissions, lengths)
    total = _log_density(initial, transition, steps, active)
    return total if active is None else jnp.where(active[0], total, 0.0)


@jax.jit
def expected_counts(
    log_initial: Float[Array, "*#batch S"],
    log_transition: Float[Array, "*#batch S S"],
    log_emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None = None,
) -> ExpectedCounts:
    """Expected states and transitions given each sequence (the forward-backward algorithm); 0 if it is impossible."""
    initial, transition, steps, active = _batches_last(log_initial, log_transition, log_emissions, lengths)
    total, (_, transitions, states) = _value_and_counts(initial, transition, steps, active)
    total = total if active is None else jnp.where(active[0], total, 0.0)
    transitions, states = (jnp.moveaxis(array, (0, 1), (-2, -1)) for array in (transitions, states))
    return ExpectedCounts(total, states[..., 0, :], transitions, states[..., : log_emissions.shape[-2], :])


@jax.jit
def most_probable_paths(
    log_initial: Float[Array, "*#batch S"],
    log_transition: Float[Array, "*#batch S S"],
    log_emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None = None,
) -> tuple[Int[Array, "*batch T"], Float[Array, "*batch"]]:
    """The most probable path of states of each sequence (Viterbi), -1 past its end, and their joint log density.

    Ties go to the lowest states at the end.
    """
    initial, transition, steps, within = _batches_last(log_initial, log_transition, log_emissions, lengths)
    batch = _batch_shape(log_initial, log_transition, log_emissions, lengths)
    active = jnp.ones((len(steps), *(1,) * len(batch)), bool) if within is None else within
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
    return jnp.moveaxis(paths, 0, -1)[..., : log_emissions.shape[-2]], jnp.where(active[0], last.max(0), 0.0)


# --- arrays with time steps or states first, and batches last ---------------------------------------------------------


def _batches_last(
    initial: Float[Array, "*#batch S"],
    transition: Float[Array, "*#batch S S"],
    emissions: Float[Array, "*#batch T S"],
    lengths: Int[Array, "*#batch"] | None,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """The arrays with the same number of batch axes, which come last; and the mask of time steps before the end.

    Where there are no time steps, one past the end stands for them.
    """
    num_axes = len(_batch_shape(initial, transition, emissions, lengths))
    if not emissions.shape[-2]:
        emissions, lengths = jnp.zeros((*emissions.shape[:-2], 1, initial.shape[-1])), np.zeros((), int)

    def turned(array: Array, event: int) -> jax.Array:
        widened = jnp.reshape(array, (1,) * (num_axes + event - array.ndim) + array.shape)
        return jnp.moveaxis(widened, range(num_axes, num_axes + event), range(event))

    steps = turned(emissions, 2)
    numbers = jnp.arange(len(steps)).reshape(-1, *(1,) * num_axes)
    return turned(initial, 1), turned(transition, 2), steps, None if lengths is None else numbers < jnp.asarray(lengths)


def _batch_shape(initial: Array, transition: Array, emissions: Array, lengths: Array | None) -> tuple[int, ...]:
    lengths_shape = () if lengths is None else jnp.shape(lengths)
    return jnp.broadcast_shapes(initial.shape[:-1], transition.shape[:-2], emissions.shape[:-2], lengths_shape)


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
    """The derivative of a log density is linear in the expected counts, which are computed once."""
    value, counts = _value_and_counts(*primals)
    initial_term, transition_term, emission_term = (
        (count * tangent).sum(tuple(range(count.ndim - value.ndim)))
        for count, tangent in zip(counts, tangents[:3], strict=True)
    )
    return value, initial_term + transition_term + emission_term


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
