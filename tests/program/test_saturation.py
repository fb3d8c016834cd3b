"""Posteriors that reach to the edge of floating point: of small concentrations, and of programs of one's own."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg

ONES_AND_MIXED = np.array([True] * 10 + [False] * 5 + [True] * 5)[:, None]
LABELS = ["a"] * 10 + ["b"] * 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "X", "query"),
    [
        (bg.BetaBernoulli(0.01, 0.01), ONES_AND_MIXED, [[False]]),
        pytest.param(
            bg.DirichletCategorical(0.02), np.where(ONES_AND_MIXED, "r", "s"), [["s"]], marks=pytest.mark.slow
        ),
        pytest.param(bg.GammaPoisson(0.02, 0.5), np.where(ONES_AND_MIXED, 0, 3), [[1]], marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # few draws tell of what almost never happens
def test_small_concentrations_are_sampled_to_the_edge(family, X, query):
    """In log odds of NumPyro's clipped probabilities the first came to .0064 to .0084 for .00199."""
    model = bg.NaiveBayes(family)
    exact = bg.predict(bg.fit(model, X, LABELS, method=bg.Exact()), query, rule=bg.BMA())
    sampled = bg.fit(model, X, LABELS, method=bg.NUTS(num_samples=4000, target_accept_prob=0.95), seed=3)
    answer = bg.predict(sampled, query, rule=bg.BMA())
    assert abs(answer.probabilities - exact.probabilities)[0, 0] < 4 * answer.standard_error[0, 0]
    assert answer.standard_error[0, 0] < 0.5 * exact.probabilities[0, 0]


def test_draws_of_a_program_at_the_edge_are_warned_of():
    def tosses(n):
        p = numpyro.sample("p", dist.Beta(0.01, 0.01))
        with numpyro.plate("tosses", n):
            numpyro.sample("x", dist.Bernoulli(p))

    program = bg.GenerativeProgram(tosses, label=None)
    with pytest.warns(bg.ConvergenceWarning, match=r"% of the draws of site 'p' lie at the edge.*log odds"):
        bg.fit(program, {"x": np.ones(10)}, method=bg.NUTS(num_samples=200))


def test_a_mode_without_bound_is_refused_and_not_found_at_the_edge():
    """A category that never occurs has its mode at zero, infinitely high, where the concentration may be below 1."""
    schema = bg.Schema(categories={"sky": ["blue", "grey", "red", "green"]})
    X, y = {"sky": np.array(["blue", "grey", "red"])[np.arange(23) % 3]}, np.arange(23) % 2
    model = bg.NaiveBayes(bg.DirichletCategorical(dist.Gamma(2.0, 1.0)))
    refusal = r"still rises along site 'categorical_4_.*concentration below 1.*more starts"
    with pytest.raises(bg.FitError, match=refusal):
        bg.fit(model, X, y, method=bg.MAP(), schema=schema)


@pytest.mark.parametrize("concentration", [0.01, pytest.param(0.5, marks=pytest.mark.slow)])
def test_the_mode_of_a_program_with_poles_is_the_peak_inside(concentration):
    """Beta(a, b) with few of either: the density has a pole at both ends and one peak, or none."""
    ones = np.array([1, 49])  # of 50 rows a class

    def tosses(n):
        p = numpyro.sample("p", dist.Beta(concentration, concentration).expand([2]).to_event(1))
        with numpyro.plate("tosses", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Bernoulli(p[y]))

    program = bg.GenerativeProgram(tosses, classes=2)
    y = np.repeat([0, 1], 50)
    x = np.concatenate([np.arange(50) < count for count in ones])
    point = bg.fit(program, {"x": x}, y, method=bg.MAP()).parameters["p"]
    np.testing.assert_allclose(point, (ones + concentration - 1) / (50 + 2 * concentration - 2), rtol=1e-5)
    with pytest.raises(bg.FitError, match="still rises along site 'p'"):
        bg.fit(program, {"x": np.where(y == 0, False, x)}, y, method=bg.MAP())
