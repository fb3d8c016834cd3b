"""Densities of rows under many processes: an anchor, and inner products of a vector a process with a vector a row.

The anchor is the density under one process in the middle of them. What the others add to it is a small number, made of
columns in the anchor's units, so that single precision has digits enough for it whatever the data's offset and scale.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

MOST_FOR_CENTER = 101  # draws of which the middle is taken


class Linear(NamedTuple):
    """K class-conditional densities under many processes, ready to meet rows.

    Attributes:
        frame: the process in the middle, as the statistic's `features` takes it; any pytree.
        weights: (draws, K, F), what multiplies the features of a row.
        constant: (draws, K), what is added for every row.
    """

    frame: Any
    weights: Any
    constant: Any


def middle(draws):
    """A value amid those of the draws (the first axis): their median, which outliers do not move."""
    return jnp.median(draws[:: -(-len(draws) // MOST_FOR_CENTER)], axis=0)
