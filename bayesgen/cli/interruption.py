"""Ctrl-C on the command line ends the process at once, wherever it comes, and leaves no half-made file behind.

A KeyboardInterrupt would be lost where Python cannot raise it (in callbacks of the garbage collector and of the import
system, both of which JAX keeps busy), and a process that it ends waits for threads that compile, which cannot be
stopped. So the handler of the signal itself takes back what was begun and ends the process.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

INTERRUPTED = 130
_TO_UNDO: list[Callable[[], object]] = []
_SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """A block of the main thread in which Ctrl-C ends the process with status 130 and a line that says so.

    Where Ctrl-C does something else, or nothing, as in the background of a shell, it goes on doing so.
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
    """A block that is undone where an error ends it, or Ctrl-C the process; `undo` may find nothing to undo yet."""
    _TO_UNDO.append(undo)
    try:
        yield
    except BaseException:
        undo()
        raise
    finally:
        _TO_UNDO.remove(undo)


def _end(signal_number: int, frame: Any) -> NoReturn:
    """Undo the last begun first, say so and end the process, whose main thread stands still meanwhile."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for undo in reversed(_TO_UNDO):
        undo()
    line = "bayesgen: interrupted\n"
    with suppress(OSError):  # written past sys.stderr, in the midst of whose work this may be
        os.write(2, (f"{_SHOW_CURSOR}\n{line}" if os.isatty(2) else line).encode())
    os._exit(INTERRUPTED)
