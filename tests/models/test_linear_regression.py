"""`LinearRegression`: scikit-learn's least squares, ratios of evidences and NUTS are the oracles."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression as LeastSquares
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, SplineTransformer

from bayesgen import (
    BMA,
    MAP,
    MLE,
    NUTS,
    ConditionalAverage,
    Exact,
    LinearNormalInverseGamma,
    LinearRegression,
    NaiveBayes,
    PlugIn,
    Schema,
    fit,
    predict,
    summarize,
)
from bayesgen.errors import ConstantColumnWarning, DataError, FitError, ModelError, PredictionError

ROWS = 41
close = np.testing.assert_allclose


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.normal(0, 1, (ROWS, 3)) @ rng.normal(0, 1, (3, 3)) + [1.0, -5.0, 30.0]
    return X, X @ [1.0, -0.5, 0.2] + 0.3 * X[:, 0] ** 2 + 3.0 + rng.normal(0, 0.7, ROWS)


@pytest.fixture(scope="module")
def frame(data):
    X, y = data
    sky = np.array(["blue", "grey", "red"])[np.random.default_rng(1).integers(0, 3, ROWS)]
    table = pd.DataFrame({"sky": sky, "size": X[:, 0], "age": X[:, 1].round().astype(int), "new": X[:, 2] > 30})
    return table, y + (sky == "red") * 2.0


def mixed():
    columns = [("sky", OneHotEncoder(drop="first"), ["sky"]), ("size", PolynomialFeatures(3), ["size"])]
    return ColumnTransformer(columns, remainder="passthrough")


BASES = {
    "columns": None,
    "polynomial": PolynomialFeatures(2),
    "splines": SplineTransformer(n_knots=4, include_bias=False),
    "imputed": make_pipeline(SimpleImputer(), PolynomialFeatures(2, interaction_only=True)),
}


def in_equal_units(features, y):
    """Least squares without intercept; scikit-learn's drops directions of powers far from 0."""
    units = np.abs(features).max(0)
    return np.linalg.lstsq(features / units, y, rcond=0)[0] / units


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("intercept", [True, False])
def test_maximum_likelihood_is_least_squares(name, intercept, data):
    X, y = data
    basis = BASES[name]
    learned = fit(LinearRegression(basis, intercept=intercept), X, y, method=MLE())
    features = X if basis is None else basis.fit_transform(X)
    line = LeastSquares(fit_intercept=intercept).fit(features, y)
    fitted = line.predict(features) if intercept else features @ in_equal_units(features, y)
    answer = predict(learned, X[:7], rule=PlugIn())
    close(answer.mean, fitted[:7], rtol=1e-8)
    close(learned.parameters["y_variance"], np.mean((y - fitted) ** 2), rtol=1e-8)
    assert answer.log_marginal is None and ("y_intercept" in learned.parameters) == intercept
    if name == "columns":
        close(learned.parameters["y_coefficients"], line.coef_, rtol=1e-10)


@pytest.mark.parametrize("name", BASES)
def test_the_one_step_answer_is_a_ratio_of_evidences(name, data):
    X, y = data
    learned = fit(LinearRegression(BASES[name]), X[:-3], y[:-3], method=Exact())
    answer = predict(learned, X[-3:], rule=BMA())
    for row in range(3):
        place = slice(ROWS - 3 + row, ROWS - 2 + row)
        more = learned.update(X[place], y[place])
        close(answer.log_density(y[-3:])[row], more.log_evidence - learned.log_evidence, rtol=1e-8)
    average = predict(learned, X[-3:], rule=ConditionalAverage(num_draws=4000))
    assert (np.abs(average.mean - answer.mean) < 5 * average.standard_error).all()
    close(average.std, answer.std, rtol=0.05)


