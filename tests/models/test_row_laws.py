"""One law of all models and all answers: what is said of a row is the same, whatever rows stand beside it."""

import dataclasses

import numpy as np
import pytest

import bayesgen as bg
from tests.sequences.test_hidden_laws import HIDDEN

from .cases import ALL, CASES, NEW, OPEN, take, with_holes
from .response_cases import CASES as RESPONSES
from .response_cases import rows_of
from .test_laws import every_case, every_searched

PARTS = ([4], [0, 2], [6, 5, 3, 1])  # of the rows, each asked about by itself
RULES = (bg.PlugIn(), bg.PlugIn(at="mode"), bg.BMA())
AVERAGES = (bg.ConditionalAverage(num_draws=20), bg.BMA(entropy_draws=20))
SEQUENCES = {name for name in ALL if "words" in name}
every_response = pytest.mark.parametrize("name", RESPONSES)


def by_row(arrays):
    """Of each row, its entries in all arrays."""
    return list(zip(*arrays, strict=True))


def tables(fit, X):
    """Log joints at every process that the fit has in closed form."""
    places = ("mean", "mode", "predictive") if fit.posterior.can("predictive") else ("mean",)
    return by_row([fit.log_joint(X, at=at) for at in places])


def classes(fit, X, rules=RULES):
    """Probabilities of classes, and densities of rows."""
    rules = rules if fit.posterior.can("predictive") else rules[:1]
    answers = [bg.predict(fit, X, rule=rule) for rule in rules]
    return by_row([array for answer in answers for array in (answer.log_probabilities, answer.log_marginal)])


def members(fit, X):
    """Probabilities of classes, averaged over structures."""
    return classes(fit, X, RULES[2:])


def averages(fit, X):
    """Probabilities of classes over draws, and the entropy that they split."""
    answers = [bg.predict(fit, X, rule=rule) for rule in AVERAGES]
    return by_row([array for answer in answers for array in (answer.log_probabilities, answer.mutual_information)])


def numbers(fit, X, rules=RULES):
    """Distributions of a continuous label."""
    answers = [bg.predict(fit, X, rule=rule) for rule in rules]
    return by_row([ask for a in answers for ask in (a.mean, a.std, a.quantile(0.9), a.log_density(300.0))])


def average_numbers(fit, X):
    """The same over draws."""
    return numbers(fit, X, AVERAGES[:1])


def states(fit, X):
    """Probabilities and paths of hidden states, until the end of each sequence."""
    found = fit.states(X, rule=bg.PlugIn())
    ends = [(..., slice(length)) for length in found.lengths]
    return [(found.probabilities[i].swapaxes(-1, -2)[end], found.paths[i][end]) for i, end in enumerate(ends)]


def cells(fit, X):
    """Missing cells, filled in."""
    return by_row(fit.impute(X).values())


def coordinates(fit, X):
    """Those of rows near a surface."""
    found = fit.transform(X)
    return by_row([found.mean, found.covariance])


def check(fit, X, *asks, parts=PARTS):
    """The law, by each way to ask."""
    for ask in asks:
        whole = ask(fit, X)
        assert len(whole) == NEW
        for part in parts:
            for row, answer in zip(part, ask(fit, take(X, part)), strict=True):
                for alone, beside in zip(answer, whole[row], strict=True):
                    if np.asarray(beside).dtype.kind == "f":
                        np.testing.assert_allclose(alone, beside, rtol=1e-9, atol=1e-12, err_msg=ask.__name__)
                    else:
                        np.testing.assert_array_equal(alone, beside, ask.__name__)


@every_case
def test_closed_forms(name):
    check(CASES[name].exact, CASES[name].new, tables, classes)


@pytest.mark.parametrize("name", ALL)
def test_closed_forms_with_cells_missing(name):
    check(CASES[name].exact, ALL[name].new, tables, classes, *[cells] * (name not in SEQUENCES))


@every_searched
def test_averages_over_draws(name):
    check(CASES[name].exact, CASES[name].new, averages)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "grammar")) for n in OPEN])
def test_points(name):
    case = OPEN[name]
    check(case.point, case.new, classes, parts=PARTS[:1])
    if "word" not in case.new:
        check(case.point, with_holes(case.new, np.random.default_rng(5)), tables, cells)


@pytest.mark.slow  # sequences of unlike lengths stand beside each other in every run of sequences/test_hidden_states.py
@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_states(name):
    """Of sequences of unlike lengths with steps missing, by a chain whose first state does not last.

    The best path of a sequence would be another one if it went on over steps that a longer one beside it has.
    """
    case = HIDDEN[name]
    block = case.point.program.attributes[0]
    chain = {
        f"{block}_initial": np.array([[0.5, 0.5], [0.3, 0.7]]),
        f"{block}_transition": np.array([[[0.6, 0.4], [0.02, 0.98]]] * 2),
    }
    posterior = dataclasses.replace(case.point.posterior, values={**case.point.parameters, **chain})
    fit = dataclasses.replace(case.point, posterior=posterior)
    check(fit, take(case.holed[0], range(NEW)), classes, states, parts=PARTS[:1])


@every_response
def test_continuous_labels(name):
    X, _ = rows_of(NEW, 5)
    check(RESPONSES[name].exact, X, numbers)
    if RESPONSES[name].models_columns:
        check(RESPONSES[name].exact, with_holes(X, np.random.default_rng(5)), numbers)


@pytest.mark.parametrize("name", ["line", *[pytest.param(n, marks=pytest.mark.slow) for n in RESPONSES if n != "line"]])
def test_averages_of_continuous_labels(name):
    check(RESPONSES[name].exact, rows_of(NEW, 5)[0], average_numbers)


def test_components_structures_and_surfaces():
    """Of rows whose cells are missing."""
    case = CASES["naive Bayes"]
    X, y = case.data
    holed = ALL["naive Bayes"].new
    check(bg.fit(bg.Mixture(case.model, 2), X, method=bg.MAP(num_starts=1)), holed, tables, cells)
    averaged = bg.fit(bg.NaiveBayes(case.model.families, structure="average"), X, y, method=bg.Exact())
    check(averaged, holed, classes)
    reals, holed_reals = ({column: rows[column] for column in ("height", "weight")} for rows in (X, holed))
    surface = bg.fit(bg.ProbabilisticPCA(1), reals, method=bg.MLE())
    check(surface, holed_reals, tables, cells, coordinates)
    forms = bg.average([bg.GaussianDiscriminant("diag"), bg.GaussianDiscriminant("tied")])
    check(bg.fit(forms, reals, y, method=bg.Exact()), holed_reals, members)
