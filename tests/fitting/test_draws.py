"""Fits by draws that no Markov chain made: what follows the draws is the same for every method that gives them."""

import numpy as np
import pytest
from models.cases import CASES, take
from prediction.draws import IndependentDraws

import bayesgen as bg

NAME = "discriminant, full"


def fitted(**options):
    one = CASES[NAME]
    return bg.fit(one.model, *one.data, method=IndependentDraws(**options))


def test_independent_draws_are_a_fit_like_those_of_chains():
    case, fit = CASES[NAME], fitted()
    assert fit.attributes["path"] == "independent" and fit.is_sampled and not fit.sample_stats["diverging"].any()
    assert "4 chains of 250, 0 divergent" in repr(fit)
    for name, mean in case.exact.parameters.items():
        error = fit.parameters[name].std((0, 1)) / np.sqrt(1000)
        assert (np.abs(fit.posterior.mean[name] - mean) <= 5 * error + 1e-12).all(), name
    found, exact = (bg.predict(of, take(case.data[0], np.arange(20)), rule=bg.BMA()) for of in (fit, case.exact))
    assert (np.abs(found.probabilities - exact.probabilities) <= 5 * found.standard_error).mean() > 0.95
    assert fit.to_datatree().posterior.sizes["chain"] == 4
    with pytest.raises(bg.FitError, match=r"IndependentDraws\(\) holds draws"):
        fit.update(*case.data)


def test_draws_that_disagree_are_warned_of_by_the_name_of_their_method():
    with pytest.warns(bg.ConvergenceWarning, match=r"IndependentDraws: the first chain was moved; R-hat is .* for '"):
        fitted(shift=5.0)


def test_few_draws_are_warned_of():
    with pytest.warns(bg.ConvergenceWarning, match="effective sample size is .*num_samples") as caught:
        fitted(num_samples=10)
    assert len(caught) == 1
