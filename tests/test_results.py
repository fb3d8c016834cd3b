"""What users are given is equal by content, NaN to NaN, and unhashable; two runs of the same give the same."""

import dataclasses

import numpy as np
import pytest
from models.cases import CASES
from models.response_cases import CASES as RESPONSE_CASES
from prediction.draws import drawn

import bayesgen as bg

PLUG_IN, BMA, AVERAGE = bg.PlugIn(), bg.BMA(), bg.ConditionalAverage(20)
CASE, NUMBERS = CASES["naive Bayes"], RESPONSE_CASES["line"]
X, Y, NEW = *CASE.data, CASE.new
REALS, ONE = np.random.default_rng(1).normal(size=(11, 3)), bg.GaussianDiscriminant("diag")
SIGNALS = {"x": [[0.1, 5.0, 0.2, 5.1], [4.8], [0.0, 5.3]]}
CHAIN = bg.GenerativeClassifier([("x", bg.DirichletHiddenMarkov(2), ["x"])], class_prior=None)


def fit(change=0.0, method=None):
    """The same, or a fit of other weights."""
    weights = np.full(len(Y), 1 + change)
    return bg.fit(CASE.model, X, Y, method=method or bg.Exact(), sample_weight=weights)


def impossible(change=0.0):
    """An answer with a row of NaN."""
    answer = bg.predict(fit(change), NEW, rule=BMA)
    answer.log_probabilities[2] = np.nan
    return answer


def of_numbers(rule, change=0.0):
    X, y = NUMBERS.data
    return bg.predict(bg.fit(NUMBERS.model, X, y + change, method=bg.Exact()), NUMBERS.new[0], rule=rule)


def average(change=0.0):
    return bg.fit(
        bg.average([ONE, bg.GaussianDiscriminant("full")]), REALS + change, np.arange(11) % 2, method=bg.Exact()
    )


def density(change=0.0):
    return bg.predict(bg.fit(bg.NaiveBayes(class_prior=None), REALS + change, method=bg.Exact()), REALS, rule=BMA)


def concept(change=0.0):
    return bg.fit(bg.ConceptLearner(bg.number_game("murphy")), [16, 8, 2][: 3 - int(change)], method=bg.Exact())


def states(change=0.0):
    fit = bg.fit(CHAIN, SIGNALS, method=bg.MAP(num_starts=1))
    return fit.states({"x": SIGNALS["x"][int(change) :]}, rule=PLUG_IN)


def coordinates(change=0.0):
    return bg.fit(bg.ProbabilisticPCA(1), REALS, method=bg.MLE()).transform(REALS + change)


def comparison(change=0.0):
    pairs = [(bg.MAP(), PLUG_IN), (bg.Exact(), BMA), (bg.MLE(starts={"odd": 1.0}), PLUG_IN)]
    return bg.compare(ONE, REALS, np.arange(11) % 2, REALS + change, np.arange(11) % 2, methods=pairs)


RESULTS = {
    "exact fit": fit,
    "fit of a point": lambda change=0.0: fit(change, bg.MAP()),
    "fit of draws": lambda change=0.0: drawn(fit(), 2, 10, seed=int(change)),
    "summaries": lambda change=0.0: bg.summarize(CASE.model, X, Y, sample_weight=np.full(len(Y), 1 + change)),
    "fit of an average": average,
    "fit of a concept": concept,
    "answer by classes": lambda change=0.0: bg.predict(fit(change), NEW, rule=PLUG_IN),
    "answer with NaN": impossible,
    "answer by draws": lambda change=0.0: bg.predict(fit(change), NEW, rule=AVERAGE),
    "numbers": lambda change=0.0: of_numbers(BMA, change),
    "numbers by draws": lambda change=0.0: of_numbers(AVERAGE, change),
    "densities": density,
    "answer of a concept": lambda change=0.0: bg.predict(concept(change), [1, 2, 4], rule=BMA),
    "hidden states": states,
    "coordinates": coordinates,
    "comparison": comparison,
}


# the fit compiles for long that hidden states are of
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "hidden states")) for kind in RESULTS]
)
def test_results_are_equal_by_content_and_unhashable(kind):
    make = RESULTS[kind]
    one, two = make(), make()
    assert one == two
    assert one != make(1.0) and one != "another"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_a_field_more_or_less_makes_another_result():
    one = bg.predict(fit(), NEW, rule=AVERAGE)
    assert one != dataclasses.replace(one, standard_error=None) != one
    assert one == dataclasses.replace(one, log_marginal=one.log_marginal.copy())
