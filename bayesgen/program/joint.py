"""The tables of log-joints of rows: the one thing that prediction needs of a program."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesgen.data import Rows
from bayesgen.statistics import few, middle

from .evaluation import class_table, evaluate


def log_joint_table(program, latents, rows: Rows):
    """log p(x_i, y = k | latents), (n, K), of rows. Traceable; float64 if the caller enables it.

    Compressed sites are evaluated by matrix algebra on their class-conditional parameters, the others (and those
    that are masked, scaled or have parameters of the base measure) by running the program row by row.
    """
    total, parameters = _conditionals(program, latents, rows.covariates)
    statistics = dict(program.plan.compressed)
    for name, own in parameters.items():
        total = total + statistics[name].row_log_prob(own, rows.values[name])
    rowwise = _run_by_row(program, parameters)
    if rowwise:
        total = total + _by_row(program, latents, rows, rowwise)
    return jnp.broadcast_to(total, (rows.num_rows, program.num_classes))


class Frame(NamedTuple):
    """A process in the middle of many, as far as its densities are linear in features of the rows.

    Attributes:
        sites: site -> the frame of its statistic.
        constant: (K,), log class probabilities, with whatever else does not depend on rows.
    """

    sites: dict[str, Any]
    constant: Any


class Processes(NamedTuple):
    """Many processes of a program, ready to meet rows.

    Attributes:
        weights: (K, draws, F), what multiplies the features of a row; the last one is 1.
        parameters: site -> name -> (draws, K, ...), for the sites that have no linear form.
        latents: site -> (draws, ...), for the sites that are run row by row.
    """

    weights: Any
    parameters: dict[str, Any]
    latents: dict[str, Any]


def frame_of(program, latents, covariates):
    """The `Frame` of many processes; latents have one leading axis. Traceable."""
    constant, parameters = _of_many(program, jax.tree.map(few, latents), covariates)
    statistics = dict(program.plan.compressed)
    frames = {name: statistics[name].frame(own) for name, own in parameters.items()}
    frames = {name: frame for name, frame in frames.items() if frame is not None}
    for name, frame in frames.items():
        constant = constant + statistics[name].weights(frame, parameters[name])[1]
    return Frame(frames, finite(middle(constant)))


def processes(program, frame, latents, covariates, precision):
    """The `Processes` of latents with one leading axis; weights in this precision. Traceable."""
    constant, parameters = _of_many(program, latents, covariates)
    statistics, parts = dict(program.plan.compressed), []
    for name, own in frame.sites.items():
        weights, offset = statistics[name].weights(own, parameters[name])
        parts.append(weights)
        constant = constant + offset
    parts.append((constant - frame.constant)[..., None])
    return Processes(
        weights=jnp.swapaxes(jnp.concatenate(parts, -1), 0, 1).astype(precision),
        parameters={name: own for name, own in parameters.items() if name not in frame.sites},
        latents=latents if _run_by_row(program, parameters) else {},
    )


def _of_many(program, latents, covariates):
    return jax.vmap(lambda one: _conditionals(program, one, covariates))(latents)


class Features(NamedTuple):
    """Rows, ready to meet many processes.

    Attributes:
        anchor: (K, n), log-joints under the process in the middle, as far as it has a linear form.
        features: (K, F, n), what `Processes.weights` multiply; the last one is 1.
    """

    anchor: Any
    features: Any


def features_of(program, frame, rows: Rows, precision):
    """The `Features` of rows, in this precision; anchors are always in double. Traceable."""
    size, num_classes, statistics = rows.num_rows, len(frame.constant), dict(program.plan.compressed)
    read = [statistics[name].features(own, rows.values[name]) for name, own in frame.sites.items()]
    anchor = sum((one for one, _ in read), start=jnp.broadcast_to(frame.constant[:, None], (num_classes, size)))
    features = jnp.concatenate([*(one for _, one in read), jnp.ones((num_classes, 1, size))], 1)
    return Features(anchor, features.astype(precision))


def log_joint_tables(program, frame, draws, features, rows: Rows):
    """The tables of many processes as anchors (K, n) and deviations from them (K, draws, n). Traceable.

    Args:
        frame: `Frame` of the processes and of the rows.
        draws: `Processes`.
        features: `Features` of the rows.
        rows: the rows themselves.
    """
    deviations = jnp.matmul(draws.weights, features.features, precision=jax.lax.Precision.HIGHEST)
    others = _other_tables(program, frame, draws, rows)
    if others is None:
        return features.anchor, deviations
    tables = deviations + others  # in double precision: where both parts are large, they may cancel
    peak = finite(tables.max(1))
    return features.anchor + peak, (tables - peak[:, None]).astype(deviations.dtype)


def finite(logs):
    """Logs to measure others against: zero in place of -inf."""
    return jnp.where(jnp.isneginf(logs), 0.0, logs)


def _other_tables(program, frame, draws, rows):
    """What the sites without a linear form add, (K, draws, n), or None where there are none."""
    statistics = dict(program.plan.compressed)
    parts = [statistics[name].row_log_prob_of_many(own, rows.values[name]) for name, own in draws.parameters.items()]
    if draws.latents:
        names = _run_by_row(program, (*frame.sites, *draws.parameters))
        tables = jax.vmap(lambda one: _by_row(program, one, rows, names))(draws.latents)
        parts.append(jnp.moveaxis(tables, 2, 0))
    return sum(parts[1:], start=parts[0]) if parts else None


def _run_by_row(program, others):
    return tuple(name for name in program.attributes if name not in others)


def _conditionals(program, latents, covariates):
    """Log class probabilities (K,), and class-conditional parameters of the sites that matrix algebra can do."""
    structure = program.structure
    first = {name: jnp.repeat(value[:1], program.num_classes, 0) for name, value in covariates.items()}
    evaluation = evaluate(program.function, structure, latents, jnp.arange(program.num_classes), None, first)
    conditionals = {
        name: evaluation.conditional(name, structure.axis)
        for name, statistic in program.plan.compressed
        if evaluation.scale(name) is None and not statistic.uses_inert
    }
    parameters = {name: one.parameters for name, one in conditionals.items() if one.mask is None}
    return evaluation.label_log_probs, parameters


def _by_row(program, latents, rows, names):
    """The part of the table that the named sites make, (n, K), by running the program row by row."""
    structure, size = program.structure, program.num_classes
    tables = class_table(program.function, structure, size, latents, rows.values, rows.covariates, names)
    return sum(tables.values())
