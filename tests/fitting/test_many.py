"""Many fits at once are the fits of each data set alone."""

import itertools
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest
from counting import compilations

import bayesgen as bg
from bayesgen.fitting import FitBatch
from tests.models import response_cases
from tests.models.cases import CASES, ROWS

SETS = 4


@pytest.fixture
def weights():
    return np.random.default_rng(5).multinomial(ROWS, [1 / ROWS] * ROWS, size=SETS) + 0.01


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


METHODS = {"Exact": bg.Exact(), "MAP": bg.MAP(), "MLE": bg.MLE()}
QUICK = {
    ("naive Bayes", "Exact"),
    ("discriminant, tied", "Exact"),
    ("multinomial, sparse", "MAP"),
    ("own blocks", "MLE"),
}
QUICK |= {("discriminant, full", "MAP")}


def every_pair(quick):
    """All cases by all methods, those that are not quick marked as slow."""
    pairs = itertools.product(CASES, METHODS)
    return [pytest.param(*pair, marks=() if pair in quick else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize("name, method", every_pair(QUICK))
def test_each_fit_is_that_of_its_data_alone(name, method, weights):
    case, method = CASES[name], METHODS[method]
    batch = bg.fit_many(case.model, *case.data, weights=weights, method=method)
    fits = [bg.fit(case.model, *case.data, method=method, sample_weight=row, schema=batch.schema) for row in weights]
    for key, values in batch.parameters.items():
        close(values, [fit.parameters[key] for fit in fits])
        close(values[1], batch[1].parameters[key])
    if fits[0].log_evidence is None:
        assert batch.log_evidence is None
    else:
        close(batch.log_evidence, [fit.log_evidence for fit in fits])
    assert not batch.refused and batch[2].schema == fits[2].schema
    assert batch[2].attributes == fits[2].attributes | {"total_weight": pytest.approx(weights[2].sum(), rel=1e-12)}
    for key, value in fits[2].parameters.items():
        np.testing.assert_allclose(batch[2].parameters[key], value, rtol=1e-12, atol=1e-12)
    more = [fit.update(*case.data).parameters for fit in (batch[2], fits[2])]
    for key, value in more[1].items():
        np.testing.assert_allclose(more[0][key], value, rtol=1e-12, atol=1e-12)


def degenerate_weights(groups):
    """Weights of data sets: of all rows, without one group, of two rows a group, and with one row of a group."""
    first, last = groups == groups[0], groups == groups[-1]
    order = np.array([np.count_nonzero(groups[:row] == group) for row, group in enumerate(groups)])
    sets = [np.ones(len(groups)), ~first, 0.3 * (order < 2), ~last | (order == 0)]
    return np.array(sets, float)


def refusals_of_fits(model, X, y, weights, method, schema):
    refused = {}
    for index, row in enumerate(weights):
        try:
            bg.fit(model, X, y, method=method, sample_weight=row, schema=schema)
        except bg.BayesgenError as refusal:
            refused[index] = (type(refusal), str(refusal))
    return refused


@pytest.mark.filterwarnings("ignore:Constant columns", "ignore:Data set")
@pytest.mark.parametrize("name, method", every_pair(QUICK | {("discriminant, tied", "MLE")}))
def test_a_set_is_refused_where_its_fit_is_and_in_the_same_words(name, method):
    case, method = CASES[name], METHODS[method]
    X, y = case.data
    weights = degenerate_weights(y)
    batch = bg.fit_many(case.model, X, y, weights=weights, method=method)
    refused = refusals_of_fits(case.model, X, y, weights, method, batch.schema)
    assert {index: (type(refusal), str(refusal)) for index, refusal in batch.refused.items()} == refused
    assert bool(refused) or not isinstance(method, bg.MLE)


@pytest.mark.filterwarnings("ignore:Constant columns", "ignore:Data set")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in response_cases.CASES])
def test_a_regression_is_refused_where_its_fit_is_and_in_the_same_words(name, method):
    case, method = response_cases.CASES[name], METHODS[method]
    X, y = case.data
    weights = np.stack([np.arange(len(y)) < size for size in (len(y), 1, 2, 4)]) * 0.3
    batch = bg.fit_many(case.model, X, y, weights=weights, method=method)
    refused = refusals_of_fits(case.model, X, y, weights, method, batch.schema)
    assert {index: (type(refusal), str(refusal)) for index, refusal in batch.refused.items()} == refused


