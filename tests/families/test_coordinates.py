"""The coordinates of sites that are not NumPyro's own, and densities in them."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import biject_to

from bayesgen.families.coordinates import (
    InverseWishartWhitening,
    NormalByWhitening,
    RelativeFactor,
    ToWhitening,
    Unwhitening,
    moved,
)
from bayesgen.statistics import inverse_lower

close = np.testing.assert_allclose
SIZE = 4
ROWS, COLUMNS = np.tril_indices(SIZE)


def a_covariance(rng):
    scatter = rng.normal(size=(SIZE, 2 * SIZE))
    return scatter @ scatter.T


def lower(matrix):
    return matrix[ROWS, COLUMNS]


def triangular(entries):
    return jnp.zeros((SIZE, SIZE)).at[ROWS, COLUMNS].set(entries)


def filled(entries):
    """The symmetric matrix with these entries in its lower triangle."""
    half = triangular(entries)
    return half + half.T - jnp.diag(jnp.diag(half))


def inverted(entries):
    return lower(inverse_lower(triangular(entries)))


def test_transforms_return_and_have_the_volume_of_their_jacobian():
    rng = np.random.default_rng(0)
    whitening = inverse_lower(np.linalg.cholesky(a_covariance(rng)))
    vector, covariance = rng.normal(size=len(ROWS)), a_covariance(rng)
    with jax.enable_x64(True):
        cases = [
            (RelativeFactor(whitening), vector, jnp.asarray, lower),
            (Unwhitening(rng.normal(size=SIZE), whitening), vector[:SIZE], jnp.asarray, jnp.asarray),
            (ToWhitening(), lower(covariance), filled, lower),
        ]

        @jax.jit
        def of_all(starts):
            found = []
            for (transform, _, whole, flat), x in zip(cases, starts, strict=True):
                y = transform(whole(x))
                jacobian = jax.jacfwd(lambda x, t=transform, w=whole, f=flat: f(t(w(x))))(x)
                found.append((y, transform.inv(y), whole(x), transform.log_abs_det_jacobian(whole(x), y), jacobian))
            return found

        found = of_all([x for _, x, *_ in cases])
    for y, again, x, volume, jacobian in found:
        close(again, x, atol=1e-12)
        close(volume, np.linalg.slogdet(jacobian)[1], rtol=1e-12)
        if y.ndim == 2:
            close(y, np.tril(y), atol=0)


def test_densities_by_whitening_are_those_by_factors():
    rng = np.random.default_rng(1)
    scale, covariance, (loc, x) = a_covariance(rng), a_covariance(rng), rng.normal(size=(2, SIZE))
    with jax.enable_x64(True):

        @jax.jit
        def both(scale, covariance):
            root, scale_tril = jnp.linalg.cholesky(scale), jnp.linalg.cholesky(covariance)
            whitening = inverse_lower(scale_tril)
            volume = jnp.linalg.slogdet(jax.jacfwd(inverted)(lower(whitening)))[1]
            by_factor = dist.InverseWishartCholesky(6.5, scale_tril=root).log_prob(scale_tril) + volume
            by_whitening = InverseWishartWhitening(6.5, scale_tril=root).log_prob(whitening)
            normals = dist.MultivariateNormal(loc, scale_tril=scale_tril), NormalByWhitening(loc, whitening)
            return (by_factor, by_whitening), tuple(normal.log_prob(x) for normal in normals)

        for plain, found in both(scale, covariance):
            close(found, plain, rtol=1e-12)


def test_whitenings_are_drawn_as_inverses_of_factors():
    key, root = jax.random.key(0), np.linalg.cholesky(a_covariance(np.random.default_rng(2)))
    with jax.enable_x64(True):
        drawn = InverseWishartWhitening(8.0, scale_tril=root).sample(key, (3,))
        factors = dist.InverseWishartCholesky(8.0, scale_tril=root).sample(key, (3,))
        close(np.asarray(drawn) @ np.asarray(factors), np.broadcast_to(np.eye(SIZE), (3, SIZE, SIZE)), atol=1e-12)


def test_moved_sites_have_the_coordinates_of_their_transform():
    transform = RelativeFactor(np.eye(SIZE))
    assert biject_to(moved(dist.InverseWishartCholesky(8.0, scale_tril=np.eye(SIZE)), transform).support) is transform
