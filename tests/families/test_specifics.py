"""What each family is known for: SciPy, brute force, the lecture notes, defaults and refusals."""

import decimal
import itertools
import re

import numpy as np
import pytest
import scipy.sparse
from oracles.families import COLUMNS, matrix
from scipy import integrate, stats

import bayesgen as bg
from bayesgen.errors import BayesgenError, DataError, FitError, ModelError
from bayesgen.families import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletHistogram,
    DirichletMultinomial,
    GammaPoisson,
    LinearNormalInverseGamma,
    LowRankNormal,
    Names,
    NormalInverseGamma,
    NormalInverseWishart,
    Scale,
)
from bayesgen.families.dirichlet import FixedCategorical

close = np.testing.assert_allclose


@pytest.fixture
def rng():
    return np.random.default_rng(8)


# --- evidence by brute force ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "datasets"),
    [
        (BetaBernoulli(0.7, 2.3), list(itertools.product([0, 1], repeat=5))),
        (DirichletCategorical([0.7, 2.3, 1.1]), list(itertools.product(range(3), repeat=4))),
        (
            DirichletMultinomial([0.7, 2.3, 1.1]),
            [
                [one, two]
                for one in itertools.product(range(3), repeat=3)
                if sum(one) == 2
                for two in itertools.product(range(4), repeat=3)
                if sum(two) == 3
            ],
        ),
    ],
)
def test_the_evidences_of_all_data_sets_sum_to_one(family, datasets):
    close(sum(np.exp(family.log_evidence(np.array(data))) for data in datasets), 1.0, rtol=1e-12)


def test_beta_evidence_by_integration():
    tosses = np.array([1, 0, 0, 1, 1, 1])

    def density(p):
        return stats.beta.pdf(p, 1.7, 0.6) * np.prod(stats.bernoulli.pmf(tosses, p))

    close(np.exp(BetaBernoulli(1.7, 0.6).log_evidence(tosses)), integrate.quad(density, 0, 1)[0], rtol=1e-7)
    heads = stats.betabinom.logpmf(4, 6, 1.7, 0.6) - np.log(15)
    close(BetaBernoulli(1.7, 0.6).log_evidence(tosses), heads, rtol=1e-12)


def test_gamma_poisson_evidence_by_integration():
    counts = np.array([3, 0, 4, 1])

    def density(rate):
        return stats.gamma.pdf(rate, 2.6, scale=1 / 0.7) * np.prod(stats.poisson.pmf(counts, rate))

    expected = integrate.quad(density, 0, np.inf, epsrel=1e-10)[0]
    close(np.exp(GammaPoisson(2.6, 0.7).log_evidence(counts)), expected, rtol=1e-8)


def test_normal_evidence_by_integration():
    rows, family = np.array([0.3, 1.9, -0.4]), NormalInverseGamma(0.5, 0.7, 2.6, 1.3)

    variance = np.exp(np.linspace(-4, 5, 401))[:, None]
    mean = 0.6 + 13 * np.sqrt(variance) * np.linspace(-1, 1, 401)
    prior = stats.invgamma.pdf(variance, 2.6, scale=1.3) * stats.norm.pdf(mean, 0.5, np.sqrt(variance / 0.7))
    density = prior * np.prod([stats.norm.pdf(row, mean, np.sqrt(variance)) for row in rows], axis=0)
    of_variance = variance[:, 0] * integrate.simpson(density, x=mean)
    expected = integrate.simpson(of_variance, x=np.log(variance[:, 0]))
    close(np.exp(family.log_evidence(rows)), expected, rtol=1e-5)


# --- Murphy (2007), by SciPy's distributions --------------------------------------------------------------


def test_predictives_are_scipys(rng):
    row = rng.normal(size=COLUMNS)
    mean, scale = np.array([0.5, -1.0, 2.0]), matrix(COLUMNS)
    kappa, df = 0.7, 6.3
    shape = scale * (kappa + 1) / (kappa * (df - COLUMNS + 1))
    wishart = NormalInverseWishart(mean, kappa, df, scale)
    expected = stats.multivariate_t.logpdf(row, mean, shape, df - COLUMNS + 1)
    close(wishart.log_evidence(row[None]), expected, rtol=1e-11)
    gamma = NormalInverseGamma(0.5, 0.7, 2.6, 1.3)
    spread = np.sqrt(1.3 * (0.7 + 1) / (2.6 * 0.7))
    close(gamma.log_evidence([row[0]]), stats.t.logpdf(row[0], 2 * 2.6, 0.5, spread), rtol=1e-11)
    rate = 0.7
    close(GammaPoisson(2.6, rate).log_evidence([4]), stats.nbinom.logpmf(4, 2.6, rate / (1 + rate)), rtol=1e-11)
    counts, alpha = np.array([3, 0, 4]), np.array([0.7, 2.3, 1.1])
    expected = stats.dirichlet_multinomial.logpmf(counts, alpha, 7)
    close(DirichletMultinomial(alpha).log_evidence(counts[None]), expected, rtol=1e-11)


