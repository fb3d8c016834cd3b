"""Columns and response jointly normal, against least squares, ratios of evidences and quadrature."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.integrate

import bayesgen as bg

close = np.testing.assert_allclose
EXACT, BMA = bg.Exact(), bg.BMA()


def data(size=41, seed=0):
    """Correlated columns of unlike scales and offsets, and a response."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 3)) @ np.array([[1.0, 5.0, 0.0], [0.0, 10.0, 20.0], [0.0, 0.0, 300.0]]) + [5, 1e3, -2]
    return X, X @ [1.0, 0.2, -0.01] + rng.normal(size=size)


X, Y = data()
NEW, NEW_Y = data(5, seed=1)
MODEL = bg.JointGaussianRegression()


@pytest.fixture(scope="module")
def exact():
    return bg.fit(MODEL, X, Y, method=EXACT)


def holed(X, y, seed=7):
    rng = np.random.default_rng(seed)
    X, y = X.copy(), y.copy()
    X[rng.random(X.shape) < 0.15] = np.nan
    y[rng.random(len(y)) < 0.15] = np.nan
    return X, y


def test_maximum_likelihood_predicts_as_least_squares():
    answer = bg.predict(bg.fit(MODEL, X, Y, method=bg.MLE()), NEW, rule=bg.PlugIn())
    design = np.column_stack([np.ones(len(X)), X])
    solution, residual, *_ = np.linalg.lstsq(design, Y, rcond=None)
    close(answer.mean, np.column_stack([np.ones(len(NEW)), NEW]) @ solution, rtol=1e-9)
    close(answer.std, np.sqrt(residual[0] / len(Y)), rtol=1e-9)
    assert answer.standard_error is None and answer.pareto_k is None


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP()], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("gaps", [False, True])
def test_it_learns_what_a_normal_distribution_of_all_columns_does(method, gaps):
    x, y = holed(X, Y) if gaps else (X, Y)
    fit = bg.fit(MODEL, x, y, method=method)
    one = bg.fit(bg.Mixture(bg.GaussianDiscriminant(), 1), np.column_stack([x, y]), method=method)
    close(fit.parameters["joint_mean"], one.parameters["real_mean"][0], rtol=1e-6)
    close(fit.parameters["joint_covariance"], one.parameters["real_covariance"][0], rtol=1e-3, atol=1e-6)


def test_the_one_step_answer_is_a_ratio_of_evidences(exact):
    answer = bg.predict(exact, NEW, rule=BMA)
    for i in range(len(NEW)):
        more = exact.update(NEW[i : i + 1], NEW_Y[i : i + 1])
        joint = more.log_evidence - exact.log_evidence
        close(answer.log_density(NEW_Y)[i] + answer.log_marginal[i], joint, rtol=1e-10)
    close(answer.log_marginal, exact.log_joint(NEW, at="predictive")[:, 0])


@pytest.mark.parametrize("rule", [BMA, bg.PlugIn(), bg.PlugIn("mode")], ids=repr)
def test_cells_that_new_rows_lack_are_integrated_out(exact, rule):
    row, y, column = NEW[:1].copy(), NEW_Y[:1], 1
    row[0, column] = np.nan
    answer = bg.predict(exact, row, rule=rule)

    def joint(value):
        filled = row.copy()
        filled[0, column] = value
        whole = bg.predict(exact, filled, rule=rule)
        return float(np.exp(whole.log_marginal + whole.log_density(y))[0])

    middle, spread = X[:, column].mean(), X[:, column].std()
    integral, _ = scipy.integrate.quad(
        joint, middle - 12 * spread, middle + 12 * spread, points=[NEW[0, 1]], epsrel=1e-7
    )
    close(np.exp(answer.log_marginal + answer.log_density(y))[0], integral, rtol=1e-5)


@pytest.mark.parametrize("rule", [bg.BMA(), bg.PlugIn()], ids=repr)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_density_of_x_is_that_of_the_table_of_rows_without_y(exact, rule, share):
    X = np.random.default_rng(5).normal(size=(40, len(exact.schema.columns)))
    X[np.random.default_rng(6).random(X.shape) < share] = np.nan
    table = exact.posterior.log_joint(exact.read(X), "mean" if rule == bg.PlugIn() else "predictive")
    np.testing.assert_allclose(bg.predict(exact, X, rule=rule).log_marginal, table[:, 0], rtol=1e-12)


def test_rows_that_lack_different_cells_are_as_rows_alone(exact):
    rows = np.concatenate([NEW, NEW, NEW])
    rows[np.random.default_rng(2).random(rows.shape) < 0.4] = np.nan
    rows[3] = np.nan
    together = bg.predict(exact, rows, rule=BMA)
    for i, row in enumerate(rows):
        alone = bg.predict(exact, row[None], rule=BMA)
        for name in ("mean", "std", "log_marginal"):
            close(getattr(together, name)[i], getattr(alone, name)[0], rtol=1e-9, atol=1e-9)
        close(together.quantile(0.9)[i], alone.quantile(0.9)[0], rtol=1e-9)


