"""Entry points that run a program's densities: compiled once per program structure and shape of data."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayesgen.data import Rows
from bayesgen.errors import DataError
from bayesgen.runtime import OwnedJit
from bayesgen.statistics import chunks, class_counts

from .density import Evidence
from .density import log_density as traced_log_density
from .evaluation import evaluate
from .joint import log_joint_table
from .structure import base_support, run

CHUNK_ROWS = 4096  # at once, and no fewer: one compilation for any number of rows

log_density = OwnedJit(traced_log_density)
log_joint = OwnedJit(log_joint_table)


def class_distributions(program, latents):
    """The class-conditional NumPyro distributions, holding NumPy arrays."""
    latents = {name: jnp.asarray(value) for name, value in latents.items()}
    examples = program.example_covariates(program.num_classes)
    labels = jnp.arange(program.num_classes)
    evaluation = evaluate(program.function, program.structure, latents, labels, None, examples)
    return {name: jax.tree.map(np.asarray, site["fn"]) for name, site in evaluation.sites.items()}


def summarize_rows(program, rows: Rows):
    """Build the `Evidence` of rows: summaries of the compressed sites, and the rows if there are others."""
    if program.supports.by_class:
        check_values(program, rows)
    codes, weights = rows.codes, rows.weights
    inert = _by_chunks(_inert_parameters, program, codes, rows.covariates) if program.plan.inert else {}
    summaries = {
        name: statistic.summarize(rows.values[name], codes, program.num_classes, weights, inert=inert.get(name))
        for name, statistic in program.plan.compressed
    }
    kept = None
    if program.plan.rowwise:
        kept = dataclasses.replace(rows, weights=np.ones(rows.num_rows) if weights is None else weights)
    return Evidence(
        class_counts=class_counts(codes, program.num_classes, weights),
        summaries=summaries,
        covariates=first_rows(rows.covariates, program.num_classes),
        rows=kept,
    )


def first_rows(covariates, size):
    """The first row of each covariate, repeated: any value serves where only parameters are of interest."""
    return {name: pad(np.asarray(value)[:1], size) for name, value in covariates.items()}


def _by_chunks(function, program, *rows):
    """function(program, *rows), arrays with the rows first, from chunks of one size: it is compiled once."""

    def of_chunk(part):
        chunk = jax.tree.map(lambda array: pad(array[part], CHUNK_ROWS), rows)
        return jax.tree.map(lambda array: np.asarray(array)[: part.stop - part.start], function(program, *chunk))

    with jax.enable_x64(True):
        parts = [of_chunk(part) for part in chunks(len(rows[0]), CHUNK_ROWS)]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


@OwnedJit
def _inert_parameters(program, codes, covariates):
    """Parameters of the base measures, row by row, for the sites that have any: site -> name -> (n, ...)."""
    evaluation = _at_any_latents(program, codes, covariates, None)
    read = {name: evaluation.conditional(name, program.structure.axis) for name, _ in program.plan.compressed}
    return {name: one.inert for name, one in read.items() if one.inert}


@functools.partial(OwnedJit, static_argnames="names")
def _supports_by_row(program, codes, covariates, attributes, *, names):
    """Supports of the sites where they differ between rows: site -> constraint with bounds (n, *extra)."""
    evaluation = _at_any_latents(program, codes, covariates, attributes)
    supports = {}
    for name in names:
        distribution, site = evaluation.sites[name]["fn"], program.structure.attribute[name]
        support = base_support(distribution.support)
        shape = distribution.shape()
        shape = shape[: len(shape) - support.event_dim]
        supports[name] = jax.tree.map(
            lambda bound, shape=shape, site=site: jnp.moveaxis(jnp.broadcast_to(bound, shape), site.position, 0),
            support,
        )
    return supports


def _at_any_latents(program, codes, covariates, attributes):
    """The program run at rows, for what does not depend on the latents."""
    structure = program.structure
    trace = run(program.function, 2, {name: value[:1].repeat(2, 0) for name, value in covariates.items()})
    latents = {name: trace[name]["value"] for name, _ in structure.latents}
    return evaluate(program.function, structure, latents, codes, attributes, covariates)


def padded_size(size):
    """The next size at which row-wise functions are compiled: 2^k or 3 * 2^(k-1)."""
    power = 1 << max(size - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


def padded(evidence):
    """Pad the rows of an `Evidence` with copies of the first, of weight zero, to a size that is compiled once."""
    if evidence.rows is None:
        return evidence
    size = evidence.rows.num_rows
    rows = jax.tree.map(lambda array: pad(array, padded_size(size)), evidence.rows)
    weights = np.where(np.arange(padded_size(size)) < size, rows.weights, 0.0)
    return dataclasses.replace(evidence, rows=dataclasses.replace(rows, weights=weights))


def pad(array, size):
    """Repeat the first row, or ones where there is none, until there are `size` rows."""
    first = array[:1] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(first, size - len(array), axis=0)])


def check_values(program, rows: Rows):
    """DataError for values that their site cannot take: fractions of counts, more successes than trials.

    Where rows have no labels, a value has to be possible under some class.
    """
    attributes = rows.values
    for name, site in program.structure.attributes:
        if site.discrete:
            values = attributes[name]
            _refuse_values(name, values, values != np.floor(values), lambda where: "whole numbers")
    for name, support in program.supports.fixed.items():
        with jax.enable_x64(True):
            impossible = ~np.asarray(support(attributes[name]))
        _refuse_values(name, attributes[name], impossible, lambda where, support=support: str(support))
    names, size, codes = program.supports.by_row, rows.num_rows, rows.labels
    if not names or not size:
        return
    num_classes = program.num_classes if program.supports.by_class else 1
    classes = [np.full(size, k) for k in range(num_classes)] if codes is None else [codes]
    read = functools.partial(_supports_by_row, names=names)
    of_classes = [_by_chunks(read, program, labels, rows.covariates, attributes) for labels in classes]
    for name in names:
        _check_bounds(name, attributes[name], [supports[name] for supports in of_classes])


def _check_bounds(name, values, supports):
    """DataError for values that are in none of these supports, whose bounds are arrays with the rows first."""
    if isinstance(supports[0], type(constraints.multinomial(1))):
        _check_totals(name, values, [support.upper_bound for support in supports])

    def described(where):
        return " or ".join(sorted({str(jax.tree.map(lambda bound: bound[where], support)) for support in supports}))

    _refuse_values(name, values, ~np.any([support(values) for support in supports], axis=0), described)


def _check_totals(name, values, totals):
    """DataError for multinomial rows whose sum is none of these totals."""
    sums = values.sum(-1)
    wrong = np.all([sums != total for total in totals], axis=0)
    if wrong.any():
        row = tuple(np.argwhere(wrong)[0])
        stated = " or ".join(sorted({f"{total[row]:g}" for total in totals}))
        raise DataError(
            f"Attribute {name!r}: {int(wrong.sum())} rows do not sum to the program's total_count; row {row[0]} sums "
            f"to {sums[row]:g}, not {stated}. Pass the totals as a covariate."
        )


def _refuse_values(name, values, impossible, support):
    """DataError where some values are impossible; `support` says, for a cell, which values are not."""
    if impossible.any():
        where = tuple(np.argwhere(impossible)[0])
        raise DataError(
            f"Attribute {name!r}: {int(impossible.sum())} values are outside its support ({support(where)}); the "
            f"first is {values[where]} in row {where[0]}. Correct them, or the distribution in the program."
        )