def test_wishart_moments_are_scipys():
    scale, df = matrix(COLUMNS), COLUMNS + 6.5
    family = NormalInverseWishart(np.zeros(COLUMNS), 0.7, df, scale)
    close(family.mean()["covariance"], stats.invwishart.mean(df, scale), rtol=1e-12)
    close(family.variance()["covariance"], stats.invwishart.var(df, scale), rtol=1e-12)
    t = stats.multivariate_t(np.zeros(COLUMNS), scale / (0.7 * (df - COLUMNS + 1)), df - COLUMNS + 1)
    draws = t.rvs(200_000, random_state=3)
    close(family.variance()["mean"], draws.var(0), rtol=0.03)


def test_moments_that_do_not_exist_are_infinite():
    family = NormalInverseGamma(0.0, 1.0, 0.9, 1.0)
    assert family.mean()["variance"] == np.inf
    assert NormalInverseGamma(0.0, 1.0, 1.5, 1.0).variance()["variance"] == np.inf
    wishart = NormalInverseWishart(np.zeros(3), 1.0, 3.5, matrix(3))
    assert np.isinf(wishart.mean()["covariance"]).all() and np.isinf(wishart.variance()["covariance"]).all()


# --- the lecture notes ------------------------------------------------------------------------------------


def test_the_coin():
    tosses = np.repeat([1, 0], [90, 10])
    family = BetaBernoulli(1, 1)
    close(family.maximum_likelihood(family.summarize(tosses))["probs"], 0.9, rtol=1e-15)
    posterior = family.update(tosses)
    close(posterior.mode()["probs"], 0.9, rtol=1e-15)  # under a flat prior MAP is MLE
    close(posterior.predictive().probs, 91 / 102, rtol=1e-6)
    close(BetaBernoulli(2, 5).update(tosses).mode()["probs"], 91 / 105, rtol=1e-15)
    close(BetaBernoulli(2, 5).update(tosses).variance()["probs"], stats.beta.var(92, 15), rtol=1e-13)


def test_add_one_smoothing():
    posterior = DirichletCategorical(np.ones(4)).update([0, 0, 2])
    close(posterior.mean()["probs"], [3 / 7, 1 / 7, 2 / 7, 1 / 7], rtol=1e-15)
    words = DirichletMultinomial(np.ones(4)).update([[2, 0, 1, 0], [0, 0, 5, 0]])
    close(words.mean()["probs"], np.array([3, 1, 7, 1]) / 12, rtol=1e-15)


def test_bayes_rule_of_the_disease():
    """Prior 0.004, sensitivity 0.8, false positives 0.1: a table of two known processes."""
    density = BetaBernoulli().row_density({"probs": np.array([[0.1], [0.8]])})
    joint = np.array([0.996, 0.004]) * np.exp(density.log_prob(np.array([[1.0]]))[0])
    close(joint[1] / joint.sum(), 0.031, atol=5e-4)


def test_gaussian_maximum_likelihood_divides_by_n(rng):
    rows = rng.normal(3, 2, (17, COLUMNS)) @ matrix(COLUMNS)
    gamma, wishart = NormalInverseGamma(), NormalInverseWishart()
    close(gamma.maximum_likelihood(gamma.summarize(rows))["variance"], rows.var(0), rtol=1e-12)
    expected = np.cov(rows.T, bias=True)
    close(wishart.maximum_likelihood(wishart.summarize(rows))["covariance"], expected, rtol=1e-12)


# --- defaults ---------------------------------------------------------------------------------------------


