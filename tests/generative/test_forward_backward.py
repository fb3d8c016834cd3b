"""Latents from the prior and rows given them, against latents from the posterior given these rows: equal moments.

Geweke (2004): both are draws of the same joint distribution. Rows are those of the prior predictive in both.
"""

import numpy as np
import pytest

import bayesgen as bg

from . import pairs
from . import test_conjugate_structures as structures

DATA_SETS, ROWS = 100, 6
COVARIATES = {"w": pairs.WEIGHTS, "z": pairs.OFFSETS, "g": structures.GROUPS, "t": structures.TIMES} | {
    "f": structures.FEATURES
}
TABLES = pairs.PROPER | structures.CASES
DEFAULT = ("dirichlet, categorical",)


def bounded(values, forward):
    """Bounded functions of values, data set by data set: of heavy tails, too, they have moments."""
    values, forward = (np.asarray(array, float).reshape(len(array), -1) for array in (values, forward))
    low, median, high = np.quantile(forward, [0.25, 0.5, 0.75], axis=0)
    return np.arctan((values - median) / np.where(high > low, high - low, 1.0))


def moments(latents, forward, rows):
    """Functions of latents, their squares, and their products with those of the rows' means."""
    features = np.column_stack([bounded(latents[name], forward[name]) for name in forward])
    means = [value.reshape(DATA_SETS, ROWS, -1).mean(1) for value in rows.values()]
    means = np.column_stack([bounded(value, value) for value in means])
    return np.column_stack([features, features**2, (features[:, :, None] * means[:, None]).reshape(len(features), -1)])


def away(forward, backward, rows):
    """Mean differences of the moments with the same rows, in their Monte Carlo errors."""
    difference = moments(forward, forward, rows) - moments(backward, forward, rows)
    return np.abs(difference.mean(0)) / (difference.std(0) / np.sqrt(len(difference)) + 1e-12)


def simulated(program):
    """Latents from the prior; the rows given them, data set after data set; and covariates, the same for all."""
    covariates = {name: COVARIATES[name][:ROWS] for name in program.covariates}
    latents, rows = program.simulate_many(ROWS, DATA_SETS, seed=1, **covariates)
    tiled = {name: np.tile(value, (DATA_SETS, *np.ones(value.ndim - 1, int))) for name, value in covariates.items()}
    return latents, {name: values for name, values in rows.items() if name not in covariates}, tiled


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DEFAULT else pytest.mark.slow) for name in TABLES]
)
def test_latents_have_equal_joint_moments_with_rows(name):
    program = TABLES[name].program
    latents, rows, covariates = simulated(program)
    weights = np.kron(np.eye(DATA_SETS), np.ones(ROWS))
    fits = bg.fit_many(program, rows | covariates, weights=weights, method=bg.Exact())
    draws = [fit.draws(1, seed=seed) for seed, fit in enumerate(fits)]
    posterior = {latent: np.concatenate([draw[latent] for draw in draws]) for latent in latents}
    assert (away(latents, posterior, rows) < 4).all()


def test_latents_of_other_rows_have_other_moments():
    latents, rows, _ = simulated(TABLES["gamma, poisson, multiple"].program)
    others = {name: np.roll(value, 1, axis=0) for name, value in latents.items()}
    assert away(latents, others, rows).max() > 6
