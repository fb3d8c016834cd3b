"""Units run where joblib says, in order, with their warnings; one that fails, or whose worker is lost, costs itself."""

import os

import joblib
import pytest

import bayesgen as bg
from bayesgen.errors import warn
from bayesgen.runtime import in_units


def squares(unit):
    """Two outcomes of a unit, with a warning between them."""
    yield unit, unit**2
    if unit == 3:
        warn("three is odd")
    with joblib.parallel_config(n_jobs=2):
        yield unit, list(in_units(range, [unit], refused))


def refused(unit, error):
    return [(unit, repr(error))]


def failing(unit):
    """The units of which the second fails."""
    if unit == 1:
        raise OSError("no room")
    yield unit


def lethal(unit):
    """The units of which the second ends its process."""
    if unit == 1:
        os._exit(1)
    yield unit


def run(function, backend, num_units):
    with joblib.parallel_config(backend, n_jobs=2):
        return list(in_units(function, range(num_units), refused))


@pytest.mark.parametrize("backend", ["sequential", "threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_outcomes_come_in_order_with_their_warnings(backend):
    expected = [outcome for unit in range(5) for outcome in ((unit, unit**2), (unit, list(range(unit))))]
    with pytest.warns(bg.BayesgenWarning, match="three is odd") as caught:
        assert run(squares, backend, 5) == expected
    assert [warning.filename for warning in caught] == [__file__]


def test_a_unit_that_fails_costs_itself_elsewhere_and_ends_the_work_here():
    assert run(failing, "threading", 4) == [0, (1, "OSError('no room')"), 2, 3]
    with pytest.raises(OSError, match="no room"):
        run(failing, "sequential", 4)


@pytest.mark.slow
def test_a_lost_worker_costs_its_unit():
    first, (lost, error), *others = run(lethal, "loky", 4)
    assert (first, lost, others) == (0, 1, [2, 3])
    assert "TerminatedWorkerError" in error
