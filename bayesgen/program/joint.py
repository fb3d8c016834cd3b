"""The table of log-joints of rows: the one thing that prediction needs of a program."""

import jax.numpy as jnp

from .evaluation import class_table, evaluate


def log_joint_table(program, latents, attributes, covariates=None):
    """log p(x_i, y = k | latents), (n, K), of rows given by site. Traceable; float64 if the caller enables it.

    Compressed sites are evaluated by matrix algebra on their class-conditional parameters, the others (and those
    that are masked, scaled or have parameters of the base measure) by running the program row by row.
    """
    structure, plan = program.structure, program.plan
    first = {name: jnp.repeat(value[:1], program.num_classes, 0) for name, value in (covariates or {}).items()}
    evaluation = evaluate(program.function, structure, latents, jnp.arange(program.num_classes), None, first)
    total = evaluation.label_log_probs
    slow = list(plan.rowwise)
    for name, statistic in plan.compressed:
        conditional = evaluation.conditional(name, structure.axis)
        plain = conditional.mask is None and evaluation.scale(name) is None and not statistic.uses_inert
        if plain:
            total = total + statistic.row_log_prob(conditional.parameters, attributes[name])
        else:
            slow.append(name)
    if slow:
        table = class_table(
            program.function, structure, program.num_classes, latents, attributes, covariates, tuple(slow)
        )
        total = total + sum(table.values())
    return jnp.broadcast_to(total, (len(next(iter(attributes.values()))), program.num_classes))
