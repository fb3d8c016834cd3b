"""The tables of log-joints of rows: the one thing that prediction needs of a program."""

from collections.abc import Collection

import jax
import jax.numpy as jnp

from bayesgen.data import Rows
from bayesgen.records import record
from bayesgen.statistics import Reference, few, middle
from bayesgen.typing import Array, Float

from .base import Arrays, Program
from .evaluation import Evaluation, class_table, evaluate_classes


def log_joint_table(program: Program, latents: Arrays, rows: Rows) -> Float[Array, "n K"]:
    """log p(x_i, y = k | latents) of rows. Traceable; float64 if the caller enables it.

    Compressed sites are evaluated by matrix algebra on their class-conditional parameters, the others (and those
    that are masked, scaled or have parameters of the base measure) by running the program row by row.
    """
    return log_joint_of(program, evaluate_classes(program, latents, rows.covariates), rows)


def log_joint_of(program: Program, evaluation: Evaluation, rows: Rows) -> Float[Array, "n K"]:
    """`log_joint_table` at an evaluated program (run at the K classes)."""
    total, parameters = _read(program, evaluation)
    statistics = dict(program.plan.compressed)
    for name, of_classes in parameters.items():
        total = total + statistics[name].density(of_classes).log_prob(rows.values[name], rows.observed.get(name))
    rowwise = _run_by_row(program, parameters)
    if rowwise:
        total = total + _by_row(program, evaluation.latents, rows, rowwise)
    return jnp.broadcast_to(total, (rows.num_rows, program.num_classes))


@record
class ReferenceProcess:
    """A process in the middle of many, as far as their densities are linear in features of the rows about it.

    Attributes:
        sites: the site's `Reference`.
        constant: log class probabilities, with whatever else does not depend on rows.
    """

    sites: dict[str, Reference]
    constant: Float[Array, " K"]


@record
class Processes:
    """Many processes of a program, ready to meet rows.

    Attributes:
        natural_parameters: about the reference, what multiplies the features of a row; the last one is 1.
        parameters: site -> name -> (draws, K, ...), for the sites that have no linear form.
        latents: site -> (draws, ...), for the sites that are run row by row.
    """

    natural_parameters: Float[Array, "K draws F"]
    parameters: dict[str, dict[str, Array]]
    latents: Arrays


def reference_of(
    program: Program, latents: Arrays, covariates: Arrays, masked: tuple[str, ...] = ()
) -> ReferenceProcess:
    """The process in the middle of many; latents have one leading axis. Traceable.

    Sites that are `masked` (some of their cells are missing) have no part in it.
    """
    constant, parameters = _of_many(program, jax.tree.map(few, latents), covariates)
    statistics = dict(program.plan.compressed)
    of_sites = {name: statistics[name].reference(draws) for name, draws in parameters.items() if name not in masked}
    references = {name: reference for name, reference in of_sites.items() if reference is not None}
    for name, reference in references.items():
        constant = constant + reference.natural_parameters(parameters[name])[1]
    return ReferenceProcess(references, finite(middle(constant)))


def processes(
    program: Program, reference: ReferenceProcess, latents: Arrays, covariates: Arrays, precision: str
) -> Processes:
    """The `Processes` of latents with one leading axis; natural parameters in this precision. Traceable."""
    constant, parameters = _of_many(program, latents, covariates)
    parts = []
    for name, of_site in reference.sites.items():
        natural_parameters, offset = of_site.natural_parameters(parameters[name])
        parts.append(natural_parameters)
        constant = constant + offset
    parts.append((constant - reference.constant)[..., None])
    return Processes(
        natural_parameters=jnp.swapaxes(jnp.concatenate(parts, -1), 0, 1).astype(precision),
        parameters={name: draws for name, draws in parameters.items() if name not in reference.sites},
        latents=latents if _run_by_row(program, parameters) else {},
    )


def _of_many(
    program: Program, latents: Arrays, covariates: Arrays
) -> tuple[Float[Array, "draws K"], dict[str, dict[str, Float[Array, "draws K ..."]]]]:
    """What `_conditionals` gives, for each draw."""
    return jax.vmap(lambda draw: _conditionals(program, draw, covariates))(latents)


