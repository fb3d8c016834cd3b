"""Calibration by simulation: right posteriors pass, and wrong ones are found out."""

import dataclasses
import functools
import json

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesgen as bg
from bayesgen.evaluation.calibration import _fractions, _simulator, _world
from bayesgen.evaluation.uniformity import band, counts_below, coverage, ecdf_test, grid, rejected_by_holm
from bayesgen.posteriors import ConjugatePosterior

SHORT = bg.NUTS(num_warmup=100, num_samples=100, num_chains=2)
PRIOR = bg.NormalInverseGamma(1.0, 0.5, 3.0, 2.0)
SCHEMA = bg.Schema(kinds={"a": "real"}, columns=["a"], classes=["x", "y"])
MODEL = bg.GenerativeClassifier([("a", PRIOR, ["a"])])
EXACT = functools.partial(bg.calibrate, MODEL, schema=SCHEMA, n=12)


def lines(n):
    """A number with a slope on another one: a row-wise site, and classes."""
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(p))
        x = numpyro.sample("x", dist.Normal(2.0 * y, 1.0))
        numpyro.sample("z", dist.Normal(slope * x, 0.7))


@dataclasses.dataclass(frozen=True)
class Wrong(bg.Exact):
    """Exact posteriors whose draws are changed by a function of (draws, their means, a generator)."""

    change: object = None

    def solve(self, problem):
        fit = super().solve(problem)
        fields = {field.name: getattr(fit.posterior, field.name) for field in dataclasses.fields(ConjugatePosterior)}
        return dataclasses.replace(fit, posterior=WrongDraws(**fields, change=self.change))


@dataclasses.dataclass(frozen=True, eq=False)
class WrongDraws(ConjugatePosterior):
    change: object = None

    def _draws(self, num_draws, key):
        return self.change(self, super()._draws(num_draws, key), key)


def shrunk(posterior, draws, key):
    """Standard deviations x 0.9."""
    return {
        name: value.mean(1, keepdims=True) + 0.9 * (value - value.mean(1, keepdims=True))
        for name, value in draws.items()
    }


def of_the_prior(posterior, draws, key):
    """The data are ignored."""
    rng = np.random.default_rng(0)
    return posterior.program.latents_of(posterior.prior.sample((1, draws["class_probs"].shape[1]), rng))


def without_jacobian(posterior, draws, key):
    """Draws from the density of log variances taken for that of variances: each has the weight 1 / variance more."""
    rng, variance = np.random.default_rng(1), draws["a_variance"][0, :, :, 0]
    chosen = []
    for of_class in variance.T:
        weights = 1 / of_class
        chosen.append(rng.choice(len(of_class), len(of_class), p=weights / weights.sum()))
    places = np.stack(chosen, axis=1)[None, :, :, None]
    return draws | {name: np.take_along_axis(draws[name], places, axis=1) for name in ("a_mean", "a_variance")}


def test_exact_posteriors_are_calibrated_in_a_model_with_a_stated_prior():
    result = EXACT(method=bg.Exact(), simulations=50)
    assert result.passed, result.table
    assert set(result.ranks) == {
        "class_probs[0]",
        "class_probs[1]",
        *(f"a_{name}[{k}, 0]" for name in ("mean", "variance") for k in (0, 1)),
        "joint log-likelihood",
        "class probability of a held-out row",
    }
    assert all(ranks.shape == (50,) and ranks.min() >= 0 and ranks.max() <= 99 for ranks in result.ranks.values())
    assert result.table.columns.tolist() == ["quantity", "test", "statistic", "p_value", "passed"]
    assert len(result.table) == 2 * len(result.ranks)
    assert json.loads(result.to_json())["config"]["n"] == 12 and "quantities: 8" in repr(result)
    assert len(result.plot().axes[0].get_lines()) == len(result.ranks)
    far = EXACT(method=Wrong(of_the_prior), simulations=50)
    assert not far.passed and "joint log-likelihood" in repr(far)


