"""NumPyro models with `obs=` as programs: `GenerativeProgram.from_model` and `read`."""

import functools

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density

from bayesgen import GenerativeProgram

from .written import TABLE


@functools.cache
def made(name: str, label: bool = True) -> GenerativeProgram:
    """The program of a model in the table."""
    case = TABLE[name]
    return GenerativeProgram.from_model(case.model, *case.args, label=case.label if label else None)


@pytest.mark.parametrize("name", TABLE)
def test_log_density_is_that_of_the_model(name):
    case, program = TABLE[name], made(name)
    observed = (*program.attributes, *([program.label] if program.label else []))
    assert set(observed) == set(case.attributes)
    assert program.covariates == case.covariates
    rows, labels = program.read(*case.args)
    latents = program.draw_latents(seed=3)
    with jax.enable_x64(True):
        expected = jax.jit(lambda latents: log_density(case.model, case.args, {}, latents)[0])(latents)
    np.testing.assert_allclose(program.log_density(latents, rows, labels), expected, rtol=1e-10)
