"""Where searches for modes start: points that know of the prior, whatever its scale and support."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from counting import compilations

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.program import LogPriorKind, ProgramDensity, center_and_scale
from bayesgen.program.arbitrary import STARTS_NEAR_ORIGIN, dispersed_starts
from bayesgen.solvers.attempts import laplace


def wide(n):
    """A place far from the origin, a scale, a probability that rounds to the ends of its range, an improper site."""
    place = numpyro.sample("place", dist.Normal(1e3, 20.0))
    scale = numpyro.sample("scale", dist.LogNormal(2.0, 0.5).expand([2]).to_event(1))
    edge = numpyro.sample("edge", dist.Uniform(0.0, 1.0))
    anywhere = numpyro.sample("anywhere", dist.ImproperUniform(dist.constraints.real, (), ()))
    ends = numpyro.sample("ends", dist.TransformedDistribution(dist.Normal(0, 1e3), dist.transforms.SigmoidTransform()))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(place + anywhere + edge + ends, scale[0] + scale[1]))


def test_starts_are_the_origin_points_around_it_and_points_about_the_means_of_the_prior():
    program = bg.GenerativeProgram(wide, label=None)
    with jax.enable_x64(True):
        starts = dispersed_starts(program, seed=3, num_draws=500)
        few, again = (dispersed_starts(program, seed=3, num_draws=50) for _ in range(2))
        with compilations() as found:
            other = dispersed_starts(program, seed=4, num_draws=50)
    assert found == []
    np.testing.assert_array_equal(few, again)
    assert not np.array_equal(few, other)
    assert starts.shape == (1 + STARTS_NEAR_ORIGIN + 500, 6) and np.isfinite(starts).all()
    np.testing.assert_array_equal(starts[0], 0.0)
    assert np.abs(starts[1 : 1 + STARTS_NEAR_ORIGIN]).max() < 5
    place, *log_scale, edge, anywhere, _ = starts[1 + STARTS_NEAR_ORIGIN :].T
    about = [scipy.stats.norm(1e3, 20), *2 * [scipy.stats.norm(2.125, 1)], *2 * [scipy.stats.norm()]]
    for points, law in zip([place, *log_scale, edge, anywhere], about, strict=True):
        assert scipy.stats.kstest(points, law.cdf).pvalue > 1e-3


def silent(n):
    """Two modes that are too far apart for one to be seen from the other; the rows say nothing of them."""
    parts = dist.MixtureSameFamily(
        dist.Categorical(probs=jnp.array([0.3, 0.7])), dist.Normal(jnp.array([0.0, 12.0]), 1.0)
    )
    t = numpyro.sample("t", parts)
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(0 * t, 1.0))


def test_a_prior_without_a_variance_has_the_origin_as_its_centre():
    assert center_and_scale(dist.InverseGamma(2.0, 1.0)) == center_and_scale(dist.Cauchy()) == (0.0, 1.0)


def test_a_mode_far_from_the_origin_is_found_where_the_prior_knows_of_it():
    program, X = bg.GenerativeProgram(silent, label=None), {"x": np.asarray([0.1, 0.2, -0.3])}
    for seed in range(8):
        point = bg.fit(program, X, method=bg.MAP(), seed=seed)
        np.testing.assert_allclose(point.parameters["t"], 12.0, atol=1e-6)


def test_a_sampler_is_told_of_several_modes_whatever_the_seed():
    program = bg.GenerativeProgram(silent, label=None)
    problem = prepare(program, {"x": np.asarray([0.1, 0.2, -0.3])})
    with jax.enable_x64(True):
        density = ProgramDensity(program, problem.log_likelihoods, LogPriorKind.SITES)
        prepared = [laplace(density, dispersed_starts(program, seed)) for seed in range(8)]
    assert all(each.num_modes == 2 and each.reason.startswith("2 modes were found") for each in prepared)


SITES = {
    "count": lambda rate, exposure: dist.Poisson(rate * exposure),
    "events": lambda rate, exposure: dist.NegativeBinomial2(rate * exposure, 2.0),
    "level": lambda rate, exposure: dist.Normal(jnp.sqrt(rate - exposure), 1.0),
}
EXPOSURE, COUNTS = np.array([0.5, 0.0, 0.2]), np.array([2.0, 0.0, 1.0])


def gamma():
    return dist.Gamma(1.0, 1.0)


def unplaced():
    return dist.TransformedDistribution(dist.Normal(0, 1), dist.transforms.AffineTransform(jnp.inf, 1.0))


def exposed_density(site, values, prior=gamma):
    """The posterior of a rate given rows of which one is not exposed."""

    def exposed(n, *, exposure):
        rate = numpyro.sample("rate", prior())
        with numpyro.plate("rows", n):
            numpyro.sample(site, SITES[site](rate, exposure))

    problem = prepare(bg.GenerativeProgram(exposed, label=None), {"exposure": EXPOSURE, site: np.asarray(values)})
    return ProgramDensity(problem.program, problem.log_likelihoods, LogPriorKind.SITES)


def test_a_count_of_zero_where_nothing_is_exposed_has_a_density_with_a_slope():
    """The posterior is a gamma distribution; another count there is impossible."""
    with jax.enable_x64(True):
        density, free = exposed_density("count", COUNTS), jnp.array([-0.4])
        np.testing.assert_allclose(jax.grad(density)(free), [4.0 - 1.7 * np.exp(-0.4)], rtol=1e-10)
        assert density.why_not_finite(free) == ""
        assert exposed_density("count", [2.0, 3.0, 1.0])(free) == -np.inf


def test_the_part_of_a_density_that_is_not_finite_is_named():
    free = np.array([-3.0])  # a rate of 0.05
    with jax.enable_x64(True):
        of_level = exposed_density("level", [1.0, 2.0, 7.0]).why_not_finite(free)
        assert of_level == "'level' is 1.0 in row 0, with the log probability nan"
        of_count = exposed_density("count", [2.0, 3.0, 1.0]).why_not_finite(free)
        assert of_count == "'count' is 3.0 in row 1, with the log probability -inf"
        of_events = exposed_density("events", COUNTS).why_not_finite(free)
        assert of_events.startswith("'events' is 0.0 in row 1, with the log probability ")
        assert of_events.endswith(", whose slope by 'rate' is not finite")
        prior = exposed_density("count", COUNTS, unplaced).why_not_finite(free)
        assert prior.startswith("latent 'rate' has the log density ")


def test_a_program_without_latents_has_nothing_to_learn_by_any_method():
    def known(n):
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(1.0 * y, 1.0))

    problem = prepare(bg.GenerativeProgram(known, classes=2), {"x": np.arange(3.0)}, [0, 1, 1])
    for method in (bg.Exact(), bg.NUTS(), bg.MAP(), bg.MLE()):
        refusal = method.refusal(problem)
        assert refusal.startswith("There is nothing to learn") and "program.log_joint({}, X)" in refusal


@pytest.mark.slow  # a search of several climbs
def test_a_mode_at_the_edge_of_the_values_of_a_site_is_told_by_its_name():
    def table(n):
        p = numpyro.sample("p", dist.Dirichlet(jnp.ones(2)))
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones((2, 3))).to_event(1))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Categorical(p))
            numpyro.sample("x", dist.Categorical(shares[y]))

    with pytest.raises(bg.FitError, match=r"at the edge of the values of site 'shares'.*rules the edge out"):
        bg.fit(bg.GenerativeProgram(table, classes=2), {"x": [0, 0, 1, 0, 2.0]}, [0, 0, 0, 1, 1], method=bg.MAP())