def test_a_fit_without_an_answer_costs_its_own_set():
    X, y = [[True], [False], [True], [True]], ["a", "a", "b", "b"]
    model, schema = bg.NaiveBayes(class_prior=[0.5, 0.5]), bg.Schema(classes=["a", "b"])
    weights = [[1, 1, 1, 1], [1, 1, 0, 0], [3, 1, 1, 2]]  # of class "b" nothing is counted: Beta(1, 1) has no mode
    batch = bg.fit_many(model, X, y, weights=weights, method=bg.Exact(), schema=schema)
    with pytest.warns(bg.BayesgenWarning, match=r"Data set 1: .*'mode'.*NaN. Block .*class 'b', column 'x0'"):
        answer = bg.predict(batch, X[:2], rule=bg.PlugIn("mode"))
    assert not batch.refused and np.isnan(answer.probabilities[1]).all()
    for index in (0, 2):
        close(answer.probabilities[index], bg.predict(batch[index], X[:2], rule=bg.PlugIn("mode")).probabilities)
    assert np.isfinite(bg.predict(batch, X[:2], rule=bg.BMA()).probabilities).all()
    with pytest.raises(bg.FitError, match=r"no unique posterior mode at class 'b'"):
        bg.predict(bg.fit_many(model, X, y, weights=weights[1:2] * 3, method=bg.Exact()), X[:2], rule=bg.PlugIn("mode"))


RULES = {"mean": bg.PlugIn(), "mode": bg.PlugIn("mode"), "bma": bg.BMA()}


BY_ONE_RULE = {"discriminant, tied", "multinomial, sparse", "naive Bayes, words"}
PREDICTED = [
    pytest.param(
        name,
        rule,
        marks=() if name == "naive Bayes" or (name in BY_ONE_RULE and rule == "bma") else pytest.mark.slow,
    )
    for name in CASES
    for rule in RULES
]


@pytest.mark.parametrize("name, rule", PREDICTED)
def test_predictions_have_the_data_sets_first(name, rule, weights):
    case = CASES[name]
    batch = bg.fit_many(case.model, *case.data, weights=weights, method=bg.Exact())
    answer = bg.predict(batch, case.new, rule=RULES[rule])
    each = [bg.predict(fit, case.new, rule=RULES[rule]) for fit in batch]
    close(answer.log_probabilities, [one.log_probabilities for one in each])
    close(answer.log_marginal, [one.log_marginal for one in each])
    close(answer.entropy, [one.entropy for one in each])
    assert answer.labels.tolist() == [one.labels.tolist() for one in each]
    assert answer.classes.tolist() == each[0].classes.tolist()
    assert f"{SETS} data sets by {len(answer.labels[0])} rows" in repr(answer)
    frame = answer.to_frame()
    for number, one in enumerate(each):
        pd.testing.assert_frame_equal(frame.loc[number], one.to_frame().rename_axis("row"))


@pytest.mark.parametrize("name", response_cases.CASES)
def test_regressions_answer_with_the_data_sets_first(name):
    case = response_cases.CASES[name]
    X, y = case.data
    weights = np.random.default_rng(2).integers(1, 4, (3, len(y))).astype(float)
    batch = bg.fit_many(case.model, X, y, weights=weights, method=bg.Exact())
    answer = bg.predict(batch, X, rule=bg.BMA())
    each = [
        bg.predict(bg.fit(case.model, X, y, sample_weight=row, method=bg.Exact()), X, rule=bg.BMA()) for row in weights
    ]
    close(answer.mean, [one.mean for one in each])
    close(answer.log_density(y), [one.log_density(y) for one in each])
    close(answer.quantile([0.1, 0.5]), [one.quantile([0.1, 0.5]) for one in each])
    close(answer.crps(y), [one.crps(y) for one in each])
    assert answer.draws(2).shape == (2, 3, len(y))
    close(answer.to_frame(), pd.concat([one.to_frame() for one in each]))


def sets_of_three_sizes():
    rng = np.random.default_rng(8)
    return [(rng.normal(size=(size, 2)) + np.arange(size)[:, None] % 3, np.arange(size) % 3) for size in (7, 19, 11)]


