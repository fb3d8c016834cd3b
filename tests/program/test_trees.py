"""Trees of all programs: every array as it was given, names of all axes, written to files and read back."""

import datetime

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray
from generative.written import TABLE

import bayesgen as bg

from .programs import BOUND, PROGRAMS, ROWS, data_of, fit_at, rows_first

WIDE, NARROW = np.random.default_rng(0).normal(size=(ROWS, 3)), np.random.default_rng(1).normal(size=(ROWS, 2))


def of_many_axes(n, *, wide, narrow):
    """Two covariates and two events of different widths, and names that those of axes and paths are like."""
    chain, draw = numpyro.sample("chain", dist.Normal(0, 1)), numpyro.sample("draw", dist.Normal(0, 1).expand([2]))
    row = numpyro.sample("row", dist.Normal(0, 1))
    first, second = numpyro.sample("k/a", dist.Normal(0, 1).expand([2])), numpyro.sample("k.a", dist.Normal(0, 1))
    numpyro.deterministic("sum", chain + row)
    mean = numpyro.deterministic("mean", chain + narrow @ draw + narrow @ first + second * wide.sum(1) + row)
    with numpyro.plate("rows", n):
        numpyro.sample("u", dist.Normal(mean[:, None], jnp.ones(2)).to_event(1))
        numpyro.sample("v", dist.Normal(mean[:, None], jnp.ones(3)).to_event(1))


def check_tree(tree, given, path):
    """The arrays of data are those given; all axes have names, and the file holds the same tree."""
    for name, (group, values) in given.items():
        np.testing.assert_array_equal(tree[group][name], values)
    for node in tree.leaves:
        assert "" not in node.to_dataset().dims
    tree.to_netcdf(path, engine="h5netcdf")
    with xarray.open_datatree(path, engine="h5netcdf") as read:
        for node in tree.leaves:
            again = read[node.path].to_dataset().load()
            assert {*again.variables} == {*node.to_dataset().variables}
            xarray.testing.assert_equal(again, node.to_dataset())


def test_arrays_of_all_widths_and_names_are_in_a_tree(tmp_path):
    latents = {"chain": 0.1, "draw": np.arange(2.0), "row": 0.2, "k/a": np.arange(2.0), "k.a": 0.3}
    dates = [datetime.date(2020, 1, day) for day in range(1, ROWS + 1)]
    X = {"wide": WIDE, "narrow": NARROW, "u": NARROW, "v": WIDE}
    fit = fit_at(bg.GenerativeProgram(of_many_axes, label=None), latents, X)
    with pytest.warns(bg.BayesgenWarning, match="other names for 'chain', 'draw', 'k/a',.* 'chain_', 'draw_', 'k.a_'"):
        tree = fit.to_datatree(X, predictive=True, coords={"row": dates, "u_dim_0": [("a", 1), "b"]})
    posterior = tree["posterior"]
    assert {*posterior.data_vars} == {"chain_", "draw_", "row", "k.a", "k.a_"}
    np.testing.assert_array_equal(posterior["draw_"][0, 0], latents["draw"])
    np.testing.assert_array_equal(posterior["k.a_"][0, 0], latents["k/a"])
    generated = tree["posterior_predictive"]
    assert generated["mean"].dims == ("chain", "draw", "row") and generated["sum"].dims == ("chain", "draw")
    groups = {"wide": "constant_data", "narrow": "constant_data", "u": "observed_data", "v": "observed_data"}
    check_tree(tree, {name: (group, X[name]) for name, group in groups.items()}, tmp_path / "tree.nc")


@pytest.mark.slow
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_trees_of_programs_are_read_as_they_were_written(function, tmp_path):
    latents, rows, y, covariates = data_of(function, np.random.default_rng(0))
    values = rows_first(BOUND[function], rows)
    fit = fit_at(BOUND[function], latents, values | covariates, y)
    given = {name: ("observed_data", value) for name, value in values.items()}
    given |= {name: ("constant_data", value) for name, value in covariates.items()} | {"y": ("observed_data", y)}
    tree = fit.to_datatree(values | covariates, y, prior=True, predictive=True, num_draws=10)
    check_tree(tree, given, tmp_path / "tree.nc")


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_trees_of_models_as_they_are_written_are_read_as_they_were_written(name, tmp_path):
    case = TABLE[name]
    program = bg.GenerativeProgram.from_model(case.model, *case.args, label=case.label)
    rows, y = program.read(*case.args)
    covariates = {name: rows[name] for name in program.covariates}
    worlds, _ = program.simulate_many(len(next(iter(rows.values())) if y is None else y), 1, seed=1, **covariates)
    fit = fit_at(program, {name: values[0] for name, values in worlds.items()}, rows, y)
    tree = fit.to_datatree(rows, y, prior=True, predictive=True, num_draws=10)
    given = {name: ("constant_data", values) for name, values in covariates.items()}
    check_tree(
        tree, given | {name: ("observed_data", rows[name]) for name in rows.keys() - given}, tmp_path / "tree.nc"
    )
