"""Convergence checks: quiet where chains have one distribution, loud where they have not."""

import numpy as np
import pytest
from scipy.signal import lfilter

from bayesgen.posteriors.draws import EntryDiagnostics, convergence_problems, entry_names


def chains(rng, correlation, num_entries, shift=0.0):
    """Four chains of a thousand draws of a standard normal process, each like the last; one of them may be shifted."""
    noise = np.sqrt(1 - correlation**2) * rng.normal(size=(4, 1200, num_entries))
    draws = lfilter([1.0], [1.0, -correlation], noise, axis=1)[:, 200:]
    draws[0] += shift
    return draws


@pytest.mark.parametrize("correlation", [0.5, 0.8, 0.9])
def test_chains_of_one_distribution_are_not_said_to_disagree(correlation):
    rng = np.random.default_rng(1)
    runs = [EntryDiagnostics.of({"x": chains(rng, correlation, 8)}) for _ in range(6)]
    assert not any(run.disagreeing().any() for run in runs)
    if correlation > 0.5:  # and yet their R-hat is above 1.01, as that of a few hundred effective draws is
        assert all((run.rhats > 1.01).any() for run in runs)


def test_chains_of_different_distributions_are_said_to_disagree():
    rng = np.random.default_rng(2)
    wide = chains(rng, 0.5, 1)
    wide[1] *= 1.6
    stuck = chains(rng, 0.9, 1) * 0.01 + np.arange(4.0)[:, None, None]  # four places, each chain at one
    for draws in (chains(rng, 0.5, 1, shift=0.5), chains(rng, 0.9, 1, shift=1.5), wide, stuck):
        assert EntryDiagnostics.of({"x": draws}).disagreeing().all()


def test_problems_name_the_worst_entry_and_count_each_once():
    rng = np.random.default_rng(3)
    root = chains(rng, 0.3, 4).reshape(4, 1000, 2, 2)
    covariance = root + np.swapaxes(root, 2, 3)  # three numbers, one of them twice
    mean = chains(rng, 0.3, 4).reshape(4, 1000, 2, 2)
    mean[2, :, 1, 0] += 3.0
    values = {"real_covariance": covariance, "real_mean": mean, "fixed": np.ones((4, 1000, 5))}
    coords = {"class": ["calm", "wild"], "feature": ["height", "weight"]}
    name_of = entry_names(coords, {"real_mean": ["class", "feature"]})
    found = convergence_problems(values, {"diverging": np.zeros((4, 1000), bool)}, name_of)
    assert len(found) == 2
    assert (
        "'real_mean[wild, height]'" in found[0] and "1 of 7 entries" in found[0] and found[0].startswith("R-hat is 1.")
    )
    assert "'real_mean[wild, height]'" in found[1] and "1 of 7 entries" in found[1]
    advised = convergence_problems(
        {"mean": mean}, {"diverging": np.zeros((4, 1000), bool)}, entry_names({}, {}), "look at states"
    )
    assert "the chains disagree; look at states" in advised[0]
    unnamed = convergence_problems({"mean": mean}, {"diverging": np.zeros((4, 1000), bool)}, entry_names({}, {}))
    assert "'mean[1, 0]'" in unnamed[0]


def test_a_few_draws_are_said_to_tell_nothing():
    for num_draws in (1, 3):
        draws = np.arange(2.0 * num_draws).reshape(2, num_draws)
        found = convergence_problems({"x": draws}, {"diverging": np.zeros((2, num_draws), bool)}, entry_names({}, {}))
        assert len(found) == 1 and "tells nothing of convergence" in found[0]


def test_chains_that_never_move_are_told():
    """One of them, or all; a number that no draw changes, beside numbers that move, is a constant."""
    stats, names = {"diverging": np.zeros((4, 500), bool)}, entry_names({}, {})
    moving = np.random.default_rng(0).normal(size=(4, 500))
    factor = np.stack([np.stack([moving, np.zeros_like(moving)], -1), np.stack([moving, moving], -1)], -2)
    assert not convergence_problems({"factor": factor, "rows": np.full((4, 500), 60.0)}, stats, names)
    still = {"x": np.full((4, 500), 3.0), "factor": np.full((4, 500, 2), -1.0)}
    assert convergence_problems(still, stats, names)[0].startswith("4 of 4 chains never moved")
    moving[2] = 0.1
    assert convergence_problems({"x": moving}, stats, names)[0].startswith("1 of 4 chains never moved")


def test_draws_that_are_no_numbers_are_told_by_name():
    """NaN anywhere, or infinity in a part of the draws; an infinite constant, such as a last cutpoint, is none."""
    stats, names = {"diverging": np.zeros((4, 500), bool)}, entry_names({}, {})
    moving = np.random.default_rng(0).normal(size=(4, 500, 2))
    cutpoints = np.stack([np.full((4, 500), -np.inf), moving[..., 0], np.full((4, 500), np.inf)], -1)
    assert not convergence_problems({"cutpoints": cutpoints}, stats, names)
    broken = moving.copy()
    broken[:, 100:, 1] = np.nan
    broken[0, 0, 0] = np.inf
    (told,) = convergence_problems({"a": moving, "root": broken}, stats, names)
    assert told.startswith("'root[1]' is not a finite number in 80.0% of the draws") and "(2 such entries" in told
    entries = EntryDiagnostics.of({"a": moving, "root": broken})
    assert len(entries.sizes) == 2 and np.isnan(entries.by_site(entries.sizes)["root"]).all()
