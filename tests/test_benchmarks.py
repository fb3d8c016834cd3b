"""The benchmarks run: all are imported, each is measured once at its smallest size, and what fails is said to have."""

import importlib
import json
import pkgutil

import pytest

import benchmarks.peers
from benchmarks import __main__ as runner
from benchmarks import marginalising, measure, report, start_up

MODULES = [
    module.name
    for package in (benchmarks, benchmarks.peers)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_imported(name):
    importlib.import_module(name)


def test_every_room_is_measured_where_none_is_named():
    with_measures = {name for name in MODULES if hasattr(importlib.import_module(name), "measures")}
    assert {f"benchmarks.{room}" for room in runner.ROOMS} == with_measures


@pytest.mark.parametrize("fails", [False, True])
def test_a_line_that_fails_is_said_to_have_and_the_command_too(monkeypatch, tmp_path, capsys, fails):
    def line():
        if fails:
            raise KeyError("no such column")
        return measure.Missing("a peer", "is not installed")

    path = tmp_path / "results" / "latest.json"
    monkeypatch.setattr(report, "RESULTS", path)
    monkeypatch.setattr(report, "_commit", lambda: None)  # of a folder that is not there
    monkeypatch.setattr(start_up, "measures", lambda quick: [line])
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", "start_up"])
    if fails:
        with pytest.raises(SystemExit) as end:
            runner.main()
        assert end.value.code == 1
        found = {"work": "start_up", "failed": "KeyError: 'no such column'"}
    else:
        runner.main()
        found = {"work": "a peer", "skipped": "is not installed"}
    assert json.loads(path.read_text())["results"] == [found]
    printed = capsys.readouterr().out
    assert all(text in printed for text in found.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what peers warn of
@pytest.mark.parametrize("room", runner.ROOMS)
def test_every_room_runs(monkeypatch, room):
    monkeypatch.setattr(measure, "LONGEST", 0.0)  # one round of each line
    lines = runner.measured(room, True)
    assert lines and [line for line in lines if isinstance(line, measure.Failed)] == []


@pytest.mark.slow
def test_marginalising_runs(monkeypatch, capsys):
    monkeypatch.setattr(marginalising, "NUM_MASKS", 1)
    monkeypatch.setattr("sys.argv", ["marginalising"])
    marginalising.main()
    assert "breast cancer" in capsys.readouterr().out