def test_default_hyperparameters_are_in_the_units_of_the_data():
    mean, variance = np.array([2.0, -3.0, 0.5]), np.array([4.0, 0.25, 9.0])
    scale = Scale(2, 3, 5, mean, variance)
    gamma = NormalInverseGamma().resolve(scale)
    close(gamma.location, np.tile(mean, (2, 1)))
    assert (gamma.kappa == 0.01).all() and (gamma.shape == 1.5).all()
    close(gamma.scale, np.tile(variance / 2, (2, 1)))
    close(NormalInverseGamma(spherical=True).resolve(scale).scale, np.full((2, 1), variance.mean() / 2))
    close(NormalInverseGamma(tied=True).resolve(scale).scale, variance[None] / 2)
    wishart = NormalInverseWishart().resolve(scale)
    assert (wishart.df == 5).all() and (wishart.kappa == 0.01).all() and wishart.kappa.shape == (2,)
    close(wishart.scale, np.tile(np.diag(variance), (2, 1, 1)))
    assert NormalInverseWishart(tied=True).resolve(scale).scale.shape == (1, 3, 3)
    poisson = GammaPoisson().resolve(Scale(2, 3, None, np.array([2.0, 0.0, 0.5])))
    close(poisson.rate, np.tile([0.5, 1.0, 2.0], (2, 1)))
    assert (poisson.shape == 1).all()
    assert (DirichletCategorical().resolve(scale).concentration == np.ones((2, 3, 5))).all()
    assert (DirichletMultinomial().resolve(scale).concentration == np.ones((2, 3))).all()


POOLED = [NormalInverseGamma(spherical=True), NormalInverseGamma(tied=True, spherical=True), LowRankNormal(1)]


@pytest.mark.parametrize("family", POOLED, ids=["spherical", "tied and spherical", "low rank"])
def test_a_column_that_does_not_vary_adds_nothing_to_a_default_that_columns_share(family):
    def shared(*variances):
        resolved = family.resolve(Scale(2, len(variances), None, np.zeros(len(variances)), np.array(variances)))
        return [np.ravel(value)[0] for name, value in resolved.hyperparameters.items() if name.endswith("scale")]

    for unit in (1.0, 1e-3):
        left_out = shared(4.0 * unit**2, 9.0 * unit**2)
        close(left_out[-1] / unit**2, shared(6.5, 6.5)[-1], rtol=1e-14)
        for constant in (0.0, np.nan):
            assert shared(4.0 * unit**2, constant, 9.0 * unit**2) == left_out
    assert shared(0.0, np.nan, 0.0) == shared(1.0, 1.0)


def test_a_family_alone_resolves_its_defaults_from_its_data(rng):
    rows = np.column_stack([rng.normal(3, 2, 17), np.full(17, 0.1)])
    posterior = NormalInverseGamma().update(rows)
    scales = np.array([rows[:, 0].var(), 1.0])  # a constant column counts as variance 1
    expected = NormalInverseGamma(rows.mean(0), 0.01, 1.5, scales / 2).update(rows)
    for key, value in expected.hyperparameters.items():
        close(posterior.hyperparameters[key], value, rtol=1e-12)
    wishart = NormalInverseWishart().update(rows)
    expected = NormalInverseWishart(rows.mean(0), 0.01, 4, np.diag(scales)).update(rows)
    close(wishart.scale, expected.scale, rtol=1e-12, atol=1e-12)
    spherical = NormalInverseGamma(spherical=True)
    expected = NormalInverseGamma(rows.mean(0), 0.01, 1.5, scales[0] / 2, spherical=True).update(rows)
    close(spherical.update(rows).scale, expected.scale, rtol=1e-12)
    close(GammaPoisson().update([3, 0, 4, 1]).rate, 4 + 1 / 2, rtol=1e-15)


def test_a_histogram_alone_has_no_tails_where_none_are_stated(rng):
    alone, stated = (DirichletHistogram(None, [2.0, 3.0], edges=[0, 1, 4], tails=tails) for tails in (None, 0))
    for moments in ("mean", "mode", "variance"):
        close(getattr(alone, moments)()["probs"], getattr(stated, moments)()["probs"], rtol=0)
    assert alone.sample(rng, (5,))["probs"].shape == (5, 2)
    close(alone.predictive().log_prob(2.0), np.log(0.6 / 3), rtol=1e-6)
    close(alone.log_prior({"probs": np.array([0.3, 0.7])}), np.log(12 * 0.3 * 0.7**2), rtol=1e-12)
    with pytest.raises(ModelError, match="infinite end needs tails"):
        DirichletHistogram(edges=[0, 1, np.inf]).predictive()
    for moments in ("mean", "mode", "variance", "predictive"):
        with pytest.raises(ModelError, match="no training columns to find bins for: give edges"):
            getattr(DirichletHistogram(3), moments)()
        if moments != "predictive":
            with pytest.raises(ModelError, match=f"how many values there are, and {moments} needs to"):
                getattr(DirichletCategorical(2.0), moments)()


