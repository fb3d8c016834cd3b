"""What every command tells while it works: in a terminal and elsewhere."""

import io
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

import bayesgen as bg
from bayesgen.cli import compare, running
from bayesgen.cli.app import app


@pytest.mark.parametrize(("is_terminal", "seconds"), [(True, 0.2), (True, 0.0), (False, 0.2)])
def test_long_work_is_told_of_in_a_terminal(monkeypatch, is_terminal, seconds):
    monkeypatch.setattr(running, "WAIT", 0.05)
    screen = running.Screen(as_json=False)
    screen.messages = Console(file=io.StringIO(), force_terminal=is_terminal, color_system=None)
    with screen.waiting_for("Reading iris"):
        time.sleep(seconds)
    assert ("Reading iris ..." in screen.messages.file.getvalue()) == (is_terminal and seconds > 0)


def test_a_named_data_set_is_studied_below_its_comparison_where_a_person_looks(run, monkeypatch):
    monkeypatch.setattr(running.Screen, "is_watched", property(lambda screen: not screen.as_json))
    monkeypatch.setattr(compare, "SMALL_REPEATS", 8)
    arguments = ["compare", "iris", "--methods", "exact"]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    above, below = result.stdout.split("One split tells little.")
    assert above.index("Two-step: learn one process") < above.index("two-step  one-step")
    assert "8 random training sets of 5 rows of each class" in below
    lines = [line.split() for line in below.splitlines() if line.startswith(" gda")]
    assert [line[1] for line in lines] == ["two-step", "two-step", "one-step"] and all(
        "±" in line[-1] for line in lines[1:]
    )
    assert "Averaging (Exact + BMA) predicts " in below
    assert "One split" not in run(*arguments, "--json").stdout
    numbers = run("compare", "diabetes", "--task", "regression", "--methods", "exact").stdout
    assert "8 random training sets of 20 rows:" in numbers


def test_shells_are_told_of_commands_and_options():
    words = {"_BAYESGEN_COMPLETE": "complete_bash", "COMP_WORDS": "bayesgen pre", "COMP_CWORD": "1"}
    result = CliRunner().invoke(app, [], prog_name="bayesgen", env=words)
    assert result.stdout.split() == ["predict"]


def test_a_file_that_is_no_file_is_not_replaced(run, tmp_path):
    result = run("fit", "iris", "--out", tmp_path / "folder.nc")
    assert result.exit_code == 0
    (tmp_path / "pipe.nc").symlink_to("/dev/null")
    result = run("fit", "iris", "--out", tmp_path / "pipe.nc")
    assert result.exit_code == 1 and "no file that could be replaced" in result.stderr


@pytest.mark.parametrize(
    "verb", [["compare"], pytest.param(["study", "--sizes", "5", "--repeats", "2"], marks=pytest.mark.slow)]
)
def test_a_report_is_written_beside_what_is_printed(run, tmp_path, monkeypatch, verb):
    for kind in (bg.Comparison, bg.Study):
        monkeypatch.setattr(kind, "to_html", lambda result, path, title: path.write_text(f"{title} {result.answers}"))
    report = tmp_path / "new" / "report.html"
    result = run(*verb, "iris", "--methods", "exact", "--report", report)
    assert result.exit_code == 0, result.stderr
    assert report.read_text("utf-8").startswith("iris") and "BMA" in report.read_text("utf-8")
    assert [path.name for path in report.parent.iterdir()] == ["report.html"] and str(report) in result.stderr
