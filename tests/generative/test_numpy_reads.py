"""NumPy's calls in models as they are written: what NumPy means, for the rows that there are, or refused by name."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
from numpyro import handlers

from bayesgen import GenerativeProgram
from bayesgen.errors import ModelError
from bayesgen.runtime import Traced

N = 30
_random = np.random.default_rng(0)
TABLES = {"whole": _random.integers(0, 9, size=(N, 3)), "real": _random.normal(size=(N, 3))}
LABELS = _random.normal(size=N)
KNOTS = np.linspace(-1, 1, 4)

CALLS = {
    "max by name": lambda d: d.max(axis=1),
    "max by place": lambda d: d.max(1),
    "min of the last axis": lambda d: d.min(-1),
    "max that keeps the axis": lambda d: np.max(d, axis=1, keepdims=True)[:, 0],
    "max from a number on": lambda d: d.max(axis=1, initial=5),
    "a range": lambda d: np.ptp(d, axis=1),
    "a mean": lambda d: np.mean(d, axis=1),
    "a cumulative sum": lambda d: np.cumsum(d, axis=1)[:, 1],
    "the place of the largest": lambda d: d.argmax(axis=1) * 1.0,
    "an outer difference": lambda d: np.subtract.outer(d, KNOTS).sum((1, 2)),
    "splines": lambda d: np.maximum(np.subtract.outer(d, KNOTS), 0).sum((1, 2)),
    "functions of functions": lambda d: np.log1p(np.abs(d))[:, 1],
    "a sum by a function": lambda d: np.add.reduce(d, axis=1),
    "sums on the way": lambda d: np.add.accumulate(d, axis=1)[:, 2],
    "a quotient and the rest": lambda d: np.divmod(d, 3)[1][:, 0],
    "another dtype": lambda d: d.astype(float)[:, 0] / 2,
    "a product of matrices": lambda d: np.matmul(d, np.ones(3)),
}
OF_TRAINING = {  # with the numbers of all rows of training, whatever the rows are
    "a median": lambda d: d[:, 0] - np.median(d),
    "a quantile": lambda d: d[:, 0] - np.percentile(d, 30),
    "distinct rows": lambda d: d[:, 0] * len(np.unique(d, axis=0)),
}
OF_WHOLE_NUMBERS = {
    "the largest of all": lambda d: d[:, 0] * d.max(),
    "the largest of any axis": lambda d: d[:, 0] * d.max(axis=None),
    "the largest by a function": lambda d: d[:, 0] * np.max(d),
}
MIXING = {
    "the largest of columns": lambda d: (d / d.max(axis=0))[:, 0],
    "sums of columns": lambda d: np.add.reduce(d)[0] * d[:, 0],
    "sums of all": lambda d: np.add.reduce(d, axis=(0, 1)) * d[:, 0],
}
WITHOUT_JAX = {
    "an output": (lambda d: np.exp(d, out=np.zeros((N, 3)))[:, 0], r"calls exp\(..., out=...\) of NumPy"),
    "a choice of cells": (lambda d: np.exp(d, where=d > 0, out=None)[:, 0], r"calls exp\(..., where=...\) of NumPy"),
    "sums of parts": (lambda d: np.add.reduceat(d, [0, 2], axis=1)[:, 1], r"calls add.reduceat\(..., axis=...\)"),
    "in place": (lambda d: (np.add.at(d, 0, 1), d)[1][:, 0], r"calls add.at\(...\) of NumPy"),
    "a function of SciPy": (lambda d: scipy.special.expit(d)[:, 0], r"calls expit\(...\) of NumPy"),
}


def model_of(function):
    def model(d, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(slope * function(d), 1.0), obs=y)

    return model


def means(program, d):
    """The means of the rows at a slope of 1."""
    known = handlers.substitute(handlers.seed(program, jax.random.key(0)), {"slope": 1.0})
    return handlers.trace(known).get_trace(len(d), d=d)["y"]["fn"].mean


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", CALLS | OF_TRAINING | OF_WHOLE_NUMBERS)
def test_calls_of_numpy_are_what_numpy_means(kind, name):
    """Of tracers and of arrays alike, in new rows too."""
    function = (CALLS | OF_TRAINING | OF_WHOLE_NUMBERS)[name]
    table, new = TABLES[kind], TABLES[kind][:7] * 2
    if name in OF_WHOLE_NUMBERS and kind == "real":
        with pytest.raises(ModelError, match="mixes the rows of the argument 'd'"):
            GenerativeProgram.from_model(model_of(function), table, LABELS)
        return
    program = GenerativeProgram.from_model(model_of(function), table, LABELS)
    expected = function(new)
    if name in OF_TRAINING:  # by its own numbers, d[:, 0] - a or d[:, 0] * a
        expected = new[:, 0] + (function(table) - table[:, 0])[0]
        expected = new[:, 0] * len(np.unique(table, axis=0)) if name == "distinct rows" else expected
    if name in OF_WHOLE_NUMBERS:
        expected = new[:, 0] * table.max()
    with jax.enable_x64(True):
        np.testing.assert_allclose(means(program, new), expected)
        np.testing.assert_allclose(Traced.of(lambda d: means(program, d), new)(new), expected)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", MIXING)
def test_calls_that_mix_rows_are_refused(kind, name):
    """Though the row that is changed is not the largest one."""
    with pytest.raises(ModelError, match="mixes the rows of the argument 'd'"):
        GenerativeProgram.from_model(model_of(MIXING[name]), TABLES[kind], LABELS)


@pytest.mark.parametrize("name", WITHOUT_JAX)
def test_calls_that_jax_does_not_have_are_refused_by_name(name):
    function, sentence = WITHOUT_JAX[name]
    with pytest.raises(ModelError, match=sentence):
        GenerativeProgram.from_model(model_of(function), TABLES["real"], LABELS)
