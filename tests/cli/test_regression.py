"""The command line where a number is predicted."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg

QUICK = ["--task", "regression", "--methods", "map,exact"]


def test_diabetes_is_compared_out_of_the_box(run):
    result = run("compare", "diabetes", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "diabetes: 331 rows to learn from, 111 to test on, target from 25 to 346, seed 0" in result.stdout
    for words in ("RMSE", "CRPS", "in 95% interval", "two-step", "one-step", "vs MAP", "truths by tenth"):
        assert words in result.stdout


@pytest.mark.slow  # that a command runs again is tested for classes in every run: test_cli.py
def test_all_models_answer_and_the_command_runs_again(run, tmp_path):
    names = ["linear", "joint-gaussian", "naive-bayes-regression"]
    out = tmp_path / "results"
    models = [word for name in names for word in ("--model", name)]
    result = run("compare", "diabetes", *models, *QUICK, "--json", "--out", out)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert [pair["model"] for pair in content["pairs"]] == [name for name in names for _ in range(3)]
    assert all(pair["refused"] is None and 50 < pair["rmse"] < 65 for pair in content["pairs"])
    predictions = pd.read_csv(out / "predictions.csv")
    assert len(predictions) == 3 * len(names) * 111 and predictions.pit.between(0, 1).all()
    names = {"config.json", "coverage.png", "predictions.csv", "result.json", "table.csv"}
    assert {path.name for path in out.iterdir()} == names
    again = run(*shlex.split(content["config"]["command"])[1:], "--json")
    assert json.loads(again.stdout)["pairs"] == content["pairs"]


def test_scores_are_those_of_the_fit(run):
    content = json.loads(run("compare", "diabetes", *QUICK, "--model", "joint-gaussian", "--seed", 3, "--json").stdout)
    split = bg.load_dataset("diabetes").split(seed=3, by_class=False)
    fit = bg.fit(bg.JointGaussianRegression(), split.X_train, split.y_train, method=bg.Exact())
    answer = bg.predict(fit, split.X_test, rule=bg.BMA())
    pair = content["pairs"][-1]
    assert pair["log_score"] == pytest.approx(answer.log_density(split.y_test).mean(), rel=1e-9)
    assert pair["rmse"] == pytest.approx(np.sqrt(np.mean((answer.mean - split.y_test) ** 2)), rel=1e-9)
    low, high = answer.interval(0.8).T
    assert pair["coverage_80"] == pytest.approx(split.y_test.between(low, high).mean())


def houses(path, rows=90):
    """Prices of houses, whose last three are of a kind that few have."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"kind": np.where(np.arange(rows) % 3, "flat", "villa"), "size": rng.normal(100, 20, rows)})
    frame.loc[rows - 3 :, "kind"] = ["castle", "hut", "castle"]
    frame["garden"] = rng.random(rows) < 0.5
    frame["colour"] = np.where(rng.random(rows) < 0.2, "", np.where(rng.random(rows) < 0.5, "red", "white"))
    worth = frame.kind.map({"flat": 0, "villa": 80, "castle": 300, "hut": -100}) + 30 * frame.garden
    frame["price"] = (3 * frame["size"] + worth + rng.normal(0, 9, rows)).round(2)
    frame.to_csv(path, index=False)
    return path


def test_lines_take_texts_and_what_is_missing_of_them_and_values_that_training_rows_lack(run, tmp_path):
    path = houses(tmp_path / "houses.csv")
    for more in ([], ["--unknown", "missing"]):
        result = run("compare", path, "--task", "regression", "--methods", "exact", "--json", *more)
        assert result.exit_code == 0, result.stderr
        pair = json.loads(result.stdout)["pairs"][1]
        assert pair["refused"] is None and pair["rmse"] < 40  # the size alone leaves a spread of some 50


