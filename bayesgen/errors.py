"""Errors and warnings of bayesgen: one small hierarchy under `BayesgenError`."""

import contextlib
import contextvars
import functools
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

if TYPE_CHECKING:
    import numpy as np


class BayesgenError(ValueError):
    """Base of every error that bayesgen raises on purpose. The message names the culprit and the remedy."""


class DataError(BayesgenError):
    """A column, a label or a weight of the data does not fit the schema or the model."""


class ModelError(BayesgenError):
    """A program breaks a convention, or a hyperparameter is outside its range."""


class FitError(BayesgenError):
    """The requested estimate does not exist for these data."""


class PredictionError(BayesgenError):
    """The fit cannot answer this prediction rule."""


class BayesgenWarning(UserWarning):
    """Base of every warning of bayesgen."""


class ConstantColumnWarning(BayesgenWarning):
    """A column does not vary; its default prior takes the variance 1, or that of the columns that share the prior."""


class UnknownValuesWarning(BayesgenWarning):
    """Some cells hold values that their columns did not have in training; these cells are taken as missing."""


class ImpossibleRowsWarning(BayesgenWarning):
    """Some rows have probability zero under every class, so their class probabilities are NaN."""


class ConvergenceWarning(BayesgenWarning):
    """Markov chains have not (or perhaps not) reached the posterior, or EM its maximum."""


class LabelSwitchingWarning(BayesgenWarning):
    """Draws of a mixture may have its components in different orders: `fit.relabel()` puts them in one order."""


LARGEST_COUNT = 2**31 - 1  # of what is counted one by one: rows, draws, steps


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, and not a truth value."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_integer(
    name: str, value: object, least: int, error: type[BayesgenError] = ModelError, remedy: str = "Correct it."
) -> None:
    """Refuse an argument that is not an integer of at least `least`; `name` is what the message calls it."""
    if not is_integer(value) or value < least:
        raise error(f"{name} must be a whole number and at least {least}, got {value!r}. {remedy}")
    if value > LARGEST_COUNT:
        raise error(f"{name} must be at most {LARGEST_COUNT:,}, got {value}. {remedy}")


def as_numbers(
    name: str, value: Any, error: type[BayesgenError] = ModelError, remedy: str = "Correct it."
) -> "np.ndarray":
    """An argument as an array of float64; what holds no numbers is refused."""
    import numpy as np  # not with the package, of which a line of help needs errors alone

    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if not np.iscomplexobj(value):
            return np.asarray(value, np.float64)
    raise error(f"{name} must be a number, or an array of numbers, got {value!r}. {remedy}")


def as_list(name: str, value: object, of: str, error: type[BayesgenError]) -> list[Any]:
    """An argument that has several objects as a list; tables, texts and what has no parts are refused."""
    try:
        if not isinstance(value, Mapping | str):
            return list(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        pass
    raise error(f"{name} must be a list of {of}, got {type(value).__name__}.")


def check_text(name: str, value: object, error: type[BayesgenError]) -> None:
    """Refuse an argument that is no text."""
    if not isinstance(value, str):
        raise error(f"{name} must be a text, got {value!r}.")


def check_flag(name: str, value: object, error: type[BayesgenError] = ModelError) -> None:
    """Refuse an argument that is neither True nor False."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise error(f"{name} must be True or False, got {value!r}.")


def check_object(argument: str, value: object, kind: type, error: type[BayesgenError]) -> None:
    """Refuse an argument that is no object of a kind, such as a class or its name; the message lists the choices."""
    if isinstance(value, kind):
        return
    choices = {choice.__name__.lower(): f"{choice.__name__}()" for choice in _exported(kind)}
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    example = choices.get(name.lower(), next(iter(choices.values())))
    raise error(
        f"{argument}= is {'missing' if value is None else f'{value!r}'}, and must be an object: one of "
        f"{', '.join(choices.values())}. Write {argument}={example}."
    )


def _exported(kind: type) -> list[type]:
    """The classes below a class that their rooms export."""
    children: list[type] = kind.__subclasses__()
    below = [choice for child in children for choice in (child, *_exported(child))]
    rooms = {choice: sys.modules.get(".".join(choice.__module__.split(".")[:2])) for choice in below}
    return [choice for choice in below if choice.__name__ in getattr(rooms[choice], "__all__", ())]


_NOT_THE_USER = (f"{Path(__file__).parent}{os.sep}", functools.__file__, contextlib.__file__)


def _shown(message: str, category: type[BayesgenWarning]) -> None:
    """Show a warning at the line of the user's code that called bayesgen."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


Listener: TypeAlias = Callable[[str, type[BayesgenWarning]], None]
# Of the context, and not of the process, as the filters of `warnings` are: other threads are told as before.
LISTENER: contextvars.ContextVar[Listener] = contextvars.ContextVar("bayesgen_warnings", default=_shown)


def warn(message: str, category: type[BayesgenWarning] = BayesgenWarning) -> None:
    """Warn at the line of the user's code that called bayesgen, however deep inside of it this is called."""
    LISTENER.get()(message, category)


@contextlib.contextmanager
def warnings_told_to(listener: Listener) -> Iterator[None]:
    """A block in which the warnings of bayesgen are not shown: the listener is called with each and its category."""
    token = LISTENER.set(listener)
    try:
        yield
    finally:
        LISTENER.reset(token)


def without_warnings(*categories: type[BayesgenWarning]) -> contextlib.AbstractContextManager[None]:
    """A block in which these warnings of bayesgen are not shown, and others are."""
    outer = LISTENER.get()
    return warnings_told_to(
        lambda message, category: None if issubclass(category, categories) else outer(message, category)
    )


@contextlib.contextmanager
def each_warning_once(num_sets: int) -> Iterator[Callable[..., contextlib.AbstractContextManager[None]]]:
    """A block in which the warnings of each data set are noted; afterwards each is shown once, with its count.

    Warnings of convergence, and those of constant columns, are one, that of the first set: they differ from set to set.
    """
    messages: dict[tuple[type[Any], str], list[tuple[int, str]]] = {}

    @contextlib.contextmanager
    def noted(*indices: int) -> Iterator[None]:
        caught: list[tuple[str, type[BayesgenWarning]]] = []
        with warnings_told_to(lambda *warning: caught.append(warning)):
            yield
        for message, category in caught:
            kind = "" if category in (ConvergenceWarning, ConstantColumnWarning) else message
            messages.setdefault((category, kind), []).extend((index, message) for index in indices)

    yield noted
    for (category, _), sets_and_messages in messages.items():
        first, message = sets_and_messages[0]
        more = f" and {len(sets_and_messages) - 1} more of {num_sets}" if len(sets_and_messages) > 1 else ""
        warn(f"Data set {first}{more}: {message}", category)
