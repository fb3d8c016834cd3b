"""A program is a NumPyro program: Predictive, render_model, MCMC."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS, Predictive
from program.programs import BOUND, QUICKLY, ROWS, data_of, mixed, reference_density

import bayesgen as bg
from bayesgen.data import read_table
from bayesgen.fitting.reading import summarize

close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def built_in(rng):
    """A built-in, bound: naive Bayes on a real and a binary block, with its rows."""
    X = pd.DataFrame({"height": rng.normal(size=40), "girth": rng.gamma(2.0, 1.0, 40), "ill": rng.random(40) < 0.4})
    y = np.where(X["height"] + 0.3 * X["girth"] > 0.7, "elm", "ash")
    data = summarize(bg.NaiveBayes(), X, y)
    own = data.model.bind(data.scaled_schema)
    rows = data.model.read_rows(data.scaled_schema, read_table(X))
    return own, rows.values, np.searchsorted(["ash", "elm"], y)


def predicted(own, size):
    """Draws of all sites, by NumPyro; compiled as a whole."""
    draw = jax.jit(lambda key: Predictive(own, num_samples=301)(key, size), compiler_options=QUICKLY)
    return jax.tree.map(np.asarray, draw(jax.random.key(0)))


@pytest.mark.slow
def test_a_program_runs_under_predictive():
    with jax.enable_x64(True):
        draws = predicted(BOUND[mixed], 5)
    assert draws["x"].shape == (301, 5) and draws["counts"].shape == (301, 5, 2)
    own_mean = np.take_along_axis(draws["mean"], draws["y"], 1)
    residual = draws["x"] - own_mean
    assert abs(residual.mean()) < 5 * 1.3 / np.sqrt(residual.size)
    close(residual.std(), 1.3, rtol=0.06)
    own_rate = np.take_along_axis(draws["rate"], draws["y"][..., None], 1)
    assert abs((draws["counts"] - own_rate).mean()) < 5 * np.sqrt(own_rate.mean() / own_rate.size)


@pytest.mark.slow
def test_a_bound_built_in_runs_under_predictive(rng):
    own, _, _ = built_in(rng)
    with jax.enable_x64(True):
        draws = predicted(own, 7)
    assert draws["real"].shape == (301, 7, 2) and draws["binary"].shape == (301, 7, 1)
    assert {"class_probs", "real_mean", "real_variance", "binary_probs", "y"} <= set(draws)
    picked = np.take_along_axis(draws["class_probs"], draws["y"], 1)
    close(picked.mean(), 2 / 3, atol=0.05)  # E[p1² + p2²] under Dirichlet(1, 1)
    pick = draws["y"][..., None]
    standard = (draws["real"] - np.take_along_axis(draws["real_mean"], pick, 1)) / np.sqrt(
        np.take_along_axis(draws["real_variance"], pick, 1)
    )
    assert abs(standard.mean()) < 5 / np.sqrt(standard.size)
    close(standard.std(), 1.0, atol=0.05)


def edges(graph):
    return {tuple(line.strip().split(" -> ")) for line in graph.source.splitlines() if " -> " in line}


def test_programs_are_drawn_by_render_model(rng):
    pytest.importorskip("graphviz")
    assert edges(numpyro.render_model(BOUND[mixed], (5,))) == {
        ("p", "y"),
        ("y", "x"),
        ("mean", "x"),
        ("y", "counts"),
        ("rate", "counts"),
    }
    own, _, _ = built_in(rng)
    found = edges(numpyro.render_model(own, (5,)))
    assert {("class_probs", "y"), ("y", "real"), ("real_mean", "real"), ("real_variance", "real")} <= found
    assert {("y", "binary"), ("binary_probs", "binary"), ("real_variance", "real_mean")} <= found
    assert not any(target == "class_probs" for _, target in found)


def run_nuts(own, data, size):
    conditioned = handlers.condition(own, data=data)
    with jax.enable_x64(True):
        chain = MCMC(NUTS(conditioned), num_warmup=200, num_samples=400, progress_bar=False)
        chain.run(jax.random.key(3), size)
        return jax.tree.map(np.asarray, chain.get_samples())


def within(draws, expected, spread):
    """The mean of autocorrelated draws near its expectation: a fifth of them counted as independent."""
    return (np.abs(draws.mean(0) - expected) < 5 * np.asarray(spread) / np.sqrt(len(draws) / 5)).all()


@pytest.mark.slow
def test_a_conditioned_program_runs_under_nuts(rng):
    """The posterior is known: Dirichlet for the labels, normal for the means, gamma for the rates."""
    _, rows, y, _ = data_of(mixed, rng)
    draws = run_nuts(BOUND[mixed], {**rows, "y": y}, ROWS)
    counts = np.bincount(y, minlength=3)
    labels = bg.DirichletCategorical(np.ones(3)).update(y)
    assert within(draws["p"], labels.mean()["probs"], np.sqrt(labels.variance()["probs"]))
    for k in range(3):
        rate = bg.GammaPoisson(2.0, 1.0).update(rows["counts"][y == k].reshape(-1, 2))
        assert within(draws["rate"][:, k], rate.mean()["rate"], np.sqrt(rate.variance()["rate"]))
        precision = counts[k] / 1.3**2 + 1 / 9
        mean = rows["x"][y == k].sum() / 1.3**2 / precision
        assert within(draws["mean"][:, k], mean, precision**-0.5)


@pytest.mark.slow
def test_a_conditioned_built_in_runs_under_nuts(rng):
    own, attributes, y = built_in(rng)
    data = {"real": attributes["real"], "binary": attributes["binary"].astype(int), "y": y}
    draws = run_nuts(own, data, len(y))
    for name, family in zip(own.function.names, own.function.families, strict=True):
        summary = family.likelihood.summarize(attributes[name].astype(float), y, 2)
        posterior = family.update(summary)
        for key, value in posterior.mean().items():
            assert within(draws[f"{name}_{key}"], value, np.sqrt(posterior.variance()[key])), key


def test_a_bound_built_in_is_a_program_and_nothing_more(rng):
    """Structure and plan, found by tracing and probing, are what the model said; the density is NumPyro's."""
    own, attributes, y = built_in(rng)
    assert own.attributes == ("real", "binary")
    assert own.latents == ("class_probs", "real_variance", "real_mean", "binary_probs")
    bare = bg.GenerativeProgram(own.function, classes=own.classes)
    assert [name for name, _ in bare.plan.compressed] == [name for name, _ in own.plan.compressed]
    assert dict(bare.plan.compressed) == dict(own.plan.compressed) and bare.plan.rowwise == ()
    assert bare.structure == own.structure
    rows = {name: np.asarray(value, float) for name, value in attributes.items()}
    shapes = dict(own.structure.latents)
    latents = {name: rng.uniform(0.2, 0.8, shape) for name, shape in shapes.items()}
    latents["class_probs"] = np.array([0.3, 0.7])
    with jax.enable_x64(True):
        values = {**latents, "real": rows["real"], "binary": rows["binary"].astype(int), "y": y}
        expected = float(reference_density(own, len(y))(values, {}))
    names = np.array(["ash", "elm"])
    close(own.log_density(latents, rows, names[y]), expected, rtol=1e-9)
    close(bare.log_density(latents, rows, names[y]), expected, rtol=1e-9)


def test_arrays_of_a_user_stay_arrays_of_the_precision_of_a_user():
    def line(x, center, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(slope * jnp.asarray(x) + jnp.asarray(center).sum(), 1.0), obs=y)

    x, center = np.linspace(1, 2, 5), np.arange(3.0)
    program = bg.GenerativeProgram.from_model(line, x, center, x, label="y")
    rows, _ = program.read(x, center, x)
    made = program.generate(5, 3, seed=1, x=rows["x"])
    for array in (x, center, rows["x"]):
        assert jnp.asarray(array).dtype == np.asarray(jnp.asarray(array)).dtype == np.float32
    assert made[1]["y"].shape == (3, 5)
