"""`compare`: which answers are asked for and how they are set side by side."""

import copy
import json
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.evaluation import comparison
from bayesgen.evaluation.answers import paired_difference
from bayesgen.evaluation.comparison import compare

CLASSES = np.array(["no", "yes"])
TRUTH = np.array(["yes", "no", "yes", "no", "yes", "yes"])
X_TRAIN, Y_TRAIN = np.zeros((2, 1)), ["no", "yes"]
X_TEST = np.zeros((6, 1))
INDEX = (TRUTH == "yes").astype(int)

# What each (method, rule) says of "yes" in the six test rows: NaN is an impossible row.
SAID = {
    ("MLE", "PlugIn"): [0.9, 0.2, np.nan, 0.4, 0.0, 0.7],
    ("MAP", "PlugIn"): [0.8, 0.3, 0.6, 0.4, 0.3, 0.7],
    ("Exact", "PlugIn"): [0.7, 0.3, 0.6, 0.6, 0.3, 0.7],
    ("Exact", "BMA"): [0.7, 0.4, 0.6, 0.6, 0.6, 0.4],
}


@dataclass(frozen=True)
class Refusing:
    """A stand-in for a model that refuses MAP."""

    name: str = "refusing"


@dataclass(frozen=True)
class Willing:
    """A stand-in for a model."""


@pytest.fixture
def core(monkeypatch):
    """Stand-ins for the verbs that compare uses; gives the calls of `fit`."""
    calls = []

    def prepare(model, X, y, *, schema):
        return (model, X, y, schema)

    def fit(model, data, *, method, seed, progress):
        calls.append((model, data, method, seed, progress))
        if isinstance(model, Refusing) and isinstance(method, bg.MAP):
            raise bg.FitError("no mode")
        return SimpleNamespace(method=type(method).__name__)

    def predict(fitted, X, *, rule):
        if (fitted.method, type(rule).__name__) not in SAID:
            raise bg.PredictionError("a point fit has no posterior")
        yes = np.array(SAID[fitted.method, type(rule).__name__])
        with np.errstate(divide="ignore"):
            return SimpleNamespace(log_probabilities=np.log(np.stack([1 - yes, yes], axis=1)), classes=CLASSES)

    for verb in (prepare, fit, predict):
        monkeypatch.setattr(comparison, verb.__name__, verb)
    return calls


METHODS = [
    (bg.MLE(), bg.PlugIn()),
    (bg.MAP(), bg.PlugIn()),
    (bg.Exact(), bg.PlugIn(at="mean")),
    (bg.Exact(), bg.BMA()),
    (bg.MAP(), bg.BMA()),
]


@pytest.fixture
def compared(core):
    models = {"first": Willing(), "second": Refusing()}
    return compare(models, X_TRAIN, Y_TRAIN, X_TEST, TRUTH, methods=METHODS, seed=5)


def log_scores(method, rule):
    yes = np.array(SAID[method, rule])
    with np.errstate(divide="ignore"):
        return np.nan_to_num(np.log(np.where(INDEX == 1, yes, 1 - yes)), nan=-np.inf)


def test_each_method_is_fitted_once_for_each_model(core, compared):
    assert [(type(model), type(method)) for model, _, method, _, _ in core] == [
        (model, method) for model in (Willing, Refusing) for method in (bg.MLE, bg.MAP, bg.Exact)
    ]
    assert {seed for _, _, _, seed, _ in core} == {5}


def test_the_default_methods_are_the_five_of_the_contract(core):
    SAID["NUTS", "BMA"] = SAID["Exact", "BMA"]
    table = compare(Willing(), X_TRAIN, Y_TRAIN, X_TEST, TRUTH).table
    del SAID["NUTS", "BMA"]
    assert set(table.model) == {"Willing"}
    assert list(zip(table.method, table.rule, strict=True)) == [
        ("MLE", "PlugIn"),
        ("MAP", "PlugIn"),
        ("Exact", "PlugIn(mean)"),
        ("Exact", "BMA"),
        ("NUTS", "BMA"),
    ]


def test_the_table_scores_every_answer(compared):
    table = compared.table.set_index(["model", "method", "rule"])
    assert len(table) == 10
    row = table.loc[("first", "Exact", "BMA")]
    answer = np.array(SAID["Exact", "BMA"])
    assert row.accuracy == np.mean((answer > 0.5) == INDEX)
    assert row.log_score == pytest.approx(log_scores("Exact", "BMA").mean())
    assert row.brier == pytest.approx(np.mean(2 * (answer - INDEX) ** 2))
    assert (row.impossible, row.ruled_out) == (0, 0)
    row = table.loc[("first", "MLE", "PlugIn")]
    assert row.log_score == -np.inf
    assert (row.impossible, row.ruled_out) == (1, 1)
    assert row.accuracy == 4 / 6


