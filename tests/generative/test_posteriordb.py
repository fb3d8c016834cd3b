"""Regressions and a hierarchy of posteriordb, coefficients integrated out: the moments of its reference draws.

The posterior of a regression with normal noise depends on the data by means and covariances alone. These stand here;
tests make rows that have them.

Source of these numbers and of the moments of 10,000 reference draws: posteriordb 1.0
(https://github.com/stan-dev/posteriordb, BSD-3; Magnusson et al. 2025); data of Gelman and Hill (2006).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats

import bayesgen as bg


class Sums(NamedTuple):
    """Number of rows, means of columns, and the lower Cholesky factor of their covariance (denominator n)."""

    num_rows: int
    means: list[float]
    factor: list[list[float]]

    @property
    def rows(self) -> np.ndarray:
        """Rows with these means and covariances: waves that are orthonormal, and orthogonal to a constant."""
        n, size = self.num_rows, len(self.means)
        waves = np.sqrt(2) * np.cos(np.pi * np.outer(np.arange(n) + 0.5, 1 + np.arange(size)) / n)
        lower = np.zeros((size, size))
        for index, line in enumerate(self.factor):
            lower[index, : index + 1] = line
        return np.asarray(self.means) + waves @ lower.T


class Posterior(NamedTuple):
    """A model, and means and standard deviations of its reference draws.

    Attributes:
        columns: the name of the data.
        features: of columns: coefficients of the mean, one row a feature; None for all columns but the last.
        has_intercept: whether a constant is the first feature.
        weights, noise: priors of the coefficients and of the standard deviation.
        mean, sd: of the coefficients, and of the standard deviation of noise.
    """

    columns: str
    features: list[list[float]] | None
    has_intercept: bool
    weights: Callable[[int], dist.Distribution]
    noise: Callable[[], dist.Distribution]
    mean: list[float]
    sd: list[float]


def flat(size):
    return dist.ImproperUniform(dist.constraints.real_vector, (), (size,))


def half_flat():
    return dist.ImproperUniform(dist.constraints.positive, (), ())


def normal(size):
    return dist.Normal(0.0, 10.0).expand([size]).to_event(1)


def line(size):
    return dist.Normal(jnp.array([9.31290323, 0.0]), jnp.array([100.0, 0.03333333])).to_event(1)


def half_cauchy():
    return dist.HalfCauchy(2.5)


COLUMNS = {
    # mother has a degree of a high school, intelligence of the mother, product of both, score of the child
    "kidiq": Sums(
        434,
        [0.7857142857, 100.0, 80.30946736, 86.79723502],
        [
            [0.4103259033],
            [4.235752046, 14.37149858],
            [41.94025149, 12.01841709, 5.317923913],
            [4.830053302, 8.104174995, -2.575335822, 17.88845672],
        ],
    ),
    # logs of two diameters, height of the canopy, total height and density; group; log of the weight
    "mesquite": Sums(
        46,
        [0.6643728769, 0.3255202231, 0.04818748666, 0.340766664, 0.3021834732, 0.4347826087, 5.919542765],
        [
            [0.389515502],
            [0.4487695609, 0.2588860598],
            [0.2078683241, 0.032076675, 0.2676871968],
            [0.2335098923, 0.05657368236, 0.1682608235, 0.1590784627],
            [0.3168382809, -0.01145093239, 0.1261750204, 0.01012649873, 0.4330712731],
            [0.1814123896, 0.1477694313, 0.1270542375, -0.0801358146, 0.1608433926, 0.377578213],
            [0.7684528466, 0.2448422385, 0.1059215071, 0.110587739, -0.04650610841, -0.2202907361, 0.3033948875],
        ],
    ),
    # height, male, product of both, log of earnings
    "earnings": Sums(
        1192,
        [66.91694631, 0.4236577181, 29.68288591, 9.714349426],
        [
            [3.845023988],
            [0.3466831764, 0.3521116744],
            [25.24674331, 23.72792963, 1.369674399],
            [0.2261521804, 0.149019701, 0.01019932642, 0.8797419798],
        ],
    ),
    # year, temperature of the summer
    "kilpisjarvi": Sums(62, [3982.5, 9.312903226], [[17.89553017], [0.3669144736, 1.090004817]]),
    # five values before a value of a series, the latest first; the value
    "arK": Sums(
        195,
        [-0.01602068258, -0.01386121846, -0.01286997402, -0.01103376275, -0.009085139358, -0.01620778274],
        [
            [0.499897873],
            [0.4751070655, 0.1666054949],
            [0.4575211358, 0.1348673712, 0.1654037225],
            [0.4269582019, 0.1729758696, 0.1397394882, 0.1598929818],
            [0.3886135559, 0.1897117528, 0.1825517368, 0.1240697598, 0.1540088262],
            [0.4706166322, 0.02419113965, -0.04259140723, -0.0430758438, -0.0463910433, 0.147135697],
        ],
    ),
    # five correlated features and a response, simulated
    "sblrc": Sums(
        100,
        [-53.87335255, -0.1828758631, -13.80005981, 15.02917048, 27.38938345, -25.53537911],
        [
            [200.8068046],
            [-27.79124579, 193.0913326],
            [-42.49326312, -33.5300867, 174.3364837],
            [-49.0102126, -83.00551522, -73.27909696, 171.8382095],
            [-68.87959991, -57.86873177, -96.61039453, -144.9631848, 105.8109278],
            [12.806279, 18.67578024, 4.338769525, 26.87336589, 105.6466338, 0.9988988482],
        ],
    ),
}
VOLUME, AREA, SHAPE, HEIGHT, GROUP = (  # logs, as sums of logs
    [1, 1, 1, 0, 0, 0],
    [1, 1, 0, 0, 0, 0],
    [1, -1, 0, 0, 0, 0],
    [0, 0, 0, 1, 0, 0],
    [0, 0, 0, 0, 0, 1],
)
DENSITY = [0, 0, 0, 0, 1, 0]
POSTERIORS = {
    "kidiq-kidscore_momhs": Posterior(
        "kidiq",
        [[1, 0, 0]],
        True,
        flat,
        half_cauchy,
        [77.5146, 11.8132, 19.866],
        [2.036, 2.297, 0.672],
    ),
    "kidiq-kidscore_momiq": Posterior(
        "kidiq",
        [[0, 1, 0]],
        True,
        flat,
        half_cauchy,
        [25.9165, 0.608628, 18.2758],
        [5.968, 0.05898, 0.624],
    ),
    "kidiq-kidscore_momhsiq": Posterior(
        "kidiq",
        [[1, 0, 0], [0, 1, 0]],
        True,
        flat,
        half_cauchy,
        [25.7941, 5.98743, 0.562994, 18.1392],
        [5.86, 2.216, 0.06046, 0.6185],
    ),
    "kidiq-kidscore_interaction": Posterior(
        "kidiq",
        None,
        True,
        flat,
        half_cauchy,
        [-11.3586, 51.0328, 0.967413, -0.481586, 17.9811],
        [13.69, 15.25, 0.1476, 0.1613, 0.614],
    ),
    "mesquite-logmesquite": Posterior(
        "mesquite",
        None,
        True,
        flat,
        half_flat,
        [5.35036, 0.39857, 1.1492, 0.37721, 0.390044, 0.109251, -0.584669, 0.34068],
        [0.1778, 0.2932, 0.2179, 0.293, 0.3284, 0.1268, 0.1342, 0.04008],
    ),
    "mesquite-logmesquite_logva": Posterior(
        "mesquite",
        [VOLUME, AREA, GROUP],
        True,
        flat,
        half_flat,
        [5.22414, 0.612229, 0.292417, -0.527325, 0.347907],
        [0.09271, 0.2002, 0.2481, 0.1189, 0.03948],
    ),
    "mesquite-logmesquite_logvas": Posterior(
        "mesquite",
        [VOLUME, AREA, SHAPE, HEIGHT, DENSITY, GROUP],
        True,
        flat,
        half_flat,
        [5.35152, 0.375892, 0.397439, -0.374895, 0.389363, 0.110039, -0.584714, 0.340757],
        [0.1774, 0.29, 0.3028, 0.2404, 0.3291, 0.1262, 0.1332, 0.04033],
    ),
    "mesquite-logmesquite_logvash": Posterior(
        "mesquite",
        [VOLUME, AREA, SHAPE, HEIGHT, GROUP],
        True,
        flat,
        half_flat,
        [5.30991, 0.387177, 0.409639, -0.317464, 0.423455, -0.538554, 0.339395],
        [0.1697, 0.2865, 0.2999, 0.2284, 0.3214, 0.1225, 0.03932],
    ),
    "mesquite-logmesquite_logvolume": Posterior(
        "mesquite",
        [VOLUME],
        True,
        flat,
        half_flat,
        [5.17085, 0.722009, 0.42667],
        [0.08642, 0.0562, 0.04779],
    ),
    "earnings-logearn_height": Posterior(
        "earnings",
        [[1, 0, 0]],
        True,
        flat,
        half_flat,
        [5.78172, 0.0587723, 0.893957],
        [0.4548, 0.006781, 0.01839],
    ),
    "earnings-logearn_height_male": Posterior(
        "earnings",
        [[1, 0, 0], [0, 1, 0]],
        True,
        flat,
        half_flat,
        [8.15766, 0.0205771, 0.423857, 0.881821],
        [0.5979, 0.009244, 0.07258, 0.01803],
    ),
    "earnings-logearn_interaction": Posterior(
        "earnings",
        None,
        True,
        flat,
        half_flat,
        [8.39002, 0.0169859, -0.0776132, 0.00742465, 0.882002],
        [0.8485, 0.01312, 1.259, 0.01866, 0.01833],
    ),
    "kilpisjarvi_mod-kilpisjarvi": Posterior(
        "kilpisjarvi",
        None,
        True,
        line,
        half_flat,
        [-60.7123, 0.0175836, 1.13167],
        [29.96, 0.007524, 0.1078],
    ),
    "arK-arK": Posterior(
        "arK",
        None,
        True,
        normal,
        half_cauchy,
        [-0.00071865, 0.692163, 0.439043, 0.105816, -0.035435, -0.301512, 0.150567],
        [0.01071, 0.07055, 0.08731, 0.09308, 0.08604, 0.06988, 0.007774],
    ),
    "sblrc-blr": Posterior(
        "sblrc",
        None,
        False,
        normal,
        lambda: dist.HalfNormal(10.0),
        [0.999647, 0.998732, 0.998199, 0.998844, 0.998593, 1.04229],
        [0.0009825, 0.001006, 0.001086, 0.001019, 0.000978, 0.0767],
    ),
}


def assert_reference(draws, mean, sd):
    """Means and mean squares within four errors of both Monte Carlo methods."""
    mean, sd = np.asarray(mean), np.asarray(sd)
    away = (draws - mean) / sd
    for values, expected, spread in ((away, 0.0, 1.0), (away**2, 1.0, np.sqrt(2.0))):
        error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
        error = np.sqrt(error**2 + spread**2 / 10_000)
        difference = values.mean((0, 1)) - expected
        assert (np.abs(difference) < 4 * error).all(), (difference, error)


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTERIORS)
def test_regressions_have_the_moments_of_the_reference_draws(name):
    case = POSTERIORS[name]
    columns = COLUMNS[case.columns].rows
    features = columns[:, :-1] if case.features is None else columns[:, :-1] @ np.array(case.features, float).T
    if case.has_intercept:
        features = np.column_stack([np.ones(len(features)), features])
    size = features.shape[1]

    def regression(n, *, f):
        beta = numpyro.sample("beta", case.weights(size))
        sigma = numpyro.sample("sigma", case.noise())
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(f @ beta, sigma))

    rows, method = {"f": features, "y": columns[:, -1]}, bg.NUTS(num_samples=2000, integrate_out=["beta"])
    fit = bg.fit(bg.GenerativeProgram(regression, label=None), rows, method=method)
    assert fit.attributes["integrated_out"] == ("beta",)
    draws = np.concatenate([fit.parameters["beta"], fit.parameters["sigma"][..., None]], -1)
    assert_reference(draws, case.mean, case.sd)


@pytest.mark.slow
def test_eight_schools_have_the_moments_of_the_reference_draws():
    """Means of schools and of all of them are integrated out; their spread alone is sampled."""

    def centered(n, *, school, error):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
        theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([8]).to_event(1))
        with numpyro.plate("rows", n):
            numpyro.sample("effect", dist.Normal(theta[school], error))

    rows = {
        "effect": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
        "error": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
        "school": np.arange(8),
    }
    fit = bg.fit(bg.GenerativeProgram(centered, label=None), rows, method=bg.NUTS(num_samples=2000))
    assert set(fit.attributes["integrated_out"]) == {"mu", "theta"}
    parts = [fit.parameters["theta"], *(fit.parameters[name][..., None] for name in ("mu", "tau"))]
    mean = [6.1505, 4.93958, 3.90591, 4.79602, 3.61444, 4.05115, 6.31717, 4.884, 4.41052, 3.60206]
    sd = [5.616, 4.645, 5.28, 4.771, 4.614, 4.796, 5.003, 5.317, 3.309, 3.198]
    draws = np.concatenate(parts, -1)
    away = (draws - mean) / sd
    error = np.sqrt(array_stats.mcse(away, chain_axis=0, draw_axis=1, method="mean") ** 2 + 1 / 10_000)
    assert (np.abs(away.mean((0, 1))) < 4 * error).all()
    np.testing.assert_allclose(draws.std((0, 1)), sd, rtol=0.08)
