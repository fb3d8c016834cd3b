"""A density and its gradient by the function that samples from it, so that looking for its mode compiles nothing."""

from typing import Any

import jax
import numpy as np

from bayesgen.typing import Float

from .chains import draw_numbers, start
from .evaluator import Evaluator, in_batches
from .sampler import advance_of, groups
from .trajectory import POSITION, TREE
from .whitening import Whitened

GRADIENT = 1  # of what a trajectory proposes


def evaluator_by_steps(density: Whitened, num_chains: int) -> Evaluator:
    """The evaluator of a density at whitened points: leapfrog steps of length zero tell what it is where they start.

    They are the first steps of their trajectories, which are taken as they are wherever the density is finite.

    Args:
        density: log density, of the form that will be sampled.
        num_chains: as the sampler will be given.
    """
    size, random = groups(num_chains)[0], np.random.default_rng(0)
    resting = start(density.dimension, random, size)._replace(step_size=np.zeros(size))
    numbers, wanted = draw_numbers(random, size, density.dimension), np.ones(size, np.int32)
    ends = np.asarray(resting.trajectory.ends)
    density, resting, numbers, wanted = jax.device_put((density, resting, numbers, wanted))

    def step(points: Float[np.ndarray, "points D"], _: int) -> tuple[Any, Any]:
        ends[:, :, POSITION] = points[:, None]
        chains = resting._replace(trajectory=resting.trajectory._replace(ends=ends.copy()))
        after = advance_of(density)(density, chains, numbers, wanted, 0.5, False, 1)[0].trajectory
        return -np.asarray(after.potentials)[:, TREE], -np.asarray(after.proposals)[:, TREE, GRADIENT]

    return Evaluator(in_batches(step, size), density.density.blocks)
