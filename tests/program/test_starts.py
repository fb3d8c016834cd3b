"""Where searches for modes start: points that know of the prior, whatever its scale and support."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats
from counting import compilations

import bayesgen as bg
from bayesgen.fitting import prepare
from bayesgen.program import Prior, ProgramDensity
from bayesgen.program.starts import STARTS_NEAR_ORIGIN, dispersed_starts
from bayesgen.solvers import evaluator_of
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


def test_a_mode_far_from_the_origin_is_found_where_the_prior_knows_of_it():
    program, X = bg.GenerativeProgram(silent, label=None), {"x": np.asarray([0.1, 0.2, -0.3])}
    for seed in range(8):
        point = bg.fit(program, X, method=bg.MAP(), seed=seed)
        np.testing.assert_allclose(point.parameters["t"], 12.0, atol=1e-6)


def test_a_sampler_is_told_of_several_modes_whatever_the_seed():
    program = bg.GenerativeProgram(silent, label=None)
    problem = prepare(program, {"x": np.asarray([0.1, 0.2, -0.3])})
    with jax.enable_x64(True):
        density = ProgramDensity(program, problem.log_likelihoods, Prior.SITES)
        evaluator = evaluator_of(density)
        prepared = [laplace(density, evaluator, dispersed_starts(program, seed)) for seed in range(8)]
    assert all(each.num_modes == 2 and each.reason.startswith("2 modes were found") for each in prepared)
