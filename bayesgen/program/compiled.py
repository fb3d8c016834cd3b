"""Entry points that run a program's densities: compiled once per program structure and shape of data."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayesgen.data import Rows
from bayesgen.errors import DataError
from bayesgen.runtime import OwnedJit, over_chunks
from bayesgen.statistics import SufficientStatistics, sufficient_statistics

from .arbitrary import run
from .density import log_density as traced_log_density
from .evaluation import evaluate, evaluate_classes
from .joint import log_joint_table
from .messages import base_support

CHUNK_ROWS = 4096  # at once, and no fewer: one compilation for any number of rows

log_density = OwnedJit(traced_log_density)
log_joint = OwnedJit(log_joint_table)


def class_distributions(program, latents):
    """The class-conditional NumPyro distributions, holding NumPy arrays."""
    evaluation = evaluate_classes(program, {name: jnp.asarray(value) for name, value in latents.items()})
    return {name: jax.tree.map(np.asarray, site["fn"]) for name, site in evaluation.sites.items()}


def summarize_rows(program: Any, rows: Rows) -> SufficientStatistics:
    """The sufficient statistics of rows: summaries of the compressed sites, and the rows if there are others."""
    if program.supports.by_class:
        check_values(program, rows)
    plan = program.plan
    inert = _by_chunks(_inert_parameters, program, rows.codes, rows.covariates) if plan.inert else {}
    return sufficient_statistics(
        rows, dict(plan.compressed), program.num_classes, inert=inert, keeps_rows=bool(plan.rowwise)
    )


def _by_chunks(function: Callable[..., Any], program: Any, *rows: Any) -> Any:
    """function(program, *rows) of arrays with the rows first, compiled once."""
    with jax.enable_x64(True):
        return over_chunks(lambda part: function(program, *part), rows, len(rows[0]), CHUNK_ROWS, one_size=True)


@OwnedJit
def _inert_parameters(program, codes, covariates):
    """Parameters of the base measures, row by row, for the sites that have any: site -> name -> (n, ...)."""
    evaluation = _at_any_latents(program, codes, covariates, None)
    read = {name: evaluation.compressed(name) for name, _ in program.plan.compressed}
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
    trace = run(program.function, 2, {name: value[:1].repeat(2, 0) for name, value in covariates.items()})
    latents = {name: trace[name]["value"] for name in program.latents}
    return evaluate(program, latents, codes, attributes, covariates)


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
