"""Training rows predicted from all others: equal to fits without them, under the same prior."""

import itertools

import arviz_stats
import numpy as np
import pytest
import scipy.special
import scipy.stats

import bayesgen as bg
from bayesgen.averaging.left_out import cross_validated_scores
from bayesgen.fitting import prepare
from tests.models import response_cases
from tests.models.cases import CASES, take
from tests.prediction.draws import IndependentDraws, drawn

QUICK = {("naive Bayes", "Exact"), ("discriminant, tied", "Exact")}
QUICK |= {("multinomial, sparse", "MAP"), ("discriminant, full", "MAP")}
METHODS = {"Exact": (bg.Exact(), bg.BMA()), "mean": (bg.Exact(), bg.PlugIn()), "MAP": (bg.MAP(), bg.PlugIn())}
PAIRS = [
    pytest.param(name, method, marks=() if (name, method) in QUICK else pytest.mark.slow)
    for name in CASES
    for method in METHODS
]


def refitted(case, fit, rows, method, rule):
    """Log scores of rows, each by a fit without it that has the schema, and so the prior, of the fit."""
    X, y = case.data
    scores = []
    for row in rows:
        others = np.delete(np.arange(len(y)), row)
        rest = bg.fit(case.model, take(X, others), y[others], method=method, schema=fit.schema)
        answer = bg.predict(rest, take(X, np.array([row])), rule=rule)
        scores.append(answer.log_probabilities[0, fit.classes.tolist().index(y[row])])
    return scores


@pytest.mark.parametrize("name, pair", PAIRS)
def test_scores_are_those_of_fits_without_the_row(name, pair):
    case, (method, rule) = CASES[name], METHODS[pair]
    fit = bg.fit(case.model, *case.data, method=method)
    result = bg.leave_one_out(fit, *case.data, rule=rule)
    rows = [0, 1, 17, 40]
    np.testing.assert_allclose(result.log_scores[rows], refitted(case, fit, rows, method, rule), rtol=1e-8, atol=1e-10)
    assert result.pareto_k is None and not np.isnan(result.total)


FAR_METHODS = {"Exact": METHODS["Exact"], "MLE": (bg.MLE(), bg.PlugIn())}
FAR_QUICK = {("naive Bayes", "Exact", "rows"), ("discriminant, full", "Exact", "rows")}
FAR_QUICK |= {("discriminant, tied", "Exact", "rows"), ("discriminant, diag", "MLE", "folds")}
FAR = [
    pytest.param(*case, marks=() if case in FAR_QUICK else pytest.mark.slow)
    for case in itertools.product([name for name in CASES if "sparse" not in name], FAR_METHODS, ("rows", "folds"))
]


def with_far_cell(X, value=1e9):
    """The rows with one cell, of the first row, that is far from all others, as a mark of missing cells may be."""
    if isinstance(X, dict):
        name = next(name for name, values in X.items() if values.dtype.kind == "f")
        return {**X, name: np.append(value, X[name][1:])}
    return np.concatenate([np.append(int(value), X[0, 1:])[None], X[1:]])


@pytest.mark.filterwarnings("ignore:.*that every class calls impossible", "ignore:.*probability zero under every")
@pytest.mark.parametrize("name, method, split", FAR)
def test_a_row_far_away_costs_the_scores_of_no_row_their_digits(name, method, split):
    case, (method, rule) = CASES[name], FAR_METHODS[method]
    X, y = with_far_cell(case.data[0]), case.data[1]
    schema = bg.fit(case.model, *case.data, method=bg.Exact()).schema  # a prior in the units of the other rows
    fit = bg.fit(case.model, X, y, method=method, schema=schema)
    folds = np.arange(len(y)) % 40 if split == "folds" else np.arange(len(y))
    result = bg.leave_one_out(fit, X, y, rule=rule, folds=folds if split == "folds" else None)
    classes = fit.classes.tolist()
    for fold in (0, 5, 17):
        out, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        rest = bg.fit(case.model, take(X, others), y[others], method=method, schema=fit.schema)
        answer = bg.predict(rest, take(X, out), rule=rule)
        expected = answer.log_probabilities[np.arange(len(out)), [classes.index(label) for label in y[out]]]
        expected = np.where(np.isneginf(answer.log_marginal), -np.inf, expected)  # a row that no class makes possible
        rounding = 1e-14 * np.abs(answer.log_marginal, where=np.isfinite(answer.log_marginal), out=np.zeros(len(out)))
        np.testing.assert_allclose(result.log_scores[out], expected, rtol=1e-7, atol=1e-9 + rounding.max())


