"""Estimators of scikit-learn: its own checks, and what pipelines and searches do with them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesgen as bg
from bayesgen import sklearn as estimators
from bayesgen.data import CATEGORICAL

IRIS, SPECIES = load_iris(return_X_y=True, as_frame=True)


@parametrize_with_checks(
    [
        estimators.NaiveBayesClassifier(),
        estimators.GaussianDiscriminantClassifier(),
        estimators.BayesGenClassifier(bg.GaussianDiscriminant("diag"), method="exact", rule="bma"),
        estimators.BayesGenRegressor(),
    ]
)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([estimators.MixtureModel()])
def test_mixtures_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method, rule", [("map", "plugin"), ("exact", "bma")])
def test_a_classifier_answers_as_its_fit_does(method, rule):
    estimator = estimators.GaussianDiscriminantClassifier("tied", method=method, rule=rule).fit(IRIS, SPECIES)
    answer = bg.predict(estimator.fit_, IRIS, rule=estimators.RULES[rule]())
    np.testing.assert_array_equal(estimator.predict_proba(IRIS), answer.probabilities)
    np.testing.assert_array_equal(estimator.predict_log_proba(IRIS), answer.log_probabilities)
    np.testing.assert_array_equal(estimator.score_samples(IRIS), answer.log_marginal)
    assert estimator.score(IRIS, SPECIES) == np.mean(answer.labels == SPECIES)
    assert list(estimator.feature_names_in_) == list(IRIS.columns) and estimator.classes_.tolist() == [0, 1, 2]


NUMBERS = 10.0 * SPECIES + IRIS.iloc[:, 0]
WITH_STATISTICS = {
    "naive Bayes": estimators.NaiveBayesClassifier(),
    "average of structures": estimators.NaiveBayesClassifier(structure="average"),
    "plug-in": estimators.NaiveBayesClassifier(method="map", rule="plugin"),
    "maximum likelihood": estimators.GaussianDiscriminantClassifier("tied", method="mle", rule="plugin"),
    **{name: estimators.GaussianDiscriminantClassifier(name) for name in ("full", "diag", "spherical", "tied-diag")},
    "own prior": estimators.BayesGenClassifier(bg.NaiveBayes(bg.NormalInverseGamma(5.0, 0.1, 2.0, 1.0))),
    "average": estimators.BayesGenClassifier(bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()])),
    "counts": estimators.BayesGenClassifier(bg.NaiveBayes(bg.GammaPoisson()), schema=bg.Schema()),
    "regression": estimators.BayesGenRegressor(),
    "linear regression": estimators.BayesGenRegressor(bg.LinearRegression()),
    "naive regression": estimators.BayesGenRegressor(bg.NaiveBayesRegression()),
}
SLOW = ("average of structures", "spherical", "tied-diag", "own prior", "naive regression")  # left to the slow run
LAWS = [
    pytest.param(
        name, ends, id=f"{name}, {first}", marks=[pytest.mark.slow] if first != "first" or name in SLOW else []
    )
    for name in WITH_STATISTICS
    for first, ends in {"first": (1, 20), "halves": (75,), "rows": range(1, 12)}.items()
]


@pytest.mark.parametrize("name, ends", LAWS)
def test_batches_have_the_fit_of_all_rows_together(name, ends):
    """Neither the first batch nor the units of the columns matter."""
    order = np.random.default_rng(0).permutation(150)
    rows, numbers = IRIS.iloc[order] * [1.0, 100.0, 1.0, 1e-3], NUMBERS.iloc[order]
    rows = rows.round() if name == "counts" else rows
    together, batched = clone(WITH_STATISTICS[name]), clone(WITH_STATISTICS[name])
    is_classifier = hasattr(together, "predict_proba")
    y = SPECIES.iloc[order] if is_classifier else numbers
    options = {"classes": [0, 1, 2]} if is_classifier else {}
    together.fit(rows, y)
    for batch in np.split(np.arange(150), ends):
        batched.partial_fit(rows.iloc[batch], y.iloc[batch], **options)
    for answer in ("predict_proba", "score_samples") if is_classifier else ("predict",):
        expected = getattr(together, answer)(rows)
        np.testing.assert_allclose(getattr(batched, answer)(rows), expected, rtol=1e-7, atol=1e-12)
    assert batched.fit_.log_evidence == pytest.approx(together.fit_.log_evidence)


@pytest.mark.parametrize("name", ["naive Bayes", "average"])
def test_a_fit_goes_on_with_more_rows(name):
    whole, grown = (clone(WITH_STATISTICS[name]) for _ in range(2))
    whole.fit(IRIS, SPECIES)
    some = np.arange(150) % 4 > 0
    grown.fit(IRIS[some], SPECIES[some]).partial_fit(IRIS[~some], SPECIES[~some])
    np.testing.assert_allclose(grown.predict_proba(IRIS), whole.predict_proba(IRIS), rtol=1e-9)


def test_batches_do_not_teach_weights_that_are_learned_on_rows():
    model = bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()], weights="stacking")
    with pytest.raises(bg.ModelError, match="all rows at once"):
        estimators.BayesGenClassifier(model).partial_fit(IRIS, SPECIES, classes=[0, 1, 2])


def test_batches_may_lack_classes_where_an_estimate_needs_them():
    estimator = estimators.GaussianDiscriminantClassifier(method="mle", rule="plugin")
    estimator.partial_fit(IRIS[:50], SPECIES[:50], classes=[0, 1, 2])
    with pytest.raises(bg.FitError, match="class"):
        estimator.predict(IRIS)
    estimator.partial_fit(IRIS[50:], SPECIES[50:])
    whole = clone(estimator).fit(IRIS, SPECIES)
    np.testing.assert_allclose(estimator.predict_proba(IRIS), whole.predict_proba(IRIS), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]", "datetime64[Y]", "timedelta64[s]", "int8", "U3"])
def test_classes_without_rows_keep_their_place(kind):
    labels, weights = np.array([3, 4, 5]).astype(kind)[SPECIES], (SPECIES > 0).astype(float)
    weighted = estimators.NaiveBayesClassifier().fit(IRIS, labels, sample_weight=weights)
    batched = estimators.NaiveBayesClassifier().partial_fit(IRIS[50:], labels[50:], classes=np.unique(labels))
    for estimator in (weighted, batched):
        assert estimator.predict_proba(IRIS).shape == (150, 3)
        assert np.mean(estimator.predict(IRIS[50:]) == labels[50:]) > 0.9


WITH_CODES = IRIS.assign(code=np.arange(150) % 2)
DOORS = {
    "fit": lambda y, schema: bg.fit(bg.NaiveBayes(), WITH_CODES, y, method=bg.Exact(), schema=schema),
    "summaries": lambda y, schema: bg.summarize(bg.NaiveBayes(), WITH_CODES, y, schema=schema),
    "many": lambda y, schema: bg.fit_many(bg.NaiveBayes(), [(WITH_CODES, y)], method=bg.Exact(), schema=schema)[0],
    "average": lambda y, schema: bg.fit(
        bg.average([bg.NaiveBayes()]), WITH_CODES, y, method=bg.Exact(), schema=schema
    ).members[0],
    "estimator": lambda y, schema: estimators.NaiveBayesClassifier(schema=schema).fit(WITH_CODES, y),
    "discriminant": lambda y, schema: estimators.GaussianDiscriminantClassifier(schema=schema).fit(WITH_CODES, y),
    "any model": lambda y, schema: estimators.BayesGenClassifier(schema=schema).fit(WITH_CODES, y),
    "batches": lambda y, schema: estimators.NaiveBayesClassifier(schema=schema).partial_fit(WITH_CODES, y),
}


@pytest.mark.parametrize("door", [pytest.param(d, marks=pytest.mark.slow) if d == "many" else d for d in DOORS])
def test_declarations_hold_at_every_door(door):
    classes, y = (
        ["virginica", "setosa", "versicolor", "unseen"],
        np.array(["setosa", "versicolor", "virginica"])[SPECIES],
    )
    declared = bg.Schema({"code": "categorical"}, {"code": [2, 1, 0]}, classes, unknown="missing")
    trained = DOORS[door](y, declared)
    schema = trained.fit_.schema if hasattr(trained, "fit_") else trained.schema
    assert list(getattr(trained, "classes_", classes)) == list(schema.classes) == classes
    assert schema.kinds["code"] == CATEGORICAL and list(schema.categories["code"]) == [2, 1, 0]
    assert schema.unknown == "missing"
    with pytest.raises(bg.DataError, match="virginica"):
        DOORS[door](y, bg.Schema(classes=["setosa", "versicolor"]))


EXACT = [(bg.Exact(), bg.BMA())]
COMPARING = {
    "compare": lambda X, y, schema: bg.compare(bg.NaiveBayes(), X, y, X, y, methods=EXACT, schema=schema),
    "study": lambda X, y, schema: bg.study(
        bg.NaiveBayes(), X, y, sizes=(50,), repeats=1, pairs=EXACT, per_class=False, schema=schema
    ),
    "prequential": lambda X, y, schema: bg.prequential(bg.NaiveBayes(), X, y, schema=schema),
}


@pytest.mark.parametrize("verb", ["compare", "prequential", pytest.param("study", marks=pytest.mark.slow)])
def test_declarations_hold_where_answers_are_compared(verb):
    """The declared class has no rows, and a cell that is none of the declared categories is taken for missing."""
    X, y = WITH_CODES.assign(code=np.where(SPECIES == 2, 7, WITH_CODES.code)), np.array(["a", "b", "c"])[SPECIES]
    declared = {"kinds": {"code": "categorical"}, "categories": {"code": [2, 1, 0]}}
    with pytest.warns(bg.BayesgenWarning, match="code"):
        compared = COMPARING[verb](X, y, bg.Schema(**declared, classes=["c", "a", "b", "unseen"], unknown="missing"))
    if verb == "compare":
        assert {"p[unseen]"} <= set(compared.predictions.columns)
    elif verb == "study":
        assert np.isfinite(compared.table["log_score"]).all()
        with pytest.raises(bg.DataError, match=r"'unseen' has 0.*per_class=False"):
            bg.study(bg.NaiveBayes(), IRIS, y, pairs=EXACT, schema=bg.Schema(classes=["c", "a", "b", "unseen"]))
    else:
        np.testing.assert_allclose(compared.log_scores[0], np.log(1 / 4), rtol=1e-12)
    with pytest.raises(bg.DataError, match="'code'"):
        COMPARING[verb](X, y, bg.Schema(**declared))
    with pytest.raises(bg.DataError, match="'c'"):
        COMPARING[verb](X, y, bg.Schema(**declared, classes=["a", "b"], unknown="missing"))


@pytest.mark.parametrize("method", ["exact", "map"])
@pytest.mark.parametrize(
    "estimator",
    [
        *(estimators.GaussianDiscriminantClassifier(name) for name in ("full", "tied", "diag")),
        estimators.NaiveBayesClassifier(),
        estimators.NaiveBayesClassifier(bg.NormalInverseWishart()),
        estimators.BayesGenClassifier(bg.average([bg.GaussianDiscriminant(), bg.NaiveBayes()])),
        estimators.BayesGenRegressor(),
        estimators.BayesGenRegressor(bg.NaiveBayesRegression()),
        estimators.BayesGenRegressor(bg.LinearRegression()),
    ],
)
def test_estimators_say_whether_they_take_missing_cells(estimator, method):
    estimator = clone(estimator).set_params(method=method)
    if isinstance(getattr(estimator, "model", None), type(bg.average([bg.NaiveBayes()]))) and method == "map":
        return  # refused whatever the cells are
    rows = IRIS.mask(np.random.default_rng(0).random(IRIS.shape) < 0.05)
    y = SPECIES if hasattr(estimator, "predict_proba") else NUMBERS
    if estimator.__sklearn_tags__().input_tags.allow_nan:
        estimator.fit(rows, y)
    else:
        with pytest.raises(ValueError):
            estimator.fit(rows, y)


def test_the_default_is_the_one_step_answer_where_it_has_a_closed_form():
    for estimator, y in (
        (estimators.NaiveBayesClassifier(), SPECIES),
        (estimators.GaussianDiscriminantClassifier(), SPECIES),
        (estimators.BayesGenClassifier(), SPECIES),
        (estimators.BayesGenRegressor(), NUMBERS),
    ):
        one_step = clone(estimator).set_params(method="exact", rule="bma").fit(IRIS, y)
        np.testing.assert_array_equal(estimator.fit(IRIS, y).predict(IRIS), one_step.predict(IRIS))
        two_step = clone(estimator).set_params(method="map", rule="plugin").fit(IRIS, y)
        by_point = clone(estimator).set_params(method="map").fit(IRIS, y)
        np.testing.assert_array_equal(by_point.predict(IRIS), two_step.predict(IRIS))


def test_words_of_texts_go_through_a_pipeline():
    texts, y = ["cheap pills now", "meet me now", "cheap cheap pills", "see you at lunch"], [1, 0, 1, 0]
    for estimator in (estimators.NaiveBayesClassifier(), estimators.BayesGenClassifier()):
        words = CountVectorizer()
        pipeline = make_pipeline(words, estimator).fit(texts, y)
        fit = bg.fit(bg.NaiveBayes(), words.transform(texts), y, method=bg.Exact())
        expected = bg.predict(fit, words.transform(["cheap lunch"]), rule=bg.BMA()).probabilities
        np.testing.assert_allclose(pipeline.predict_proba(["cheap lunch"]), expected)
    with pytest.raises(bg.DataError, match=r"sparse.*counts of words"):
        make_pipeline(TfidfVectorizer(), estimators.NaiveBayesClassifier()).fit(texts, y)


def test_draws_cannot_be_updated_and_offer_no_partial_fit():
    assert not hasattr(estimators.NaiveBayesClassifier(method="nuts"), "partial_fit")
    assert not hasattr(estimators.BayesGenRegressor(method=bg.NUTS()), "partial_fit")
    assert hasattr(estimators.NaiveBayesClassifier(method=bg.Exact()), "partial_fit")


def test_frames_of_text_and_numbers_with_missing_cells_go_in_as_they_are():
    frame = pd.DataFrame({"size": [1.0, 2.0, None, 8.0, 9.0], "colour": ["red", "red", "blue", "blue", None]})
    estimator = estimators.NaiveBayesClassifier().fit(frame, list("aabbb"))
    assert estimator.predict(frame).tolist() == list("aabbb")
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame.rename(columns={"size": "length"}))


def test_pipelines_searches_and_calibration():
    scaler = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scaler, estimators.GaussianDiscriminantClassifier())
    search = GridSearchCV(pipeline, {"gaussiandiscriminantclassifier__covariance": ["tied", "spherical"]}, cv=3)
    assert search.fit(IRIS, SPECIES).best_params_ == {"gaussiandiscriminantclassifier__covariance": "tied"}
    predicted = cross_val_predict(estimators.NaiveBayesClassifier(), IRIS, SPECIES, method="predict_proba", cv=3)
    assert predicted.shape == (150, 3) and (predicted.argmax(axis=1) == SPECIES).mean() > 0.9
    calibrated = CalibratedClassifierCV(estimators.NaiveBayesClassifier(), cv=3).fit(IRIS, SPECIES)
    assert calibrated.score(IRIS, SPECIES) > 0.9


def test_a_regressor_tells_its_deviations():
    X, y = load_diabetes(return_X_y=True)
    estimator = estimators.BayesGenRegressor(bg.LinearRegression(), method="exact", rule="bma").fit(X, y)
    mean, deviation = estimator.predict(X, return_std=True)
    answer = bg.predict(estimator.fit_, X, rule=bg.BMA())
    np.testing.assert_array_equal(mean, answer.mean)
    np.testing.assert_array_equal(deviation, answer.std)


def test_a_mixture_numbers_its_components_by_their_weight():
    estimator = estimators.MixtureModel(bg.GaussianDiscriminant("diag"), 3, random_state=1).fit(IRIS)
    counts = np.bincount(estimator.labels_)
    assert len(counts) == 3 and (np.diff(estimator.predict_proba(IRIS).sum(axis=0)) <= 1e-6).all()
    answer = bg.predict(estimator.fit_, IRIS, rule=bg.PlugIn())
    np.testing.assert_allclose(estimator.score(IRIS), answer.log_marginal.mean())


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="method must be one of"):
        estimators.NaiveBayesClassifier(method="vi").fit(IRIS, SPECIES)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        estimators.NaiveBayesClassifier().partial_fit(IRIS, SPECIES)
    with pytest.raises(NotFittedError):
        estimators.MixtureModel().predict(IRIS)
    with pytest.raises(ValueError, match="Exact"):
        estimators.MixtureModel(method="exact").fit(IRIS)


def test_text_that_no_training_row_had_is_missing_where_the_schema_says_so():
    frame = pd.DataFrame({"colour": ["red", "red", "blue", "blue"], "size": [1.0, 2.0, 8.0, 9.0]})
    new = pd.DataFrame({"colour": ["green"], "size": [1.5]})
    labels = np.array(["a", "a", "b", "b"], object)
    with pytest.raises(ValueError, match=r"'green'.*Schema\(unknown='missing'\)"):
        estimators.NaiveBayesClassifier().fit(frame, labels).predict(new)
    estimator = estimators.NaiveBayesClassifier(schema=bg.Schema(unknown="missing")).fit(frame, labels)
    with pytest.warns(bg.UnknownValuesWarning):
        assert estimator.predict(new).tolist() == ["a"]


def test_rows_that_are_impossible_have_no_class_and_no_component():
    zeros, ones = np.zeros((6, 2)), np.ones((2, 2))
    model = bg.NaiveBayes(bg.BetaBernoulli())
    estimator = estimators.BayesGenClassifier(model, method="mle", rule="plugin").fit(zeros, [0, 1] * 3)
    mixture = estimators.MixtureModel(model, 2, method="mle").fit(zeros)
    with pytest.warns(bg.ImpossibleRowsWarning), pytest.raises(ValueError, match="Row 0, and 1 more, are impossible"):
        estimator.score(ones, [0, 1])
    with pytest.warns(bg.ImpossibleRowsWarning):
        assert mixture.predict(ones).tolist() == [-1, -1]


@pytest.mark.parametrize("kind", ["int8", "datetime64[D]", "datetime64[ns]", "bool", "U3"])
def test_classes_keep_their_type(kind):
    labels = np.array([0, 1], kind)[np.repeat([0, 1, 1], 50)]
    estimator = estimators.NaiveBayesClassifier().fit(IRIS, labels)
    assert estimator.predict(IRIS).dtype == labels.dtype and estimator.score(IRIS, labels) > 0.9


@pytest.mark.parametrize("rows", [IRIS, IRIS.to_numpy()])
def test_labels_and_numbers_that_are_missing_are_refused(rows):
    for estimator, y in [
        (estimators.NaiveBayesClassifier(), [None, *"ab" * 74, "a"]),
        (estimators.BayesGenRegressor(), np.where(np.arange(150) == 3, np.nan, 1.0 * np.arange(150))),
    ]:
        with pytest.raises(ValueError, match="y contains NaN"):
            estimator.fit(rows, y)


def test_later_rows_have_the_classes_of_the_first():
    estimator = estimators.NaiveBayesClassifier().partial_fit(IRIS, SPECIES, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes differ"):
        estimator.partial_fit(IRIS, SPECIES, classes=[0, 1])
