"""The coordinates of sites that are not NumPyro's own."""

import jax
import numpy as np

from bayesgen.families.coordinates import InverseFactor

close = np.testing.assert_allclose
SIZE = 4


def test_factors_relative_to_a_factor_return_and_have_the_volume_of_their_jacobian():
    rng = np.random.default_rng(0)
    scatter = rng.normal(size=(SIZE, 2 * SIZE))
    with jax.enable_x64(True):
        transform = InverseFactor(np.linalg.cholesky(scatter @ scatter.T))
        vector, (rows, columns) = rng.normal(size=SIZE * (SIZE + 1) // 2), np.tril_indices(SIZE)

        @jax.jit
        def of(x):
            factor, jacobian = transform(x), jax.jacfwd(lambda x: transform(x)[rows, columns])(x)
            return factor, transform.inv(factor), transform.log_abs_det_jacobian(x, factor), jacobian

        factor, again, volume, jacobian = map(np.asarray, of(vector))
    close(again, vector, atol=1e-12)
    close(factor, np.tril(factor), atol=0)
    close(volume, np.linalg.slogdet(jacobian)[1], rtol=1e-12)
