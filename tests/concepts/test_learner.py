"""Concept learners: examples of all kinds, several sets, updating, and what is refused."""

import numpy as np
import pytest

import bayesgen as bg
from bayesgen.data import Rows

close = np.testing.assert_allclose


@pytest.fixture(scope="module")
def murphy():
    return bg.ConceptLearner(bg.number_game("murphy"))


@pytest.fixture(scope="module")
def small():
    predicates = {"low": lambda x: x < 3, "even": lambda x: x % 2 == 0, "all": lambda x: True}
    return bg.HypothesisSpace.of(predicates, range(1, 8), [1, 3, 1])


@pytest.mark.parametrize("sampling, noise", [("weak", 0.0), ("weak", 0.3), ("strong", 0.0), ("strong", 0.2)])
def test_sampling_and_noise_by_hand(small, sampling, noise):
    fit = bg.fit(bg.ConceptLearner(small, sampling, noise), [2, 2, 5], [True, True, False], method=bg.Exact())
    positive, negative = ((7, 7, 7), (7, 7, 7)) if sampling == "weak" else ((2, 3, 7), (5, 4, np.inf))
    joint = np.array(
        [
            prior * ((1 - noise) / n + noise / 7) ** 2 * ((1 - noise) / m * outside + noise / 7)
            for prior, n, m, outside in zip((0.2, 0.6, 0.2), positive, negative, (1, 1, 0), strict=True)
        ]
    )
    close(fit.weights, joint / joint.sum())
    close(np.exp(fit.log_evidence), joint.sum())


def test_negative_examples_rule_out_what_holds_them(murphy):
    fit = bg.fit(murphy, [16, 4], [True, False], method=bg.Exact())
    held = [name for name, weight in zip(murphy.space.names, fit.weights, strict=True) if weight > 0]
    assert set(held) == {"ends in 6", "multiples of 8"}
    assert bg.fit(murphy, [3], [False], method=bg.Exact()).weights[murphy.space.names.index("all")] == 0


def test_no_examples_leave_the_prior(murphy):
    fit = bg.fit(murphy, [], method=bg.Exact())
    close(fit.weights, murphy.space.prior)
    close(fit.log_evidence, 0.0, atol=1e-12)


def test_updating_equals_fitting_at_once(murphy):
    once = bg.fit(murphy, [16, 8, 2, 64, 7], [True, True, True, True, False], method=bg.Exact())
    twice = bg.fit(murphy, [16, 8], method=bg.Exact()).update([2, 64, 7], [True, True, False])
    close(twice.weights, once.weights)
    close(twice.log_evidence, once.log_evidence)
    assert bg.fit(murphy, [16], method=bg.MAP()).update([8, 2]).ties == ("powers of 2",)


def test_the_table_of_hypotheses(murphy):
    table = bg.fit(murphy, [16], method=bg.Exact()).hypotheses
    assert table.columns.tolist() == ["hypothesis", "size", "prior", "weight"]
    assert table.loc[0].tolist() == ["powers of 4", 3, pytest.approx(0.1 / 3.802), pytest.approx(3500 / 9836)]
    assert len(table) == 32 and table.weight.is_monotonic_decreasing


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("rule", [bg.BMA(), bg.PlugIn()], ids=lambda rule: type(rule).__name__)
def test_the_next_example_is_a_sum_over_hypotheses_as_a_row_is_one_over_classes(noise, rule):
    learner = bg.ConceptLearner(bg.number_game("murphy"), noise=noise)
    fit = bg.fit(learner, [16, 60], method=bg.Exact())
    at = "predictive" if isinstance(rule, bg.BMA) else rule.at
    table = fit.posterior.log_joint(Rows({"query": np.arange(100)}), at)
    assert table.shape == (100, 32)
    answer = bg.predict(fit, learner.space.domain, rule=rule)
    close(np.exp(table).sum(1), answer.next_example, rtol=1e-12)
    close(np.exp(table).sum(), 1.0)


# --- several sets ----------------------------------------------------------------------------------------------


def test_a_list_of_sets_is_a_sequence_of_fits(murphy):
    sets = [[16], (60,), np.array([16, 8, 2, 64])]
    fit = bg.fit(murphy, sets, method=bg.Exact())
    alone = [bg.fit(murphy, each, method=bg.Exact()) for each in sets]
    assert len(fit) == 3
    for one, other in zip(fit, alone, strict=True):
        close(one.weights, other.weights)
        close(one.log_evidence, other.log_evidence)
    close(fit.log_evidence, sum(other.log_evidence for other in alone))
    answer = bg.predict(fit, [2, 10], rule=bg.BMA())
    assert answer.membership.shape == answer.next_example.shape == (3, 2)
    close(answer.membership, [bg.predict(each, [2, 10], rule=bg.BMA()).membership for each in alone])
    assert fit[-1].hypotheses.hypothesis[0] == "powers of 2"
    with pytest.raises(bg.FitError, match=r"3 sets.*Take one"):
        _ = fit.hypotheses