def test_stacking_takes_scores_that_a_row_far_away_leaves_as_they_are():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 2
    X[:, 0] += y
    far = X.copy()
    far[0, 1] = 1e9
    folds = np.arange(90) % 45
    prior = bg.NormalInverseGamma(0.0, 0.1, 2.0, 1.0)
    fit = bg.fit(bg.NaiveBayes(prior), far, y, method=bg.Exact())
    rest = bg.fit(bg.NaiveBayes(prior), X[folds != 0], y[folds != 0], method=bg.Exact())
    scores = cross_validated_scores(fit, far, y, folds).given_row
    expected = bg.predict(rest, far[folds == 0], rule=bg.BMA()).log_probabilities[np.arange(2), y[folds == 0]]
    np.testing.assert_allclose(scores[folds == 0], expected, rtol=1e-9)


def test_a_weighted_row_leaves_as_a_whole_and_folds_leave_together():
    rng = np.random.default_rng(2)
    X, y, weights = rng.normal(size=(23, 3)), np.arange(23) % 2, rng.integers(1, 4, 23)
    model, folds = bg.GaussianDiscriminant(), np.arange(23) % 5
    fit = bg.fit(model, X, y, method=bg.Exact(), sample_weight=weights)
    alone = bg.leave_one_out(fit, X, y, sample_weight=weights).log_scores
    together = bg.leave_one_out(fit, X, y, sample_weight=weights, folds=folds).log_scores
    for out, found in (([4], alone[[4]]), (np.flatnonzero(folds == 3), together[folds == 3])):
        rest = np.setdiff1d(np.arange(23), out)
        other = bg.fit(model, X[rest], y[rest], method=bg.Exact(), sample_weight=weights[rest], schema=fit.schema)
        answer = bg.predict(other, X[out], rule=bg.BMA())
        np.testing.assert_allclose(found, answer.log_probabilities[np.arange(len(out)), y[out]], rtol=1e-9)


TABLES = {**CASES, **{f"{name}, of a number": case for name, case in response_cases.CASES.items()}}
WEIGHED = [
    pytest.param(name, method, marks=() if (name, method) == ("discriminant, tied", "Exact") else pytest.mark.slow)
    for name in TABLES
    for method in METHODS
]


@pytest.mark.parametrize("name, pair", WEIGHED)
def test_a_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_is_none(name, pair):
    """Copies leave together, as a fold."""
    (model, (X, y)), (method, rule) = (TABLES[name].model, TABLES[name].data), METHODS[pair]
    rows = np.arange(len(y))
    weights = np.array([1, 2, 0, 3, 1])[rows % 5]
    copies, firsts = np.repeat(rows, weights), (np.cumsum(weights) - weights)[weights > 0]
    schema = bg.summarize(model, X, y).schema
    fit = bg.fit(model, X, y, method=method, sample_weight=weights, schema=schema)
    of_copies = bg.fit(model, take(X, copies), y[copies], method=method, schema=schema)
    for folds in (rows, rows % 7 - 3):
        found = bg.leave_one_out(fit, X, y, sample_weight=weights, rule=rule, folds=folds)
        expected = bg.leave_one_out(of_copies, take(X, copies), y[copies], rule=rule, folds=folds[copies])
        for scores, all_scores in ((found.log_scores, expected.log_scores), (found.in_sample, expected.in_sample)):
            assert np.isnan(scores[weights == 0]).all() and scores.shape == y.shape
            np.testing.assert_allclose(scores[weights > 0], all_scores[firsts], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose([found.total, found.standard_error], [expected.total, expected.standard_error])
        assert found.to_elpd().elpd == found.total and len(found.to_elpd().elpd_i) == (weights > 0).sum()
    alone = bg.leave_one_out(fit, X, y, sample_weight=weights, rule=rule)
    together = bg.leave_one_out(fit, X, y, sample_weight=weights, rule=rule, folds=rows)
    np.testing.assert_allclose(alone.log_scores, together.log_scores, rtol=1e-7, atol=1e-9)


def test_a_refit_for_arviz_has_the_weights_of_its_rows():
    X, weights = np.random.default_rng(0).normal(size=(9, 1)), np.array([5, 0.2, 3, 0, 1, 1, 2, 0.5, 4])
    model = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), class_prior=None)
    fit = bg.fit(model, X, method=bg.Exact(), sample_weight=weights)
    wrapper = bg.SamplingWrapper(fit, X, sample_weight=weights)
    rest = wrapper.sample(wrapper.sel_observations(4)[0])
    assert rest.attributes["total_weight"] == weights.sum() - 1
    expected = bg.leave_one_out(fit, X, sample_weight=weights).log_scores[4]
    np.testing.assert_allclose(bg.predict(rest, X[[4]], rule=bg.BMA()).log_marginal, expected, rtol=1e-9)
    for other, of_other in ((X, None), (X + 100, weights)):
        with pytest.raises(bg.DataError, match="not the rows of the training"):
            bg.SamplingWrapper(fit, other, sample_weight=of_other)


