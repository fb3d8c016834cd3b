"""How every command runs: its notes, files that are complete or absent, and its exit status."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from uuid import uuid4

import typer
from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from bayesgen.errors import BayesgenError, BayesgenWarning, DataError, warnings_told_to

from .interruption import undone_unless_finished

WAIT = 2.0  # seconds before a command says in a terminal what it waits for
_CLEARED = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))  # of the rest of a progress bar
Files: TypeAlias = dict[Path, Callable[[Path], object]]  # path -> function that writes the file


@dataclass(frozen=True)
class Outcome:
    """The result of a command.

    Attributes:
        shown: parts that are printed.
        text: a text that is printed as it is.
        content: function that gives the result as plain Python, for JSON.
        files: the files that are written.
        passed: whether the exit status is 0.
    """

    shown: Sequence[RenderableType] = ()
    text: str = ""
    content: Callable[[], Any] = dict
    files: Files = field(default_factory=dict)
    passed: bool = True


class OutputError(Exception):
    """Standard output cannot be written; its cause says why."""


class Screen:
    """What a command prints while it works: results on standard output, all else on standard error."""

    def __init__(self, as_json: bool) -> None:
        plain: dict[str, Any] = {"markup": False, "emoji": False}  # names and classes are texts of the user's
        self.as_json = as_json
        self.results = Console(**plain)
        self.messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), **plain)

    @property
    def is_watched(self) -> bool:
        """Whether a person sees the results at once."""
        return self.results.is_terminal and not self.as_json

    def show(self, *parts: RenderableType) -> None:
        """Print parts of the result, unless it is printed as JSON."""
        try:
            for part in parts if not self.as_json else ():
                self.results.print(part)
        except OSError as error:
            raise OutputError from error

    def tell(self, line: RenderableType) -> None:
        """Print a line on standard error."""
        self.messages.control(_CLEARED)
        self.messages.print(line)

    @contextmanager
    def waiting_for(self, work: str) -> Iterator[None]:
        """A block of work; if it takes long, a line in a terminal says what is waited for."""
        timer = threading.Timer(WAIT, self.tell, [Text(f"{work} ...", style="dim")])
        timer.daemon = True
        if self.messages.is_terminal:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def warnings(self) -> AbstractContextManager[None]:
        """A block in which warnings of bayesgen are shown as notes, each once."""
        seen = set()

        def show_note(message: str, category: type[BayesgenWarning]) -> None:
            if message not in seen:
                seen.add(message)
                self.tell(Text.assemble(("note: ", "yellow"), message))

        return warnings_told_to(show_note)


def run(
    work: Callable[[Screen], Outcome], *paths: Path | None, folder: Path | None = None, as_json: bool = False
) -> NoReturn:
    """Do the work of a command, write its files, show its result, and end with its exit status, 1 where it is refused.

    Args:
        work: the work.
        paths: of files that it is going to write. That they can be written is seen before the work.
        folder: of further files.
        as_json: whether the result is printed as JSON.
    """
    screen = Screen(as_json)
    try:
        with ExitStack() as contexts:
            contexts.enter_context(screen.warnings())
            folders = {*filter(None, [folder]), *(_folder_of(path) for path in paths if path is not None)}
            files = {path: contexts.enter_context(_written_together(path)) for path in folders}
            outcome = _interruptibly(work, screen)
            for path, write in outcome.files.items():
                files[_folder_of(path)][path.name] = write
        screen.show(*outcome.shown)
    except OutputError as failure:
        raise failure.__cause__ or failure from None  # which the entry point tells
    except MemoryError as end:
        screen.tell(Text("bayesgen: memory is at its end, and no file was written. Give fewer rows, or more memory."))
        raise typer.Exit(1) from end
    except (BayesgenError, OSError) as refusal:
        screen.tell(Text.assemble(("bayesgen: ", "bold red"), str(refusal)))
        raise typer.Exit(1) from refusal
    sys.stdout.write(f"{as_json_text(outcome.content(), sys.stdout.encoding)}\n" if as_json else outcome.text)
    if outcome.files and not as_json:
        screen.tell(Text(f"Written: {', '.join(map(str, outcome.files))}", style="dim"))
    raise typer.Exit(0 if outcome.passed else 1)


def learning(methods: Sequence[str], more: str = "") -> str:
    """What is waited for while models are learned by some methods."""
    nuts = ", those of nuts for ten seconds or more" if "nuts" in methods else ""
    return f"Learning by {', '.join(methods)}{more}. Functions are compiled at their first use{nuts}"


def _interruptibly(work: Callable[[Screen], Outcome], screen: Screen) -> Outcome:
    """The outcome of the work, which Ctrl-C ends at once. Outside a terminal the library tells of long work."""
    with screen.waiting_for("Loading the library"):
        from bayesgen.runtime import at_work, interruptibly

    with at_work("the command", progress=False) if screen.messages.is_terminal else nullcontext():
        return interruptibly(lambda: work(screen))


def _folder_of(path: Path) -> Path:
    """The folder of a file that may be written or replaced."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is no file that could be replaced. Name another file.")
    return path.parent


@contextmanager
def _written_together(folder: Path) -> Iterator[dict[str, Callable[[Path], object]]]:
    """Files to be, which are written when the block ends: to a folder aside, then moved, so that none is incomplete.

    An error or Ctrl-C leaves neither these nor folders that were made for them.
    """
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    files: dict[str, Callable[[Path], object]] = {}
    aside = folder / f".bayesgen-{uuid4().hex}"

    def remove() -> None:
        shutil.rmtree(aside, ignore_errors=True)
        for parent in missing:
            with suppress(OSError):  # not made yet, or not empty
                parent.rmdir()

    with undone_unless_finished(remove):
        aside.mkdir(parents=True)
        yield files
        try:
            for name, write in files.items():
                write(aside / name)
            for name in files:
                os.replace(aside / name, folder / name)
            aside.rmdir()
        except OSError as error:
            raise OSError(f"The result cannot be written to {folder}: {error.strerror or error}") from error


def write_json(content: Any, path: Path) -> None:
    """Write strict JSON to a file."""
    path.write_text(as_json_text(content, "utf-8") + "\n", encoding="utf-8")


def as_json_text(content: Any, encoding: str) -> str:
    """Strict JSON, with escapes in place of letters where the encoding lacks some of them."""
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    return text if can_encode(text, encoding) else json.dumps(content, indent=2, allow_nan=False)


def can_encode(text: str, encoding: str) -> bool:
    """Whether every character of the text is in the encoding."""
    return text.encode(encoding, errors="ignore").decode(encoding) == text
