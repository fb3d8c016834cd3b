"""Many data sets at once, by `vmap`, against one at a time."""

import jax
import numpy as np

log_prob_of = jax.jit(lambda distribution, value: distribution.log_prob(value))  # all operations in one program


def assert_vmap_is_one_by_one(closed_forms, summaries, **tolerance):
    """What a function makes of summaries stacked along a leading axis is what it makes of each."""
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(closed_forms))(jax.tree.map(lambda *leaves: np.stack(leaves), *summaries))
    for index, summary in enumerate(summaries):
        one = jax.tree.map(lambda leaf: np.asarray(leaf)[index], found)  # noqa: B023, called at once
        jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, **tolerance), one, closed_forms(summary))
