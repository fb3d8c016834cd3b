"""Progress on standard error, in a terminal only."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(description: str, total: int, is_shown: bool | None) -> Iterator[Callable[[float], None]]:
    """A context that gives `advance(amount)`, with a bar if it is shown (None: if standard error is a terminal)."""
    if not (sys.stderr.isatty() if is_shown is None else is_shown):
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda amount: progress.advance(task, amount)