def test_rows_without_a_number_are_scored_by_the_density_of_their_columns():
    X, y = response_cases.CASES["joint"].data
    y = np.where(np.arange(len(y)) == 3, np.nan, y)
    others = np.arange(len(y)) != 3
    fit = bg.fit(bg.JointGaussianRegression(), X, y, method=bg.MAP())
    rest = bg.fit(fit.model, take(X, others), y[others], method=bg.MAP(), schema=fit.schema)
    result = bg.leave_one_out(fit, X, y, rule=bg.PlugIn())
    expected = bg.predict(rest, take(X, ~others), rule=bg.PlugIn()).log_marginal
    np.testing.assert_allclose(result.log_scores[3], expected[0], rtol=1e-6)
    assert np.isfinite(result.total) and np.isfinite(result.in_sample).all()
    line = bg.fit(bg.LinearRegression(), X, y, method=bg.Exact())  # of this row nothing is modelled
    without = bg.fit(bg.LinearRegression(), take(X, others), y[others], method=bg.Exact(), schema=line.schema)
    expected = bg.leave_one_out(without, take(X, others), y[others]).log_scores
    np.testing.assert_allclose(bg.leave_one_out(line, X, y).log_scores, np.insert(expected, 3, 0.0), rtol=1e-9)


def test_a_row_whose_density_is_the_same_under_all_draws_has_that_score():
    """By ArviZ too, for which such weights have no tail."""
    X = np.random.default_rng(1).normal(size=(12, 2))
    X[3] = np.nan
    model = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), class_prior=None)
    exact = bg.fit(model, X, method=bg.Exact())
    fit = drawn(exact, 4, 250)
    result = bg.leave_one_out(fit, X)
    by_arviz = arviz_stats.loo(exact.to_datatree(X, seed=1), pointwise=True)
    for scores, tails in ((result.log_scores, result.pareto_k), (by_arviz.elpd_i.values, by_arviz.pareto_k.values)):
        np.testing.assert_allclose(scores[3], 0.0, atol=1e-12)
        np.testing.assert_allclose(scores, bg.leave_one_out(exact, X).log_scores, atol=0.2)
        assert tails[3] < 0.7
    assert (fit.log_likelihood(X)["real"][:, 3] == 0).all()


@pytest.mark.parametrize("name", ["joint", pytest.param("line", marks=pytest.mark.slow)])
def test_draws_score_numbers_given_their_columns(name):
    case = response_cases.CASES[name]
    exact = bg.leave_one_out(case.exact, *case.data)
    result = bg.leave_one_out(drawn(case.exact), *case.data)
    np.testing.assert_allclose(result.in_sample, exact.in_sample, atol=0.05)
    is_sure = result.pareto_k < 0.5
    assert is_sure.sum() > 25
    np.testing.assert_allclose(result.log_scores[is_sure], exact.log_scores[is_sure], atol=0.1)


