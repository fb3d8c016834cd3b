"""Training between generative and discriminative: the limits of the coupling, and its objective, by other means."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

import bayesgen as bg
from bayesgen.errors import FitError, ModelError
from bayesgen.fitting.discriminative import CoupledDensity, check_bounded
from bayesgen.log_density import LogDensity
from bayesgen.records import record
from bayesgen.solvers import AffineMap, Optimum, Status

MODEL = bg.GaussianDiscriminant("tied")
close = np.testing.assert_allclose


@pytest.fixture(scope="module")
def rows():
    """Two classes that are not normal, in columns of unlike scales; two rows in three have no label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 96)
    X = rng.normal(size=(96, 2)) + np.outer(y, [1.5, -1.0])
    X = (X + 0.3 * X**2) * [0.1, 30.0]
    labels = y.astype(object)
    labels[32:] = None
    return X, labels


def fitted(rows, objective, method=bg.MAP):
    return bg.fit(MODEL, *rows, method=method(objective=objective))


def probabilities(fit, X):
    return bg.predict(fit, X, rule=bg.PlugIn()).probabilities


@pytest.fixture(scope="module")
def posterior_center(rows):
    return fitted(rows, bg.Hybrid(1.0))


@pytest.fixture(scope="module")
def between(rows):
    return fitted(rows, bg.Hybrid(1.0))


def assert_alike(one, other, **tolerance):
    for name, value in one.items():
        close(value, other[name], err_msg=name, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("method", [bg.MAP, bg.MLE])
def test_without_distance_it_is_the_joint_fit_of_all_rows(rows, method):
    fit, joint = fitted(rows, bg.Hybrid(1e-5), method), bg.fit(MODEL, *rows, method=method())
    assert_alike(fit.parameters, joint.parameters, rtol=1e-3)  # EM stops a little before its end
    assert_alike(fit.attributes["other_parameters"], joint.parameters, rtol=1e-3)
    assert joint.attributes["total_weight_unlabelled"] == fit.attributes["total_weight_unlabelled"] == 64


@pytest.mark.slow
@pytest.mark.parametrize("method", [bg.MAP, bg.MLE])
def test_at_great_distance_it_is_the_conditional_fit(rows, method):
    fit, conditional = (fitted(rows, objective, method) for objective in (bg.Hybrid(1e4), "conditional"))
    close(probabilities(fit, rows[0]), probabilities(conditional, rows[0]), atol=1e-4)
    if method is bg.MAP:  # the prior tells apart what p(y | x) does not
        assert_alike(fit.parameters, conditional.parameters, rtol=2e-2)


@pytest.mark.slow
def test_the_other_process_is_that_of_all_attributes_when_nothing_binds_it(rows):
    """EM of a mixture of two normal classes, which starts from its responsibilities, goes nowhere else."""
    fit = fitted(rows, bg.Hybrid(1e4), bg.MLE)
    other = fit.attributes["other_parameters"]
    densities = np.stack(
        [
            share * scipy.stats.multivariate_normal(mean, other["real_covariance"]).pdf(rows[0])
            for share, mean in zip(other["class_probs"], other["real_mean"], strict=True)
        ],
        1,
    )
    shares = densities / densities.sum(1, keepdims=True)
    mixture = bg.fit(bg.Mixture(MODEL, 2), rows[0], method=bg.MLE(starts=shares))
    total = bg.predict(mixture, rows[0], rule=bg.PlugIn()).log_marginal.sum()
    assert np.log(densities.sum(1)).sum() == pytest.approx(total, abs=1e-3)


@pytest.mark.slow
def test_between_the_limits_each_part_is_between_its_own(rows, between):
    X, labels = rows
    known = labels != None  # noqa: E711
    codes = labels[known].astype(int)

    def of_labels(fit):
        table = scipy.special.log_softmax(fit.log_joint(X[known]), axis=1)
        return table[np.arange(len(codes)), codes].sum()

    def of_attributes(parameters):
        parts = [
            np.log(share) + scipy.stats.multivariate_normal(mean, parameters["real_covariance"]).logpdf(X)
            for share, mean in zip(parameters["class_probs"], parameters["real_mean"], strict=True)
        ]
        return np.logaddexp(*parts).sum()

    far, near = fitted(rows, bg.Hybrid(1e4)), fitted(rows, bg.Hybrid(1e-5))
    assert of_labels(near) < of_labels(between) < of_labels(far)
    tables = [fit.attributes["other_parameters"] for fit in (near, between, far)]
    assert of_attributes(tables[0]) < of_attributes(tables[1]) + 1e-9 < of_attributes(tables[2]) + 2e-9


@pytest.mark.slow
def test_units_of_columns_and_repeated_rows_do_not_matter(rows, between):
    X, labels = rows
    other = fitted((X * [1e3, 1e-4] + [7.0, -3.0], labels), bg.Hybrid(1.0))
    close(probabilities(other, X * [1e3, 1e-4] + [7.0, -3.0]), probabilities(between, X), atol=1e-5)


def test_what_cannot_be_coupled_is_refused(rows):
    for coupling in (0.0, -1.0, np.inf, np.nan, "wide", True):
        with pytest.raises(ModelError, match="coupling must be a positive number"):
            bg.Hybrid(coupling)
    with pytest.raises(FitError, match="No row has a label"):
        bg.fit(MODEL, rows[0], [None] * 96, method=bg.MAP(objective=bg.Hybrid(1.0)), schema=bg.Schema(classes=[0, 1]))


@record
class Slope(LogDensity):
    """A density that rises along its first coordinate without end."""

    dimension = 2

    def __call__(self, vector):
        return vector[0]

    def constrain(self, vector):
        return {}

    def name_of(self, index):
        return "up" if index == 0 else "aside"


def test_the_site_along_which_the_first_of_two_processes_rises_is_named():
    """The pair is a + t b and a - t b: where t is small, a wide distance b moves neither far."""
    whitening = AffineMap.shift(np.array([3.0, -2.0]))
    coupled = CoupledDensity(Slope(), Slope(), whitening, np.asarray(0.01))
    found = Optimum(np.zeros(4), 0.0, np.zeros(4), Status.UNBOUNDED, np.array([1.0, 0.0, 0.0, 5.0]))
    with pytest.raises(FitError, match="along site 'up'"):
        check_bounded(coupled, found, bg.MAP())
