"""Diagnostics of chains, against ArviZ."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayesgen.statistics import bulk_sizes, rhats_and_sizes, split_rhats

AXES = {"chain_axis": 1, "draw_axis": 2}


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
def test_rhats_and_sizes_are_those_of_arviz(shape):
    draws = chains(*shape)
    rhats, sizes = rhats_and_sizes(draws)
    np.testing.assert_allclose(rhats, array_stats.rhat(draws, **AXES), rtol=1e-12)
    np.testing.assert_allclose(sizes, array_stats.ess(draws, method="bulk", **AXES), rtol=1e-12)
    np.testing.assert_allclose(split_rhats(draws), array_stats.rhat(draws, method="split", **AXES), rtol=1e-12)


def test_one_chain_has_an_effective_size():
    draws = chains(3, 1, 37)
    np.testing.assert_allclose(bulk_sizes(draws), array_stats.ess(draws, method="bulk", **AXES), rtol=1e-12)


def test_no_entries_have_no_diagnostics_and_draws_that_do_not_vary_no_rhat():
    rhats, sizes = rhats_and_sizes(np.empty((0, 4, 10)))
    assert rhats.shape == sizes.shape == (0,)
    assert np.isnan(split_rhats(np.ones((1, 4, 10)))).all()
