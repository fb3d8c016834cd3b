"""Rows that a program makes."""

import jax
import numpy as np
import pytest
from program.programs import BOUND, ROWS, covariate, data_of, inner_plate, mixed, outer_plate, program

close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("function", [mixed, pytest.param(outer_plate, marks=pytest.mark.slow), inner_plate])
def test_simulation_has_the_shapes_of_the_sites(function, rng):
    own = BOUND[function]
    rows = own.simulate(ROWS, seed=4)
    again = own.simulate(ROWS, seed=4)
    assert set(rows) == {*own.attributes, "y"} and rows["y"].shape == (ROWS,)
    assert all((rows[name] == again[name]).all() for name in rows)
    other = own.simulate(ROWS, seed=jax.random.key(5))
    assert any((rows[name] != other[name]).any() for name in own.attributes)
    table = own.log_joint(data_of(function, rng)[0], {k: rows[k] for k in own.attributes})
    assert np.isfinite(table).all()


def test_simulation_takes_covariates(rng):
    latents, _, _, _ = data_of(covariate, rng)
    rows = BOUND[covariate].simulate(ROWS, latents=latents, trials=np.full(ROWS, 4.0), dose=np.full(ROWS, 1e6))
    assert rows["hits"].max() <= 4
    close(rows["x"], 1e6 * latents["success"][rows["y"]], atol=6)


def test_simulation_follows_the_latents_that_are_given():
    means = np.array([-50.0, 0.0, 50.0])
    latents = {"p": np.array([0.2, 0.3, 0.5]), "mean": means, "rate": np.ones((3, 2))}
    rows = program(mixed, ["a", "b", "c"]).simulate(4001, latents=latents)
    codes = np.searchsorted(["a", "b", "c"], rows["y"])
    assert np.abs(rows["x"] - means[codes]).max() < 10
    close(np.bincount(codes) / 4001, latents["p"], atol=0.03)