@pytest.mark.parametrize("form", ["arrays", "frames", "mappings", "summaries"])
def test_data_sets_may_have_unlike_numbers_of_rows(form):
    sets, model = sets_of_three_sizes(), bg.GaussianDiscriminant("tied")
    named = [({"a": X[:, 0], "b": X[:, 1]}, y) for X, y in sets]
    given = {
        "arrays": sets,
        "frames": [(pd.DataFrame(X), y) for X, y in named],
        "mappings": named,
        "summaries": [bg.summarize(model, X, y) for X, y in sets],
    }[form]
    batch = bg.fit_many(model, iter(given), method=bg.Exact())
    assert isinstance(batch, FitBatch) and len(batch) == 3 and batch.attributes["path"] == "one compiled call"
    fits = [bg.fit(model, X, y, method=bg.Exact()) for X, y in sets]
    close(batch.log_evidence, [fit.log_evidence for fit in fits])
    close(batch.parameters["real_covariance"], [fit.parameters["real_covariance"] for fit in fits])
    several = [
        X[:5] if form in ("arrays", "summaries") else pd.DataFrame(X).iloc[:5]
        for X, _ in (given if form == "frames" else sets)
    ]
    if form != "mappings":
        answer = bg.predict(batch, several, rule=bg.BMA())
        close(
            answer.probabilities,
            [bg.predict(fit, X[:5], rule=bg.BMA()).probabilities for fit, (X, _) in zip(fits, sets, strict=True)],
        )


def test_classes_and_categories_are_those_of_all_sets():
    sets = [({"sky": ["grey", "blue"]}, ["a", "b"]), ({"sky": ["red", "red"]}, ["b", "c"])]
    batch = bg.fit_many(bg.NaiveBayes(), sets, method=bg.Exact())
    assert batch.classes.tolist() == ["a", "b", "c"]
    assert batch.parameters["categorical_3_probs"].shape == (2, 3, 1, 3)
    schema = bg.Schema(classes=["a", "b", "c"], categories={"sky": ["blue", "grey", "red"]})
    for index, (X, y) in enumerate(sets):
        close(batch.log_evidence[index], bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=schema).log_evidence)


def test_a_set_that_is_refused_is_nan_and_raises_its_error():
    X, y = [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"]
    weights = [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [2, 1, 1, 1]]
    batch = bg.fit_many(bg.NaiveBayes(), X, y, weights=weights, method=bg.MLE())
    assert sorted(batch.refused) == [1, 2]
    assert (
        np.isnan(batch.parameters["real_mean"][[1, 2]]).all()
        and np.isfinite(batch.parameters["real_mean"][[0, 3]]).all()
    )
    with pytest.raises(bg.FitError, match=r"'b'.*no estimate"):
        batch[1]
    with pytest.raises(bg.DataError, match="zero for all rows"):
        batch[2]
    answer = bg.predict(batch, [[1.5], [8.0]], rule=bg.PlugIn())
    assert np.isnan(answer.probabilities[[1, 2]]).all() and answer.labels[1].tolist() == [None, None]
    close(answer.probabilities[3], bg.predict(batch[3], [[1.5], [8.0]], rule=bg.PlugIn()).probabilities)


def test_a_warning_is_shown_once_with_its_count():
    X, y = [[1.0, 3.0], [2.0, 3.0], [7.0, 3.0], [9.0, 3.0]], ["a", "a", "b", "b"]
    with pytest.warns(
        bg.ConstantColumnWarning, match=r"Data set 0 and 4 more of 5: Constant columns \['x1'\]"
    ) as caught:
        bg.fit_many(bg.NaiveBayes(), X, y, weights=np.ones((5, 4)), method=bg.Exact())
    assert len(caught) == 1


def test_a_schema_with_moments_keeps_its_prior():
    X, y = sets_of_three_sizes()[1]
    first = bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact())
    weights = np.random.default_rng(1).integers(1, 5, (3, len(y)))
    batch = bg.fit_many(bg.NaiveBayes(), X, y, weights=weights, method=bg.Exact(), schema=first.schema)
    for index, row in enumerate(weights):
        fit = bg.fit(bg.NaiveBayes(), X, y, sample_weight=row, method=bg.Exact(), schema=first.schema)
        close(batch.log_evidence[index], fit.log_evidence)
        assert fit.prior["real"] == first.prior["real"] == batch[index].prior["real"]


