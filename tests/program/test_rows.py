"""Reading the rows of a program of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

from bayesgen import summarize
from bayesgen.errors import DataError
from program.programs import BOUND, ROWS, data_of, entangled, mixed, probabilities, program, reference_density

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
        (lambda rows: {**rows, "x": np.where(np.arange(ROWS) < 2, np.inf, rows["x"])}, "'x' has 2 infinite"),
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
        expected = float(reference_density(words, ROWS)(values, {"length": length}))
    found = own.log_density(latents, {"x": rows, "length": length.astype(float)}, y)
    close(found, expected, rtol=1e-9)
    with pytest.raises(DataError, match=r"'x'.*row 2 sums to 8, not 9"):
        own.log_density(latents, {"x": rows, "length": length + (np.arange(ROWS) == 2.0)}, y)


def _counted(distribution):
    """A two-class program with one attribute, `x ~ distribution(p of the class, class)`."""

    def function(n):
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(2, 2.0)))
        p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, 2.0)).expand([2]).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(weights))
            numpyro.sample("x", distribution(p[y], y))

    return program(function, 2)


def _tossed(n, *, trials):
    p = numpyro.sample("p", dist.Beta(2, 2).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Binomial(trials.astype(int), p[y]))


def _followed(n):
    p = numpyro.sample("p", dist.Beta(2, 2).expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Bernoulli(0.5))
        z = numpyro.sample("z", dist.Poisson(3.0 + y))
        numpyro.sample("x", dist.Binomial(z, p[y]))


COUNTED = {
    "multinomial": (_counted(lambda p, y: dist.Multinomial(3, p)), {"x": [[1, 2, 0], [0, 1, 2], [1, 1, 1]]}),
    "binomial": (_counted(lambda p, y: dist.Binomial(5, p[..., 0])), {"x": [1, 5, 3]}),
    "of the class": (_counted(lambda p, y: dist.Binomial(3 + 2 * y, p[..., 0])), {"x": [1, 5, 3]}),
    "with a covariate": (program(_tossed, 2), {"x": [1, 4, 3], "trials": [2, 4, 6]}),
    "of an attribute": (program(_followed, 2), {"x": [1, 4, 3], "z": [2, 4, 6]}),
}
IMPOSSIBLE = [
    ("multinomial", [10, 0, 0], r"row 1 sums to 10, not 3\. Pass the totals"),
    ("multinomial", [0.5, 2.5, 0], r"2 values .*\(whole numbers\); the first is 0\.5 in row 1\. Correct"),
    ("multinomial", [-1, 3, 1], r"outside its support .*in row 1"),
    ("binomial", 2.5, r"\(whole numbers\); the first is 2\.5 in row 1"),
    ("binomial", 6, r"upper_bound=5\)\); the first is 6\.0 in row 1"),
    ("of the class", 6, r"upper_bound=5\)\); the first is 6\.0 in row 1"),
    ("with a covariate", 2.9, r"\(whole numbers\); the first is 2\.9 in row 1"),
    ("with a covariate", 5, r"upper_bound=4\)\); the first is 5\.0 in row 1"),
    ("of an attribute", 5, r"upper_bound=4\)\); the first is 5\.0 in row 1"),
]


@pytest.mark.parametrize(("name", "value", "match"), IMPOSSIBLE)
def test_impossible_counts_are_refused_in_training_and_in_prediction(name, value, match):
    counted, X = COUNTED[name]
    counted.read_rows(None, X)
    bad = {**X, "x": [X["x"][0], value, X["x"][2]]}
    with pytest.raises(DataError, match=f"Attribute 'x': .*{match}"):
        summarize(counted, bad, [0, 1, 1])
    with pytest.raises(DataError, match=f"Attribute 'x': .*{match}"):
        counted.log_joint({}, bad)  # reads before it looks at the latents, as every prediction does


def test_a_count_that_one_class_alone_can_make_is_impossible_where_the_class_is_another():
    counted, X = COUNTED["of the class"]
    latents = {"weights": np.full(2, 0.5), "p": np.full((2, 3), 1 / 3)}
    assert np.isneginf(counted.log_joint(latents, X)[1]).tolist() == [True, False]
    summarize(counted, X, [0, 1, 0])
    with pytest.raises(DataError, match=r"upper_bound=3\)\); the first is 5\.0 in row 1"):
        summarize(counted, X, [0, 0, 1])
