"""Numbers that are predicted, as they come in."""

import decimal
import fractions

import numpy as np
import pytest

import bayesgen as bg
from bayesgen.data import response_values


def test_numbers_of_all_kinds_among_missing_values_are_read():
    mixed = [1, None, decimal.Decimal("2.5"), fractions.Fraction(1, 2), np.float32(3), float("nan"), np.int8(-4)]
    expected = [1.0, np.nan, 2.5, 0.5, 3.0, np.nan, -4.0]
    np.testing.assert_array_equal(response_values(np.asarray(mixed, object)), expected)
    np.testing.assert_array_equal(response_values(np.asarray([3, 5], np.int32)), [3.0, 5.0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, "2", None, "two"], "price holds '2', 'two', and a regression wants numbers"),
        ([1.0, True, None], "price holds 'True', and a regression"),
        ([1.0, 10**400, None], "price holds '1000"),
        ([1.0, 1 + 2j, None], r"price holds '\(1\+2j\)'"),
    ],
)
def test_what_is_no_number_is_named_and_nothing_else(values, message):
    with pytest.raises(bg.DataError, match=message):
        response_values(np.asarray(values, object), "price")


@pytest.mark.parametrize(
    "values", [np.asarray(["1", "2"]), np.asarray([True, False]), np.asarray(["2020-01-01"], "M8[D]")]
)
def test_columns_of_no_numbers_are_refused_by_their_dtype(values):
    with pytest.raises(bg.DataError, match=r"y has dtype .*regression wants numbers"):
        response_values(values)