def test_nuts_of_a_program_of_ones_own_is_calibrated():
    mask = {"z": np.arange(9) != 1, "y": np.arange(9) > 2}
    program = bg.GenerativeProgram(lines, classes=["x", "y"])
    with pytest.warns(bg.ConvergenceWarning, match="more of 8: NUTS"):
        result = bg.calibrate(program, method=SHORT, n=9, simulations=8, mask=mask)
    assert result.passed and set(result.ranks) >= {"p", "slope", "class probability of a held-out row"}
    assert (result.num_draws < 99).any() and (result.num_draws > 5).all()


def test_parameters_of_models_without_classes_are_ranked_and_a_program_may_make_their_world():
    model = bg.GenerativeClassifier([("a", PRIOR, ["a"])], class_prior=None)
    fit = bg.fit(model, {"a": [1.0, 2.0, 5.0]}, method=bg.Exact())
    simulator = _simulator(fit, None, 5, {}, {})
    assert simulator.is_identified
    assert _world(simulator, fit, "prior", fit.program, 3, jax.random.key(0)) == (fit.program, None, None)


def test_estimates_without_draws_and_priors_from_data_are_refused():
    with pytest.raises(bg.FitError, match=r"MAP\(\) gives none"):
        EXACT(method=bg.MAP(), simulations=5)
    with pytest.raises(bg.ModelError, match="prior of 'real' is resolved from data"):
        bg.calibrate(bg.NaiveBayes(), schema=SCHEMA, method=bg.Exact(), n=5, simulations=5)
    with pytest.raises(bg.ModelError, match="know the columns of NaiveBayes"):
        bg.calibrate(bg.NaiveBayes(), method=bg.Exact(), n=5, simulations=5)
    with pytest.raises(bg.ModelError, match="takes a program, a Fit"):
        bg.calibrate(bg.ConceptLearner(bg.number_game()), method=bg.Exact(), n=5, simulations=5)
    with pytest.raises(bg.ModelError, match="keeps its data"):
        EXACT(method=bg.Exact(), simulations=5, around="posterior")
    with pytest.raises(bg.DataError, match="True where observed"):
        EXACT(method=bg.Exact(), simulations=5, mask={"b": np.ones(12)})


def test_averages_of_models_are_refused_with_the_number_of_their_members():
    X, forms = np.random.default_rng(0).normal(size=(12, 2)), ("tied", "diag")
    models = bg.average([bg.GaussianDiscriminant(form) for form in forms])
    fit = bg.fit(models, X, [*"ab"] * 6, method=bg.Exact())
    for average in (models, fit):
        with pytest.raises(bg.ModelError, match="averages over 2: calibrate each of its members"):
            bg.calibrate(average, method=bg.Exact(), n=5, simulations=5)
    with pytest.raises(bg.ModelError, match="simulate= takes one model"):
        EXACT(method=bg.Exact(), simulations=5, simulate=fit)


def test_the_band_of_distribution_functions_holds_with_its_probability():
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(2000, 50))
    p_values = np.array([ecdf_test(each)[1] for each in values[:500]])
    for level in (0.05, 0.2, 0.5):
        assert abs((p_values <= level).mean() - level) < 4 * np.sqrt(level / 500)
    low, high = band(50, 0.9)
    inside = [((low <= counts_below(each) / 50) & (counts_below(each) / 50 <= high)).all() for each in values]
    assert 0.9 - 0.02 < np.mean(inside) < 0.95
    assert coverage(0.0, 7) == pytest.approx(1.0) and len(grid(1000)) == 99
    assert ecdf_test(np.full(50, 0.5))[1] < 1e-9


def test_holm_rejects_what_stands_out_of_all():
    p_values = np.array([0.5, 0.001, 0.004, 0.9, 0.0033])
    assert rejected_by_holm(p_values, 0.01).tolist() == [False, True, False, False, False]
    assert rejected_by_holm(np.full(3, 0.001), 0.01).all() and not rejected_by_holm(np.ones(3), 0.01).any()


@functools.cache
def other_world(prior):
    """A fit whose prior makes data that the model gets wrong."""
    model = bg.GenerativeClassifier([("a", prior, ["a"])])
    return bg.fit(model, {"a": [1.0, 2.0, 3.0, 5.0]}, ["x", "y", "x", "y"], method=bg.Exact())


