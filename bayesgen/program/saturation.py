"""Draws at the edge of floating point, where a program's own density is no longer the one it states.

Within 1e-16 of 1 a probability p has no digits left for 1 - p. The models of this package are sampled in coordinates
that have them; a program of one's own may use 1 - p in any way, and is only warned.
"""

from collections.abc import Mapping

import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.typing import Bool, Float

SHARE = 1e-3  # of the draws, from which on it is said
SMALLEST = 1e-300
NEXT_TO_ONE = 1 - 1e-15


def saturated_sites(
    supports: Mapping[str, Constraint], latents: Mapping[str, Float[np.ndarray, "chain draw *shape"]]
) -> list[str]:
    """What to say of each latent site, of known support, whose draws lie at the edge of floating point."""
    problems = []
    for name, draws in latents.items():
        share = _edge(supports[name], draws).mean()
        if share >= SHARE:
            problems.append(
                f"{share:.1%} of the draws of site {name!r} lie at the edge of floating point (a probability within "
                "1e-15 of 1, or a number below 1e-300), where the program's density is not resolved: sample the "
                "site's log odds (or its logarithm) in its place, and use numpyro.distributions that take logits"
            )
    return problems


def _edge(support: Constraint, draws: Float[np.ndarray, "chain draw *shape"]) -> Bool[np.ndarray, "chain draw *shape"]:
    """Which draws are at the edge of a support; none are where it has no edge that is known."""
    if support in (constraints.unit_interval, constraints.simplex):
        return (draws > NEXT_TO_ONE) | (draws < SMALLEST)
    if support in (constraints.positive, constraints.nonnegative):
        return draws < SMALLEST
    return np.zeros(draws.shape, bool)