def test_frames_of_mixed_kinds(frame):
    X, y = frame
    model = LinearRegression(mixed())
    learned = fit(model, X, y, method=MLE())
    features = mixed().fit_transform(X)
    close(predict(learned, X, rule=PlugIn()).mean, LeastSquares().fit(features, y).predict(features), rtol=1e-8)
    names = learned.to_datatree()["point_estimate"]["feature"].values.tolist()
    assert names == [
        "sky__sky_grey",
        "sky__sky_red",
        "size__size",
        "size__size^2",
        "size__size^3",
        "remainder__age",
        "remainder__new",
    ]
    for other in (pl.from_pandas(X), X[["new", "age", "size", "sky"]], {name: X[name].to_numpy() for name in X}):
        close(predict(learned, other, rule=PlugIn()).mean, predict(learned, X, rule=PlugIn()).mean, rtol=1e-10)
    again = fit(model, pl.from_pandas(X), y, method=MLE())
    close(again.parameters["y_coefficients"], learned.parameters["y_coefficients"], rtol=1e-8)
    with pytest.raises(DataError, match="refuses X: Found unknown categories"):
        predict(learned, X.assign(sky="green"), rule=PlugIn())
    with pytest.raises(DataError, match="takes real columns, and 'sky', 'new' are binary, categorical"):
        fit(LinearRegression(), X, y, method=MLE())
    copy = pickle.loads(pickle.dumps(learned))
    close(predict(copy, X, rule=PlugIn()).mean, predict(learned, X, rule=PlugIn()).mean)


def test_evidence_chooses_the_degree():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (60, 1))
    y = 1.0 - 2 * X[:, 0] ** 3 + X[:, 0] + rng.normal(0, 0.5, 60)
    evidences = [fit(LinearRegression(PolynomialFeatures(d)), X, y, method=Exact()).log_evidence for d in range(7)]
    assert int(np.argmax(evidences)) == 3


def assert_same(one, other, rtol=1e-8):
    assert one.parameters.keys() == other.parameters.keys()
    for name, value in one.parameters.items():
        close(value, other.parameters[name], rtol=rtol, atol=1e-10, err_msg=name)
    close(one.log_evidence, other.log_evidence, rtol=1e-10)


@pytest.mark.parametrize("name", ["columns", "polynomial"])
def test_order_weights_chunks_and_rows_without_y(name, data):
    X, y = data
    model = LinearRegression(BASES[name])
    whole = fit(model, X, y, method=Exact())
    order = np.random.default_rng(0).permutation(ROWS)
    assert_same(fit(model, X[order], y[order], method=Exact()), whole)
    chunks = ((X[part], y[part]) for part in (slice(0, 17), slice(17, 30), slice(30, ROWS)))
    assert_same(fit(model, chunks, method=Exact()), whole)
    parts = [summarize(model, X[part], y[part], schema=whole.schema) for part in (slice(17, None), slice(0, 17))]
    assert_same(fit(model, parts[0] + parts[1], method=Exact()), whole)
    weights = np.random.default_rng(1).integers(0, 3, ROWS)
    copies = np.repeat(np.arange(ROWS), weights)
    weighted = fit(model, X, y, method=Exact(), sample_weight=weights)
    assert_same(weighted, fit(model, X[copies], y[copies], method=Exact()))
    unknown = np.where(np.arange(ROWS) % 5 == 0, np.nan, y)
    known = ~np.isnan(unknown)
    assert_same(fit(model, X, unknown, method=Exact()), fit(model, X[known], y[known], method=Exact()))


@pytest.mark.slow
def test_chains_find_the_exact_posterior(data):
    X, y = data
    model = LinearRegression(PolynomialFeatures([2, 2]), LinearNormalInverseGamma(kappa=0.3, shape=2.0))
    exact = fit(model, X[:, :2], y, method=Exact())
    chains = fit(model, X[:, :2], y, method=NUTS(num_samples=500, num_chains=4), seed=3)
    for name, draws in chains.parameters.items():
        draws = draws.reshape(2000, -1)
        close(draws.mean(0), np.ravel(exact.parameters[name]), atol=0.25 * draws.std(0).max(), err_msg=name)
        error = draws.std(0) / np.sqrt(400)
        assert (np.abs(draws.mean(0) - np.ravel(exact.parameters[name])) < 4 * error).all()
    one, other = (predict(learned, X[:3, :2], rule=BMA()) for learned in (exact, chains))
    close(one.mean, other.mean, atol=5 * other.standard_error.max())
    close(one.std, other.std, rtol=0.1)


def test_chains_do_not_mind_offsets(data):
    """The intercept is sampled by the value amid the features: far from 0 it follows from the coefficients."""
    X, y = data
    moved = fit(LinearRegression(), X[:, :2] + 1e6, y, method=NUTS(num_samples=200, num_chains=2), seed=2)
    exact = fit(LinearRegression(), X[:, :2] + 1e6, y, method=Exact())
    for name in ("y_coefficients", "y_variance"):
        draws = moved.parameters[name]
        assert (np.abs(draws.mean((0, 1)) - exact.parameters[name]) < 4 * draws.std((0, 1)) / 10).all(), name
    assert moved.posterior.sample_stats["num_steps"].mean() < 10
    close(predict(moved, X[:5, :2] + 1e6, rule=BMA()).mean, predict(exact, X[:5, :2] + 1e6, rule=BMA()).mean, atol=0.2)


