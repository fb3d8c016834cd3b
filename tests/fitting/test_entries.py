"""What fits and programs print: at most twenty lines, with each site of the rows once, and how it enters."""

import dataclasses
import pickle
import re
import time

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from models.cases import CASES, OPEN
from models.response_cases import CASES as RESPONSES
from prediction.draws import drawn
from program.programs import BOUND, PROGRAMS, inner_plate, mixed, outer_plate

import bayesgen as bg
from bayesgen.describe import MOST_LINES, WIDTH

WAYS = ("closed form", "sufficient statistics", "evaluated row by row")
POINTS = [bg.MLE(), bg.MAP()]


def chains(exact):
    """A fit as a sampler makes it, of independent draws."""
    fit = drawn(exact, 2, 5)
    posterior = dataclasses.replace(fit.posterior, sample_stats={"diverging": np.zeros((2, 5), bool)})
    return dataclasses.replace(fit, method=bg.NUTS(), posterior=posterior)


FITS = {
    **{f"{name}, Exact": lambda case=case: case.exact for name, case in CASES.items()},
    **{f"{name}, NUTS": lambda name=name: chains(CASES[name].exact) for name in ("discriminant, tied", "own blocks")},
    **{
        f"{name}, {type(method).__name__}": lambda case=case, method=method: bg.fit(
            case.model, *case.data, method=method
        )
        for name, case in CASES.items()
        for method in POINTS
    },
    **{f"{name}, open": lambda case=case: case.point for name, case in OPEN.items()},
    **{f"{name}, response": lambda case=case: case.exact for name, case in RESPONSES.items()},
    "structures": lambda: bg.fit(bg.NaiveBayes(structure="average"), *CASES["own blocks"].data, method=bg.Exact()),
}


def shown(described):
    """Name of an entry -> its text."""
    lines = str(described).splitlines()
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= WIDTH
    _, *unbroken = re.sub(r"\n    +", " ", "\n".join(lines)).splitlines()
    return dict(line.strip().split(": ", 1) for line in unbroken)


def sites(entries):
    """Site -> the way in which it enters, and why; each is named once."""
    ways = {}
    for name, text in entries.items():
        way = next((way for way in WAYS if name.startswith(way)), None)
        for site in re.findall(r"([\w/]+)(?: \((.*?)\))?(?:, |$)", text) if way else ():
            assert site[0] not in ways
            ways[site[0]] = way, site[1]
    return ways


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "grammar, open")) for n in FITS])
def test_fits_name_each_block_once_and_say_how_it_enters(name):
    fit = FITS[name]()
    entries = shown(fit)
    ways = sites(entries)
    assert ways.keys() == fit.prior.keys()
    hidden = {"size"} if "open" in name else set()
    assert {site for site, (way, _) in ways.items() if way != "closed form"} == hidden
    assert ("closed form" in entries) == isinstance(fit.method, bg.Exact)
    assert entries["method"].startswith(f"{type(fit.method).__name__}(") and "next" in entries
    assert (entries.get("prior") == "MLE() uses none") == isinstance(fit.method, bg.MLE)
    start = time.perf_counter()
    assert str(pickle.loads(pickle.dumps(fit))) == str(fit)
    assert time.perf_counter() - start < 1


def test_a_prior_says_which_numbers_come_from_the_data_and_how_to_state_others():
    entries = shown(CASES["naive Bayes"].exact)
    assert entries["prior of real"] == (
        "NormalInverseGamma(kappa=0.01, shape=1.5); from the data: mean (means of the columns), scale (half their "
        "variances)"
    )
    assert entries["prior of class, categorical_2, categorical_3"] == "DirichletCategorical(concentration=1)"
    own = "give the model NormalInverseGamma(mean=..., scale=...) and GammaPoisson(rate=...)"
    assert entries["numbers of your own"] == own
    assert "numbers of your own" not in shown(CASES["discriminant, informative"].exact)
    for case in (*CASES.values(), *RESPONSES.values()):  # families say in words where their defaults come from
        prior = case.exact.prior
        assert all({*keys} <= prior[name].defaults.keys() for name, keys in prior.from_data.items())
        assert "computed" not in repr(prior)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(other, id=other.__name__, marks=[pytest.mark.slow] * (other in (inner_plate, mixed, outer_plate)))
        for other in PROGRAMS
    ],
)
def test_programs_say_what_their_plans_say(function):
    compressed, rowwise, *_ = PROGRAMS[function]
    program = BOUND[function].for_covariates({})
    entries = shown(program)
    closed = entries.pop("closed form", "")  # of latents, not of sites of rows
    assert all(name in program.latents for name in re.findall(r"([\w/]+) \(", closed))
    ways = sites(entries)
    assert ways.keys() == {"y", *compressed, *rowwise}
    assert {site for site, (way, _) in ways.items() if way == "evaluated row by row"} == {*rowwise}
    assert {site: reason for site, (_, reason) in ways.items() if reason} == dict(program.plan.reasons)


def lines_of_schools(n, *, X, school):
    effect = numpyro.sample("effect", dist.Normal(0, 5).expand([3]).to_event(1))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("pupils", n):
        numpyro.sample("y", dist.Normal(effect[school] + X @ slopes, 1.0))


def test_a_program_awaits_the_shapes_of_its_covariates_and_its_fit_tells_the_rest(tmp_path):
    rng = np.random.default_rng(1)
    program = bg.GenerativeProgram(lines_of_schools)
    assert shown(program)["recognised"] == "once data show the shapes of X, school: print(fit.program)"
    X = {"X": rng.normal(size=(400, 2)), "school": rng.integers(0, 3, 400)}
    fit = bg.fit(program, X, rng.normal(size=400), method=bg.MAP())
    entries = shown(fit)
    assert entries["sufficient statistics"] == "y (products of features, as its mean is linear in the latents)"
    assert entries["prior"] == "as the program states it, of effect, slopes"
    assert shown(fit.program)["evaluated row by row"] == "y (its parameters depend on covariate X)"
    fit.save(tmp_path / "fit.nc")
    again = bg.load(tmp_path / "fit.nc", program=bg.GenerativeProgram(lines_of_schools))
    assert str(again) == str(fit) and again.seconds == fit.seconds > 0


def by_position(n):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.StudentT(3, mean + np.arange(n), 1))


def test_a_program_that_fits_refuse_says_why():
    assert "'x' are not exchangeable" in shown(bg.GenerativeProgram(by_position, label=None))["refused"]


def test_equal_fits_may_have_taken_unlike_seconds():
    case = CASES["naive Bayes"]
    again = bg.fit(case.model, *case.data, method=bg.Exact())
    assert again == case.exact and again.seconds != case.exact.seconds
    updated = again.update(*case.data)  # nobody has timed it
    assert updated.seconds is None and "second" not in shown(updated)["method"]


def test_numbers_from_the_features_of_a_regression_are_said_to_come_from_the_data():
    X = np.random.default_rng(0).normal(size=(20, 2))
    by_default = bg.fit(bg.LinearRegression(), X, X[:, 0], method=bg.Exact()).prior
    assert by_default.from_data == {"y": ["precision", "location", "scale", "center"]}
    stated = bg.LinearNormalInverseGamma(precision=1, mean=0, scale=2, center=0)
    prior = bg.fit(bg.LinearRegression(prior=stated), X, X[:, 0], method=bg.Exact()).prior
    assert prior.from_data == {"y": []} and "from the data" not in repr(prior)
