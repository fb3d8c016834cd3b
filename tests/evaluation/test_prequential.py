"""Rows predicted before they are learned: the chain rule, and fits of the rows before."""

import sys

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.sparse
import scipy.stats
from scipy.special import gammaln

import bayesgen as bg
from tests.counting import compilations
from tests.models import response_cases
from tests.models.cases import CASES, take

PAIRS = [(bg.MLE(), bg.PlugIn()), (bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
QUICK = ("naive Bayes", "discriminant, tied", "multinomial, sparse")


def marked(table, quick):
    """The names of a table, of which all but some are for slow runs."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in table]


def both(result):
    return result.log_scores, result.log_joint_scores


@pytest.mark.parametrize("name", marked(CASES, QUICK))
def test_scores_of_the_one_step_answer_add_up_to_the_log_evidence(name):
    case = CASES[name]
    result = bg.prequential(case.model, *case.data)
    np.testing.assert_allclose(result.log_joint_scores.sum(), case.exact.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(result.joint_code_length[-1], -case.exact.log_evidence, rtol=1e-9)
    assert (result.log_scores <= 0).all() and not result.num_unscored


@pytest.mark.parametrize("name", marked(response_cases.CASES, ("joint, informative", "line without intercept")))
def test_scores_of_numbers_add_up_to_the_log_evidence(name):
    """The first row is predicted from none; under a flat intercept it has no score, and is no part of the evidence."""
    case = response_cases.CASES[name]
    result = bg.prequential(case.model, *case.data)
    assert result.num_unscored == (name in ("line", "surface"))
    np.testing.assert_allclose(result.joint_code_length[-1], -case.exact.log_evidence, rtol=1e-9)


def test_the_first_row_of_a_line_has_a_student_t():
    X, y = [[0.5], [1.5], [4.0]], [0.7, 1.0, 3.0]
    prior = bg.LinearNormalInverseGamma(mean=0.0, kappa=1.0, precision=1.0, shape=3.0, scale=1.0, center=[0.0])
    result = bg.prequential(bg.LinearRegression(prior=prior), X, y)
    expected = scipy.stats.t.logpdf(0.7, 6.0, 0.0, np.sqrt((1 + 1 + 0.5**2) / 3))
    np.testing.assert_allclose(result.log_scores[0], expected, rtol=1e-12)


CLOSED, MODE = (bg.Exact(), bg.BMA()), (bg.MAP(), bg.PlugIn())
STRUCTURES = bg.NaiveBayes(bg.BetaBernoulli(0.5, 1.5), structure="average")
TRUTH_VALUES = np.random.default_rng(5).random((11, 2)) < 0.6
WEIGHED = {
    **{name: (case.model, case.data, CLOSED) for name, case in CASES.items()},
    **{f"{name}, of a number": (case.model, case.data, CLOSED) for name, case in response_cases.CASES.items()},
    "mode": (CASES["discriminant, tied"].model, CASES["discriminant, tied"].data, MODE),
    "mode of a line": (response_cases.CASES["line"].model, response_cases.CASES["line"].data, MODE),
    "structures": (STRUCTURES, (TRUTH_VALUES, np.arange(11) % 2), CLOSED),
}


@pytest.mark.parametrize(
    "name", marked(WEIGHED, ("discriminant, tied", "line without intercept, of a number", "structures"))
)
def test_a_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_is_none(name):
    model, (X, y), pair = WEIGHED[name]
    schema = bg.summarize(model, X, y).schema  # has the classes and categories of all rows
    rows, weights = np.arange(7), np.array([1, 2, 0, 3, 1, 0, 1])
    copies, firsts = np.repeat(rows, weights), (np.cumsum(weights) - weights)[weights > 0]
    weighted, repeated = [(take(X, rows), y[rows], weights)], [(take(X, copies), y[copies])]
    found, expected = (bg.prequential(model, data, pairs=[pair], schema=schema) for data in (weighted, repeated))
    for scores, of_copies in zip(both(found), both(expected), strict=True):
        assert np.isnan(scores[0, weights == 0]).all() and scores.shape == (1, 7)
        np.testing.assert_allclose(scores[0, weights > 0], of_copies[0, firsts], rtol=1e-8)
    assert found.weights.tolist() == [weights.tolist()] and found.num_unscored == np.isnan(expected.log_scores[:, 0])


def test_each_row_is_predicted_by_the_fit_of_the_rows_before_it():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(23, 3)) @ rng.normal(size=(3, 3)), np.arange(23) % 2
    model, order = bg.GaussianDiscriminant("tied"), np.stack([rng.permutation(23) for _ in range(2)])
    schema = bg.fit(model, X, y, method=bg.Exact()).schema
    result = bg.prequential(model, X, y, pairs=PAIRS, order=order)
    assert result.log_scores.shape == (4, 2, 23) and len(result.pairs) == 4
    for pair, (method, rule) in enumerate(PAIRS):
        for sequence, places in enumerate(order):
            for position in (0, 1, 5, 22):
                before, row = places[:position], places[position : position + 1]
                found = result.log_scores[pair, sequence, position]
                try:
                    fit = bg.fit(model, X[before], y[before], method=method, schema=schema)
                except bg.BayesgenError:
                    assert position < 6 and (np.isnan(found) or not isinstance(method, bg.MLE))
                    continue
                answer = bg.predict(fit, X[row], rule=rule)
                np.testing.assert_allclose(found, answer.log_probabilities[0, y[row[0]]], rtol=1e-9)
    assert (result.num_unscored[0] > 3).all() and not result.num_unscored[2:].any()
    is_scored = ~np.isnan(result.log_scores).any(0)  # by all pairs, and so compared
    for lengths, scores in zip((result.code_length, result.joint_code_length), both(result), strict=True):
        np.testing.assert_allclose(lengths[..., -1], -np.where(is_scored, scores, 0.0).sum(-1), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rows_have_no_score_exactly_where_a_fit_of_the_rows_before_is_refused(name, monkeypatch):
    """One compiled call and a fit for each row give the same scores."""
    case = CASES[name]
    X, y = case.data
    schema = bg.summarize(case.model, X, y).schema
    rows = np.argsort(y[:13], kind="stable")  # class by class
    data = [(take(X, rows), y[rows])]
    together = bg.prequential(case.model, data, pairs=PAIRS[:2], schema=schema)
    monkeypatch.setattr(sys.modules["bayesgen.evaluation.prequential"], "why_separate", lambda *_: "alone")
    alone = bg.prequential(case.model, data, pairs=PAIRS[:2], schema=schema)
    for scores, scores_alone in zip(both(together), both(alone), strict=True):
        np.testing.assert_allclose(scores, scores_alone, rtol=1e-6, atol=1e-9)
    until_all = y[rows].tolist().index(y[rows[-1]]) + 1
    assert np.isnan(together.log_scores[0, 0, :until_all]).all(), "of maximum likelihood, as some class has no rows"


def test_the_estimator_of_krichevsky_and_trofimov_is_one():
    rng, symbols = np.random.default_rng(0), np.array(["a", "b", "c", "d"])
    tasks = [({"v": symbols[rng.integers(0, 4, 17)]},) for _ in range(5)]
    model = bg.NaiveBayes(bg.DirichletCategorical(0.5), class_prior=None)
    result = bg.prequential(model, tasks, schema=bg.Schema(categories={"v": symbols}))
    assert result.log_scores.shape == (5, 17)
    for (task,), scores in zip(tasks, result.log_scores, strict=True):
        counts = (task["v"][:, None] == symbols).cumsum(0) - (task["v"][:, None] == symbols)
        chosen = counts[task["v"][:, None] == symbols]
        np.testing.assert_allclose(np.exp(scores), (chosen + 0.5) / (np.arange(17) + 2.0), rtol=1e-12)
    totals = np.stack([(task["v"][:, None] == symbols).sum(0) for (task,) in tasks])
    evidence = (gammaln(totals + 0.5) - gammaln(0.5)).sum(1) + gammaln(2.0) - gammaln(2.0 + 17)
    np.testing.assert_allclose(result.code_length[:, -1], -evidence, rtol=1e-12)


def test_sequences_of_unlike_lengths_end_with_nan():
    rng = np.random.default_rng(1)
    tasks = [(rng.normal(size=(size, 2)), np.arange(size) % 2) for size in (5, 11)]
    result = bg.prequential(bg.NaiveBayes(), tasks)
    assert np.isnan(result.log_scores[0, 5:]).all() and not result.num_unscored.any()
    alone = bg.prequential(bg.NaiveBayes(), *tasks[0])
    np.testing.assert_allclose(result.log_scores[0, :5], alone.log_scores, rtol=1e-10)
    frame = result.to_frame()
    assert len(frame) == 22 and frame.columns.tolist() == ["pair", "sequence", "row", "log_score", "log_joint_score"]


def test_a_number_is_scored_given_its_row():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=9)
    model = bg.JointGaussianRegression()
    result = bg.prequential(model, X, y)
    np.testing.assert_allclose(result.log_joint_scores.sum(), bg.fit(model, X, y, method=bg.Exact()).log_evidence)


def test_an_average_of_points_is_refused():
    X, y = [[1.0], [2.0], [3.0], [5.0]], ["a", "b", "a", "b"]
    with pytest.raises(bg.PredictionError, match="point estimate"):
        bg.prequential(bg.NaiveBayes(), X, y, pairs=[(bg.MAP(), bg.BMA())])


def test_rows_of_a_mixture_are_scored_by_their_density():
    X = np.random.default_rng(2).normal(size=(7, 2))
    model = bg.Mixture(bg.GaussianDiscriminant("tied-spherical"), 2)
    result = bg.prequential(model, X, pairs=[(bg.MAP(), bg.PlugIn())])
    fit = bg.fit(model, X[:6], method=bg.MAP(), schema=bg.fit(model, X, method=bg.MAP()).schema, seed=6)
    np.testing.assert_allclose(
        result.log_scores[6], bg.predict(fit, X[6:], rule=bg.PlugIn()).log_marginal[0], rtol=1e-6
    )
    np.testing.assert_array_equal(result.log_scores, result.log_joint_scores)


def test_what_has_no_order_is_refused():
    X, y = [[1.0], [2.0], [3.0]], ["a", "b", "a"]
    with pytest.raises(bg.DataError, match="positions 0 to 2 once"):
        bg.prequential(bg.NaiveBayes(), X, y, order=[0, 1, 1])
    with pytest.raises(bg.DataError, match="of float64"):
        bg.prequential(bg.NaiveBayes(), X, y, order=[0.0, 1.0, 2.0])
    with pytest.raises(bg.DataError, match="order has to hold each of the positions 0 to 2 once"):
        bg.prequential(bg.NaiveBayes(), X, y, order=[1, [2]])
    with pytest.raises(bg.DataError, match="There is no pair"):
        bg.prequential(bg.NaiveBayes(), X, y, pairs=[])


def test_curves_are_drawn():
    result = bg.prequential(bg.NaiveBayes(), [[1.0], [2.0], [3.0], [5.0]], list("abab"), pairs=PAIRS[2:])
    (axes,) = result.plot().axes
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels == [
        "Exact + PlugIn(mean): one process (two steps)",
        "Exact + BMA: averaged over processes (one step)",
    ]
    np.testing.assert_array_equal(axes.get_lines()[1].get_ydata(), result.log_scores[1])


def test_the_plug_in_of_rows_without_labels_has_the_shares_of_the_rows_before():
    """Against shares of counts; without rows there is no estimate, and what was never seen has probability zero."""
    tosses = np.array([[True, True, False, True], [False, True, True, False]])
    model = bg.NaiveBayes(bg.BetaBernoulli(0.5, 0.5), class_prior=None)
    found = bg.prequential(model, [(rows[:, None],) for rows in tosses], pairs=[(bg.MLE(), bg.PlugIn())])
    np.testing.assert_allclose(np.exp(found.log_scores), [[np.nan, 1, 0, 2 / 3], [np.nan, 0, 0.5, 1 / 3]], rtol=1e-12)


def test_what_fit_refuses_of_the_model_is_refused():
    X, y = np.arange(12).reshape(6, 2) % 3 > 0, np.arange(6) % 2
    hierarchical = bg.NaiveBayes(bg.BetaBernoulli(dist.Gamma(2.0, 1.0), 1.0))
    with pytest.raises(bg.FitError, match=r"hyperparameter a is a distribution. Use NUTS\(\) or MAP\(\)"):
        bg.prequential(hierarchical, X, y)
    with pytest.raises(bg.FitError, match="labels are missing"):
        bg.prequential(bg.NaiveBayes(), X, ["a", "b", None, "a", "b", "b"])
    constant = [[1.0], [1.0], [1.0], [1.0]]
    with pytest.raises(bg.FitError, match="x0"):  # what it says of all rows, as no row has a score
        bg.prequential(bg.NaiveBayes(), constant, list("abab"), pairs=[(bg.MLE(), bg.PlugIn())])


def test_rows_that_have_no_statistic_are_learned_by_one_compiled_function():
    def program(n):
        loc = numpyro.sample("loc", dist.Normal(0.0, 3.0))
        with numpyro.plate("rows", n):
            numpyro.sample("z", dist.StudentT(5.0, loc, 1.0))

    values = np.random.default_rng(0).normal(size=9)
    pairs = [(bg.MAP(), bg.PlugIn())]
    with compilations() as found:
        result = bg.prequential(bg.GenerativeProgram(program, label=None), {"z": values}, pairs=pairs)
    assert max(map(found.count, found)) == 2, "without rows, and with any number of them"
    np.testing.assert_allclose(result.log_scores[0], scipy.stats.t.logpdf(values[0], 5.0), rtol=1e-6)
    grid = np.linspace(-3, 3, 600_001)
    logs = scipy.stats.norm.logpdf(grid, 0, 3) + scipy.stats.t.logpdf(values[:8, None], 5.0, grid).sum(0)
    expected = scipy.stats.t.logpdf(values[8], 5.0, grid[np.argmax(logs)])
    np.testing.assert_allclose(result.log_scores[8], expected, atol=1e-4)


def test_rows_before_which_there_is_no_mode_have_no_score_in_sparse_rows_as_in_dense_ones():
    counts, y, pairs = np.random.default_rng(0).poisson(2.0, (7, 3)), list("abababa"), [(bg.Exact(), bg.PlugIn("mode"))]
    model = bg.NaiveBayes(bg.DirichletMultinomial(2.0))
    dense, sparse = (
        bg.prequential(model, X, y, pairs=pairs).log_joint_scores for X in (counts, scipy.sparse.csr_array(counts))
    )
    assert np.isnan(dense[0]) and np.isfinite(dense[-1])
    np.testing.assert_allclose(sparse, dense, rtol=1e-9)
