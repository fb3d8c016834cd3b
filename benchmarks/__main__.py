"""Measure everything, print a table, and write benchmarks/results/latest.json.

Peers that are not installed are skipped: `pip install -e '.[bench]'`. A line that ends in an error is said to have
failed, and the exit status is 1 then. A full run takes about half an hour on 2 cores, and the first time up to an hour
more for the atlas.
"""

import argparse
import importlib
import sys
import time
import traceback

from . import report
from .measure import Failed, Row

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
    "atlas",
    "left_out",
    "as_written",
    "sources",
    "gpu",
)


def main() -> None:
    """Parse the arguments, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer repeats, one number of rows")
    parser.add_argument("--only", choices=ROOMS, action="append", help="one of the rooms (repeatable)")
    options = parser.parse_args()
    start = time.monotonic()
    results = [row for room in options.only or ROOMS for row in measured(room, options.quick)]
    described = report.machine()
    report.show(results, described)
    minutes = round((time.monotonic() - start) / 60, 1)
    report.write(results, described, {**vars(options), "minutes": minutes})
    if any(isinstance(row, Failed) for row in results):
        sys.exit(1)


def measured(room, quick):
    """The lines of a room; a line that fails is reported and does not stop the others."""
    lines = []
    try:
        for measure in importlib.import_module(f"{__package__}.{room}").measures(quick):
            lines.append(attempt(room, measure))
    except Exception as error:
        lines.append(failed(room, error))
    return lines


def attempt(room, measure):
    """One line."""
    start = time.monotonic()
    try:
        row = measure()
    except Exception as error:
        return failed(room, error)
    took = time.monotonic() - start
    found = f"{row.figure:.3g}: {row.medians}, {row.peer_name}" if isinstance(row, Row) else row.reason
    print(f"{room}: {row.work}: {found} ({took:.0f} s)", file=sys.stderr, flush=True)
    return row


def failed(room, error):
    """The line that stands for one that failed, with its error."""
    traceback.print_exception(error)
    return Failed(room, f"{type(error).__name__}: {error}"[:200])


if __name__ == "__main__":
    main()
