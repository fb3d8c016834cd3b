"""Tables of programs for rows with missing cells: those of the families' densities, at a point and at many draws."""

import jax
import numpy as np
import pytest

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.families import BetaBernoulli, GammaPoisson, NormalInverseGamma, NormalInverseWishart
from bayesgen.program import log_joint_draws, program_table

ROWS, DRAWS = 37, 6


@pytest.fixture(scope="module")
def fit():
    """A posterior with sites of every kind: independent and joint normals, counts and ones."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [17, 20])
    reals = rng.normal(size=(ROWS, 5)) @ rng.normal(size=(5, 5)) + y[:, None]
    X = np.concatenate([reals, rng.poisson(3.0, (ROWS, 2)), rng.random((ROWS, 3)) < 0.4], 1)
    columns = [f"x{index}" for index in range(10)]
    blocks = [
        ("joint", NormalInverseWishart(), columns[:3]),
        ("real", NormalInverseGamma(), columns[3:5]),
        ("count", GammaPoisson(), columns[5:7]),
        ("binary", BetaBernoulli(), columns[7:]),
    ]
    model = bg.GenerativeClassifier(blocks=blocks)
    return bg.fit(model, X, y, method=bg.Exact())


def rows_of(masked):
    rng = np.random.default_rng(5)
    values = {
        "joint": rng.normal(size=(ROWS, 3)),
        "real": rng.normal(size=(ROWS, 2)),
        "count": rng.poisson(3.0, (ROWS, 2)) + 0.0,
        "binary": (rng.random((ROWS, 3)) < 0.4) + 0.0,
    }
    observed = {site: rng.random(cells.shape) < 0.6 for site, cells in values.items() if site in masked}
    holes = {site: np.where(observed[site], cells, np.nan) for site, cells in values.items() if site in masked}
    return Rows(values | holes, observed)


SOME = [pytest.param(masked, marks=pytest.mark.slow) for masked in ((), ("joint",), ("real", "count"))]


@pytest.mark.parametrize("masked", [*SOME, ("joint", "real", "count", "binary")])
def test_tables_of_draws_and_of_a_point_are_those_of_what_is_observed(fit, masked):
    rows, posterior = rows_of(masked), fit.posterior
    sampled = posterior.conjugate.sample((DRAWS,), np.random.default_rng(7))
    latents = fit.program.latents_of(sampled)
    found = log_joint_draws(fit.program, latents, rows)
    assert found.shape == (DRAWS, ROWS, 2)
    for draw in range(DRAWS):
        at = {name: value[draw] for name, value in sampled.items()}
        log_class_probs, blocks = posterior.conjugate.densities_at(at)
        expected = log_class_probs + sum(
            density.log_prob(rows.values[site], rows.observed.get(site)) for site, density in blocks
        )
        np.testing.assert_allclose(found[draw], expected, rtol=1e-9, atol=1e-9)
        one = program_table(fit.program, jax.tree.map(lambda value, draw=draw: value[draw], latents), rows)
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9)
