"""The number game: every printed value of the reference, and both spaces against plain loops."""

import numpy as np
import pytest
from oracles import concepts as by_loops

import bayesgen as bg

close = np.testing.assert_allclose
POSTERIORS = {
    (16,): (9836, {"powers of 4": 3500, "powers of 2": 1750, "even": 1050, "squares": 1050, "ends in 6": 1050,
                   "multiples of 8": 875, "multiples of 4": 420, "all": 105, "powers of 2 except 32": 21,
                   "powers of 2 plus 37": 15}),
    (60,): (5185, {"even": 1320, "multiples of 10": 1320, "multiples of 6": 825, "multiples of 5": 660,
                   "multiples of 4": 528, "multiples of 3": 400, "all": 132}),
}  # fmt: skip
QUERIES = [2, 4, 8, 10, 32, 64]
CLASSIC = [[16], [60], [16, 8, 2, 64], [16, 23, 19, 20]]


@pytest.fixture(scope="module")
def murphy():
    return bg.ConceptLearner(bg.number_game("murphy"))


# --- space A ---------------------------------------------------------------------------------------------------


def test_the_hypotheses_of_the_reference(murphy):
    space = murphy.space
    names = ["even", "odd", "squares", *(f"multiples of {k}" for k in range(3, 11))]
    names += [*(f"ends in {k}" for k in range(1, 10)), *(f"powers of {k}" for k in range(2, 11)), "all"]
    assert space.names == (*names, "powers of 2 plus 37", "powers of 2 except 32")
    close(space.prior, np.array([0.5] * 2 + [0.1] * 28 + [0.001] * 2) / 3.802)
    assert not np.asarray(space.extensions)[space.names.index("powers of 2"), 0]
    assert dict(zip(space.names, space.sizes, strict=True))["powers of 2 plus 37"] == 7


@pytest.mark.parametrize("examples", POSTERIORS)
def test_posteriors_of_the_reference(murphy, examples):
    total, expected = POSTERIORS[examples]
    fit = bg.fit(murphy, examples, method=bg.Exact())
    weights = dict(zip(murphy.space.names, fit.weights * total, strict=True))
    close([weights[name] for name in expected], list(expected.values()), rtol=1e-12)
    close(sum(weights[name] for name in set(weights) - set(expected)), 0.0, atol=0.0)
    assert sum(expected.values()) == total


def test_one_step_and_two_step_membership_of_the_reference(murphy):
    fit = bg.fit(murphy, [16], method=bg.Exact())
    one_step = bg.predict(fit, QUERIES, rule=bg.BMA()).membership
    close(one_step, [0.29900366, 0.80429036, 0.43066287, 0.11742578, 0.42852786, 0.89324929], rtol=0, atol=5e-9)
    for each in (fit, bg.fit(murphy, [16], method=bg.MAP())):
        assert each.ties == ("powers of 4",)
        assert bg.predict(each, QUERIES, rule=bg.PlugIn()).membership.tolist() == [0, 1, 0, 0, 0, 1]


def test_a_tie_at_the_map_is_reported_and_how_it_was_broken(murphy):
    fit = bg.fit(murphy, [60], method=bg.MAP())
    assert fit.ties == ("even", "multiples of 10")
    assert fit.weights.tolist() == [1.0] + [0.0] * 31 and fit.hypotheses.hypothesis[0] == "even"
    with pytest.warns(bg.BayesgenWarning, match="tie.*'even', 'multiples of 10'.*first.*'even'"):
        answer = bg.predict(fit, [2, 3], rule=bg.PlugIn())
    assert answer.membership.tolist() == [1, 0]


def test_maximum_likelihood_takes_the_smallest_consistent_hypothesis(murphy):
    assert bg.fit(murphy, [16], method=bg.MLE()).ties == ("powers of 4",)
    assert bg.fit(murphy, [60], method=bg.MLE()).ties == ("multiples of 10",)


# --- space B ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule_weight, scale", [(2 / 3, 10.0), (0.4, 7.5)])
def test_the_space_of_rules_and_intervals(rule_weight, scale):
    space = bg.number_game("tenenbaum", rule_weight=rule_weight, scale=scale)
    expected = {name: (members, prior) for name, members, prior in by_loops.tenenbaum(rule_weight, scale)}
    assert len(space.names) == 34 + 5050 and set(space.names) == set(expected)
    close(space.prior, [expected[name][1] for name in space.names], rtol=1e-10)
    for name, row in zip(space.names, np.asarray(space.extensions), strict=True):
        assert set(np.flatnonzero(row) + 1) == expected[name][0]
    assert ("multiples of 10", "ends in 0") in space.duplicates


@pytest.mark.parametrize("sampling", ["strong", "weak"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("examples", CLASSIC, ids=str)
def test_rules_and_intervals_against_plain_loops(examples, noise, sampling):
    learner = bg.ConceptLearner(bg.number_game("tenenbaum"), sampling, noise)
    fit = bg.fit(learner, examples, method=bg.Exact())
    answer = bg.predict(fit, range(1, 101), rule=bg.BMA())
    space = by_loops.tenenbaum(2 / 3, 10.0)
    evidence, posterior, membership, next_example = by_loops.answers(space, examples, (), noise, sampling == "weak")
    close(np.exp(fit.log_evidence), evidence, rtol=1e-10)
    close(fit.weights, [posterior[name] for name in learner.space.names], rtol=1e-9, atol=1e-300)
    close(answer.membership, membership, rtol=1e-10)
    close(answer.next_example, next_example, rtol=1e-10)
    close(answer.next_example.sum(), 1.0, rtol=1e-12)
    best = max(posterior.values())
    assert set(fit.ties) == {name for name, value in posterior.items() if value > best * (1 - 1e-9)}


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_negative_examples_against_plain_loops(noise):
    learner = bg.ConceptLearner(bg.number_game("tenenbaum"), noise=noise)
    fit = bg.fit(learner, [16, 7, 8, 16, 30], [True, False, True, True, False], method=bg.Exact())
    evidence, posterior, membership, _ = by_loops.answers(by_loops.tenenbaum(2 / 3, 10.0), [16, 8, 16], [7, 30], noise)
    close(np.exp(fit.log_evidence), evidence, rtol=1e-10)
    close(fit.weights, [posterior[name] for name in learner.space.names], rtol=1e-9, atol=1e-300)
    close(bg.predict(fit, range(1, 101), rule=bg.BMA()).membership, membership, rtol=1e-10)


def test_the_next_example_sums_to_one_in_every_answer(murphy):
    for learner in (murphy, bg.ConceptLearner(bg.number_game("tenenbaum"), noise=0.1)):
        fit = bg.fit(learner, [16], method=bg.Exact())
        for rule in (bg.BMA(), bg.PlugIn()):
            close(bg.predict(fit, range(1, 101), rule=rule).next_example.sum(), 1.0, rtol=1e-12)
