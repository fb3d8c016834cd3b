"""Densities and tables of log-joints, against NumPyro itself."""

import itertools

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesgen as bg
from bayesgen.errors import DataError
from program.programs import (
    BOUND,
    ROWS,
    data_of,
    every_program,
    mixed,
    numpyro_density,
    program,
    reference_density,
    some_programs,
    unlabelled,
)

close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@every_program
def test_log_density_is_numpyros(function, rng):
    latents, rows, y, covariates = data_of(function, rng)
    expected = numpyro_density(function, latents, rows, y, covariates)
    close(BOUND[function].log_density(latents, {**rows, **covariates}, y), expected, rtol=1e-9)


@some_programs
def test_missing_labels_are_summed_out(function, rng):
    """The density is the sum of NumPyro's over all ways to label the rows; rows without labels are not those with."""
    latents, rows, y, covariates = data_of(function, rng)
    labels = y.astype(object)
    labels[[2, 11]] = None
    totals = []
    for pair in itertools.product(range(3), repeat=2):
        whole = y.copy()
        whole[[2, 11]] = pair
        totals.append(numpyro_density(function, latents, rows, whole, covariates))
    found = BOUND[function].log_density(latents, {**rows, **covariates}, labels)
    close(found, np.logaddexp.reduce(totals), rtol=1e-9)
    hidden = BOUND[function].log_density(latents, {**rows, **covariates}, np.full(ROWS, None))
    table = BOUND[function].log_joint(latents, {**rows, **covariates})
    prior = totals[0] - table[np.arange(ROWS), np.where(np.isin(np.arange(ROWS), [2, 11]), 0, y)].sum()
    close(hidden, prior + np.logaddexp.reduce(table, axis=1).sum(), rtol=1e-9)


@every_program
def test_log_joint_is_numpyros_density_row_by_row(function, rng):
    """The density of row i with label k is a difference of two of NumPyro's joint densities."""
    latents, rows, y, covariates = data_of(function, rng)
    own = BOUND[function]
    table = own.log_joint(latents, {**rows, **covariates})
    assert table.shape == (ROWS, 3) and isinstance(table, np.ndarray) and table.dtype == np.float64

    def whole(labels):
        return numpyro_density(function, latents, rows, labels, covariates)

    one = np.array([(label + 1) % 3 for label in y])
    for labels in (y, one):
        prior = whole(labels) - table[np.arange(ROWS), labels].sum()
        close(prior, whole(y) - table[np.arange(ROWS), y].sum(), rtol=1e-9)
    mixed_labels = np.where(np.arange(ROWS) == 5, one, y)
    close(whole(mixed_labels) - whole(y), table[5, one[5]] - table[5, y[5]], rtol=1e-8)


def test_class_conditionals_are_the_distributions_at_each_class(rng):
    latents, rows, _, _ = data_of(mixed, rng)
    found = BOUND[mixed].class_conditionals(latents)
    assert isinstance(found["x"], dist.Normal)
    close(found["x"].loc, latents["mean"])
    assert found["counts"].batch_shape == (3,) and found["counts"].event_shape == (2,)
    total = np.log(latents["p"])
    total = total + scipy.stats.norm.logpdf(rows["x"][:, None], found["x"].loc, found["x"].scale)
    total = total + scipy.stats.poisson.logpmf(rows["counts"][:, None], found["counts"].base_dist.rate).sum(-1)
    close(BOUND[mixed].log_joint(latents, rows), total, rtol=1e-10)
    assert isinstance(found["x"].loc, np.ndarray)


def test_summaries_are_as_good_as_rows(rng):
    """The compressed density and the row-wise density of the same program are one number."""
    latents, rows, y, _ = data_of(mixed, rng)
    own = BOUND[mixed]
    compressed = own.log_density(latents, rows, y)
    plan = type(own.plan)((), ("x", "counts"), (("x", "told"), ("counts", "told")))
    by_row = own.replace(structure=own.structure, plan=plan)
    close(by_row.log_density(latents, rows, y), compressed, rtol=1e-10)
    close(by_row.log_joint(latents, rows), own.log_joint(latents, rows), rtol=1e-10)


def test_a_program_without_classes(rng):
    own = bg.GenerativeProgram(unlabelled, label=None)
    latents, rows = {"mean": 0.7, "scale": 1.9}, {"x": rng.normal(size=ROWS)}
    with jax.enable_x64(True):
        expected = float(reference_density(unlabelled, ROWS)({**latents, **rows}, {}))
    assert own.classes == () and own.attributes == ("x",)
    close(own.log_density(latents, rows), expected, rtol=1e-11)
    table = own.log_joint(latents, rows)
    assert table.shape == (ROWS, 1)
    close(table[:, 0], scipy.stats.norm.logpdf(rows["x"], 0.7, 1.9), rtol=1e-12)
    assert set(own.simulate(3)) == {"x"}


def test_labels_may_be_of_any_type(rng):
    latents, rows, y, _ = data_of(mixed, rng)
    names = np.array(["oak", "elm", "ash"])
    own = program(mixed, list(names))
    close(own.log_density(latents, rows, names[y]), BOUND[mixed].log_density(latents, rows, y), rtol=1e-12)
    assert own.classes == tuple(names)
    with pytest.raises(DataError, match="yew"):
        own.log_density(latents, rows, np.where(y == 0, "yew", names[y]))


def test_latents_without_values_are_refused_and_not_drawn(rng):
    latents, rows, y, _ = data_of(mixed, rng)
    name = next(iter(latents))
    others = {key: value for key, value in latents.items() if key != name}
    for ask in (
        lambda: BOUND[mixed].log_joint(others, rows),
        lambda: BOUND[mixed].log_density(others, rows, y),
        lambda: BOUND[mixed].class_conditionals(others),
    ):
        with pytest.raises(DataError, match=f"'{name}'.* have no values"):
            ask()


def test_latents_may_be_lists(rng):
    latents, rows, _, _ = data_of(mixed, rng)
    listed = {name: np.asarray(value).tolist() for name, value in latents.items()}
    close(BOUND[mixed].log_joint(listed, rows), BOUND[mixed].log_joint(latents, rows))
    drawn = [BOUND[mixed].simulate(5, seed=1, latents=each) for each in (latents, listed)]
    for site, values in drawn[0].items():
        np.testing.assert_array_equal(values, drawn[1][site])