@pytest.fixture(scope="module")
def chains():
    """X, y, weights of five sets, and the batch of their chains."""
    X, y = sets_of_three_sizes()[1]
    weights = np.random.default_rng(6).integers(1, 4, (5, len(y)))
    method = bg.NUTS(num_warmup=100, num_samples=250)
    return X, y, weights, method, bg.fit_many(TIED, X, y, weights=weights, method=method, seed=3)


TIED = bg.GaussianDiscriminant("tied-diag")


@pytest.mark.parametrize("method", [METHODS["Exact"], METHODS["MAP"]], ids=["Exact", "MAP"])
def test_the_tree_of_closed_forms_is_that_of_each_fit_without_fitting_again(method, weights, monkeypatch):
    case, solve, solved = CASES["naive Bayes"], type(method).solve, []
    batch = bg.fit_many(case.model, *case.data, weights=weights, method=method)
    keys = [jax.random.fold_in(jax.random.key(2), index) for index in range(SETS)]
    alone = [fit.to_datatree(num_draws=5, seed=key) for fit, key in zip(batch, keys, strict=True)]
    monkeypatch.setattr(type(method), "solve", lambda *arguments: solved.append(arguments) or solve(*arguments))
    tree = batch.to_datatree(num_draws=5, seed=2)
    group = "posterior" if method.gives_draws else "point_estimate"
    for name, values in tree[group].data_vars.items():
        for index in range(SETS):
            close(values.isel(data_set=index), alone[index][group][name])
    assert len(solved) == 1  # whose axes have the names of all


def test_chains_have_the_exact_means_and_are_diagnosed(chains):
    X, y, weights, _, batch = chains
    exact = bg.fit_many(TIED, X, y, weights=weights, method=bg.Exact())
    scores = []
    for name in ("real_mean", "class_probs", "real_variance"):
        draws = batch.parameters[name]
        errors = draws.std((1, 2)) / np.sqrt(batch.ess[name])
        scores.append(((draws.mean((1, 2)) - exact.parameters[name]) / errors).ravel())
        assert batch.rhat[name].max() < 1.06
    z = np.concatenate(scores)
    assert np.abs(z).max() < 4.5 and 0.5 < z.std() < 1.5
    assert batch.attributes["path"] == "chains of 5 of 5 run side by side"
    assert len(np.unique(batch.parameters["real_mean"][:, 0, 0, 0, 0])) == 5
    tree = batch.to_datatree()
    assert tree["posterior"]["real_mean"].dims[:3] == ("chain", "draw", "data_set")


@pytest.mark.parametrize("others", [[1, 0], pytest.param([], marks=pytest.mark.slow)], ids=["others", "fewer"])
def test_chains_of_a_set_do_not_depend_on_the_other_sets(chains, others):
    X, y, weights, method, batch = chains
    found = bg.fit_many(TIED, X, y, weights=weights[[0, 1, 2, *others]], method=method, seed=3)
    np.testing.assert_allclose(found.parameters["real_mean"][:3], batch.parameters["real_mean"][:3], rtol=1e-6)


def test_sets_are_fitted_alone_where_one_refuses_its_density(chains, monkeypatch):
    X, y, weights, method, _ = chains

    def refuses(*_):
        raise bg.FitError("no density")

    monkeypatch.setattr(bg.NUTS, "_sampled_together", refuses)
    batch = bg.fit_many(TIED, X, y, weights=weights[:2], method=method)
    assert not batch.refused and batch.attributes["path"].startswith("one by one")


def test_draws_that_do_not_fit_memory_are_refused(chains, monkeypatch):
    X, y, weights, method, _ = chains
    monkeypatch.setattr("bayesgen.runtime.devices.memory", lambda: 1e6)
    with pytest.raises(bg.FitError, match="keep='summary'"):
        bg.fit_many(TIED, X, y, weights=weights, method=method)


def test_summaries_of_chains_are_kept_in_their_place(chains):
    X, y, weights, method, batch = chains
    kept = bg.fit_many(TIED, X, y, weights=weights, method=method, seed=3, keep="summary")
    close(kept.parameters["real_mean"], batch.parameters["real_mean"].mean((1, 2)))
    close(kept.ess["real_mean"], batch.ess["real_mean"])
    with pytest.raises(bg.PredictionError, match="keep='draws'"):
        bg.predict(kept, X, rule=bg.BMA())


