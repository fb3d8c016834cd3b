"""Pareto's k of averages over draws: known tails, and a posterior whose draws do not settle an answer."""

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from sklearn.datasets import load_wine

import bayesgen as bg
from bayesgen.prediction.averages import are_robust, pareto_k, tail_indices, warn_of_few_draws
from prediction.draws import drawn


def tables(k, num_draws=4000, num_rows=7, seed=0):
    """Log-joints of one class whose weights u^-k are Pareto with tail index k."""
    uniforms = np.random.default_rng(seed).random((num_draws, num_rows, 1))
    return -k * np.log(uniforms)


@pytest.mark.parametrize("k", [0.5, 0.9, 1.3])
def test_the_tail_index_of_pareto_weights_is_found(k):
    found = pareto_k(tables(k) + 1000.0)
    assert found.shape == (7,)
    np.testing.assert_allclose(found.mean(), k, atol=0.1)


@pytest.mark.parametrize("k", [0.6, 0.9, 1.3, 4.0])
@pytest.mark.parametrize("num_draws", [100, 4000])
def test_the_tail_index_is_that_of_arviz(k, num_draws):
    table = tables(k, num_draws)
    expected = [array_stats.psislw(-row)[1] for row in table[:, :, 0].T]  # which takes the logs of inverse weights
    found = pareto_k(table)
    fitted = found != 0
    assert fitted.any()
    np.testing.assert_allclose(found[fitted], np.asarray(expected)[fitted], rtol=1e-9)


@pytest.mark.parametrize("largest_ratio", [600.0, 750.0, 1e3, 1e4, 1e8, 1e300])
def test_the_tail_index_grows_with_the_spread_of_the_log_weights(largest_ratio):
    """Spread beyond what exponentials hold is a tail that is too heavy to be fitted, not an even one."""
    table = largest_ratio * np.random.default_rng(2).random((4000, 3, 2))
    assert (pareto_k(table) > 1).all()
    assert largest_ratio < 1e8 or (pareto_k(table) == np.inf).all()


def test_draws_that_are_possible_or_not_have_no_heavy_tail():
    table = np.full((4000, 2, 1), -np.inf)
    table[:100, 0], table[:1000, 1] = 3.0, -2000.0
    assert (pareto_k(table) < 0.7).all()


def test_of_few_draws_that_are_uneven_nothing_is_known():
    assert (pareto_k(tables(1.3, num_draws=20)) == np.inf).all()


def test_even_weights_have_no_tail_to_fit():
    assert (pareto_k(np.random.default_rng(1).normal(0, 0.1, (500, 3, 2))) == 0).all()
    k, is_robust = tail_indices(tables, np.zeros((3, 2)), np.full((3, 2), 490.0), 500)
    assert (k == 0).all() and is_robust.all()


def test_a_class_that_has_no_share_in_the_answer_does_not_matter():
    heavy, even = tables(1.3), np.zeros((4000, 7, 1))
    assert (pareto_k(np.concatenate([even, heavy - 50.0], axis=2)) == 0).all()
    assert (pareto_k(np.concatenate([even, heavy], axis=2)) > 0.7).all()


def test_impossible_classes_and_rows_are_no_fault():
    table = tables(0.9)
    table = np.concatenate([table, np.full_like(table, -np.inf)], axis=2)
    table[:, 0] = -np.inf
    found = pareto_k(table)
    assert found[0] == 0 and (found[1:] > 0.5).all()


def test_the_warning_names_rows_and_says_whether_their_answers_hold():
    k, index = np.asarray([0.1, 0.71, 2.0, 0.7, np.nan]), pd.Index(list("abcde"))
    with pytest.warns(bg.ConvergenceWarning, match=r"2 of 5 rows \(1, 2\) .*cannot be trusted.* 1 more .*Exact\(\)"):
        warn_of_few_draws(k)
    one, both = (np.asarray([True, True, is_robust, True, False]) for is_robust in (False, True))
    with pytest.warns(
        bg.ConvergenceWarning, match=r"1 of 5 rows \('c'\) .*cannot be trusted. In 1 more .*no difference"
    ):
        warn_of_few_draws(k, one, index)
    with pytest.warns(bg.ConvergenceWarning, match=r"2 of 5 rows \('b', 'c'\) .*labels hold") as caught:
        warn_of_few_draws(k, both, index)
    assert "cannot be trusted" not in str(caught[0].message)
    warn_of_few_draws(np.asarray([0.1, 0.69]))


def test_rows_are_robust_where_the_heaviest_draws_say_what_all_others_say():
    weights, rng = tables(1.3)[:, :3, 0], np.random.default_rng(5)
    certain = np.broadcast_to([6.0, -3.0, -40.0], weights.shape)  # log-odds, the same of every draw
    by_weight = np.where(weights > np.quantile(weights, 0.999), 3.0, -3.0)  # the heaviest are of another opinion
    noisy = rng.normal(7.5, 0.4, weights.shape)  # which leaves little doubt
    for log_odds, expected in ((certain, True), (by_weight, False), (noisy, True)):
        table = weights[:, :, None] - np.logaddexp(0, [1, -1] * log_odds[..., None])
        assert (pareto_k(table) > 0.7).all() and (are_robust(table) == expected).all()
    assert not are_robust(np.full((100, 1, 2), -np.inf)).any()


