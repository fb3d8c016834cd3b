"""Programs that try to pass for what they are not: refused, or evaluated row by row; or rightly compressed."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from program.programs import reference_density

import bayesgen as bg
from bayesgen.data import Covariate

sample = numpyro.sample
PROBS = np.asarray([0.2, 0.5, 0.3])  # known: a prior of theirs would be one more thing to compile in every program


def with_attribute(attribute, prior=lambda n: dist.Normal(0, 3), spread=None):
    """A program of three classes whose attribute x is made by `attribute(n, y, mean)`."""

    def function(n):
        mean = sample("mean", prior(n).expand([3]).to_event(1))
        if spread is not None:
            numpyro.factor("known", spread(n) * mean.sum())
        with numpyro.plate("rows", n):
            attribute(n, sample("y", dist.Categorical(probs=PROBS)), mean)

    return bg.GenerativeProgram(function, classes=3)


def normal(loc, scale=lambda n, y: 1.0):
    return lambda n, y, mean: sample("x", dist.Normal(loc(n, y, mean), scale(n, y)))


def under(handler, value):
    def attribute(n, y, mean):
        with handler(value(n, y)):
            sample("x", dist.Normal(mean[y], 1.0))

    return attribute


def scaled(factor):
    return handlers.scale(scale=factor)


def masked(which):
    return handlers.mask(mask=which)


UNLIKE_ROWS = {
    "position": normal(lambda n, y, m: m[y], lambda n, y: jnp.linspace(1, 2, n)),
    "number of the row": normal(lambda n, y, m: m[y] + 0.1 * jnp.arange(n)),
    "neighbour": normal(lambda n, y, m: m[jnp.roll(y, 1)]),
    "centred": normal(lambda n, y, m: m[y] - m[y].mean()),
    "backwards": normal(lambda n, y, m: m[y[::-1]]),
    "sorted": normal(lambda n, y, m: m[jnp.sort(y)]),
    "first row": normal(lambda n, y, m: m[y] + m[y[0]]),
    "size of the class": normal(lambda n, y, m: m[y] * jnp.bincount(y, length=3)[y]),
    "largest label that occurs": normal(lambda n, y, m: m[y] - m[y.max()]),
    "number of rows": normal(lambda n, y, m: m[y], lambda n, y: 1 + 1 / n),
    "more rows than 50": normal(lambda n, y, m: m[y] * (1 if n < 50 else 1.1)),
    "odd number of rows": normal(lambda n, y, m: m[y] * (1 if n % 2 else 1.1)),
    "scaled by the number of rows": under(scaled, lambda n, y: 10.0 / n),
    "scaled by position": under(scaled, lambda n, y: jnp.linspace(1, 2, n)),
    "masked by position": under(masked, lambda n, y: jnp.arange(n) % 2 == 0),
    "without a statistic": lambda n, y, m: sample("x", dist.StudentT(3.0, m[y], 1 + 1 / n)),
}


# one of each kind is in every run: by position, another row, all rows, their number, a handler; and by row
TYPICAL = ("position", "neighbour", "size of the class", "number of rows", "masked by position", "without a statistic")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in UNLIKE_ROWS if name not in TYPICAL]


@pytest.mark.parametrize("name", [*TYPICAL, *SLOW])
def test_rows_that_differ_by_more_than_their_label_are_refused(name):
    with pytest.raises(bg.ModelError, match=r"rows of attribute 'x' are not exchangeable.*covariate"):
        with_attribute(UNLIKE_ROWS[name]).plan  # noqa: B018


# what all rows of a table of covariates have together, of which each row by itself may have the same
OF_ALL_ROWS = {
    "largest": jnp.max,
    "smallest": jnp.min,
    "mean": jnp.mean,
    "median": jnp.median,
    "spread": jnp.std,
    "some are large": lambda x: (x > 2.5).any(),
    "all are positive": lambda x: (x > 1.5).all(),
    "largest of a column": lambda x: x[:, -1].max(),
}


@pytest.mark.parametrize(
    "num_columns", [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "name",
    [name if name in ("largest", "median") else pytest.param(name, marks=pytest.mark.slow) for name in OF_ALL_ROWS],
)
def test_rows_that_know_the_covariates_of_all_rows_are_refused(name, num_columns):
    def plan(statistic):
        def function(n, *, x):
            a = sample("a", dist.Normal(0, 3))
            with numpyro.plate("rows", n):
                sample("v", dist.Normal(a * x[:, 0] * statistic(x), 1.0))

        program = bg.GenerativeProgram(function, label=None)
        return program.for_covariates({"x": Covariate((num_columns,), np.dtype(float))}).plan

    if name != "largest of a column":
        assert plan(jax.vmap(OF_ALL_ROWS[name])).rowwise == ("v",)  # of the cells of a row
    with pytest.raises(bg.ModelError, match=r"rows of attribute 'v' are not exchangeable"):
        plan(OF_ALL_ROWS[name])


PLAIN = normal(lambda n, y, m: m[y])
KEY = jax.random.key(3)


def rows_of(size):
    return {"x": np.zeros(size)}, np.arange(size) % 3


def fit_rows(program, size):
    return bg.fit(program, *rows_of(size), method=bg.MAP(num_starts=1))


# programs that are others at some numbers of rows, or in some rows, and a number at which they are
LATER = {
    "a shift from row 150 on": (normal(lambda n, y, m: m[y] + m[0] * (jnp.arange(n) >= 150)), 40),
    "a scale from 200 rows on": (normal(lambda n, y, m: m[y], lambda n, y: 1.0 if n < 200 else 2.0), 40),
    "a scale of few rows": (normal(lambda n, y, m: m[y], lambda n, y: 2.0 if n < 20 else 1.0), 15),
    "a scale in between": (normal(lambda n, y, m: m[y], lambda n, y: 2.0 if 150 < n < 1000 else 1.0), 300),
    "another class in between": (normal(lambda n, y, m: m[y] if n != 300 else m[2 - y]), 300),
    "in the tails": (normal(lambda n, y, m: m[y] + jnp.where(jnp.abs(m).max() > 9.0, jnp.arange(n), 0)), 40),
    "in the upper tail": (normal(lambda n, y, m: m[y] + jnp.where(m[0] > 9.0, jnp.arange(n), 0)), 40),
    "in the lower tail": (normal(lambda n, y, m: m[y] + jnp.where(m[0] < -9.0, jnp.arange(n), 0)), 40),
    "without a statistic": (lambda n, y, m: sample("x", dist.StudentT(3.0, m[y] + (jnp.arange(n) >= 150))), 40),
}
TAILS = ("in the upper tail", "in the lower tail")
QUICK = ("a shift from row 150 on", "a scale in between", *TAILS, "without a statistic")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LATER]
)
def test_a_program_that_is_another_one_at_the_datas_number_of_rows_is_refused(name):
    attribute, size = LATER[name]
    with pytest.raises(bg.ModelError, match=r"rows of attribute 'x' are not exchangeable.*number of rows"):
        fit_rows(with_attribute(attribute), size)


def test_a_prior_that_only_many_rows_have_is_refused():
    program = with_attribute(PLAIN, prior=lambda n: dist.Normal(0, 1.0 if 150 < n < 1000 else 3.0))
    assert fit_rows(program, 40)
    with pytest.raises(bg.ModelError, match=r"prior of the latents .* depends on the number of rows"):
        fit_rows(program, 300)


@pytest.mark.slow
def test_a_place_that_makes_no_difference_is_none():
    """Programs that know the places of rows, or are other ones at other sizes, and yet make all rows alike."""

    def attribute(n, y, mean):
        table = jnp.zeros((n, 3)) + mean
        parts = jnp.concatenate([jnp.ones(n // 2), np.ones(n - n // 2)])
        noise = jax.random.normal(KEY)
        sample("x", dist.Normal(table[jnp.arange(n), y] * parts + noise, np.ones(n)))

    program = with_attribute(attribute)
    for size in (2, 3, 40, 5_000):
        found = fit_rows(program, size).parameters["mean"]
        assert np.ptp(found[np.unique(rows_of(size)[1])]) < 1e-2


def uniform(n, y, mean):
    sample("x", dist.Uniform(0.0, jnp.exp(mean)[y]))


def pareto(n, y, mean):
    sample("x", dist.Pareto(jnp.exp(mean)[y], 2.0))


def shifted(n, y, mean):
    shift = dist.transforms.AffineTransform(mean[y], 1.0, domain=dist.constraints.positive)
    sample("x", dist.TransformedDistribution(dist.Exponential(1.0), shift))


def stretched(n, y, mean):
    stretch = dist.transforms.AffineTransform(0.0, jnp.exp(mean)[y], domain=dist.constraints.positive)
    sample("x", dist.TransformedDistribution(dist.Exponential(1.0), stretch))


@pytest.mark.parametrize("attribute", [uniform, pytest.param(pareto, marks=pytest.mark.slow), shifted])
def test_a_support_that_depends_on_latents_is_refused(attribute):
    program = with_attribute(attribute)
    assert program.simulate(3)["x"].shape == (3,)
    with pytest.raises(bg.ModelError, match=r"support of attribute 'x' depends on a latent.*numbers or covariates"):
        bg.fit(program, *rows_of(9), method=bg.NUTS())


def test_a_support_that_stays_where_it_is_is_taken():
    assert with_attribute(stretched).plan.rowwise == ("x",)


@pytest.mark.parametrize("options", [{"prior": lambda n: dist.Normal(0, 1.0 * n)}, {"spread": lambda n: 0.1 * n}])
def test_a_prior_that_knows_the_number_of_rows_is_refused(options):
    with pytest.raises(bg.ModelError, match=r"prior of the latents .* depends on the number of rows"):
        with_attribute(PLAIN, **options).plan  # noqa: B018


CONSTANT = jnp.asarray([1.3, -0.4, 2.2])
RIGHT = {
    "one-hot labels": (normal(lambda n, y, m: jax.nn.one_hot(y, 3) @ m), True),
    "chosen by where": (normal(lambda n, y, m: jnp.where(y == 1, m[0], m[2])), True),
    "a constant of the class": (normal(lambda n, y, m: m[y] + CONSTANT[y]), True),
    "an average over classes": (normal(lambda n, y, m: m[y] - m.mean()), True),
    "scaled by a number": (under(scaled, lambda n, y: 0.3), True),
    "masked by the label": (under(masked, lambda n, y: y != 1), True),
    "scaled by the label": (under(scaled, lambda n, y: 1.0 + y), False),
    "spread by the label": (normal(lambda n, y, m: m[y], lambda n, y: 1.0 + y), True),
}


ALIKE = ("a constant of the class", "an average over classes", "scaled by a number")  # others stand for them


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name for name in RIGHT]
)
def test_what_depends_on_the_label_alone_has_numpyros_density(name):
    attribute, compressed = RIGHT[name]
    program = with_attribute(attribute)
    assert bool(program.plan.compressed) == compressed
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=19), rng.integers(0, 2, 19)  # a class without rows
    latents = {"mean": rng.normal(size=3)}
    with jax.enable_x64(True):
        expected = reference_density(program.function, 19)({**latents, "x": x, "y": y}, {})
    np.testing.assert_allclose(program.log_density(latents, {"x": x}, y), float(expected), rtol=1e-10)
