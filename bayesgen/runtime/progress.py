"""What is told of work: bars in a terminal, a line that is kept up to date in a notebook, and elsewhere one line."""

import contextlib
import contextvars
import dataclasses
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SILENCE = 4.0  # seconds


@dataclasses.dataclass(eq=False)
class Work:
    """A call, with the calls inside of it.

    Attributes:
        is_quiet: whether nothing more is to be told of it.
        progress: whether its bars are shown; None where standard error is a terminal.
        last_sign: when a bar was last shown; infinite while one is.
        steps: what is being done, the outermost first.
        line: of a notebook, by its handle; None before it is shown.
    """

    is_quiet: bool
    progress: bool | None = None
    last_sign: float = dataclasses.field(default_factory=time.monotonic)
    steps: dict[object, str] = dataclasses.field(default_factory=dict)
    line: Any = None

    def tell_if_long(self) -> None:
        """Tell what is being done, if nothing has been seen for some seconds: once, or in a notebook's line."""
        seconds = time.monotonic() - self.last_sign
        if sys.stderr is not None and not self.is_quiet and seconds > SILENCE:
            steps = ", ".join(self.steps.copy().values())
            text = f"bayesgen: at work on {steps}; first calls compile, which takes longest."
            if in_notebook():
                self.show(f"{text} {seconds:.0f} s")
            else:
                self.is_quiet = True
                print(text, file=sys.stderr)

    def show(self, text: str) -> None:
        """Show a text in the line of a notebook, in place of the one before."""
        from IPython.display import display

        if self.line is None:
            self.line = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.line.update({"text/plain": text}, raw=True)

    def end(self) -> None:
        """Say in the line of a notebook that nothing is being done any more."""
        self.is_quiet = True
        self.show(f"bayesgen: at work for {time.monotonic() - self.last_sign:.0f} s.")


def in_notebook() -> bool:
    """Whether a notebook shows the results; IPython is not imported for this question."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


WORK: contextvars.ContextVar[Work | None] = contextvars.ContextVar("bayesgen_work", default=None)
RUNNING: list[Work] = []
WATCH = {"thread": threading.Thread()}  # which runs while calls do


def watch() -> None:
    """Tell of calls that take long, until none is running."""
    while RUNNING:
        time.sleep(SILENCE / 8)
        for work in RUNNING.copy():
            work.tell_if_long()


@contextlib.contextmanager
def bar(description: str, total: int | None, is_shown: bool | None = None) -> Iterator[Callable[[float], None]]:
    """A context that gives `advance(amount)`, with a bar if it is shown.

    Args:
        description: what is counted.
        total: how much there is; None where nobody knows.
        is_shown: None if the call shows its bars, by default if standard error is a terminal. There is one at a time.
    """
    work, key, done = WORK.get() or Work(is_quiet=True), object(), 0.0

    def count(amount: float) -> None:
        nonlocal done
        done += amount
        numbers = f"{done:,.0f}" if total is None else f"{done:,.0f} of {total:,}"
        work.steps[key] = description if total == 1 else f"{description} ({numbers})"

    is_shown = work.progress if is_shown is None else is_shown
    is_shown = sys.stderr is not None and (sys.stderr.isatty() if is_shown is None else is_shown)
    if in_notebook() or not is_shown or work.last_sign == math.inf:
        count(0.0)
        try:
            yield count
        finally:
            del work.steps[key]
        return
    work.last_sign = math.inf  # before the imports, which take a while
    import rich.progress as bars
    from rich.console import Console

    numbers = (bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), *numbers)
    try:
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(description, total=total)
            yield lambda amount: progress.advance(task, amount)
    finally:
        work.last_sign = time.monotonic()
