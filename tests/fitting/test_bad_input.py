"""Bad input: each kind is refused by a message that names the culprit. Extreme but good input is not."""

import warnings

import numpy as np
import pytest
import scipy.sparse

import bayesgen as bg
from bayesgen.fitting.training import prepare

close = np.testing.assert_allclose
rng = np.random.default_rng(17)
ROWS = 13
Y = np.asarray(["calm", "wild"] * 6 + ["wild"])
REALS = {"height": rng.normal(Y == "wild", 1.0), "weight": rng.normal(60, 9, ROWS)}
MIXED = {**REALS, "sky": np.asarray(["grey", "blue"])[rng.integers(0, 2, ROWS)]}
COUNTS = rng.poisson(2.0, (ROWS, 3))
BAYES, FULL = bg.NaiveBayes(), bg.GaussianDiscriminant("full")


def refused(*words, error=bg.DataError):
    """An error whose message has all of these words."""
    return pytest.raises(error, match="".join(f"(?=[\\s\\S]*{word})" for word in words))


def changed(X, **columns):
    return {**X, **{name: np.asarray(values) for name, values in columns.items()}}


def spoiled(values, row, value):
    values = np.asarray(values, object if value is None or isinstance(value, str) else float).copy()
    values[row] = value
    return values


TRAINING = {
    "empty X": (BAYES, np.empty((0, 2)), [], ["empty|no rows|0 rows"]),
    "empty y": (BAYES, REALS, [], ["y", "empty|0 labels"]),
    "lengths that differ": (BAYES, REALS, Y[:11], ["13 rows", "11"]),
    "columns of unequal lengths": (BAYES, {"a": [1.0, 2.0], "b": [1.0]}, ["x", "y"], ["'b'|b"]),
    "three dimensions": (BAYES, np.zeros((13, 2, 3)), Y, ["13, 2, 3"]),
    "one class": (BAYES, REALS, ["calm"] * ROWS, ["one class", "calm"]),
    "counts of one total with NaN": (
        bg.NaiveBayes(bg.DirichletMultinomial()), spoiled(COUNTS, (slice(3, 5), 1), np.nan), Y,
        ["x1", "2 missing", "row 3", "one total"],
    ),
    "infinity": (FULL, changed(REALS, height=spoiled(REALS["height"], 4, np.inf)), Y, ["height", "1 infinite"]),
    "a category of which every cell is missing": (
        BAYES, changed(MIXED, sky=spoiled(MIXED["sky"], slice(None), None)), Y, ["sky", "every cell is missing"],
    ),
    "no label but missing ones": (BAYES, REALS, np.full(ROWS, None), ["y", "every one is missing", "Mixture"]),
    "two-dimensional labels": (BAYES, REALS, np.stack([Y, Y], 1), ["y", "13, 2"]),
    "negative counts": (bg.NaiveBayes(bg.GammaPoisson()), COUNTS - 99 * (COUNTS > 4), Y, ["count", "-"]),
    "fractional counts": (bg.NaiveBayes(bg.DirichletMultinomial()), COUNTS + 0.5, Y, ["x0", "count", r"\.5"]),
    "sparse fractions": (BAYES, scipy.sparse.csr_array(COUNTS * 0.5 + 0.25), Y, ["count", r"\."]),
    "not binary": (bg.NaiveBayes(bg.BetaBernoulli()), COUNTS + 2, Y, ["binary", "x0"]),
    "text in a real column": (
        bg.NaiveBayes({"weight": bg.NormalInverseGamma()}),
        changed(REALS, weight=spoiled(REALS["weight"], 6, "heavy")), Y, ["weight", "heavy"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINING)
def test_training_data_that_are_refused(name):
    model, X, y, words = TRAINING[name]
    with refused(*words):
        bg.fit(model, X, y, method=bg.MAP())


WEIGHTS = {"negative": (-1.0, "negative"), "missing": (np.nan, "missing")}


@pytest.mark.parametrize("name", WEIGHTS)
def test_bad_weights(name):
    value, word = WEIGHTS[name]
    with refused("sample_weight", word, "row 5"):
        bg.fit(BAYES, REALS, Y, method=bg.MAP(), sample_weight=spoiled(np.ones(ROWS), 5, value))


def test_weights_of_another_length_or_all_zero():
    for weights, words in ((np.ones(5), ["5", "13"]), (np.zeros(ROWS), ["zero"])):
        with refused("sample_weight", *words):
            bg.fit(BAYES, REALS, Y, method=bg.MAP(), sample_weight=weights)


def without(X, name):
    return {key: values for key, values in X.items() if key != name}


PREDICTION = {
    "a column missing": (without(MIXED, "weight"), ["weight"]),
    "a column too many": (changed(MIXED, age=np.ones(ROWS)), ["age"]),
    "a column renamed": (changed(without(MIXED, "sky"), Sky=MIXED["sky"]), ["sky", "Sky"]),
    "an unknown category": (changed(MIXED, sky=spoiled(MIXED["sky"], 4, "green")), ["sky", "green", "row 4"]),
    "text in a real column": (changed(MIXED, height=spoiled(MIXED["height"], 3, "tall")), ["height", "tall"]),
    "infinity": (changed(MIXED, height=spoiled(MIXED["height"], 3, -np.inf)), ["height", "1 infinite"]),
    "three dimensions": (np.zeros((2, 3, 5)), ["2, 3, 5"]),
    "an array of another width": (np.zeros((2, 5)), ["5 columns", "3"]),
}


@pytest.mark.parametrize("name", PREDICTION)
def test_rows_to_predict_that_are_refused(name):
    X, words = PREDICTION[name]
    fit = bg.fit(BAYES, MIXED, Y, method=bg.Exact())
    for rule in (bg.BMA(), bg.PlugIn()):
        with refused(*words):
            bg.predict(fit, X, rule=rule)


def test_an_unknown_label_where_classes_are_declared():
    with refused("y", "wild", "calm"):
        bg.fit(BAYES, REALS, Y, method=bg.MAP(), schema=bg.Schema(classes=["calm", "mad"]))


# --- classes without rows, too few rows, constant columns ---------------------------------------------------------

DECLARED = bg.Schema(classes=["calm", "mad", "wild"])


@pytest.mark.parametrize("model, method", [(BAYES, bg.MLE()), (FULL, bg.MLE())])
def test_a_class_without_rows_has_no_maximum_likelihood(model, method):
    with refused("mad", error=bg.FitError):
        bg.fit(model, REALS, Y, method=method, schema=DECLARED)


def test_a_class_without_rows_has_no_mode_under_a_flat_prior():
    with refused("'categorical_2'", "mad", error=bg.FitError):
        bg.fit(BAYES, {"sky": MIXED["sky"]}, Y, method=bg.MAP(), schema=DECLARED)


@pytest.mark.parametrize("model", [BAYES, FULL, bg.GaussianDiscriminant("tied")])
def test_a_class_without_rows_is_fine_under_exact(model):
    fit = bg.fit(model, REALS, Y, method=bg.Exact(), schema=DECLARED)
    assert fit.parameters["class_probs"] == pytest.approx([7 / 16, 1 / 16, 8 / 16])
    answer = bg.predict(fit, REALS, rule=bg.BMA())
    assert answer.classes.tolist() == ["calm", "mad", "wild"]
    assert np.isfinite(answer.probabilities).all()
    assert (answer.probabilities[:, 1] > 0).all()
    close(fit.parameters["real_mean"][1], fit.schema.mean, rtol=1e-12)


def test_too_few_rows_for_a_full_covariance():
    X, y = rng.normal(size=(9, 5)), ["few"] * 3 + ["many"] * 6
    with refused("'few'", "3 rows", "dimension 5", r"MAP\(\)", error=bg.FitError):
        bg.fit(FULL, X, y, method=bg.MLE())
    assert np.isfinite(bg.fit(FULL, X, y, method=bg.MAP()).parameters["real_covariance"]).all()


HOLES = {"height": np.where(Y == "calm", np.nan, REALS["height"]), "weight": REALS["weight"]}
FEW = {name: spoiled(rng.normal(size=ROWS), 7, np.nan if name == "a" else 0.0) for name in ("a", "b", "c")}
FEW_LABELS = ["few"] * 3 + ["many"] * 10
REPEATED = np.repeat([[0.0, 1.0], [3.0, 4.0]], 5, axis=0)
# model, X, y and method of which there is no maximum, and what the message says
WITHOUT_MAXIMUM = {
    "no cells of a column": (BAYES, HOLES, Y, bg.MLE(), r"no cell is observed at class 'calm', column 'height'.*Exact"),
    "no counts of a column": (
        bg.NaiveBayes({"height": bg.GammaPoisson()}),
        changed(HOLES, height=HOLES["height"] * 0),
        Y,
        bg.MLE(),
        r"block 'count': no cell is observed at class 'calm'",
    ),
    "few rows": (FULL, np.nan_to_num(np.column_stack([*FEW.values()])), FEW_LABELS, bg.MLE(), r"3 rows.*Exact"),
    "few rows, cells missing": (FULL, FEW, FEW_LABELS, bg.MLE(), r"class 'few'.*combination of other.*Use MAP\(\)"),
    "rows repeated, hard": (
        bg.Mixture(BAYES, 3),
        REPEATED,
        None,
        bg.MLE(assignment="hard", num_starts=2),
        r"no cell is observed at class 2.*Use NUTS\(\), or ask for fewer components",
    ),
    "too few rows for a line": (bg.LinearRegression(), np.ones((3, 2)), [1.0, 2.0, 4.0], bg.MLE(), "constant.*Exact"),
}


@pytest.mark.parametrize("name", WITHOUT_MAXIMUM)
def test_messages_recommend_methods_that_have_an_answer(name):
    model, X, y, method, words = WITHOUT_MAXIMUM[name]
    with pytest.raises(bg.FitError, match=f"(?i){words}") as refusal:
        bg.fit(model, X, y, method=method)
    recommended = {word for word in ("MAP", "Exact", "NUTS") if f"{word}()" in str(refusal.value)}
    assert recommended
    problem = prepare(model, X, y)
    assert [word for word in recommended if getattr(bg, word)().refusal(problem) is not None] == []
    if "Exact" in recommended:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bg.ConstantColumnWarning)
            assert np.isfinite(bg.fit(model, X, y, method=bg.Exact()).log_evidence)


def test_no_warning_speaks_of_a_default_prior_where_one_is_given():
    X = changed(REALS, weight=np.full(ROWS, 7.0))
    for given in (
        bg.NaiveBayes({"weight": bg.NormalInverseGamma(7.0, 1.0, 2.0, 3.0)}),
        bg.NaiveBayes({"weight": bg.NormalInverseGamma(scale=3.0)}),
        bg.GaussianDiscriminant("full", bg.NormalInverseWishart(scale=np.eye(2))),
    ):
        for method in (bg.MAP(), bg.Exact()):
            bg.fit(given, X, Y, method=method)


@pytest.mark.parametrize("model", [BAYES, bg.GaussianDiscriminant("full"), bg.GaussianDiscriminant("tied")])
def test_a_constant_column(model):
    X = changed(REALS, weight=np.full(ROWS, 7.0))
    with refused("weight", error=bg.FitError):
        bg.fit(model, X, Y, method=bg.MLE())
    for method in (bg.MAP(), bg.Exact()):
        with pytest.warns(bg.ConstantColumnWarning, match="weight") as caught:
            fit = bg.fit(model, X, Y, method=method)
        assert len(caught) == 1
        assert "height" not in str(caught[0].message)
        assert np.isfinite(bg.predict(fit, X, rule=bg.PlugIn()).probabilities).all()


HYPERPARAMETERS = [
    (lambda: bg.BetaBernoulli(0.0, 1.0), "a"),
    (lambda: bg.BetaBernoulli(1.0, -1.0), "b"),
    (lambda: bg.DirichletCategorical(-1.0), "concentration"),
    (lambda: bg.DirichletMultinomial(np.nan), "concentration"),
    (lambda: bg.GammaPoisson(shape=0.0), "shape"),
    (lambda: bg.GammaPoisson(rate=-2.0), "rate"),
    (lambda: bg.NormalInverseGamma(kappa=0.0), "kappa"),
    (lambda: bg.NormalInverseGamma(scale=-1.0), "scale"),
    (lambda: bg.NormalInverseWishart(kappa=np.inf), "kappa"),
]


@pytest.mark.parametrize("make, named", HYPERPARAMETERS)
def test_hyperparameters_outside_their_range(make, named):
    with refused(f"hyperparameter {named}", error=bg.ModelError):
        bg.fit(bg.NaiveBayes(make()), COUNTS % 2, Y, method=bg.Exact())


def test_matrices_and_degrees_of_freedom_outside_their_range():
    for prior, named in (
        (lambda: bg.NormalInverseWishart(df=0.5), "df"),
        (lambda: bg.NormalInverseWishart(scale=[[1.0, 2.0], [2.0, 1.0]]), "scale"),
    ):
        with refused(named, error=bg.ModelError):
            bg.fit(bg.GaussianDiscriminant("full", prior()), REALS, Y, method=bg.Exact())


@pytest.mark.parametrize("probs", [[0.5, 0.6], [1.2, -0.2], [0.2, 0.3, 0.5]])
def test_fixed_class_probabilities_that_are_none(probs):
    with refused("probabilities", error=bg.ModelError):
        bg.fit(bg.NaiveBayes(class_prior=probs), REALS, Y, method=bg.Exact())


def test_models_that_do_not_fit_the_data():
    with refused("'spiral'", "full", error=bg.ModelError):
        bg.GaussianDiscriminant("spiral")
    with refused("NormalInverseWishart", "BetaBernoulli", error=bg.ModelError):
        bg.GaussianDiscriminant("full", bg.BetaBernoulli())
    with refused("'wieght'", error=bg.ModelError):
        bg.fit(bg.NaiveBayes({"wieght": bg.NormalInverseGamma()}), REALS, Y, method=bg.Exact())
    with refused("not in the data", "age", "weight", error=bg.ModelError):
        blocks = [("size", bg.NormalInverseWishart(), ["height", "age"])]
        bg.fit(bg.GenerativeClassifier(blocks), REALS, Y, method=bg.Exact())
    with refused("method", "'exact'"):
        bg.fit(BAYES, REALS, Y, method="exact")


# --- good input that is extreme -----------------------------------------------------------------------------------

REAL_MODELS = [BAYES, FULL, *(bg.GaussianDiscriminant(name) for name in ("tied", "spherical"))]


UNITS = [(1e150, 1e150), (1e-150, 1e-150), (1e8, 1e-8), (1e150, 1e-100)]
# a spherical covariance depends on the relative units of the columns
UNITS = [(m, u) for m in REAL_MODELS for u in UNITS if m is not REAL_MODELS[-1] or u[0] == u[1]]


@pytest.mark.parametrize("method, rule", [(bg.MLE(), bg.PlugIn()), (bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())])
@pytest.mark.parametrize("model, scales", UNITS)
def test_the_units_of_columns_do_not_matter(model, method, rule, scales):
    scaled = {name: values * scale for (name, values), scale in zip(REALS.items(), scales, strict=True)}
    one, two = (bg.fit(model, X, Y, method=method) for X in (REALS, scaled))
    found, expected = bg.predict(two, scaled, rule=rule), bg.predict(one, REALS, rule=rule)
    close(found.probabilities, expected.probabilities, rtol=1e-7)
    close(found.log_marginal + np.log(scales).sum(), expected.log_marginal, rtol=1e-8)
    close(two.parameters["real_mean"] / np.asarray(scales), one.parameters["real_mean"], rtol=1e-9)
    if one.log_evidence is not None:
        assert two.log_evidence + ROWS * np.log(scales).sum() == pytest.approx(one.log_evidence, rel=1e-8)


@pytest.mark.slow
def test_nuts_does_not_mind_the_units_either():
    X = {"weight": 1e6 * REALS["weight"], "height": 1e-6 * REALS["height"]}
    exact = bg.fit(BAYES, X, Y, method=bg.Exact())
    fit = bg.fit(BAYES, X, Y, method=bg.NUTS(num_samples=600), seed=1)
    assert fit.attributes["path"] == "whitened"
    draws = fit.parameters["real_mean"]
    close(draws.mean((0, 1)) / draws.std((0, 1)), exact.parameters["real_mean"] / draws.std((0, 1)), atol=0.1)


@pytest.mark.parametrize("model", REAL_MODELS[:3], ids=["bayes", "full", "tied"])
def test_columns_far_from_zero_lose_nothing_but_their_own_digits(model):
    far = {name: values + 1e7 for name, values in REALS.items()}
    one, two = (bg.predict(bg.fit(model, X, Y, method=bg.Exact()), X, rule=bg.BMA()) for X in (REALS, far))
    close(one.probabilities, two.probabilities, rtol=1e-6)


def test_rows_far_from_all_training_rows_have_probabilities():
    fit = bg.fit(FULL, REALS, Y, method=bg.Exact())
    far = {"height": np.asarray([1e12, -1e150]), "weight": np.asarray([-1e12, 1e150])}
    for rule in (bg.BMA(), bg.PlugIn()):
        answer = bg.predict(fit, far, rule=rule)
        close(answer.probabilities[0].sum(), 1.0, rtol=1e-12)
        assert np.isfinite(answer.log_probabilities).any(1).all()


@pytest.mark.parametrize("model", [bg.NaiveBayes(bg.GammaPoisson()), bg.NaiveBayes(bg.NormalInverseGamma())])
def test_sparse_columns_of_a_family_that_takes_every_cell_are_refused(model):
    X = scipy.sparse.csr_matrix(np.arange(12.0).reshape(4, 3))
    with pytest.raises(bg.DataError, match=r"X is sparse, and block .* takes every cell.*toarray"):
        bg.fit(model, X, ["a", "b", "a", "b"], method=bg.Exact())


def test_a_sparse_chunk_after_a_dense_one_is_refused_by_its_number():
    X = np.arange(12.0).reshape(4, 3)
    chunks = [(X, ["a", "b", "a", "b"]), (scipy.sparse.csr_matrix(X), ["a", "b", "a", "b"])]
    with pytest.raises(bg.DataError, match=r"Chunk 2: X is sparse"):
        bg.fit(bg.GaussianDiscriminant(), chunks, method=bg.Exact())


@pytest.mark.parametrize("weights", [1.0, [[1.0], [1.0], [1.0], [1.0]]])
def test_weights_of_a_wrong_shape_are_refused(weights):
    with pytest.raises(bg.DataError, match=r"sample_weight has shape .* Give one weight a row"):
        bg.fit(
            bg.NaiveBayes(),
            np.arange(8.0).reshape(4, 2),
            ["a", "b", "a", "b"],
            method=bg.Exact(),
            sample_weight=weights,
        )


def test_arguments_that_go_by_name_are_told_so():
    with refused("fit takes model, X, y by position", r"fit\(model, X, y, method=Exact\(\)\)"):
        bg.fit(BAYES, REALS, Y, bg.Exact())
    fit = bg.fit(BAYES, REALS, Y, method=bg.Exact())
    with refused(r"predict\(fit, X, rule=BMA\("):
        bg.predict(fit, REALS, bg.BMA())


@pytest.mark.parametrize("model", [None, BAYES], ids=["None", "a model"])
def test_what_was_not_fitted_does_not_predict(model):
    with refused("a result of bayesgen.fit", error=bg.PredictionError):
        bg.predict(model, REALS, rule=bg.BMA())
