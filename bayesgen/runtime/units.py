"""Units of long work, such as the fits of a study, which run where the configuration of joblib says."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import joblib
from joblib.parallel import get_active_backend

from bayesgen.errors import BayesgenWarning, warn, warnings_told_to

Unit = TypeVar("Unit")
Outcome = TypeVar("Outcome")


def in_units(
    function: Callable[[Unit], Iterable[Outcome]],
    units: Sequence[Unit],
    lost: Callable[[Unit, Exception], Iterable[Outcome]],
) -> Iterator[Outcome]:
    """The outcomes of all units, in order: those of one unit are what the function yields.

    Units run one after another here, and outcomes come as they are yielded; or, inside of
    `joblib.parallel_config(backend="dask", ...)`, as its backend runs them. Function, units and outcomes are then
    pickled by the backend. Where that gives up, because a worker is lost or a unit ends in an error, the units that are
    left run once more, one by one; `lost` gives the outcomes of one that fails again.
    """
    backend, num_jobs = get_active_backend()
    if (num_jobs or backend.default_n_jobs) == 1:
        for unit in units:
            yield from function(unit)
        return
    finished = _finished(function, units)
    for unit in units:
        try:
            outcomes, caught = next(finished)
        except Exception:  # of the backend; once it has given up, there is no next one
            try:
                outcomes, caught = next(_finished(function, [unit]))
            except Exception as error:
                outcomes, caught = list(lost(unit, error)), []
        for warning in caught:
            warn(*warning)
        yield from outcomes


Finished = tuple[list[Outcome], list[tuple[str, type[BayesgenWarning]]]]
"""The outcomes of a unit, and its warnings."""


def _finished(function: Callable[[Unit], Iterable[Outcome]], units: Sequence[Unit]) -> Iterator[Finished[Outcome]]:
    return_as = "generator" if get_active_backend()[0].supports_return_generator else "list"
    return iter(joblib.Parallel(return_as=return_as)(joblib.delayed(_run)(function, unit) for unit in units))


def _run(function: Callable[[Unit], Iterable[Outcome]], unit: Unit) -> Finished[Outcome]:
    """A finished unit, whose inner units ran one after another."""
    caught: list[tuple[str, type[BayesgenWarning]]] = []
    with joblib.parallel_config(backend="sequential"), warnings_told_to(lambda *warning: caught.append(warning)):
        return list(function(unit)), caught
