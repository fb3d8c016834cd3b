"""The first answer of a session: how few functions it compiles, and that an equal program compiles none."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from counting import compilations

import bayesgen as bg

MOST = 12
ROOT = Path(__file__).parents[2]


def program_of_readme():
    """The code of README's program, with what it imports."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return "import bayesgen as bg\n" + next(block for block in blocks if "def reaction_times" in block)


@functools.cache
def first_answer():
    """The program of README in a process of its own, where nothing is compiled, and which soon says that it works."""
    code = "from counting import compilations\nfrom bayesgen.runtime import progress\nprogress.SILENCE = 0.2\n"
    code += "with compilations() as found:\n"
    code += "".join(f"    {line}\n" for line in program_of_readme().splitlines())
    code += "print('compiled', *found)"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tests", capture_output=True, text=True, check=True)


def test_the_program_of_readme_compiles_few_functions():
    functions = first_answer().stdout.splitlines()[-1].split()[1:]
    assert 0 < len(functions) <= MOST, functions


def test_a_first_fit_that_compiles_for_long_says_once_that_it_is_at_work():
    lines = [line for line in first_answer().stderr.splitlines() if line.startswith("bayesgen: at work on fit(")]
    assert len(lines) == 1 and "bayesgen:" not in first_answer().stdout


def halves(n):
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(2)))
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(p))
        numpyro.sample("x", dist.Normal(mean[y], 1.0))


def answer(function, seed, size):
    program = bg.GenerativeProgram(function, classes=2)
    rows = program.simulate(40, seed=seed, latents={"mean": [-1.0, float(seed)]})
    rows = {name: cells[:size] for name, cells in rows.items()}
    y = rows.pop("y")
    fit = bg.fit(program, rows, y, method=bg.NUTS(num_warmup=30, num_samples=50), progress=False)
    return bg.predict(fit, {"x": np.linspace(-1, 1, 5)}, rule=bg.BMA()).probabilities


@pytest.mark.filterwarnings("ignore::bayesgen.errors.ConvergenceWarning")  # short chains will do
def test_an_equal_program_of_other_rows_compiles_nothing():
    first = answer(halves, 1, 40)
    again = type(halves)(halves.__code__, globals())  # the cell of a notebook that is run again
    with compilations() as found:
        second = answer(again, 2, 37)
    assert found == [] and not np.allclose(first, second)
