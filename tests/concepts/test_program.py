"""The learner as a NumPyro program: what it makes, and that its density is that of the enumeration."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.util import log_density

import bayesgen as bg

close = np.testing.assert_allclose
PREDICATES = {"low": lambda x: x < 4, "even": lambda x: x % 2 == 0, "all": lambda x: True, "five": lambda x: x == 5}


def space(**keywords):
    return bg.HypothesisSpace.of(PREDICATES, range(1, 8), [1, 3, 1, 2], **keywords)


def joints(learner, values, hypotheses, positive, negative):
    """The log density of the program at each of some hypotheses, as one compiled function."""
    data = {"examples": np.array(positive) - 1, "counterexamples": np.array(negative) - 1, **values}

    def joint(hypothesis):
        program = handlers.substitute(learner, data={**data, "hypothesis": hypothesis})
        return log_density(program, (len(positive), len(negative)), {}, {})[0]

    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(joint))(np.array(hypotheses)))


@pytest.mark.parametrize("sampling", ["strong", "weak"])
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_the_density_of_the_program_is_the_joint_of_the_enumeration(sampling, noise):
    learner = bg.ConceptLearner(space(), sampling, noise)
    positive, negative = [2, 2, 6], [5, 1]
    fit = bg.fit(learner, positive + negative, [True] * 3 + [False] * 2, method=bg.Exact())
    program = joints(learner, {}, range(4), positive, negative)
    close(np.exp(program), fit.weights * np.exp(fit.log_evidence), rtol=1e-10, atol=1e-300)


def test_the_density_with_hyperparameters():
    tenenbaum = bg.number_game("tenenbaum", rule_weight=dist.Beta(2, 1), scale=dist.Gamma(4, 0.5))
    learner = bg.ConceptLearner(tenenbaum, noise=dist.Beta(1, 9))
    values = {"rule_weight": 0.6, "scale": 8.0, "noise": 0.1}
    fit = bg.fit(learner.at(**values), [16, 8], method=bg.Exact())
    priors = scipy.stats.beta(2, 1), scipy.stats.gamma(4, scale=2.0), scipy.stats.beta(1, 9)
    prior = sum(each.logpdf(value) for each, value in zip(priors, values.values(), strict=True))
    indices = [tenenbaum.names.index(name) for name in ("powers of 2", "primes", "8 to 16", "1 to 3")]
    expected = prior + fit.log_weights[indices] + fit.log_evidence
    close(joints(learner, values, indices, [16, 8], []), expected, rtol=1e-6)  # some priors are made in float32


def test_prior_simulation_makes_examples_of_the_drawn_hypothesis():
    learner = bg.ConceptLearner(space(), noise=0.0)
    draws = Predictive(learner, num_samples=2000)(jax.random.key(0), 5, 2)
    hypotheses, examples = np.asarray(draws["hypothesis"]), np.asarray(draws["examples"])
    inside = np.asarray(learner.space.extensions)
    assert examples.shape == (2000, 5) and inside[hypotheses[:, None], examples].all()
    close(np.bincount(hypotheses, minlength=4) / 2000, learner.space.prior, atol=0.04)
    others = np.asarray(draws["counterexamples"])
    has_others = hypotheses != 2
    assert (others[~has_others] == 7).all()  # of "all" there is nothing to show
    assert not inside[hypotheses[has_others, None], others[has_others]].any()


def test_prior_simulation_of_hyperparameters_noise_and_weak_sampling():
    learner = bg.ConceptLearner(space(), "weak", dist.Beta(9, 1))
    draws = Predictive(learner, num_samples=4000)(jax.random.key(1), 3)
    assert set(draws) == {"noise", "hypothesis", "examples"}
    close(np.asarray(draws["noise"]).mean(), 0.9, atol=0.01)
    inside = np.c_[np.asarray(learner.space.extensions), np.zeros(4, bool)]
    held = inside[np.asarray(draws["hypothesis"])[:, None], np.asarray(draws["examples"])]
    close(held.mean(), learner.space.prior @ learner.space.sizes / 7, atol=0.02)
    close(
        (np.asarray(draws["examples"]) == 7).mean(),
        0.1 * (1 - learner.space.prior @ learner.space.sizes / 7),
        atol=0.01,
    )
