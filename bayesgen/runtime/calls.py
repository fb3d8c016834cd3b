"""Calls by users: arguments by name, what is told of long work, Ctrl-C, and tracebacks without our own frames."""

import _thread
import contextlib
import functools
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from bayesgen.errors import LISTENER, BayesgenError, BayesgenWarning, ConstantColumnWarning, DataError, warn

from .progress import RUNNING, WATCH, WORK, Work, watch

Function = TypeVar("Function", bound=Callable[..., Any])


def public(function: Function) -> Function:
    """The function as users call it: `at_work`, with short tracebacks, and refusals that say what to write.

    Arguments without a default that go by name are None where they are missing: the function says what they may be.
    """
    arguments = inspect.signature(function).parameters.values()
    by_position = [argument.name for argument in arguments if argument.kind is argument.POSITIONAL_OR_KEYWORD]
    by_name = {argument.name: argument.default for argument in arguments if argument.kind is argument.KEYWORD_ONLY}
    required = dict.fromkeys(name for name, default in by_name.items() if default is inspect.Parameter.empty)
    takes_more = not by_name or any(argument.kind is argument.VAR_POSITIONAL for argument in arguments)
    is_method = by_position[:1] == ["self"]
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        handled = sys.exception()  # by the caller, whose own it stays
        try:
            if len(args) > len(by_position) and not takes_more:
                positions = ", ".join(by_position[is_method:])
                example = f"{next(iter(by_name))}={args[len(by_position)]!r}"
                raise DataError(
                    f"{name} takes {positions} by position and all else by name: write {name}({positions}, {example})."
                )
            about = "" if is_method or not args or isinstance(args[0], dict) else type(args[0]).__name__
            with at_work(f"{name}({about})", kwargs.get("progress")):
                return function(*args, **required | kwargs)
        except Exception as error:
            shorten_traceback(error, handled)
            raise

    return call  # type: ignore[return-value]


@contextlib.contextmanager
def at_work(step: str, progress: bool | None = None) -> Iterator[None]:
    """A context of work that is told of if it takes long, shows each of its warnings once, and loses no Ctrl-C.

    A Ctrl-C that arrives in a callback of the garbage collector is repeated: JAX has such a callback, and exceptions
    there are only reported to `sys.unraisablehook`.
    """
    usual, outer, key = sys.unraisablehook, WORK.get(), object()
    listener, kinds_shown = LISTENER.get(), set[object]()

    def show_once(message: str, category: type[BayesgenWarning]) -> None:
        kind = category if category is ConstantColumnWarning else message  # these differ from subset to subset
        if kind not in kinds_shown:
            kinds_shown.add(kind)
            listener(message, category)

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            threading.Timer(0.05, _interrupt, [threading.get_ident()]).start()  # after the collection
        else:
            usual(unraisable)

    work = outer or Work(progress is False, progress)
    is_main = threading.current_thread() is threading.main_thread()  # the only thread that is interrupted
    work.steps[key], token = step, WORK.set(work)
    listener_token = LISTENER.set(listener if outer else show_once)
    try:
        if outer is None:
            if not getattr(sys, "_is_gil_enabled", object)():
                warn(
                    "This Python runs threads without its global lock. Calls of bayesgen from several threads at once "
                    "are not supported there: call it from one thread, or start Python with PYTHON_GIL=1."
                )
            RUNNING.append(work)
            if not WATCH["thread"].is_alive():
                thread = WATCH["thread"] = threading.Thread(target=watch, daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread starts while Python ends
                    thread.start()
        if is_main:
            sys.unraisablehook = hook
        yield
    finally:
        LISTENER.reset(listener_token)
        WORK.reset(token)
        if is_main:
            sys.unraisablehook = usual
        if outer is None:
            RUNNING.remove(work)
            if work.line is not None:
                work.end()
        del work.steps[key]


def _interrupt(main_thread: int) -> None:
    """Interrupt the main thread as Ctrl-C does."""
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(main_thread, signal.SIGINT)  # also ends its waiting


_FOLDERS = (Path(__file__).parents[1], Path(os.__file__).parent)
_LIBRARIES = (*(f"{folder}{os.sep}" for folder in _FOLDERS), "<string>", "<frozen", "<@")


def shorten_traceback(error: Exception, handled: BaseException | None = None) -> None:
    """Leave of a traceback what is of use to whoever wrote the call: its first frame and, below it, their own function.

    Where no function of the user's was running, the last frame of an error of bayesgen is left; other errors are faults
    and stay as they are. The cause is treated alike, or not shown where it says no more. In Python's development mode,
    `python -X dev`, tracebacks are complete.

    Args:
        error: what was raised.
        handled: what the caller was handling, of which nothing is changed.
    """
    first, is_ours = error.__traceback__, isinstance(error, BayesgenError)
    link = _link_to_show(first and first.tb_next, is_ours)
    if first is None or link is None or sys.flags.dev_mode:
        return
    first.tb_next = link
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and cause is not handled and cause.__traceback__ is not None:
        link = _link_to_show(cause.__traceback__, is_ours and not isinstance(cause, BayesgenError))
        if link is None:
            error.__cause__ = None  # nor is a context shown
        else:
            cause.__traceback__ = link


def _link_to_show(traceback: TracebackType | None, needs_last: bool) -> TracebackType | None:
    """The first frame of a function of the user's or, if it is needed, the last frame; None without such a frame."""
    last = None
    while traceback is not None:
        file, last = traceback.tb_frame.f_code.co_filename, traceback
        if not file.startswith(_LIBRARIES) and "-packages" not in file:
            return traceback
        traceback = traceback.tb_next
    return last if needs_last else None
