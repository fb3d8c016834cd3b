"""`bayesgen simulate`, `diagnose` and `calibrate`: what they print, and their exit status."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.cli import tables


@pytest.fixture
def coins(tmp_path):
    """A table of truth values."""
    kinds = np.array(["fair", "bent"])[np.arange(40) % 2]
    path = tmp_path / "coins.csv"
    pd.DataFrame({"heads": (np.arange(40) % 4 > 0) | (kinds == "bent"), "coin": kinds}).to_csv(path, index=False)
    return path


def test_rows_are_simulated_from_the_posterior_or_the_prior_under_the_names_of_the_table(run, coins, tmp_path):
    assert run("fit", coins, "--out", tmp_path / "fit.nc").exit_code == 0
    drawn, again, prior = (
        run("simulate", tmp_path / "fit.nc", "--rows", 400, "--seed", 1, *more) for more in ([], [], ["--prior"])
    )
    assert drawn.exit_code == prior.exit_code == 0, drawn.stderr + prior.stderr
    assert drawn.stdout == again.stdout != prior.stdout
    rows = pd.read_csv(io.StringIO(drawn.stdout))
    assert rows.columns.tolist() == ["heads", "coin"] and len(rows) == 400
    shares = rows.groupby("coin")["heads"].mean()
    assert shares["bent"] > 0.8 and abs(shares["fair"] - 0.5) < 0.3
    (tmp_path / "again.csv").write_text(drawn.stdout)
    assert run("compare", tmp_path / "again.csv", "--methods", "exact").exit_code == 0


def test_an_average_of_models_simulates_as_in_python_and_has_no_prior(run, tmp_path):
    path = tmp_path / "fit.nc"
    assert run("fit", "iris", "--model", "gda-average", "--out", path).exit_code == 0
    rows = pd.read_csv(io.StringIO(run("simulate", path, "--rows", 5, "--seed", 3).stdout))
    expected = bg.load(path).simulate(5, seed=3)
    assert rows["target"].tolist() == expected["y"].tolist()
    np.testing.assert_allclose(rows.drop(columns="target"), expected.drop(columns="y"))
    assert "each of which has a prior" in run("simulate", path, "--prior").stderr


def test_a_model_of_given_columns_does_not_simulate_tables(run, tmp_path):
    assert run("fit", "diabetes", "--task", "regression", "--out", tmp_path / "fit.nc").exit_code == 0
    result = run("simulate", tmp_path / "fit.nc")
    assert result.exit_code == 1 and "does not generate tables" in result.stderr and result.stdout == ""


@pytest.mark.parametrize("problems", [(), ("R-hat is 1.4",)])
def test_chains_with_problems_are_status_1(run, monkeypatch, problems):
    class Chains:
        def diagnose(self):
            table = pd.DataFrame({"parameter": ["class_probs"], "ess_bulk": [900.0]})
            return bg.Diagnosis(table, {"chains": 4, "draws": 1000}, problems)

    monkeypatch.setattr(tables, "loaded", lambda path: Chains())
    shown, as_json = run("diagnose", "fit.nc"), run("diagnose", "fit.nc", "--json")
    assert shown.exit_code == as_json.exit_code == (1 if problems else 0)
    content = json.loads(as_json.stdout)
    assert content["verdict"] in " ".join(shown.stdout.split()) and content["problems"] == [*problems]
    assert content["table"] == [{"parameter": "class_probs", "ess_bulk": 900.0}]


def test_a_fit_without_chains_is_not_diagnosed(run, coins, tmp_path):
    run("fit", coins, "--out", tmp_path / "fit.nc")
    result = run("diagnose", tmp_path / "fit.nc")
    assert result.exit_code == 1 and "diagnose() is for chains" in result.stderr


def test_posteriors_that_are_right_are_status_0_and_wrong_ones_status_1(run, coins, monkeypatch):
    arguments, calibrate, made = ["calibrate", coins, "--rows", 10, "--simulations", 60], bg.calibrate, []
    monkeypatch.setattr(bg, "calibrate", lambda *args, **keywords: made.append(calibrate(*args, **keywords)) or made[0])
    passed = run(*arguments)
    assert passed.exit_code == 0, passed.stderr
    assert "coins.csv: 60 simulated tables of 10 rows" in passed.stdout and "no test rejects" in passed.stdout
    assert "10 of " in passed.stdout and "binary_probs[0, 0]" in passed.stdout.partition("tests of ranks")[2]
    monkeypatch.setattr(bg, "calibrate", lambda *args, **keywords: wrong(made[0]))
    failed = run(*arguments, "--json")
    assert failed.exit_code == 1 and json.loads(failed.stdout)["passed"] is False
    assert "verdict: posteriors of " in run(*arguments).stdout


def wrong(calibration):
    """The calibration of posteriors whose truths are always among the lowest draws."""
    lowest = {name: values / 10 for name, values in calibration.fractions.items()}
    return bg.Calibration(lowest, calibration.num_draws, calibration.config)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--method", "map"], "MAP() gives none"), (["--model", "gda-average"], "averages over 4: calibrate each")],
)
def test_what_has_no_draws_of_one_model_is_not_calibrated(run, arguments, message):
    result = run("calibrate", "iris", *arguments)
    assert result.exit_code == 1 and message in " ".join(result.stderr.split()) and result.stdout == ""
