"""Programs of several threads at once: NumPyro's handlers are one stack for the whole process."""

import functools
import os
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg

rng = np.random.default_rng(0)
CODES = np.arange(53) % 2
HEIGHTS = {"height": rng.normal(170 + 10 * CODES, 7.0)}
CALLS = {"calls": rng.poisson(3 + 4 * CODES)}


def slowly():
    """Let go of the interpreter, so that another thread is between its own sites meanwhile."""
    time.sleep(0.002)


def heights(n):
    probs = numpyro.sample("probs", dist.Beta(2.0, 3.0))
    slowly()
    mean = numpyro.sample("mean", dist.Normal(170.0, 20.0).expand([2]).to_event(1))
    slowly()
    with numpyro.plate("people", n):
        y = numpyro.sample("y", dist.Bernoulli(probs))
        slowly()
        numpyro.sample("height", dist.Normal(mean[y], 7.0))


def calls(n):
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.array([2.0, 5.0])))
    slowly()
    rate = numpyro.sample("rate", dist.Gamma(3.0, 0.5).expand([2]).to_event(1))
    slowly()
    with numpyro.plate("days", n):
        y = numpyro.sample("y", dist.Categorical(probs=probs))
        slowly()
        numpyro.sample("calls", dist.Poisson(rate[y]))


def calls_by_row(n):
    """The same without a sufficient statistic that is known: rows are run through the program."""
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.array([2.0, 5.0])))
    slowly()
    rate = numpyro.sample("rate", dist.Gamma(3.0, 0.5).expand([2]).to_event(1))
    with numpyro.plate("days", n):
        y = numpyro.sample("y", dist.Categorical(probs=probs))
        slowly()
        numpyro.sample("calls", dist.ZeroInflatedPoisson(0.1, rate[y]))


PROBABLE = {
    heights: {"probs": 0.4, "mean": [168.0, 181.0]},
    calls_by_row: {"probs": [0.3, 0.7], "rate": [3.0, 8.0]},
}


def every_answer(function, X, seed, in_full=False):
    """Densities of a program, and in full also a fit with its predictions and simulations, everything traced anew."""
    program = bg.GenerativeProgram(lambda n: function(n), classes=2)
    answers = [program.log_density(PROBABLE[function], X, CODES)]
    if in_full:
        fit = bg.fit(program, X, CODES, method=bg.MAP(num_starts=1))
        answers += [*fit.parameters.values(), program.log_density(fit.parameters, X, CODES)]
        answers += [bg.predict(fit, X, rule=bg.PlugIn()).probabilities, *fit.simulate(7, seed=seed).values()]
    return answers


@functools.cache
def alone(function, in_full=False):
    """The answers of a program that runs by itself."""
    return every_answer(*{heights: (heights, HEIGHTS, 1), calls_by_row: (calls_by_row, CALLS, 2)}[function], in_full)


def at_once(*tasks):
    """The results of tasks that start together, each in a thread of its own."""
    barrier = threading.Barrier(len(tasks))

    def run(task):
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, task) for task in tasks]]


@pytest.mark.parametrize("repeats, in_full", [(1, False), pytest.param(4, True, marks=pytest.mark.slow)])
def test_programs_that_run_at_once_do_not_mix(repeats, in_full):
    tasks = [lambda: every_answer(heights, HEIGHTS, 1, in_full), lambda: every_answer(calls_by_row, CALLS, 2, in_full)]
    for _ in range(repeats):
        expected_answers = [alone(function, in_full) for function in (heights, calls_by_row)]
        for expected, found in zip(expected_answers, at_once(*tasks), strict=True):
            for one, two in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, two)


def test_a_program_that_raises_leaves_the_others_alone():
    def broken(n):
        slowly()
        raise ZeroDivisionError

    def attempt():
        for _ in range(20):
            with pytest.raises(ZeroDivisionError):
                bg.GenerativeProgram(broken, classes=2).simulate(3)

    found, _ = at_once(lambda: every_answer(heights, HEIGHTS, 1), attempt)
    for one, two in zip(alone(heights), found, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not numpyro.primitives._PYRO_STACK


def test_a_program_may_run_another():
    """The thread that traces may trace again."""
    inner = bg.GenerativeProgram(calls, classes=2)

    def outer(n):
        with numpyro.handlers.block():
            known = len(inner.attributes)
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("days", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("calls", dist.Poisson(known + rate[y]))

    assert bg.GenerativeProgram(outer, classes=2).simulate(4, seed=1)["calls"].shape == (4,)


def test_what_is_compiled_waits_for_no_program():
    fit = bg.fit(bg.GenerativeProgram(heights, classes=2), HEIGHTS, CODES, method=bg.MAP(num_starts=1))
    predict = lambda: bg.predict(fit, HEIGHTS, rule=bg.PlugIn()).probabilities  # noqa: E731
    expected, inside, leave = predict(), threading.Event(), threading.Event()

    def patient(n):
        inside.set()
        assert leave.wait(60)
        heights(n)

    with ThreadPoolExecutor(2) as pool:
        rows = pool.submit(lambda: bg.GenerativeProgram(patient, classes=2).simulate(3))
        try:
            assert inside.wait(60)
            np.testing.assert_array_equal(pool.submit(predict).result(timeout=30), expected)
            assert not rows.done()
        finally:
            leave.set()


def test_handlers_around_a_fit_are_not_used():
    with numpyro.handlers.trace() as trace, numpyro.handlers.condition(data={"mean": jnp.zeros(2)}):
        fit = bg.fit(bg.GenerativeProgram(heights, classes=2), HEIGHTS, CODES, method=bg.MAP(num_starts=1))
    assert not trace
    assert fit.parameters["mean"].min() > 160


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_after_jax_has_run_is_told_so():
    program = bg.GenerativeProgram(heights, classes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX, and Python from 3.12, say that threads and fork do not go together
        child = os.fork()
    if child == 0:
        signal.alarm(30)  # whatever hangs ends
        try:
            bg.fit(program, HEIGHTS, CODES, method=bg.MAP(num_starts=1))
        except bg.BayesgenError as error:
            os._exit(7 if "forkserver" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesgen.ConvergenceWarning")  # three draws tell nothing
def test_chains_are_drawn_at_once():
    def draws(function, X):
        program = bg.GenerativeProgram(lambda n: function(n), classes=2)
        return bg.fit(program, X, CODES, method=bg.NUTS(num_samples=3, num_chains=2), seed=4).parameters

    tasks = [lambda: draws(heights, HEIGHTS), lambda: draws(calls, CALLS)]
    for expected, found in zip([task() for task in tasks], at_once(*tasks), strict=True):
        for name, values in expected.items():
            np.testing.assert_array_equal(values, found[name])
