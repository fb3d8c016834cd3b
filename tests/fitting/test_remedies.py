"""Remedies that messages name are taken: a step after the refusal nothing is refused for the same reason."""

import dataclasses
import re

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.fitting import ProgramProblem
from tests.models import response_cases
from tests.models.cases import CASES
from tests.prediction.draws import drawn

METHODS = {"MLE": bg.MLE(), "MAP": bg.MAP(), "Exact": bg.Exact(), "NUTS": bg.NUTS()}


def line(n, *, x):
    slope = numpyro.sample("slope", dist.Normal(0, 5))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(slope * x, 1.0))


def two_kinds(n):
    share, loc = (
        numpyro.sample("share", dist.Beta(1, 1)),
        numpyro.sample("loc", dist.Normal(0, 1).expand([2]).to_event(1)),
    )
    with numpyro.plate("rows", n):
        kind = numpyro.sample("kind", dist.Bernoulli(share))
        numpyro.sample("size", dist.Normal(loc[kind], 1.0))


NUMBERS = np.random.default_rng(1).normal(size=(9, 2))
JOINT = bg.NaiveBayes({"real": bg.NormalInverseWishart()}, structure="average")
OTHERS = {
    "hyperprior": (bg.NaiveBayes(bg.BetaBernoulli(dist.Gamma(2.0, 1.0), 1.0)), NUMBERS > 0, np.arange(9) % 2),
    "mixture": (bg.Mixture(bg.GaussianDiscriminant(), 2), NUMBERS, None),
    "factors": (bg.ProbabilisticPCA(1), NUMBERS, None),
    "structures": (bg.NaiveBayes(structure="average"), NUMBERS, np.arange(9) % 2),
    "structures of a joint block": (JOINT, {"u": NUMBERS[:, 0], "v": NUMBERS[:, 1]}, np.arange(9) % 2),
    "program of a line": (bg.GenerativeProgram(line), {"x": NUMBERS[:, 0]}, NUMBERS[:, 1]),
    "program of a mixture": (bg.GenerativeProgram(two_kinds, label=None), {"size": NUMBERS[:, 0]}, None),
}
TABLES = {
    **{name: (case.model, *case.data) for name, case in CASES.items()},
    **{f"{name}, of a number": (case.model, *case.data) for name, case in response_cases.CASES.items()},
    **OTHERS,
}


def less_one(values, row):
    """The values as objects, of which one is missing."""
    values = np.array(values, dtype=object)
    values[row] = None
    return values


def data_sets(X, y):
    """The data, without a label, and without some cell of each column."""
    yield X, y
    if y is not None:
        yield X, less_one(y, 2)
    if isinstance(X, dict) and all(np.ndim(column) == 1 for column in X.values()):
        yield {name: less_one(column, 3 + place) for place, (name, column) in enumerate(X.items())}, y


def refusal_of(model, X, y, method):
    """The message by which a method refuses a model and its data, if it does so before it looks for an estimate."""
    try:
        ProgramProblem(model, bg.summarize(model, X, y)).checked_for(method)
    except bg.FitError as refusal:
        return str(refusal)
    return None


QUICK = {*OTHERS, "naive Bayes", "joint, of a number"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in TABLES])
def test_methods_that_a_refusal_names_are_not_refused(name):
    model, X, y = TABLES[name]
    for data in data_sets(X, y):
        try:
            bg.summarize(model, *data)
        except bg.BayesgenError:  # no such rows are taken by any method
            continue
        for method in METHODS:
            message = refusal_of(model, *data, METHODS[method])
            if message is None:
                continue
            advised = re.search(r"[Uu]se ((MLE|MAP|Exact|NUTS)\(\).*)", message)
            named = re.findall(r"(MLE|MAP|Exact|NUTS)\(\)", advised[1]) if advised else []
            to_full = "structure='full'" in message
            assert named or to_full, f"{method} is refused without a remedy: {message}"
            for remedy in named or [method]:
                remedied = dataclasses.replace(model, structure="full") if to_full else model
                assert refusal_of(remedied, *data, METHODS[remedy]) is None, f"{method}: {message} {remedy} is refused"


RULES = {rule: getattr(bg, rule)() for rule in ("PlugIn", "BMA", "ConditionalAverage")} | {"mode": bg.PlugIn(at="mode")}
FITTED = {
    "naive Bayes": (CASES["naive Bayes"], bg.MAP()),
    "naive Bayes, exact": (CASES["naive Bayes"], bg.Exact()),
    "line": (response_cases.CASES["line"], bg.MLE()),
    "line, exact": (response_cases.CASES["line"], bg.Exact()),
}


SLOW = {"naive Bayes, exact"}


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")  # of few draws
@pytest.mark.parametrize("are_draws", [False, True])
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in FITTED])
def test_rules_that_a_refusal_names_are_not_refused(name, are_draws):
    """By the fit itself, or by one with the method that is named beside the rule."""
    case, method = FITTED[name]
    X, y = case.data
    fit = bg.fit(case.model, X, y, method=method)
    if are_draws and fit.posterior.is_point:
        pytest.skip("a point has no draws")
    fit = drawn(fit, 2, 50) if are_draws else fit
    for rule in RULES.values():
        try:
            bg.predict(fit, X, rule=rule)
        except bg.BayesgenError as refusal:
            advice = re.split(r"[.;:] ", str(refusal), maxsplit=1)[-1]
            rules = re.findall(r"(PlugIn|BMA|ConditionalAverage)\(", advice)
            methods = re.findall(r"(MAP|Exact)\(\)", advice)
            assert rules or methods, f"{rule!r} is refused without a remedy: {refusal}"
            fits = [fit] if rules else []
            for other in (*fits, *(bg.fit(case.model, X, y, method=METHODS[method]) for method in methods)):
                answered = [bg.predict(other, X, rule=RULES[named]) for named in rules or ["BMA"]]
                assert answered
