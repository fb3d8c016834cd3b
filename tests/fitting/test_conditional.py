"""Discriminative training: against logistic regression, an independent ascent, and what it has to refuse."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.special
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import bayesgen as bg
from bayesgen.errors import FitError, ModelError
from bayesgen.fitting import prepare
from bayesgen.fitting.discriminative import initial_vector
from bayesgen.program import ProgramDensity, RowsTerm, free_vector
from bayesgen.statistics import padded_rows

CONDITIONAL = bg.MLE(objective="conditional")
close = np.testing.assert_allclose


def logistic(features, y, weights=None):
    """Probabilities of multinomial logistic regression without penalty."""
    Z = (features - features.mean(0)) / features.std(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of names of its own arguments
        fitted = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(Z, y, weights)
    return fitted.predict_proba(Z)


def probabilities(fit, X):
    return bg.predict(fit, X, rule=bg.PlugIn()).probabilities


def log_scores(fit, X, y):
    """log p(y | x) of labelled rows, from the table of log-joints alone."""
    table = fit.log_joint(X)
    codes = np.searchsorted(fit.classes, y)
    return scipy.special.log_softmax(table, axis=1)[np.arange(len(codes)), codes]


@pytest.fixture(scope="module")
def reals():
    """Three classes that overlap and are not normal, in correlated columns of unlike scales and offsets."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 150, p=[0.2, 0.5, 0.3])
    latent = rng.normal(size=(150, 2)) + np.array([[0.0, 0.0], [0.9, -0.4], [-0.3, 1.0]])[y]
    latent += 0.3 * latent**2
    X = latent @ np.array([[1.0, 0.6], [0.0, 0.7]]) * [0.01, 100.0] + [5.0, 300.0]
    return X, np.asarray(["ape", "bear", "cow"])[y]


@pytest.fixture(scope="module")
def tied(reals):
    return bg.fit(bg.GaussianDiscriminant("tied"), *reals, method=CONDITIONAL)


def test_tied_classes_are_logistic_regression(reals, tied):
    X, y = reals
    close(probabilities(tied, X), logistic(X, y), atol=2e-6)
    joint = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE())
    assert tied.attributes["objective"] == pytest.approx(log_scores(tied, X, y).sum(), abs=1e-9)
    assert tied.attributes["objective_of_joint_fit"] == pytest.approx(log_scores(joint, X, y).sum(), abs=1e-9)
    assert tied.attributes["objective"] > tied.attributes["objective_of_joint_fit"] + 0.1
    # 2 + 6 + 3 parameters, of which p(y | x) has (3 - 1) * (2 + 1)
    assert tied.attributes["unidentified_directions"] == 11 - 6
    # of all processes with these log odds, that with the covariance of the joint fit
    close(tied.parameters["real_covariance"], joint.parameters["real_covariance"], rtol=1e-12)


LINEAR = {
    "tied": (bg.GaussianDiscriminant("tied"), "real"),
    "tied-diag": (bg.GaussianDiscriminant("tied-diag"), "real"),
    "tied-spherical": (bg.GaussianDiscriminant("tied-spherical"), "real"),
    "binary": (bg.NaiveBayes(bg.BetaBernoulli()), "binary"),
    "counts": (bg.NaiveBayes(bg.GammaPoisson()), "count"),
    "two blocks": (bg.NaiveBayes({"real": bg.NormalInverseGamma(tied=True), "binary": bg.BetaBernoulli()}), "both"),
}


