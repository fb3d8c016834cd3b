"""Tables of results in README.md and the pages of docs, between markers: `python -m benchmarks --readme`.

`<!-- figures: machine -->` begins the sentence about the machine, `<!-- figures: summary -->` the table of README, and
`<!-- figures: steps, sampling -->` a table of all lines of these rooms. Each ends with `<!-- end of figures -->`.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from .measure import Faster, Higher, Missing, Row, legible
from .report import Results

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARKED = re.compile(r"(<!-- figures: (.+?) -->).*?(<!-- end of figures -->)", re.DOTALL)
SUMMARY = (  # of README: rooms, and how their lines begin
    ("price", "one-step over two-step answer"),
    ("closed_form", "fit full covariance"),
    ("closed_form", "exact BMA probabilities, full covariance"),
    ("closed_form", "multinomial probabilities"),
    ("sampling", "smallest bulk ESS/s, full GDA, iris shape, N=150"),
    ("sampling", "smallest bulk ESS/s, full GDA, iris shape, N=10,000"),
    ("steps", "NUTS after the statistics pass"),
)
NAMED = {"python": "CPython", "numpyro": "NumPyro", "jax": "JAX", "numpy": "NumPy", "scikit-learn": "scikit-learn"}


def write(results: Results) -> Iterator[Path]:
    """Write the results into all pages that have markers; yields the pages that change.

    Raises:
        ValueError: a room that a page names was not measured, or lines failed, or versions are not allowed.
    """
    before = {page: page.read_text(encoding="utf-8") for page in PAGES}
    after = {page: filled(text, results) for page, text in before.items()}
    for page, text in after.items():
        if text != before[page]:
            page.write_text(text, encoding="utf-8")
            yield page


def filled(text: str, results: Results) -> str:
    """A page with the results between its markers."""
    return MARKED.sub(lambda match: f"{match[1]}\n\n{_section(match[2], results)}\n\n{match[3]}", text)


def _section(name: str, results: Results) -> str:
    if name == "machine":
        return _measured_on(results)
    if name == "summary":
        return _summary(results)
    lines = [line for room in name.split(", ") for line in _lines(results, room)]
    rows = [line for line in lines if isinstance(line, Row)]
    skipped = "; ".join(f"{line.work} ({line.reason})" for line in lines if isinstance(line, Missing))
    table = _table(("work", "ours", "peer", "ratio", "goal"), [[*_cells(row), str(row.goal)] for row in rows])
    return f"{table}\n\nNot measured: {skipped}." if skipped else table


def _lines(results: Results, room: str) -> list[Row | Missing]:
    lines = results.lines(room)
    failures = [line.reason for line in lines if line.verdict == "failed"]
    if failures or not lines:
        reason = f"failed: {failures[0]}" if failures else "was not measured"
        raise ValueError(f"{room} {reason}; measure it by `python -m benchmarks --only {room}` (in {results.file}).")
    return lines


def _measured_on(results: Results) -> str:
    """One sentence; versions are those of all rooms, and have to be allowed."""
    versions = {**next(iter(results.rooms.values()))["software"]}
    for room, entry in results.rooms.items():
        other = {name: entry["software"][name] for name in versions if name != "commit"}
        if other != {name: version for name, version in versions.items() if name != "commit"}:
            raise ValueError(f"{room} was measured with other versions; measure it again, or remove it.")
    check_versions(versions)
    machine, dates = results.machine, sorted({entry["date"] for entry in results.rooms.values()})
    packages = ", ".join(f"{words} {versions[name]}" for name, words in NAMED.items())
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}, {machine['memory_gb']:.0f} GB; {packages}), "
        f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, ours and the peer in turn; take ratios, not seconds. "
        f"All runs: `benchmarks/results/{results.file.name}`."
    )


def check_versions(versions: dict[str, str | None]) -> None:
    """Refuse versions that pyproject.toml does not allow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for text in [*project["dependencies"], *project["optional-dependencies"]["bench"]]:
        requirement = Requirement(text)
        version = versions.get(requirement.name)
        if version is not None and version not in requirement.specifier:
            raise ValueError(f"Measured with {requirement.name} {version}, but pyproject.toml asks for {requirement}.")


def _summary(results: Results) -> str:
    lines = []
    for room, work in SUMMARY:
        rows = [row for row in _lines(results, room) if isinstance(row, Row) and row.work.startswith(work)]
        if room == "price":
            figures = sorted(row.figure for row in rows)
            between = f"{legible(figures[0])} to {legible(figures[-1])} times as long"
            lines.append([f"{work}, fit and predict, {len(rows)} models", "", "", between, _command(room)])
        else:
            rows = rows if work.startswith("multinomial") else rows[:1]
            lines += [[*_cells(row), _command(room)] for row in rows]
    return _table(("work", "ours", "peer", "ratio", "command"), lines)


def _command(room: str) -> str:
    return f"`python -m benchmarks --only {room}`"


def _cells(row: Row) -> list[str]:
    """What was done, our median, the peer's, and the ratio; bold where we are behind the peer or miss the goal."""
    against = f", against {row.peer_name}" if row.peer_name else ""
    warning = f" ({row.note})" if "WARNING" in row.note else ""
    ratio = row.goal.in_words(*row.medians)
    is_behind = isinstance(row.goal, Faster | Higher) and row.figure < 1
    if is_behind or row.verdict == "NO":
        ratio = f"**{ratio or 'above the goal'}**"
    ours, peer = (_quantity(value, row.unit) for value in row.medians)
    return [f"{row.work}{against}{warning}", ours, peer if row.peer else "", ratio]


def _quantity(value: float, unit: str) -> str:
    for factor, small in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if unit == "s" and (factor * value >= 0.1 or small == "µs"):
            return f"{legible(factor * value)} {small}"
    return f"{legible(value)} {unit}".strip()


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
