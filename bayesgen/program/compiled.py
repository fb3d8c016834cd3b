"""Entry points that run a program's densities: compiled once per program structure and shape of data."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DataError
from ..statistics.passes import chunks, class_counts
from .density import Evidence, Rows
from .density import log_density as traced_log_density
from .evaluation import evaluate
from .joint import log_joint_table
from .structure import run

INERT_ROWS = 4096  # at once, and no fewer: one compilation for any number of rows

log_density = jax.jit(traced_log_density)
log_joint = jax.jit(log_joint_table)


def class_distributions(program, latents):
    """The class-conditional NumPyro distributions, holding NumPy arrays."""
    latents = {name: jnp.asarray(value) for name, value in latents.items()}
    examples = program.example_covariates(program.num_classes)
    labels = jnp.arange(program.num_classes)
    evaluation = evaluate(program.function, program.structure, latents, labels, None, examples)
    return {name: jax.tree.map(np.asarray, site["fn"]) for name, site in evaluation.sites.items()}


def summarize_rows(program, attributes, covariates, codes, weights):
    """Build the `Evidence` of rows: summaries of the compressed sites, and the rows if there are others."""
    inert = _inert(program, covariates, codes) if program.plan.inert else {}
    for name, parameters in inert.items():
        if "total_count" in parameters and np.ndim(attributes[name]) > np.ndim(parameters["total_count"]):
            check_totals(name, attributes[name], parameters["total_count"])
    summaries = {
        name: statistic.summarize(attributes[name], codes, program.num_classes, weights, inert.get(name))
        for name, statistic in program.plan.compressed
    }
    rows = None
    if program.plan.rowwise:
        rows = Rows(attributes, covariates, codes, np.ones(len(codes)) if weights is None else weights)
    return Evidence(
        class_counts=class_counts(codes, program.num_classes, weights),
        summaries=summaries,
        covariates=first_rows(covariates, program.num_classes),
        rows=rows,
    )


def first_rows(covariates, size):
    """The first row of each covariate, repeated: any value serves where only parameters are of interest."""
    return {name: np.repeat(np.asarray(value)[:1], size, axis=0) for name, value in covariates.items()}


def _inert(program, covariates, codes):
    """Parameters of the base measures, row by row, for the sites that have any: site -> name -> (n, ...)."""

    def of_rows(part):
        rows = jax.tree.map(lambda array: pad(array[part], INERT_ROWS), (codes, covariates))
        return jax.tree.map(
            lambda array: np.asarray(array)[: part.stop - part.start], _inert_parameters(program, *rows)
        )

    with jax.enable_x64(True):
        parts = [of_rows(part) for part in chunks(len(codes), INERT_ROWS)]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


@jax.jit
def _inert_parameters(program, codes, covariates):
    structure = program.structure
    trace = run(program.function, 2, {name: value[:1].repeat(2, 0) for name, value in covariates.items()})
    latents = {name: trace[name]["value"] for name, _ in structure.latents}  # any: nothing here depends on them
    evaluation = evaluate(program.function, structure, latents, codes, None, covariates)
    read = {name: evaluation.conditional(name, structure.axis) for name, _ in program.plan.compressed}
    return {name: one.inert for name, one in read.items() if one.inert}


def padded_size(size):
    """The next size at which row-wise functions are compiled: 2^k or 3 * 2^(k-1)."""
    power = 1 << max(size - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


def padded(evidence):
    """Pad the rows of an `Evidence` with copies of the first, of weight zero, to a size that is compiled once."""
    if evidence.rows is None:
        return evidence
    size = len(evidence.rows.codes)
    rows = jax.tree.map(lambda array: pad(array, padded_size(size)), evidence.rows)
    weights = np.where(np.arange(padded_size(size)) < size, rows.weights, 0.0)
    return dataclasses.replace(evidence, rows=dataclasses.replace(rows, weights=weights))


def pad(array, size):
    """Repeat the first row until there are `size` rows."""
    return np.concatenate([array, np.repeat(array[:1], size - len(array), axis=0)])


def check_totals(name, values, total_count):
    """Refuse multinomial rows whose sum is not the total that the program states."""
    wrong = np.asarray(values.sum(-1)) != total_count
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} rows do not sum to the program's total_count; row {row} sums "
            f"to {values[row].sum():g}, not {total_count[row]:g}. Pass the totals as a covariate."
        )