def test_averages_over_draws_come_near_the_closed_form(exact):
    rows = NEW.copy()
    rows[2, 0] = rows[3, 1] = np.nan
    closed, averaged = (bg.predict(exact, rows, rule=rule) for rule in (BMA, bg.ConditionalAverage(seed=1)))
    assert (averaged.standard_error > 0).all() and averaged.pareto_k is None
    close(averaged.mean, closed.mean, atol=5 * averaged.standard_error.max())
    close(averaged.std, closed.std, rtol=0.03)  # what x says of the process is left out, which is little here
    assert abs(averaged.quantile([0.1, 0.9]) - closed.quantile([0.1, 0.9])).max() < 0.1
    close(averaged.log_density(NEW_Y), closed.log_density(NEW_Y), atol=0.05)


@pytest.mark.slow
def test_chains_agree_with_the_closed_form(exact):
    chains = bg.fit(MODEL, X, Y, method=bg.NUTS(num_chains=2))
    closed, averaged = (bg.predict(fit, NEW, rule=BMA) for fit in (exact, chains))
    assert (abs(averaged.mean - closed.mean) < 5 * averaged.standard_error).all()
    assert (averaged.pareto_k < 0.7).all()
    close(averaged.log_marginal, closed.log_marginal, atol=0.1)
    gaps = bg.fit(MODEL, *holed(X, Y), method=bg.NUTS(num_chains=2))
    assert bg.predict(gaps, NEW, rule=BMA).mean.shape == (5,)


def test_data_frames_weights_chunks_and_merging(exact):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = bg.fit(MODEL, frame, pd.Series(Y), method=EXACT)
    close(named.log_evidence, exact.log_evidence, rtol=1e-12)
    rows = pd.DataFrame(NEW, columns=["a", "b", "c"])[["c", "a", "b"]]
    close(bg.predict(named, rows, rule=BMA).mean, bg.predict(exact, NEW, rule=BMA).mean, rtol=1e-12)
    parts = [(X[:9], Y[:9]), (X[9:], Y[9:])]
    one, two = (bg.summarize(MODEL, *part) for part in parts)
    for fit in (bg.fit(MODEL, one + two, method=EXACT), bg.fit(MODEL, iter(parts), method=EXACT)):
        close(fit.log_evidence, exact.log_evidence, rtol=1e-12)
        assert fit.schema == exact.schema and fit.schema.response == exact.schema.response
        close(fit.schema.response.variance, Y.var(), rtol=1e-12)
    weights = np.arange(len(Y)) % 3
    weighted = bg.fit(MODEL, X, Y, method=EXACT, sample_weight=weights)
    repeated = np.repeat(np.arange(len(Y)), weights)
    close(weighted.log_evidence, bg.fit(MODEL, X[repeated], Y[repeated], method=EXACT).log_evidence, rtol=1e-12)


def test_what_it_gives_is_a_fit_like_any_other(exact):
    assert exact.to_datatree(num_draws=3)["posterior"]["joint_mean"].coords["feature"].values.tolist() == [
        "x0",
        "x1",
        "x2",
        "y",
    ]
    again = pickle.loads(pickle.dumps(exact))
    answer = bg.predict(again, NEW, rule=BMA)
    close(pickle.loads(pickle.dumps(answer)).mean, bg.predict(exact, NEW, rule=BMA).mean)
    assert "response" in repr(exact.schema) and "ContinuousPrediction of 5 rows" in repr(answer)
    assert list(answer.to_frame()) == ["mean", "std", "median", "lower", "upper"]
    made = exact.simulate_sites(6, seed=2)
    assert made["joint"].shape == (6, 4)
    frame = exact.simulate(6, seed=2)
    assert frame.columns.tolist() == ["x0", "x1", "x2", "y"]
    close(bg.predict(exact, made, rule=BMA).mean, bg.predict(exact, frame, rule=BMA).mean)
    close(bg.predict(exact, made, rule=BMA).mean, bg.predict(exact, made["joint"][:, :3], rule=BMA).mean)
    assert len(bg.predict(exact, NEW[:0], rule=BMA)) == 0


