"""What distributions of sequences share: lengths, padding, and which arrays are sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesgen.errors import ModelError
from bayesgen.statistics import SequenceDistribution, is_inside, sequences


class Silence(SequenceDistribution):
    """Zeros."""

    def sample(self, key, sample_shape=()):
        shape = (*sample_shape, *self.batch_shape, self.steps_to_sample, *self.event_shape[1:])
        return self.cut(jnp.zeros(shape))


def test_lengths_say_how_long_samples_are():
    assert Silence((), 3).sample(None).tolist() == [0, 0, 0]
    ragged = Silence((2, 1), np.array([3, 0, 1]))
    assert ragged.batch_shape == (2, 3) and ragged.event_shape == (3,) and ragged.num_steps == 3
    np.testing.assert_array_equal(
        ragged.sample(None), np.broadcast_to([[0, 0, 0], [-1, -1, -1], [0, -1, -1]], (2, 3, 3))
    )
    assert Silence((), 2, max_length=4).sample(None).tolist() == [0, 0, -1, -1]


def test_steps_of_numbers_and_vectors_are_padded_by_nan():
    sample = Silence((), np.array([1, 2]), step_shape=(2,), of_symbols=False).sample(None)
    np.testing.assert_array_equal(sample, [[[0, 0], [np.nan, np.nan]], [[0, 0], [0, 0]]])


def test_lengths_may_be_traced_where_the_longest_is_stated():
    sample = jax.jit(lambda lengths: Silence((), lengths, max_length=3).sample(None))
    np.testing.assert_array_equal(sample(np.array([2, 3])), [[0, 0, -1], [0, 0, 0]])
    with pytest.raises(ModelError, match="Give length, or max_length"):
        jax.jit(lambda lengths: Silence((), lengths).sample(None))(np.array([2, 3]))
    with pytest.raises(ModelError, match="Give length"):
        Silence((), None).sample(None)


@pytest.mark.parametrize("length", [-1, 2.5, np.nan, np.array([1, -2]), np.array(["a"])])
def test_lengths_that_are_none_are_refused(length):
    with pytest.raises(ModelError, match="whole numbers from 0 on"):
        Silence((), length)


def test_lengths_above_the_longest_and_repeated_symbols_are_refused():
    with pytest.raises(ModelError, match="length of 5 is more than max_length=4"):
        Silence((), np.array([2, 5]), max_length=4)
    with pytest.raises(ModelError, match="another one"):
        Silence((), 2, symbols="aba")


def test_a_distribution_is_a_pytree_of_its_lengths():
    before = Silence((3,), np.array([2, 1, 2]), symbols="ab")
    leaves, structure = jax.tree.flatten(before)
    after = jax.tree.unflatten(structure, leaves)
    assert [leaf.tolist() for leaf in leaves] == [[2, 1, 2]]
    assert (after.num_steps, after.symbols, after.padding) == (2, ("a", "b"), -1)
    numbers = [Silence((), 2, of_symbols=False) for _ in range(2)]
    assert jax.tree.structure(numbers[0]) == jax.tree.structure(numbers[1]) != structure


@pytest.mark.parametrize("array", [np.array, jnp.array])
def test_sequences_are_codes_and_then_padding(array):
    is_one = sequences(3)
    rows = [[0, 1, 2], [0, -1, -1], [-1, -1, -1], [-1, 0, -1], [0, 3, -1], [0, -2, -1], [0.5, 0, 0]]
    assert is_one(array(rows)).tolist() == [True, True, True, False, False, False, False]
    ended = sequences(3, end=1)
    rows = [[0, 1, -1], [0, 2, 2], [0, 0, 1], [1, -1, -1], [1, 1, -1], [1, 0, -1], [0, -1, 1]]
    assert ended(array(rows)).tolist() == [True, True, True, True, False, False, False]
    assert is_inside(array([[0, -1, 2], [-1, 0, 0], [1, 1, 1]])).tolist() == [
        [True, False, False],
        [False, False, False],
        [True, True, True],
    ]
    assert is_one == sequences(3) and is_one != ended
    assert is_one(is_one.feasible_like(np.zeros((4, 2)))).all() and is_one(np.zeros((2, 0))).all()
