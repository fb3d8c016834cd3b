"""Studies and many fits in the workers of joblib: the numbers, files, warnings and refusals of a run here."""

import json

import jax.numpy as jnp
import joblib
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.fitting import many


def wheel(n):
    """Two classes about means of their own."""
    with numpyro.plate("classes", 2):
        mean = numpyro.sample("mean", dist.Normal(jnp.zeros(3), 2.0).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(jnp.array([0.4, 0.6])))
        numpyro.sample("x", dist.Normal(mean[y], 1.0).to_event(1))


PROGRAM = bg.GenerativeProgram(wheel, classes=["a", "b"])
PAIRS = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA()), (bg.MAP(), bg.BMA())]  # the last one is refused


MODELS = {"bayes": bg.NaiveBayes(), "program": PROGRAM}


def studied(backend, model, **options):
    settings = {"sizes": [3, 7], "repeats": 3, "pairs": PAIRS, "test": 20, "seed": 1} | options
    with joblib.parallel_config(backend, n_jobs=2):
        return bg.study({model: MODELS[model]}, simulate=PROGRAM, **settings)


def assert_equal(study, other):
    pd.testing.assert_frame_equal(study.table.drop(columns="seconds"), other.table.drop(columns="seconds"))


BACKENDS = ["threading", pytest.param("loky", marks=pytest.mark.slow)]


@pytest.mark.parametrize("model", ["bayes", pytest.param("program", marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_study_has_the_same_numbers_and_files(backend, model, tmp_path):
    here = studied("sequential", model, sizes=[7], out=tmp_path / "here")
    assert_equal(studied(backend, model, sizes=[7], out=tmp_path / "elsewhere"), here)
    units = [
        {path.name: json.loads(path.read_text()) for path in (tmp_path / name / "units").iterdir()}
        for name in ("here", "elsewhere")
    ]
    assert units[0].keys() == units[1].keys()
    assert len(units[0]) == 2  # of two methods
    missing = tmp_path / "elsewhere" / "units" / "0-1-7.json"
    missing.unlink()
    assert_equal(studied(backend, model, sizes=[7], out=tmp_path / "elsewhere"), here)
    assert missing.exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_many_chains_have_the_same_draws_and_warnings(backend, monkeypatch):
    monkeypatch.setattr(many, "SETS_AT_ONCE", 2)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.repeat(["a", "b"], 15)
    weights = rng.integers(1, 4, (5, 30)).astype(float)
    weights[3, y == "a"] = 0  # has no posterior mode
    method = bg.NUTS(num_warmup=30, num_samples=10, num_chains=2)

    def drawn(backend):
        with joblib.parallel_config(backend, n_jobs=2), pytest.warns(bg.ConvergenceWarning, match="more of 5") as told:
            batch = bg.fit_many(bg.GaussianDiscriminant("tied"), X, y, weights=weights, method=method)
        return batch, [str(warning.message) for warning in told]

    (here, told_here), (elsewhere, told_elsewhere) = drawn("sequential"), drawn(backend)
    assert told_elsewhere == told_here
    assert elsewhere.attributes == here.attributes
    np.testing.assert_array_equal(elsewhere.parameters["real_mean"], here.parameters["real_mean"])
    assert len(np.unique(here.parameters["real_mean"][:, 0, 0, 0, 0])) == 5


def test_sets_of_a_failed_worker_are_refused(monkeypatch):
    X, y = [[1.0], [2.0], [3.0], [4.0]], list("aabb")
    weights = np.ones((4, 4))

    def failing(model, method, sets, index, seed):
        if index == 2:
            raise OSError("no room")
        return problem_of_set(model, method, sets, index, seed)

    problem_of_set = many._problem_of_set
    monkeypatch.setattr(many, "_problem_of_set", failing)
    monkeypatch.setattr(many, "SETS_AT_ONCE", 2)
    model = bg.NaiveBayes(bg.NormalInverseGamma(scale=numpyro.distributions.Gamma(2.0, 1.0)))
    with joblib.parallel_config("threading", n_jobs=2):
        batch = bg.fit_many(model, X, y, weights=weights, method=bg.MAP())
    assert sorted(batch.refused) == [2, 3]
    assert "failed: OSError('no room')" in str(batch.refused[3])
    assert np.isfinite(batch.parameters["real_mean"][:2]).all()
