"""Seeds are integers or JAX keys, and what is neither is refused wherever one is taken."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.runtime.seeds import as_key

X, Y = [[1.0], [2.0], [7.0], [9.0]], ["a", "a", "b", "b"]


def tossed(n):
    p = numpyro.sample("p", dist.Beta(2.0, 2.0))
    with numpyro.plate("tosses", n):
        numpyro.sample("head", dist.Bernoulli(p))


@pytest.fixture(scope="module")
def exact():
    return bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact())


TAKERS = {
    "fit": lambda exact, seed: bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact(), seed=seed),
    "simulate": lambda exact, seed: exact.simulate(2, seed=seed),
    "a program": lambda exact, seed: bg.GenerativeProgram(tossed, label=None).simulate(2, seed=seed),
    "a rule": lambda exact, seed: bg.predict(exact, X, rule=bg.ConditionalAverage(num_draws=10, seed=seed)),
    "export": lambda exact, seed: exact.to_datatree(num_draws=10, seed=seed),
    "a concept": lambda exact, seed: bg.fit(bg.ConceptLearner(bg.number_game()), [16, 4], method=bg.Exact(), seed=seed),
}


@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)
@pytest.mark.parametrize("seed", [1.5, None, 2**63, True, "5", np.ones(2)], ids=repr)
def test_what_is_no_seed_is_refused(taker, seed, exact):
    with pytest.raises(bg.DataError, match="seed must be an integer"):
        taker(exact, seed)


def test_several_keys_are_no_key():
    with pytest.raises(bg.DataError, match="one JAX key"):
        as_key(jax.random.split(jax.random.key(0), 3))


KEYS = [jax.random.key(3), jax.random.PRNGKey(3), np.array([0, 3], np.uint32)]


@pytest.mark.parametrize("seed", [np.int32(3), np.uint64(3), *KEYS], ids=repr)
@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)
def test_integers_of_any_kind_and_keys_are_seeds(taker, seed, exact):
    one, two = taker(exact, 3), taker(exact, seed)
    if isinstance(one, dict):
        for name, values in one.items():
            np.testing.assert_array_equal(values, two[name])


def test_all_bits_of_a_seed_count():
    seeds = (0, 2**32, 2**40, 2**63 - 1, -1, -(2**63))
    assert len({tuple(np.asarray(jax.random.key_data(as_key(seed))).tolist()) for seed in seeds}) == len(seeds)