def test_differences_are_from_the_map_and_the_mean_answer_of_the_same_model(compared):
    table = compared.table.set_index(["model", "method", "rule"])
    expected = paired_difference(log_scores("Exact", "BMA"), log_scores("MAP", "PlugIn"))
    row = table.loc[("first", "Exact", "BMA")]
    assert (row.difference, row.standard_error) == pytest.approx(expected)
    expected = paired_difference(log_scores("Exact", "BMA"), log_scores("Exact", "PlugIn"))
    for model in ("first", "second"):
        row = table.loc[(model, "Exact", "BMA")]
        assert (row.difference_from_mean, row.standard_error_from_mean) == pytest.approx(expected)
    assert table.loc[("first", "MAP", "PlugIn")].difference == 0
    assert table.loc[("first", "MLE", "PlugIn")].difference == -np.inf
    assert np.isnan(table.loc[("second", "Exact", "BMA")].difference)  # its MAP was refused


def test_a_refused_pair_is_a_row_with_its_message(compared):
    table = compared.table.set_index(["model", "method", "rule"])
    assert table.loc[("second", "MAP", "PlugIn")].refused == "no mode"
    assert table.loc[("first", "MAP", "BMA")].refused == "a point fit has no posterior"
    assert np.isnan(table.loc[("second", "MAP", "PlugIn")].accuracy)
    assert table.loc[("first", "MAP", "PlugIn")].refused is None


def test_where_every_pair_is_refused_the_refusal_is_raised(core):
    with pytest.raises(bg.FitError, match="no mode"):
        compare(Refusing(), X_TRAIN, Y_TRAIN, X_TEST, TRUTH, methods=[(bg.MAP(), bg.PlugIn())])


def test_differences_hold_every_two_answers_once(compared):
    table = compared.differences
    assert len(table) == 7 * 6 / 2  # three of the ten were refused
    chosen = table[
        (table.model == "first") & (table.method == "MAP")
        & (table.other_model == "first") & (table.other_rule == "BMA")
    ]  # fmt: skip
    expected = paired_difference(log_scores("MAP", "PlugIn"), log_scores("Exact", "BMA"))
    assert chosen[["difference", "standard_error"]].to_numpy()[0] == pytest.approx(expected)


def test_disagreements_are_the_rows_with_two_classes_named(compared):
    table = compared.disagreements
    mine = table[(table.model == "first") & (table.other_model == "first")]
    found = {(row.row, f"{row.method} {row.rule}", f"{row.other_method} {row.other_rule}") for row in mine.itertuples()}
    names = {"MLE": "MLE PlugIn", "MAP": "MAP PlugIn", "mean": "Exact PlugIn(mean)", "BMA": "Exact BMA"}
    expected = {(3, "MLE", "mean"), (3, "MLE", "BMA"), (3, "MAP", "mean"), (3, "MAP", "BMA")}
    expected |= {(4, "MLE", "BMA"), (4, "MAP", "BMA"), (4, "mean", "BMA")}
    expected |= {(5, "MLE", "BMA"), (5, "MAP", "BMA"), (5, "mean", "BMA")}
    assert found == {(row, names[one], names[other]) for row, one, other in expected}
    chosen = mine[(mine.row == 3) & (mine.method == "MAP") & (mine.other_rule == "BMA")].iloc[0]
    assert (chosen.truth, chosen.label, chosen.other_label) == ("no", "no", "yes")
    assert chosen[["p[no]", "p[yes]", "other_p[no]", "other_p[yes]"]].tolist() == pytest.approx([0.6, 0.4, 0.4, 0.6])


def test_predictions_hold_every_probability(compared):
    table = compared.predictions
    assert len(table) == 7 * 6
    chosen = table[(table.model == "second") & (table.method == "MLE")]
    np.testing.assert_allclose(chosen["p[yes]"], SAID["MLE", "PlugIn"])
    assert chosen.label.tolist()[2] is None or pd.isna(chosen.label.tolist()[2])
    assert chosen.truth.tolist() == TRUTH.tolist()


