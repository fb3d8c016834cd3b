"""Log probabilities of rows, their local latents summed and integrated out, and draws of these. Traceable."""

from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.data import Rows
from bayesgen.describe import quote_some
from bayesgen.errors import ModelError
from bayesgen.typing import Array, Float

from .evaluation import evaluate
from .integration import IN_ONE, MOST_AXES, DensityLine, LogDensities, NormalLine, log_integrals
from .structure import Arrays, Program

Row = tuple[Arrays, Arrays, Arrays]  # values, covariates and masks of a row


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
    num_copies, num_axes, values = shape[0] * shape[1], structure.num_free_local, dict(rows.values)
    free_local = {name: values.pop(name) for name, _ in structure.continuous_local if name in values}
    if num_axes > MOST_AXES and not free_local:
        raise ModelError(
            f"The continuous latents of each row, {quote_some([name for name, _ in structure.continuous_local])}, have "
            f"{num_axes} coordinates, and up to {MOST_AXES} are integrated out in prediction. Integrate some out "
            "in the program; fit.parameters has all of those of the training rows."
        )
    shift = sum((jnp.sum(value) for value in latents.values()), start=jnp.zeros(()))

    def row_table(row: Row, free_local: Arrays) -> Float[Array, "K J"]:
        if free_local or not num_axes:
            log_probs = _log_prob_of_copies(program, row, names)
            return log_probs(latents, _repeated(free_local, num_copies)).reshape(shape)
        log_densities = _log_densities_of_copies(program, row, names)
        if structure.has_normal_rows:
            return NormalLine.of(log_densities, latents, num_copies).log_integrals.reshape(shape)
        return log_integrals(log_densities, latents, num_copies, num_axes, shift).reshape(shape)

    return jax.vmap(row_table)((values, rows.covariates, rows.observed), free_local)


def row_draws(
    program: Program, latents: Arrays, rows: Rows, names: Collection[str], key: Any
) -> tuple[dict[str, Float[Array, "n ..."]], Float[Array, " n"]]:
    """A draw of the unconstrained latent of each row, which has one coordinate, given the row and its label, if any.

    Also the error of the log of the integral over it.
    """
    structure = program.structure
    classes = np.repeat(np.arange(program.num_classes), structure.num_joint_values)

    def row_draw(row: Row, code: Array, key: Any) -> tuple[Float[Array, " 1"], Float[Array, ""]]:
        log_densities, keys = _log_densities_of_copies(program, row, names), jax.random.split(key)
        possible = (code < 0) | (classes == code)
        if structure.has_normal_rows:
            normal = NormalLine.of(log_densities, latents, len(classes))
            chosen = jax.random.categorical(keys[1], jnp.where(possible, normal.log_integrals, -jnp.inf))
            point = normal.means[chosen] + normal.deviations[chosen] * jax.random.normal(keys[0])
            return point[None], jnp.where(possible, normal.errors, 0.0).sum()
        line = DensityLine.of(log_densities, latents, len(classes), 2 * IN_ONE - 1)
        fine, coarse = (jnp.where(possible, line.log_integrals(every), -jnp.inf) for every in (1, 2))
        point = line.draw(log_densities, latents, keys[0])[jax.random.categorical(keys[1], fine)]
        return point[None], logsumexp(coarse) - logsumexp(fine)

    codes = jnp.full(rows.num_rows, -1) if rows.labels is None else jnp.asarray(rows.labels)
    keys = jax.random.split(key, rows.num_rows)
    points, errors = jax.vmap(row_draw)((rows.values, rows.covariates, rows.observed), codes, keys)
    return structure.free_local(points), errors


def errors_of_normal(program: Program, latents: Arrays, rows: Rows) -> Float[Array, ""]:
    """Zero if the latent of each row is normal given latents, row and each class, else NaN."""

    num_copies = program.num_classes * program.structure.num_joint_values

    def row_error(row: Row) -> Float[Array, ""]:
        log_densities = _log_densities_of_copies(program, row, program.row_sites)
        return NormalLine.of(log_densities, latents, num_copies).errors.sum()

    return jax.vmap(row_error)((rows.values, rows.covariates, rows.observed)).sum()


def _log_prob_of_copies(
    program: Program, row: Row, names: Collection[str]
) -> Callable[[Arrays, Arrays], Float[Array, " copies"]]:
    """Log probabilities of a row's copies, one under each class and joint value, at latents and free local latents."""
    structure = program.structure
    codes, joint = (index.ravel() for index in np.indices((program.num_classes, structure.num_joint_values)))
    discrete = {name: values[joint] for name, values in structure.joint_values().items()}
    values, covariates, masks = _repeated(row, len(codes))

    def log_probs(latents: Arrays, free: Arrays) -> Float[Array, " copies"]:
        copies = {**values, **discrete}
        evaluation = evaluate(program, latents, jnp.asarray(codes), copies, covariates, observed=masks, free_local=free)
        start = jnp.zeros(len(codes)) + evaluation.local_log_jacobian
        return sum(evaluation.row_log_probs(names).values(), start=start)

    return log_probs


def _log_densities_of_copies(program: Program, row: Row, names: Collection[str]) -> LogDensities:
    """`_log_prob_of_copies` at latents and vectors of the free local latents."""
    log_probs = _log_prob_of_copies(program, row, names)
    return lambda latents, points: log_probs(latents, program.structure.free_local(points))


def _repeated(row: Any, times: int) -> Any:
    """The cells of a row, repeated along a first axis."""
    return jax.tree.map(lambda cell: jnp.broadcast_to(cell, (times, *jnp.shape(cell))), row)