REFUSED = {
    "a number that attributes depend on": ("naive Bayes", 100, bg.BMA(), "integral over 'y'"),
    "a rule that takes a point": ("line", 100, bg.PlugIn(), "does not average over draws"),
    "few draws": ("line", 5, bg.BMA(), "tails take 25 at least"),
}


@pytest.mark.parametrize("name", [*list(REFUSED)[1:], pytest.param(next(iter(REFUSED)), marks=pytest.mark.slow)])
def test_what_draws_of_all_rows_do_not_answer_is_answered_by_folds(name):
    model, num_draws, rule, reason = REFUSED[name]
    case = response_cases.CASES[model]
    fit = drawn(case.exact, 1, num_draws)
    with pytest.raises(bg.PredictionError, match=f"{reason}.*Give folds="):
        bg.leave_one_out(fit, *case.data, rule=rule)
    folds = np.arange(response_cases.ROWS) % 10
    by_folds = bg.leave_one_out(fit, *case.data, rule=rule, folds=folds)
    expected = bg.leave_one_out(case.exact, *case.data, rule=rule, folds=folds)
    np.testing.assert_array_equal(by_folds.log_scores, expected.log_scores)


def test_a_class_of_one_row_is_predicted_by_its_prior():
    X, y = [[1.0], [2.0], [2.5], [9.0]], ["a", "a", "a", "b"]
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    schema = fit.schema
    rest = bg.fit(bg.NaiveBayes(), X[:3], y[:3], method=bg.Exact(), schema=schema)
    score = bg.leave_one_out(fit, X, y).log_scores[3]
    np.testing.assert_allclose(score, bg.predict(rest, X[3:], rule=bg.BMA()).log_probabilities[0, 1], rtol=1e-9)
    point = bg.fit(bg.NaiveBayes(bg.BetaBernoulli()), [[True], [False], [True]], ["a", "a", "b"], method=bg.MLE())
    result = bg.leave_one_out(point, [[True], [False], [True]], ["a", "a", "b"], rule=bg.PlugIn())
    assert result.log_scores[[0, 1]].tolist() == [-np.inf, -np.inf] and np.isnan(result.log_scores[2])


def test_numbers_are_predicted_from_the_other_rows():
    case = response_cases.CASES["joint"]
    X, y = case.data
    fit = bg.fit(case.model, X, y, method=bg.Exact())
    result = bg.leave_one_out(fit, X, y, folds=np.arange(len(y)) % 7)
    assert result.log_scores.shape == (len(y),) and result.total < result.in_sample.sum()


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in ArviZ's compare, of the newest pandas
def test_smoothed_weights_of_draws_agree_with_the_exact_scores():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(31, 2)), np.arange(31) % 2
    X[:, 0] += y
    model = bg.GaussianDiscriminant("tied")
    exact = bg.leave_one_out(bg.fit(model, X, y, method=bg.Exact()), X, y)
    drawn = bg.leave_one_out(bg.fit(model, X, y, method=IndependentDraws(num_samples=500)), X, y)
    assert drawn.pareto_k.max() < 0.7
    np.testing.assert_allclose(drawn.log_scores, exact.log_scores, atol=0.06)
    np.testing.assert_allclose(drawn.total, exact.total, atol=0.2)
    table = arviz_stats.compare({"exact": exact.to_elpd(), "drawn": drawn.to_elpd()})
    assert set(table.index) == {"exact", "drawn"}


