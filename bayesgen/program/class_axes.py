"""Which axes of a program's latents have an entry for each class: found by changing entries one at a time."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .arbitrary import run
from .evaluation import evaluate, row_log_probs
from .probe import QUICKLY
from .structure import Structure

Change = tuple[str, int, int]  # a latent, an axis of it, and the entry along that axis that is changed


def find_class_axes(function: Callable, structure: Structure, num_classes: int, covariates: Callable) -> dict[str, int]:
    """Name -> the axis that is the class, for the latents and deterministic sites that have one.

    An axis of a latent is the class if its entry k changes the distributions of class k (of its attributes, or its
    probability) and those of no other. An axis of a deterministic site is the class if such changes of class k change
    its entry k alone.

    Args:
        covariates: function size -> name -> (size, ...) example covariates.
    """
    given = covariates(num_classes)
    keys = jax.random.split(jax.random.key(0))

    def values(key):
        trace = run(function, num_classes, given, key)
        rows = {name: site.from_site(trace[name]["value"]) for name, site in structure.attributes}
        return {name: trace[name]["value"] for name, _ in structure.latents}, rows

    def of_classes(latents, rows):
        """(arrays with the class as last axis, deterministic values)."""
        evaluation = evaluate(function, structure, latents, jnp.arange(num_classes), rows, given)
        log_probs = row_log_probs(evaluation, structure, [name for name, _ in structure.attributes])
        leaves = [] if evaluation.label is None else jax.tree.leaves(evaluation.label["fn"])
        label = [leaf for leaf in leaves if jnp.shape(leaf)[-1:] == (num_classes,)]
        return [*log_probs.values(), *label], evaluation.deterministics

    shapes = jax.eval_shape(values, keys[0])[0]
    changes: list[Change] = [
        (name, axis, entry)
        for name, leaf in shapes.items()
        for axis, size in enumerate(leaf.shape)
        if size == num_classes
        for entry in range(num_classes)
    ]
    if not changes or num_classes < 2:
        return {}

    def differences(keys):
        (latents, rows), (others, _) = values(keys[0]), values(keys[1])
        changed = [{**latents, name: _changed(latents[name], others[name], *at)} for name, *at in changes]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), latents, *changed)
        # all in one computation, so that what is unchanged is equal to the last bit
        values_of_all = jax.vmap(lambda one: of_classes(one, rows))(stacked)
        return jax.tree.map(lambda leaf: leaf[1:] != leaf[:1], values_of_all)

    of_class, deterministics = jax.tree.map(np.asarray, jax.jit(differences, compiler_options=QUICKLY)(keys))
    moved = _any_along(of_class, -1)
    found = {name: axis for name, axis, _ in changes if _is_class(moved, changes, {(name, axis)})}
    chosen = set(found.items())
    for name, values_moved in deterministics.items():
        for axis in range(1, values_moved.ndim):
            if values_moved.shape[axis] == num_classes and _is_class(_any_along([values_moved], axis), changes, chosen):
                found.setdefault(name, axis - 1)
    return found


def _changed(value, other, axis, entry):
    place = (slice(None),) * axis + (entry,)
    return value.at[place].set(other[place])


def _any_along(arrays, axis):
    """Whether anything changed for each change and entry along an axis, (changes, K)."""
    flat = [np.moveaxis(array, axis, 1) for array in arrays]
    return np.any([array.reshape(*array.shape[:2], -1).any(-1) for array in flat], axis=0)


def _is_class(moved, changes, chosen):
    """Whether changes of entry k, among those chosen, move what is at k and nothing else; for every k."""
    found: set[int] = set()
    for (name, axis, entry), row in zip(changes, moved, strict=True):
        if (name, axis) in chosen:
            if row.sum() > row[entry]:
                return False
            found |= {entry} if row[entry] else set()
    return len(found) == moved.shape[1]
