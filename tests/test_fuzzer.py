"""Calls with spoiled arguments end in an error of bayesgen or in a result that makes sense; see `tests/fuzzer`."""

import numpy as np
import pytest

from tests.fuzzer.calls import Call
from tests.fuzzer.ends import outcome_of, run_many


@pytest.mark.filterwarnings("ignore")  # each call looks at its own
@pytest.mark.parametrize("numbers", [range(50), pytest.param(range(1000, 5000), marks=pytest.mark.slow)])
def test_hostile_calls(numbers):
    counts, faults = run_many(numbers)
    assert faults == []
    assert sum(counts.values()) == len(numbers)
    assert {outcome for _, outcome in counts} >= {"answered", "DataError", "ModelError"}


class Nonsense:
    probabilities = np.array([[0.5, 0.75]])


@pytest.mark.parametrize(
    "function, end",
    [
        (lambda: np.zeros(3).reshape(2), "ValueError"),  # inside of another package
        (lambda: {}["a"], "KeyError"),
        (Nonsense, "probabilities"),
    ],
)
def test_ends_that_are_faults_are_found_out(function, end):
    assert outcome_of(Call("a call", function, {}))[1].startswith(end)
