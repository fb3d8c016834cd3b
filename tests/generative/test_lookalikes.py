"""Programs that only look conjugate: refused by Exact, and sampled in full, for the reason that closed_form gives."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from oracles.moments import assert_mean

import bayesgen as bg

from .pairs import COUNTS, LOC, ONES, POSITIVE, REALS, SCALE, VECTORS

SWITCH = np.array([0.0, 1.0, 0.5, 2.0, 0.0, 1.5, 1.0, 0.3, 0.0, 0.8, 1.2, 0.6])  # 0 in the first row, as in others
LABELS = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 1, 2])


class Lookalike(NamedTuple):
    """A program, its rows, and the latent and attribute that have no closed form, with the reason's first words."""

    function: Callable[..., None]
    rows: dict[str, np.ndarray]
    latent: str
    attribute: str
    reason: str

    @property
    def program(self) -> bg.GenerativeProgram:
        has_label = "y" in self.function.__code__.co_consts
        return bg.GenerativeProgram(self.function, **({"classes": 3} if has_label else {"label": None}))

    @property
    def labels(self) -> np.ndarray | None:
        return LABELS if self.program.classes else None


def of_site(prior: Callable[[], dist.Distribution], rows_given: Callable[[Any], dist.Distribution]) -> Callable:
    """A program of one latent and one attribute."""

    def program(n):
        theta = numpyro.sample("theta", prior())
        with numpyro.plate("rows", n):
            numpyro.sample("x", rows_given(theta))

    return program


def beta():
    return dist.Beta(2.0, 3.0)


def gamma():
    return dist.Gamma(2.5, 1.5)


def inverse_gamma():
    return dist.InverseGamma(3.5, 1.5)


def normal():
    return dist.Normal(0.5, 2.0)


def dirichlet():
    return dist.Dirichlet(jnp.array([1.0, 2.0, 0.5]))


# --- one latent, one attribute ---------------------------------------------------------------------------------------

LINK, PAIR, ROWS = "link: 'theta' is not itself the parameter", "pair: no family", "rows have no statistic"
ONE = {
    "square of a probability": (beta, lambda q: dist.Bernoulli(q * q), ONES, LINK),
    "half of a probability": (beta, lambda q: dist.Bernoulli(0.5 * q), ONES, LINK),
    "square of a rate": (gamma, lambda r: dist.Poisson(r * r + r), COUNTS, LINK),
    "rate and a constant": (gamma, lambda r: dist.Poisson(r + 0.5), COUNTS, LINK),
    "rate of a variance": (gamma, lambda r: dist.Normal(0.5, jnp.sqrt(r)), REALS, PAIR),
    "gamma prior of a standard deviation": (gamma, lambda r: dist.Normal(0.5, r), REALS, PAIR),
    "inverse gamma prior of a standard deviation": (inverse_gamma, lambda v: dist.Normal(0.5, v), REALS, PAIR),
    "shape of a gamma": (gamma, lambda r: dist.Gamma(r, 1.5), POSITIVE, PAIR),
    "rate twice": (gamma, lambda r: dist.Gamma(r, r), POSITIVE, PAIR),
    "variance twice": (inverse_gamma, lambda v: dist.Normal(v, jnp.sqrt(v)), REALS, PAIR),
    "mean twice": (normal, lambda m: dist.Normal(m, jnp.exp(0.3 * m)), REALS, PAIR),
    "exponential of a mean": (normal, lambda m: dist.Normal(jnp.exp(m), 1.0), REALS, PAIR),
    "log of a rate": (normal, lambda m: dist.Poisson(jnp.exp(m)), COUNTS, PAIR),
    "logit of a probability": (normal, lambda m: dist.Bernoulli(logits=m), ONES, PAIR),
    "place of a Laplace": (normal, lambda m: dist.Laplace(m, 1.0), REALS, ROWS),
    "place of a Student": (normal, lambda m: dist.StudentT(4.0, m, 1.0), REALS, ROWS),
    "truncated rows": (normal, lambda m: dist.TruncatedNormal(m, 1.0, low=0.0), POSITIVE, ROWS),
    "truncated prior": (lambda: dist.TruncatedNormal(0.0, 1.0, low=0.0), lambda m: dist.Normal(m, 1.0), REALS, PAIR),
    "scale of a Weibull": (gamma, lambda r: dist.Weibull(1 / r, 1.7), POSITIVE, ROWS),
    "probabilities as logits": (dirichlet, lambda p: dist.Categorical(logits=p), LABELS, LINK),
    "mixed probabilities": (dirichlet, lambda p: dist.Categorical(0.75 * p + 0.25 / 3), LABELS, LINK),
    "dispersion of counts": (gamma, lambda r: dist.NegativeBinomial2(2.0, r), COUNTS, ROWS),
    "absolute mean": (normal, lambda m: dist.Normal(jnp.abs(m), 1.0), REALS, PAIR),
    "mean with a floor": (normal, lambda m: dist.Normal(jnp.maximum(m, -2.0), 1.0), REALS, PAIR),
    "mean with a far floor": (normal, lambda m: dist.Normal(jnp.maximum(m, -5.0), 1.0), REALS, PAIR),
    "mean with another slope": (normal, lambda m: dist.Normal(jnp.where(m > 3.0, m, 2 * m - 3.0), 1.0), REALS, PAIR),
    "rate with a ceiling": (gamma, lambda r: dist.Poisson(jnp.minimum(r, 4.0)), COUNTS, LINK),
    "probability with a floor": (beta, lambda q: dist.Bernoulli(jnp.maximum(q, 0.1)), ONES, LINK),
    "rounded mean": (normal, lambda m: dist.Normal(m + jnp.round(m / 8.0), 1.0), REALS, PAIR),
    "masked prior": (lambda: gamma().mask(False), dist.Poisson, COUNTS, "the prior of 'theta' is not normalised"),
}

