"""Hostile calls of the public functions: `python -m tests.fuzzer --cases 100000 --workers 2`.

A case is a call with good arguments of which none, one or two are spoiled: by a value of another kind or size, in one
cell of the data, or by leaving it out. Its end is right where it is an error of bayesgen, or a result that makes sense:
probabilities between 0 and 1 that sum to one, numbers that are not NaN where there are none. Anything else is a fault:
an error raised inside of another package, a warning that is not of bayesgen, NaN, a call that does not return.

A case is told by its number, and `--first N --cases 1` runs it again.
"""

import argparse
import collections
import faulthandler
import json
import math
import multiprocessing
import sys
import time

import pandas as pd

from .ends import run_many


def main() -> None:
    """Run cases and print the table of their ends; the status is 1 where there were faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no more cases are begun after these")
    options = parser.parse_args()
    faulthandler.enable()
    start = time.monotonic()
    step = 250
    numbers = range(options.first, options.first + options.cases)
    parts = [numbers[first : first + step] for first in range(0, len(numbers), step)]
    counts: collections.Counter = collections.Counter()
    shown: collections.Counter = collections.Counter()
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=20) as pool:
        for more, faults in pool.imap_unordered(run_many, parts):
            counts += more
            for fault in faults:
                kind = f"{fault.end.partition(':')[0]} ({fault.end.rpartition('(')[2]}"
                shown[kind] += 1
                if shown[kind] <= 2:
                    print(json.dumps(fault._asdict(), ensure_ascii=True), flush=True)
            if time.monotonic() - start > options.seconds:
                break
    table = pd.Series(counts).unstack(fill_value=0)
    print(table.to_string(), f"\n{sum(counts.values())} cases, {sum(shown.values())} faults of {len(shown)} kinds")
    sys.exit(bool(shown))


if __name__ == "__main__":
    main()
