"""Averaging over which columns depend on the class: against all subsets one by one, built from families alone."""

import itertools
import time

import jax
import numpy as np
import pytest
import scipy.special

import bayesgen as bg

close = np.testing.assert_allclose
RHO = 0.3


def columns(rng, codes):
    """A column of each kind, some of which depend on the class."""
    return {
        "real": rng.normal(codes, 1.0),
        "noise": rng.normal(0, 2.0, len(codes)),
        "yes": rng.random(len(codes)) < 0.3 + 0.3 * codes,
        "food": np.asarray(["leaves", "meat", "roots"])[rng.integers(0, 3, len(codes))],
        "visits": rng.poisson(1.0 + 2 * codes),
        "word": np.asarray(["".join(rng.choice(["a", "b"], size, p=[p, 1 - p])) for size, p in _lengths(rng, codes)]),
    }


def _lengths(rng, codes):
    """The length of each word, and how often it has an a."""
    return zip(rng.integers(1, 6, len(codes)), 0.3 + 0.4 * codes, strict=True)


FAMILIES = {
    "real": bg.NormalInverseGamma(0.3, 0.6, 2.7, 0.9),
    "noise": bg.NormalInverseGamma(0.1, 0.2, 1.7, 1.9),
    "yes": bg.BetaBernoulli(1.7, 2.6),
    "food": bg.DirichletCategorical([1.4, 0.7, 2.0]),
    "visits": bg.GammaPoisson(2.2, 0.6),
    "word": bg.DirichletMarkov(1, 0.7, symbols="ab"),  # a column whose parameters have no axis of columns
}


def as_numbers(X):
    """The columns as their families take them alone: numbers, and words as they are."""
    food = {"leaves": 0, "meat": 1, "roots": 2}
    numbers = {k: np.asarray([food[v] for v in x] if k == "food" else x, float) for k, x in X.items() if k != "word"}
    return numbers | {k: x for k, x in X.items() if k == "word"}


def pairs(names, values):
    return list(zip(names, values, strict=True))


def brute_force(families, X, codes, rho):
    """log p(X, y) and the posterior of each structure: a sum over all subsets, each column's evidence by itself."""
    names = list(families)
    by_class = {k: sum(families[k].log_evidence(X[k][codes == c]) for c in np.unique(codes)) for k in names}
    at_once = {k: families[k].log_evidence(X[k]) for k in names}
    subsets = list(itertools.product([False, True], repeat=len(names)))
    logs = [
        sum(np.log(rho) + by_class[k] if on else np.log(1 - rho) + at_once[k] for k, on in pairs(names, subset))
        for subset in subsets
    ]
    labels = bg.DirichletCategorical([1.0, 1.0]).log_evidence(codes)
    total = scipy.special.logsumexp(logs)
    posterior = np.exp(np.asarray(logs) - total)
    return total + labels, posterior @ np.asarray(subsets, float)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    codes = np.arange(29) % 2
    return columns(rng, codes), codes


@pytest.fixture(scope="module")
def model():
    return bg.NaiveBayes(FAMILIES, structure="average", dependence_prior=RHO)


@pytest.fixture(scope="module")
def fit(model, data):
    return bg.fit(model, *data, method=bg.Exact())


def test_evidence_and_dependence_are_those_of_all_subsets(fit, data):
    X, y = data
    evidence, dependence = brute_force(FAMILIES, as_numbers(X), y, RHO)
    close(fit.log_evidence, evidence, rtol=1e-10)
    found = {}
    for name, _, block_columns in fit.concrete.blocks:
        found |= dict(zip(block_columns, fit.parameters[f"{name}_dependence"], strict=True))
    close([found[name] for name in FAMILIES], dependence, rtol=1e-10)


def test_predictions_are_those_of_all_subsets(fit, data):
    X, y = data
    new = columns(np.random.default_rng(8), np.asarray([0, 1, 1]))
    table = fit.log_joint(new, at="predictive")
    whole, _ = brute_force(FAMILIES, as_numbers(X), y, RHO)
    for row, code in itertools.product(range(3), range(2)):
        more = {k: np.append(x, as_numbers(new)[k][row]) for k, x in as_numbers(X).items()}
        close(table[row, code], brute_force(FAMILIES, more, np.append(y, code), RHO)[0] - whole, rtol=1e-9, atol=1e-10)


def test_eight_binary_columns():
    rng = np.random.default_rng(4)
    y = np.arange(24) % 2
    X = rng.random((24, 8)) < 0.2 + 0.5 * np.outer(y, np.arange(8) % 2)
    fit = bg.fit(bg.NaiveBayes(structure="average"), X, y, method=bg.Exact())
    families = {f"x{j}": bg.BetaBernoulli() for j in range(8)}
    evidence, dependence = brute_force(families, dict(zip(families, X.T.astype(float), strict=True)), y, 0.5)
    close(fit.log_evidence, evidence, rtol=1e-12)
    close(fit.posterior.conjugate.dependence["binary"], dependence, rtol=1e-10)


