"""The log density of a program's latents given data, through summaries where the plan allows it."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesgen.runtime import OwnedJit

from .evaluation import class_table, evaluate_classes


def density_work(program, evidence):
    """Multiplications of one evaluation, roughly: one for each number of the evidence, and class where it is rows."""
    cells, rows = (sum(np.size(leaf) for leaf in jax.tree.leaves(part)) for part in (evidence.summaries, evidence.rows))
    return cells + program.num_classes * rows


def log_likelihood(program, evaluation, evidence):
    """Log-likelihood of the data at an evaluated program (run at the K classes)."""
    plan = program.plan
    total = jnp.where(evidence.class_weights > 0, evidence.class_weights * evaluation.label_log_probs, 0.0).sum()
    for name, _ in plan.compressed:
        part = evaluation.compressed(name).log_likelihood(evidence.summaries[name])
        scale = evaluation.scale(name)
        total += part if scale is None else scale * part
    if plan.rowwise:
        total += _rowwise_log_likelihood(program, evaluation.latents, evidence.rows)
    return total


def _rowwise_log_likelihood(program, latents, rows):
    table = class_table(program, latents, rows.values, rows.covariates, program.plan.rowwise)
    each = sum(table.values())
    own = jnp.take_along_axis(each, rows.codes[:, None], axis=1)[:, 0]
    return jnp.where(rows.weights > 0, rows.weights * own, 0.0).sum()


@OwnedJit
def log_density(program, latents, evidence):
    """Log joint density of constrained latents and data, in the coordinates of the program's sites."""
    evaluation = evaluate_classes(program, latents, evidence.covariates)
    return evaluation.log_prior + log_likelihood(program, evaluation, evidence)


def unconstrained_log_density(program, free, evidence):
    """Log density of unconstrained latents, Jacobian included: what NUTS samples from."""
    evaluation = evaluate_classes(program, free, evidence.covariates, unconstrained=True)
    return evaluation.log_prior + evaluation.log_jacobian + log_likelihood(program, evaluation, evidence)


def parameter_log_density(program, free, evidence, prior=True):
    """Log density over the program's *parameters* (covariances, not Cholesky factors) at unconstrained latents.

    Its maximum is the joint mode that MAP reports; without the prior it is the likelihood alone.
    """
    evaluation = evaluate_classes(program, free, evidence.covariates, unconstrained=True)
    likelihood = log_likelihood(program, evaluation, evidence)
    if not prior:
        return likelihood
    density = likelihood + evaluation.log_prior - program.log_coordinate_jacobian(evaluation.latents)
    # beyond, the prior of a program of one's own rises without end and its likelihood, which sees values, does not fall
    return jnp.where(evaluation.at_pole, -jnp.inf, density)
