"""Densities of rows under predictive distributions, where products of many columns stand for sums of logarithms."""

import jax
import numpy as np
import pytest
from scipy import stats

from bayesgen.families.student_t import (
    FACTORS,
    MultivariateStudentTDensity,
    SphericalStudentTDensity,
    StudentTDensity,
)
from bayesgen.statistics import Ellipsoids
from bayesgen.statistics.normal import NormalDensity


@pytest.mark.parametrize("num_columns", [1, FACTORS - 1, FACTORS, 2 * FACTORS + 3])
@pytest.mark.parametrize("distance", [1.0, 1e12])
@pytest.mark.parametrize("shared", [True, False])
def test_student_t_columns(num_columns, distance, shared):
    """Near rows and rows so far that products overflow; degrees of freedom that columns share or do not."""
    rng = np.random.default_rng(0)
    df = np.repeat(rng.uniform(1, 5, (3, 1)), num_columns, 1) if shared else rng.uniform(1, 5, (3, num_columns))
    loc, scale = rng.normal(size=(3, num_columns)), rng.uniform(0.5, 2, (3, num_columns))
    rows = rng.normal(size=(7, num_columns))
    rows[2] *= distance
    expected = stats.t.logpdf(rows[:, None], df, loc, scale).sum(-1)
    with np.errstate(over="ignore"):
        found = StudentTDensity(df, loc, scale).log_prob(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def columns_of(num_classes):
    """Locations and scales of two columns."""
    return np.random.default_rng(num_classes).uniform(1.0, 2.0, (2, num_classes, 2))


def of_joint_rows(num_classes):
    """Rows with a covariance."""
    loc, scale = columns_of(num_classes)
    return MultivariateStudentTDensity(scale[:, 0], Ellipsoids.of(loc, scale[:, None] * np.eye(2)))


@pytest.mark.parametrize(
    "density",
    [
        lambda num_classes: StudentTDensity(np.full((num_classes, 2), 3.0), *columns_of(num_classes)),
        lambda num_classes: SphericalStudentTDensity(np.full((num_classes, 2), 3.0), *columns_of(num_classes)),
        lambda num_classes: NormalDensity(*columns_of(num_classes), False),
        of_joint_rows,
    ],
    ids=["columns", "spherical", "normal", "joint"],
)
def test_a_traced_density_has_as_many_operations_whatever_the_number_of_classes(density):
    """So that a thousand classes compile; and it is the density of NumPy."""
    rows = np.random.default_rng(0).normal(size=(5, 2))
    with jax.enable_x64(True):
        few, many = (str(jax.make_jaxpr(density(num_classes).log_prob)(rows)) for num_classes in (3, 40))
        traced = jax.jit(density(7).log_prob)(rows)
    assert few.count("\n") == many.count("\n")
    np.testing.assert_allclose(traced, density(7).log_prob(rows), rtol=1e-12)