@pytest.mark.parametrize("name", LINEAR)
def test_likelihood_equations_hold_where_log_odds_are_linear(name):
    """The sums of features over rows are those that the probabilities expect, in each class."""
    model, kind = LINEAR[name]
    rng = np.random.default_rng(8)
    y = rng.integers(0, 4, 200)
    latent = rng.normal(size=(200, 3)) + 0.7 * rng.normal(size=(4, 3))[y]
    latent[:, 1] += 0.5 * latent[:, 0]
    columns = {
        "real": latent * (1.0 if name == "tied-spherical" else [1e-3, 1.0, 1e3]) + [0.0, 5.0, 1e6],
        "binary": latent > 0.2,
        "count": np.floor(np.exp(0.5 * latent)),
        "both": latent,
    }[kind]
    X = {f"x{place}": column for place, column in enumerate(columns.T)}
    if kind == "both":
        X["x2"] = X["x2"] > 0
    weights = rng.choice([0.0, 1.0, 2.5], 200, p=[0.1, 0.6, 0.3])
    fit = bg.fit(model, X, y, method=CONDITIONAL, sample_weight=weights)
    joint = bg.fit(model, X, y, method=bg.MLE(), sample_weight=weights)
    features = np.stack([np.ones(200), *(scipy.stats.zscore(np.asarray(column, float)) for column in X.values())])
    residuals = (y[:, None] == np.arange(4)) - probabilities(fit, X)
    close(features @ (weights[:, None] * residuals), 0, atol=1e-5)
    assert fit.attributes["objective"] == pytest.approx(weights @ log_scores(fit, X, y), abs=1e-9)
    assert fit.attributes["objective_of_joint_fit"] == pytest.approx(weights @ log_scores(joint, X, y), abs=1e-9)
    assert fit.attributes["unidentified_directions"] == np.size(free(fit)) - 3 * 4


def free(fit):
    """The free parameters of a fit."""
    with jax.enable_x64(True):
        return free_vector(fit.program, fit.program.latents_of(fit.parameters))


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_linear_log_odds_are_found_by_the_search_over_processes_too(name, monkeypatch, reals):
    model, kind = LINEAR[name]
    X, y = reals
    X = {"real": X, "binary": X.mean(0) < X, "count": np.floor(np.abs(X - X[0]) / X.std(0)), "both": X}[kind]
    columns = {f"x{place}": column for place, column in enumerate(X.T)}
    if kind == "both":
        columns["x1"] = columns["x1"] > 300
    fit = bg.fit(model, columns, y, method=CONDITIONAL)
    monkeypatch.setattr("bayesgen.fitting.discriminative.log_linear_maximum", lambda joint, rows: None)
    searched = bg.fit(model, columns, y, method=CONDITIONAL)
    for key in ("objective", "objective_of_joint_fit", "unidentified_directions"):
        assert fit.attributes[key] == pytest.approx(searched.attributes[key], abs=1e-7)
    close(probabilities(fit, columns), probabilities(searched, columns), atol=1e-5)


def test_a_joint_fit_with_probabilities_of_zero_is_where_the_climb_starts():
    rng = np.random.default_rng(0)
    y = np.repeat(["ape", "bear"], [27, 33])
    X = {"flag": np.zeros(60, bool), "size": rng.normal(size=60) + 0.8 * (y == "bear")}
    model = bg.NaiveBayes()
    joint, found = bg.fit(model, X, y, method=bg.MLE()), bg.fit(model, X, y, method=CONDITIONAL)
    assert found.attributes["objective_of_joint_fit"] == pytest.approx(log_scores(joint, X, y).sum(), abs=1e-9)
    assert found.attributes["objective"] == pytest.approx(log_scores(found, X, y).sum(), abs=1e-9)
    start = initial_vector(prepare(model, X, y), joint)
    inner = bg.fit(model, {"size": X["size"]}, y, method=bg.MLE())
    elsewhere = initial_vector(prepare(model, {"size": X["size"]}, y), inner)
    close(np.delete(start, [1, 2]), elsewhere, rtol=1e-12)  # those of the flag alone are moved from the edge
    assert np.isfinite(start).all()


@pytest.mark.parametrize("num_classes", [2, 5])
def test_the_first_rows_may_hardly_vary_in_a_column(num_classes, monkeypatch):
    """Slopes of log odds are those of moves that have digits, and the objective is that of the parameters."""
    monkeypatch.setattr("bayesgen.fitting.log_linear.CACHE_ROWS", 64)
    rng = np.random.default_rng(0)
    y = rng.integers(num_classes, size=600)
    X = rng.normal(size=(600, 3)) + 0.7 * y[:, None] * [1.0, -0.5, 0.3]
    X[:70, 2] = 3 + 1e-15 * rng.integers(2, size=70)
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=CONDITIONAL)
    assert fit.attributes["objective"] == pytest.approx(log_scores(fit, X, y).sum(), abs=1e-9)