CONTROLS = {
    "wrong prior": {"method": bg.Exact(), "simulate": bg.NormalInverseGamma(1.0, 0.5, 3.0, 4.0)},
    "standard deviations x 0.9": {"method": Wrong(shrunk)},
    "data ignored": {"method": Wrong(of_the_prior)},
    "wrong Jacobian": {"method": Wrong(without_jacobian)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
def test_negative_controls_are_rejected(name):
    stated = CONTROLS[name]
    given = stated | ({"simulate": other_world(stated["simulate"])} if "simulate" in stated else {})
    result = EXACT(simulations=1000, seed=1, **given)
    assert not result.passed and result.table["p_value"].min() < 1e-5, result


@pytest.mark.slow
def test_posteriors_are_calibrated_about_the_data_of_a_user():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(31, 3)) @ rng.normal(size=(3, 3)), np.arange(31) % 2
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.Exact())
    result = bg.calibrate(fit, method=bg.Exact(), n=13, simulations=500, around="posterior")
    assert result.passed and "real_covariance[0, 1]" in result.ranks and "real_covariance[1, 0]" not in result.ranks
    ignored = bg.calibrate(fit, method=Wrong(of_the_prior), n=13, simulations=100, around="posterior")
    assert not ignored.passed


@pytest.mark.slow
@pytest.mark.parametrize("model", [bg.JointGaussianRegression(), bg.NaiveBayesRegression()])
def test_numbers_of_held_out_rows_are_calibrated(model):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(31, 2))
    fit = bg.fit(model, X, X @ [1.0, -2.0] + rng.normal(size=31), method=bg.Exact())
    result = bg.calibrate(fit, method=bg.Exact(), n=13, simulations=300)
    assert result.passed and "number of a held-out row" in result.ranks


@pytest.mark.slow
def test_an_improper_prior_is_refused_and_calibrated_about_data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(31, 2))
    fit = bg.fit(bg.LinearRegression(), X, X @ [1.0, -2.0] + rng.normal(size=31), method=bg.Exact())
    given = {"method": bg.Exact(), "n": 13, "simulations": 200, "covariates": {"y_features": X[:13]}}
    with pytest.raises(bg.ModelError, match="'y_intercept' is improper"):
        bg.calibrate(fit, **given)
    assert bg.calibrate(fit, around="posterior", **given).passed


@pytest.mark.slow
def test_components_without_names_are_calibrated_by_what_they_leave_unchanged():
    X = np.random.default_rng(0).normal(size=(30, 2))
    fit = bg.fit(bg.Mixture(bg.GaussianDiscriminant("diag"), 2), X, method=bg.MAP())
    with pytest.warns(bg.ConvergenceWarning):
        result = bg.calibrate(fit, method=SHORT, n=15, simulations=50)
    assert result.passed and set(result.ranks) == {"joint log-likelihood", "log density of a held-out row"}


@pytest.mark.parametrize("shape", [(8,), (8, 3), (7, 2), None])
def test_covariates_of_a_wrong_shape_are_refused_by_name(shape):
    rng = np.random.default_rng(0)
    prior = bg.LinearNormalInverseGamma(precision=1.0, mean=0.0, kappa=1.0, shape=3.0, scale=1.0, center=[0.0, 0.0])
    fit = bg.fit(bg.LinearRegression(prior=prior), rng.normal(size=(20, 2)), rng.normal(size=20), method=bg.Exact())
    given = {} if shape is None else {"y_features": rng.normal(size=shape)}
    with pytest.raises(bg.DataError, match=r"covariates=\{name: values\}.*'y_features': \(8, 2\)|rows need \(8, 2\)"):
        bg.calibrate(fit, method=bg.Exact(), n=8, simulations=50, covariates=given)


def test_ties_are_broken_at_random_among_the_draws_that_count():
    num_draws, rng = np.full(3000, 4), np.random.default_rng(0)
    draws = np.tile([0.0, 0.0, 1.0, 1.0, 0.0], (3000, 1))  # the last one does not count
    tied = _fractions(np.zeros(3000), draws, num_draws, rng) * 5
    assert scipy.stats.kstest(tied, scipy.stats.uniform(0, 3).cdf).pvalue > 1e-3
    assert scipy.stats.kstest(_fractions(np.full(3000, 0.5), draws, num_draws, rng) * 5 - 2, "uniform").pvalue > 1e-3
