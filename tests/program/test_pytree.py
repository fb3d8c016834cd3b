"""Programs as arguments of compiled functions."""

import gc
import weakref

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesgen as bg
from bayesgen.fitting import optimize, rowwise

CODES = np.arange(12) % 2
ROWS = {"x": np.linspace(-1.0, 1.0, 12) + CODES}


def answered(spread):
    """A function made anew, fitted and asked: references to it, and to what was compiled for it."""

    def function(n):
        mean = numpyro.sample("mean", dist.Normal(0, spread).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mean[y], 1.0))

    fit = bg.fit(bg.GenerativeProgram(function, classes=2), ROWS, CODES, method=bg.MAP(num_starts=1))
    bg.predict(fit, ROWS, rule=bg.PlugIn())
    compiled = [jit._of_function[function] for jit in (optimize._at_points, rowwise._log_joint)]
    return [weakref.ref(part) for part in (function, *compiled)]


def test_a_program_that_is_gone_leaves_nothing_that_was_compiled_for_it():
    references = answered(3.0)
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
