"""Models of blocks without classes: what they learn is what a mixture of one component learns, without its axis."""

import pickle

import jax
import numpy as np
import pytest

import bayesgen as bg

from .cases import REALS, documents, mixed, take

close = np.testing.assert_allclose
MIXED = [
    ("sizes", bg.NormalInverseWishart(kappa=0.3), ["weight", "height"]),
    ("kinds", bg.BetaBernoulli(1.7, 2.0), ["wild", "tame"]),
    ("food", bg.DirichletCategorical(1.4), ["food"]),
    ("fur", bg.DirichletCategorical(), ["fur"]),
    ("counts", bg.GammaPoisson(), ["visits", "calls"]),
]
ROUND = [("size", bg.NormalInverseGamma(spherical=True), ["height", "weight", "age"])]
WORDS = [("words", bg.DirichletMultinomial(1.3), [f"x{j}" for j in range(5)])]
MAKERS = {"mixed": (MIXED, mixed), "spherical": (ROUND, REALS), "documents": (WORDS, documents)}


def without_classes(blocks):
    return bg.GenerativeClassifier(blocks, class_prior=None)


def data_of(name, size=53, seed=3):
    blocks, rows = MAKERS[name]
    rng = np.random.default_rng(seed)
    return without_classes(blocks), rows(rng, rng.integers(0, 2, size))


def as_mixture(model):
    return bg.Mixture(bg.GenerativeClassifier(model.blocks), 1)


def holed(X, columns=("weight", "height")):
    """The rows with some cells of two real columns missing."""
    rng = np.random.default_rng(5)
    return X | {name: np.where(rng.random(len(X[name])) < 0.3, np.nan, X[name]) for name in columns}


def assert_alike(fit, mixture, **tolerance):
    assert {"class_probs", *fit.parameters} == set(mixture.parameters)
    for name, value in fit.parameters.items():
        whole = mixture.parameters[name]
        assert (1, *value.shape) == whole.shape, name
        close(value, whole[0], err_msg=name, **tolerance)


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_they_learn_what_one_component_does(name, method):
    model, X = data_of(name)
    fit, one = bg.fit(model, X, method=method), bg.fit(as_mixture(model), X, method=method)
    assert_alike(fit, one, rtol=1e-9)
    close(fit.log_joint(X), one.log_joint(X), rtol=1e-9)


@pytest.mark.parametrize(
    "method", [pytest.param(bg.MLE(), id="MLE", marks=pytest.mark.slow), pytest.param(bg.MAP(), id="MAP")]
)
def test_cells_may_be_missing(method):
    model, X = data_of("mixed")
    X = holed(X)
    fit, one = bg.fit(model, X, method=method), bg.fit(as_mixture(model), X, method=method)
    assert fit.attributes["converged"]
    assert_alike(fit, one, rtol=1e-4, atol=1e-6)
    with pytest.raises(bg.FitError, match="'sizes': cells of its jointly normal columns are missing"):
        bg.fit(model, X, method=bg.Exact())


@pytest.mark.parametrize("name", MAKERS)
def test_the_predictive_is_a_ratio_of_evidences(name):
    model, X = data_of(name)
    _, new = data_of(name, 3, seed=8)
    fit = bg.fit(model, X, method=bg.Exact())
    before, table = fit.log_evidence, fit.log_joint(new, at="predictive")
    assert table.shape == (3, 1)
    for i in range(3):
        more = fit.update(take(new, slice(i, i + 1)))
        close(table[i, 0], more.log_evidence - before, rtol=1e-9)
    answer = bg.predict(fit, new, rule=bg.BMA())
    assert isinstance(answer, bg.DensityPrediction)
    close(answer.log_marginal, table[:, 0])


@pytest.mark.parametrize("name", MAKERS)
def test_summaries_merge_and_fits_are_updated(name):
    model, X = data_of(name)
    schema = bg.summarize(model, X).schema
    one, two = (bg.summarize(model, take(X, part), schema=schema) for part in (slice(0, 20), slice(20, 53)))
    merged, whole = (bg.fit(model, data, method=bg.Exact()) for data in (one + two, X))
    grown = bg.fit(model, take(X, slice(0, 20)), method=bg.Exact(), schema=whole.schema).update(take(X, slice(20, 53)))
    for fit in (merged, grown):
        close(fit.log_evidence, whole.log_evidence, rtol=1e-10)
        for key, value in whole.parameters.items():
            close(fit.parameters[key], value, rtol=1e-9)


@pytest.mark.parametrize("name", ["mixed"])
def test_the_density_of_the_program_is_that_of_closed_forms(name):
    model, X = data_of(name)
    fit = bg.fit(model, X, method=bg.Exact())
    program = fit.program
    assert program.label is None and "class_probs" not in program.latents
    assert all(program.structure.attribute[block].batch_shape == (0,) for block in ("sizes",))
    draws = fit.posterior.conjugate.sample((3,), np.random.default_rng(2))
    prior, statistics = fit.concrete.conjugate(fit.schema), fit.summaries.statistics
    for i in range(3):
        parameters = {key: value[i] for key, value in draws.items()}
        values = program.latents_of(parameters)
        latents = {site: values[site] for site in program.latents}
        sites = fit.read(X).values
        table = program.log_joint(latents, sites)
        assert table.shape == (53, 1)
        close(prior.log_likelihood(statistics, parameters), table.sum(), rtol=1e-9)
        with jax.enable_x64(True):
            density = program.log_density(latents, sites) + float(-program.log_coordinate_jacobian(latents))
        close(prior.log_likelihood(statistics, parameters) + prior.log_prior(parameters), density, rtol=1e-9)


