"""Climbs of densities that are given by NumPy, one step at a time."""

import numpy as np

from bayesgen.solvers.quasi_newton import Evaluator, advance_climb, along


def evaluator_by_numpy(evaluate, **options):
    """The evaluator of a density given as points -> values and gradients."""

    def climb(center, axes, climb, most_steps, decrement):
        with np.errstate(all="ignore"):
            for _ in range(most_steps):
                values, gradients = evaluate((center + along(axes, climb.trial))[None])
                slope = along(axes.mT if axes.ndim > 1 else axes, gradients[0])
                climb = advance_climb(climb, values[0], slope, decrement)
                if climb.is_over:
                    break
        return climb

    return Evaluator(evaluate, climb, **options)
