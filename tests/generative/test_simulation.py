"""Rows that a program makes."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from program.programs import BOUND, ROWS, covariate, data_of, inner_plate, mixed, outer_plate, program

import bayesgen as bg

close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    "function", [mixed, *(pytest.param(other, marks=pytest.mark.slow) for other in (outer_plate, inner_plate))]
)
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


def drawn_totals(n):
    shares = numpyro.sample("shares", dist.Dirichlet(np.ones(3)))
    with numpyro.plate("rows", n):
        total = numpyro.sample("total", dist.Poisson(5.0))
        numpyro.sample("x", dist.Multinomial(total.astype(int), shares))


def test_totals_of_multinomials_may_be_drawn():
    """NumPyro samples such counts where it sees the totals, and not in compiled functions."""
    rows = bg.GenerativeProgram(drawn_totals, label=None).simulate(7, seed=1)
    np.testing.assert_array_equal(rows["x"].sum(1), rows["total"])


def test_a_world_of_stated_latents_is_checked_and_a_changed_program_refused():
    scales = {"x": 1.0}

    def centred(n):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(np.array([0.5, 0.5])))
            numpyro.sample("x", dist.Normal(mean + y, scales["x"]))

    own = bg.GenerativeProgram(centred, classes=2)
    own.simulate(3)
    with pytest.raises(ValueError, match="invalid loc parameter"):
        own.simulate(3, latents={"mean": np.nan})
    scales["x"] = 100.0
    with pytest.raises(bg.ModelError, match="is not what it was"):
        own.simulate(3)
