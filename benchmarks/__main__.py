"""Measure everything, print a table, and write the results of this machine to benchmarks/results/, line by line.

Peers that are not installed are skipped: `pip install -e '.[bench]'`. A line that ends in an error is said to have
failed, and the exit status is 1 then. A full run takes at most half an hour on 2 cores. The atlas, which takes longer,
is measured where it is named, or by `python -m benchmarks.atlas`.
"""

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Iterator

from . import pages, report
from .measure import Failed, Missing, Row

ROOMS = (
    "start_up",
    "closed_form",
    "price",
    "finite",
    "steps",
    "averaging",
    "sequences",
    "mixtures",
    "continuous",
    "memory",
    "missing",
    "surfaces",
    "baum_welch",
    "cold",
    "hidden_markov",
    "grammars",
    "sampling",
    "integrated",
    "many",
    "left_out",
    "as_written",
    "sources",
    "gpu",
)
APART = ("atlas",)  # measured only where they are named


def main() -> None:
    """Parse the arguments, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer repeats, and no file")
    parser.add_argument("--only", choices=ROOMS + APART, action="append", help="one of the rooms (repeatable)")
    parser.add_argument("--resume", action="store_true", help="keep lines that were measured with the same commit")
    parser.add_argument("--readme", action="store_true", help="write results into README.md and docs, measure nothing")
    options = parser.parse_args()
    if options.readme:
        print(*pages.write(report.Results.of_machine()), sep="\n")
        return
    results, versions = report.Results.of_machine(), report.software()
    lines: list[Row | Missing] = []
    for room in options.only or ROOMS:
        earlier = [] if options.quick else results.begin(room, versions, options.resume)
        lines += earlier
        for line, seconds in measured(room, options.quick, len(earlier)):
            lines.append(line)
            if not options.quick:
                results.add(room, line, seconds)
    report.show(lines, results.machine | versions)
    if any(isinstance(line, Failed) for line in lines):
        sys.exit(1)


def measured(room: str, quick: bool, first: int = 0) -> Iterator[tuple[Row | Missing, float]]:
    """The lines of a room, from one on, with their seconds; one that fails is reported and does not stop the others."""
    try:
        for number, measure in enumerate(importlib.import_module(f"{__package__}.{room}").measures(quick)):
            if number >= first:
                start = time.monotonic()
                line = attempt(room, measure)
                seconds = time.monotonic() - start
                words = f"{line.figure:.3g}: {line.medians}, {line.peer_name}" if isinstance(line, Row) else line.reason
                print(f"{room}: {line.work}: {words} ({seconds:.0f} s)", file=sys.stderr, flush=True)
                yield line, seconds
    except Exception as error:
        yield failed(room, error), 0.0


def attempt(room, measure):
    """One line."""
    try:
        return measure()
    except Exception as error:
        return failed(room, error)


def failed(room, error):
    """The line that stands for one that failed, with its error."""
    traceback.print_exception(error)
    return Failed(room, f"{type(error).__name__}: {error}"[:200])


if __name__ == "__main__":
    main()
