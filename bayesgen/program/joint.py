"""The tables of log-joints of rows: the one thing that prediction needs of a program."""

import jax
import jax.numpy as jnp

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
    rowwise = tuple(name for name in program.attributes if name not in parameters)
    if rowwise:
        total = total + _by_row(program, latents, attributes, covariates, rowwise)
    return jnp.broadcast_to(total, (len(next(iter(attributes.values()))), program.num_classes))


def log_joint_tables(program, latents, attributes, covariates=None):
    """The tables of many processes, (draws, K, n); latents have one leading axis. Traceable.

    Rows come last, because that is what the reductions over draws run over.
    """
    total, parameters = jax.vmap(lambda one: _conditionals(program, one, covariates))(latents)
    statistics, shape = dict(program.plan.compressed), total.shape[:2]
    total = total[..., None]
    for name, own in parameters.items():
        total = total + statistics[name].row_log_prob_of_many(own, attributes[name])
    rowwise = tuple(name for name in program.attributes if name not in parameters)
    if rowwise:
        tables = jax.vmap(lambda one: _by_row(program, one, attributes, covariates, rowwise))(latents)
        total = total + jnp.swapaxes(tables, 1, 2)
    return jnp.broadcast_to(total, (*shape, len(next(iter(attributes.values())))))


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