@pytest.mark.slow
def test_weights_are_repeated_rows_in_any_order_and_rows_without_label_say_nothing(reals):
    X, y = reals
    rng = np.random.default_rng(1)
    weights = rng.choice(3, len(y), p=[0.1, 0.7, 0.2])  # few zeros: both fits compile one size
    model = bg.GaussianDiscriminant("tied", class_prior=[0.2, 0.5, 0.3])  # intercepts come from the means alone
    weighted = bg.fit(model, X, y, method=CONDITIONAL, sample_weight=weights)
    close(probabilities(weighted, X), logistic(X, y, weights) if not weights.all() else 0, atol=2e-5)
    repeated = rng.permutation(np.repeat(np.arange(len(y)), weights))
    more = np.concatenate([X[repeated], X[:17] + 1])
    labels = np.concatenate([y[repeated].astype(object), [None] * 17])
    close(probabilities(bg.fit(model, more, labels, method=CONDITIONAL), X), probabilities(weighted, X), atol=1e-7)
    assert weighted.parameters["class_probs"].tolist() == [0.2, 0.5, 0.3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "categorical"])
def test_naive_bayes_is_logistic_regression_on_indicators(kind):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 300)
    first = rng.random(300) < 0.3 + 0.3 * y
    second = (
        rng.integers(0, 3, 300) * (rng.random(300) < 0.6 + 0.2 * y)
        if kind == "categorical"
        else first ^ (rng.random(300) < 0.2)
    )
    X = {"first": first, "second": np.asarray(["a", "b", "c"])[second] if kind == "categorical" else second}
    fit = bg.fit(bg.NaiveBayes(), X, y, method=CONDITIONAL)
    others = [second == value for value in range(1, 3)] if kind == "categorical" else [second]
    features = np.stack([first, *others], 1).astype(float)
    close(probabilities(fit, X), logistic(features, y), atol=1e-5)


def one_scale(n):
    """Two classes about means of their own, whose spread is one."""
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(3.0))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(share))
        x = numpyro.sample("x", dist.Normal(mean[y], scale))
        numpyro.sample("z", dist.Normal(mean[1 - y] + 0.3 * x, 2.0))  # depends on x: run row by row


@pytest.fixture(scope="module")
def own():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 96)
    X = {"x": rng.normal(0.7 * y, 1.3), "z": rng.normal(-0.5 * y, 2.0)}
    return bg.GenerativeProgram(one_scale, classes=2), X, y


