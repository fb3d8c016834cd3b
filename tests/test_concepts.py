"""The number game: every printed value of the reference, and what is refused."""

import numpy as np
import pytest

import bayesgen as bg

close = np.testing.assert_allclose
MURPHY = {
    (16,): (9836, {"powers of 4": 3500, "powers of 2": 1750, "even": 1050, "squares": 1050, "ends in 6": 1050,
                   "multiples of 8": 875, "multiples of 4": 420, "all": 105, "powers of 2 except 32": 21,
                   "powers of 2 plus 37": 15}),
    (60,): (5185, {"even": 1320, "multiples of 10": 1320, "multiples of 6": 825, "multiples of 5": 660,
                   "multiples of 4": 528, "multiples of 3": 400, "all": 132}),
}  # fmt: skip
QUERIES = [2, 4, 8, 10, 32, 64]


@pytest.fixture(scope="module")
def murphy():
    return bg.ConceptLearner(bg.number_game("murphy"))


@pytest.mark.parametrize("examples", MURPHY)
def test_posteriors_of_the_reference(murphy, examples):
    total, expected = MURPHY[examples]
    fit = bg.fit(murphy, examples, method=bg.Exact())
    weights = dict(zip(murphy.space.names, fit.weights * total, strict=True))
    close([weights[name] for name in expected], list(expected.values()), rtol=1e-10)
    close(sum(expected.values()), total)


def test_one_step_and_two_step_membership_of_the_reference(murphy):
    fit = bg.fit(murphy, [16], method=bg.Exact())
    one_step = bg.predict(fit, QUERIES, rule=bg.BMA()).membership
    close(one_step, [0.29900366, 0.80429036, 0.43066287, 0.11742578, 0.42852786, 0.89324929], atol=5e-9)
    for each in (fit, bg.fit(murphy, [16], method=bg.MAP())):
        assert bg.predict(each, QUERIES, rule=bg.PlugIn()).membership.tolist() == [0, 1, 0, 0, 0, 1]


def test_a_tie_at_the_map_is_reported(murphy):
    fit = bg.fit(murphy, [60], method=bg.MAP())
    assert set(fit.ties) == {"even", "multiples of 10"}
    with pytest.warns(bg.BayesgenWarning, match="tie"):
        bg.predict(fit, [2], rule=bg.PlugIn())


def test_maximum_likelihood_takes_the_smallest_consistent_hypothesis(murphy):
    assert bg.fit(murphy, [16], method=bg.MLE()).ties == ("powers of 4",)


def test_tenenbaum_space():
    space = bg.number_game("tenenbaum", rule_weight=0.6, scale=10.0)
    assert len(space.names) == 34 + 5050
    close(space.prior[:34], 0.6 / 34)
    lengths = space.sizes[34:]
    close(space.prior[34:] / space.prior[34], lengths * np.exp((1 - lengths) / 10))
    assert ("multiples of 10", "ends in 0") in space.duplicates


def test_next_example_sums_to_one_over_the_domain():
    for noise in (0.0, 0.1):
        fit = bg.fit(bg.ConceptLearner(bg.number_game("tenenbaum"), noise=noise), [16, 23, 19, 20], method=bg.Exact())
        answer = bg.predict(fit, range(1, 101), rule=bg.BMA())
        close(answer.next_example.sum(), 1.0)
        assert answer.membership.max() <= 1 + 1e-12


def test_updating_equals_fitting_at_once(murphy):
    once, twice = (bg.fit(murphy, [16, 8, 2, 64], method=bg.Exact()), bg.fit(murphy, [16, 8], method=bg.Exact()))
    close(twice.update([2, 64]).weights, once.weights)
    close(twice.update([2, 64]).log_evidence, once.log_evidence)


def test_weak_sampling_and_noise_against_a_plain_loop():
    space = bg.HypothesisSpace.of({"low": lambda x: x < 3, "even": lambda x: x % 2 == 0}, range(1, 7), [1, 3])
    for sampling, noise in (("weak", 0.0), ("strong", 0.2)):
        fit = bg.fit(bg.ConceptLearner(space, sampling, noise), [2, 2], method=bg.Exact())
        sizes = (6, 6) if sampling == "weak" else (2, 3)
        joint = np.asarray([p * ((1 - noise) / n + noise / 6) ** 2 for p, n in zip((0.25, 0.75), sizes, strict=True)])
        close(fit.weights, joint / joint.sum())
        close(np.exp(fit.log_evidence), joint.sum())


def test_rectangles_on_a_grid_are_a_space_too():
    grid = [(a, b) for a in range(4) for b in range(4)]
    corners = [(a, b, c, d) for a, b in grid for c, d in grid if a <= c and b <= d]
    inside = [[a <= x <= c and b <= y <= d for x, y in grid] for a, b, c, d in corners]
    space = bg.HypothesisSpace([str(each) for each in corners], inside, range(16), np.ones(len(corners)))
    fit = bg.fit(bg.ConceptLearner(space), [5, 10], method=bg.MLE())
    assert fit.ties == ("(1, 1, 2, 2)",)


def test_refusals(murphy):
    with pytest.raises(bg.DataError, match=r"\[101\] are not in the domain"):
        bg.fit(murphy, [16, 101], method=bg.Exact())
    narrow = bg.ConceptLearner(bg.HypothesisSpace.of({"one": lambda x: x == 1, "two": lambda x: x == 2}, [1, 2]))
    with pytest.raises(bg.FitError, match=r"No hypothesis holds all of the examples \[1, 2\]"):
        bg.fit(narrow, [1, 2], method=bg.Exact())
    with pytest.raises(bg.FitError, match=r"nothing continuous.*Use Exact"):
        bg.fit(murphy, [16], method=bg.NUTS())
    with pytest.raises(bg.PredictionError, match="point estimate"):
        bg.predict(bg.fit(murphy, [16], method=bg.MAP()), [2], rule=bg.BMA())
    with pytest.raises(bg.ModelError, match="no members"):
        bg.HypothesisSpace.of({"none": lambda x: False}, [1])
    with pytest.raises(bg.ModelError, match="sampling must be"):
        bg.ConceptLearner(murphy.space, "medium")
