"""Programs that try to pass for what they are not: refused, or evaluated row by row; or rightly compressed."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

import bayesgen as bg

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


PLAIN = normal(lambda n, y, m: m[y])


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


@pytest.mark.parametrize("name", RIGHT)
def test_what_depends_on_the_label_alone_has_numpyros_density(name):
    attribute, compressed = RIGHT[name]
    program = with_attribute(attribute)
    assert bool(program.plan.compressed) == compressed
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=19), rng.integers(0, 2, 19)  # a class without rows
    latents = {"mean": rng.normal(size=3)}
    with jax.enable_x64(True):
        expected, _ = log_density(program.function, (19,), {}, {**latents, "x": x, "y": y})
    np.testing.assert_allclose(program.log_density(latents, {"x": x}, y), float(expected), rtol=1e-10)
