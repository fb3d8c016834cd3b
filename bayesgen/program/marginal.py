"""Log probabilities of rows, their local latents summed and integrated out. Traceable."""

from collections.abc import Collection

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.data import Rows
from bayesgen.describe import quote_some
from bayesgen.errors import ModelError
from bayesgen.typing import Array, Float

from .evaluation import evaluate
from .integration import MOST_AXES, log_integrals
from .structure import Arrays, Program


def class_table(program: Program, latents: Arrays, rows: Rows, names: Collection[str]) -> Float[Array, "n K"]:
    """Log probability of these sites of each row under each class, local latents marginalised.

    That of attributes is of their observed cells, that of the label of the class itself.
    """
    table = joint_table(program, latents, rows, names)
    return logsumexp(table, axis=2) if program.structure.num_joint_values > 1 else table[..., 0]


def joint_table(program: Program, latents: Arrays, rows: Rows, names: Collection[str]) -> Float[Array, "n K J"]:
    """Log probability of these sites of each row under each class and joint value of the discrete local latents.

    The program is run with copies of a row, one under each class and joint value, and mapped over the rows: terms that
    depend on latents alone (a Cholesky factor, say) are computed for the copies and not once a row.

    Continuous local latents are integrated out, unless the values of the rows hold them, unconstrained.

    Raises:
        ModelError: too many of them.
    """
    structure = program.structure
    shape = program.num_classes, structure.num_joint_values
    codes, joint = (index.ravel() for index in np.indices(shape))
    discrete = {name: values[joint] for name, values in structure.joint_values().items()}
    num_axes, given = structure.num_free_local, dict(rows.values)
    known = {name: given.pop(name) for name, _ in structure.continuous_local if name in given}
    if num_axes > MOST_AXES and not known:
        raise ModelError(
            f"The continuous latents of each row, {quote_some([name for name, _ in structure.continuous_local])}, have "
            f"{num_axes} coordinates, and up to {MOST_AXES} are integrated out in prediction. Integrate some out "
            "in the program; fit.parameters has all of those of the training rows."
        )
    shift = sum((jnp.sum(value) for value in latents.values()), start=jnp.zeros(()))

    def of_row(row: tuple[Arrays, Arrays, Arrays], known: Arrays) -> Float[Array, "K J"]:
        values, covariates, masks = jax.tree.map(broadcast, row)

        def of_copies(free: Arrays) -> Float[Array, " copies"]:
            given = {**values, **discrete}
            evaluation = evaluate(
                program, latents, jnp.asarray(codes), given, covariates, observed=masks, free_local=free
            )
            start = jnp.zeros(len(codes)) + evaluation.local_log_jacobian
            return sum(evaluation.row_log_probs(names).values(), start=start)

        if known or not num_axes:
            return of_copies(jax.tree.map(broadcast, known)).reshape(shape)
        logs = log_integrals(lambda points: of_copies(structure.free_local(points)), len(codes), num_axes, shift)
        return logs.reshape(shape)

    def broadcast(cell: Array) -> Array:
        return jnp.broadcast_to(cell, (len(codes), *jnp.shape(cell)))

    return jax.vmap(of_row)((given, rows.covariates, rows.observed), known)
