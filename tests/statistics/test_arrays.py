"""Functions of arrays that are compiled or not, look up what repeats, and are sums of logarithms written out."""

import math

import jax
import numpy as np
import pytest

from bayesgen.statistics.arrays import few_counts, log_factorial, log_rising

STARTS = {"small": [0.3, 2.0, 11.0], "large": [16.0, 70.5, 1e9], "both": [0.3, 15.9, 16.0, 4e5]}


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)
def test_rising_factorials_are_products_compiled_or_not(starts):
    starts, steps = np.array(starts)[:, None], np.arange(8)
    expected = [[math.fsum(math.log(start + r) for r in range(step)) for step in steps] for start in starts[:, 0]]
    with jax.enable_x64(True):
        for function in (log_rising, jax.jit(log_rising)):
            np.testing.assert_allclose(function(starts, steps), expected, rtol=1e-12, atol=1e-12)


def test_factorials_of_counts_that_repeat_or_do_not_and_of_one_count():
    repeated, unlike = np.arange(60.0) % 7, np.array([3.0, 150.0, 20.0])
    assert few_counts(repeated).tolist() == repeated.tolist() and few_counts(unlike) is None
    for counts in (repeated, unlike, repeated.reshape(30, 2), np.float64(6.0)):
        expected = np.vectorize(lambda count: math.log(math.factorial(int(count))))(counts)
        np.testing.assert_allclose(log_factorial(counts), expected, rtol=1e-12)