def test_sets_that_a_single_fit_refuses_or_selects_for_are_treated_alike():
    X, y = sets_of_three_sizes()[1]
    weights = np.ones((2, len(y)))
    with pytest.raises(bg.FitError, match="structure='average'"):
        bg.fit_many(bg.NaiveBayes(structure="average"), X, y, weights=weights, method=bg.NUTS(num_samples=50))
    missing = X.copy()
    missing[2, 0] = np.nan
    sets = [bg.summarize(bg.NaiveBayes(), rows, y) for rows in (X, missing)]
    batch = bg.fit_many(bg.NaiveBayes(), sets, method=bg.Exact())
    close(
        batch.log_evidence, [bg.fit(bg.NaiveBayes(), rows, y, method=bg.Exact()).log_evidence for rows in (X, missing)]
    )
    assert "one by one" in batch.attributes["path"]


def test_what_is_no_batch_is_refused():
    X, y = sets_of_three_sizes()[0]
    with pytest.raises(bg.DataError, match=r"shape \(7,\), and 7 rows want \(B, 7\)"):
        bg.fit_many(bg.NaiveBayes(), X, y, weights=np.ones(7), method=bg.Exact())
    with pytest.raises(bg.DataError, match="weights=\\(B, n\\)"):
        bg.fit_many(bg.NaiveBayes(), X, y, method=bg.Exact())
    with pytest.raises(bg.DataError, match="no data sets"):
        bg.fit_many(bg.NaiveBayes(), [], method=bg.Exact())
    with pytest.raises(bg.DataError, match=r"Data sets 0 and 1 .*same columns"):
        bg.fit_many(bg.NaiveBayes(), [(X, y), (X[:, :1], y)], method=bg.Exact())
    with pytest.raises(bg.DataError, match="Data set 1: "):
        bg.fit_many(bg.NaiveBayes(), [(X, y), (X, y[:3])], method=bg.Exact())
    batch = bg.fit_many(bg.NaiveBayes(), [(X, y), (X, y)], method=bg.Exact())
    with pytest.raises(bg.DataError, match=r"3 tables .* 2 fits"):
        bg.predict(batch, [X, X, X], rule=bg.BMA())


EMPTY_ROWS = {
    "discriminant": (bg.GaussianDiscriminant("tied"), np.random.default_rng(5).normal(size=(11, 2))),
    "words": (bg.NaiveBayes({"word": bg.DirichletMarkov()}), np.array(list("abcbacabcab"), object)[:, None]),
}


@pytest.mark.parametrize("name", EMPTY_ROWS)
def test_rows_of_which_no_cell_is_observed_are_in_compiled_fits_too(name):
    model, cells = EMPTY_ROWS[name]
    X, y = {"word": cells[:, 0]} if name == "words" else dict(zip("uv", cells.T, strict=True)), list("ababababaab")
    is_empty = np.arange(11) % 4 == 2
    X = {column: np.ma.array(values, mask=is_empty) for column, values in X.items()}
    fit = bg.fit(model, X, y, method=bg.Exact())
    batch = bg.fit_many(model, X, y, weights=[np.ones(11), np.arange(11)], method=bg.Exact())
    assert batch.attributes["path"] == "one compiled call"
    second = bg.fit(model, X, y, sample_weight=np.arange(11), method=bg.Exact(), schema=batch.schema)
    close(batch.log_evidence, [fit.log_evidence, second.log_evidence])
    close(bg.prequential(model, X, y).log_joint_scores.sum(), fit.log_evidence)


