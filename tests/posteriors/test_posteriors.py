"""What a fit holds: means of draws, where elements of a parameter cannot be averaged one by one."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesgen as bg
from bayesgen.data import Rows
from bayesgen.posteriors import Draws

PRIORS = {
    "correlations": lambda: dist.LKJCholesky(3, 0.5).expand([2]).to_event(1),
    "covariances": lambda: dist.InverseWishartCholesky(5.0, scale_tril=jnp.eye(3)).expand([2]).to_event(1),
}


def program_of(make_prior):
    def program(n):
        factor = numpyro.sample("factor", make_prior())
        mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2, 3]).to_event(2))
        with numpyro.plate("rows", n):
            y = numpyro.sample("y", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.MultivariateNormal(mean[y], scale_tril=factor[y]))

    return bg.GenerativeProgram(program, classes=2)


@pytest.mark.parametrize("name", PRIORS)
def test_cholesky_factors_are_averaged_as_the_matrices_that_they_stand_for(name):
    program = program_of(PRIORS[name])
    rng = np.random.default_rng(1)
    factors = np.tril(rng.normal(size=(4, 25, 2, 3, 3)), -1) + np.eye(3) * rng.gamma(2.0, size=(4, 25, 2, 3, 1))
    if name == "correlations":
        factors /= np.linalg.norm(factors, axis=-1, keepdims=True)
    latents = {"factor": factors, "mean": rng.normal(size=(4, 25, 2, 3))}
    posterior = Draws(program, latents, program.parameters_of(latents), {})
    assert set(posterior.mean) == {"factor", "mean"}
    matrices = (factors @ np.swapaxes(factors, -1, -2)).mean((0, 1))
    np.testing.assert_allclose(posterior.mean["factor"], np.linalg.cholesky(matrices), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(posterior.mean["mean"], latents["mean"].mean((0, 1)))
    assert np.abs(factors.mean((0, 1)) - posterior.mean["factor"]).max() > 0.01
    if name == "correlations":
        np.testing.assert_allclose((posterior.mean["factor"] ** 2).sum(-1), 1.0, rtol=1e-6)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    normals = map(scipy.stats.multivariate_normal, posterior.mean["mean"], matrices)
    expected = np.stack([normal.logpdf(rows) for normal in normals], 1)
    np.testing.assert_allclose(posterior.log_joint(Rows({"x": rows})), expected + np.log(0.5), rtol=1e-5)
