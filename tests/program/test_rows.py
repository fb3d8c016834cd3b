"""Reading the rows of a program of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer.util import log_density

from bayesgen.errors import DataError
from program.programs import BOUND, ROWS, data_of, entangled, mixed, probabilities, program

close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_rows_may_be_a_data_frame(rng):
    latents, rows, _y, _ = data_of(entangled, rng)
    frame = pd.DataFrame(rows)[["t", "x", "z"]]
    close(BOUND[entangled].log_joint(latents, frame), BOUND[entangled].log_joint(latents, rows), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda rows: {"x": rows["x"]}, r"missing \['counts'\]"),
        (lambda rows: {**rows, "w": rows["x"]}, r"not in the program \['w'\]"),
        (lambda rows: {**rows, "counts": rows["counts"][:, :1]}, r"'counts'.*shape \(1,\).*\(2,\)"),
        (lambda rows: {**rows, "counts": rows["counts"] - 90}, "'counts'.*outside its support"),
        (lambda rows: {**rows, "counts": rows["counts"] + 0.5}, "'counts'.*outside its support"),
        (lambda rows: {**rows, "x": np.where(np.arange(ROWS) < 2, np.nan, rows["x"])}, "'x' has 2 missing"),
        (lambda rows: {**rows, "x": np.full(ROWS, "tall")}, "'x'"),
    ],
)
def test_bad_rows_are_refused_by_name(change, match, rng):
    latents, rows, _, _ = data_of(mixed, rng)
    with pytest.raises(DataError, match=match):
        BOUND[mixed].log_joint(latents, change(rows))


def test_multinomial_totals_are_a_covariate_and_checked(rng):
    def words(n, *, length):
        p = probabilities()
        theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(5)).expand([3]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            numpyro.sample("x", dist.Multinomial(length.astype(int), theta[y], total_count_max=9))

    own = program(words)
    rows = rng.multinomial(7, np.full(5, 0.2), ROWS) + np.eye(5, dtype=int)[rng.integers(0, 5, ROWS)]
    rows[0] = [0, 0, 1, 0, 1]
    y = np.arange(ROWS) % 3
    with jax.enable_x64(True):
        latents = {"p": np.array([0.2, 0.3, 0.5]), "theta": rng.dirichlet(np.ones(5), 3)}
        length = rows.sum(1)
        values = {**latents, "x": rows, "y": y}
        expected = float(log_density(words, (ROWS,), {"length": length}, values)[0])
    found = own.log_density(latents, {"x": rows, "length": length.astype(float)}, y)
    close(found, expected, rtol=1e-9)
    with pytest.raises(DataError, match=r"'x'.*row 2 sums to 8, not 9"):
        own.log_density(latents, {"x": rows, "length": length + (np.arange(ROWS) == 2.0)}, y)
