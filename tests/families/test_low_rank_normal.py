"""Columns of a few factors and noise: densities by SciPy, maxima by search, priors by products of normal matrices."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats
from numpyro import handlers
from sklearn.decomposition import PCA

from bayesgen.errors import FitError, ModelError
from bayesgen.families import LowRankNormal, Names, NormalInverseWishart, Scale
from bayesgen.families.factors import nearest_factors, nearest_spectrum, spectrum_of

CLASSES, COLUMNS, FACTORS = 2, 5, 3
close = np.testing.assert_allclose
PRIOR = LowRankNormal(FACTORS, [0.3, 1.0, -2.0, 0.5, 0.1], 0.7, 1.3, 2.5, 0.8)
TABLE = PRIOR.resolve(Scale(CLASSES, COLUMNS))


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def rows_of(rng, size, num_factors=FACTORS, noise=0.4, dimension=COLUMNS):
    loadings = rng.normal(0, 1.5, (dimension, num_factors))
    return 2.0 + rng.normal(size=(size, num_factors)) @ loadings.T + noise * rng.normal(size=(size, dimension))


def process(rng):
    """Loadings and parameters of a table."""
    loadings, noise = rng.normal(0, 1.3, (CLASSES, COLUMNS, FACTORS)), rng.gamma(2.0, 0.3, CLASSES)
    covariance = loadings @ np.swapaxes(loadings, 1, 2) + noise[:, None, None] * np.eye(COLUMNS)
    mean = rng.normal(0, 1, (CLASSES, COLUMNS))
    return loadings, {"mean": mean, "covariance": covariance, "noise_variance": noise}


def prior_by_scipy(loadings, parameters):
    """Log density of mean, loadings and noise variance under PRIOR."""
    total = scipy.stats.norm.logpdf(loadings, 0, 1.3).sum()
    total += scipy.stats.invgamma.logpdf(parameters["noise_variance"], 2.5, scale=0.8).sum()
    for mean, covariance in zip(parameters["mean"], parameters["covariance"], strict=True):
        total += scipy.stats.multivariate_normal.logpdf(mean, PRIOR.location, covariance / 0.7)
    return total


def test_the_prior_density_is_that_of_mean_loadings_and_noise(rng):
    loadings, parameters = process(rng)
    close(TABLE.log_prior(parameters), prior_by_scipy(loadings, parameters), rtol=1e-12)


@jax.jit
def density_of_sites(family, values):
    """The log density of the sites of a block at values, and all values that it has."""
    model = handlers.substitute(handlers.seed(lambda: family.sample_sites("block"), 0), data=values)
    trace = handlers.trace(model).get_trace()
    sites = [site for site in trace.values() if site["type"] == "sample"]
    density = sum(site["fn"].log_prob(site["value"]).sum() for site in sites)
    return density, {name: site["value"] for name, site in trace.items()}


@pytest.mark.parametrize("adapted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_sites_are_the_prior_of_loadings_but_for_the_volume_of_rotations(adapted, rng):
    differences = []
    family = TABLE.reparametrised(process(rng)[1]) if adapted else TABLE
    for _ in range(4):
        loadings, parameters = process(rng)
        with jax.enable_x64(True):
            values, jacobian = {"block_mean": parameters["mean"]}, 0.0
            for site, (parameter, transform) in family.coordinates.items():
                value = values[f"block_{site}"] = np.asarray(transform(parameters[parameter]))
                jacobian += float(np.sum(transform.log_abs_det_jacobian(None, value)))
            density, recorded = jax.device_get(density_of_sites(family, values))
        for name, value in parameters.items():
            close(recorded[f"block_{name}"], value, rtol=1e-10, atol=1e-10)
        differences.append(density + jacobian - prior_by_scipy(loadings, parameters))
    close(differences, differences[0], rtol=1e-10)


@pytest.mark.parametrize("adapted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_draws_of_the_sites_are_products_of_normal_matrices(adapted, rng):
    """Loadings that are made triangular have the moments of loadings loadings' that free ones have."""
    size, more, width = 10_000, 100_000, 1.3  # free ones are made in no time
    family = TABLE.reparametrised(process(rng)[1]) if adapted else TABLE

    def draw(key):
        return handlers.seed(lambda: family.sample_sites("block"), key)()["loadings"][0]

    with jax.enable_x64(True):
        loadings = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(3), size)))
    products = loadings @ np.swapaxes(loadings, 1, 2)
    free = rng.normal(0, width, (more, COLUMNS, FACTORS))
    expected = free @ np.swapaxes(free, 1, 2)
    functions = (
        lambda m: m,
        lambda m: m**2,
        lambda m: m[:, :1] * m[:, 1:2],
        lambda m: np.linalg.det(m[:, :3, :3])[:, None],
    )
    for function in functions:
        one, other = function(products), function(expected)
        error = np.sqrt(one.var(0) / size + other.var(0) / more)
        assert (abs(one.mean(0) - other.mean(0)) < 5 * error).all()