# --- several latents or attributes, covariates, handlers -------------------------------------------------------------


def product_of_normals(n):
    a, b = numpyro.sample("a", normal()), numpyro.sample("b", normal())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(a * b, 1.0))


def sum_of_rates(n):
    a, b = numpyro.sample("a", gamma()), numpyro.sample("b", gamma())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Poisson(a + b))


def product_of_probabilities(n):
    a, b = numpyro.sample("a", beta()), numpyro.sample("b", beta())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(a * b))


def scale_of_two_means(n):
    """Of the two means that share a scale one has a prior in its units, and one has not."""
    v = numpyro.sample("v", inverse_gamma())
    a, b = numpyro.sample("a", dist.Normal(0.0, jnp.sqrt(v))), numpyro.sample("b", dist.Normal(0.0, 3.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(a, jnp.sqrt(v)))
        numpyro.sample("z", dist.Normal(b, jnp.sqrt(v)))


def scale_of_a_laplace(n):
    """A variance of a normal that is a scale of another site."""
    v = numpyro.sample("v", inverse_gamma())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(0.5, jnp.sqrt(v)))
        numpyro.sample("z", dist.Laplace(0.0, jnp.sqrt(v)))


def power_in_one_row(n, *, s):
    """The link is the identity where s is 1, and there alone."""
    q = numpyro.sample("q", beta())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q ** (1 + s)))


def curve_in_some_rows(n, *, s):
    """The link is linear where s is 0."""
    m = numpyro.sample("m", normal())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m + s * m**2, 1.0))


def curve_far_out(n, *, s):
    """The link is linear where s is small, as arbitrary numbers are."""
    m = numpyro.sample("m", normal())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(jnp.where(s > 100.0, m**2, m), 1.0))


def spread_in_some_rows(n, *, s):
    """The noise is known where s is 0."""
    m = numpyro.sample("m", normal())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, jnp.where(s == 0, 1.0, jnp.exp(s * m / 4))))


def part_of_a_vector(n):
    """One part of a normal vector is a mean, but another part is a logit."""
    m = numpyro.sample("m", dist.MultivariateNormal(LOC, SCALE))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m[0], 1.0))
        numpyro.sample("z", dist.Bernoulli(logits=m[1]))


def part_of_probabilities(n):
    """A coin of one of three probabilities is as good as beta, but the other two share what is left."""
    p = numpyro.sample("p", dirichlet())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(p[0]))
        numpyro.sample("z", dist.Bernoulli(p[1]))


