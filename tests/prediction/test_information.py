"""The split of the entropy: against quadrature, never negative, with errors that are the spread over seeds."""

import jax
import numpy as np
import pytest
import scipy.special

import bayesgen as bg
from bayesgen.prediction.averages import JOINT_AND_ENTROPY

COUNTS = np.asarray([[300, 700], [800, 200]])  # of zeros and ones of a binary column, by class
PRIOR = (0.4, 0.6)
QUERIES = np.asarray([[0.0], [1.0]])


def fitted(scale=1.0):
    """An exact fit of `COUNTS`, each row with this weight."""
    x, y = np.asarray([[0.0], [1.0]] * 2), np.asarray([0, 0, 1, 1])
    schema = bg.Schema(kinds={"x0": "binary"})
    model = bg.NaiveBayes(class_prior=PRIOR)
    return bg.fit(model, x, y, method=bg.Exact(), sample_weight=COUNTS.ravel() * scale, schema=schema)


def information_by_quadrature(counts):
    """Mutual information of label and parameters given x = 0 and x = 1, by Gauss-Jacobi quadrature over both rates."""
    (zero, weight_zero), (one, weight_one) = (
        scipy.special.roots_jacobi(30, zeros, ones) for zeros, ones in counts
    )  # Beta(1 + ones, 1 + zeros) on [-1, 1]
    rates = np.stack(np.broadcast_arrays(0.5 + 0.5 * zero[:, None], 0.5 + 0.5 * one))
    weights = np.outer(weight_zero / weight_zero.sum(), weight_one / weight_one.sum())
    information = []
    for likelihood in (1 - rates, rates):
        joint = np.reshape(PRIOR, (2, 1, 1)) * likelihood
        marginal = joint.sum(0)
        mean = (weights * joint).sum((1, 2)) / (weights * marginal).sum()
        divergence = scipy.special.rel_entr(joint / marginal, mean.reshape(2, 1, 1)).sum(0)
        information.append((weights * marginal * divergence).sum() / (weights * marginal).sum())
    return np.asarray(information)


def estimates(fit, rule, seeds=range(40), **arguments):
    answers = [bg.predict(fit, QUERIES, rule=rule(seed=seed, **arguments)) for seed in seeds]
    return tuple(np.stack([getattr(a, f"mutual_information{part}") for a in answers]) for part in ("", "_error"))


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_the_information_of_exact_fits_is_that_of_quadrature(scale):
    found, errors = estimates(fitted(scale), bg.BMA, entropy_draws=1000)
    expected = information_by_quadrature(COUNTS * scale)
    assert scale < 1 or (expected < 5e-4).all()
    assert (np.abs(found - expected) < 4.5 * errors).all()
    assert (np.abs(found.mean(0) - expected) < 4 * found.std(0) / 40**0.5 + 0.003 * expected).all()  # bias of 1 / draws
    assert (errors < 0.1 * expected).all()


def test_it_falls_as_one_over_the_rows_and_is_never_negative():
    small, _ = estimates(fitted(1.0), bg.BMA, entropy_draws=1000, seeds=range(5))
    large, errors = estimates(fitted(1e4), bg.BMA, entropy_draws=1000, seeds=range(5))
    assert (large > 0).all() and (errors > 0).all()
    np.testing.assert_allclose(1e4 * large.mean(0), small.mean(0), rtol=0.1)


@pytest.mark.parametrize("rule, number", [(bg.BMA, "entropy_draws"), (bg.ConditionalAverage, "num_draws")])
def test_its_errors_are_its_spread(rule, number):
    found, errors = estimates(fitted(), rule, range(60), **{number: 1000})
    ratio = np.sqrt((errors**2).mean(0)) / found.std(0, ddof=1)
    assert (ratio > 0.7).all() and (ratio < 1.4).all()


def test_parts_add_up_and_are_none_where_nothing_is_split():
    fit = fitted()
    split, plain = (bg.predict(fit, QUERIES, rule=bg.BMA(entropy_draws=draws)) for draws in (50, None))
    np.testing.assert_array_equal(split.entropy, plain.entropy)
    np.testing.assert_allclose(split.expected_entropy + split.mutual_information, split.entropy, rtol=1e-14)
    assert plain.mutual_information is None and plain.mutual_information_error is None


def test_rows_that_few_draws_carry_have_no_error_that_could_be_trusted():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    fit = bg.fit(bg.GaussianDiscriminant(), rng.normal(y[:, None], 1.0, (40, 3)), y, method=bg.Exact())
    answer = bg.predict(fit, [[0.5, 0.5, 0.5], [0.0, 1e3, 0.0]], rule=bg.BMA(entropy_draws=500))
    assert np.isfinite(answer.mutual_information_error[0]) and answer.mutual_information_error[1] == np.inf


def test_batches_that_make_a_row_impossible_take_nothing_of_it():
    """Two batches of draws: of the first none can make the row, by the second it is far from everything."""
    logs = np.log(np.asarray([[0.2, 0.5], [0.7, 0.1]]))[:, :, None] - 2000.0
    with jax.enable_x64(True):
        reduce_batch, combine = map(jax.jit, (JOINT_AND_ENTROPY.reduce_batch, JOINT_AND_ENTROPY.combine))
        batches = [reduce_batch(np.zeros((2, 1)), table) for table in (np.full((2, 2, 1), -np.inf), logs)]
        found = combine(jax.tree.map(lambda *parts: np.stack(parts), *batches))
    joint = np.exp(logs[:, :, 0] + 2000.0)  # (class, draw)
    marginal = joint.sum(0)
    entropies = scipy.special.entr(joint / marginal).sum(0)
    whole = scipy.special.entr(joint.sum(1) / joint.sum()).sum()
    expected = (marginal * entropies).sum() / marginal.sum()
    np.testing.assert_allclose(found["expected_share"], expected / whole, rtol=1e-12)
    np.testing.assert_allclose(found["log_joint"][0], np.log(joint.sum(1) / 4) - 2000.0, rtol=1e-12)