def test_the_formula_of_dash_and_cooper():
    rng = np.random.default_rng(5)
    y, x, alpha, rho = np.arange(31) % 2, rng.integers(0, 3, 31), 0.8, 0.4
    model = bg.NaiveBayes(bg.DirichletCategorical(alpha), structure="average", dependence_prior=rho)
    fit = bg.fit(model, {"x": x.astype(str)}, y, method=bg.Exact())
    counts = np.asarray([np.bincount(x[y == c], minlength=3) for c in (0, 1)])
    gammaln, total, size = scipy.special.gammaln, counts.sum(0), len(x)
    arc = (gammaln(3 * alpha) - gammaln(3 * alpha + counts.sum(1))).sum() + (
        gammaln(alpha + counts) - gammaln(alpha)
    ).sum()
    none = gammaln(3 * alpha) - gammaln(3 * alpha + size) + (gammaln(alpha + total) - gammaln(alpha)).sum()
    p = rho * np.exp(arc) / (rho * np.exp(arc) + (1 - rho) * np.exp(none))
    theta = p * (counts + alpha) / (counts.sum(1, keepdims=True) + 3 * alpha)
    theta = theta + (1 - p) * (total + alpha) / (size + 3 * alpha)
    close(fit.parameters["categorical_3_dependence"], [p], rtol=1e-12)
    classes = (np.bincount(y) + 1) / (size + 2)
    close(np.exp(fit.log_joint({"x": ["0", "1", "2"]}, at="predictive")), (classes[:, None] * theta).T, rtol=1e-12)


def test_certain_dependence_is_plain_naive_bayes_and_none_leaves_the_class_prior(data):
    X, y = data
    plain = bg.fit(bg.NaiveBayes(FAMILIES), X, y, method=bg.Exact())
    full, none = (
        bg.fit(bg.NaiveBayes(FAMILIES, structure="average", dependence_prior=rho), X, y, method=bg.Exact())
        for rho in (1.0, 0.0)
    )
    close(full.log_evidence, plain.log_evidence, rtol=1e-12)
    for at in ("predictive", "mean", "mode"):
        close(full.log_joint(X, at=at), plain.log_joint(X, at=at), rtol=1e-11)
    answer = bg.predict(none, X, rule=bg.BMA()).probabilities
    close(answer, np.broadcast_to(plain.parameters["class_probs"], answer.shape), rtol=1e-10)


def test_plug_in_uses_the_most_probable_structure(fit, data):
    X, _ = data
    joint = fit.log_joint(X, at="mean")
    assert np.isfinite(joint).all()
    for name, probability in fit.posterior.conjugate.dependence.items():
        own = [k for k in fit.parameters if k.startswith(f"{name}_") and k != f"{name}_dependence"]
        parameter = fit.parameters[own[0]]
        same = np.asarray([np.allclose(*parameter[:, j]) for j in range(len(probability))])
        np.testing.assert_array_equal(same, probability < 0.5)


def test_a_joint_block_switches_as_a_whole():
    rng = np.random.default_rng(7)
    y, X = np.arange(20) % 2, rng.poisson(2.0, (20, 5))
    family = bg.DirichletMultinomial([1.0, 1.5, 2.0, 1.2, 1.3])
    fit = bg.fit(bg.NaiveBayes(family, structure="average"), X, y, method=bg.Exact())
    by_class, at_once = sum(family.log_evidence(X[y == c]) for c in (0, 1)), family.log_evidence(X)
    close(fit.posterior.conjugate.dependence["count"], scipy.special.expit(by_class - at_once), rtol=1e-10)
    rows = rng.poisson(2.0, (1, 5))
    more = [np.vstack([X, rows]), np.append(y, 0)]
    after = bg.fit(bg.NaiveBayes(family, structure="average"), *more, method=bg.Exact())
    close(fit.log_joint(rows, at="predictive")[0, 0], after.log_evidence - fit.log_evidence, rtol=1e-9)


@pytest.mark.parametrize("df", [5.0, None])
@pytest.mark.parametrize("tied", [False, True])
def test_jointly_normal_columns_switch_as_a_whole(tied, df):
    rng = np.random.default_rng(7)
    y, X = np.arange(20) % 2, rng.normal(0, 1, (20, 2))
    family = bg.NormalInverseWishart([0.0, 0.1], 0.5, df, np.eye(2), tied=tied)
    model = bg.StructureAverage(bg.GenerativeClassifier([("both", family, ["x0", "x1"])]), 0.4)
    fit = bg.fit(model, X, y, method=bg.Exact())
    after = bg.fit(model, np.vstack([X, [[0.3, 0.5]]]), np.append(y, 1), method=bg.Exact())
    close(fit.log_joint([[0.3, 0.5]], at="predictive")[0, 1], after.log_evidence - fit.log_evidence, rtol=1e-9)


def test_draws_average_to_the_predictive_class_conditional(data):
    X, y = data
    model = bg.NaiveBayes(structure="average", class_prior=[0.5, 0.5])
    fit = bg.fit(model, {"yes": X["yes"]}, y, method=bg.Exact())
    draws = fit.posterior.draws(4000, jax.random.key(0))["binary_probs"]
    one, other = (
        each.blocks[0].family.mean()["probs"] for each in (fit.posterior.conjugate, fit.posterior.conjugate.shared)
    )
    p = fit.posterior.conjugate.dependence["binary"]
    close(draws.mean((0, 1)), p * one + (1 - p) * other, atol=0.012)
    close((draws[0, :, 0] == draws[0, :, 1]).mean(0), 1 - p, atol=0.04)