@record
class Features:
    """Rows, ready to meet many processes.

    Attributes:
        log_joint: under the reference, as far as there is a linear form.
        features: what `Processes.natural_parameters` multiply; the last one is 1.
    """

    log_joint: Float[Array, "K n"]
    features: Float[Array, "K F n"]


def features_of(reference: ReferenceProcess, rows: Rows, precision: str) -> Features:
    """The `Features` of rows, in this precision; log-joints are always in double. Traceable."""
    shape = (len(reference.constant), rows.num_rows)
    of_sites = [of_site.features(rows.values[name]) for name, of_site in reference.sites.items()]
    log_joint = sum((logs for logs, _ in of_sites), start=jnp.broadcast_to(reference.constant[:, None], shape))
    features = jnp.concatenate([*(features for _, features in of_sites), jnp.ones((shape[0], 1, shape[1]))], 1)
    return Features(log_joint, features.astype(precision))


def log_joint_tables(
    program: Program, reference: ReferenceProcess, draws: Processes, features: Features, rows: Rows
) -> tuple[Float[Array, "K n"], Float[Array, "K draws n"]]:
    """Log-joints under some process, and by how much those of many processes deviate from them. Traceable.

    Args:
        reference: of the processes and of the rows.
        draws: the processes.
        features: of the rows.
        rows: the rows themselves.
    """
    deviations = jnp.matmul(draws.natural_parameters, features.features, precision=jax.lax.Precision.HIGHEST)
    others = _other_tables(program, reference, draws, rows)
    if others is None:
        return features.log_joint, deviations
    tables = deviations + others  # in double precision: where both parts are large, they may cancel
    peak = finite(tables.max(1))
    return features.log_joint + peak, (tables - peak[:, None]).astype(deviations.dtype)


def finite(logs: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Logs to measure others against: zero in place of -inf, and of the least number, which NumPyro to 0.21 gives."""
    return jnp.where(logs <= jnp.finfo(logs.dtype).min, 0.0, logs)


def _other_tables(
    program: Program, reference: ReferenceProcess, draws: Processes, rows: Rows
) -> Float[Array, "K draws n"] | None:
    """What the sites without a linear form add, or None where there are none."""
    statistics = dict(program.plan.compressed)
    parts = [
        statistics[name].log_prob_of_many(parameters, rows.values[name], rows.observed.get(name))
        for name, parameters in draws.parameters.items()
    ]
    if draws.latents:
        names = _run_by_row(program, (*reference.sites, *draws.parameters))
        tables = jax.vmap(lambda latents: _by_row(program, latents, rows, names))(draws.latents)
        parts.append(jnp.moveaxis(tables, 2, 0))
    return sum(parts[1:], start=parts[0]) if parts else None


def _run_by_row(program: Program, others: Collection[str]) -> tuple[str, ...]:
    """The attribute sites besides these."""
    return tuple(name for name in program.attributes if name not in others)


def _conditionals(
    program: Program, latents: Arrays, covariates: Arrays
) -> tuple[Float[Array, " K"], dict[str, dict[str, Float[Array, "K ..."]]]]:
    """What `_read` gives, at latents."""
    return _read(program, evaluate_classes(program, latents, covariates))


def _read(
    program: Program, evaluation: Evaluation
) -> tuple[Float[Array, " K"], dict[str, dict[str, Float[Array, "K ..."]]]]:
    """Log class probabilities, and class-conditional parameters of the sites that matrix algebra can do."""
    conditionals = {
        name: evaluation.compressed(name)
        for name, statistic in program.plan.compressed
        if evaluation.scale(name) is None and not statistic.uses_inert
    }
    unmasked = {name: site.parameters for name, site in conditionals.items() if site.mask is None}
    return evaluation.label_log_probs, unmasked


def _by_row(program: Program, latents: Arrays, rows: Rows, names: Collection[str]) -> Float[Array, "n K"]:
    """The part of the table that these sites make, by running the program row by row."""
    tables = class_table(program, latents, rows.values, rows.covariates, names, rows.observed)
    return sum(tables.values(), start=jnp.zeros((rows.num_rows, program.num_classes)))
