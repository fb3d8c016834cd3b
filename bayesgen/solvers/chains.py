"""Chains between two leapfrog steps, where they start, and the random numbers that move them."""

from typing import NamedTuple

import numpy as np

from bayesgen.typing import Array, Float, Int

from .trajectory import GRADIENT, MAX_DEPTH, POSITION, Trajectory

MOST_DRAWS, MOST_STEPS = 256, 2048  # of a chain, in one call of the compiled function
MOST_NUMBERS = 2**24  # of random momenta, in one call


class RandomNumbers(NamedTuple):
    """Random numbers for one call: NumPy's, since those of JAX would take a tenth of the time of compiling.

    Attributes:
        momenta: (chains, draws, D), normal.
        directions: (chains, draws), 31 random bits, which are more than a tree has doublings.
        log_uniforms: (steps, chains, 2), logs of uniform numbers.
    """

    momenta: Float[Array, "chains draws D"]
    directions: Int[Array, "chains draws"]
    log_uniforms: Float[Array, "steps chains 2"]


class Chain(NamedTuple):
    """One chain between two leapfrog steps.

    Attributes:
        trajectory: what is being built.
        step_size: of the integrator.
        averages: (4,), of the dual averaging: mean log step size, mean error, number of draws, log of the first guess.
        num_draws: draws made in this call.
    """

    trajectory: Trajectory
    step_size: Float[Array, "*chains"]
    averages: Float[Array, "*chains 4"]
    num_draws: Int[Array, "*chains"]


def start(dimension: int, random: np.random.Generator, size: int) -> Chain:
    """Chains at dispersed points not far from the mode, in NumPy: nothing is compiled for them.

    Their potential is put at infinity, so that their first step is accepted whatever it leads to: this saves the
    compiling of a gradient for the starting points alone.
    """
    momenta, zeros = random.normal(size=(size, dimension)), np.zeros((size, dimension))
    point = np.stack([0.5 * random.normal(size=(size, dimension)), momenta, zeros], axis=1)
    ends = np.stack([point, point], axis=1)
    directions = _directions(random, size)
    zero, infinite = np.zeros(size, np.int32), np.full(size, np.inf)
    guess = np.full(size, 1.4 * dimension**-0.25)  # the optimum scales so; the factor is that of a normal density
    trajectory = Trajectory(
        ends=ends,
        proposals=ends[:, :, [POSITION, GRADIENT]],
        potentials=np.stack([infinite, infinite], axis=1),
        log_weights=np.zeros((size, 2)),
        momentum_sums=np.stack([momenta, zeros], axis=1),
        checkpoints=np.zeros((size, MAX_DEPTH, 2, dimension)),
        side=directions & 1,
        directions=directions >> 1,
        depth=zero,
        leaf=zero,
        energy=infinite,
        accept_sum=np.zeros(size),
        num_steps=zero,
    )
    averages = np.stack([0 * guess, 0 * guess, 0 * guess, np.log(10 * guess)], axis=1)
    return Chain(trajectory, guess, averages, zero)


def draw_numbers(random: np.random.Generator, size: int, dimension: int) -> RandomNumbers:
    """`RandomNumbers` for so many chains: for as many draws as one call makes at most, and one that is begun then."""
    most = int(np.clip(MOST_NUMBERS // (size * dimension), 16, MOST_DRAWS)) + 1
    log_uniforms = np.log1p(-random.random((MOST_STEPS, size, 2)))
    return RandomNumbers(random.normal(size=(size, most, dimension)), _directions(random, (size, most)), log_uniforms)


def _directions(random: np.random.Generator, shape: int | tuple[int, ...]) -> Int[np.ndarray, "..."]:
    return random.integers(0, 2**31, shape, np.int32)