def test_far_off_and_unlike_columns_predict_alike(data):
    X, y = data
    units, offsets = np.array([1e-6, 1e4, 1.0]), np.array([1.0, 1e9, 0.0])
    for method, rule in ((MLE(), PlugIn()), (Exact(), BMA())):
        plain = predict(fit(LinearRegression(), X, y, method=method), X[:5], rule=rule)
        moved = fit(LinearRegression(), X * units + offsets, y, method=method)
        answer = predict(moved, X[:5] * units + offsets, rule=rule)
        close(answer.mean, plain.mean, rtol=1e-6)
        close(answer.std, plain.std, rtol=1e-6)


def test_rows_are_simulated_at_given_features(data):
    X, y = data
    learned = fit(LinearRegression(), X, y, method=Exact())
    rows = learned.simulate(ROWS, seed=1, y_features=X)
    assert rows["y"].shape == (ROWS,) and np.corrcoef(rows["y"], y)[0, 1] > 0.5
    close(predict(learned, rows, rule=PlugIn()).mean, predict(learned, X, rule=PlugIn()).mean, rtol=1e-12)


# --- what is refused, and what is left out ------------------------------------------------------------------------


def test_missing_cells_are_refused_unless_the_basis_takes_them(data):
    X, y = data
    holed = X.copy()
    holed[3, 1] = np.nan
    for model in (LinearRegression(), LinearRegression(PolynomialFeatures(2))):
        with pytest.raises(DataError, match="imputer"):
            fit(model, holed, y, method=MLE())
    with pytest.raises(DataError, match=r"missing in .*'x1'.*JointGaussianRegression"):
        predict(fit(LinearRegression(), X, y, method=MLE()), holed, rule=PlugIn())
    imputed = LinearRegression(make_pipeline(SimpleImputer(), PolynomialFeatures(2)))
    assert np.isfinite(predict(fit(imputed, holed, y, method=Exact()), holed, rule=BMA()).mean).all()


def test_a_constant_column_is_named(data):
    X, y = data
    constant = np.column_stack([X[:, :2], np.full(ROWS, 7.0)])
    with pytest.raises(FitError, match="the feature 'x2' is constant"):
        fit(LinearRegression(), constant, y, method=MLE())
    with pytest.warns(ConstantColumnWarning, match="x2"):
        learned = fit(LinearRegression(), constant, y, method=Exact())
    without = fit(LinearRegression(), X[:, :2], y, method=Exact())
    close(predict(learned, constant, rule=BMA()).mean, predict(without, X[:, :2], rule=BMA()).mean, rtol=1e-9)
    dummies = LinearRegression(ColumnTransformer([("one", OneHotEncoder(), [0])]))
    with pytest.raises(FitError, match=r"'one__x0_0\.0', 'one__x0_1\.0', .* linear in each other.*drop='first'"):
        fit(dummies, np.arange(ROWS)[:, None] % 3.0, y, method=MLE())
    with pytest.raises(FitError, match="Block 'y': 1 row is too few for least squares"):
        fit(LinearRegression(), X[:1], y[:1], method=MLE())


