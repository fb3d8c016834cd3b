"""Programs as arguments of compiled functions."""

import copy
import dataclasses
import gc
import pickle
import weakref

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from counting import compilations
from prediction.draws import at_point

import bayesgen as bg
from bayesgen.program import joint
from bayesgen.solvers import quasi_newton

CODES = np.arange(12) % 2
ROWS = {"x": np.linspace(-1.0, 1.0, 12) + CODES}


def answered(spread):
    """The fit of a function made anew, which was asked too: with references to what is kept for its program."""

    def function(n):
        mean = numpyro.sample("mean", dist.Normal(0, spread).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mean[y], 1.0))

    program = bg.GenerativeProgram(function, classes=2)
    fit = bg.fit(program, ROWS, CODES, method=bg.MAP(num_starts=1))
    bg.predict(fit, ROWS, rule=bg.PlugIn())
    compiled = [jit._owned[program.owner] for jit in (quasi_newton._compiled_for_few, joint.log_joint)]
    return fit, [weakref.ref(part) for part in (program.owner, *compiled)]


def test_what_was_compiled_goes_with_the_last_program_that_it_serves():
    gc.freeze()  # what is there already, and takes long to look through
    fit, references = answered(3.0)
    with compilations() as compiled:
        twin, again = answered(3.0)
    assert compiled == [] and [reference() for reference in references] == [reference() for reference in again]
    np.testing.assert_array_equal(twin.parameters["mean"], fit.parameters["mean"])
    del fit
    gc.collect()
    assert all(reference() is not None for reference in references)
    del twin
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


SETTINGS = {"center": 0.0}


def settled(n):
    mean = numpyro.sample("mean", dist.Normal(SETTINGS["center"], 2.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(mean, 1.0))


def test_what_a_function_reads_is_read_again_by_each_fit(monkeypatch):
    """The mode, and the predictive density, are those of the values that are there; what was fitted stays as it was."""
    x = np.array([1.0, 2.5, 4.0])
    program, fits = bg.GenerativeProgram(settled, label=None), []
    for center in (0.0, 30.0):
        monkeypatch.setitem(SETTINGS, "center", center)
        fits.append(bg.fit(program, {"x": x}, method=bg.MAP(num_starts=1)))
        np.testing.assert_allclose(fits[-1].parameters["mean"], (center / 4 + x.sum()) / (1 / 4 + 3), rtol=1e-6)
    assert fits[0].program != fits[1].program != program
    with pytest.raises(bg.ModelError, match=r"made: SETTINGS\. Set it back"):
        fits[0].log_joint({"x": np.zeros(2)})
    monkeypatch.setitem(SETTINGS, "center", 0.0)
    mean = fits[0].parameters["mean"]
    np.testing.assert_allclose(fits[0].log_joint({"x": x})[:, 0], scipy.stats.norm(mean).logpdf(x))
    assert bg.fit(program, {"x": x}, method=bg.MAP(num_starts=1)).program == fits[0].program


def test_a_program_that_changes_what_it_reads_is_run_all_the_same():
    sizes = []

    def function(n):
        sizes.append(n)
        settled(n)

    program = bg.GenerativeProgram(function, label=None)
    fit = bg.fit(program, {"x": [1.0, 2.5, 4.0]}, method=bg.MAP(num_starts=1))
    with compilations() as compiled:
        again = bg.fit(program, {"x": [1.0, 2.5, 4.0]}, method=bg.MAP(num_starts=1))
    assert sizes and compiled == [] and again.program == fit.program == program


def test_programs_and_fits_are_copied_and_pickled():
    program = bg.GenerativeProgram(tosses_of_two_coins, classes=2)
    rng = np.random.default_rng(1)
    rows, y = {"x": rng.integers(0, 2, 23)}, rng.integers(0, 2, 23)
    fit = at_point(program, {"p": [0.3, 0.6]}, rows, y)
    for again in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit)):
        answers = [bg.predict(each, rows, rule=bg.PlugIn()).probabilities for each in (fit, again)]
        np.testing.assert_array_equal(*answers)


def test_programs_are_equal_that_state_the_same():
    program = bg.GenerativeProgram(tosses_of_two_coins, classes=["a", "b"])
    again = bg.GenerativeProgram(tosses_of_two_coins, classes=("a", "b"))
    assert program == again and hash(program) == hash(again)
    assert program.plan is not None and program == again  # what is found out about it does not count
    assert pickle.loads(pickle.dumps(program)) == copy.deepcopy(program) == program
    assert program != bg.GenerativeProgram(tosses_of_two_coins, classes=["a", "c"])
    assert program != bg.GenerativeProgram(lambda n: tosses_of_two_coins(n), classes=["a", "b"])
    assert len({bg.GenerativeProgram(lambda n: tosses_of_two_coins(n), classes=2) for _ in range(3)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        program.label = "z"


def test_bound_programs_of_equal_models_are_equal():
    X, y = [[1.0, 2.0], [2.0, 1.0], [8.0, 9.0], [9.0, 8.0]], [0, 1, 1, 0]
    schema = bg.summarize(bg.NaiveBayes(), X, y).scaled_schema
    one, two = (bg.NaiveBayes().bind(schema) for _ in range(2))
    assert one == two and hash(one) == hash(two)
    assert one != bg.NaiveBayes(bg.NormalInverseGamma(kappa=1.0)).bind(schema)


def tosses_of_two_coins(n):
    p = numpyro.sample("p", dist.Beta(2, 2).expand([2]).to_event(1))
    with numpyro.plate("tosses", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Bernoulli(p[y]))


@dataclasses.dataclass
class Unhashable:
    """A program with a setting; instances are compared by value, so that they have no hash."""

    concentration: float

    def __call__(self, n, *, trials):
        p = numpyro.sample("p", dist.Beta(self.concentration, 2.0))
        with numpyro.plate("tosses", n):
            numpyro.sample("x", dist.Binomial(trials.astype(int), p))


class Slotted:
    """A program that cannot be referred to weakly."""

    __slots__ = ()

    def __call__(self, n, *, trials):
        Unhashable(3.0)(n, trials=trials)


CALLABLES = {"data": Unhashable(3.0), "slots": Slotted(), "method": Unhashable(3.0).__call__}


@pytest.mark.parametrize(
    "function",
    [pytest.param(made, id=name, marks=[pytest.mark.slow] * (name == "data")) for name, made in CALLABLES.items()],
)
def test_any_callable_is_a_program(function):
    program = bg.GenerativeProgram(function, label=None)
    fit = bg.fit(program, {"x": [1, 0, 2], "trials": [2, 2, 3]}, method=bg.MAP())
    assert float(fit.parameters["p"]) == pytest.approx((3 + 3 - 1) / (7 + 5 - 2), abs=1e-6)