@pytest.mark.slow
def test_the_density_and_its_slopes_are_those_of_the_program(own):
    program, X, y = own
    weights = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
    rows = prepare(program, X, y, sample_weight=weights, keeps_rows=True).data.rows
    latents = {"share": 0.3, "mean": np.array([0.4, -0.8]), "scale": 1.7}

    def expected(move):
        moved = {name: value + step for (name, value), step in zip(latents.items(), move, strict=True)}
        table = scipy.special.log_softmax(program.log_joint(moved, X), axis=1)
        return weights @ table[np.arange(len(y)), y]

    with jax.enable_x64(True):
        vector = jnp.asarray(free_vector(program, {name: np.asarray(value) for name, value in latents.items()}))
        density = ProgramDensity(program, (RowsTerm(padded_rows(rows), given_attributes=True),))
        value, slopes = map(np.asarray, jax.jit(jax.value_and_grad(density))(vector))
        assert float(value) == pytest.approx(expected([0.0, 0.0, 0.0]), rel=1e-12)
    # d share = share (1 - share) du, d scale = scale du
    steps = [([1e-5, 0, 0], 0.3 * 0.7), ([0, np.array([1e-5, 0]), 0], 1.0), ([0, np.array([0, 1e-5]), 0], 1.0)]
    steps.append(([0, 0, 1e-5], 1.7))
    for slope, (step, factor) in zip(slopes, steps, strict=True):
        negative = [-1 * part for part in step]
        assert slope == pytest.approx((expected(step) - expected(negative)) / 2e-5 * factor, rel=1e-6)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(CONDITIONAL, marks=pytest.mark.slow),
        pytest.param(bg.MAP(objective="conditional"), marks=pytest.mark.slow),
    ],
    ids=["MLE", "MAP"],
)
def test_a_program_of_ones_own_reaches_what_another_search_does(own, method):
    program, X, y = own
    fit = bg.fit(program, X, y, method=method)

    def objective(vector):
        latents = {"share": scipy.special.expit(vector[0]), "mean": vector[1:3], "scale": np.exp(vector[3])}
        table = scipy.special.log_softmax(program.log_joint(latents, X), axis=1)
        priors = scipy.stats.beta(2, 2).logpdf(latents["share"]) + scipy.stats.halfnorm(0, 3).logpdf(latents["scale"])
        priors += scipy.stats.norm(0, 5).logpdf(latents["mean"]).sum()
        return -table[np.arange(len(y)), y].sum() - (priors if isinstance(method, bg.MAP) else 0.0)

    found = scipy.optimize.minimize(objective, np.zeros(4), method="Nelder-Mead", options={"maxiter": 400})
    assert fit.attributes["objective"] >= -found.fun - 1e-6
    assert fit.attributes["objective"] == pytest.approx(-found.fun, abs=1e-2)


@pytest.mark.slow
def test_missing_cells_are_left_out_of_the_conditional_density():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 97)
    X = rng.normal(size=(97, 2)) + np.outer(y, [0.8, -0.5])
    X[rng.random(X.shape) < 0.2] = np.nan
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=CONDITIONAL)
    joint = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MLE())
    best = log_scores(fit, X, y).sum()
    assert best == pytest.approx(fit.attributes["objective"], abs=1e-9)
    assert best > log_scores(joint, X, y).sum() + 1e-3
    program, latents = fit.program, fit.program.latents_of(fit.parameters)
    rows = {"real": np.ma.masked_invalid(X)}
    for seed in range(6):  # no neighbour is higher
        noise = np.random.default_rng(seed).normal(size=2)
        moved = latents | {"real_mean": latents["real_mean"] + 0.02 * np.outer([1, -1], noise)}
        table = scipy.special.log_softmax(program.log_joint(moved, rows), axis=1)
        assert table[np.arange(97), y].sum() < best


# --- what has no maximum, and what cannot be asked ----------------------------------------------------------------


def petals():
    """One kind of flowers is apart from the two others, which overlap."""
    X, y = load_iris(return_X_y=True)
    return X[:, 2:], y


@pytest.mark.slow  # those of a program are refused in every run: program/test_discriminative.py
def test_separable_classes_are_refused():
    with pytest.raises(FitError, match=r"rises without end along site 'real_.*MAP"):
        bg.fit(bg.GaussianDiscriminant("tied"), *petals(), method=CONDITIONAL)


@pytest.mark.slow
def test_a_prior_bounds_separable_classes():
    X, y = petals()
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MAP(objective="conditional"))
    assert np.isfinite(fit.parameters["real_covariance"]).all()
    joint = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=bg.MAP())
    assert log_scores(fit, X, y).sum() > log_scores(joint, X, y).sum()


