"""Pages of Markdown whose code runs: a ```python block must give the output in the ```text block that follows it.

A page is one session, as a notebook is: its blocks run in order and share their names. The output of a block is what it
prints, then its warnings, then the error that ends it, each as "Name: message". A ```bash block is run where a ```text
block follows it. Words must be equal; numbers may differ by one in their last decimal, and times ("0.4 s") by anything.
Numbers of a sampler, which other machines draw otherwise, stand in a block ```text roughly: to a factor of four.

`python tests/pages.py` checks README.md and the pages of docs/, or the pages that it is given. With `--write` it writes
the outputs that differ into the pages; an error is written only where an error or nothing stands.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```\n(?:\n?^```text( roughly)?\n(.*?)^```\n)?", flags=re.S | re.M)
TIME = re.compile(r"[\d.,]+(?= ?(?:s|ms|seconds?|minutes?)\b)")
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?(?!\w)")
WIDTH = 92  # of a line on the site


class Block(NamedTuple):
    """The code of a block, the output below it, its line, and where both are in the text of the page.

    Numbers of the output are those of a sampler where it `is_rough`.
    """

    language: str
    code: str
    output: str
    is_rough: bool
    line: int
    span: tuple[int, int]


class OutputError(AssertionError):
    """The output of a block is not the one that stands below it."""


def blocks_of_page(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], match[4] or "", bool(match[3]), text[: match.start()].count("\n") + 1, match.span())
        for match in BLOCK.finditer(text)
        if match[1] == "python" or match[4] is not None
    ]


def pages() -> list[Path]:
    """README.md and the pages of docs/ that have blocks to run."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in paths if "_build" not in path.parts and blocks_of_page(path)]


def run_page(page: Path, write: bool = False) -> dict[str, Any]:
    """Run the blocks of a page in the current folder, and return the names that they define."""
    names: dict[str, Any] = {"__name__": "__page__"}
    text = page.read_text(encoding="utf-8")
    differing: list[tuple[Block, str]] = []
    for block in blocks_of_page(page):
        output, error = run_bash(block.code) if block.language == "bash" else run_python(block, page, names)
        if agree(block.output, output, block.is_rough):
            continue
        if not write or (error is not None and block.output and "Error: " not in block.output):
            where = f"{page.relative_to(ROOT)}, line {block.line}"
            raise OutputError(f"{where}, says\n{block.output}\nand the code gives\n{output}") from error
        differing.append((block, output))
    for block, output in reversed(differing):
        below = f"\n```text{' roughly' * block.is_rough}\n{output}```\n" if output else ""
        text = text[: block.span[0]] + f"```{block.language}\n{block.code}```\n{below}" + text[block.span[1] :]
    if differing:
        page.write_text(text, encoding="utf-8")
    return names


def run_python(block: Block, page: Path, names: dict[str, Any]) -> tuple[str, Exception | None]:
    printed, refusal = io.StringIO(), None
    code = "\n" * block.line + block.code  # so that a traceback has the line of the page
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("default")
        try:
            exec(compile(code, str(page), "exec"), names)
        except Exception as error:
            refusal = error
    notes = [as_line(warning.category, warning.message) for warning in caught]
    if refusal is not None:
        notes.append(as_line(type(refusal), refusal))
    return printed.getvalue() + "".join(notes), refusal


def as_line(kind: type, message: object) -> str:
    text = f"{kind.__name__}: {message}"
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def run_bash(code: str) -> tuple[str, Exception | None]:
    """What commands print, for somebody who has installed the package."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": str(WIDTH)}
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, env=environment, check=False)
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    if done.returncode:
        lines += [f"status {done.returncode}", *done.stderr.splitlines()]
    return "".join(f"{line}\n" for line in lines), None


def agree(expected: str, output: str, is_rough: bool) -> bool:
    """Whether two outputs say the same, but for spaces, times, and the last decimals of numbers."""
    first, second = (TIME.sub("0", " ".join(text.split())) for text in (expected, output))
    if [words.strip() for words in NUMBER.split(first)] != [words.strip() for words in NUMBER.split(second)]:
        return False
    pairs = zip(NUMBER.findall(first), NUMBER.findall(second), strict=True)
    return all(are_near(*pair, is_rough) for pair in pairs)


def are_near(first: str, second: str, is_rough: bool) -> bool:
    if first == second:
        return True
    if is_rough:
        low, high = sorted(abs(as_number(text)) for text in (first, second))
        return high <= 4 * low
    last = max(last_place(first), last_place(second))
    return last < 1 and abs(as_number(first) - as_number(second)) < 1.01 * last


def as_number(text: str) -> float:
    return float(text.replace(",", ""))


def last_place(number: str) -> float:
    """What a one in the last place is worth: 0.01 of 3.14."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def main() -> None:
    write = "--write" in sys.argv
    asked = [Path(name).resolve() for name in sys.argv[1:] if name != "--write"] or pages()
    failures = 0
    for page in asked:
        begin, verdict = time.perf_counter(), "runs"
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            try:
                run_page(page, write)
            except OutputError as error:
                failures, verdict = failures + 1, f"differs\n{error}"
        print(f"{page.relative_to(ROOT)}: {time.perf_counter() - begin:.0f} s, {verdict}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