def test_predictives_of_sequences_that_lack_steps_are_those_of_each_fit():
    """They add up all completions, by NumPy: in new rows, and in rows that are left out."""
    words, y = np.array(["ab", "b", "aab", "ba", "a", "bb"], object), np.arange(6) % 2
    new = {"word": [["a", None, "b"], None, ["b"]]}
    model = bg.NaiveBayes({"word": bg.DirichletMarkov(end=True)})
    batch = bg.fit_many(model, {"word": words}, y, weights=np.ones((2, 6)), method=bg.Exact())
    assert batch.attributes["path"] == "one compiled call"
    for rule in (bg.PlugIn(), bg.BMA()):
        answer = bg.predict(batch, new, rule=rule).probabilities[1]
        np.testing.assert_allclose(answer, bg.predict(batch[1], new, rule=rule).probabilities, rtol=1e-9)
    words[2] = None
    fit = bg.fit(model, {"word": words}, y, method=bg.Exact())
    scores = bg.leave_one_out(fit, {"word": words}, y).log_scores
    others = bg.fit(model, {"word": words[1:]}, y[1:], method=bg.Exact(), schema=fit.schema)
    expected = bg.predict(others, {"word": words[:1]}, rule=bg.BMA()).log_probabilities[0, 0]
    np.testing.assert_allclose(scores[0], expected, rtol=1e-9)


def test_sets_of_which_all_rows_have_weight_0_are_refused_like_one_of_them():
    X, y = [[1.0], [2.0]], ["a", "b"]
    for data in ([(X, y, [0, 0])], [(X, y, [0, 0]), (X, y, [0, 0])]):
        with pytest.raises(bg.DataError, match="sample_weight is zero for all rows"):
            bg.fit_many(bg.NaiveBayes(), data, method=bg.Exact())


def test_a_second_batch_compiles_nothing():
    X, y = sets_of_three_sizes()[1]
    weights = np.random.default_rng(1).integers(1, 5, (2, 3, len(y)))
    bg.predict(bg.fit_many(bg.NaiveBayes(), X, y, weights=weights[0], method=bg.Exact()), X, rule=bg.BMA())
    with compilations() as compiled:
        bg.predict(bg.fit_many(bg.NaiveBayes(), X + 1, y, weights=weights[1], method=bg.Exact()), X - 1, rule=bg.BMA())
    assert not compiled


@pytest.mark.slow
def test_several_devices_share_the_sets_and_change_no_number():
    made = []
    for count in (1, 2):
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
        command = [sys.executable, "-c", SHARED]
        run = subprocess.run(command, env=os.environ | flags, capture_output=True, text=True, check=False)
        assert not run.returncode, run.stderr
        path, draws = run.stdout.splitlines()
        assert "7 of 7" in path
        made.append(np.array(json.loads(draws)))
    np.testing.assert_allclose(*made, rtol=1e-6)


SHARED = """
import numpy as np
import bayesgen as bg
rng = np.random.default_rng(0)
y = np.repeat([0, 1], 20)
X = rng.normal(size=(40, 2)) + y[:, None]
weights = rng.integers(1, 4, (7, 40))
batch = bg.fit_many(bg.GaussianDiscriminant("tied"), X, y, weights=weights, method=bg.NUTS(60, 60))
print(batch.attributes["path"])
print(batch.parameters["real_mean"].tolist())
"""


def test_frames_and_mappings_are_taken_by_name_in_any_order_of_columns():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), list("ab" * 10)
    model = bg.NaiveBayes(bg.NormalInverseGamma(0.0, 1.0, 2.0, 1.0))
    for form in (pd.DataFrame, dict):
        one, other = (form({name: X[:, "uv".index(name)] for name in names}) for names in ("uv", "vu"))
        evidences = bg.fit_many(model, [(one, y), (other, y)], method=bg.Exact()).log_evidence
        assert evidences[0] == evidences[1]
        third = form({name: X[:, 0] for name in "uw"})
        with pytest.raises(bg.DataError, match=r"the columns 'u', 'v', and a .* with 'u', 'w'"):
            bg.fit_many(model, [(one, y), (third, y)], method=bg.Exact())


def test_tables_for_each_fit_may_have_no_rows_and_values_that_were_not_seen():
    X, y = pd.DataFrame({"kind": list("abcab") * 4}), np.arange(20) % 2
    schema = bg.Schema(unknown="missing")
    batch = bg.fit_many(bg.NaiveBayes(), X, y, weights=np.ones((2, 20)), method=bg.Exact(), schema=schema)
    assert bg.predict(batch, [X[:0], X[:0]], rule=bg.BMA()).probabilities.shape == (2, 0, 2)
    unknown = pd.DataFrame({"kind": ["a", "z"]})
    for asked in (unknown, [unknown, unknown]):
        with pytest.warns(bg.UnknownValuesWarning, match=r"'kind' \(1\)"):
            bg.predict(batch, asked, rule=bg.BMA())
