"""How calls end, and which ends are faults."""

import collections
import inspect
import os
import signal
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpyro

import bayesgen as bg

from .calls import MAKERS, Call, spoiled
from .values import chosen

SECONDS = 60  # of one call, compilation included
FOLDER = str(Path(__file__).parent)
PACKAGE, STANDARD = str(Path(bg.__file__).parent), os.path.dirname(os.__file__)


class Slow(BaseException):
    """A call that took too long."""


class Fault(NamedTuple):
    """A call that ended wrongly: its number, what was called, and how it ended."""

    number: int
    call: str
    end: str


def run(number: int) -> tuple[str, str, Fault | None]:
    """What was called by a case, how it ended ("answered" or the kind of error), and the fault if there is one."""
    rng = np.random.default_rng([17, number])
    call = spoiled(chosen(rng, MAKERS)(rng), rng)
    text = f"{call.name}({', '.join(f'{key}={_text(value)}' for key, value in call.arguments.items())})"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome, end = outcome_of(call)
        except Slow:
            outcome, end = "slow", f"took more than {SECONDS} seconds"
    others = [w for w in caught if not issubclass(w.category, bg.BayesgenWarning | ResourceWarning)]
    if end is None and others and not _is_distribution(call):
        end = f"{others[0].category.__name__}: {others[0].message} ({others[0].filename}:{others[0].lineno})"
    return call.name, outcome, None if end is None else Fault(number, text, end)


def _text(value: Any) -> str:
    try:
        return repr(value)[:300].replace("\n", " ")
    except Exception as error:  # of a hostile object
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def outcome_of(call: Call) -> tuple[str, str | None]:
    """How a call ended, and what is wrong with it."""
    try:
        result = call.function(**call.arguments)
        result = call.then(result)
    except bg.BayesgenError as error:
        return type(error).__name__, None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, TypeError) and _is_ours(frames[-1].filename):
            return "TypeError", None  # what Python says of an argument that is missing, or of another type
        if isinstance(error, MemoryError) or (
            isinstance(error, ValueError | TypeError | OverflowError) and _is_distribution(call)
        ):
            return type(error).__name__, None  # distributions refuse as those of NumPyro do
        place = next((frame for frame in reversed(frames) if frame.filename.startswith(PACKAGE)), frames[-1])
        return (
            "fault",
            f"{type(error).__name__}: {str(error)[:300]} ({Path(place.filename).name}:{place.lineno} {place.name})",
        )
    return "answered", _nonsense(result)


def _is_ours(file: str) -> bool:
    """Whether a file is of bayesgen, of Python, or this one."""
    return file.startswith((FOLDER, PACKAGE)) or (file.startswith(STANDARD) and "site-packages" not in file)


def _is_distribution(call: Call) -> bool:
    return inspect.isclass(call.function) and issubclass(call.function, numpyro.distributions.Distribution)


def _nonsense(result: Any) -> str | None:
    """What makes no sense in a result."""
    probabilities = getattr(result, "probabilities", None)
    if isinstance(probabilities, np.ndarray) and probabilities.ndim == 2 and len(probabilities):
        good = probabilities[~np.isnan(probabilities).all(1)]  # rows that are impossible are NaN, with a warning
        if not ((good >= 0) & (good <= 1)).all() or not np.allclose(good.sum(1), 1.0, atol=1e-9):
            return f"probabilities {good[:3].tolist()}"
    evidence = getattr(result, "log_evidence", None)
    if isinstance(evidence, float) and np.isnan(evidence):
        return "the log evidence is NaN"
    return None


def _too_slow(*_: object) -> None:
    raise Slow


def run_many(numbers: Iterable[int]) -> tuple[collections.Counter, list[Fault]]:
    """The ends of cases, counted by (function, end), and the faults."""
    counts: collections.Counter = collections.Counter()
    faults = []
    before = signal.signal(signal.SIGALRM, _too_slow)
    try:
        for number in numbers:
            signal.alarm(SECONDS)
            name, outcome, fault = run(number)
            signal.alarm(0)
            counts[name, outcome if fault is None else "fault"] += 1
            if fault is not None:
                faults.append(fault)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return counts, faults
