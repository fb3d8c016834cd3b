"""`PiecewiseUniform`: quadrature of its density is the oracle of all else."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesgen as bg
from bayesgen.errors import DataError, ModelError

INF, PROBS = np.inf, np.array([0.2, 0.5, 0.3])
BINS = {
    "no tails": ([0.0, 1.0, 3.5, 7.0], None),
    "tails beyond the ends": ([0.0, 1.0, 3.5, 7.0], [0.3, 1.7]),
    "half-lines": ([-INF, 1.0, 3.5, INF], [0.3, 1.7]),
    "one half-line": ([0.0, 1.0, 3.5, INF], [0.0, 1.7]),
}
BREAKS = [-60.0, -20.0, -4.0, 0.0, 1.0, 3.5, 7.0, 20.0, 50.0, 150.0]
close = np.testing.assert_allclose


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=BINS)
def bins(request):
    edges, tails = BINS[request.param]
    return bg.PiecewiseUniform(edges, PROBS, tails, validate_args=False)


def integral(bins, of=np.ones_like, upto=INF):
    """The integral of a function times the density, piece by piece, by Gauss's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    ends = np.minimum(BREAKS, upto)
    halves = np.diff(ends)[:, None] / 2
    x = ends[:-1, None] + halves * (1 + nodes)
    inside = (x >= bins.edges[0]) & (x <= bins.edges[-1]) if bins.tails is None else True
    return float(np.sum(halves * weights * np.where(inside, of(x) * np.exp(bins.log_prob(x)), 0.0)))


def test_moments_and_shares_are_integrals_of_the_density(bins):
    close(integral(bins), 1.0, rtol=1e-9)
    mean = integral(bins, lambda x: x)
    close(bins.mean, mean, rtol=1e-9)
    close(bins.variance, integral(bins, lambda x: (x - mean) ** 2), rtol=1e-8)
    places = [-0.7, 0.4, 1.0, 2.2, 3.5, 5.0, 7.0, 8.4]
    close(bins.cdf(np.array(places)), [integral(bins, upto=x) for x in places], atol=1e-9)
    close(np.diff(bins.cdf(np.array([-1e3, 1.0, 3.5, 1e3]))), PROBS, rtol=1e-12)


def test_quantiles_are_the_inverse_of_shares_and_draws_follow_them(bins):
    levels = np.linspace(0.001, 0.999, 83)
    close(bins.cdf(bins.icdf(levels)), levels, rtol=1e-12)
    draws = np.asarray(bins.sample(jax.random.key(3), (4000,)))
    assert scipy.stats.kstest(draws, lambda x: np.asarray(bins.cdf(x))).pvalue > 1e-3


def test_an_edge_is_in_the_bin_that_begins_there():
    plain = bg.PiecewiseUniform([0.0, 1.0, 3.5, 7.0], PROBS)
    close(np.exp(plain.log_prob(np.array([0.0, 1.0, 3.5, 7.0]))), [0.2, 0.5 / 2.5, 0.3 / 3.5, 0.3 / 3.5], rtol=1e-12)
    close(np.exp(bg.PiecewiseUniform([0.0, 2.0], np.ones(1)).log_prob(1.3)), 0.5)


def test_axes_of_bins_and_probabilities_broadcast():
    edges = np.array([[0.0, 1.0, 2.0], [-5.0, 0.0, 9.0], [1.0, 2.0, 30.0]])
    probs = np.random.default_rng(2).dirichlet([2.0, 3.0], (5, 3))
    table = bg.PiecewiseUniform(edges, probs, [0.5, 0.25])
    assert table.batch_shape == (5, 3) and table.sample(jax.random.key(0), (7,)).shape == (7, 5, 3)
    values = np.random.default_rng(3).normal(1.0, 4.0, (5, 3))
    expected = [
        [bg.PiecewiseUniform(edges[j], probs[i, j], [0.5, 0.25]).log_prob(values[i, j]) for j in range(3)]
        for i in range(5)
    ]
    close(table.log_prob(values), expected, rtol=1e-12)
    close(table.cdf(table.icdf(np.full((5, 3), 0.97))), 0.97, rtol=1e-12)  # beyond the last edge


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0.0, 1.0, 2.0], PROBS), "3 edges are those of 2 bins, and there are 3 probabilities"),
        (([0.0, 2.0, 1.0, 3.0], PROBS), "edges must increase"),
        (([-INF, 1.0, 2.0, 3.0], PROBS), "infinite end needs a tail"),
        (([-INF, 1.0, 2.0, 3.0], PROBS, [0.0, 1.0]), "infinite end needs a tail above 0"),
        (([0.0, 1.0, 2.0, 3.0], PROBS, jnp.array([1.0, -2.0])), "finite and not negative, got -2"),
        (([0.0, 1.0, 2.0, 3.0], PROBS, [[1.0, 1.0], [np.nan, 1.0]]), "finite and not negative, got nan"),
        (([0.0, 1.0, 2.0, 3.0], PROBS, [INF, 1.0]), "finite and not negative, got inf"),
        (([0.0, 1.0, 2.0, 3.0], PROBS, 1.0), "tails are two numbers"),
    ],
)
def test_bins_that_are_none_are_refused(arguments, match):
    with pytest.raises(ModelError, match=match):
        bg.PiecewiseUniform(*arguments)


def income(edges, tails):
    def program(n):
        share = numpyro.sample("share", dist.Beta(2.0, 2.0).expand([2]).to_event(1))
        probs = jnp.stack([share, 1.0 - share], -1)
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.4))
            numpyro.sample("income", bg.PiecewiseUniform(edges(), probs[y], tails))

    return bg.GenerativeProgram(program, classes=2)


@pytest.mark.slow
def test_edges_that_a_program_computes_are_evaluated_row_by_row_with_the_same_result():
    rng = np.random.default_rng(4)
    data, y = {"income": rng.gamma(2.0, 1.5, 37)}, rng.integers(0, 2, 37)
    stated, computed = (income(edges, [0.4, 2.0]) for edges in (lambda: [0.0, 2.0, 5.0], lambda: jnp.arange(3) * 2.5))
    assert not stated.plan.rowwise and computed.plan.rowwise == ("income",)
    assert "write them as numbers" in dict(computed.plan.reasons)["income"]
    same = income(lambda: np.arange(3) * 2.5, [0.4, 2.0])
    latents = {"share": np.array([0.3, 0.8])}
    close(same.log_density(latents, data, y), computed.log_density(latents, data, y), rtol=1e-12)


def test_rows_beyond_ends_without_tails_are_refused():
    with pytest.raises(DataError, match=r"'income': 1 values are outside its support .*0\.0.*5\.0.*9\.0 in row 2"):
        bg.fit(income(lambda: [0.0, 2.0, 5.0], None), {"income": [1.0, 3.0, 9.0]}, [0, 1, 1], method=bg.MAP())


def test_it_is_a_pytree_of_all_its_numbers():
    distribution = bg.PiecewiseUniform([0.0, 1.0, 3.0], np.array([0.2, 0.8]), np.array([0.5, 1.5]))
    again = jax.tree.map(np.asarray, distribution)
    np.testing.assert_array_equal(again.log_prob(0.3), distribution.log_prob(0.3))
