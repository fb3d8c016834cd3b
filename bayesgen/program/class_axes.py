"""Which axes of a program's latents have an entry for each class: found by changing entries one at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.typing import Array, Bool, PRNGKeyArray, Shaped

from .arbitrary import run
from .base import Arrays, Program
from .evaluation import evaluate
from .probe import QUICKLY


class Change(NamedTuple):
    """Another value at one entry, along one axis, of a latent."""

    name: str
    axis: int
    entry: int


def find_class_axes(program: Program) -> dict[str, int]:
    """The axis that is the class, by the name of a latent or deterministic site that has one. Inside float64.

    An axis of a latent is the class if its entry k changes the distributions of class k (of its attributes, or its
    probability) and those of no other. An axis of a deterministic site is the class if such changes of class k change
    its entry k alone.
    """
    changes = _changes(program)
    if not changes or program.num_classes < 2:
        return {}
    moved, deterministics_moved = _effects(program, changes)
    axes = {change.name: change.axis for change in changes if _is_class(moved, changes, {(change.name, change.axis)})}
    of_latents = set(axes.items())
    for name, values_moved in deterministics_moved.items():
        for axis in range(1, values_moved.ndim):
            if values_moved.shape[axis] == program.num_classes and _is_class(
                _any_along([values_moved], axis), changes, of_latents
            ):
                axes.setdefault(name, axis - 1)
    return axes


def _changes(program: Program) -> list[Change]:
    """The changes of every entry along every axis of latents that is as long as there are classes."""
    shapes = jax.eval_shape(lambda key: _arbitrary_values(program, key)[0], jax.random.key(0))
    return [
        Change(name, axis, entry)
        for name, leaf in shapes.items()
        for axis, size in enumerate(leaf.shape)
        if size == program.num_classes
        for entry in range(program.num_classes)
    ]


def _effects(
    program: Program, changes: list[Change]
) -> tuple[Bool[np.ndarray, "changes K"], dict[str, Bool[np.ndarray, "changes ..."]]]:
    """Which classes have other distributions after each change, and which entries of deterministic sites changed."""

    def differences(
        key: PRNGKeyArray, other_key: PRNGKeyArray
    ) -> tuple[list[Bool[Array, "..."]], dict[str, Bool[Array, "..."]]]:
        latents, rows = _arbitrary_values(program, key)
        other_latents, _ = _arbitrary_values(program, other_key)
        changed = [_changed(latents, other_latents, change) for change in changes]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), latents, *changed)
        # all in one computation, so that what is unchanged is equal to the last bit
        values = jax.vmap(lambda latents: _values_of_classes(program, latents, rows))(stacked)
        return jax.tree.map(lambda leaf: leaf[1:] != leaf[:1], values)

    keys = jax.random.split(jax.random.key(0))
    of_classes, of_deterministics = jax.tree.map(np.asarray, jax.jit(differences, compiler_options=QUICKLY)(*keys))
    return _any_along(of_classes, -1), of_deterministics


def _arbitrary_values(program: Program, key: PRNGKeyArray) -> tuple[dict[str, Array], dict[str, Array]]:
    """Latents, and a row for each class."""
    trace = run(program, program.num_classes, key=key)
    rows = {name: site.from_site(trace[name]["value"]) for name, site in program.structure.attributes}
    return {name: trace[name]["value"] for name in program.latents}, rows


def _values_of_classes(
    program: Program, latents: Arrays, rows: Arrays
) -> tuple[list[Shaped[Array, "... K"]], dict[str, Array]]:
    """Arrays with the class as last axis that tell the distributions of the classes, and deterministic values."""
    evaluation = evaluate(program, latents, jnp.arange(program.num_classes), rows)
    log_probs = evaluation.row_log_probs(program.attributes)
    leaves = [] if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"])
    of_label = [leaf for leaf in leaves if jnp.shape(leaf)[-1:] == (program.num_classes,)]
    return [*log_probs.values(), *of_label], evaluation.deterministics


def _changed(latents: Arrays, other_latents: Arrays, change: Change) -> dict[str, Array]:
    """The latents after a change."""
    place = (slice(None),) * change.axis + (change.entry,)
    value = jnp.asarray(latents[change.name]).at[place].set(other_latents[change.name][place])
    return {**latents, change.name: value}


def _any_along(arrays: list[Bool[np.ndarray, "changes ..."]], axis: int) -> Bool[np.ndarray, "changes K"]:
    """Whether anything changed for each change and entry along an axis."""
    flat = [np.moveaxis(array, axis, 1) for array in arrays]
    return np.any([array.reshape(*array.shape[:2], -1).any(-1) for array in flat], axis=0)


def _is_class(moved: Bool[np.ndarray, "changes K"], changes: list[Change], chosen: set[tuple[str, int]]) -> bool:
    """Whether changes of entry k, among those chosen, move what is at k and nothing else; for every k."""
    entries: set[int] = set()
    for (name, axis, entry), row in zip(changes, moved, strict=True):
        if (name, axis) in chosen:
            if row.sum() > row[entry]:
                return False
            entries |= {entry} if row[entry] else set()
    return len(entries) == moved.shape[1]