def test_what_was_one_in_training_and_is_no_more(data):
    X, y = data
    table = pd.DataFrame({"sky": ["grey"] * ROWS, "size": X[:, 0]})
    columns = [("sky", OneHotEncoder(handle_unknown="ignore"), ["sky"])]
    model = LinearRegression(ColumnTransformer(columns, remainder="passthrough"))
    learned = fit(model, table, y, method=Exact())
    assert learned.parameters["y_coefficients"].shape == (1,)
    with pytest.raises(DataError, match=r"'sky__sky_grey' .* is 1 in every training row"):
        predict(learned, table.assign(sky="blue"), rule=BMA())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"basis": PolynomialFeatures}, "takes a scikit-learn transformer"),
        ({"basis": "splines"}, "FunctionTransformer"),
        ({"prior": 3}, "takes a LinearNormalInverseGamma"),
        ({"prior": LinearNormalInverseGamma(intercept=False)}, "state the same of both"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        LinearRegression(**arguments)


@pytest.mark.parametrize(
    ("basis", "X", "remedies"),
    [
        (PolynomialFeatures(2), [[1.0], [np.nan], [3.0]], ["imputer"]),
        (PolynomialFeatures(2), [["a"], ["b"], ["a"]], ["Encode text"]),
        (SelectKBest(k=1), [[1.0], [2.0], [3.0]], ["no y"]),
        (FunctionTransformer(lambda X: 1 / 0), [[1.0], [2.0], [3.0]], []),
    ],
)
def test_a_basis_that_refuses_rows_gets_the_remedy_that_helps(basis, X, remedies):
    with pytest.raises(DataError, match="refuses X") as refused:
        fit(LinearRegression(basis), X, [1.0, 2.0, 4.0], method=MLE())
    assert [known for known in ("imputer", "Encode text", "no y") if known in str(refused.value)] == remedies


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: X[:-1], "keep the rows"),
        (np.log, "Features have to be finite"),
        (lambda X: X.astype(str), None),
        (lambda X: np.full(X.shape, "a"), "not numbers"),
        (lambda X: 1 / 0, "refuses X: division by zero"),
    ],
)
def test_bases_that_make_no_features(function, message, data):
    X, y = data
    model = LinearRegression(FunctionTransformer(function))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if message is None:
            fit(model, X, y, method=MLE())
            return
        with pytest.raises(DataError, match=message):
            fit(model, X, y, method=MLE())


def test_labels_and_schemas_of_other_models_are_refused(data, frame):
    X, y = data
    with pytest.raises(DataError, match="wants numbers"):
        fit(LinearRegression(), X, np.where(y > 3, "a", "b"), method=MLE())
    with pytest.raises(DataError, match="y is missing"):
        fit(LinearRegression(), X, method=MLE())
    with pytest.raises(DataError, match="classes"):
        fit(LinearRegression(PolynomialFeatures(2)), X, y, method=MLE(), schema=Schema(classes=["a", "b"]))
    learned = fit(LinearRegression(PolynomialFeatures(2)), X, y, method=MLE())
    with pytest.raises(ModelError, match="another basis"):
        fit(LinearRegression(PolynomialFeatures(3)), X, y, method=MLE(), schema=learned.schema)
    assert LinearRegression(PolynomialFeatures(2)) == LinearRegression(PolynomialFeatures(2))
    assert LinearRegression(PolynomialFeatures(2)) != LinearRegression(PolynomialFeatures(3))
    with pytest.raises(FitError, match="linear in each other"):
        fit(LinearRegression(), X[:3], y[:3], method=MLE())
    with pytest.warns(ConstantColumnWarning, match="'x2', 'y'"):
        lone = fit(LinearRegression(), X[:1], y[:1], method=MAP())
    assert np.isfinite(lone.parameters["y_variance"])


def test_what_makes_no_sense_is_refused(data):
    X, y = data
    learned = fit(LinearRegression(), X, y, method=Exact())
    with pytest.raises(ModelError, match=r"JointGaussianRegression\(\) imputes cells"):
        learned.impute(X)
    with pytest.raises(DataError, match=r"simulate\(n, y_features="):
        learned.simulate(3)
    with pytest.raises(ModelError, match="coefficients is given for 2 features, and there are 3"):
        fit(LinearRegression(prior=LinearNormalInverseGamma([1.0, 2.0])), X, y, method=Exact())
    with pytest.raises(ModelError, match="precision is given for 2 features"):
        fit(LinearRegression(prior=LinearNormalInverseGamma(precision=np.eye(2))), X, y, method=Exact())
    with pytest.raises(DataError, match="y is missing in every row"):
        fit(LinearRegression(), X, np.full(ROWS, np.nan), method=Exact())
    with pytest.raises(ModelError, match=r"prior of LinearRegression\(\) and NaiveBayesRegression"):
        fit(NaiveBayes(LinearNormalInverseGamma()), X, y > np.median(y), method=Exact())
    with pytest.raises(DataError, match=r"'x0' has .* squares overflow"):
        predict(learned, X * 1e160, rule=BMA())
    assert predict(learned, X[:0], rule=BMA()).mean.shape == (0,)
    with pytest.raises(PredictionError, match="X is given and not modelled"):
        learned.log_joint(X[:2])
