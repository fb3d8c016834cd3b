"""Algorithms of hidden chains against enumeration of all paths."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp

import bayesgen as bg
from bayesgen.sequences.hidden_chains import (
    expected_counts,
    forward,
    forward_backward,
    forward_backward_in_logs,
    log_density,
    most_probable_paths,
)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def chain(num_states, num_steps, batch=(), seed=0, zeros=0.0):
    """Log tables of a chain, some of whose probabilities are 0."""
    rng = np.random.default_rng(seed)
    initial, transition = (rng.dirichlet(np.ones(num_states), shape) * 1.0 for shape in (batch, (*batch, num_states)))
    for table in (initial, transition):
        keep = rng.random(table.shape) >= zeros
        keep[..., 0] = True
        table *= keep
        table /= table.sum(-1, keepdims=True)
    emissions = rng.normal(0, 3, (*batch, num_steps, num_states))
    with np.errstate(divide="ignore"):
        return np.log(initial), np.log(transition), emissions


def of_paths(log_initial, log_transition, log_emissions):
    """All paths of one sequence, and the log density of each together with the steps."""
    num_steps, num_states = log_emissions.shape
    paths = np.array(list(itertools.product(range(num_states), repeat=num_steps)), int)
    total = np.zeros(len(paths))
    for step in range(num_steps):
        total = total + log_emissions[step, paths[:, step]]
        total = total + (log_transition[paths[:, step - 1], paths[:, step]] if step else log_initial[paths[:, 0]])
    return paths, total


def enumerated(log_initial, log_transition, log_emissions):
    """Log density, expected counts and the most probable path of one sequence."""
    num_states = len(log_initial)
    paths, total = of_paths(log_initial, log_transition, log_emissions)
    value = logsumexp(total)
    share = np.exp(total - value) if np.isfinite(value) else np.zeros(len(total))
    one_hot = np.eye(num_states)[paths]
    states = np.einsum("p,pts->ts", share, one_hot)
    moves = np.einsum("p,pti,ptj->ij", share, one_hot[:, :-1], one_hot[:, 1:])
    first = states[0] if len(states) else np.zeros(num_states)
    return value, (first, moves, states), (paths[total.argmax()], total.max())


CASES = [(1, 1, 0.0), (2, 7, 0.0), (3, 5, 0.4)]
MORE = [(1, 4, 0.0), (2, 1, 0.0), (3, 5, 0.0), (5, 4, 0.5)]


@pytest.mark.parametrize(
    ("num_states", "num_steps", "zeros"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
def test_density_counts_and_paths_are_those_of_all_paths(num_states, num_steps, zeros):
    arrays = chain(num_states, num_steps, zeros=zeros)
    value, counts, (path, best) = enumerated(*arrays)
    np.testing.assert_allclose(log_density(*arrays), value, rtol=1e-12)
    found = expected_counts(*arrays)
    for one, other in zip((found.initial, found.transition, found.states), counts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    paths, total = most_probable_paths(*arrays)
    np.testing.assert_array_equal(paths, path)
    np.testing.assert_allclose(total, best, rtol=1e-12)


def test_batches_are_sequences_one_by_one_with_parameters_of_classes_or_shared():
    log_initial, log_transition, _ = chain(3, 0, (2,), seed=1)
    emissions = np.random.default_rng(2).normal(size=(5, 2, 4, 3))
    lengths = np.array([4, 0, 1, 3, 2])[:, None]
    table = log_density(log_initial, log_transition, emissions, lengths)
    counts = expected_counts(log_initial, log_transition, emissions, lengths)
    paths, best = map(np.asarray, most_probable_paths(log_initial, log_transition, emissions, lengths))
    table, counts = jax.tree.map(np.asarray, (table, counts))
    assert table.shape == best.shape == (5, 2)
    assert paths.shape == (5, 2, 4)
    for row, of_class in np.ndindex(5, 2):
        length = lengths[row, 0]
        one = log_initial[of_class], log_transition[of_class], emissions[row, of_class, :length]
        value, (first, moves, states), (path, total) = enumerated(*one)
        place = row, of_class
        np.testing.assert_allclose(table[place], value, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(counts.initial[place], first, atol=1e-12)
        np.testing.assert_allclose(counts.transition[place], moves, atol=1e-12)
        np.testing.assert_allclose(counts.states[place], np.pad(states, ((0, 4 - length), (0, 0))), atol=1e-12)
        np.testing.assert_array_equal(paths[place], np.pad(path, (0, 4 - length), constant_values=-1))
        np.testing.assert_allclose(best[place], total, rtol=1e-12, atol=1e-14)


def test_what_stands_past_the_end_does_not_matter():
    log_initial, log_transition, emissions = chain(3, 6, seed=4)
    spoilt = emissions.copy()
    spoilt[4:] = -np.inf
    arrays = log_initial, log_transition
    assert log_density(*arrays, spoilt, np.array(4)) == log_density(*arrays, emissions, np.array(4))
    gradient = jax.grad(lambda table: log_density(*arrays, table, np.array(4)))(jnp.asarray(spoilt))
    assert (np.asarray(gradient)[4:] == 0).all()


def test_impossible_sequences_have_no_probability_and_gradients_that_are_numbers():
    log_initial, log_transition = np.log([1.0, 1e-300]), np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    emissions = np.array([[0.0, 0.0], [-np.inf, -np.inf], [0.0, 0.0]])
    value, gradient = jax.value_and_grad(log_density, (0, 1, 2))(log_initial, log_transition, emissions)
    assert value == -np.inf
    assert all((np.asarray(leaf) == 0).all() for leaf in gradient)


def test_states_that_only_far_steps_tell_apart_are_not_lost():
    """A state that is 5,000 nats behind at one step and far ahead later: chains whose states never change."""
    log_transition = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    emissions = np.array([[0.0, -5e3], [-1e4, 0.0], [0.0, 0.0]])
    arrays = np.log([0.5, 0.5]), log_transition, emissions
    value, counts, _ = enumerated(*arrays)
    np.testing.assert_allclose(log_density(*arrays), value, rtol=1e-12)
    np.testing.assert_allclose(expected_counts(*arrays).states, counts[2], atol=1e-12)


def test_states_that_later_steps_contradict_are_not_lost():
    """The first state is known, never left, and 5,000 nats behind at every later step: looked at from the end, lost."""
    log_transition = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    arrays = np.array([0.0, -np.inf]), log_transition, np.array([[0.0, 0.0], [-5e3, 0.0], [-5e3, 0.0]])
    value, counts, _ = enumerated(*arrays)
    assert value == log_density(*arrays) == -1e4
    np.testing.assert_array_equal(expected_counts(*arrays).states, counts[2])


def test_nothing_is_lost_in_single_precision():
    log_transition = np.array([[0.0, -np.inf], [-np.inf, 0.0]], np.float32)
    emissions = np.array([[0.0, -150.0], [-300.0, 0.0], [0.0, 0.0]], np.float32)
    with jax.enable_x64(False):
        value, states = jax.value_and_grad(log_density, 2)(np.log(np.float32([0.5, 0.5])), log_transition, emissions)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, np.log(0.5) - 150, rtol=1e-5)
    np.testing.assert_allclose(states, np.tile([0.0, 1.0], (3, 1)), atol=1e-6)


def test_a_first_state_that_single_precision_loses_is_found_again():
    """The first step is 112 nats less probable in the state that all others need, and which is never come back to."""
    log_transition = np.array([[np.log(0.9), np.log(0.1)], [-np.inf, 0.0]])
    arrays = np.log([0.5, 0.5]), log_transition, np.array([[-112.5, 0.0], *[[-4.5, -72.0]] * 6])
    value, counts, _ = enumerated(*arrays)
    with jax.enable_x64(False):
        single = tuple(array.astype(np.float32) for array in arrays)
        ours, states = log_density(*single), expected_counts(*single).states
    np.testing.assert_allclose(ours, value, rtol=1e-5)
    np.testing.assert_allclose(states, counts[2], atol=1e-5)


@pytest.mark.parametrize("log_prob", [-713.8, -2e3])
def test_transitions_that_probabilities_have_no_room_for_are_taken(log_prob):
    log_transition = np.array([[0.0, log_prob], [-np.inf, 0.0]])
    arrays = np.array([0.0, -np.inf]), log_transition, np.array([[0.0, -600.0], *[[-600.0, 0.0]] * 4])
    value, counts, _ = enumerated(*arrays)
    np.testing.assert_allclose(log_density(*arrays), value, rtol=1e-12)
    found = expected_counts(*arrays)
    for one, other in zip((found.initial, found.transition, found.states), counts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_one_sequence_that_needs_logs_leaves_others_as_they_are():
    """Mapped over chains of a sampler, or in one batch: what is chosen is chosen for all, and right for each."""
    far = np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.array([[0.0, -5e3], [-1e4, 0.0], [0.0, 0.0]])
    near = chain(2, 3, seed=3)
    both = [np.stack(pair) for pair in zip((np.log([0.5, 0.5]), *far), near, strict=True)]
    expected = [enumerated(*(array[index] for array in both))[0] for index in range(2)]
    np.testing.assert_allclose(log_density(*both), expected, rtol=1e-12)
    values, gradients = jax.vmap(jax.value_and_grad(log_density, 2))(*both)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(gradients, expected_counts(*both).states, atol=1e-14)


def test_probabilities_and_logs_give_the_same():
    rng = np.random.default_rng(5)
    initial, transition = (np.log(rng.dirichlet(np.ones(3), shape)) for shape in ((2,), (2, 3)))
    initial, transition = np.moveaxis(initial, -1, 0), np.moveaxis(transition, (1, 2), (0, 1))
    emissions = rng.normal(0, 30, (60, 3, 5, 1))
    active = np.arange(60)[:, None, None] < np.array([60, 1, 17, 30, 59])[:, None]
    arrays = tuple(map(jnp.asarray, (initial[:, None], transition[:, :, None], emissions, active)))
    ours, logs, ahead = jax.jit(
        lambda *arrays: (forward_backward(*arrays), forward_backward_in_logs(*arrays), forward(*arrays))
    )(*arrays)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(logs), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(ahead, logs[0], rtol=1e-12)


def test_nothing_underflows_in_a_hundred_thousand_steps():
    """One state more probable at all steps: the density is a product that is known."""
    num_steps = 100_000
    emissions = np.tile(np.array([-7.0, -9.0]), (num_steps, 1))
    same = np.log(np.full((2, 2), 0.5))
    value, gradient = jax.value_and_grad(log_density, 2)(same[0], same, jnp.asarray(emissions))
    share = np.exp([-7.0, -9.0]) / np.exp([-7.0, -9.0]).sum()
    np.testing.assert_allclose(value, num_steps * np.log(0.5 * np.exp([-7.0, -9.0]).sum()), rtol=1e-10)
    np.testing.assert_allclose(gradient, np.tile(share, (num_steps, 1)), rtol=1e-9)


def test_second_derivatives_are_those_of_the_sum_over_paths():
    arrays = chain(2, 3, seed=6)
    rng = np.random.default_rng(7)
    direction = tuple(rng.normal(size=array.shape) for array in arrays)
    paths, _ = of_paths(*arrays)

    def plain(log_initial, log_transition, log_emissions):
        total = log_initial[paths[:, 0]] + log_emissions[jnp.arange(3), paths].sum(1)
        return jax.nn.logsumexp(total + log_transition[paths[:, :-1], paths[:, 1:]].sum(1))

    def derivatives(function, arrays, direction):
        value, slope = jax.jvp(function, arrays, direction)
        curvature = jax.jvp(jax.grad(function, (0, 1, 2)), arrays, direction)[1]
        return value, slope, *curvature

    ours, theirs = (
        jax.jit(derivatives, static_argnums=0)(function, arrays, direction) for function in (log_density, plain)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_paths_are_drawn_with_their_probabilities():
    log_initial, log_transition, _ = chain(2, 0, (3,), seed=8, zeros=0.2)
    states = dist.Categorical(probs=np.eye(2))  # whose symbols show them
    hidden = bg.HiddenMarkov(np.exp(log_initial), np.exp(log_transition), states, 3)
    draws = hidden.sample(jax.random.key(0), (20_000,))
    assert draws.shape == (20_000, 3, 3)
    for of_class in range(3):
        paths, logs = of_paths(log_initial[of_class], log_transition[of_class], np.zeros((3, 2)))
        codes = np.asarray(draws[:, of_class]) @ [4, 2, 1]
        share = np.bincount(codes, minlength=8) / len(codes)
        np.testing.assert_allclose(share[paths @ [4, 2, 1]], np.exp(logs), atol=4 * 0.5 / np.sqrt(len(codes)))


def test_it_agrees_with_hmmlearn():
    hmm = pytest.importorskip("hmmlearn.hmm")
    log_initial, log_transition, _ = chain(3, 0, seed=10)
    values, means = np.random.default_rng(11).normal(0, 2, (200, 1)), np.array([[-2.0], [0.0], [2.5]])
    peer = hmm.GaussianHMM(3, "diag")
    peer.startprob_, peer.transmat_, peer.means_ = np.exp(log_initial), np.exp(log_transition), means
    peer.covars_ = np.full((3, 1), 1.7)
    emissions = -0.5 * ((values - means.T) ** 2 / 1.7 + np.log(2 * np.pi * 1.7))
    arrays = log_initial, log_transition, emissions
    np.testing.assert_allclose(log_density(*arrays), peer.score(values), rtol=1e-11)
    np.testing.assert_allclose(expected_counts(*arrays).states, peer.predict_proba(values), atol=1e-9)
    best, path = peer.decode(values)
    paths, total = most_probable_paths(*arrays)
    np.testing.assert_array_equal(paths, path)
    np.testing.assert_allclose(total, best, rtol=1e-11)
