"""Fits by draws that no Markov chain made: what follows the draws is the same for every method that gives them."""

import dataclasses

import numpy as np
import pytest
from models.cases import CASES, take

import bayesgen as bg
from bayesgen.fitting import Method, fit_of_draws

NAME = "discriminant, full"


@dataclasses.dataclass(frozen=True)
class IndependentDraws(Method):
    """Independent draws from the exact posterior; all of one chain may be moved."""

    shift: float = 0.0
    keeps_statistics = False

    def solve(self, problem):
        posterior = problem.conjugate.update(problem.data.statistics)
        values = posterior.sample((4, 250), np.random.default_rng(0))
        for name, value in values.items():
            if name.endswith("mean"):
                value[0] += self.shift
        draws = ({name: value[place] for name, value in values.items()} for place in np.ndindex(4, 250))
        energies = -np.reshape([posterior.log_prior(draw) for draw in draws], (4, 250))
        sites = problem.program.latents_of(values)
        problems = ["the first chain was moved"] if self.shift else []
        about = {"path": "independent"}
        return fit_of_draws(self, problem, problem.program, sites, {"potential_energy": energies}, about, problems)


def fitted(shift=0.0):
    one = CASES[NAME]
    return bg.fit(one.model, *one.data, method=IndependentDraws(shift))


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