def test_draws_have_the_moments_that_are_told():
    draws = TABLE.sample(jax.random.key(7), (20_000,))
    mean, variance = TABLE.mean(), LowRankNormal(FACTORS, PRIOR.location, 0.7, 1.3, 7.5, 4.0)
    variance = variance.resolve(Scale(CLASSES, COLUMNS))
    light = variance.sample(jax.random.key(8), (20_000,))
    for name, expected in mean.items():
        error = 5 * draws[name].std(0) / np.sqrt(20_000)
        assert (abs(draws[name].mean(0) - expected) < error).all(), name
        close(light[name].var(0), variance.variance()[name], rtol=0.25, err_msg=name)


def test_maximum_likelihood_is_that_of_scikit_learn(rng):
    rows = rows_of(rng, 47)
    codes = np.repeat([0, 1], [20, 27])
    point = TABLE.maximum_likelihood(TABLE.likelihood.summarize(rows, codes, CLASSES))
    for k in range(CLASSES):
        members = rows[codes == k]
        peer, share = PCA(FACTORS).fit(members), (len(members) - 1) / len(members)  # its spectrum has n - 1
        close(point["noise_variance"][k], peer.noise_variance_ * share, rtol=1e-10)
        close(point["covariance"][k], peer.get_covariance() * share, rtol=1e-10, atol=1e-10)
        axes = nearest_factors(point["covariance"], FACTORS)[0][k]
        close(abs((axes / np.linalg.norm(axes, axis=0)).T @ peer.components_.T), np.eye(FACTORS), atol=1e-8)


def searched(rows, family, num_factors):
    """The highest log density of mean, loadings and noise that a search from several starts finds."""
    dimension = rows.shape[1]

    def loss(vector):
        mean, log_noise = vector[:dimension], vector[dimension]
        loadings = vector[dimension + 1 :].reshape(dimension, num_factors)
        covariance = loadings @ loadings.T + np.exp(log_noise) * np.eye(dimension)
        total = of_normal(rows - mean, covariance).sum() - (loadings**2).sum() / 2 / family.loadings_scale**2
        total -= (family.shape + 1) * log_noise + family.scale / np.exp(log_noise)
        return -total - of_normal(mean - family.location, covariance / family.kappa)

    rng = np.random.default_rng(1)
    starts = rng.normal(0, 1, (4, dimension + 1 + dimension * num_factors))
    best = min((scipy.optimize.minimize(loss, start, options={"gtol": 1e-7}) for start in starts), key=lambda m: m.fun)
    mean, log_noise, loadings = best.x[:dimension], best.x[dimension], best.x[dimension + 1 :]
    covariance = (
        np.exp(log_noise) * np.eye(dimension) + loadings.reshape(dimension, -1) @ loadings.reshape(dimension, -1).T
    )
    total = scipy.stats.multivariate_normal(mean, covariance).logpdf(rows).sum()
    total += scipy.stats.norm.logpdf(loadings, 0, family.loadings_scale).sum()
    total += scipy.stats.invgamma.logpdf(np.exp(log_noise), family.shape, scale=family.scale)
    return total + scipy.stats.multivariate_normal.logpdf(mean, family.location, covariance / family.kappa)