def test_rows_beyond_those_that_are_looked_at_are_not_called_even():
    def draws_of(places):
        return np.broadcast_to(tables(0.9, 100, 1), (100, len(places), 2))

    num_rows, shape = 1500, (1500, 2)
    k, is_robust = tail_indices(draws_of, np.zeros(shape), np.full(shape, 6.0), 100)
    assert (k[:1000] > 0.5).all() and np.isnan(k[1000:]).all()
    assert not is_robust[1000:].any()
    k, is_robust = tail_indices(draws_of, np.zeros(shape), np.full(shape, 3.0), 100)
    assert (k == np.inf).all() and not is_robust.any()
    assert k.shape == (num_rows,)


def test_few_rows_in_many_dimensions_are_found_out():
    """Wine, 20 rows a class in 13 dimensions: draws from the exact posterior, and still some averages hang on few."""
    X, y = load_wine(return_X_y=True)
    train = np.concatenate([np.flatnonzero(y == k)[:20] for k in range(3)])
    test = np.setdiff1d(np.arange(len(y)), train)
    exact = bg.fit(bg.GaussianDiscriminant(), X[train], y[train], method=bg.Exact())
    table = exact.log_joint(X[test], at="draws")
    k = pareto_k(table)
    truth = bg.predict(exact, X[test], rule=bg.BMA()).probabilities
    means = np.exp(table - table.max(axis=(0, 2))[None, :, None]).mean(axis=0)
    error = np.abs(means / means.sum(1, keepdims=True) - truth).max(axis=1)
    assert (k > 0.7).any()
    assert error[k > 0.7].max() > 0.05 > error[k <= 0.5].max(initial=0.0)


def wine(seed):
    """(training X, y, test X): 20 rows a class."""
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(seed)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:20] for k in range(3)])
    return X[train], y[train], X[np.setdiff1d(np.arange(len(y)), train)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))])
def test_averages_from_draws_are_calibrated_where_they_are_not_warned_of(seed):
    X, y, new = wine(seed)
    exact = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    fit = drawn(exact, seed=seed)
    with pytest.warns(bg.ConvergenceWarning, match=r"rows .*few draws decide.*Exact\(\)"):
        found = bg.predict(fit, new, rule=bg.BMA())
    assert found.pareto_k.shape == (len(new),) and not np.isnan(found.pareto_k).any()
    wrong = np.abs(found.probabilities - bg.predict(exact, new, rule=bg.BMA()).probabilities).max(axis=1)
    z = wrong / found.standard_error.max(axis=1)
    trusted = found.pareto_k <= 0.7
    robust = found.is_robust & ~trusted
    assert found.is_robust[trusted].all() and robust.sum() > 10 and wrong[robust].max() < 0.01
    assert z[trusted].max() < 4
    assert not trusted[wrong > 0.05].any()


def test_blocks_warn_once_and_even_weights_never():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    X = rng.normal(1.0 * y[:, None], 1.0, (400, 2))
    fit = drawn(bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact()))
    found = bg.predict(fit, X, rule=bg.BMA())
    assert (found.pareto_k <= 0.7).all()
    far = np.concatenate([X[:398], np.asarray([[25.0, -40.0], [-30.0, 45.0]])])
    with pytest.warns(bg.ConvergenceWarning, match="2 of 400 rows") as caught:
        found = bg.predict(fit, far, rule=bg.BMA())
    assert len(caught) == 1 and (found.pareto_k[-2:] > 0.7).all()
    np.testing.assert_allclose(found.pareto_k[:398], bg.predict(fit, X, rule=bg.BMA()).pareto_k[:398], rtol=1e-9)
    assert bg.predict(fit, X, rule=bg.PlugIn()).pareto_k is None


@pytest.mark.parametrize("entropy_draws", [None, 0])
def test_averages_far_from_the_data_are_warned_of_whatever_the_distance(entropy_draws):
    y = np.repeat([0, 1], 200)
    X = np.random.default_rng(0).normal(2.0 * y[:, None] * [1, 0], 1.0, (400, 2))
    exact = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    queries = np.stack([np.zeros(8), [10.0, 50.0, 80.0, 100.0, 200.0, 1e4, 1e6, 1e100]], axis=1)
    with pytest.warns(bg.ConvergenceWarning, match="8 of 8 rows"):
        found = bg.predict(drawn(exact), queries, rule=bg.BMA(entropy_draws=entropy_draws))
    assert (found.pareto_k > 0.7).all() and (found.pareto_k[4:] == np.inf).all()
    wrong = np.abs(found.probabilities - bg.predict(exact, queries, rule=bg.BMA()).probabilities)
    assert wrong.max() > 0.01 and (wrong < 4 * found.standard_error).all()


def test_few_draws_far_from_the_data_are_warned_of():
    X, y, new = wine(0)
    fit = drawn(bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact()), num_chains=2, num_samples=4)
    with pytest.warns(bg.ConvergenceWarning, match="few draws decide"):
        found = bg.predict(fit, 5 * new, rule=bg.BMA())
    assert np.isinf(found.pareto_k).all() and np.isinf(found.standard_error).all()