def test_columns_are_left_out_so_that_other_models_take_the_rest(run, tmp_path):
    path = houses(tmp_path / "houses.csv")
    wanted = ["compare", path, "--task", "regression", "--model", "joint-gaussian", "--methods", "map", "--json"]
    refused = run(*wanted)
    assert refused.exit_code == 1 and "'kind', 'garden', 'colour' are binary, categorical" in refused.stderr
    result = run(*wanted, "--drop", "kind", "--drop", "colour", "--drop", "garden")
    assert result.exit_code == 0, result.stderr
    assert "--drop kind --drop colour --drop garden" in json.loads(result.stdout)["config"]["command"]
    assert run(*wanted, "--drop", "kinds").stderr.startswith("bayesgen: ")


def test_the_target_of_a_file_and_missing_cells_of_it_and_of_columns(run, tmp_path):
    rng = np.random.default_rng(1)
    size = rng.normal(100, 20, 60)
    frame = pd.DataFrame(
        {"price": (3 * size + rng.normal(0, 9, 60)).round(2), "size": size.round(1), "age": rng.integers(0, 50, 60)}
    )
    frame = frame.astype(str)
    frame.loc[3:9, "age"] = "?"
    frame.loc[50:55, "price"] = ""
    path = tmp_path / "houses.csv"
    frame.to_csv(path, index=False)
    wanted = ["compare", path, "--target", "price", "--missing", "?", "--model", "joint-gaussian"]
    result = run(*wanted, "--task", "regression", "--methods", "map", "--json")
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert content["config"]["test_rows"] == 14 and content["pairs"][0]["rmse"] < 15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "regression", "--model", "gda"], "gda is not a model for regression"),
        (["--model", "joint-gaussian"], "joint-gaussian is not a model for classification"),
        (["--task", "regression", "--per-class", "5"], "--per-class"),
        (["--task", "regression", "--covariance", "tied"], "--covariance"),
        (["--task", "ranking"], "ranking"),
    ],
)
def test_wrong_usage_is_status_2(run, arguments, words):
    result = run("compare", "diabetes", *arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert words in " ".join(result.stderr.replace("│", " ").split())


def test_numbers_taken_as_classes_are_told_how_to_predict_them(run):
    result = run("compare", "diabetes", "--methods", "exact")
    assert result.exit_code == 1
    assert "holds 214 different numbers" in result.stderr and "--task regression" in result.stderr
    assert "--task" not in run("compare", "iris", "--methods", "exact").stderr


def lots(path, **columns):
    """A file of sizes and prices, with other columns or others in their place."""
    size = np.random.default_rng(0).normal(100, 20, 40)
    frame = pd.DataFrame({"size": size, "price": 3 * size + np.random.default_rng(1).normal(0, 9, 40)} | columns)
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (["low", "high"] * 20, "Target 'price' holds 'low', 'high', and a regression predicts numbers"),
        (["?"] + ["3.5"] * 39, "Target 'price' holds '?', and a regression"),
        ([True, False] * 20, "Target 'price' holds True, False"),
    ],
)
def test_a_target_of_other_than_numbers_is_refused_with_what_it_holds(run, tmp_path, price, message):
    result = run("compare", lots(tmp_path / "lots.csv", price=price), "--target", "price", *QUICK)
    assert result.exit_code == 1 and result.stdout == ""
    assert message in result.stderr and "--missing '?'" in result.stderr


def test_texts_that_hardly_repeat_are_noted(run, tmp_path):
    path = lots(tmp_path / "lots.csv", name=[f"lot {number}" for number in range(40)])
    wanted = ["compare", path, "--target", "price", "--task", "regression", "--methods", "exact"]
    assert "hardly repeat are left out: 'name' (40 values in 40 rows)" in run(*wanted).stderr
    assert "note" not in run(*wanted, "--drop", "name").stderr


def test_a_column_may_be_called_as_the_response_is_elsewhere_and_a_target_may_be_constant(run, tmp_path):
    path = lots(tmp_path / "lots.csv", y=np.arange(40.0))
    wanted = ["--target", "price", "--model", "joint-gaussian", "--task", "regression", "--methods", "exact"]
    assert run("compare", path, *wanted).exit_code == 0
    constant = run("compare", lots(tmp_path / "lots.csv", price=5), *wanted)
    assert constant.exit_code == 0 and "Constant columns ['price']" in constant.stderr