def test_json_is_strict_and_complete(compared):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    result = json.loads(compared.to_json(), parse_constant=refuse)
    assert set(result) == {"config", "versions", "pairs", "disagreements", "costs"}
    assert result["config"]["classes"] == ["no", "yes"]
    assert result["config"]["seed"] == 5
    assert result["config"]["models"]["second"] == "Refusing(name='refusing')"
    assert result["config"]["train_rows"] == 2
    assert {"bayesgen", "numpyro", "jax", "numpy", "python"} <= set(result["versions"])
    pair = result["pairs"][0]
    assert (pair["model"], pair["method"], pair["rule"]) == ("first", "MLE", "PlugIn")
    assert (pair["log_score"], pair["impossible"], pair["refused"]) == (None, 1, None)
    assert {"accuracy", "brier", "ece", "difference", "standard_error"} < set(pair)
    assert result["pairs"][6]["refused"] == "no mode"
    assert result["pairs"][6]["impossible"] is None
    assert len(result["disagreements"]) == len(compared.disagreements)
    first = result["disagreements"][0]
    assert len(first["probabilities"]) == len(first["other_probabilities"]) == 2
    assert first["probabilities"][CLASSES.tolist().index(first["label"])] >= 0.5


def test_rows_are_called_as_in_the_frame_they_came_from(core):
    labels = pd.Series(TRUTH, index=[10, 20, 30, 40, 50, 60])
    result = compare(Willing(), X_TRAIN, Y_TRAIN, X_TEST, labels, methods=METHODS)
    assert set(result.disagreements.row) == {40, 50, 60}
    frame = pd.DataFrame(X_TEST, index=labels.index)
    assert compare(Willing(), X_TRAIN, Y_TRAIN, frame, TRUTH, methods=METHODS).rows.tolist() == [
        10, 20, 30, 40, 50, 60,
    ]  # fmt: skip


def test_two_methods_of_one_type_are_told_apart(core):
    methods = [(bg.Exact(), bg.PlugIn(at="mean")), (bg.Exact(), bg.PlugIn(at="mode"))]
    table = compare(Willing(), X_TRAIN, Y_TRAIN, X_TEST, TRUTH, methods=methods).table
    assert table.rule.tolist() == ["PlugIn(mean)", "PlugIn(mode)"]


def test_test_labels_must_fit_the_rows_and_the_classes(core):
    with pytest.raises(bg.DataError, match="6 rows and y_test 5 labels"):
        compare(Willing(), X_TRAIN, Y_TRAIN, X_TEST, TRUTH[:5], methods=METHODS)
    with pytest.raises(bg.DataError, match="maybe"):
        compare(Willing(), X_TRAIN, Y_TRAIN, X_TEST, [*TRUTH[:5], "maybe"], methods=METHODS)
    with pytest.raises(bg.DataError, match="There is no pair"):
        compare(Willing(), X_TRAIN, Y_TRAIN, X_TEST, TRUTH, methods=[])
    with pytest.raises(bg.DataError, match=r"The pair \(MLE.* is given 2 times"):
        compare(bg.NaiveBayes(), X_TRAIN, Y_TRAIN, X_TEST, TRUTH, methods=[(bg.MLE(), bg.PlugIn())] * 2)


