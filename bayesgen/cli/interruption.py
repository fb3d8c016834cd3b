"""Ctrl-C on the command line: it ends the process at once, and removes unfinished files.

A KeyboardInterrupt would be lost where Python cannot raise it (in callbacks of the garbage collector and of the import
system, both of which JAX uses often), and the process would wait for threads that compile, which cannot be stopped. So
the signal handler itself removes unfinished files and ends the process.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

_TO_UNDO: list[Callable[[], object]] = []
_SHOW_CURSOR = "\x1b[?25h"  # hidden by progress bars


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """A block of the main thread in which Ctrl-C ends the process with status 130 and a message.

    Another handler of Ctrl-C is kept, such as none in the background of a shell.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def undone_unless_finished(undo: Callable[[], object]) -> Iterator[None]:
    """A block that is undone after an error or Ctrl-C; `undo` may be called before there is anything to undo."""
    _TO_UNDO.append(undo)
    try:
        yield
    except BaseException:
        undo()
        raise
    finally:
        _TO_UNDO.remove(undo)


def _end(signal_number: int, frame: Any) -> NoReturn:
    """Undo unfinished blocks, the last one first, write a message and end the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for undo in reversed(_TO_UNDO):
        undo()
    line = "bayesgen: interrupted\n"
    with suppress(OSError):  # not by sys.stderr, which the signal may have interrupted
        os.write(2, (f"{_SHOW_CURSOR}\n{line}" if os.isatty(2) else line).encode())
    os._exit(128 + signal.SIGINT)
