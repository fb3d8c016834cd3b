"""Rows without labels: models are compared, and averaged, by the density of rows that they have not seen."""

import json

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats

import bayesgen as bg

close = np.testing.assert_allclose
RNG = np.random.default_rng(0)
TRAIN, TEST = {"x": RNG.normal(0.4, 1.7, 23)}, {"x": RNG.normal(0.4, 1.7, 11)}
SPREADS = {"narrow": 1.0, "wide": 2.0}
TWO_STEP = [(bg.MAP(), bg.PlugIn())]


def narrow(n):
    center = numpyro.sample("center", dist.Normal(0, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(center, 1.0))


def wide(n):
    center = numpyro.sample("center", dist.Normal(0, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(center, 2.0))


MODELS = {"narrow": bg.GenerativeProgram(narrow, label=None), "wide": bg.GenerativeProgram(wide, label=None)}


def log_densities(name, train, test):
    """Of test rows, at the mode of the center given training rows."""
    spread = SPREADS[name]
    center = train.sum() / (len(train) + spread**2 / 9)
    return scipy.stats.norm(center, spread).logpdf(test)


def log_predictives(name, train, test):
    """Of test rows, the center integrated out."""
    spread = SPREADS[name]
    precision = len(train) / spread**2 + 1 / 9
    return scipy.stats.norm(train.sum() / spread**2 / precision, (spread**2 + 1 / precision) ** 0.5).logpdf(test)


def heavy_tails(n):
    center = numpyro.sample("center", dist.Normal(0, 3))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.StudentT(4, center, 1.0))


@pytest.fixture(scope="module")
def compared():
    return bg.compare(MODELS, TRAIN, None, TEST, None, methods=[*TWO_STEP, (bg.Exact(), bg.BMA())])


def test_the_log_score_is_the_mean_log_density(compared):
    table = compared.table.set_index(["model", "method"])
    for name in MODELS:
        expected = log_densities(name, TRAIN["x"], TEST["x"])
        row = table.loc[(name, "MAP")]
        close(row.log_score, expected.mean(), rtol=1e-6)
        assert row.impossible == 0 and np.isnan([row.accuracy, row.brier, row.ece]).all()
        close(table.loc[(name, "Exact")].log_score, log_predictives(name, TRAIN["x"], TEST["x"]).mean())
    differences = bg.compare(MODELS, TRAIN, None, TEST, None, methods=TWO_STEP).differences
    apart = log_densities("narrow", TRAIN["x"], TEST["x"]) - log_densities("wide", TRAIN["x"], TEST["x"])
    close(differences.difference, apart.mean(), rtol=1e-6)
    close(differences.standard_error, apart.std(ddof=1) / len(apart) ** 0.5, rtol=1e-6)


def test_a_comparison_of_densities_is_told_in_every_form(compared):
    assert compared.truth is None and len(compared.classes) == 0
    assert len(compared.disagreements) == 0
    close(compared.predictions.log_density[:11], log_densities("narrow", TRAIN["x"], TEST["x"]), rtol=1e-6)
    pairs = json.loads(compared.to_json(), parse_constant=pytest.fail)["pairs"]
    assert [pair["accuracy"] for pair in pairs] == [None] * 4
    assert "log_score" in repr(compared) and "accuracy" not in repr(compared)


def test_one_of_the_labels_alone_is_refused():
    for y, y_test in ((None, np.zeros(11)), (np.zeros(23), None)):
        with pytest.raises(bg.DataError, match="One of y and y_test is None"):
            bg.compare(MODELS, TRAIN, y, TEST, y_test)


def test_predictions_without_classes_are_densities():
    fit = bg.fit(MODELS["narrow"], TRAIN, method=bg.MAP())
    answer = bg.predict(fit, TEST, rule=bg.PlugIn())
    close(answer.log_marginal, log_densities("narrow", TRAIN["x"], TEST["x"]), rtol=1e-6)
    assert isinstance(answer, bg.DensityPrediction) and len(repr(answer).splitlines()) == 3
    for name in ("probabilities", "log_probabilities", "labels"):
        with pytest.raises(bg.PredictionError, match="label=None"):
            getattr(answer, name)
    assert bg.predict(fit, {"x": np.empty(0)}, rule=bg.PlugIn()).log_marginal.shape == (0,)


@pytest.fixture(scope="module")
def stacked():
    return bg.fit(bg.average(MODELS.values(), weights="stacking", folds=3, seed=2), TRAIN, method=bg.MAP())


def test_densities_of_rows_left_out_are_stacked(stacked):
    """The weights maximise the mean log density of the mixture, by a search over one number."""
    from bayesgen.averaging.left_out import assign_folds

    x, folds = TRAIN["x"], assign_folds(TRAIN, 3, 2)
    scores = np.empty((2, len(x)))
    for fold in range(3):
        for place, name in enumerate(MODELS):
            scores[place, folds == fold] = log_densities(name, x[folds != fold], x[folds == fold])
    close(stacked.scores, scores.sum(axis=1), rtol=1e-6)

    def loss(weight):
        return -np.log(weight * np.exp(scores[0]) + (1 - weight) * np.exp(scores[1])).mean()

    best = scipy.optimize.minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    close(stacked.weights[0], best.x, atol=1e-4)
    assert 0.05 < best.x < 0.95
    held_out = bg.average(stacked.members, weights="pseudo-bma", X=TEST, folds=None)
    totals = [log_densities(name, x, TEST["x"]).sum() for name in MODELS]
    close(held_out.weights, scipy.special.softmax(totals), rtol=1e-4)


@pytest.mark.slow  # averages of modes stand in every run of averaging/
def test_models_without_an_exact_posterior_are_averaged_by_their_modes():
    models = [bg.GenerativeProgram(heavy_tails, label=None), MODELS["wide"]]
    averaged = bg.average(models, weights="stacking", X=TRAIN, folds=3, seed=2)
    assert [member.method for member in averaged.members] == [bg.MAP(), bg.Exact()]
    with pytest.raises(bg.FitError, match="center"):  # evidences are those of exact posteriors
        bg.average(models, X=TRAIN)


def test_evidences_of_programs_weigh_them():
    averaged = bg.average(MODELS.values(), X=TRAIN)
    x = TRAIN["x"]
    evidences = [scipy.stats.multivariate_normal(cov=s**2 * np.eye(23) + 9).logpdf(x) for s in SPREADS.values()]
    close(averaged.weights, scipy.special.softmax(evidences))


def test_the_densities_of_an_average_are_mixed_and_it_has_no_classes(stacked):
    parts = [log_densities(name, TRAIN["x"], TEST["x"]) for name in MODELS]
    mixed = np.log(sum(weight * np.exp(part) for weight, part in zip(stacked.weights, parts, strict=True)))
    answer = bg.predict(stacked, TEST, rule=bg.BMA())
    close(answer.log_marginal, mixed, rtol=1e-6)
    best = bg.predict(stacked, TEST, rule=bg.PlugIn())
    close(best.log_marginal, parts[int(np.argmax(stacked.weights))], rtol=1e-6)
    with pytest.raises(bg.PredictionError, match=r"no class probabilities or responsibilities.*fit\.best"):
        _ = answer.probabilities
    with pytest.raises(bg.PredictionError, match="so it has no table of classes"):
        stacked.log_joint(TEST, at="predictive")
    with pytest.raises(bg.PredictionError, match=r"Use BMA\(\)"):
        bg.predict(stacked, TEST, rule=bg.ConditionalAverage())
    assert "Stacking" in repr(stacked) and stacked.simulate(5, seed=1)["x"].shape == (5,)
    compared = bg.compare({"both": bg.average(MODELS.values(), weights="stacking", folds=3, seed=2)}, TRAIN, None, TEST,
                          None, methods=[(bg.MAP(), bg.BMA())])  # fmt: skip
    close(compared.table.log_score, mixed.mean(), rtol=1e-6)


def test_averages_of_densities_refuse_what_they_cannot_weigh(stacked):
    labelled = bg.fit(bg.NaiveBayes(), TRAIN, np.arange(23) % 2, method=bg.Exact())
    for message, call in {
        "densities of rows left out: give X=, and no y": lambda: bg.average(
            stacked.members, weights="stacking", X=TRAIN, y=np.zeros(23)
        ),
        r"Members \[0\] learn from labels": lambda: bg.average(
            [labelled, stacked.members[0]], weights="stacking", X=TRAIN, y=np.zeros(23)
        ),
        "no log evidence": lambda: bg.average(stacked.members),
        "without sample_weight": lambda: bg.fit(
            bg.average(MODELS.values(), weights="stacking"), TRAIN, method=bg.MAP(), sample_weight=np.ones(23)
        ),
    }.items():
        with pytest.raises(bg.FitError, match=message):
            call()


def test_missing_labels_of_test_rows_are_refused_by_their_own_name():
    X = [[1.0], [2.0], [5.0], [7.0]]
    with pytest.raises(bg.DataError, match=r"y_test has 1 missing values \(first at row 2\)\. Drop these rows"):
        bg.compare(bg.NaiveBayes(), X, list("aabb"), X, ["a", "a", None, "b"], methods=[(bg.Exact(), bg.BMA())])
