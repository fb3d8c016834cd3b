"""Tables of log-joints log p(x_i, y = k | Q) of rows, at one process or at many."""

import dataclasses
import functools
import math
from collections.abc import Collection

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.runtime import (
    CACHED_CELLS,
    LEAST_ROWS,
    TABLE_CELLS,
    OwnedJit,
    in_float64,
    least_rows,
    over_chunks,
    padded_size,
    placed,
)
from bayesgen.typing import Array, Float, Int

from .evaluation import Evaluation, evaluate, evaluate_classes
from .marginal import class_table
from .structure import Arrays, Program


def log_joint_table(program: Program, latents: Arrays, rows: Rows) -> Float[Array, "n K"]:
    """log p(x_i, y = k | latents) of rows. Traceable; float64 if the caller enables it.

    Compressed sites are evaluated by matrix algebra on their class-conditional parameters, the others (and those
    that are masked, scaled or have row parameters) by running the program row by row.
    """
    return log_joint_of(program, evaluate_classes(program, latents, rows.covariates), rows)


def log_joint_of(program: Program, evaluation: Evaluation, rows: Rows) -> Float[Array, "n K"]:
    """`log_joint_table` at an evaluated program (run at the K classes)."""
    total, parameters = class_terms(program, evaluation)
    statistics = dict(program.plan.compressed)
    for name, class_parameters in parameters.items():
        total = total + statistics[name].density(class_parameters).log_prob(rows.values[name], rows.observed.get(name))
    rowwise = rowwise_sites(program, parameters)
    if rowwise:
        total = total + class_table(program, evaluation.latents, rows, rowwise)
    return jnp.broadcast_to(total, (rows.num_rows, program.num_classes))


def rowwise_sites(program: Program, vectorised: Collection[str]) -> tuple[str, ...]:
    """The attribute sites besides these, and the label if it depends on the row."""
    return tuple(name for name in dict.fromkeys((*program.attributes, *program.plan.rowwise)) if name not in vectorised)


def class_terms(
    program: Program, evaluation: Evaluation
) -> tuple[Float[Array, " K"], dict[str, dict[str, Float[Array, "K ..."]]]]:
    """Log class probabilities; and, of sites whose densities are vectorised, site -> class-conditional parameters."""
    conditionals = {
        name: evaluation.compressed(name)
        for name, likelihood in program.plan.compressed
        if evaluation.scale(name) is None and not likelihood.has_row_parameters
    }
    unmasked = {name: site.parameters for name, site in conditionals.items() if site.mask is None}
    return log_class_probs(program, evaluation), unmasked


def log_class_probs(program: Program, evaluation: Evaluation) -> Float[Array, " K"]:
    """Log class probabilities that are the same for all rows: zeros where the label depends on the row."""
    log_probs = evaluation.label_log_probs
    return jnp.zeros_like(log_probs) if program.label in program.plan.rowwise else log_probs


# The same, chunked over rows and draws.

TABLE_CHUNK_ROWS = 8192
BUDGET_BYTES = 64e6  # for the rows, and for a table of (draws in a batch, rows, classes) outside a CPU's cache


def program_table(program: Program, latents: Arrays, rows: Rows) -> Float[np.ndarray, "n K"]:
    """log p(x_i, y = k | latents)."""
    latents = program_latents(program, latents)
    chunk = min(TABLE_CHUNK_ROWS, rows_that_fit(rows, program.num_cases))
    with jax.enable_x64(True), placed(num_multiplications(program, rows, chunk)):
        least = least_rows(program.num_cases * rows.cells_per_row)
        return over_chunks(lambda part: log_joint(program, latents, part), rows, rows.num_rows, chunk, least=least)


log_joint = OwnedJit(log_joint_table)