def test_several_sets_with_negatives_are_updated_set_by_set(murphy):
    fit = bg.fit(murphy, [[16, 4], [60]], [[True, False], None], method=bg.Exact())
    later = fit.update([[], [10], [3, 9]])
    expected = [([16, 4], [True, False]), ([60, 10], None), ([3, 9], None)]
    for one, (examples, labels) in zip(later, expected, strict=True):
        close(one.weights, bg.fit(murphy, examples, labels, method=bg.Exact()).weights)
    with pytest.raises(bg.DataError, match="by a list of sets"):
        fit.update([16])


def test_members_of_the_domain_that_are_tuples_are_no_sets():
    learner = bg.ConceptLearner(bg.rectangles(3, 3))
    assert len(bg.fit(learner, [(1, 1), (2, 2)], method=bg.Exact())) == 1
    assert len(bg.fit(learner, [[(1, 1)], [(2, 2), (3, 3)]], method=bg.Exact())) == 2
    with pytest.raises(bg.DataError, match=r"\[\(4, 1\)\] are not in the domain"):
        bg.fit(learner, [(1, 1), (4, 1)], method=bg.Exact())


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "examples, labels, message",
    [
        ([16, 101], None, r"examples \[101\] are not in the domain"),
        ([16, "x"], None, r"\['x'\] are not in the domain"),
        ("16", None, "1-D sequence of members"),
        (16, None, "1-D sequence of members"),
        ([16, [8]], None, r"\[\[8\]\] are not in the domain"),
        ([[16], [8, 0]], None, r"Set 1: The examples \[0\]"),
        ([16, 8], [True], "2 times True or False"),
        ([16, 8], [1, 0], r"True or False, not \[1, 0\]"),
        ([[16], [8]], [[True]], "2 sets of examples, and y has 1"),
        ([[16], [8]], [[True], [True, True]], "Set 1: y says"),
    ],
)
def test_bad_examples(murphy, examples, labels, message):
    with pytest.raises(bg.DataError, match=message):
        bg.fit(murphy, examples, labels, method=bg.Exact())


@pytest.mark.parametrize("method", [bg.MLE(), bg.MAP(), bg.Exact()])
def test_contradictory_examples_are_named(method):
    learner = bg.ConceptLearner(bg.HypothesisSpace.of({"one": lambda x: x == 1, "two": lambda x: x == 2}, [1, 2, 3]))
    with pytest.raises(bg.FitError, match=r"No hypothesis holds all of the examples \[1, 2\]. Add one.*noise"):
        bg.fit(learner, [1, 2], method=method)
    with pytest.raises(bg.FitError, match=r"examples \[1\] and none of \[1, 3\]"):
        bg.fit(learner, [1, 1, 3], [True, False, False], method=method)
    with pytest.raises(bg.FitError, match=r"Set 1: no hypothesis holds all of the examples \[3\]"):
        bg.fit(learner, [[1], [3]], method=method)


def test_other_refusals(murphy, small):
    with pytest.raises(bg.FitError, match=r"nothing continuous.*Use Exact\(\)"):
        bg.fit(murphy, [16], method=bg.NUTS())
    with pytest.raises(bg.DataError, match="no schema"):
        bg.fit(murphy, [16], method=bg.Exact(), sample_weight=[2.0])
    with pytest.raises(bg.PredictionError, match="point estimate"):
        bg.predict(bg.fit(murphy, [16], method=bg.MAP()), [2], rule=bg.BMA())
    with pytest.raises(bg.PredictionError, match="not by ConditionalAverage"):
        bg.predict(bg.fit(murphy, [16], method=bg.Exact()), [2], rule=bg.ConditionalAverage())
    with pytest.raises(bg.DataError, match=r"queries \[0\] are not in the domain"):
        bg.predict(bg.fit(murphy, [16], method=bg.Exact()), [0], rule=bg.BMA())
    with pytest.raises(bg.ModelError, match="sampling must be"):
        bg.ConceptLearner(small, "medium")
    with pytest.raises(bg.ModelError, match="noise must be between 0 and 1"):
        bg.ConceptLearner(small, noise=1.5)
    with pytest.raises(bg.FitError, match="nothing to export"):
        bg.fit(murphy, [16], method=bg.Exact()).to_datatree()
