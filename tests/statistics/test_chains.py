"""Diagnostics of chains, against what is known of autoregressive chains, and against ArviZ."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayesgen.statistics import bulk_sizes, errors_and_tail_sizes, rhats_and_sizes, split_rhats


def chains(num_entries, num_chains, num_draws):
    """Autocorrelated chains, those of the last entry in two places, with ties in the first entry."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(num_entries, num_chains, num_draws))
    for at in range(1, num_draws):
        draws[..., at] += np.linspace(-0.9, 0.95, num_entries)[:, None] * draws[..., at - 1]
    draws[-1, 0] += 1.0
    draws[0] = draws[0].round(1)
    return draws


@pytest.mark.parametrize("shape", [(7, 4, 500), (3, 4, 501), (5, 3, 37), (4, 2, 6), (2, 2, 5), (3, 2, 4)])
def test_split_rhats_are_those_of_arviz(shape):
    draws = chains(*shape)
    expected = array_stats.rhat(draws, method="split", chain_axis=1, draw_axis=2)
    np.testing.assert_allclose(split_rhats(draws), expected, rtol=1e-12)


def test_sizes_and_errors_are_those_of_autoregressive_chains():
    """Of x_t = c x_(t-1) + e_t the autocorrelation time is (1 + c) / (1 - c)."""
    rng, slopes, num_draws = np.random.default_rng(1), np.array([0.0, 0.3, 0.6]), 4_000
    draws = rng.normal(size=(3, 4, num_draws))
    for at in range(1, num_draws):
        draws[..., at] += slopes[:, None] * draws[..., at - 1]
    rhats, sizes = rhats_and_sizes(draws)
    errors, tail_sizes = errors_and_tail_sizes(draws)
    expected = 4 * num_draws * (1 - slopes) / (1 + slopes)
    np.testing.assert_allclose(sizes, expected, rtol=0.1)
    np.testing.assert_allclose(errors, draws.std((1, 2)) / np.sqrt(expected), rtol=0.1)
    assert (rhats < 1.01).all() and (tail_sizes > expected / 2).all()
    draws[1, 0] += 3.0
    assert (split_rhats(draws) > 1.1).tolist() == (rhats_and_sizes(draws)[0] > 1.1).tolist() == [False, True, False]


def test_one_chain_has_an_effective_size_and_no_rhat():
    draws = chains(3, 1, 370)
    rhats, sizes = rhats_and_sizes(draws)
    assert np.isnan(rhats).all() and (sizes == bulk_sizes(draws)).all() and (sizes > 2).all()


def test_no_entries_have_no_diagnostics_and_draws_that_do_not_vary_no_rhat():
    rhats, sizes = rhats_and_sizes(np.empty((0, 4, 10)))
    assert rhats.shape == sizes.shape == (0,)
    assert np.isnan(split_rhats(np.ones((1, 4, 10)))).all()


@pytest.mark.parametrize("unit", [1e-18, 1e-10, 1e12])
def test_errors_have_the_unit_of_the_draws(unit):
    draws = chains(3, 4, 200)
    np.testing.assert_allclose(
        errors_and_tail_sizes(unit * draws)[0], unit * errors_and_tail_sizes(draws)[0], rtol=1e-9
    )


def test_chains_that_stand_still_at_points_of_their_own_give_no_warnings():
    draws = np.ones((2, 4, 50)) * np.arange(4)[:, None]
    assert (rhats_and_sizes(draws)[0] > 1.01).all() and np.isfinite(errors_and_tail_sizes(draws)[1]).all()