def test_axes_are_named_without_classes():
    model, X = data_of("mixed")
    tree = bg.fit(model, X, method=bg.Exact()).to_datatree(num_draws=5)
    assert tree["posterior"]["sizes_mean"].dims == ("chain", "draw", "sizes_feature")
    assert tree["posterior"]["food_probs"].dims == ("chain", "draw", "food_feature", "food_category")
    assert "class" not in tree["posterior"].coords


def test_naive_bayes_without_classes_is_a_classifier_without_them():
    _, X = data_of("mixed")
    model = bg.NaiveBayes(class_prior=None)
    assert model != bg.NaiveBayes() and hash(model) == hash(pickle.loads(pickle.dumps(model)))
    assert "class_prior=None" in repr(model)
    fit = bg.fit(model, X, method=bg.Exact())
    mixture = bg.fit(bg.Mixture(bg.NaiveBayes(), 1), X, method=bg.MAP())
    assert fit.classes.size == 0 and fit.log_joint(X).shape == (53, 1)
    assert_alike(bg.fit(model, X, method=bg.MAP()), mixture, rtol=1e-9)
    simulated = fit.simulate(7, seed=1)
    assert fit.log_joint(simulated).shape == (7, 1)
    assert bg.predict(fit, simulated, rule=bg.BMA()).log_marginal.shape == (7,)


def test_they_are_compared_and_averaged():
    model, X = data_of("mixed")
    counts = {"visits": bg.GammaPoisson(), "calls": bg.GammaPoisson()}
    other = bg.NaiveBayes({"categorical": bg.DirichletCategorical(3.0), **counts}, class_prior=None)
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    table = bg.compare({"blocks": model, "other": other}, X, None, X, None, methods=pairs).table
    assert table["refused"].isna().all() and np.isfinite(table["log_score"]).all()
    fits = [bg.fit(one, X, method=bg.Exact()) for one in (model, other)]
    average = bg.average(fits)
    close(average.log_evidence, np.logaddexp(*[fit.log_evidence for fit in fits]) - np.log(2), rtol=1e-12)
    tables = np.stack([fit.log_joint(X, at="predictive") for fit in fits])
    expected = np.logaddexp.reduce(tables + np.log(average.weights)[:, None, None], axis=0)[:, 0]
    close(bg.predict(average, X, rule=bg.BMA()).log_marginal, expected, rtol=1e-9)


@pytest.mark.slow
def test_chains_agree_with_the_exact_posterior():
    model, X = data_of("mixed")
    exact, fit = bg.fit(model, X, method=bg.Exact()), bg.fit(model, X, method=bg.NUTS(num_chains=2))
    for name, value in fit.parameters.items():
        deviation = value.std((0, 1)) / 20
        assert (abs(value.mean((0, 1)) - exact.parameters[name]) < 4 * deviation + 1e-12).all(), name


def test_what_makes_no_sense_is_refused():
    model, X = data_of("mixed")
    with pytest.raises(bg.DataError, match="GenerativeClassifier has no classes, so it takes no y"):
        bg.fit(model, X, ["a"] * 53, method=bg.MLE())
    with pytest.raises(bg.DataError, match="leave Schema"):
        bg.fit(model, X, method=bg.MLE(), schema=bg.Schema(classes=["a", "b"]))
    with pytest.raises(bg.ModelError, match="GenerativeClassifier has none"):
        bg.Mixture(model, 2)
    with pytest.raises(bg.ModelError, match="NaiveBayes has none"):
        bg.Mixture(bg.NaiveBayes(class_prior=None), 2)
    with pytest.raises(bg.DataError, match="NaiveBayes has no classes, so it takes no y"):
        bg.fit(bg.NaiveBayes(class_prior=None), X, ["a"] * 53, method=bg.MLE())
    with pytest.raises(bg.ModelError, match="structure='average' asks which columns depend on the class"):
        bg.NaiveBayes(class_prior=None, structure="average")
    with pytest.raises(bg.ModelError, match="GaussianDiscriminant tells classes apart"):
        bg.GaussianDiscriminant(class_prior=None)
    with pytest.raises(bg.ModelError, match="used alone the family has none"):
        bg.fit(
            without_classes([("size", bg.NormalInverseWishart(tied=True), ["age"])]),
            {"age": [1.0, 2.0]},
            method=bg.MAP(),
        )
    with pytest.raises(bg.FitError, match="has no classes, so none can be added"):
        bg.fit(model, X, method=bg.Exact()).add_class("b", X)
    constant = X | {"weight": np.full(53, 2.0)}
    with pytest.raises(bg.FitError, match="variance is zero at the data, column 'weight'"):
        bg.fit(model, constant, method=bg.MLE())
    with pytest.raises(bg.FitError, match="variance is zero at the data, column 'weight'"):
        bg.fit(model, holed(constant, ("height",)), method=bg.MLE())
