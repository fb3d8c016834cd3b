"""The table, the machine, and the JSON."""

import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax
from rich.console import Console
from rich.table import Table

from bayesgen.runtime import num_cores

from .measure import Missing, Row

RESULTS = Path(__file__).parent / "results" / "latest.json"
PACKAGES = ["numpyro", "jax", "numpy", "scipy", "scikit-learn", "pandas", "pymc", "nutpie", "pystan", "hmmlearn"]
TITLE = "Medians of runs in turn. x: ours against the peer in the same run, as the goal says (>= faster, <= price)"


def machine():
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": num_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "device": jax.default_backend(),
        "python": platform.python_version(),
        "commit": _commit(),
        **{name: _version(name) for name in PACKAGES},
    }


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit():
    """The commit measured; with + where files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=RESULTS.parents[1], capture_output=True, text=True)
    return done.stdout.strip() or None


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def show(results, described):
    """Print the table, then its notes and what is missing."""
    console = Console(width=170)
    table = Table(title=TITLE, caption=", ".join(f"{name} {value}" for name, value in described.items()))
    for heading in ("", "work", "ours", "peer", "figure", "goal", "reached", "runs", "peer is"):
        table.add_column(heading)
    for number, row in enumerate(results, 1):
        table.add_row(str(number), *_cells(row))
    console.print(table)
    for number, row in enumerate(results, 1):
        if isinstance(row, Row) and row.note:
            console.print(f"{number}. {row.note}", highlight=False)


def _cells(row):
    if isinstance(row, Missing):
        return row.work, "", "", "", "", row.verdict, "", row.reason
    ours, peer = row.medians
    beside = f"{peer:.4g} {row.unit}" if row.peer else ""
    figure, runs = f"{row.figure:.3g}{row.goal.suffix}", str(len(row.ours))
    return row.work, f"{ours:.4g} {row.unit}", beside, figure, str(row.goal), row.verdict, runs, row.peer_name


def write(results, described, options):
    """Write all runs of all lines."""
    RESULTS.parent.mkdir(exist_ok=True)
    content = {"machine": described, **options, "results": [_as_json(row) for row in results]}
    RESULTS.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _as_json(row):
    if isinstance(row, Missing):
        return {"work": row.work, row.verdict: row.reason}
    ours, peer = row.medians
    return {
        "work": row.work,
        "unit": row.unit,
        "ours": ours,
        "peer": peer if row.peer else None,
        "figure": row.figure,
        "goal": str(row.goal),
        "reached": row.goal.is_reached(row.figure),
        "peer_name": row.peer_name,
        "note": row.note,
        "runs": {"ours": list(row.ours), "peer": list(row.peer)},
    }