def of_normal(deviations, covariance):
    """Log densities of a normal about zero but for a constant, quicker than SciPy's, which decomposes more."""
    squares = (deviations @ np.linalg.inv(covariance) * deviations).sum(-1)
    return -0.5 * (squares + np.linalg.slogdet(covariance)[1])


CASES = {
    "of two factors": (19, 2, 0.5),
    "of one, two asked for": (13, 1, 0.7),
    "of none": (17, 0, 1.0),
    "few": (2, 2, 0.1),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ("of one, two asked for", "few"))) for name in CASES],
)
def test_the_mode_is_the_highest_that_a_search_finds(name, rng):
    size, true, noise = CASES[name]
    rows = rows_of(rng, size, true, noise, dimension=3)
    family = LowRankNormal(2, [1.0, 2.0, 2.5], 0.4, 1.1, 1.7, 0.6).resolve(Scale(None, 3))
    summary = family.summarize(rows)
    mode = family.maximum_posterior(summary)
    found = (
        family.log_prior(mode) + scipy.stats.multivariate_normal(mode["mean"], mode["covariance"]).logpdf(rows).sum()
    )
    close(found, searched(rows, family, 2), rtol=1e-6)
    close(nearest_spectrum(spectrum_of(mode["covariance"])[0], 2)[1], mode["noise_variance"], rtol=1e-9)


def test_a_mode_may_have_fewer_factors_than_were_asked_for(rng):
    family = LowRankNormal(2).resolve(Scale(None, 3, None, np.zeros(3), np.ones(3)))
    mode = family.maximum_posterior(family.summarize(rng.normal(size=(400, 3))))
    lengths = spectrum_of(mode["covariance"])[0] - mode["noise_variance"]
    assert lengths[0] > 0.01 and abs(lengths[2]) < 1e-12


