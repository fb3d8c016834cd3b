"""The tables of log-joints of rows: the one thing that prediction needs of a program."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..statistics.linear import middle
from .evaluation import class_table, evaluate


def log_joint_table(program, latents, attributes, covariates=None):
    """log p(x_i, y = k | latents), (n, K), of rows given by site. Traceable; float64 if the caller enables it.

    Compressed sites are evaluated by matrix algebra on their class-conditional parameters, the others (and those
    that are masked, scaled or have parameters of the base measure) by running the program row by row.
    """
    total, parameters = _conditionals(program, latents, covariates)
    statistics = dict(program.plan.compressed)
    for name, own in parameters.items():
        total = total + statistics[name].row_log_prob(own, attributes[name])
    rowwise = _run_by_row(program, parameters)
    if rowwise:
        total = total + _by_row(program, latents, attributes, covariates, rowwise)
    return jnp.broadcast_to(total, (_num_rows(attributes), program.num_classes))


class Processes(NamedTuple):
    """Many processes of a program, ready to meet rows.

    Attributes:
        frames: site -> the process in the middle, for the sites whose densities are linear in features of the rows.
        constant: (K,), the middle one's log class probabilities, with whatever else does not depend on rows.
        weights: (draws, K, F), what multiplies the features of a row; the last one is 1.
        parameters: site -> name -> (draws, K, ...), for the sites that have no linear form.
        latents: site -> (draws, ...), for the sites that are run row by row.
    """

    frames: dict[str, Any]
    constant: Any
    weights: Any
    parameters: dict[str, Any]
    latents: dict[str, Any]


def processes(program, latents, covariates):
    """The `Processes` of latents with one leading axis. Traceable."""
    constant, parameters = jax.vmap(lambda one: _conditionals(program, one, covariates))(latents)
    forms = {name: dict(program.plan.compressed)[name].linear(own) for name, own in parameters.items()}
    linear = {name: form for name, form in forms.items() if form is not None}
    constant = sum((form.constant for form in linear.values()), start=constant)
    center = finite(middle(constant))
    weights = [*(form.weights for form in linear.values()), (constant - center)[..., None]]
    return Processes(
        frames={name: form.frame for name, form in linear.items()},
        constant=center,
        weights=jnp.concatenate(weights, -1),
        parameters={name: own for name, own in parameters.items() if name not in linear},
        latents=latents if _run_by_row(program, parameters) else {},
    )


class Features(NamedTuple):
    """Rows, ready to meet many processes.

    Attributes:
        anchor: (K, n), log-joints under the process in the middle, as far as it has a linear form.
        features: (K, F, n), what `Processes.weights` multiply; the last one is 1.
    """

    anchor: Any
    features: Any


def features_of(program, frames, constant, attributes):
    """The `Features` of rows given by site. Traceable."""
    size, statistics = _num_rows(attributes), dict(program.plan.compressed)
    read = [statistics[name].features(frame, attributes[name]) for name, frame in frames.items()]
    anchor = sum((one for one, _ in read), start=jnp.broadcast_to(constant[:, None], (len(constant), size)))
    ones = jnp.ones((len(constant), 1, size))
    return Features(anchor, jnp.concatenate([*(one for _, one in read), ones], 1))


def log_joint_tables(program, draws, rows, attributes, covariates):
    """The tables of many processes as anchors (K, n) and deviations from them (K, draws, n). Traceable.

    Args:
        draws: `Processes`, of which the weights, parameters and latents are used; weights as (K, draws, F).
        rows: `Features`; their precision, and that of the weights, is that of the deviations.
        attributes, covariates: the same rows by site.
    """
    deviations = jnp.matmul(draws.weights, rows.features, precision=jax.lax.Precision.HIGHEST)
    others = _other_tables(program, draws, attributes, covariates)
    if others is None:
        return rows.anchor, deviations
    peak = finite(others.max(1))
    return rows.anchor + peak, deviations + (others - peak[:, None]).astype(deviations.dtype)


def finite(logs):
    """Logs to measure others against: zero in place of -inf."""
    return jnp.where(jnp.isneginf(logs), 0.0, logs)


def _other_tables(program, draws, attributes, covariates):
    """What the sites without a linear form add, (K, draws, n), or None where there are none."""
    statistics = dict(program.plan.compressed)
    parts = [statistics[name].row_log_prob_of_many(own, attributes[name]) for name, own in draws.parameters.items()]
    if draws.latents:
        names = _run_by_row(program, (*draws.frames, *draws.parameters))
        tables = jax.vmap(lambda one: _by_row(program, one, attributes, covariates, names))(draws.latents)
        parts.append(jnp.moveaxis(tables, 2, 0))
    return sum(parts[1:], start=parts[0]) if parts else None


def _run_by_row(program, others):
    return tuple(name for name in program.attributes if name not in others)


def _num_rows(attributes):
    return len(next(iter(attributes.values())))


def _conditionals(program, latents, covariates):
    """Log class probabilities (K,), and class-conditional parameters of the sites that matrix algebra can do."""
    structure = program.structure
    first = {name: jnp.repeat(value[:1], program.num_classes, 0) for name, value in (covariates or {}).items()}
    evaluation = evaluate(program.function, structure, latents, jnp.arange(program.num_classes), None, first)
    conditionals = {
        name: evaluation.conditional(name, structure.axis)
        for name, statistic in program.plan.compressed
        if evaluation.scale(name) is None and not statistic.uses_inert
    }
    parameters = {name: one.parameters for name, one in conditionals.items() if one.mask is None}
    return evaluation.label_log_probs, parameters


def _by_row(program, latents, attributes, covariates, names):
    """The part of the table that the named sites make, (n, K), by running the program row by row."""
    structure, size = program.structure, program.num_classes
    return sum(class_table(program.function, structure, size, latents, attributes, covariates, names).values())