def test_other_rows_are_refused():
    X, y = [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"]
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    with pytest.raises(bg.DataError, match="not the rows"):
        bg.leave_one_out(fit, [[1.0], [2.0], [7.0], [9.5]], y)
    with pytest.raises(bg.DataError, match="y is missing: rows are scored by"):
        bg.leave_one_out(fit, X)
    with pytest.raises(bg.DataError, match="whole number for each of the 4 rows"):
        bg.leave_one_out(fit, X, y, folds=[0, 1])
    with pytest.raises(bg.PredictionError, match="point estimate"):
        bg.leave_one_out(bg.fit(bg.NaiveBayes(), X, y, method=bg.MAP()), X, y)


def test_rows_without_labels_and_fits_without_summaries_are_scored_by_refits():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(11, 2))
    y = np.array(["a", "b"] * 5 + [None], object)
    X[y == "a"] += 2
    fit = bg.fit(bg.NaiveBayes(), X, y, method=bg.MAP())
    scores = bg.leave_one_out(fit, X, y, rule=bg.PlugIn()).log_scores
    rest = bg.fit(bg.NaiveBayes(), X[:10], y[:10], method=bg.MAP(), schema=fit.schema)
    np.testing.assert_allclose(scores[10], bg.predict(rest, X[10:], rule=bg.PlugIn()).log_marginal[0], rtol=1e-9)
    assert (scores[:10] <= 0).all()
    with pytest.raises(bg.PredictionError, match="one model"):
        average = bg.fit(bg.average([bg.NaiveBayes(), bg.GaussianDiscriminant()]), X[:10], y[:10], method=bg.Exact())
        bg.leave_one_out(average, X[:10], y[:10])


def test_draws_score_rows_without_labels_by_their_density():
    rng = np.random.default_rng(7)
    X, codes = rng.normal(size=(31, 2)), np.arange(31) % 2
    X[:, 0] += 2 * codes
    y = np.where(np.isin(np.arange(31), [3, 4, 30]), None, np.array(["a", "b"], object)[codes])
    model = bg.GaussianDiscriminant("tied")
    labelled = np.flatnonzero(np.not_equal(y, None))
    exact = bg.fit(model, X[labelled], y[labelled], method=bg.Exact())
    draws = drawn(exact, 4, 500).posterior  # near enough: each row is weighed by its own density only
    fit = prepare(model, X, y).result(bg.NUTS(), draws)
    result = bg.leave_one_out(fit, X, y)
    answer = bg.predict(fit, X, rule=bg.BMA())
    label_scores = answer.log_probabilities[np.arange(31), codes]
    np.testing.assert_allclose(
        result.in_sample, np.where(np.equal(y, None), answer.log_marginal, label_scores), rtol=1e-9
    )
    names = ("class_probs", "real_mean", "real_covariance")
    probs, means, covariances = (fit.parameters[name].reshape(2000, *fit.parameters[name].shape[2:]) for name in names)
    covariances = np.broadcast_to(covariances.reshape(2000, -1, 2, 2), (2000, 2, 2, 2))
    joint = [
        [np.log(p) + scipy.stats.multivariate_normal(m, c).logpdf(X[4]) for p, m, c in zip(*process, strict=True)]
        for process in zip(probs, means, covariances, strict=True)
    ]
    expected = np.log(2000) - scipy.special.logsumexp(-scipy.special.logsumexp(joint, axis=1))  # weights 1 / p(x)
    np.testing.assert_allclose(result.log_scores[4], expected, atol=0.02)


@pytest.mark.filterwarnings("ignore:In 1 of 1 rows")  # which is far from all others
def test_rows_with_heavy_weights_are_scored_by_a_fit_without_them_on_request():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(31, 2)), np.arange(31) % 2
    X[30] = 40.0  # an outlier, without which the draws are others
    fit = bg.fit(bg.GaussianDiscriminant("tied"), X, y, method=IndependentDraws())
    smoothed, result = (bg.leave_one_out(fit, X, y, refit=refit) for refit in (False, True))
    is_unsure = smoothed.pareto_k > 0.7
    assert is_unsure[30] and not is_unsure.all()
    np.testing.assert_array_equal(result.log_scores[~is_unsure], smoothed.log_scores[~is_unsure])
    np.testing.assert_array_equal(result.pareto_k, np.where(is_unsure, 0.0, smoothed.pareto_k))
    others = np.arange(30)
    rest = bg.fit(fit.model, X[others], y[others], method=fit.method, schema=fit.schema)
    np.testing.assert_allclose(
        result.log_scores[30], bg.predict(rest, X[[30]], rule=bg.BMA()).log_probabilities[0, y[30]], rtol=1e-6
    )