def test_without_rows_the_mode_is_that_of_the_prior():
    summary = TABLE.likelihood.summarize(np.zeros((0, COLUMNS)), np.zeros(0, int), CLASSES)
    mode = TABLE.maximum_posterior(summary)
    for name, value in TABLE.mode().items():
        close(mode[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


def test_what_is_not_there_is_refused_by_name(rng):
    for number in (0, -1, True):
        with pytest.raises(ModelError, match="num_factors must be a whole number"):
            LowRankNormal(number)
    with pytest.raises(ModelError, match="5 factors for 5 columns leave none for noise"):
        LowRankNormal(5).resolve(Scale(None, 5))
    with pytest.raises(ModelError, match="one column alone has no factors"):
        LowRankNormal(1).resolve(Scale(None, 1))
    with pytest.raises(ModelError, match="scale must be positive"):
        LowRankNormal(2, scale=-1.0)
    for refused in (
        PRIOR.predictive,
        lambda: PRIOR.update(rows_of(rng, 9)),
        lambda: PRIOR.log_evidence(rows_of(rng, 9)),
    ):
        with pytest.raises(ModelError, match=r"has no closed form.*NUTS\(\), or MAP\(\)"):
            refused()
    with pytest.raises(ModelError, match="its number of columns from mean"):
        LowRankNormal(2, 0.0, loadings_scale=1.0, scale=1.0).mean()
    names = Names("size", ["ape", "bear"], list("abcde"))
    codes = np.repeat([0, 1], [4, 20])
    with pytest.raises(FitError, match="'size': class 'ape' has 4 rows, whose covariance has rank 3, so 3 factors"):
        TABLE.maximum_likelihood(TABLE.likelihood.summarize(rows_of(rng, 24), codes, CLASSES), names)
    with pytest.raises(FitError, match="no cell is observed at class 'ape'"):
        TABLE.maximum_likelihood(TABLE.likelihood.summarize(rows_of(rng, 24), codes * 0 + 1, CLASSES), names)


def test_rounding_of_many_columns_is_no_noise(rng):
    family = LowRankNormal(2).resolve(Scale(1, 40))
    rows = rng.normal(size=(53, 2)) @ rng.normal(size=(2, 40))
    with pytest.raises(FitError, match="covariance has rank 2, so 2 factors describe them without noise"):
        family.maximum_likelihood(family.likelihood.summarize(rows, np.zeros(53, int), 1))


def test_rows_may_be_fewer_than_columns_and_a_column_constant(rng):
    rows = rows_of(rng, 4, 1)
    rows[:, 2] = 1.5
    family = LowRankNormal(1).resolve(Scale(None, COLUMNS))
    point = family.maximum_likelihood(family.summarize(rows))
    close(point["noise_variance"], _noise(rows), rtol=1e-10)
    assert abs(point["covariance"][2, 2] / point["noise_variance"] - 1) < 1e-10


def _noise(rows):
    """The mean of all eigenvalues but the first, those that are zero among them."""
    return np.sort(np.linalg.eigvalsh(np.cov(rows.T, bias=True)))[:-1].mean()


def test_the_likelihood_rises_with_the_number_of_factors_to_that_of_any_covariance(rng):
    rows, codes = rows_of(rng, 31), np.arange(31) % CLASSES
    scale = Scale(CLASSES, COLUMNS, None, rows.mean(0), rows.var(0))
    families = [*(LowRankNormal(number) for number in range(1, COLUMNS)), NormalInverseWishart()]
    tables = [family.resolve(scale) for family in families]
    summary = TABLE.likelihood.summarize(rows, codes, CLASSES)
    values = [table.log_likelihood(table.maximum_likelihood(summary), summary) for table in tables]
    assert (np.diff(values[:-1]) > 0).all()
    close(values[-2], values[-1], rtol=1e-12)  # all but one column: any covariance is such


def test_hyperparameters_may_be_distributions():
    family = LowRankNormal(2, loadings_scale=dist.LogNormal(0.0, 1.0))
    assert family.hierarchical == ["loadings_scale"]
    with pytest.raises(ModelError, match="loadings_scale is itself a distribution"):
        family.mean()


@pytest.mark.parametrize(
    ("more", "units", "num_factors"),
    [
        (0.0, 1.0, FACTORS),
        (0.0, 1.0, FACTORS - 1),
        (0.0, 1e-154, FACTORS - 1),
        (1e-3, 1.0, FACTORS),
        (1e-3, 1e-8, FACTORS),
    ],
    ids=["of few factors", "of fewer", "of fewer, subnormal noise", "of all columns", "of all columns, in other units"],
)
def test_densities_of_many_columns_are_those_of_scipy(rng, more, units, num_factors):
    """Also of a covariance that no few factors have, as a mean over draws is, and where a cell is missing."""
    dimension, noise = 40, np.array([0.02 * units**2, 3.0])
    loadings = rng.normal(0, 2, (CLASSES, dimension, num_factors)) * np.array([units, 1.0])[:, None, None]
    extra = rng.normal(0, more, (CLASSES, dimension, dimension)) * np.array([units, 1.0])[:, None, None]
    covariance = noise[:, None, None] * np.eye(dimension)
    covariance = covariance + loadings @ np.swapaxes(loadings, 1, 2) + extra @ np.swapaxes(extra, 1, 2)
    mean = rng.normal(size=(CLASSES, dimension)) * np.array([[units], [1.0]])
    parameters = {"mean": mean, "covariance": covariance, "noise_variance": noise}
    density = LowRankNormal(FACTORS).resolve(Scale(CLASSES, dimension)).row_density(parameters)
    rows, rest = rng.normal(0, 3 * units, (5000, dimension)), slice(1, None)
    observed = np.broadcast_to(np.arange(dimension) > 0, (2, dimension))
    tables = density.log_prob(rows), density.log_prob(rows[:2], observed) if units > 1e-150 else None
    for index, unit in enumerate((units, 1.0)):  # SciPy takes no subnormal numbers
        mean, matrix = parameters["mean"][index] / unit, covariance[index] / unit**2
        law, marginal = scipy.stats.multivariate_normal, (mean[rest], matrix[rest, rest])
        close(
            tables[0][:, index],
            law.logpdf(rows / unit, mean, matrix) - dimension * np.log(unit),
            rtol=1e-11,
            atol=1e-8 * (units < 1e-150),
        )
        if tables[1] is not None:  # the inverse of a subnormal variance would overflow
            expected = law.logpdf(rows[:2, rest] / unit, *marginal) - (dimension - 1) * np.log(unit)
            close(tables[1][:, index], expected, rtol=1e-10)
