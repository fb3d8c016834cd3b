"""The sentence on which answer is better: its numbers are those of paired differences, its words follow from them."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.describe import with_error
from bayesgen.evaluation.verdicts import NO_PAIR, WORDS, contrast, verdict

BOTH = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
AVERAGE, MEAN = "Exact + BMA", "Exact + PlugIn(mean)"


def scores(*values):
    return np.array(values, float)


def test_a_contrast_is_with_the_plug_in_that_is_least_behind():
    rng = np.random.default_rng(0)
    average = rng.normal(-1, 0.1, 200)
    near, far = average - rng.normal(0.2, 0.3, 200), average - rng.normal(0.9, 0.3, 200)
    between = contrast({"far": far, AVERAGE: average, "near": near}, {"far", "near"})
    assert (between.average, between.plug_in, between.same) == (AVERAGE, "near", ())
    gains = average - near
    assert between.difference == pytest.approx(gains.mean(), rel=1e-12)
    assert between.standard_error == pytest.approx(gains.std(ddof=1) / np.sqrt(200), rel=1e-12)
    assert between.sign == 1 and contrast({"far": average, "near": near, "a": far}, {"far", "near"}).sign == -1


@pytest.mark.parametrize(("shift", "sign"), [(2.1, 1), (1.9, 0), (0.0, 0), (-1.9, 0), (-2.1, -1)])
def test_more_than_noise_is_two_standard_errors(shift, sign):
    noise = np.resize([1.0, -1.0], 400)
    error = noise.std(ddof=1) / 20
    assert contrast({"p": noise, "a": noise * 0 + noise + noise + shift * error}, {"p"}).sign == sign


def test_units_without_a_score_and_infinite_scores():
    between = contrast({"p": scores(np.nan, -2, -3), "a": scores(0, -1, -1)}, {"p"})
    assert between.difference == 1.5 and between.standard_error == 0.5
    ruled_out = contrast({"p": scores(-np.inf, -1), "a": scores(-3, -1)}, {"p"})
    assert ruled_out.difference == np.inf and ruled_out.sign == 1
    both = contrast({"p": scores(-np.inf, -1), "a": scores(-np.inf, -2)}, {"p"})
    assert np.isnan(both.difference) and both.sign == 0
    assert contrast({"p": scores(-1)}, {"p"}) is None and contrast({"a": scores(-1)}, set()) is None
    assert contrast({"a": scores(-1), "p": scores(np.nan)}, {"p"}) is None


def test_a_plug_in_with_the_scores_of_the_average_is_passed_over_unless_it_is_the_only_one():
    average = scores(-1, -2, -1.5)
    between = contrast({"mean": average + 1e-12, "a": average, "map": average - scores(0.1, 0.2, 0.1)}, {"mean", "map"})
    assert between.same == ("mean",) and between.plug_in == "map"
    assert contrast({"mean": average + 1e-12, "a": average}, {"mean"}).plug_in == "mean"


X = pd.DataFrame({"a": list("xyxx") * 5, "b": list("uvvu") * 5})
Y = list("pqqp") * 5


def comparison(num_rows=20, pairs=BOTH, model=None, table=X):
    return bg.compare(model or bg.NaiveBayes(), table, Y, table[:num_rows], Y[:num_rows], methods=pairs)


def test_a_comparison_says_what_its_table_says():
    result = comparison()
    table = result.differences.set_index(["method", "rule", "other_method", "other_rule"])
    line = table.loc["MLE", "PlugIn", "Exact", "BMA"]
    by = with_error(-line.difference, line.standard_error)
    assert result.verdict == (
        f"Averaging ({AVERAGE}, the same here as {MEAN}) predicts worse than the best other plug-in (MLE + PlugIn) by "
        f"more than noise (two standard errors) on 20 test rows (mean log score {by} nats a row)."
    )
    assert result.verdict in " ".join(repr(result).split()) and result.verdicts == {"NaiveBayes": result.verdict}


def test_answers_that_agree_by_algebra_are_said_to():
    assert comparison(pairs=BOTH[1:]).verdict == (
        f"Averaging ({AVERAGE}) and the plug-in ({MEAN}) are one answer here: their log scores are the same."
    )


def test_one_row_rows_ruled_out_and_answers_of_one_kind():
    assert "predicts neither better nor worse than the best " in comparison(1).verdict
    assert comparison(pairs=BOTH[:2]).verdict == NO_PAIR == comparison(pairs=BOTH[2:]).verdict
    result = comparison(pairs=[BOTH[0], BOTH[2]])
    answers = [
        dataclasses.replace(a, prediction=_ruling_out_a_row(a) if a.two_step else a.prediction) for a in result.answers
    ]
    said = dataclasses.replace(result, answers=tuple(answers)).verdict
    assert "Averaging (Exact + BMA) predicts better" in said and "(mean log score +∞ nats a row)" in said
    both = [dataclasses.replace(a, prediction=_ruling_out_a_row(a)) for a in result.answers]
    assert "neither better nor worse" in dataclasses.replace(result, answers=tuple(both)).verdict


def _ruling_out_a_row(answer):
    """The prediction of an answer, with the true class of the first row ruled out."""
    logs = answer.prediction.log_probabilities.copy()
    logs[0] = [-np.inf, 0.0]
    return dataclasses.replace(answer.prediction, log_probabilities=logs)


def test_several_models_have_a_sentence_each():
    numbers = pd.DataFrame(np.random.default_rng(1).normal(size=(20, 2)), columns=["a", "b"])
    result = comparison(model={"one": bg.NaiveBayes(), "two": bg.GaussianDiscriminant()}, table=numbers)
    assert [line.split(": ")[0] for line in result.verdict.splitlines()] == ["one", "two"] == list(result.verdicts)
    assert "verdict on two: " in repr(result)


def test_a_study_says_at_which_sizes_an_answer_is_better():
    data = bg.load_dataset("iris")
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    result = bg.study(bg.NaiveBayes(), data.X, data.y, sizes=[5, 40], repeats=12, pairs=pairs)
    rows = result.summary[result.summary["rule"] == "BMA"].set_index("size")
    assert result.verdict.startswith("Averaging (Exact + BMA) predicts ")
    for size, line in rows.iterrows():
        sign = int(np.sign(line.difference)) * (abs(line.difference) > 2 * line.standard_error)
        by = re.escape(with_error(line.difference, line.standard_error))
        clause = next(part for part in result.verdict.split("; ") if re.search(rf"with {size}\b", part))
        assert WORDS[sign].split("{}")[0] in clause and re.search(rf"with {size}\b[^)]*{by}", clause)
    earlier = result.table[result.table["rule"] == "BMA"].assign(rule="Other")  # the first in the table is compared
    assert "(Exact + Other" in dataclasses.replace(result, table=pd.concat([earlier, result.table])).verdict


def test_sizes_of_one_verdict_stand_together():
    noise = np.resize([1.0, -1.0], 10)
    by_size = {
        5: {"MAP": noise, AVERAGE: noise * 1.1 + 2},
        10: {"MAP": noise, AVERAGE: noise * 1.1 + 1},
        20: {"MAP": noise, AVERAGE: noise * 1.1 - 1},
        50: {"MAP": noise, AVERAGE: noise * 1.1},
    }
    by_place = {f"with {size}": scores for size, scores in by_size.items()}
    assert verdict(by_place, {"MAP"}) == (
        "Averaging (Exact + BMA) predicts better than the best plug-in (MAP) by more than noise (two standard errors) "
        "with 5 (mean log score +2.0000 ±0.0333 nats a row) and with 10 (+1.0000 ±0.0333); worse by more than noise "
        "with 20 (−1.0000 ±0.0333); neither better nor worse beyond noise with 50 (+0.0000 ±0.0333)."
    )
    same = {size: {"MAP": noise, AVERAGE: noise} for size in by_place}
    assert "are one answer here" in verdict(same, {"MAP"})
    assert verdict({"with 5": {"MAP": noise}}, {"MAP"}) == NO_PAIR


def test_a_refused_average_leaves_the_place_to_the_next_one():
    refused, sampled, point = scores(np.nan, np.nan), scores(-0.5, -0.6), scores(-1, -1)
    between = contrast({"MAP + PlugIn": point, AVERAGE: refused, "NUTS + BMA": sampled}, {"MAP + PlugIn"})
    assert between.average == "NUTS + BMA" and between.difference == pytest.approx(0.45)


def test_differences_that_are_no_numbers_or_have_no_error_are_said_in_words():
    one_way, other_way = scores(-np.inf, -1), scores(-1, -np.inf)
    assert verdict({"here": {"p": one_way, "a": other_way}}, {"p"}).endswith("here (both rule out a truth).")
    one_row = verdict({"on 1 test row": {"p": scores(-1), "a": scores(-2)}}, {"p"})
    assert one_row.endswith("(mean log score −1.0000 nats a row, of unknown error).")


def test_answers_that_are_the_same_at_one_size_alone_are_not_said_to_be_the_same():
    same, other = {"p": scores(-1, -1), "a": scores(-1, -1)}, {"p": scores(-1, -1), "a": scores(-0.5, -0.4)}
    text = verdict({"with 5": same, "with 9": other}, {"p"})
    assert "Averaging (a) predicts neither" in text and "with 5 (the same); better" in text
