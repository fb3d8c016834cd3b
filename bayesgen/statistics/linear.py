"""Densities of rows under many processes: an anchor, and inner products of a vector a process with a vector a row.

The anchor is the density under one process in the middle of them. What the others add to it is a small number, made of
columns in the anchor's units, so that single precision has digits enough for it whatever the data's offset and scale,
but for rows that are many units away.
"""

import jax.numpy as jnp

MOST_FOR_MIDDLE = 101  # draws of which the middle is taken


def few(draws):
    """Some of the draws (the first axis), spread evenly: enough to say where the middle is."""
    return draws[:: -(-len(draws) // MOST_FOR_MIDDLE)]


def middle(draws):
    """A value amid those of the draws: their median, which outliers do not move."""
    return jnp.median(few(draws), axis=0)
