"""The log density of a program's latents given data, through summaries where the plan allows it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from bayesgen.data import Rows
from bayesgen.runtime import OwnedJit
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float

from .evaluation import Evaluation, class_table, evaluate_classes
from .joint import log_joint_of
from .structure import Arrays, Program


def density_work(program: Program, statistics: SufficientStatistics) -> float:
    """Rough number of multiplications of one evaluation: one for each number of the data, times K for rows."""
    cells, rows = (
        sum(np.size(leaf) for leaf in jax.tree.leaves(part))
        for part in (statistics.summaries, (statistics.rows, statistics.unlabelled))
    )
    return float(cells + program.num_classes * rows)


def log_likelihood(
    program: Program, evaluation: Evaluation, statistics: SufficientStatistics, hard: bool = False
) -> Float[Array, ""]:
    """Log-likelihood of the data at an evaluated program (run at the K classes).

    Missing labels are marginalised; with `hard`, the most probable class takes their place.
    """
    weights = statistics.class_weights
    total = jnp.where(weights > 0, weights * evaluation.label_log_probs, 0.0).sum()
    for name, _ in program.plan.compressed:
        part = evaluation.compressed(name).log_likelihood(statistics.summaries[name])
        scale = evaluation.scale(name)
        total += part if scale is None else scale * part
    if statistics.rows is not None:
        total += _rowwise_log_likelihood(program, evaluation.latents, statistics.rows)
    if statistics.unlabelled is not None:
        total += _unlabelled_log_likelihood(program, evaluation, statistics.unlabelled, hard)
    return total


def _unlabelled_log_likelihood(program: Program, evaluation: Evaluation, rows: Rows, hard: bool) -> Float[Array, ""]:
    table = log_joint_of(program, evaluation, rows)
    of_rows = table.max(1) if hard else logsumexp(table, axis=1)
    weights = rows.frequencies
    return jnp.where(weights > 0, weights * of_rows, 0.0).sum()


def _rowwise_log_likelihood(program: Program, latents: Arrays, rows: Rows) -> Float[Array, ""]:
    tables = class_table(program, latents, rows.values, rows.covariates, program.plan.rowwise, rows.observed)
    log_joint = sum(tables.values(), start=jnp.zeros((rows.num_rows, program.num_classes)))
    of_labels = jnp.take_along_axis(log_joint, rows.codes[:, None], axis=1)[:, 0]
    weights = rows.frequencies
    return jnp.where(weights > 0, weights * of_labels, 0.0).sum()


@OwnedJit
def joint_log_density(program: Program, latents: Arrays, statistics: SufficientStatistics) -> Float[Array, ""]:
    """Log joint density of constrained latents and data, in the coordinates of the program's sites."""
    evaluation = evaluate_classes(program, latents, statistics.covariates)
    return evaluation.log_prior + log_likelihood(program, evaluation, statistics)


@OwnedJit
def log_prior(program: Program, latents: Arrays) -> Float[Array, ""]:
    """Log density of constrained latents before any data, in the coordinates of the program's sites."""
    return evaluate_classes(program, latents).log_prior


def unconstrained_log_density(program: Program, free: Arrays, statistics: SufficientStatistics) -> Float[Array, ""]:
    """Log density of unconstrained latents, Jacobian included: what NUTS samples from."""
    evaluation = evaluate_classes(program, free, statistics.covariates, unconstrained=True)
    return evaluation.log_prior + evaluation.log_jacobian + log_likelihood(program, evaluation, statistics)


def parameter_log_density(
    program: Program, free: Arrays, statistics: SufficientStatistics, prior: bool = True, hard: bool = False
) -> Float[Array, ""]:
    """Log density of the program's *parameters* (covariances, not Cholesky factors) at unconstrained latents.

    Its maximum is the joint mode that MAP reports; without the prior it is the likelihood alone.
    """
    evaluation = evaluate_classes(program, free, statistics.covariates, unconstrained=True)
    likelihood = log_likelihood(program, evaluation, statistics, hard)
    if not prior:
        return likelihood
    return likelihood + parameter_log_prior(program, evaluation)


def parameter_log_prior(program: Program, evaluation: Evaluation) -> Float[Array, ""]:
    """Log prior density over the program's parameters; -inf nearer to a pole than values resolve."""
    density = evaluation.log_prior - program.log_coordinate_jacobian(evaluation.latents)
    # nearer to it the prior of a program of one's own is unbounded, and its likelihood, computed from values, constant
    return jnp.where(evaluation.at_pole, -jnp.inf, density)