def test_shapes_of_what_a_prediction_is_asked(exact):
    answer = bg.predict(exact, NEW, rule=BMA)
    assert answer.quantile(0.5).shape == (5,) and answer.quantile([0.1, 0.2, 0.5]).shape == (5, 3)
    assert answer.interval(0.5).shape == (5, 2) and answer.draws(7, seed=3).shape == (7, 5)
    assert answer.log_density(0.0).shape == (5,) and answer.cdf(np.zeros((2, 5))).shape == (2, 5)
    low, high = answer.interval(0.5).T
    close(answer.cdf(high) - answer.cdf(low), 0.5, rtol=1e-9)
    for wrong in (0.0, 1.0, -3, [0.5, np.nan], [[0.5]]):
        with pytest.raises(bg.PredictionError, match="quantile takes a probability"):
            answer.quantile(wrong)
    with pytest.raises(bg.PredictionError, match="interval takes"):
        answer.interval(90)
    with pytest.raises(bg.PredictionError, match="5 rows were predicted"):
        answer.log_density([1.0, 2.0])
    with pytest.raises(bg.PredictionError, match="whole number and at least 1"):
        answer.draws(0)


REFUSED = {
    "text": (X, ["low"] * 41, "y has dtype|y holds"),
    "booleans": (X, Y > 0, "y has dtype bool"),
    "mixed": (X, ["low", *Y[1:]], "y holds 'low'"),
    "infinite": (X, np.where(Y.mean() < Y, np.inf, Y), "infinite values, the first at row"),
    "dates": (X, np.arange(41).astype("datetime64[D]"), "y has dtype datetime64"),
    "none": (X, None, "y is missing: a regression learns"),
    "classes": (
        X,
        pd.Series(np.where(Y.mean() < Y, "a", "b"), dtype="category"),
        "predicts numbers, and its y",
    ),
    "two columns": (X, np.column_stack([Y, Y]), "1-D"),
    "short": (X, Y[:-1], "X has 41 rows and y has 40"),
    "column of texts": ({"a": X[:, 0], "sky": ["blue"] * 41}, Y, "'sky' are categorical.*basis"),
    "column of booleans": ({"a": X[:, 0] > 5}, Y, "'a' are binary"),
    "column called y": ({"y": X[:, 0]}, Y, "Rename the column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_data_are_refused(name):
    x, y, message = REFUSED[name]
    with pytest.raises(bg.DataError, match=message):
        bg.fit(MODEL, x, y, method=EXACT)


def test_what_makes_no_sense_is_refused(exact):
    with pytest.raises(bg.FitError, match="cells of its jointly normal columns are missing"):
        bg.fit(MODEL, *holed(X, Y), method=EXACT)
    without_y = np.where(np.arange(41) < 4, np.nan, Y)
    with pytest.raises(bg.FitError, match=r"where y is missing. Drop these rows, or use MAP\(\) or NUTS\(\)"):
        bg.fit(MODEL, X, without_y, method=EXACT)
    with pytest.raises(bg.ModelError, match=r"unlabelled_weight=0.5 is of rows without a class.*sample_weight"):
        bg.fit(MODEL, X, without_y, method=bg.MAP(unlabelled_weight=0.5))
    with pytest.raises(bg.FitError, match="has no classes, so none can be added"):
        exact.add_class("b", X)
    with pytest.raises(bg.ModelError, match="its label is continuous"):
        bg.Mixture(MODEL, 2)
    with pytest.raises(bg.ModelError, match="takes a NormalInverseWishart"):
        bg.JointGaussianRegression(bg.NormalInverseGamma())
    with pytest.raises(bg.PredictionError, match="entropy_draws splits"):
        bg.predict(exact, NEW, rule=bg.BMA(entropy_draws=9))
    with pytest.raises(bg.FitError, match="rank"):
        bg.fit(MODEL, X[:3], Y[:3], method=bg.MLE())
    with pytest.warns(bg.ConstantColumnWarning, match="'y'"):
        bg.fit(MODEL, X, np.ones(41), method=EXACT)


def test_missing_numbers_among_integers():
    fits = [bg.fit(MODEL, X[:, :1], y, method=bg.MLE()) for y in ([None, *range(40)], [np.nan, *range(40)])]
    close(fits[0].parameters["joint_mean"], fits[1].parameters["joint_mean"], rtol=1e-9)
    assert fits[0].schema.response.mean == 19.5


def test_missing_cells_of_rows_are_filled_in(exact):
    rows = NEW.copy()
    rows[1, 0] = rows[2, 2] = np.nan
    means, draws = exact.impute(rows), exact.impute(rows, num_draws=300, seed=1)
    assert means.shape == (5, 3) and draws.shape == (300, 5, 3)
    close(means[[0, 3, 4]], NEW[[0, 3, 4]])
    for place in ((1, 0), (2, 2)):
        spread = draws[:, *place].std()
        assert spread > 0 and abs(draws[:, *place].mean() - means[place]) < 5 * spread / 300**0.5
    line = bg.fit(bg.LinearRegression(), X, Y, method=EXACT)
    with pytest.raises(bg.ModelError, match=r"JointGaussianRegression\(\) imputes cells"):
        line.impute(NEW)
