"""NumPyro models as they are written, with `obs=`, and data for them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

N, GROUPS = 24, 3
_random = np.random.default_rng(0)
X = _random.normal(size=(N, 2))
GROUP = np.arange(N) % GROUPS
Y = 1.0 + X @ [2.0, -1.0] + 0.5 * GROUP + 0.4 * _random.normal(size=N)
COUNTS = _random.poisson(np.exp(0.3 * X[:, 0] + 0.5)) * (_random.uniform(size=N) < 0.7)
WON = (Y > 0.5).astype(int)


def linear(X, y=None):
    """Linear regression, without a plate."""
    intercept = numpyro.sample("intercept", dist.Normal(0, 3))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    mean = numpyro.deterministic("line", intercept + X @ slopes)
    numpyro.sample("y", dist.Normal(mean, noise), obs=y)


def hierarchical(group, x, y=None):
    """Intercepts by group, their number read by NumPy."""
    mean, spread = numpyro.sample("mean", dist.Normal(0, 2)), numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("groups", len(np.unique(group))):
        effect = numpyro.sample("effect", dist.Normal(mean, spread))
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("data", len(group)):
        numpyro.sample("y", dist.Normal(effect[group] + slope * x, noise), obs=y)


def varying(group, x, num_groups, y=None):
    """Intercepts and slopes by group, correlated by an LKJ prior."""
    scales = numpyro.sample("scales", dist.HalfNormal(1).expand([2]).to_event(1))
    cholesky = numpyro.sample("cholesky", dist.LKJCholesky(2, 2.0))
    means = numpyro.sample("means", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("groups", num_groups):
        effects = numpyro.sample("effects", dist.MultivariateNormal(means, scale_tril=scales[:, None] * cholesky))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(effects[group, 0] + effects[group, 1] * x, 0.5), obs=y)


def horseshoe(X, y=None):
    """Regression with a horseshoe prior, not centred."""
    overall = numpyro.sample("overall", dist.HalfCauchy(1))
    local = numpyro.sample("local", dist.HalfCauchy(jnp.ones(X.shape[1])))
    raw = numpyro.sample("raw", dist.Normal(jnp.zeros(X.shape[1]), 1))
    slopes = numpyro.deterministic("slopes", overall * local * raw)
    numpyro.sample("y", dist.Normal(X @ slopes, 0.5), obs=y)


def robust(X, y=None):
    """Regression with Student's t noise."""
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([X.shape[1]]))
    df, scale = numpyro.sample("df", dist.Gamma(2, 0.1)), numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("data", X.shape[0]):
        numpyro.sample("y", dist.StudentT(df, X @ slopes, scale), obs=y)


def logistic(X, won=None):
    """Logistic regression."""
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("data", len(X)):
        numpyro.sample("won", dist.Bernoulli(logits=X @ slopes), obs=won)


def zero_inflated(X, counts=None):
    """Zero-inflated Poisson regression."""
    gate = numpyro.sample("gate", dist.Beta(1, 1))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    numpyro.sample("counts", dist.ZeroInflatedPoisson(gate, jnp.exp(X @ slopes)), obs=counts)


def pooled(at_bats, hits=None):
    """Baseball, all players alike."""
    chance = numpyro.sample("chance", dist.Beta(2, 5))
    with numpyro.plate("players", at_bats.shape[0]):
        numpyro.sample("hits", dist.Binomial(at_bats, chance), obs=hits)


def censored(is_censored, limit, time=None):
    """Waiting times, of which some are only known to be above a limit."""
    rate = numpyro.sample("rate", dist.Gamma(2, 2))
    with numpyro.plate("data", len(limit)):
        with handlers.mask(mask=~is_censored):
            numpyro.sample("time", dist.Exponential(rate), obs=time)
        with handlers.mask(mask=is_censored):
            numpyro.sample("above", dist.Bernoulli(jnp.exp(-rate * limit)), obs=1.0 * ~jnp.isnan(time))