def sums_by_an_index(n):
    """Classes are tied by an index, and some have the mean of two probabilities."""
    q = numpyro.sample("q", beta().expand([2]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Bernoulli(jnp.array([q[0], q[1], q.mean()])[y]))


def columns_of_a_table(n):
    """Rows of the table are probabilities that sum to 1; its columns, which classes have, do not."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.array([1.0, 2.0, 0.5])).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Categorical(probs=p.T[y]))


def columns_by_a_covariate(n, *, s):
    p = numpyro.sample("p", dist.Dirichlet(jnp.array([1.0, 2.0, 0.5])).expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Categorical(probs=p.T[s.astype(int)]))


def means_in_order(n):
    """The usual way to tell components apart: the posterior is normal on one side of a < b alone."""
    m = numpyro.sample("m", normal().expand([3]).to_event(1))
    with numpyro.plate("rows", n):
        y = numpyro.sample("y", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Normal(jnp.sort(m)[y], 1.0))


def noncentered_curve(n):
    """A reparametrised mean that is no sum of products."""
    z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    m = numpyro.deterministic("m", jnp.sinh(2 * z))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, 1.0))


def tempered_prior(n):
    with handlers.scale(scale=0.5):
        q = numpyro.sample("q", beta())
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q))


def tempered_rows(n):
    q = numpyro.sample("q", beta())
    with numpyro.plate("rows", n), handlers.scale(scale=0.5):
        numpyro.sample("x", dist.Bernoulli(q))


def masked_rows(n, *, s):
    q = numpyro.sample("q", beta())
    with numpyro.plate("rows", n), handlers.mask(mask=s > 0):
        numpyro.sample("x", dist.Bernoulli(q))


def with_factor(n):
    q = numpyro.sample("q", beta())
    numpyro.factor("bonus", 2.0 * q)
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q))


def choice_with_factor(n):
    z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.factor("bonus", 2.0 * z)
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(0.2 + 0.6 * z))


def hierarchical(n):
    a = numpyro.sample("a", gamma())
    q = numpyro.sample("q", dist.Beta(a, 3.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Bernoulli(q))


def independent_scale(n):
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))
    m = numpyro.sample("m", dist.Normal(0, 3.0))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, jnp.sqrt(v)))


def scale_to_a_power(n):
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))
    m = numpyro.sample("m", dist.Normal(0, v))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, jnp.sqrt(v)))


def location_by_scale(n):
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))
    m = numpyro.sample("m", dist.Normal(v, jnp.sqrt(v)))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, jnp.sqrt(v)))


def swapped_variances(n):
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0).expand([2]).to_event(1))
    m = numpyro.sample("m", dist.Normal(0, jnp.sqrt(v[::-1])).to_event(1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(m, jnp.sqrt(v)).to_event(1))


SEVERAL = [
    Lookalike(product_of_normals, {"x": REALS}, "b", "x", "pair: no family"),
    Lookalike(sum_of_rates, {"x": COUNTS}, "a", "x", "pair: no family"),
    Lookalike(product_of_probabilities, {"x": ONES}, "a", "x", "pair: no family"),
    Lookalike(scale_of_two_means, {"x": REALS, "z": REALS}, "v", "x", "shared latent: 'v' enters 'z'"),
    Lookalike(scale_of_a_laplace, {"x": REALS, "z": REALS}, "v", "x", "shared latent: 'v' enters 'z'"),
    Lookalike(power_in_one_row, {"x": ONES, "s": SWITCH}, "q", "x", "rows have no statistic"),
    Lookalike(curve_in_some_rows, {"x": REALS, "s": SWITCH}, "m", "x", "rows have no statistic"),
    Lookalike(spread_in_some_rows, {"x": REALS, "s": SWITCH}, "m", "x", "rows have no statistic"),
    Lookalike(part_of_a_vector, {"x": REALS, "z": ONES}, "m", "z", "shared latent: 'm' enters 'x'"),
    Lookalike(part_of_probabilities, {"x": ONES, "z": ONES}, "p", "x", "shared latent: 'p' enters 'z'"),
    Lookalike(sums_by_an_index, {"x": ONES}, "q", "x", "link: 'q' is not itself the parameter"),
    Lookalike(columns_of_a_table, {"x": LABELS}, "p", "x", "the probabilities of 'x' do not sum to 1"),
    Lookalike(columns_by_a_covariate, {"x": LABELS, "s": SWITCH}, "p", "x", "rows have no statistic"),
    Lookalike(means_in_order, {"x": REALS}, "m", "x", "pair: no family"),
    Lookalike(noncentered_curve, {"x": REALS}, "z", "x", "pair: no family"),
    Lookalike(tempered_prior, {"x": ONES}, "q", "x", "the prior of 'q' is not normalised"),
    Lookalike(tempered_rows, {"x": ONES}, "q", "x", "a scale, a mask"),
    Lookalike(masked_rows, {"x": ONES, "s": SWITCH}, "q", "x", "a scale, a mask"),
    Lookalike(with_factor, {"x": ONES}, "q", "x", "the factor 'bonus'"),
    Lookalike(choice_with_factor, {"x": ONES}, "z", "x", "the factor 'bonus'"),
    Lookalike(hierarchical, {"x": ONES}, "q", "x", "given 'a', which is sampled"),
    Lookalike(independent_scale, {"x": REALS}, "m", "x", "given 'v', which is sampled"),
    Lookalike(scale_to_a_power, {"x": REALS}, "m", "x", "given 'v', which is sampled"),
    Lookalike(location_by_scale, {"x": REALS}, "m", "x", "given 'v', which is sampled"),
    Lookalike(swapped_variances, {"x": VECTORS}, "v", "x", "proof: prior times likelihood"),
    Lookalike(hierarchical, {"x": ONES}, "a", "", "hierarchical prior: it enters the prior of 'q'"),
]
LOOKALIKES = {
    name: Lookalike(of_site(*case[:2]), {"x": case[2]}, "theta", "x", case[3]) for name, case in ONE.items()
} | {case.function.__name__: case for case in SEVERAL}


QUICK = (
    "rate and a constant",
    "variance twice",
    "exponential of a mean",
    "truncated rows",
    "truncated prior",
    "mean with a floor",
    "rate with a ceiling",
    "mixed probabilities",
    "product_of_normals, b",
    "sum_of_rates, a",
    "scale_of_two_means, v",
    "curve_in_some_rows, m",
    "part_of_a_vector, m",
    "columns_of_a_table",
    "columns_by_a_covariate",
    "means_in_order, m",
    "noncentered_curve, z",
    "tempered_prior, q",
    "masked_rows, q",
    "hierarchical, q",
    "swapped_variances, v",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LOOKALIKES]
)
def test_what_only_looks_conjugate_is_refused_with_the_reason(name):
    case = LOOKALIKES[name]
    frame = case.program.closed_form
    line = frame[(frame.latent == case.latent) & (frame.attribute == case.attribute)].iloc[0]
    assert bool(line.family) == case.reason.startswith("given")
    assert line.reason.startswith(case.reason)
    assert line.reason
    with pytest.raises(bg.FitError, match=r"Exact\(\) has no closed form for .*Use NUTS\(\)"):
        bg.fit(case.program, case.rows, case.labels, method=bg.Exact())


def test_exact_names_what_is_not_closed_before_what_is_closed_given_it():
    with pytest.raises(bg.FitError, match="no closed form for latent 'v' of attribute 'x'"):
        bg.fit(bg.GenerativeProgram(independent_scale, label=None), {"x": REALS}, method=bg.Exact())


def test_a_choice_whose_prior_is_scaled_has_no_evidence():
    def scaled(n):
        with handlers.scale(scale=2.0):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Bernoulli(0.2 + 0.6 * z))

    with pytest.raises(bg.FitError, match="the prior of 'z' is not normalised"):
        bg.fit(bg.GenerativeProgram(scaled, label=None), {"x": ONES}, method=bg.Exact())


def test_a_link_that_only_the_covariates_of_the_data_show_is_refused_with_these():
    case = Lookalike(curve_far_out, {"x": REALS, "s": 200.0 * SWITCH}, "m", "x", "")
    assert case.program.closed_form["family"].tolist() == ["normal"]
    with pytest.raises(bg.FitError, match=r"Given these data .* 'm' .* Use NUTS\(\)"):
        bg.fit(case.program, case.rows, case.labels, method=bg.Exact())


def expectation(name):
    """Posterior mean and standard deviation by the trapezoid rule over NumPyro's own densities."""
    prior, rows_given, rows, _ = ONE[name]
    grid = np.exp(np.linspace(-9.0, 5.0, 4001)) if prior is not beta else np.linspace(1e-6, 1 - 1e-6, 4001)
    with jax.enable_x64(True):
        log_mass = np.asarray(prior().log_prob(grid) + rows_given(grid[:, None]).log_prob(rows).sum(1))
    mass = np.exp(log_mass - log_mass.max()) * np.gradient(grid)
    mean = mass @ grid / mass.sum()
    return mean, np.sqrt(mass @ (grid - mean) ** 2 / mass.sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["square of a probability", "rate and a constant", "variance twice", "rate twice"])
def test_what_only_looks_conjugate_is_sampled_in_full(name):
    case = LOOKALIKES[name]
    fit = bg.fit(case.program, case.rows, method=bg.NUTS(num_samples=1000))
    assert "integrated_out" not in fit.attributes
    mean, sd = expectation(name)
    assert_mean(fit.parameters["theta"], mean)
    assert_mean((fit.parameters["theta"] - mean) ** 2, sd**2)


def test_it_cannot_be_integrated_out():
    case = LOOKALIKES["square of a probability"]
    with pytest.raises(bg.FitError, match="'theta'"):
        bg.fit(case.program, case.rows, method=bg.NUTS(integrate_out=["theta"]))


def test_priors_that_depend_on_data_are_refused():
    def by_covariate(n, *, t):
        m = numpyro.sample("m", dist.Normal(0.0, jnp.std(t)))
        with numpyro.plate("rows", n):
            numpyro.sample("x", dist.Normal(m, 1.0))

    def as_written(x):
        m = numpyro.sample("m", dist.Normal(0.0, x.std()))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("obs", dist.Normal(m, 1.0), obs=x)

    with pytest.raises(bg.ModelError, match="'t' enters the distribution of the latents"):
        bg.fit(bg.GenerativeProgram(by_covariate, label=None), {"x": REALS, "t": SWITCH}, method=bg.Exact())
    with pytest.raises(bg.ModelError, match="'x' gives an observed value, and it enters the distribution of 'm'"):
        bg.GenerativeProgram.from_model(as_written, REALS)
