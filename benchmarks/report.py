"""The table, the machine, and the file of results of this machine, which is written line by line."""

import dataclasses
import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from bayesgen.runtime import num_cores

from .measure import Failed, Missing, Row, from_json

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "numpyro", "jax", "numpy", "scipy", "scikit-learn", "pandas", "polars", "duckdb", "pymc", "nutpie", "pystan",
    "hmmlearn", "nltk",
)  # fmt: skip
TITLE = "Medians of runs in turn. x: ours against the peer in the same run, as the goal says (>= faster, <= price)"


def machine() -> dict[str, Any]:
    """The machine that figures are measured on."""
    return {
        "processor": _processor(),
        "cores": num_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "device": jax.devices()[0].device_kind,
    }


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def software() -> dict[str, str | None]:
    """The versions and the commit that figures are measured with."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _commit():
    """The commit measured; with + where files other than results differ from it."""

    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True)
        return done.stdout.strip()

    differs = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)results")
    return git("rev-parse", "--short=12", "HEAD") + "+" * bool(differs) or None


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def path(described: dict[str, Any]) -> Path:
    """The file of results of a machine: named after its processor, its cores and, if there is one, its GPU."""
    words = [described["processor"], f"{described['cores']} cores"]
    words += [] if described["device"] == "cpu" else [described["device"]]
    plain = re.sub(r"\(\w+\)|[^\w ]", "", " ".join(words)).lower().split()
    return RESULTS / f"{'-'.join(plain)}.json"


@dataclasses.dataclass
class Results:
    """Lines measured on one machine, by room, with the date and the versions of each room.

    Attributes:
        file: where they stand.
        machine: on which they were measured.
        rooms: name -> {"date", "software", "seconds", "lines"}.
    """

    file: Path
    machine: dict[str, Any]
    rooms: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_machine(cls) -> "Results":
        """The results of this machine so far."""
        described = machine()
        file = path(described)
        return cls.read(file) if file.exists() else cls(file, described)

    @classmethod
    def read(cls, file: Path) -> "Results":
        """The results in a file."""
        return cls(file, **json.loads(file.read_text(encoding="utf-8")))

    def lines(self, room: str) -> list[Row | Missing]:
        """The lines of a room; none where it was not measured."""
        return [from_json(line) for line in self.rooms.get(room, {"lines": []})["lines"]]

    def begin(self, room: str, versions: dict[str, str | None], resume: bool) -> list[Row | Missing]:
        """Begin a room anew, or after its lines that the same versions and commit gave, up to the first that failed."""
        entry = self.rooms.get(room, {})
        lines = self.lines(room) if resume and entry.get("software") == versions else []
        measured = next((i for i, line in enumerate(lines) if isinstance(line, Failed)), len(lines))
        seconds = entry["seconds"] if measured else 0.0
        today = datetime.date.today().isoformat()
        self.rooms[room] = {"date": today, "software": versions, "seconds": seconds, "lines": []}
        self.rooms[room]["lines"] = [line.as_json() for line in lines[:measured]]
        return lines[:measured]

    def add(self, room: str, line: Row | Missing, seconds: float) -> None:
        """Add a line that took so long, and write the file."""
        entry = self.rooms[room]
        entry["lines"].append(line.as_json())
        entry["seconds"] = round(entry["seconds"] + seconds, 1)
        self.file.parent.mkdir(exist_ok=True)
        content = {"machine": self.machine, "rooms": self.rooms}
        self.file.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def show(lines: Sequence[Row | Missing], described: dict[str, Any]) -> None:
    """Print the table, then its notes and what is missing."""
    console = Console(width=170)
    table = Table(title=TITLE, caption=", ".join(f"{name} {value}" for name, value in described.items()))
    for heading in ("", "work", "ours", "peer", "figure", "goal", "reached", "runs", "peer is"):
        table.add_column(heading)
    for number, line in enumerate(lines, 1):
        table.add_row(str(number), *_cells(line))
    console.print(table)
    for number, line in enumerate(lines, 1):
        if isinstance(line, Row) and line.note:
            console.print(f"{number}. {line.note}", highlight=False)


def _cells(row):
    if isinstance(row, Missing):
        return row.work, "", "", "", "", row.verdict, "", row.reason
    ours, peer = row.medians
    beside = f"{peer:.4g} {row.unit}" if row.peer else ""
    figure, runs = f"{row.figure:.3g}{row.goal.suffix}", str(len(row.ours))
    return row.work, f"{ours:.4g} {row.unit}", beside, figure, str(row.goal), row.verdict, runs, row.peer_name
