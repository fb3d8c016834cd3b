"""The pairs of prior and likelihood that NIMBLE integrates out, with their answers by quadrature with SciPy.

Its 29 entries (prior, likelihood, parameter) but the stick that is broken, each with the links that it allows:
identity, linear or multiplicative (the user manual of NIMBLE 1.x, "Conjugate relationships").
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.special
import scipy.stats as stats

import bayesgen as bg

RNG = np.random.default_rng(38)
ONES = np.array([1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0])
COUNTS = np.array([3, 1, 0, 4, 2, 2, 6, 1, 3, 0, 5, 1])
REALS = np.array([0.3, -1.2, 2.1, 0.7, 1.6, -0.4, 0.9, 3.2, 0.1, 1.1, -0.8, 2.4])
POSITIVE = np.abs(REALS)
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.7, 1.0, 3.0, 0.2, 1.4, 1.0, 0.9, 2.2, 0.6])  # the first is 1
OFFSETS = np.array([0.0, 0.5, -2.0, 0.7, 1.0, 0.0, 0.2, -1.4, 1.0, 0.9, 0.3, 0.6])  # the first is 0
CATEGORIES = np.array([2, 0, 1, 2, 2, 0, 0, 2, 1, 2, 1, 0])
BAGS = RNG.multinomial(5, [0.5, 0.3, 0.2], 12)
VECTORS = RNG.normal(size=(12, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]]) + np.array([0.5, -1.0])
NEW = 2  # rows that are predicted; those before them are learned


class Answer(NamedTuple):
    """What is expected of an exact posterior, with its predictive of the new rows."""

    log_evidence: float
    mean: Any
    sd: Any
    log_predictive: Any


class Pair(NamedTuple):
    """A prior, the distribution of a row given the latent (and the weight and offset of the row), and rows."""

    prior: Callable[[], dist.Distribution]
    rows_given: Callable[..., dist.Distribution]
    rows: np.ndarray
    answer: Callable[[np.ndarray], Answer]
    has_weights: bool = False

    @property
    def program(self) -> bg.GenerativeProgram:
        prior, rows_given = self.prior, self.rows_given

        def plain(n):
            theta = numpyro.sample("theta", prior())
            with numpyro.plate("rows", n):
                numpyro.sample("x", rows_given(theta, 1.0, 0.0))

        def weighted(n, *, w, z):
            theta = numpyro.sample("theta", prior())
            with numpyro.plate("rows", n):
                numpyro.sample("x", rows_given(theta, w, z))

        return bg.GenerativeProgram(weighted if self.has_weights else plain, label=None)

    def data(self, part: slice) -> dict[str, np.ndarray]:
        return {"x": self.rows[part]} | ({"w": WEIGHTS[part], "z": OFFSETS[part]} if self.has_weights else {})


# --- latents that are a number: quadrature ---------------------------------------------------------------------------

COORDINATES = {  # support -> coordinates without bounds, and the log of their slope
    (0.0, 1.0): (scipy.special.expit, lambda u: scipy.special.log_expit(u) + scipy.special.log_expit(-u)),
    (0.0, np.inf): (np.exp, lambda u: u),
    (-np.inf, np.inf): (lambda u: u, np.zeros_like),
}


class Flat(NamedTuple):
    """A density of 1."""

    bounds: tuple[float, float]

    def support(self):
        return self.bounds

    def logpdf(self, values):
        return np.zeros_like(values)


class Prior(NamedTuple):
    """A prior by NumPyro and by SciPy."""

    site: Callable[[], dist.Distribution]
    law: Any


class Likelihood(NamedTuple):
    """The distribution of a row given a parameter, by NumPyro and by SciPy, and rows."""

    site: Callable[[Any], dist.Distribution]
    law: Callable[[np.ndarray], Any]
    rows: np.ndarray


def quadrature(law, rows_law):
    """The answer by the trapezoid rule over the latent, in coordinates without bounds."""
    latent_of, log_slope = COORDINATES[law.support()]
    grid = np.linspace(-30.0, 30.0, 4001)
    latent = latent_of(grid)

    def answer(rows):
        given = rows_law(latent, WEIGHTS[:, None], OFFSETS[:, None])
        log_rows = (given.logpdf if hasattr(given.dist, "logpdf") else given.logpmf)(rows[:, None])
        log_mass = log_slope(grid) + log_rows[:-NEW].sum(0) + law.logpdf(latent)
        total = scipy.special.logsumexp(log_mass)
        mass = np.exp(log_mass - total)
        mean = mass @ latent
        predictive = scipy.special.logsumexp(log_mass + log_rows[-NEW:], axis=1) - total
        return Answer(total + np.log(grid[1] - grid[0]), mean, np.sqrt(mass @ (latent - mean) ** 2), predictive)

    return answer


PRIORS = {
    "beta": Prior(lambda: dist.Beta(2.0, 3.0), stats.beta(2.0, 3.0)),
    "flat": Prior(lambda: dist.ImproperUniform(dist.constraints.real, (), ()), Flat((-np.inf, np.inf))),
    "half flat": Prior(lambda: dist.ImproperUniform(dist.constraints.positive, (), ()), Flat((0.0, np.inf))),
    "gamma": Prior(lambda: dist.Gamma(2.5, 1.5), stats.gamma(2.5, scale=1 / 1.5)),
    "inverse gamma": Prior(lambda: dist.InverseGamma(3.5, 1.5), stats.invgamma(3.5, scale=1.5)),
    "normal": Prior(lambda: dist.Normal(0.5, 2.0), stats.norm(0.5, 2.0)),
}
S = 1.75  # a shape, or a standard deviation
MEDIAN = np.exp(0.5)
LIKELIHOODS = {
    "bernoulli": Likelihood(dist.Bernoulli, stats.bernoulli, ONES),
    "binomial": Likelihood(lambda q: dist.Binomial(7, q), lambda q: stats.binom(7, q), COUNTS),
    "negative binomial": Likelihood(
        lambda q: dist.NegativeBinomialProbs(3.0, q), lambda q: stats.nbinom(3, 1 - q), COUNTS
    ),
    "geometric": Likelihood(dist.Geometric, lambda q: stats.geom(q, loc=-1), COUNTS),
    "normal mean": Likelihood(lambda m: dist.Normal(m, S), lambda m: stats.norm(m, S), REALS),
    "lognormal mean": Likelihood(lambda m: dist.LogNormal(m, S), lambda m: stats.lognorm(S, scale=np.exp(m)), POSITIVE),
    "normal sd": Likelihood(lambda s: dist.Normal(0.5, s), lambda s: stats.norm(0.5, s), REALS),
    "lognormal sd": Likelihood(lambda s: dist.LogNormal(0.5, s), lambda s: stats.lognorm(s, scale=MEDIAN), POSITIVE),
    "poisson": Likelihood(dist.Poisson, stats.poisson, COUNTS),
    "normal precision": Likelihood(lambda t: dist.Normal(0.5, t**-0.5), lambda t: stats.norm(0.5, t**-0.5), REALS),
    "lognormal precision": Likelihood(
        lambda t: dist.LogNormal(0.5, 1 / jnp.sqrt(t)), lambda t: stats.lognorm(t**-0.5, scale=MEDIAN), POSITIVE
    ),
    "gamma rate": Likelihood(lambda r: dist.Gamma(S, r), lambda r: stats.gamma(S, scale=1 / r), POSITIVE),
    "inverse gamma scale": Likelihood(
        lambda r: dist.InverseGamma(S, r), lambda r: stats.invgamma(S, scale=r), POSITIVE
    ),
    "exponential rate": Likelihood(dist.Exponential, lambda r: stats.expon(scale=1 / r), POSITIVE),
    "weibull rate": Likelihood(
        lambda r: dist.Weibull(r ** (-1 / S), S), lambda r: stats.weibull_min(S, scale=r ** (-1 / S)), POSITIVE
    ),
    "laplace rate": Likelihood(lambda r: dist.Laplace(0.5, 1 / r), lambda r: stats.laplace(0.5, 1 / r), REALS),
    "normal variance": Likelihood(lambda v: dist.Normal(0.5, v**0.5), lambda v: stats.norm(0.5, v**0.5), REALS),
    "lognormal variance": Likelihood(
        lambda v: dist.LogNormal(0.5, jnp.sqrt(v)), lambda v: stats.lognorm(v**0.5, scale=MEDIAN), POSITIVE
    ),
    "gamma scale": Likelihood(lambda v: dist.Gamma(S, 1 / v), lambda v: stats.gamma(S, scale=v), POSITIVE),
    "inverse gamma rate": Likelihood(
        lambda v: dist.InverseGamma(S, 1 / v), lambda v: stats.invgamma(S, scale=1 / v), POSITIVE
    ),
    "exponential scale": Likelihood(lambda v: dist.Exponential(1 / v), lambda v: stats.expon(scale=v), POSITIVE),
    "weibull scale": Likelihood(
        lambda v: dist.Weibull(v ** (1 / S), S), lambda v: stats.weibull_min(S, scale=v ** (1 / S)), POSITIVE
    ),
    "laplace scale": Likelihood(lambda v: dist.Laplace(0.5, v), lambda v: stats.laplace(0.5, v), REALS),
}
LINKS = {  # the parameter, given the latent, a weight and an offset of the row
    "identity": lambda theta, w, z: theta,
    "multiple": lambda theta, w, z: 2.5 * theta,
    "line": lambda theta, w, z: 2.5 * theta - 1,
    "weights": lambda theta, w, z: w * theta,
    "lines": lambda theta, w, z: w * theta + z,
}
IDENTITY, MULTIPLICATIVE, LINEAR = ("identity",), ("multiple", "identity", "weights"), ("line", "identity", "lines")
BEYOND = ("geometric", "weibull scale")  # likelihoods that NIMBLE has not with these priors
ENTRIES = {  # prior -> the links, and the likelihoods with their parameters
    "beta": (IDENTITY, ("bernoulli", "binomial", "negative binomial", "geometric")),
    "flat": (LINEAR, ("normal mean", "lognormal mean")),
    "half flat": (MULTIPLICATIVE, ("normal sd", "lognormal sd")),
    "gamma": (
        MULTIPLICATIVE,
        (
            "poisson",
            "normal precision",
            "lognormal precision",
            "gamma rate",
            "inverse gamma scale",
            "exponential rate",
            "weibull rate",
            "laplace rate",
        ),
    ),
    "inverse gamma": (
        MULTIPLICATIVE,
        (
            "normal variance",
            "lognormal variance",
            "gamma scale",
            "inverse gamma rate",
            "exponential scale",
            "laplace scale",
            "weibull scale",
        ),
    ),
    "normal": (LINEAR, ("normal mean", "lognormal mean")),
}


def linked(prior, likelihood, link):
    """A prior and a likelihood of the tables, with a link between the latent and the parameter."""
    parameter, (site, law, rows), (prior_site, prior_law) = LINKS[link], LIKELIHOODS[likelihood], PRIORS[prior]
    return Pair(
        prior_site,
        lambda theta, w, z: site(parameter(theta, w, z)),
        rows,
        quadrature(prior_law, lambda theta, w, z: law(parameter(theta, w, z))),
        link in ("weights", "lines"),
    )


NUMBERS = {
    f"{prior}, {likelihood}, {link}": linked(prior, likelihood, link)
    for prior, (links, likelihoods) in ENTRIES.items()
    for likelihood in likelihoods
    for link in links
}
"""Of latents that are a number."""

# --- latents that are vectors and matrices: the chain rule -----------------------------------------------------------


def in_sequence(predictive, law):
    """The answer by the chain rule, from the SciPy distributions of a row and of the latent, given rows."""

    def answer(rows):
        train = rows[:-NEW]
        log_rows = [predictive(train[:i]).logpdf(row) for i, row in enumerate(train)]
        posterior, after = law(train), predictive(train)
        new = [after.logpdf(row) for row in rows[-NEW:]]
        return Answer(np.sum(log_rows), posterior.mean(), np.sqrt(posterior.var()), new)

    return answer


CONCENTRATION = np.array([1.0, 2.0, 0.5])
LOC, COVARIANCE = np.array([0.5, -1.0]), np.array([[1.5, 0.3], [0.3, 0.8]])
MAP, SHIFT = np.array([[1.0, 0.5], [-0.2, 2.0]]), np.array([0.3, -0.4])
SCALE, DF = np.array([[2.0, 0.5], [0.5, 1.5]]), 5.0


class OfBags:
    """The predictive of counts."""

    def __init__(self, rows):
        self.logpdf = stats.dirichlet_multinomial(CONCENTRATION + rows.sum(0), 5).logpmf


class OfCategory:
    """The predictive of a category: the mean of its probability."""

    def __init__(self, rows):
        self.probs = dirichlet_after(np.eye(3)[rows]).mean()

    def logpdf(self, row):
        return np.log(self.probs[row])


def dirichlet_after(counts):
    return stats.dirichlet(CONCENTRATION + counts.sum(0))


def scale_after(rows, multiple):
    """Scale and degrees of freedom of a covariance, `multiple` times which is that of the rows."""
    away = (rows - SHIFT) / np.sqrt(multiple)
    return SCALE + away.T @ away, DF + len(away)


def student(multiple):
    def predictive(rows):
        scale, df = scale_after(rows, multiple)
        return stats.multivariate_t(SHIFT, multiple * scale / (df - 1), df - 1)

    return predictive


def covariance_after(multiple):
    return lambda rows: stats.invwishart(scale_after(rows, multiple)[1], scale_after(rows, multiple)[0])


def precision_after(multiple):
    return lambda rows: stats.wishart(
        scale_after(rows, 1 / multiple)[1], np.linalg.inv(scale_after(rows, 1 / multiple)[0])
    )


def given_mean(rows):
    """The answer for rows with mean `MAP @ theta + SHIFT`: rows and latent are jointly normal."""

    def joint(some):
        design = np.tile(MAP, (len(some), 1))
        covariance = design @ SCALE @ design.T + np.kron(np.eye(len(some)), COVARIANCE)
        return design, design @ LOC + np.tile(SHIFT, len(some)), covariance

    def evidence(some):
        return stats.multivariate_normal(*joint(some)[1:]).logpdf(some.ravel())

    train = rows[:-NEW]
    design, mean, covariance = joint(train)
    gain = SCALE @ design.T @ np.linalg.inv(covariance)
    predictive = [evidence(np.vstack([train, row])) - evidence(train) for row in rows[-NEW:]]
    variances = np.diag(SCALE - gain @ design @ SCALE)
    return Answer(evidence(train), LOC + gain @ (train.ravel() - mean), np.sqrt(variances), predictive)


def wishart(multiple):
    return Pair(
        lambda: dist.Wishart(DF, rate_matrix=SCALE),
        lambda p, w, z: dist.MultivariateNormal(SHIFT, precision_matrix=multiple * p),
        VECTORS,
        in_sequence(student(1 / multiple), precision_after(multiple)),
    )


def inverse_wishart(multiple):
    return Pair(
        lambda: dist.InverseWishart(DF, scale_matrix=SCALE),
        lambda c, w, z: dist.MultivariateNormal(SHIFT, covariance_matrix=multiple * c),
        VECTORS,
        in_sequence(student(multiple), covariance_after(multiple)),
    )


ARRAYS = {
    "dirichlet, multinomial": Pair(
        lambda: dist.Dirichlet(jnp.asarray(CONCENTRATION)),
        lambda p, w, z: dist.Multinomial(5, p),
        BAGS,
        in_sequence(OfBags, dirichlet_after),
    ),
    "dirichlet, categorical": Pair(
        lambda: dist.Dirichlet(jnp.asarray(CONCENTRATION)),
        lambda p, w, z: dist.Categorical(p),
        CATEGORIES,
        in_sequence(OfCategory, lambda rows: dirichlet_after(np.eye(3)[rows])),
    ),
    "multivariate normal, mean": Pair(
        lambda: dist.MultivariateNormal(LOC, SCALE),
        lambda m, w, z: dist.MultivariateNormal(MAP @ m + SHIFT, COVARIANCE),
        VECTORS,
        given_mean,
    ),
    "wishart, precision": wishart(1.0),
    "wishart, precision, multiple of a matrix": wishart(2.5),
    "inverse wishart, covariance": inverse_wishart(1.0),
    "inverse wishart, covariance, multiple of a matrix": inverse_wishart(2.5),
}
"""Of latents that are vectors or matrices."""

PAIRS = NUMBERS | ARRAYS
IMPROPER = {name: case for name, case in PAIRS.items() if "flat" in name}
PROPER = {name: case for name, case in PAIRS.items() if name not in IMPROPER}
