"""The No-U-Turn sampler, one leapfrog step at a time.

A growing trajectory is a value of fixed shape, and a step of it a pure function. So vectorised chains never wait for
each other's deepest tree: each goes on to its next draw when its own is done.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.typing import Array, Bool, Float, Int

MAX_DEPTH = 10
TREE, SUBTREE = 0, 1
POSITION, MOMENTUM, GRADIENT = 0, 1, 2


ChainVector: TypeAlias = Float[Array, "*chains D"]
ChainScalar: TypeAlias = Float[Array, "*chains"]
ChainFlag: TypeAlias = Bool[Array, "*chains"]
ChainCount: TypeAlias = Int[Array, "*chains"]
Potential: TypeAlias = Callable[[Array], tuple[Array, Array]]


class Trajectory(NamedTuple):
    """A trajectory of one chain, in coordinates of D dimensions with unit masses.

    Attributes:
        ends: position, momentum and gradient of the potential at the left and at the right end.
        proposals: position and gradient proposed by the tree, and by the growing subtree.
        potentials: the potential there.
        log_weights: logs of the sums of exp(-energy change) over the leaves of each.
        momentum_sums: sums of the momenta of the leaves of each.
        checkpoints: the first leaf of each open subtree of the growing subtree, a row for each: its momentum; the sum
            of the momenta of the growing subtree up to there, half of the leaf's own among them; and the product of the
            two. A last row takes what is not saved.
        directions: the side at which the tree grows in each doubling, as bits.
        energy: at the start of the trajectory.
        accept_sum: sum of the acceptance probabilities of all steps.
        num_steps: number of leapfrog steps.
    """

    ends: Float[Array, "*chains 2 3 D"]
    proposals: Float[Array, "*chains 2 2 D"]
    potentials: Float[Array, "*chains 2"]
    log_weights: Float[Array, "*chains 2"]
    momentum_sums: Float[Array, "*chains 2 D"]
    checkpoints: Float[Array, "*chains depth 2*D+1"]
    directions: ChainCount
    energy: ChainScalar
    accept_sum: ChainScalar
    num_steps: ChainCount

    @property
    def depth(self) -> ChainCount:
        """Number of doublings of the tree, which has this power of two of leaves."""
        return 31 - jax.lax.clz(self.num_steps + 1)

    @property
    def leaf(self) -> ChainCount:
        """Number of leaves of the subtree."""
        return self.num_steps + 1 - (1 << self.depth)

    @property
    def side(self) -> ChainCount:
        """0 or 1, the end at which the subtree grows."""
        return (self.directions >> self.depth) & 1


class Step(NamedTuple):
    """Whether a leapfrog step completed the draw, and whether the trajectory diverged."""

    done: ChainFlag
    diverging: ChainFlag


def no_checkpoints(like: ChainVector) -> Float[np.ndarray, "*chains depth 2*D+1"]:
    """Those of chains of which no subtree is open."""
    *chains, dimension = like.shape
    return np.zeros((*chains, MAX_DEPTH + 1, 2 * dimension + 1), like.dtype)


def begin(
    position: ChainVector,
    potential: ChainScalar,
    gradient: ChainVector,
    momentum: ChainVector,
    directions: ChainCount,
    checkpoints: Float[Array, "*chains depth 2*D+1"] | None = None,
) -> Trajectory:
    """A trajectory of one point. The arrays of checkpoints of the last one may be reused."""
    end = jnp.stack([position, momentum, gradient])
    proposal = jnp.stack([position, gradient])
    return Trajectory(
        ends=jnp.stack([end, end]),
        proposals=jnp.stack([proposal, proposal]),
        potentials=jnp.stack([potential, potential]),
        log_weights=jnp.zeros(2, position.dtype),
        momentum_sums=jnp.stack([momentum, jnp.zeros_like(momentum)]),
        checkpoints=no_checkpoints(position) if checkpoints is None else checkpoints,
        directions=directions,
        energy=potential + 0.5 * (momentum**2).sum(),
        accept_sum=jnp.zeros((), position.dtype),
        num_steps=jnp.zeros((), jnp.int32),
    )


def is_turning(
    first: Float[Array, "*depth D"], last: ChainVector, total: Float[Array, "*depth D"]
) -> Bool[Array, "*depth"]:
    """Whether a stretch of a trajectory turns back, by the momenta at its ends and their sum over all of it."""
    inner = total - 0.5 * (first + last)
    return ((first * inner).sum(-1) <= 0) | ((last * inner).sum(-1) <= 0)


def extend(
    value_and_gradient: Potential, trajectory: Trajectory, step_size: ChainScalar, log_uniforms: Float[Array, " 2"]
) -> tuple[Trajectory, Step]:
    """Take one leapfrog step, with multinomial sampling, doubling of the tree and the end of the draw.

    Args:
        value_and_gradient: position -> the potential and its gradient.
        trajectory: the trajectory so far.
        step_size: of the integrator.
        log_uniforms: logs of two uniform numbers.

    Returns:
        (trajectory, `Step`). Where the step is the draw's last, `proposals[TREE]` is the draw.

    Source: Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo, appendix A; iterative
    form of Phan, Pradhan and Jankowiak (2019), algorithm 2.
    """
    t, leaf = trajectory, trajectory.leaf
    new, potential = _leapfrog(value_and_gradient, t, step_size)
    momentum = new[MOMENTUM]
    change = potential + 0.5 * (momentum**2).sum() - t.energy
    change = jnp.where(jnp.isnan(change), jnp.inf, change)
    total = momentum + jnp.where(leaf == 0, 0.0, t.momentum_sums[SUBTREE])
    checkpoints, turning = _check_subtrees(t, momentum, total)
    ends = jnp.where((jnp.arange(2) == t.side)[:, None, None], new, t.ends)
    tree_sum = t.momentum_sums[TREE] + total
    tree_turning = is_turning(ends[0, MOMENTUM], ends[1, MOMENTUM], tree_sum)

    diverging = change > 1000.0  # as in NumPyro and Stan
    failed = turning | diverging
    complete = failed | (leaf + 1 == 1 << t.depth)
    merged = complete & ~failed
    done = complete & (failed | tree_turning | (t.depth + 1 == MAX_DEPTH))
    log_weight = jnp.where(leaf == 0, -change, jnp.logaddexp(t.log_weights[SUBTREE], -change))
    take = (leaf == 0) | (log_uniforms[0] < -change - log_weight)
    pick = merged & (log_uniforms[1] < log_weight - t.log_weights[TREE])
    take, pick, merged, done = _settled(take, pick, merged, done)

    point = jnp.stack([new[POSITION], new[GRADIENT]])
    proposals, potentials = _choose(t, take, pick, point, potential)
    tree_weight = jnp.where(merged, jnp.logaddexp(t.log_weights[TREE], log_weight), t.log_weights[TREE])
    following = Trajectory(
        ends=ends,
        proposals=proposals,
        potentials=potentials,
        log_weights=jnp.stack([tree_weight, log_weight]),
        momentum_sums=jnp.stack([jnp.where(merged, tree_sum, t.momentum_sums[TREE]), total]),
        checkpoints=checkpoints,
        directions=t.directions,
        energy=t.energy,
        accept_sum=t.accept_sum + jnp.exp(jnp.minimum(0.0, -change)),
        num_steps=t.num_steps + 1,
    )
    return following, Step(done, diverging)


def _settled(*flags: ChainFlag) -> tuple[ChainFlag, ...]:
    """The flags, as results of a product of matrices, which XLA computes once.

    Otherwise XLA computes them again inside every fused kernel that uses them, for each number of its array. It fuses
    no product of matrices, and does not look for identities among them; an optimisation barrier is dropped before JAX
    0.11.
    """
    return tuple(jnp.stack(flags).astype(jnp.float32) @ jnp.eye(len(flags), dtype=jnp.float32) > 0.5)


def _leapfrog(
    value_and_gradient: Potential, trajectory: Trajectory, step_size: ChainScalar
) -> tuple[Float[Array, "3 D"], ChainScalar]:
    """The point after the growing end, and its potential."""
    position, momentum, gradient = jnp.where(trajectory.side == 1, trajectory.ends[1], trajectory.ends[0])
    step = jnp.where(trajectory.side == 1, step_size, -step_size)
    momentum = momentum - 0.5 * step * gradient
    position = position + step * momentum
    potential, slope = value_and_gradient(position)
    return jnp.stack([position, momentum - 0.5 * step * slope, slope]), potential


def _check_subtrees(
    trajectory: Trajectory, momentum: ChainVector, total: ChainVector
) -> tuple[Float[Array, "*chains depth 2*D+1"], ChainFlag]:
    """Save the first leaf of subtrees; the checkpoints, and whether a subtree that ends at this leaf turns.

    A leaf of even number n starts subtrees, and is saved in row popcount(n / 2) of the checkpoints. A leaf of odd
    number n ends as many subtrees as n has trailing ones. `is_turning` of all rows is two products of a matrix and a
    vector, and no array is written but the saved row, so that time hardly grows with the depth.
    """
    leaf = trajectory.leaf
    top = jax.lax.population_count(leaf >> 1)
    ending = jax.lax.population_count((~leaf & (leaf + 1)) - 1)
    reached = total - 0.5 * momentum
    product = momentum @ reached
    place = jnp.where(leaf % 2 == 0, top, MAX_DEPTH)
    row = jnp.concatenate([momentum, reached, product[None]])
    checkpoints = jnp.asarray(trajectory.checkpoints).at[place].set(row)
    by_first = checkpoints[:, : len(momentum)] @ reached - checkpoints[:, -1]
    by_last = product - checkpoints[:, len(momentum) : -1] @ momentum
    rows = jnp.arange(MAX_DEPTH + 1)
    turning = ((by_first <= 0) | (by_last <= 0)) & (rows <= top) & (rows > top - ending)
    return checkpoints, jnp.any(turning)


def _choose(
    trajectory: Trajectory, take: ChainFlag, pick: ChainFlag, point: Float[Array, "2 D"], potential: ChainScalar
) -> tuple[Float[Array, "2 2 D"], Float[Array, " 2"]]:
    """The proposals of tree and subtree after a new leaf, and their potentials."""
    subtree = jnp.where(take, point, trajectory.proposals[SUBTREE])
    value = jnp.where(take, potential, trajectory.potentials[SUBTREE])
    tree = jnp.where(pick, subtree, trajectory.proposals[TREE])
    tree_value = jnp.where(pick, value, trajectory.potentials[TREE])
    return jnp.stack([tree, subtree]), jnp.stack([tree_value, value])