def test_sparse_documents_are_dense_ones(rng):
    rows = rng.poisson(0.5, (11, 7))
    family = DirichletMultinomial(0.7)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        close(family.log_evidence(kind(rows)), family.log_evidence(rows), rtol=1e-12)
        close(family.update(kind(rows)).concentration, family.update(rows).concentration)
        density = family.resolve(Scale(2, 7)).row_predictive()
        close(density.log_prob(kind(rows)), density.log_prob(rows), rtol=1e-12)


# --- refusals ---------------------------------------------------------------------------------------------

NAMES = Names("plants", ("oak", "elm"), ("height", "girth", "age"))


@pytest.mark.parametrize(
    ("family", "match"),
    [
        (BetaBernoulli(1, 1), "flat"),
        (BetaBernoulli(0.5, 2), "unbounded"),
        (DirichletCategorical([1, 1, 1]), "flat"),
        (DirichletCategorical([0.5, 2, 2]), "unbounded"),
        (DirichletMultinomial([1, 1, 1]), "flat"),
        (GammaPoisson(0.5, 1.0), "unbounded"),
    ],
)
def test_a_mode_that_is_not_there_is_refused_with_its_place(family, match):
    table = family.resolve(Scale(2, 3, 3))
    with pytest.raises(FitError, match=f"'plants'.*'oak'.*{match}"):
        table.mode(NAMES)
    with pytest.raises(FitError, match=match):
        family.mode()


def constant(rng, codes):
    rows = rng.normal(size=(len(codes), 3))
    rows[codes == 1, 1] = 4.0
    return rows


@pytest.mark.parametrize("family", [NormalInverseGamma(), NormalInverseWishart()])
def test_a_constant_column_names_block_class_and_column(family, rng):
    codes = np.arange(19) % 2
    summary = family.likelihood.summarize(constant(rng, codes), codes, 2)
    with pytest.raises(FitError, match=r"'plants'.*'elm'.*'girth'.*Exact"):
        family.maximum_likelihood(summary, NAMES)
    shared = type(family)(tied=True).maximum_likelihood(summary)  # the other class varies there
    assert all(np.isfinite(value).all() for value in shared.values())


def test_too_few_rows_name_block_class_rows_and_dimension(rng):
    codes = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    family = NormalInverseWishart()
    summary = family.likelihood.summarize(rng.normal(size=(8, 3)), codes, 2)
    with pytest.raises(FitError, match=r"'plants'.*'elm' has 3 rows.*dimension 3.*rank 2.*4 rows"):
        family.maximum_likelihood(summary, NAMES)
    two = family.likelihood.summarize(rng.normal(size=(3, 3)), np.array([0, 0, 1]), 2)
    with pytest.raises(FitError, match="all classes together"):
        NormalInverseWishart(tied=True).maximum_likelihood(two, NAMES)


