"""Pareto's k of averages over draws: known tails, and a posterior whose draws do not settle an answer."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.datasets import load_wine

import bayesgen as bg
from bayesgen.fitting.state import Draws
from bayesgen.prediction.reliability import pareto_k, warn_of_few_draws


def tables(k, num_draws=4000, num_rows=7, seed=0):
    """Log-joints of one class whose weights u^-k are Pareto with tail index k."""
    uniforms = np.random.default_rng(seed).random((num_draws, num_rows, 1))
    return -k * np.log(uniforms)


@pytest.mark.parametrize("k", [0.5, 0.9, 1.3])
def test_the_tail_index_of_pareto_weights_is_found(k):
    found = pareto_k(tables(k) + 1000.0)
    assert found.shape == (7,)
    np.testing.assert_allclose(found.mean(), k, atol=0.1)


def test_even_weights_have_no_tail_to_fit():
    assert (pareto_k(np.random.default_rng(1).normal(0, 0.1, (500, 3, 2))) == 0).all()


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


def test_the_warning_counts_rows():
    with pytest.warns(bg.ConvergenceWarning, match=r"2 of 4 rows .*Exact\(\)"):
        warn_of_few_draws([0.1, 0.71, 2.0, 0.7])
    warn_of_few_draws([0.1, 0.69])


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


def drawn(exact, num_chains=4, num_samples=1000, seed=0):
    """A fit that holds independent draws from an exact posterior, as a perfect sampler would give them."""
    draws = exact.state.draws(num_chains * num_samples, jax.random.key(seed))
    chains = {name: value.reshape(num_chains, num_samples, *value.shape[2:]) for name, value in draws.items()}
    state = Draws(exact.program, chains, exact.program.parameters_of(chains), {})
    return dataclasses.replace(exact, state=state)


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
    assert z[trusted].max() < 4
    assert not trusted[wrong > 0.05].any()


def test_blocks_warn_once_and_even_weights_never():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    X = rng.normal(1.0 * y[:, None], 1.0, (400, 2))
    fit = drawn(bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact()))
    found = bg.predict(fit, X, rule=bg.BMA())
    assert (found.pareto_k <= 0.7).all()
    far = np.concatenate([X, np.asarray([[25.0, -40.0], [-30.0, 45.0]])])
    with pytest.warns(bg.ConvergenceWarning, match="2 of 402 rows") as caught:
        found = bg.predict(fit, far, rule=bg.BMA())
    assert len(caught) == 1 and (found.pareto_k[-2:] > 0.7).all()
    np.testing.assert_allclose(found.pareto_k[:400], bg.predict(fit, X, rule=bg.BMA()).pareto_k, rtol=1e-9)
    assert bg.predict(fit, X, rule=bg.PlugIn()).pareto_k is None