def test_pairs_are_another_name_of_methods_and_what_is_no_pair_is_refused_with_a_right_line():
    X, y = np.random.default_rng(0).normal(size=(11, 2)), np.array(list("ab") * 5 + ["a"])
    data, both = (X, y, X, y), [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    assert bg.compare(bg.NaiveBayes(), *data, pairs=both) == bg.compare(bg.NaiveBayes(), *data, methods=both)
    with pytest.raises(bg.DataError, match="two names of one argument"):
        bg.compare(bg.NaiveBayes(), *data, pairs=both, methods=both)
    right = r"is no pair of a method and a rule\. Write pairs=\[\(MAP\(\), PlugIn\(\)\), \(Exact\(\), BMA\(\)\)\]"
    for wrong in ([bg.MAP(), bg.Exact()], ["map"], both[0], [both[0][::-1]], bg.MAP(), "exact", [("exact", "bma")]):
        for call in (
            lambda: bg.compare(bg.NaiveBayes(), *data, methods=wrong),  # noqa: B023
            lambda: bg.study(bg.NaiveBayes(), X, y, sizes=[1], pairs=wrong),  # noqa: B023
            lambda: bg.prequential(bg.NaiveBayes(), X, y, pairs=wrong),  # noqa: B023
        ):
            with pytest.raises(bg.DataError, match=right):
                call()


def test_real_models_are_compared():
    dataset = bg.load_dataset("iris")
    split = dataset.split(seed=1)
    models = {"naive Bayes": bg.NaiveBayes(), "gda": bg.GaussianDiscriminant()}
    result = compare(
        models,
        split.X_train,
        split.y_train,
        split.X_test,
        split.y_test,
        methods=METHODS,
        schema=dataset.declared,
    )
    table = result.table
    asked = table[table.refused.isna()]
    assert len(asked) == 8
    assert (asked.accuracy > 0.85).all()
    assert set(table[table.refused.notna()].rule) == {"BMA"}
    fitted = bg.fit(bg.GaussianDiscriminant(), split.X_train, split.y_train, method=bg.Exact())
    answer = bg.predict(fitted, split.X_test, rule=bg.BMA())
    mine = next(a for a in result.answers if (a.model, a.method, a.rule) == ("gda", "Exact", "BMA"))
    np.testing.assert_allclose(mine.prediction.log_probabilities, answer.log_probabilities, rtol=1e-9)
    assert result.classes.tolist() == answer.classes.tolist()


def test_models_in_a_list_have_the_names_of_their_types():
    models = [bg.NaiveBayes(), bg.GaussianDiscriminant("diag"), bg.NaiveBayes()]
    data = [[1.0], [2.0], [7.0], [9.0]], list("aabb"), [[1.5]], ["a"]
    result = compare(models, *data, methods=[(bg.Exact(), bg.BMA())])
    assert result.table.model.tolist() == ["NaiveBayes 1", "GaussianDiscriminant", "NaiveBayes 2"]
    models = [bg.NaiveBayes(), bg.GaussianDiscriminant("diag"), bg.NaiveBayes(structure="average")]
    result = compare(models, *data, methods=[(bg.Exact(), bg.BMA())])
    assert result.table.model.tolist() == ["NaiveBayes()", "GaussianDiscriminant", "NaiveBayes(structure='average')"]


def test_a_score_of_minus_infinity_is_explained_beside_it():
    colours = (
        pd.DataFrame({"colour": list("rrrbbb")}),
        list("aaabbb"),
        pd.DataFrame({"colour": list("rbb")}),
        list("aba"),
    )
    text = repr(bg.compare(bg.NaiveBayes(), *colours, pairs=[(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]))
    assert "-inf" in text and "so that the log score is −∞ (under a flat prior" in " ".join(text.split())
    assert "1 by NaiveBayes, MAP + PlugIn" in " ".join(text.split())


@pytest.mark.parametrize("rules, are_shown", [([bg.PlugIn(), bg.BMA()], True), ([bg.BMA()], False)])
def test_without_map_differences_are_shown_from_the_mean_or_not_at_all(rules, are_shown):
    data = [[1.0], [2.0], [7.0], [9.0]], list("aabb"), [[1.5], [8.0]], ["a", "b"]
    text = repr(bg.compare(bg.NaiveBayes(), *data, pairs=[(bg.Exact(), rule) for rule in rules]))
    assert ("difference_from_mean" in text) is are_shown and ("difference" in text) is are_shown
    assert "NaN" not in text


def test_data_that_every_method_refuses_raise():
    with pytest.raises(bg.DataError, match="x0"):
        compare(bg.NaiveBayes(), [[1.0], [np.inf], [2.0]], ["a", "b", "a"], [[1.0]], ["a"], methods=METHODS)


def test_a_concept_learner_is_refused_by_name():
    learner = bg.ConceptLearner(bg.number_game("murphy"))
    with pytest.raises(bg.ModelError, match=r"\['ConceptLearner'\] are concept learners"):
        compare(learner, [16, 8], [True, True], [4], [True])


def test_labels_keep_their_type_where_some_rows_are_impossible_and_where_nobody_disagrees():
    X, y = np.asarray([[0, 0], [0, 0], [1, 0], [1, 0]], bool), np.asarray([3, 3, 7, 7])
    asked = np.asarray([[0, 1], [0, 0], [1, 0]], bool)
    methods = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    with pytest.warns(bg.ImpossibleRowsWarning):
        result = compare(bg.NaiveBayes(), X, y, asked, np.asarray([3, 3, 7]), methods=methods)
    predictions = result.predictions
    assert predictions.truth.dtype.kind == "i"
    assert predictions.label.tolist() == [None, 3, 7, 3, 3, 7]
    assert not any(isinstance(label, float) for label in predictions.label)
    assert len(result.disagreements) == 0
    assert [result.disagreements[name].dtype.kind for name in ("truth", "label", "other_label")] == ["i"] * 3


def test_copies_hold_no_tables_that_were_changed_by_hand(compared):
    score = compared.table["log_score"].tolist()
    compared.table["log_score"] = 0.0
    np.testing.assert_array_equal(copy.deepcopy(compared).table["log_score"], score)  # by the state that is pickled
