"""`MarkovChain`: probabilities of all sequences, by the chain rule and a dictionary of contexts, are the oracle."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.errors import ModelError
from bayesgen.sequences import Contexts, UrnChain

SHAPES = {"one symbol": (1, 1), "order 0": (0, 3), "order 1": (1, 3), "order 2": (2, 3), "order 3 of two": (3, 2)}
LONG = ("order 0", "order 3 of two")  # which show what orders 1 and 2 show
every_shape = pytest.mark.parametrize(
    ("order", "num_symbols"),
    [pytest.param(*shape, id=name, marks=[pytest.mark.slow] * (name in LONG)) for name, shape in SHAPES.items()],
)
close = np.testing.assert_allclose


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def tables(order, num_symbols, batch=(), seed=0, end=None):
    """Random arguments of a chain."""
    rng, contexts = np.random.default_rng(seed), Contexts(order, num_symbols, end)
    probs = rng.dirichlet(np.full(num_symbols, 0.7), (*batch, contexts.size))
    starts, transition = probs[..., : contexts.num_starts, :], probs[..., contexts.num_starts :, :]
    initial = None if order == 0 else starts[..., 0, :] if order == 1 else starts
    return initial, transition


def probability(sequence, initial, transition, order, end=None):
    """By the chain rule, with contexts looked up by their symbols."""
    num_symbols, product = transition.shape[-1], 1.0
    before = [symbol for symbol in range(num_symbols) if symbol != end]
    rows = {context: transition[i] for i, context in enumerate(itertools.product(before, repeat=order))}
    starts = [c for length in range(order) for c in itertools.product(before, repeat=length)]
    rows |= dict(zip(starts, np.reshape(initial, (-1, num_symbols)), strict=True)) if order else {}
    for step, symbol in enumerate(sequence):
        if step and sequence[step - 1] == end:
            return 0.0
        product *= rows[tuple(sequence[max(0, step - order) : step])][symbol]
    return product


@every_shape
def test_probabilities_of_all_sequences_are_those_of_the_chain_rule_and_sum_to_one(order, num_symbols):
    initial, transition = tables(order, num_symbols)
    chain = bg.MarkovChain(initial, transition, length=4)
    assert chain.order == order and chain.event_shape == (4,)
    for length in range(5):
        every = list(itertools.product(range(num_symbols), repeat=length))
        padded = np.array([[*sequence, *[-1] * (4 - length)] for sequence in every])
        repeated = np.resize(padded, (num_symbols**4, 4))  # of one shape for all lengths
        found = np.exp(chain.log_prob(repeated))
        close(found[: len(every)], [probability(s, initial, transition, order) for s in every], rtol=1e-12)
        close(found[: len(every)].sum(), 1.0, rtol=1e-12)
        close(np.exp(chain.log_prob(repeated[:, :length])), found, rtol=1e-12)  # of any T


@pytest.mark.parametrize(("order", "end"), [(0, 1), (1, 0), (2, 1), (2, 2)])
def test_sequences_that_end_and_beginnings_that_do_not_sum_to_one(order, end):
    initial, transition = tables(order, 3, end=end)
    chain = bg.MarkovChain(initial, transition, end=end, max_length=4, validate_args=False)
    every = [s for length in range(5) for s in itertools.product(range(3), repeat=length)]
    possible = [s for s in every if end not in s[:-1] and (len(s) == 4 or s[-1:] == (end,))]
    padded = np.array([[*s, *[-1] * (4 - len(s))] for s in possible])
    close(np.exp(chain.log_prob(padded)).sum(), 1.0, rtol=1e-12)
    assert np.asarray(chain.support(padded)).all()
    close(np.exp(chain.log_prob(padded)), [probability(s, initial, transition, order, end) for s in possible])
    after_the_end = np.array([[0, end, 2, -1], [end, end, -1, -1]])
    assert np.isneginf(chain.log_prob(after_the_end)).all() and not np.asarray(chain.support(after_the_end)).any()


@pytest.mark.parametrize(("order", "end"), [(1, 2), (2, 0), (3, 1)])
def test_tables_may_have_rows_for_contexts_that_hold_the_end_and_nothing_depends_on_them(order, end):
    initial, transition = tables(order, 3, (2,), seed=5)
    chain = bg.MarkovChain(initial, transition, end=end, max_length=5)
    every = [s for s in itertools.product(range(3), repeat=5) if end not in s[:-1]]
    for index in range(2):
        expected = [probability(s, initial[index], transition[index], order) for s in every]
        close(np.exp(chain.log_prob(np.array(every)[:, None]))[:, index], expected, rtol=1e-12)


@every_shape
def test_samples_have_the_frequencies_of_their_sequences(order, num_symbols):
    initial, transition = tables(order, num_symbols, seed=3)
    chain = bg.MarkovChain(initial, transition, length=3)
    draws = np.asarray(jax.jit(lambda key: chain.sample(key, (20_000,)))(jax.random.key(1)))
    every = np.array(list(itertools.product(range(num_symbols), repeat=3)))
    frequencies = (draws[:, None] == every).all(-1).mean(0)
    close(frequencies, np.exp(chain.log_prob(every)), atol=4.5 * 0.5 / np.sqrt(20_000))


def test_samples_are_as_long_as_stated_and_stop_at_the_end():
    initial, transition = tables(1, 3, (2, 1))
    ragged = bg.MarkovChain(initial, transition, np.array([3, 0, 1]))
    draws = np.asarray(ragged.sample(jax.random.key(0), (5,)))
    assert draws.shape == (5, 2, 3, 3) == ragged.shape((5,))
    assert ((draws != -1).sum(-1) == [3, 0, 1]).all() and np.asarray(ragged.support(draws)).all()
    ended = bg.MarkovChain(*tables(2, 3, end=0), end=0, max_length=3)
    draws = np.asarray(ended.sample(jax.random.key(0), (20_000,)))
    assert np.asarray(ended.support(draws)).all()
    every, counts = np.unique(draws, axis=0, return_counts=True)
    close(counts / 20_000, np.exp(ended.log_prob(every)), atol=4.5 * 0.5 / np.sqrt(20_000))
    with pytest.raises(ModelError, match="Give length"):
        bg.MarkovChain(*tables(2, 3, end=0), end=0).sample(jax.random.key(0))


def test_batches_broadcast_expand_and_map():
    initial, transition = tables(1, 3, (2, 1))
    chain = bg.MarkovChain(initial, transition, length=3)
    values = np.random.default_rng(2).integers(0, 3, (4, 2, 5, 3))
    expected = [
        [[probability(s, initial[i, 0], transition[i, 0], 1) for s in row[i].tolist()] for i in range(2)]
        for row in values
    ]
    close(np.exp(chain.expand((2, 5)).log_prob(values)), expected)
    close(np.exp(chain.log_prob(values)), expected)
    assert jax.eval_shape(lambda key: chain.expand((2, 5)).sample(key, (7,)), jax.random.key(0)).shape == (7, 2, 5, 3)
    one = jax.vmap(lambda i, t, v: bg.MarkovChain(i[0], t[0], length=3).log_prob(v))
    mapped = jax.jit(one)(initial, transition, values[0])
    close(np.exp(mapped), expected[0])
    leaves, structure = jax.tree.flatten(chain)
    close(jax.tree.unflatten(structure, leaves).log_prob(values), chain.log_prob(values))
    assert len(leaves) == 2
    which = np.array([1, 0, 1])
    chosen = bg.MarkovChain(initial[:, 0], transition[:, 0], length=3, which=which)
    each = bg.MarkovChain(initial[which, 0], transition[which, 0], length=3)
    assert chosen.batch_shape == (3,)
    close(chosen.log_prob(values[:, 0, :3]), each.log_prob(values[:, 0, :3]))
    close(chosen.log_probs, each.log_probs)
    key = jax.random.key(5)
    np.testing.assert_array_equal(chosen.sample(key, (4,)), each.sample(key, (4,)))
    with pytest.raises(ModelError, match="one axis of chains"):
        bg.MarkovChain(initial, transition, which=which)


def test_probabilities_of_zero_are_impossible_and_leave_slopes_finite():
    transition = np.array([[0.0, 1.0], [0.5, 0.5]])

    def log_prob(initial, transition, value):
        return bg.MarkovChain(initial, transition, validate_args=False).log_prob(value)

    seen, unseen = np.array([0, 1, 0, -1]), np.array([0, 0, 1, -1])
    assert np.isneginf(log_prob(np.array([0.5, 0.5]), transition, unseen))
    for value in (seen, unseen):
        slopes = jax.grad(log_prob, (0, 1))(jnp.array([0.5, 0.5]), jnp.array(transition), value)
        assert all(np.isfinite(slope).all() for slope in slopes)
    close(jax.grad(log_prob, 1)(jnp.array([0.5, 0.5]), jnp.array(transition), seen), [[0, 1], [2, 0]])
    assert np.isneginf(
        bg.MarkovChain(None, [[1.0]], validate_args=False).log_prob(np.array([0, 1]))
    )  # a code that is no symbol


def test_long_sequences_do_not_underflow():
    chain = bg.MarkovChain(*tables(1, 3), length=5_000)
    value = np.random.default_rng(0).integers(0, 3, 5_000)
    log_probs = np.log(np.asarray(chain.transition))[value[:-1], value[1:]]
    close(chain.log_prob(value), np.log(chain.initial[value[0]]) + log_probs.sum(), rtol=1e-12)


@pytest.mark.slow
def test_a_program_of_it_is_a_numpyro_program():
    def program(n):
        transition = numpyro.sample("transition", dist.Dirichlet(jnp.ones(3)).expand((3,)).to_event(1))
        with numpyro.plate("instances", n):
            numpyro.sample("word", bg.MarkovChain(jnp.ones(3) / 3, transition, length=4))

    draws = numpyro.infer.Predictive(program, num_samples=3)(jax.random.key(0), 5)
    assert draws["word"].shape == (3, 5, 4)
    kernel = numpyro.infer.NUTS(numpyro.handlers.condition(program, {"word": draws["word"][0]}))
    samples = numpyro.infer.MCMC(kernel, num_warmup=5, num_samples=3, progress_bar=False)
    samples.run(jax.random.key(1), 5)
    assert np.isfinite(samples.get_samples()["transition"]).all()


def test_contexts_may_have_one_axis_for_each_symbol():
    for end in (None, 1):
        initial, transition = tables(2, 3, (5,), end=end)
        before = 3 - (end is not None)
        cube = bg.MarkovChain(initial, transition.reshape(5, before, before, 3), order=2, end=end)
        assert cube.order == 2 and cube.batch_shape == (5,)
        np.testing.assert_array_equal(cube.transition, transition)
    square = np.arange(27.0).reshape(3, 3, 3)
    flat = bg.MarkovChain(initial, square.reshape(9, 3), end=1, validate_args=False).transition
    np.testing.assert_array_equal(bg.MarkovChain(initial, square, end=1, order=2, validate_args=False).transition, flat)


def test_bad_arguments_are_refused_with_their_shapes():
    initial, transition = tables(2, 3)
    with pytest.raises(ModelError, match="9 rows for contexts of 3 symbols"):
        bg.MarkovChain(None, transition)
    with pytest.raises(ModelError, match="7 rows for contexts of 3 symbols"):
        bg.MarkovChain(initial, transition[:7])
    with pytest.raises(ModelError, match=r"initial has the shape \(3, 3\)"):
        bg.MarkovChain(initial[:3], transition)
    with pytest.raises(ModelError, match="end=3 is none of the codes 0 to 2"):
        bg.MarkovChain(initial, transition, end=3)
    with pytest.raises(ModelError, match="end=True is none of the codes 0 to 2"):
        bg.MarkovChain(initial[0], transition[:2], end=True)
    with pytest.raises(ModelError, match=r"transition has the shape \(3, 3, 3\).*give order=k"):
        bg.MarkovChain(initial, transition.reshape(3, 3, 3))
    with pytest.raises(ModelError, match="have to be hashable"):
        bg.MarkovChain(initial, transition, symbols=[(1, [2]), 2, 3])
    with pytest.raises(ModelError, match="the end is the only symbol"):
        bg.MarkovChain([1.0], [[1.0]], end=0)
    with pytest.raises(ModelError, match="7 rows for contexts of 2 symbols besides the end"):
        bg.MarkovChain(initial, transition[:7], end=1)
    with pytest.raises(ModelError, match="MarkovChain: 2 symbols"):
        bg.MarkovChain(initial, transition, symbols="ab")
    with pytest.raises(ValueError, match="invalid transition parameter"):
        bg.MarkovChain(initial, transition * 0.9, validate_args=True)
    assert bg.MarkovChain([1.0], [[1.0]], order=1).order == 1
    assert bg.MarkovChain(np.ones((3, 1)), [[1.0]], order=3).order == 3


def test_contexts_have_names():
    assert Contexts(0, 2).names("ab") == [""]
    assert Contexts(1, 2).names("ab") == ["^", "a", "b"]
    assert Contexts(2, 2).names("ab") == ["^", "^a", "^b", "aa", "ab", "ba", "bb"]
    assert Contexts(2, 3, end=1).names("abc") == ["^", "^a", "^c", "aa", "ac", "ca", "cc"]
    assert Contexts(2, 2).names(["up", 10])[1:5] == ["^ up", "^ 10", "up up", "up 10"]


def test_urns_take_long_sequences_and_count_what_came_before():
    rng, concentration = np.random.default_rng(4), np.array([[0.5, 1.0], [2.0, 0.3], [0.7, 0.7]])
    chain, value = UrnChain(concentration, 1), rng.integers(0, 2, 30_000)
    urns, expected = concentration.copy(), 0.0
    for context, symbol in zip([0, *(value[:-1] + 1)], value, strict=True):
        expected += np.log(urns[context, symbol] / urns[context].sum())
        urns[context, symbol] += 1
    close(chain.log_prob(value), expected, rtol=1e-10)
    memory = jax.jit(chain.log_prob).lower(value).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 100 * value.nbytes
    close(chain.log_prob(np.full((3, 0), -1)), 0.0)