def ordinal(x, rank=None):
    """Ordinal regression."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    cuts = numpyro.sample(
        "cuts",
        dist.TransformedDistribution(dist.Normal(0, 1).expand([2]).to_event(1), dist.transforms.OrderedTransform()),
    )
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("rank", dist.OrderedLogistic(slope * x, cuts), obs=rank)


def items(values):
    """Rows at the axis -2, columns in a plate of their own, log values observed."""
    with numpyro.plate("columns", values.shape[1], dim=-1):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("item", values.shape[0], dim=-2), numpyro.plate("column", values.shape[1], dim=-1):
        numpyro.sample("value", dist.Normal(mean, 1), obs=jnp.log(values))


def scaled(data):
    """Two sites, one scaled, a mapping as the argument, the number of rows among it."""
    mean, noise = numpyro.sample("mean", dist.Normal(0, 1)), numpyro.sample("noise", dist.Exponential(1))
    with numpyro.plate("data", data["n"]):
        x = numpyro.sample("x", dist.Normal(mean, noise), obs=data["x"])
        with handlers.scale(scale=2.0):
            numpyro.sample("y", dist.Normal(mean * x, 1), obs=data["y"])


def joint(values):
    """Joint normal rows, without a plate."""
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    numpyro.sample("value", dist.MultivariateNormal(mean, jnp.eye(2)), obs=values)


decentred = handlers.reparam(hierarchical, config={"effect": LocScaleReparam(0)})


ESTIMATES = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(J, sigma, y=None):
    """Eight schools, centred: Gelman et al. (2013), Bayesian Data Analysis, section 5.5."""
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", J):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def overdispersed(x, count=None):
    """Poisson regression with an effect of each row, not centred."""
    level, slope = numpyro.sample("level", dist.Normal(0, 3)), numpyro.sample("slope", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("rows", len(x)):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("count", dist.Poisson(jnp.exp(level + slope * x + spread * effect)), obs=count)


def overdispersed_counts(num_rows):
    """Arguments of `overdispersed`."""
    random = np.random.default_rng(0)
    x = random.normal(size=num_rows)
    return x, random.poisson(np.exp(1 + 0.5 * x + 0.6 * random.normal(size=num_rows)))


@dataclasses.dataclass(frozen=True)
class Written:
    """A model and its arguments.

    Attributes:
        model: the model.
        args: its arguments, those of observed values last.
        label: the label that it can have.
        attributes: names of the observed sites.
        covariates: names of the covariates.
        num_observed: number of arguments that are observed values.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    label: str | None
    attributes: tuple[str, ...]
    covariates: tuple[str, ...]
    num_observed: int = 1


_waits = np.where(np.arange(N) % 4 == 0, 1.0, np.abs(Y))
TABLE = {
    "linear": Written(linear, (X, Y), "y", ("y",), ("X",)),
    "hierarchical": Written(hierarchical, (GROUP, X[:, 0], Y), "y", ("y",), ("group", "x")),
    "decentred": Written(decentred, (GROUP, X[:, 0], Y), "y", ("y",), ("group", "x")),
    "varying": Written(varying, (GROUP, X[:, 0], GROUPS, Y), "y", ("y",), ("group", "x")),
    "horseshoe": Written(horseshoe, (X, Y), "y", ("y",), ("X",)),
    "robust": Written(robust, (X, Y), "y", ("y",), ("X",)),
    "logistic": Written(logistic, (X, WON), "won", ("won",), ("X",)),
    "zero-inflated": Written(zero_inflated, (X, COUNTS), "counts", ("counts",), ("X",)),
    "pooled": Written(pooled, (GROUP + 5, GROUP + WON), "hits", ("hits",), ("at_bats",)),
    "censored": Written(
        censored, (np.arange(N) % 4 == 0, np.ones(N), _waits), None, ("time", "above"), ("is_censored", "limit")
    ),
    "ordinal": Written(ordinal, (X[:, 0], GROUP), "rank", ("rank",), ("x",)),
    "items": Written(items, (np.exp(X),), None, ("value",), ()),
    "scaled": Written(scaled, ({"n": N, "x": X[:, 0], "y": Y},), "y", ("x", "y"), ()),
    "joint": Written(joint, (X,), None, ("value",), ()),
}