def test_wishart_hyperparameters_are_checked():
    with pytest.raises(ModelError, match="scale must be a symmetric positive-definite"):
        NormalInverseWishart(scale=[[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ModelError, match="scale must be a symmetric positive-definite"):
        NormalInverseWishart(scale=[[1.0, 0.2], [0.3, 1.0]])
    with pytest.raises(ModelError, match="df must exceed D - 1 = 2"):
        NormalInverseWishart(df=2.0).resolve(Scale(2, 3, None, np.zeros(3), np.ones(3)))


def test_sharing_over_an_axis_that_is_not_there_is_refused(rng):
    rows = rng.normal(size=(7, 3))
    for family in (NormalInverseGamma(tied=True), NormalInverseWishart(tied=True)):
        with pytest.raises(ModelError, match="tied=True shares over classes"):
            family.update(rows)
    with pytest.raises(ModelError, match="spherical=True shares over columns"):
        NormalInverseGamma(0.0, 1.0, 2.0, 1.0, spherical=True).mean()
    with pytest.raises(DataError, match=r"NormalInverseGamma takes rows \(n, D\)"):
        NormalInverseGamma(spherical=True).update(rows[:, 0])


UNLIKE = {  # family, hyperparameter, its shape, the shape that is wanted of three classes and two columns
    "BetaBernoulli": (BetaBernoulli([1, 2, 3]), "a", (3,), (3, 2)),
    "GammaPoisson": (GammaPoisson(1, np.ones((2, 3))), "rate", (2, 3), (3, 2)),
    "GammaPoisson, shape": (GammaPoisson(np.ones(5)), "shape", (5,), (3, 2)),
    "DirichletCategorical": (DirichletCategorical(np.ones((5, 4))), "concentration", (5, 4), (3, 2, 4)),
    "NormalInverseGamma": (NormalInverseGamma([1, 2, 3]), "mean", (3,), (3, 2)),
    "tied": (NormalInverseGamma(scale=np.ones((3, 2)), tied=True), "scale", (3, 2), (1, 2)),
    "NormalInverseWishart": (NormalInverseWishart(np.zeros(5)), "mean", (5,), (3, 2)),
    "NormalInverseWishart, scale": (NormalInverseWishart(scale=np.eye(3)), "scale", (3, 3), (3, 2, 2)),
    "LowRankNormal": (LowRankNormal(loadings_scale=np.ones(2)), "loadings_scale", (2,), (3,)),
    "LinearNormalInverseGamma": (LinearNormalInverseGamma(mean=[1, 2, 3]), "mean", (3,), (3, 2)),
    "LinearNormalInverseGamma, precision": (
        LinearNormalInverseGamma(precision=np.ones((5, 1, 1))), "precision", (5, 1, 1), (3, 2, 1, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_a_hyperparameter_of_another_shape_is_named_with_both_shapes(name):
    family, argument, given, wanted = UNLIKE[name]
    scale = Scale(3, 2, 4, np.ones(2), np.ones(2), np.zeros(1), np.ones(1))
    match = f"{type(family).__name__}: the hyperparameter {argument} has shape {given}, and {wanted} is wanted"
    with pytest.raises(ModelError, match=re.escape(match)):
        family.resolve(scale)


def test_hyperparameters_of_a_family_used_alone_go_together():
    unlike = r"NormalInverseGamma: .*do not go together: mean \(2,\), scale \(3,\)"
    with pytest.raises(ModelError, match=unlike):
        NormalInverseGamma([1, 2], scale=[1, 2, 3]).mean()
    with pytest.raises(ModelError, match="Linear" + unlike):
        LinearNormalInverseGamma(0, 1, [1, 2], 1, scale=[1, 2, 3], center=0).mean()


def test_lengths_must_agree():
    with pytest.raises(BayesgenError, match="length 3, the data 5"):
        DirichletMultinomial([1, 1, 1]).update(np.ones((2, 5)))
    with pytest.raises(ModelError, match="cannot know how many values"):
        DirichletCategorical().update([0, 1])


def test_fixed_probabilities():
    fixed = FixedCategorical([0.2, 0.3, 0.5])
    counts = fixed.summarize(np.array([0, 2, 2]))
    close(fixed.log_evidence(counts), np.log(0.2 * 0.25), rtol=1e-14)
    assert fixed.update(counts) is fixed and (fixed.variance()["probs"] == 0).all()
    certain = FixedCategorical([0.0, 1.0])
    assert certain.log_evidence(certain.summarize(np.array([1]))) == 0.0
    assert certain.log_evidence(certain.summarize(np.array([0]))) == -np.inf
    for probs in ([0.5, 0.6], [-0.5, 1.5], [[1.0]]):
        with pytest.raises(ModelError, match="nonnegative and sum to 1"):
            FixedCategorical(probs)
    with pytest.raises(ModelError, match="2 fixed class probabilities, but 3 classes"):
        certain.resolve(Scale(num_categories=3))


def log_product(start, count):
    """log(start (start + 1) ... (start + count - 1)), with 60 digits."""
    with decimal.localcontext(prec=60):
        return sum((decimal.Decimal(start) + index).ln() for index in range(count))


@pytest.mark.parametrize("size", [1e-8, 3.0, 1e8, 1e12, 1e15])
def test_evidences_of_large_and_small_concentrations_have_all_digits(size):
    with decimal.localcontext(prec=60):
        total = decimal.Decimal(size) + decimal.Decimal("3.5")
        beta = log_product(size, 7) + log_product(3.5, 4) - log_product(total, 11)
        total = decimal.Decimal(size) * 2 + 1
        dirichlet = log_product(size, 3) + log_product(size, 5) + log_product(1.0, 2) - log_product(total, 10)
        rate = decimal.Decimal(size)
        poisson = log_product(size, 6) - rate * ((rate + 4) / rate).ln() - 6 * (rate + 4).ln()
    assert BetaBernoulli(size, 3.5).log_evidence([1] * 7 + [0] * 4) == pytest.approx(float(beta), rel=1e-14)
    family = DirichletCategorical([size, size, 1.0])
    assert family.log_evidence([0] * 3 + [1] * 5 + [2] * 2) == pytest.approx(float(dirichlet), rel=1e-14)
    counts = [1, 1, 0, 4]  # 4! is in the base measure
    expected = float(poisson) - np.log(24)
    assert GammaPoisson(size, size).log_evidence(counts) == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_predictives_of_large_concentrations_are_those_of_known_parameters():
    poisson = GammaPoisson(1e14, 1e14).resolve(Scale(2, 1))
    density = poisson.row_predictive()
    counts = np.arange(6.0)[:, None]
    table = density.log_prob(counts)
    np.testing.assert_allclose(table[:, 0], stats.poisson(1.0).logpmf(counts[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(GammaPoisson(1e14, 1e14).predictive().log_prob(counts), table[:, :1], rtol=1e-5)
    normal = NormalInverseGamma(mean=0.0, kappa=1e15, shape=1e15, scale=4e15).resolve(Scale(1, 1))
    density = normal.row_predictive()
    rows = np.linspace(-9, 9, 7)[:, None]
    table = density.log_prob(rows)
    np.testing.assert_allclose(table[:, 0], stats.norm(0, 2).logpdf(rows[:, 0]), rtol=1e-12)


def test_evidences_of_large_degrees_of_freedom_are_those_of_known_covariances(rng):
    covariance = np.array([[2.0, 0.7], [0.7, 1.5]])
    rows = rng.multivariate_normal([1.0, -2.0], covariance, size=7)
    known = stats.multivariate_normal([1.0, -2.0], covariance).logpdf(rows).sum()
    wishart = NormalInverseWishart(mean=[1.0, -2.0], kappa=1e15, df=1e13, scale=1e13 * covariance)
    assert wishart.log_evidence(rows) == pytest.approx(known, rel=1e-9)
    gamma = NormalInverseGamma(mean=1.0, kappa=1e15, shape=1e13, scale=2e13)
    assert gamma.log_evidence(rows[:, 0]) == pytest.approx(stats.norm(1, 2**0.5).logpdf(rows[:, 0]).sum(), rel=1e-9)


def test_the_beta_predictive_resolves_both_ends():
    """a / (a + b) is 1 in floating point; the classes are told apart by the zeros that it leaves room for."""
    family = BetaBernoulli(1e8, [[3e-8], [1e-8]])
    fit = bg.fit(bg.NaiveBayes(family, class_prior=[0.5, 0.5]), [[True], [True]], ["a", "b"], method=bg.Exact())
    answer = bg.predict(fit, [[False]], rule=bg.BMA())
    np.testing.assert_allclose(answer.probabilities, [[0.75, 0.25]], rtol=1e-12)
    predictive = BetaBernoulli(1e8, 1e-8).predictive()
    assert float(predictive.log_prob(0)) == pytest.approx(np.log(1e-16), rel=1e-5)


def multivariate_t_logpdf(family, row):
    """Murphy (2007), eq. 258, by SciPy, in units in which the scale matrix has ones on its diagonal."""
    freedom = family.df - 2
    spread = family.scale * (family.kappa + 1) / (family.kappa * freedom)
    units = np.sqrt(np.diagonal(spread))
    correlation = spread / np.outer(units, units)
    return (
        stats.multivariate_t.logpdf((row - family.location) / units, None, correlation, freedom) - np.log(units).sum()
    )


@pytest.mark.parametrize("unit", [1.0, 1e6, 1e9])
def test_wishart_evidences_with_a_prior_in_other_units_are_products_of_predictives(rng, unit):
    rows = rng.normal(0, 1, (11, 3)) * [1.0, 1.0, unit]
    before = NormalInverseWishart(mean=[0, 0, 0], kappa=1.0, df=5.0, scale=np.eye(3))
    family, total = before.resolve(Scale(num_columns=3)), 0.0
    for row in rows:
        total += multivariate_t_logpdf(family, row)
        family = family.update(row[None])
    assert before.log_evidence(rows) == pytest.approx(total, rel=1e-9)


def test_the_mode_of_weights_that_are_all_of_ones_is_one():
    ones = np.random.default_rng(1).random(200)  # 1 + w + 1 - 2 is often less than 1 + w - 1
    family = bg.BetaBernoulli().replace(a=1 + ones, b=np.ones(200))
    np.testing.assert_array_equal(family.mode()["probs"], 1.0)
