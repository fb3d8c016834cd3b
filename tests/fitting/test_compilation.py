"""Compile once: a second fit of the same shapes compiles nothing, whatever the rows and the hyperparameters."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from counting import compilations
from prediction.draws import drawn

import bayesgen as bg
from bayesgen.prediction import averages

from .programs import chained

METHODS = {"NUTS": bg.NUTS(num_warmup=50, num_samples=50), "MAP": bg.MAP(num_starts=2), "MLE": bg.MLE(num_starts=2)}
# NUTS compiles nothing for a second size in test_first_answer.py, in every run
every_method = pytest.mark.parametrize(
    "method",
    [pytest.param(method, id=name, marks=[pytest.mark.slow] * (name != "MAP")) for name, method in METHODS.items()],
)
pytestmark = pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")  # short chains will do
SIZES = (41, 45, 300, 1301)  # a learning curve; the first fit is the one that may compile


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch):
    """Rows of uneven weights get a table of draws of their own, compiled when the first one comes: not counted here."""
    monkeypatch.setattr(averages, "UNEVEN_SHARE", 0.0)


def own(n):
    """A program of one's own, with a latent vector, a scale and a rate."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
    mean = numpyro.sample("mean", dist.Normal(0, 10).expand([3, 2]).to_event(2))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("x", dist.Normal(mean[y], scale).to_event(1))
        numpyro.sample("count", dist.Poisson(rate[y]))


def rows(size):
    """Rows of `own`, in other units and about other means for each size."""
    rng = np.random.default_rng(size)
    y = np.arange(size) % 3
    x = (rng.normal(size=(size, 2)) + 2.0 * y[:, None]) @ np.array([[1.0, 0.4], [0.0, 0.8]])
    return {"x": x + 0.01 * size, "count": rng.poisson(1.0 + y)}, y


def chained_rows(size):
    rng = np.random.default_rng(size)
    y = np.arange(size) % 2
    x = rng.normal(size=size) + 2 * y
    return {"x": x, "z": 0.5 * x + 0.7 * rng.normal(size=size)}, y


def counted(n, *, trials):
    """Successes in given numbers of trials, which the base measure needs row by row."""
    p = numpyro.sample("p", dist.Beta(2.0, 2.0).expand([2]).to_event(1))
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(share))
        numpyro.sample("x", dist.Binomial(trials, probs=p[y]))


def counted_rows(size):
    rng = np.random.default_rng(size)
    y, trials = np.arange(size) % 2, rng.integers(1, 9, size)
    return {"x": rng.binomial(trials, 0.3 + 0.4 * y), "trials": trials}, y


OWN = bg.GenerativeProgram(own, classes=3)
CHAINED = bg.GenerativeProgram(chained, classes=2)


def learn(model, data, method):
    """Fit, and average over the draws if there are any."""
    fit = bg.fit(model, *data, method=method, progress=False)
    bg.predict(fit, data[0], rule=bg.PlugIn())
    if isinstance(method, bg.NUTS):
        few = {name: value[:20] for name, value in data[0].items()}
        bg.predict(fit, few, rule=bg.BMA())
        bg.predict(fit, few, rule=bg.ConditionalAverage())


@every_method
def test_a_learning_curve_of_a_program_of_ones_own_compiles_nothing_anew(method):
    first, *others = SIZES
    learn(OWN, rows(first), method)
    with compilations() as found:
        for size in (45, 48):
            learn(OWN, rows(size), method)
        for size in others:  # prediction is by padded size; fitting by none
            bg.fit(OWN, *rows(size), method=method, progress=False)
    assert found == []


def test_totals_that_differ_from_row_to_row_compile_nothing_anew():
    program, method = bg.GenerativeProgram(counted, classes=2), bg.MAP(num_starts=2)
    bg.fit(program, *counted_rows(40), method=method)
    with compilations() as found:
        for size in (41, 97, 10_007):
            X, y = counted_rows(size)
            fit = bg.fit(program, X, y, method=method)
            successes, trials = (np.bincount(y, X[name]) for name in ("x", "trials"))
            np.testing.assert_allclose(fit.parameters["p"], (successes + 1) / (trials + 2), rtol=1e-6)
    assert found == []


@every_method
def test_a_learning_curve_of_a_built_in_model_without_its_closed_forms_compiles_nothing_anew(method):
    """The program that a model binds to; each has hyperparameters of its own, from its data's scale and by hand."""

    def fit(size):
        data, y = rows(size)
        model = bg.GaussianDiscriminant(
            prior=bg.NormalInverseWishart(kappa=0.01 * size, df=4.0 + size / 100),
            class_prior=bg.DirichletCategorical(1.0 + size / 1000),
        )
        schema = bg.summarize(model, data["x"], y).scaled_schema
        bg.fit(model.bind(schema), {"real": data["x"]}, y, method=method, progress=False)

    fit(SIZES[0])
    with compilations() as found:
        for size in SIZES[1:]:
            fit(size)
    assert found == []


@pytest.mark.parametrize("is_sampled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_prediction_with_draws_of_a_built_in_model_compiles_by_padded_size_only(is_sampled):
    """With a perfect sampler's draws, and with those of NUTS, which compiles nothing anew either."""

    def answer(size, queries):
        data, y = rows(size)
        method = METHODS["NUTS"] if is_sampled else bg.Exact()
        fit = bg.fit(bg.GaussianDiscriminant(), data["x"], y, method=method, progress=False)
        fit = fit if is_sampled else drawn(fit, 4, 50)
        for rule in (bg.BMA(), bg.ConditionalAverage()):
            bg.predict(fit, data["x"][:queries], rule=rule)

    answer(41, 40)
    with compilations() as found:
        answer(302, 33)
    assert found == []


def test_rows_that_cannot_be_compressed_compile_once_for_each_padded_size():
    def fit(size):
        bg.fit(CHAINED, *chained_rows(size), method=METHODS["MAP"])

    assert CHAINED.plan.rowwise == ("z",)
    fit(48)
    with compilations() as found:
        for size in (47, 40, 33):
            fit(size)
    assert found == []
    with compilations() as found:
        fit(49)
    assert found, "the next padded size is another shape; if nothing compiles, nothing is counted"
    with compilations() as found:
        fit(64)
    assert found == []