def rows_that_fit(rows: Rows, numbers_per_row: int = 1, budget: float = BUDGET_BYTES) -> int:
    """Rows of a chunk whose table, and whose cells as a dense array, fit into a budget of memory."""
    cells = sum(math.prod(array.shape[1:]) for array in rows.values.values())
    return padded_size(max(LEAST_ROWS, int(budget / (8 * max(numbers_per_row, cells)))) // 2)


def num_multiplications(program: Program, rows: Rows, chunk: int, num_draws: int = 1) -> float:
    """Rough number of multiplications of one call: one for each cell of the rows, class and draw."""
    cells = sum(math.prod(array.shape[1:]) for array in rows.values.values()) * min(chunk, rows.num_rows)
    return float(num_draws * program.num_cases * cells)


def program_latents(program: Program, latents: Arrays) -> dict[str, Array]:
    """The latents that are sites of the program (fixed class probabilities are not)."""
    return {name: latents[name] for name in program.latents}


# Many processes: log prior densities and log probabilities of rows by site, whole in memory.


@in_float64
def log_priors(program: Program, latents: Arrays) -> dict[str, Float[np.ndarray, " draws"]]:
    """Log prior density of each latent site, and of factors, under each draw; latents have one leading axis."""
    log_densities = _log_priors.by_numpy(program, {name: np.asarray(latents[name]) for name in program.latents})
    return {name: np.asarray(value) for name, value in log_densities.items()}


@OwnedJit
def _log_priors(program: Program, latents: Arrays) -> dict[str, Float[Array, " draws"]]:
    return jax.vmap(lambda draw: evaluate_classes(program, draw).log_priors)(latents)


@in_float64
def log_probs_by_site(program: Program, latents: Arrays, rows: Rows) -> dict[str, Float[np.ndarray, "draws n"]]:
    """Log probability of the observed cells of each site of rows, and of their label, under each draw.

    Args:
        program: without local latents.
        latents: site -> (draws, ...).
        rows: rows whose class is known, if there are classes.
    """
    num_draws = len(next(iter(latents.values()), ()))
    size = padded_size(max(1, int(TABLE_CELLS / max(1.0, num_draws * rows.cells_per_row)) // 2))
    unweighted = dataclasses.replace(rows, labels=np.asarray(rows.codes), weights=None)
    draws = {name: np.asarray(latents[name]) for name in program.latents}
    log_probs = over_chunks(lambda part: _log_probs_by_site(program, draws, part), unweighted, rows.num_rows, size)
    return {name: value.T for name, value in log_probs.items()}


@in_float64
def row_statistics(
    program: Program, names: tuple[str, ...], draws: Arrays, rows: Rows
) -> dict[str, Float[np.ndarray, "draws ..."]]:
    """Deterministic sites of all rows together, under each draw.

    Args:
        program: the program.
        names: of the sites.
        draws: latent site, and continuous latent of each row, rows first -> (draws, ...).
        rows: the rows.
    """
    num_draws = len(next(iter(draws.values())))
    size = padded_size(max(1, CACHED_CELLS // max(1, int(rows.num_rows * rows.cells_per_row))))
    return over_chunks(
        lambda part: _row_statistics(program, part, rows, names=names), dict(draws), num_draws, min(size, num_draws)
    )


@functools.partial(OwnedJit, static_argnames="names")
def _row_statistics(
    program: Program, draws: Arrays, rows: Rows, *, names: tuple[str, ...]
) -> dict[str, Float[Array, "draws ..."]]:
    def at(draw: Arrays) -> dict[str, Array]:
        latents = {name: draw[name] for name in program.latents}
        values = {**rows.values, **{name: value for name, value in draw.items() if name not in latents}}
        sites = evaluate(program, latents, jnp.asarray(rows.codes), values, rows.covariates).deterministics
        return {name: sites[name] for name in names}

    return jax.vmap(at)(draws)


@OwnedJit
def _log_probs_by_site(program: Program, latents: Arrays, rows: Rows) -> dict[str, Float[Array, "n draws"]]:
    names = (*program.attributes, *(() if program.label is None else (program.label,)))

    def at(draw: Arrays) -> dict[str, Float[Array, " n"]]:
        codes = jnp.asarray(rows.codes)
        return evaluate(program, draw, codes, rows.values, rows.covariates, observed=rows.observed).row_log_probs(names)

    return jax.vmap(at, out_axes=1)(latents)


def scores_of(
    log_joint: Float[np.ndarray, "*batch K"], codes: Int[np.ndarray, "*batch"] | None
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """log p(y | x) and log p(x, y) of rows with these classes; of rows without a label (-1, None) log p(x) twice.

    The score of a row that no class makes possible is minus infinity.
    """
    total = scipy.special.logsumexp(log_joint, axis=-1)
    if codes is None:
        return total, total
    joint = np.take_along_axis(log_joint, np.maximum(codes, 0)[..., None], axis=-1)[..., 0]
    with np.errstate(invalid="ignore"):
        given_row = np.where(np.isneginf(joint), -np.inf, joint - total)
    return np.where(codes < 0, total, given_row), np.where(codes < 0, total, joint)
