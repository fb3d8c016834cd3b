"""A density and its gradient by the function that samples from it, so that looking for its mode compiles nothing."""

import jax
import numpy as np

from .curvature import Surface, in_batches
from .sampler import advance_of, draw_numbers, groups, start
from .trajectory import POSITION, TREE

GRADIENT = 1  # of what a trajectory proposes


def surface_by_steps(density, num_chains):
    """A density as a `Surface`: leapfrog steps of length zero tell what it is where they start.

    They are the first steps of their trajectories, which are taken as they are wherever the density is finite.

    Args:
        density: (program, evidence, whitening).
        num_chains: as the sampler will be given.
    """
    program, _, whitening = density
    size, random = groups(num_chains)[0], np.random.default_rng(0)
    resting = start(len(whitening.center), random, size)._replace(step_size=np.zeros(size))
    numbers, wanted = draw_numbers(random, size, len(whitening.center)), np.ones(size, np.int32)
    ends = resting.trajectory.ends
    density, resting, numbers, wanted = jax.device_put((density, resting, numbers, wanted))

    def step(points, _):
        ends[:, :, POSITION] = points[:, None]
        chains = resting._replace(trajectory=resting.trajectory._replace(ends=ends.copy()))
        found = advance_of(density)(density, chains, numbers, wanted, 0.5, False, 1)[0].trajectory
        return -np.asarray(found.potentials)[:, TREE], -np.asarray(found.proposals)[:, TREE, GRADIENT]

    return Surface(in_batches(step, size), program.structure, program.num_classes)
