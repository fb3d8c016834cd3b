"""Run all benchmarks, print a table, and write benchmarks/results/latest.json."""

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import classic, sampling, start_up

ROOMS = {"start_up": start_up, "classic": classic, "sampling": sampling}


def main() -> None:
    """Parse the arguments, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer repeats")
    parser.add_argument("--only", choices=ROOMS, action="append", help="one of the groups (repeatable)")
    options = parser.parse_args()
    results = [result for name in options.only or ROOMS for result in ROOMS[name].run(options.quick)]
    table = Table(title="Medians; ratio = the peer's time over ours, measured in the same run")
    for heading in ("work", "ours, s", "peer, s", "ratio", "goal", "peer"):
        table.add_column(heading)
    for one in results:
        table.add_row(one.work, f"{one.ours:.4g}", f"{one.peer:.4g}", f"{one.ratio:.2f}x", one.goal, one.peer_name)
    Console(width=160).print(table)
    packages = {name: version(name) for name in ("numpyro", "jax", "numpy", "scikit-learn")}
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), **packages}
    lines = [vars(one) | {"ratio": one.ratio} for one in results]
    out = Path(__file__).parent / "results"
    out.mkdir(exist_ok=True)
    (out / "latest.json").write_text(json.dumps({"machine": machine, "results": lines}, indent=2))


if __name__ == "__main__":
    main()