@pytest.mark.parametrize("num_draws", [1, 2, 3])  # as many as classes or symbols, too
def test_draws_have_the_shapes_of_parameters_and_switch_with_the_structure(fit, num_draws):
    draws = fit.draws(num_draws, seed=5)
    assert {k: x.shape for k, x in draws.items()} == {k: (num_draws, *x.shape) for k, x in fit.parameters.items()}
    initial, depends = draws["word_initial"], draws["word_dependence"]
    np.testing.assert_array_equal((initial[:, 0] != initial[:, 1]).all(-1), depends[:, 0] == 1)
    assert len(fit.summary()) == sum(np.size(x) for x in fit.parameters.values())


def test_the_export_holds_draws_of_structures_and_parameters(fit):
    tree = fit.to_datatree(num_draws=500, seed=2)
    posterior = tree["posterior"]
    assert posterior.attrs["sampling"] == "independent"
    assert set(posterior.data_vars) == set(fit.parameters)
    found = posterior["real_dependence"]
    assert found.dims == ("chain", "draw", "real_feature")
    assert found.coords["real_feature"].to_numpy().tolist() == ["real"]
    p = fit.parameters["real_dependence"]
    close(found.to_numpy().mean((0, 1)), p, atol=5 * np.sqrt(0.25 / 2000))
    means = posterior["real_mean"].to_numpy()
    np.testing.assert_array_equal(means[:, :, 0] != means[:, :, 1], found.to_numpy() == 1)


def test_simulated_rows_follow_the_classes(data):
    X = {name: column for name, column in data[0].items() if name != "word"}
    fit = bg.fit(bg.NaiveBayes(structure="average"), X, data[1], method=bg.Exact())
    rows = fit.simulate_sites(11, seed=4)
    assert rows["y"].shape == (11,) and set(rows["y"]) <= {0, 1}
    assert rows["binary"].shape == (11, 1)


def test_the_export_of_a_joint_block_has_one_dependence():
    rng = np.random.default_rng(7)
    model = bg.NaiveBayes(bg.DirichletMultinomial(1.0), structure="average")
    fit = bg.fit(model, rng.poisson(2.0, (20, 5)), np.arange(20) % 2, method=bg.Exact())
    assert fit.to_datatree(num_draws=10)["posterior"]["count_dependence"].dims == ("chain", "draw")


def test_fifty_thousand_columns_in_linear_time():
    X, y = np.random.default_rng(0).random((100, 50_000)) < 0.01, np.arange(100) % 2
    model = bg.NaiveBayes(bg.BetaBernoulli(), structure="average")
    start = time.perf_counter()
    fit = bg.fit(model, X, y, method=bg.Exact())
    assert bg.predict(fit, X, rule=bg.BMA()).probabilities.shape == (100, 2)
    assert fit.posterior.conjugate.dependence["binary"].shape == (50_000,)
    assert time.perf_counter() - start < 10


def test_structure_averages_are_members_of_averages(fit, data):
    X, y = data
    plain = bg.fit(bg.NaiveBayes(FAMILIES), X, y, method=bg.Exact())
    odds = np.exp(fit.log_evidence - plain.log_evidence)
    close(bg.average([fit, plain]).weights, [odds / (1 + odds), 1 / (1 + odds)], rtol=1e-10)
    stacked = bg.average([fit, plain], weights="stacking", X=X, y=y, folds=3)
    close(stacked.weights.sum(), 1.0)


def test_compare_shows_it_beside_the_single_structure(data):
    X, y = data
    models = {"full": bg.NaiveBayes(FAMILIES), "average": bg.NaiveBayes(FAMILIES, structure="average")}
    methods = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    table = bg.compare(models, X, y, X, y, methods=methods).table
    refused = table[table["refused"].notna()]
    assert refused[["model", "method"]].to_numpy().tolist() == [["average", "MAP"]]


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.NUTS()], ids=lambda method: type(method).__name__)
def test_other_methods_refuse(model, data, method):
    with pytest.raises(bg.FitError, match=r"Use structure='full', or Exact\(\)"):
        bg.fit(model, *data, method=method)


def test_what_makes_no_sense_is_refused(data):
    with pytest.raises(bg.ModelError, match="structure must be one of"):
        bg.NaiveBayes(structure="tree")
    with pytest.raises(bg.ModelError, match="from 0 to 1"):
        bg.NaiveBayes(structure="average", dependence_prior=1.2)
    model = bg.NaiveBayes({"yes": bg.BetaBernoulli([[1.0], [2.0]], 1.0)}, structure="average")
    with pytest.raises(bg.ModelError, match="hyperparameter a differs between the classes"):
        bg.fit(model, {"yes": data[0]["yes"]}, data[1], method=bg.Exact())
