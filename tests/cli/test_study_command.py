"""`bayesgen study`: what it prints and writes, and that a study goes on."""

import json

import pandas as pd
import pytest

ARGUMENTS = ["study", "iris", "--sizes", "5,10", "--repeats", "3", "--methods", "map,exact", "--seed", "3"]


def test_a_study_writes_its_settings_tables_and_figure_and_goes_on(run, tmp_path):
    result = run(*ARGUMENTS, "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    for text in ("Exact + BMA", "log score", "MAP + PlugIn of gda", "not errors over new data"):
        assert text in " ".join(result.stdout.split())
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert (config["sizes"], config["repeats"], config["seed"]) == ([5, 10], 3, 3)
    table, summary = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("table", "summary"))
    assert len(table) == 3 * 2 * 3
    assert {"model", "method", "rule", "size", "repeat", "log_score", "seconds", "refused"} <= set(table)
    assert summary["reference"].eq("MAP + PlugIn").all()
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    (tmp_path / "units" / "0-0-5.json").unlink()
    again = run(*ARGUMENTS, "--out", tmp_path, "--json")
    assert len(json.loads(again.stdout)["table"]) == len(table)
    other = run(*ARGUMENTS[:-1], "4", "--out", tmp_path)
    assert other.exit_code == 1
    assert "another study" in other.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "5,ten"], "numbers such as 5,10,20"),
        (["--repeats", "0"], "Invalid value for '--repeats'"),
        (["--model", "linear"], "not a model for classification"),
    ],
)
def test_options_that_say_nothing_are_refused(run, options, message):
    result = run("study", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