@pytest.mark.slow
def test_values_of_one_class_alone_are_refused_under_flat_priors():
    """A value that only one class has follows with certainty: its odds have no end."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 60)
    X = {"one": (rng.random(60) < 0.4) & (y == 1), "two": rng.random(60) < 0.3 + 0.4 * y}
    for method in (CONDITIONAL, bg.MAP(objective="conditional")):  # Beta(1, 1) is flat
        with pytest.raises(FitError, match="rises without end along site 'binary_probs'"):
            bg.fit(bg.NaiveBayes(), X, y, method=method)
    bounded = bg.NaiveBayes(bg.BetaBernoulli(2, 2), class_prior=bg.DirichletCategorical(2))
    fit = bg.fit(bounded, X, y, method=bg.MAP(objective="conditional"))
    assert (fit.parameters["binary_probs"] > 0).all()


def test_what_cannot_be_asked_is_refused_by_name(reals, tied):
    X, y = reals
    model = bg.GaussianDiscriminant("tied")
    with pytest.raises(FitError, match="Summaries do not determine"):
        bg.fit(model, bg.summarize(model, X, y), method=CONDITIONAL)
    with pytest.raises(FitError, match="Fit again on all rows"):
        tied.update(X[:3], y[:3])
    with pytest.raises(FitError, match="There are no labels"):
        bg.fit(bg.Mixture(model, 2), X, method=CONDITIONAL)
    for method in (CONDITIONAL, bg.MAP(objective=bg.Hybrid(1.0))):
        with pytest.raises(FitError, match=r"fewer than two classes.*Use objective='joint'"):
            bg.fit(bg.ProbabilisticPCA(1), X, method=method)
    with pytest.raises(FitError, match="No row has a label"):
        bg.fit(model, X, [None] * len(y), method=CONDITIONAL, schema=bg.Schema(classes=["ape", "bear"]))
    with pytest.raises(ModelError, match="objective must be one of"):
        bg.MAP(objective="discriminative")
    with pytest.raises(ModelError, match="assignment='hard'"):
        bg.MLE(objective="conditional", assignment="hard")
    for method in (bg.MLE, bg.MAP):
        for argument, value in (("starts", y), ("unlabelled_weight", 0.5)):
            with pytest.raises(ModelError, match=rf"{argument} is for rows without labels, which have\s+no part in"):
                method(objective="conditional", **{argument: value})
    assert bg.MLE(objective=bg.Hybrid(1.0), starts=y, unlabelled_weight=0.5).starts is not None
    with pytest.raises(FitError, match="concept learner"):
        bg.fit(bg.ConceptLearner(bg.number_game()), [16, 8], method=CONDITIONAL)


@pytest.mark.slow
def test_a_climb_from_rows_to_a_prior_meets_its_end():
    """Labels by chance: loadings shrink, one to none, and the end is 400,000 times as curved as the start."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(5, 2))
    X = rng.normal(size=(37, 2)) @ loadings.T + 0.3 * rng.normal(size=(37, 5)) + 5
    rng.random(X.shape)
    y = np.array(["a", "b"])[rng.integers(0, 2, 37)]
    model = bg.GenerativeClassifier([("s", bg.LowRankNormal(2), [f"x{place}" for place in range(5)])])
    fit = bg.fit(model, X, y, method=bg.MAP(objective="conditional"))
    assert fit.attributes["objective"] > -32.8173  # so far come 500 steps of Newton in regions that SciPy trusts


def test_objectives_are_named_only_where_they_are_not_joint():
    assert repr(bg.MLE()) == "MLE(num_starts=None, starts=None, assignment='soft', unlabelled_weight=1.0)"
    assert repr(CONDITIONAL).endswith("objective='conditional')")
    assert CONDITIONAL == bg.MLE(objective="conditional") != bg.MLE() == bg.MLE(objective="joint")
    assert bg.MAP(objective=bg.Hybrid(0.5)) == bg.MAP(objective=bg.Hybrid(0.5)) != bg.MAP(objective=bg.Hybrid(1.5))


def test_a_comparison_reads_once_and_its_reference_is_the_joint_mode(reals, tied):
    X, y = reals
    pairs = [(CONDITIONAL, bg.PlugIn()), (bg.MAP(), bg.PlugIn())]
    table = bg.compare(bg.GaussianDiscriminant("tied"), X, y, X, y, methods=pairs).table
    assert table["refused"].isna().all()
    assert table["difference"].to_list()[1] == 0 and table["difference"].to_list()[0] > 0
    close(table["log_score"].to_list()[0], log_scores(tied, X, y).mean(), rtol=1e-12)
