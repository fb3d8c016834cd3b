"""Estimators of scikit-learn: its own checks, and what pipelines and searches do with them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesgen as bg
from bayesgen import sklearn as estimators

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


def test_more_rows_give_the_fit_of_all_under_the_prior_of_the_first():
    first, rest = IRIS[::3], IRIS.drop(index=IRIS.index[::3])
    model = bg.GaussianDiscriminant("diag", prior=bg.NormalInverseGamma(5.0, 0.1, 2.0, 1.0))
    whole = estimators.BayesGenClassifier(model, method="exact", rule="bma").fit(IRIS, SPECIES)
    grown = clone(whole).partial_fit(first, SPECIES[first.index], classes=[0, 1, 2])
    grown.partial_fit(rest, SPECIES[rest.index])
    np.testing.assert_allclose(grown.predict_proba(IRIS), whole.predict_proba(IRIS), rtol=1e-9, atol=1e-12)


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
    with pytest.raises(ValueError, match="unknown"):
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
