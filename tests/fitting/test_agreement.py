"""Summaries are fitted by the model that they were made for, and by no other."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg

rng = np.random.default_rng(4)
y = np.arange(23) % 2
X = {
    "a": rng.normal(y, 1.0),
    "b": rng.normal(0, 1.0, 23),
    "sky": np.asarray(["blue", "grey", "red"])[np.arange(23) % 3],
}
REAL = np.column_stack([X["a"], X["b"]])


def heights(n):
    p = numpyro.sample("p", dist.Beta(1, 1))
    mean = numpyro.sample("mean", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("people", n):
        label = numpyro.sample("y", dist.Bernoulli(p))
        numpyro.sample("a", dist.Normal(mean[label], 1.0))


def weights(n):
    heights(n)


MIXED = {
    "kinds": lambda: bg.NaiveBayes({"real": bg.NormalInverseGamma(0, 1, 2, 1)}, [0.5, 0.5]),
    "columns": lambda: bg.NaiveBayes({"a": bg.NormalInverseGamma(0, 1, 2, 1)}),
    "distribution": lambda: bg.NaiveBayes({"sky": bg.DirichletCategorical(dist.TruncatedNormal(2.0, 0.5, low=1.0))}),
    "average": lambda: bg.NaiveBayes(structure="average", dependence_prior=0.3),
    "tied": lambda: bg.GaussianDiscriminant("tied"),
    "blocks": lambda: bg.GenerativeClassifier(
        [("r", bg.NormalInverseWishart(), ["a", "b"]), ("s", bg.DirichletCategorical(2.0), ["sky"])]
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "distribution")) for name in MIXED]
)
def test_the_same_model_made_anew_takes_the_summaries(name):
    make = MIXED[name]
    schema = bg.Schema(classes=[1, 0], categories={"sky": ["red", "grey", "blue"]})
    chunks = [({column: values[part] for column, values in X.items()}, y[part]) for part in (slice(9), slice(9, 23))]
    method = bg.MAP(num_starts=1) if name == "distribution" else bg.Exact()
    for summaries in (bg.summarize(make(), X, y), bg.summarize(make(), chunks, schema=schema)):
        for model in (make(), summaries.model):
            fit = bg.fit(model, summaries, method=method)
            assert fit.schema == summaries.schema


def test_names_by_position_and_programs_agree_too():
    fit = bg.fit(bg.NaiveBayes(), bg.summarize(bg.NaiveBayes(), REAL, y), method=bg.MLE())
    np.testing.assert_allclose(fit.parameters["real_mean"][1], REAL[y == 1].mean(0))
    summaries = bg.summarize(bg.GenerativeProgram(heights, classes=2), {"a": X["a"]}, y)
    fit = bg.fit(bg.GenerativeProgram(heights, classes=2), summaries, method=bg.MLE())
    np.testing.assert_allclose(fit.parameters["mean"], [X["a"][y == k].mean() for k in (0, 1)], rtol=1e-5)


OTHERS = [
    (bg.NaiveBayes(), bg.GaussianDiscriminant()),
    (bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("tied")),
    (bg.NaiveBayes(bg.NormalInverseGamma()), bg.NaiveBayes(bg.NormalInverseGamma(kappa=1.0))),
    (bg.NaiveBayes(bg.NormalInverseGamma(np.zeros(2))), bg.NaiveBayes(bg.NormalInverseGamma(np.ones(2)))),
    (bg.NaiveBayes(class_prior=[0.5, 0.5]), bg.NaiveBayes()),
    (bg.NaiveBayes(class_prior=[0.5, 0.5]), bg.NaiveBayes(class_prior=[0.4, 0.6])),
    (bg.NaiveBayes(structure="average"), bg.NaiveBayes(structure="average", dependence_prior=0.1)),
    (bg.NaiveBayes(structure="average"), bg.NaiveBayes()),
    (bg.NaiveBayes(), bg.GenerativeProgram(heights, classes=2)),
]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_another_model_refuses_the_summaries(one, other):
    for made_for, model in ((one, other), (other, one)):
        data = {"a": X["a"]} if isinstance(made_for, bg.GenerativeProgram) else REAL
        with pytest.raises(
            bg.DataError, match=r"These summaries were made for .*, and the model to fit is .*Summarise"
        ):
            bg.fit(model, bg.summarize(made_for, data, y), method=bg.MLE())


def test_programs_with_other_functions_or_classes_are_other_models():
    summaries = bg.summarize(bg.GenerativeProgram(heights, classes=2), {"a": X["a"]}, y)
    with pytest.raises(bg.DataError, match=r"the program 'heights', and the model to fit is the program 'weights'"):
        bg.fit(bg.GenerativeProgram(weights, classes=2), summaries, method=bg.MLE())
    with pytest.raises(bg.DataError, match="made for the program"):
        bg.fit(bg.GenerativeProgram(heights, classes=["f", "m"]), summaries, method=bg.MLE())


@pytest.mark.parametrize("model", [bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()]), "NaiveBayes"], ids=repr)
def test_what_is_no_single_model_has_no_summaries(model):
    with pytest.raises(bg.DataError, match=r"Only a model or a GenerativeProgram has summaries.*give X and y to fit"):
        bg.summarize(model, REAL, y)
    with pytest.raises(bg.DataError, match=r"Give X and y, or fit|Only a model"):
        bg.fit(model, bg.summarize(bg.NaiveBayes(), REAL, y), method=bg.Exact())
