"""Whether hidden states have names of their own, or are exchangeable, so that draws may swap them."""

import functools
import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.data import Rows
from bayesgen.runtime import OwnedJit
from bayesgen.statistics import StatesStatistic
from bayesgen.typing import Array, Bool, Int

from .base import Arrays, Program
from .evaluation import evaluate_classes
from .hidden_states import shape_of_states
from .joint import log_joint_of

MOST_AXES = 12  # of latents, of which every choice is tried
FEW_ROWS = 8  # on which densities are compared
DIGITS = 1e-6  # to which two densities agree that are one in other words

Axis = tuple[str, int]


def are_exchangeable(program: Program, latents: Arrays, class_axes: Mapping[str, int], rows: Rows, site: str) -> bool:
    """Whether a process with the states of a site in another order is the same process, as probable beforehand.

    A program does not say which axes of its latents have an entry for each state: where a choice of axes does it, they
    are. Every order comes of swapping the first two states and of moving all of them on by one. Where more than
    MOST_AXES axes have as many entries as there are states, nothing is tried, and states keep their names.

    Args:
        program: with hidden states at `site`.
        latents: a process.
        class_axes: the axis of the classes, by the name of a latent that has one and is known to.
        rows: some data, all of whose sites have to be as probable as before.
        site: whose states.
    """
    known, some = {name: latents[name] for name in program.latents}, rows.take(slice(0, FEW_ROWS))
    num_states = shape_of_states(program, latents, rows, site)[-1]
    axes = tuple(
        (name, axis)
        for name, value in known.items()
        for axis, size in enumerate(np.shape(value))
        if size == num_states and class_axes.get(name) != axis
    )
    if len(axes) > MOST_AXES:
        return False
    choices = np.array(list(itertools.product((False, True), repeat=len(axes))), bool)
    swapped, moved = np.arange(num_states), np.roll(np.arange(num_states), 1)
    swapped[:2] = [1, 0]
    with jax.enable_x64(True):
        is_same = [_is_same(program, known, some, choices, order, axes=axes, site=site) for order in (swapped, moved)]
    return bool(np.all(is_same, axis=0).any())


@functools.partial(OwnedJit, static_argnames=("axes", "site"))
def _is_same(
    program: Program,
    latents: Arrays,
    rows: Rows,
    choices: Bool[Array, "choices axes"],
    order: Int[Array, " S"],
    *,
    axes: tuple[Axis, ...],
    site: str,
) -> Bool[Array, " choices"]:
    """By which choices of axes an order of their entries gives the same process with its states in that order."""

    def facts(latents: Arrays, order: Int[Array, " S"]) -> list[Array]:
        evaluation = evaluate_classes(program, latents, rows.covariates)
        conditional = evaluation.compressed(site)
        assert isinstance(conditional.statistic, StatesStatistic)
        in_order = conditional.statistic.in_order(conditional.parameters, order)
        return [evaluation.log_prior, log_joint_of(program, evaluation, rows), *jax.tree.leaves(in_order)]

    expected = facts(latents, order)

    def is_same(choice: Bool[Array, " axes"]) -> Bool[Array, ""]:
        other = dict(latents)
        for (name, axis), is_chosen in zip(axes, choice, strict=True):
            other[name] = jnp.where(is_chosen, jnp.take(other[name], order, axis), other[name])
        found = facts(other, jnp.arange(len(order)))
        agree = [jnp.allclose(one, another, DIGITS, DIGITS) for one, another in zip(found, expected, strict=True)]
        return jnp.stack(agree).all()

    return jax.lax.map(is_same, choices)