@pytest.mark.parametrize(
    "model, method, rule",
    [
        (bg.NaiveBayes(), bg.Exact(), bg.BMA()),
        (bg.NaiveBayes(), bg.MAP(), bg.PlugIn()),
        (bg.GaussianDiscriminant(), bg.MAP(), bg.PlugIn()),
    ],
)
def test_rows_with_missing_cells_are_scored_by_their_observed_cells(model, method, rule):
    rng = np.random.default_rng(3)
    X, y, weights = rng.normal(size=(37, 2)), np.arange(37) % 2, np.where(np.arange(37) == 4, 3, 1)
    X[y == 1] += 1
    X[[0, 4, 9], [0, 1, 1]] = np.nan
    fit = bg.fit(model, X, y, method=method, sample_weight=weights)
    scores = bg.leave_one_out(fit, X, y, sample_weight=weights, rule=rule).log_scores
    for row in (0, 4, 5):  # the row of weight 3 leaves as a whole
        others = np.delete(np.arange(37), row)
        rest = bg.fit(model, X[others], y[others], method=method, sample_weight=weights[others], schema=fit.schema)
        expected = bg.predict(rest, X[[row]], rule=rule).log_probabilities[0, y[row]]
        np.testing.assert_allclose(scores[row], expected, rtol=1e-7)


def test_folds_are_left_out_alike_by_one_call_and_by_refits(monkeypatch):
    case = CASES["discriminant, full"]
    X, y = case.data
    fit = bg.fit(case.model, X, y, method=bg.Exact())
    folds = np.arange(len(y)) * 7 // len(y) * 3 - 5  # of unequal sizes, and any whole numbers
    by_refits = bg.leave_one_out(fit, X, y, folds=folds).log_scores
    monkeypatch.setattr("bayesgen.prediction.left_out.FEW_FOLDS", 1)
    np.testing.assert_allclose(bg.leave_one_out(fit, X, y, folds=folds).log_scores, by_refits, rtol=1e-9)
    monkeypatch.setattr("bayesgen.prediction.left_out.num_sets_at_once", lambda cells: 2)  # several blocks of folds
    np.testing.assert_allclose(bg.leave_one_out(fit, X, y, folds=folds).log_scores, by_refits, rtol=1e-9)


def test_examples_of_a_concept_are_predicted_from_the_others():
    learner = bg.ConceptLearner(bg.number_game("murphy"), noise=0.05)
    X, y = [16, 8, 64, 10], [True, True, True, False]
    result = bg.leave_one_out(bg.fit(learner, X, y, method=bg.Exact()), X, y)
    rest = bg.fit(learner, X[1:], y[1:], method=bg.Exact())
    np.testing.assert_allclose(result.log_scores[0], np.log(bg.predict(rest, [16], rule=bg.BMA()).next_example[0]))
    assert result.total < result.in_sample.sum()
    sets, marks = [X, [3, 5]], [y, [True, True]]
    both = bg.leave_one_out(bg.fit(learner, sets, marks, method=bg.Exact()), sets, marks)
    np.testing.assert_allclose(both.log_scores[:4], result.log_scores)
    with pytest.raises(bg.DataError, match="not the examples"):
        bg.leave_one_out(bg.fit(learner, X, method=bg.Exact()), X[1:])
    with pytest.raises(bg.PredictionError, match=r"of Exact\(\) fits.*MAP"):
        bg.leave_one_out(bg.fit(learner, X, method=bg.MAP()), X)


@pytest.mark.parametrize("has_weights", [False, True])
def test_a_posterior_less_one_row_by_its_short_form_is_that_of_the_statistics_of_all_others(monkeypatch, has_weights):
    X = np.random.default_rng(4).normal(size=(41, 3)) @ [[2.0, 0.3, 0.0], [0.0, 1.0, 0.4], [0.0, 0.0, 0.5]]
    y = np.append(np.arange(40) % 2, 2)  # a class of one row
    weights = np.arange(len(y)) % 3 + 1.0 if has_weights else None
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact(), sample_weight=weights)
    short = bg.leave_one_out(fit, X, y, sample_weight=weights).log_scores
    monkeypatch.setattr(bg.NormalInverseWishart, "log_prob_left_out", lambda *_: None)
    np.testing.assert_allclose(short, bg.leave_one_out(fit, X, y, sample_weight=weights).log_scores, rtol=1e-9)
