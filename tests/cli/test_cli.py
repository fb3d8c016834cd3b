"""The command line: what it prints where, what it writes, and its exit status."""

import io
import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import bayesgen
from bayesgen.cli import tables
from bayesgen.cli.names import KINDS, METHODS, MODELS, MODELS_OF, CovarianceName, RuleName, TaskName
from bayesgen.data import KINDS as LIBRARY_KINDS
from bayesgen.data import load_dataset
from bayesgen.evaluation import DEFAULT_PAIRS
from bayesgen.models.gaussian_discriminant import COVARIANCES
from bayesgen.runtime.progress import bar
from bayesgen.solvers import attempts

FAST = ["--methods", "mle,map,exact"]


@pytest.fixture
def mixed(tmp_path):
    """A table of numbers and texts, the target not last, with one colour that few rows have."""
    rows = [
        (f"{'good' if i % 2 else 'bad'}", 1.0 + i % 2 + i / 50, "red" if (i // 2) % 3 else "blue") for i in range(40)
    ]
    frame = pd.DataFrame(rows, columns=["kind", "size", "colour"])
    frame.loc[39, "colour"] = "green"
    path = tmp_path / "mixed.csv"
    frame.to_csv(path, index=False)
    return path


def test_iris_shows_both_answers_side_by_side(run):
    result = run("compare", "--model", "naive-bayes", "--model", "gda", *FAST)
    assert result.exit_code == 0, result.stderr
    assert "iris: 112 rows to learn from, 38 to test on" in result.stdout
    for word in ("naive-bayes", "gda", "two-step", "one-step", "plug-in", "BMA", "log score", "vs MAP", "±"):
        assert word in result.stdout
    heads = [line for line in result.stdout.splitlines() if "two-step" in line and "one-step" in line]
    assert heads[0].split() == ["two-step"] * 3 + ["one-step"]


def test_averages_over_structures_stand_beside_the_single_structures(run):
    names = ["gda", "gda-average", "naive-bayes", "naive-bayes-average"]
    models = [word for name in names for word in ("--model", name)]
    result = run("compare", "iris", *models, "--methods", "map,exact", "--json")
    assert result.exit_code == 0, result.stderr
    pairs = json.loads(result.stdout)["pairs"]
    answered = {(pair["model"], pair["method"]) for pair in pairs if pair["refused"] is None}
    assert answered == {(name, "Exact") for name in names} | {("gda", "MAP"), ("naive-bayes", "MAP")}
    assert all(pair["accuracy"] > 0.85 for pair in pairs if pair["refused"] is None)


def test_columns_of_sequences_are_chains_of_their_symbols(run, tmp_path):
    words = ["anna", "hanna", "nan", "ana", "nanna", "ahn", "otto", "toot", "ot", "root", "otor", "tort"] * 2
    frame = pd.DataFrame({"word": words, "size": range(24), "kind": ["a"] * 6 + ["o"] * 6 + ["a"] * 6 + ["o"] * 6})
    path = tmp_path / "words.csv"
    frame.to_csv(path, index=False)
    arguments = ["compare", path, "--sequence", "word", "--test-size", 0.5, "--methods", "map,exact", "--json"]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert all(pair["refused"] is None for pair in content["pairs"])
    assert all(pair["accuracy"] > 0.9 for pair in content["pairs"] if pair["method"] == "Exact")
    again = run(*shlex.split(content["config"]["command"])[1:], "--json")
    assert json.loads(again.stdout)["pairs"][0]["log_score"] == content["pairs"][0]["log_score"]
    assert "--sequence word" in content["config"]["command"]
    lenient = run(*arguments, "--unknown", "missing")
    assert lenient.exit_code == 0, lenient.stderr
    wrong = run("compare", path, "--sequence", "wurd")
    assert wrong.exit_code == 1 and "no column 'wurd' to declare. Did you mean 'word'?" in wrong.stderr
    numbers = run("compare", "iris", "--sequence", "sepal width (cm)", *FAST)
    assert numbers.exit_code == 1 and "'sepal width (cm)' is of sequences" in numbers.stderr
    regression = run("compare", path, "--task", "regression", "--target", "size", "--sequence", "word")
    assert regression.exit_code == 2


@pytest.mark.parametrize("cells", [["0011", "011", "01", "0001"], ["true", "false", "true", "true"]])
def test_sequences_of_digits_or_truth_values_are_the_texts_of_the_file(run, tmp_path, cells):
    path = tmp_path / "codes.csv"
    path.write_text("code,kind\n" + "".join(f"{cell},{kind}\n" for cell in cells * 3 for kind in "ab"))
    result = run("compare", path, "--sequence", "code", "--methods", "exact", "--json")
    assert result.exit_code == 0, result.stderr
    letters = pd.DataFrame({"code": [cell.translate(str.maketrans("01", "xy")) for cell in cells * 3 for _ in "ab"]})
    letters.assign(kind=[*"ab"] * len(cells) * 3).to_csv(path, index=False)
    expected = run("compare", path, "--sequence", "code", "--methods", "exact", "--json")
    scores = [[pair["log_score"] for pair in json.loads(text.stdout)["pairs"]] for text in (result, expected)]
    assert scores[0] == scores[1]


def test_nuts_is_one_of_the_methods_and_says_how_many_numbers_it_samples(run, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(attempts, "bar", lambda words, *rest: told.append(words) or bar(words, *rest))
    rainy, path = np.arange(60) % 2, tmp_path / "days.csv"
    cloudy = np.where(np.arange(60) % 15 == 0, 1 - rainy, rainy)  # one truth value compiles for less time than numbers
    words = np.array(["no", "yes"])
    pd.DataFrame({"cloudy": words[cloudy], "rainy": words[rainy]}).to_csv(path, index=False)
    result = run("compare", path, "--target", "rainy", "--model", "naive-bayes", "--methods", "NUTS,map", "--json")
    assert result.exit_code == 0, result.stderr
    pairs = json.loads(result.stdout)["pairs"]
    assert [(pair["method"], pair["rule"]) for pair in pairs] == [("MAP", "PlugIn"), ("NUTS", "BMA")]
    assert pairs[1]["accuracy"] > 0.85
    assert told == ["finding the mode of 3 numbers", "sampling 3 numbers"]


def test_json_stands_alone_on_standard_output(run):
    result = run("compare", "iris", "--json", "--methods", "map", "--methods", "exact", "--covariance", "tied")
    content = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {pair["model"] for pair in content["pairs"]} == {"gda"}
    assert "tied" in content["config"]["models"]["gda"]
    assert content["config"]["options"]["test_size"] == 0.25


def test_a_file_is_compared_by_the_model_that_fits_its_columns(run, mixed):
    result = run("compare", mixed, "--target", "kind", "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert list(content["config"]["models"]) == ["naive-bayes"]
    assert content["config"]["classes"] == ["bad", "good"]
    assert all(pair["refused"] is None for pair in content["pairs"])


def test_numbers_may_be_in_bins(run, mixed):
    result = run("compare", mixed, "--target", "kind", "--bins", 3, "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert content["config"]["options"]["bins"] == 3 and "--bins 3" in content["config"]["command"]
    dataset = load_dataset(mixed, target="kind")
    split = dataset.split(seed=0)
    model = bayesgen.NaiveBayes({"real": bayesgen.DirichletHistogram(3)})
    expected = bayesgen.compare(
        model, split.X_train, split.y_train, split.X_test, split.y_test, schema=dataset.declared,
        methods=[(bayesgen.Exact(), bayesgen.BMA())],
    )  # fmt: skip
    assert {pair["model"] for pair in content["pairs"]} == {"naive-bayes"}
    averaged = [pair for pair in content["pairs"] if "BMA" in pair["rule"]]
    assert [pair["log_score"] for pair in averaged] == pytest.approx(expected.table.log_score.tolist())
    again = run(*shlex.split(content["config"]["command"])[1:], "--json")
    assert json.loads(again.stdout) == content
    assert "naive Bayes with 3 bins" in " ".join(
        run("compare", mixed, "--target", "kind", "--bins", 3, *FAST).stdout.split()
    )


def test_bins_of_a_constant_column_and_of_no_numbers_are_told(run, tmp_path):
    path = tmp_path / "constant.csv"
    path.write_text("size,kind\n" + "2.5,a\n2.5,b\n" * 6)
    result = run("compare", path, "--bins", 4, *FAST)
    assert result.exit_code == 1 and "'size' is binned, and has one value only" in result.stderr
    path.write_text("colour,kind\n" + "red,a\nblue,b\n" * 6)
    result = run("compare", path, "--bins", 4, *FAST)
    assert result.exit_code == 0 and "so --bins does nothing here" in result.stderr


def test_digits_are_compared_as_counts(run):
    result = run("compare", "digits", "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert list(content["config"]["models"]) == ["naive-bayes"]
    assert content["config"]["classes"] == list(range(10))
    assert content["pairs"][-1]["accuracy"] > 0.85


def test_impossible_rows_are_shown_and_noted(run, mixed):
    result = run("compare", mixed, "--target", "kind", "--per-class", 6, *FAST)
    assert result.exit_code == 0, result.stderr
    assert "mixed.csv: 12 rows to learn from, 28 to test on" in result.stdout
    assert "impossible rows" in result.stdout  # no row to learn from was green
    assert "note:" in result.stderr


@pytest.fixture
def named(tmp_path):
    """A table with an identifier of texts, one of numbers, and dates, none of which tell the class."""
    rng = np.random.default_rng(2)
    kinds = np.array(["no", "yes"])[np.arange(48) % 2]
    frame = pd.DataFrame(
        {
            "id": [f"P{row:03d}" for row in range(48)],
            "number": rng.permutation(48) + 1000,
            "day": [f"2024-{1 + row // 28:02d}-{1 + row % 28:02d}" for row in range(48)],
            "size": rng.normal(0, 1, 48).round(2),
            "colour": np.where(np.arange(48) % 5 == 0, "", np.where(rng.random(48) < 0.5, "red", "blue")),
            "kind": kinds,
        }
    )
    path = tmp_path / "named.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("width", [80, 120])
def test_what_was_read_and_what_made_rows_impossible_is_told(run, named, tmp_path, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    kept = ["--keep", "id", "--keep", "day"]
    result = run("compare", named, "--methods", "map,exact", "--out", tmp_path / "out", *kept)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= width
    words = [line.split() for line in lines]
    assert ["number", "real", "48", "0", "1000", "to", "1047"] in words
    assert ["colour", "categorical", "2", "10", "'blue',", "'red'"] in words
    shown = " ".join(result.stdout.split())
    assert "same class in 0 of the 12 test rows; in 12 at least one answer finds the row impossible" in shown
    assert "no column read: log score -0.6931" in shown
    assert "rows that cost most" in shown and "id, day" in shown
    note = "Columns that hardly repeat: 'id' (48 values in 48 rows), 'number' (48 values in 48 rows), 'day' (48 values"
    assert note in result.stderr.replace("\n", " ")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert [(column["name"], column["kind"], column["values"], column["missing"]) for column in config["columns"]][
        1:
    ] == [
        ("number", "real", 48, 0),
        ("day", "categorical", 48, 0),
        ("size", "real", pd.read_csv(named)["size"].nunique(), 0),
        ("colour", "categorical", 2, 10),
    ]
    assert config["class_shares"] == [0.5, 0.5]
    assert config["class_shares_log_score"] == pytest.approx(np.log(0.5))
    assert config["command"].count("--keep") == 2
    told = run("compare", named, *(word for name in ("id", "number", "day") for word in ("--drop", name)), *FAST)
    assert "hardly" not in told.stderr


def test_texts_and_dates_that_hardly_repeat_are_left_out_unless_they_are_kept(run, named, tmp_path):
    by_default, dropped = (
        run("compare", named, *more, "--json", *FAST) for more in ([], ["--drop", "id", "--drop", "day"])
    )
    assert "left out: 'id' (48 values in 48 rows), 'day' (48 values" in by_default.stderr
    assert "left out" not in dropped.stderr
    assert json.loads(by_default.stdout)["pairs"] == json.loads(dropped.stdout)["pairs"]
    names = [column["name"] for column in json.loads(by_default.stdout)["config"]["columns"]]
    assert names == ["number", "size", "colour"]  # of numbers none is left out
    declared = run("compare", named, "--keep", "id", "--sequence", "day", "--json", *FAST)
    columns = json.loads(declared.stdout)["config"]["columns"]
    assert [column["kind"] for column in columns] == ["categorical", "real", "sequence", "real", "categorical"]
    wrong = run("compare", named, "--keep", "idd", *FAST)
    assert wrong.exit_code == 1 and "no column 'idd' to keep. Did you mean 'id'?" in wrong.stderr
    path = tmp_path / "days.parquet"
    pytest.importorskip("pyarrow")
    pd.read_csv(named, parse_dates=["day"])[["day", "size", "kind"]].to_parquet(path)
    assert "left out: 'day' (48" in run("compare", path, *FAST).stderr


LABELS = [
    ("[/]", "[low]"),
    *(pytest.param(pair, marks=pytest.mark.slow) for pair in ((":smile:", "[bold]x"), ("[red]", "b[/red]"))),
]


@pytest.mark.parametrize("labels", LABELS)
def test_no_text_of_a_table_is_markup(run, tmp_path, labels):
    """Names of columns, values and classes stand on the screen as they are written, in all tables and notes."""
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    kinds = np.array(labels)[(rng.random(40) < 0.5).astype(int)]
    frame = pd.DataFrame({labels[0]: rng.normal(size=40), "hue": rng.permutation(kinds), "y": kinds})
    names = [f"{labels[0]}{row}" for row in range(40)]
    frame.assign(**{labels[1]: names})[[*labels, "hue", "y"]].to_csv(path, index=False)
    result = run("compare", path, "--methods", "exact")
    assert result.exit_code == 0, result.output
    assert f"({', '.join(sorted(labels))})" in result.stdout
    costly = result.stdout[result.stdout.index("rows that cost most") :]
    assert sum(costly.count(label) for label in labels) >= 5 and labels[1] in result.stderr
    study = run("study", path, "--sizes", "3", "--repeats", "2", "--methods", "exact")
    assert study.exit_code == 0 and labels[0] in study.stdout
    assert labels[0] in run("compare", path, "--target", labels[0] + "x").stderr
    assert labels[0] in run("compare", path, "--kind", labels[0]).stderr


CODES = [["01", "1", "10"], ["1", "1.0", "2"], ["007", "7", "-7"], ["true", "True", "false"]]


@pytest.mark.parametrize("codes", CODES)
def test_classes_that_are_written_differently_are_different(run, tmp_path, codes):
    rng, path = np.random.default_rng(0), tmp_path / "sites.csv"
    frame = pd.DataFrame({"x": rng.normal(4 * (np.arange(60) % 3), 1.0), "site": np.array(codes)[np.arange(60) % 3]})
    frame.to_csv(path, index=False)
    result = run("compare", path, "--methods", "exact", "--json")
    assert json.loads(result.stdout)["config"]["classes"] == sorted(codes) and "'site'" in result.stderr
    letters = frame.assign(site=np.array(list("abc"))[np.argsort(np.argsort(codes))][np.arange(60) % 3])
    letters.to_csv(path, index=False)
    expected = run("compare", path, "--methods", "exact", "--json")
    answers = [json.loads(text.stdout) for text in (result, expected)]
    assert answers[0]["pairs"] == answers[1]["pairs"]
    assert answers[0]["config"]["class_shares"] == answers[1]["config"]["class_shares"]


def test_kinds_are_declared_and_shown(run, tmp_path):
    path = tmp_path / "areas.csv"
    path.write_text("area,size,n,y\n" + "0071,1,0,p\n0204,2,3,q\n0339,5,1,q\n0480,4,7,p\n" * 8)
    inferred = run("compare", path, "--model", "naive-bayes", "--methods", "exact")
    lines = [line.split()[:2] for line in inferred.stdout.splitlines()]
    assert ["area", "categorical"] in lines and ["size", "real"] in lines and "'area' ('0071')" in inferred.stderr
    wanted = ["--kind", "area=real", "--kind", "size=categorical", "--kind", "n=count"]
    for command in (["compare"], ["study", "--sizes", "3", "--repeats", "2"]):
        declared = run(command[0], path, *command[1:], "--methods", "exact", "--model", "naive-bayes", *wanted)
        lines = [line.split()[:2] for line in declared.stdout.splitlines()]
        assert {("area", "real"), ("size", "categorical"), ("n", "count")} <= set(map(tuple, lines))
        assert "leading zeros" not in declared.stderr
    for wrong in ("area", "area=reel", "=real"):
        assert run("compare", path, "--kind", wrong).exit_code == 2
    unknown = run("compare", path, "--kind", "aria=real")
    assert unknown.exit_code == 1 and "no column 'aria' to declare. Did you mean 'area'?" in unknown.stderr


def test_semicolons_and_decimal_commas_are_read_when_they_are_stated(run, tmp_path):
    frame = pd.DataFrame({"w": np.arange(30) / 4, "kind": ["a", "b"] * 15})
    plain, german = tmp_path / "plain.csv", tmp_path / "german.csv"
    frame.to_csv(plain, index=False)
    frame.to_csv(german, index=False, sep=";", decimal=",")
    stated = ["--separator", ";", "--decimal", ","]
    results = [
        run("compare", path, *more, "--methods", "exact", "--json") for path, more in ((plain, []), (german, stated))
    ]
    pairs = [json.loads(result.stdout)["pairs"] for result in results]
    assert pairs[0] == pairs[1]
    assert "--separator ';' --decimal ," in json.loads(results[1].stdout)["config"]["command"]
    half = run("compare", german, "--separator", ";", "--methods", "exact", "--keep", "w")
    assert "'w' ('0,0')" in half.stderr and "--decimal ','" in half.stderr
    assert run("compare", german, "--decimal", ";").exit_code == 1
    frame.to_csv(german, index=False, sep="\t")
    assert run("compare", german, "--separator", r"\t", "--methods", "exact").exit_code == 0


def test_many_columns_are_told_as_far_as_they_go_on_a_screen(run):
    result = run("compare", "breast_cancer", "--model", "naive-bayes", "--methods", "exact")
    assert "mean radius" in result.stdout and "and 10 more columns" in result.stdout
    digits = run("compare", "digits", "--methods", "exact")
    assert "64 columns" in digits.stdout and "0 to 16" in digits.stdout


def test_refused_methods_are_reported_under_the_table(run):
    result = run("compare", "iris", "--per-class", 3, "--model", "gda", *FAST)
    assert result.exit_code == 0, result.stderr
    assert "MLE refused:" in result.stdout


def test_out_holds_enough_to_run_it_again(run, mixed, tmp_path):
    folder = tmp_path / "deep" / "results"
    result = run("compare", mixed, "--target", "kind", "--seed", 4, "--out", folder, "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "predictions.csv",
        "result.json",
        "table.csv",
    ]
    content = json.loads((folder / "result.json").read_text())
    assert content == json.loads(result.stdout)
    config = json.loads((folder / "config.json").read_text())
    assert config == content["config"]
    assert len(config["data_sha256"]) == 64
    table = pd.read_csv(folder / "table.csv")
    assert table.log_score.tolist() == pytest.approx([p["log_score"] for p in content["pairs"]])
    predictions = pd.read_csv(folder / "predictions.csv")
    assert len(predictions) == 4 * 10
    assert predictions[["p[bad]", "p[good]"]].sum(axis=1).to_list() == pytest.approx([1.0] * 40)
    words = shlex.split(config["command"])
    assert words[:2] == ["bayesgen", "compare"]
    again = run(*words[1:], "--json")
    assert json.loads(again.stdout) == content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-file.csv"], "no-such-file.csv"),
        (["iris", "--target", "species"], "'species'"),
        (["iris", "--per-class", 51], "50 rows, fewer than the 51"),
        (["iris", "--target", "sepal length (cm)"], "one row only"),
    ],
)
def test_refused_data_are_status_1_with_a_message_and_no_traceback(run, arguments, message):
    result = run("compare", *arguments, *FAST)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("bayesgen: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_infinite_cells_are_refused_by_column(run, tmp_path):
    path = tmp_path / "holes.csv"
    path.write_text("size,kind\n1.0,a\ninf,a\n2.0,b\n3.0,b\n4.0,a\n5.0,b\n")
    result = run("compare", path, "--json", *FAST)
    assert result.exit_code == 1
    assert "'size'" in result.stderr
    assert result.stdout == ""


def test_a_folder_that_cannot_be_made_is_status_1(run, tmp_path):
    (tmp_path / "file").write_text("x")
    result = run("compare", "iris", "--out", tmp_path / "file" / "folder", *FAST)
    assert result.exit_code == 1
    assert str(tmp_path / "file") in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--methods", "mle,mcmc"],
        ["compare", "--methods", ","],
        ["compare", "--model", "lda"],
        ["compare", "--covariance", "round"],
        ["compare", "--covariance", "tied", "--model", "naive-bayes"],
        ["compare", "--model", "gda", "--bins", "5"],
        ["compare", "--task", "regression", "--bins", "5"],
        ["compare", "--bins", "1"],
        ["compare", "--test-size", "1.5"],
        ["compare", "--test-size", "0.5", "--per-class", "5"],
        ["compare", "--per-class", "0"],
        ["compare", "iris", "wine"],
        ["comparison"],
    ],
)
def test_wrong_usage_is_status_2(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert arguments[-1] in result.stderr or "Usage" in result.stderr


def test_names_of_options_are_those_of_the_library():
    """The command line imports nothing heavy for --help, so it states names that models and comparisons have."""
    assert get_args(CovarianceName) == (*COVARIANCES,)
    assert [*METHODS] == list(dict.fromkeys(type(method).__name__.lower() for method, _ in DEFAULT_PAIRS))
    assert (*tables.MODELS,) == MODELS
    assert (*tables.METHODS,) == METHODS and (*tables.RULES,) == get_args(RuleName)
    assert (*MODELS_OF,) == get_args(TaskName) and set(KINDS) <= set(LIBRARY_KINDS)


def test_version(run):
    assert run("--version").stdout.split() == ["bayesgen", bayesgen.__version__]


COMMAND = [sys.executable, "-c", "from bayesgen.cli import main; main()"]


def test_the_installed_command_runs_as_a_process():
    done = subprocess.run([*COMMAND, "compare", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "--methods" in done.stdout


@pytest.mark.slow  # a process that fits is interrupted below in every run
def test_the_installed_command_prints_its_results_as_a_process():
    arguments = ["compare", "iris", "--model", "gda", "--methods", "exact", "--json"]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["pairs"]) == 2
    assert done.stderr == "" or done.stderr.startswith("bayesgen: at work on")  # on a slow machine


# Ctrl-C counts from here on: a test that sends it sooner would ask the interpreter's own start-up
INTERRUPTIBLE = """
import signal, sys
from pathlib import Path
from bayesgen.cli import main
from bayesgen.cli.interruption import ended_by_interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)  # which the background of a shell ignores
with ended_by_interrupts():
    Path(sys.argv.pop(1)).touch()
    main()
"""


COMPARE = ["compare", "iris", "--model", "gda", "--methods", "nuts", "--out"]
FIT = ["fit", "iris", "--model", "gda", "--method", "nuts", "--out"]


def interrupted(tmp_path, arguments, folder, seconds):
    """A command with NUTS is interrupted so long after it has begun, or has made its folder, and ends well.

    It ends well before its work could: else there would be a result, on a busy machine too.
    """
    begun, out = tmp_path / "begun", tmp_path / "deep" / "results.nc"  # a folder, or a file in the one above
    command = [sys.executable, "-c", INTERRUPTIBLE, begun, *arguments, out]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not (folder if folder else begun).exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (*printed, process.returncode) == ("", "bayesgen: interrupted\n", 130)
    assert not (tmp_path / "deep").exists()


def test_ctrl_c_ends_the_command_at_once_and_leaves_nothing(tmp_path):
    interrupted(tmp_path, FIT, folder=tmp_path / "deep", seconds=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.7, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0])
def test_ctrl_c_ends_the_command_at_once_at_any_moment(tmp_path, monkeypatch, seconds):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    interrupted(tmp_path, COMPARE, folder=None, seconds=seconds)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["making", "writing"])
def test_ctrl_c_while_files_are_made_leaves_none(tmp_path, stage):
    """The moments that a signal from outside hits one time in fifty: within mkdir, and among files written aside."""
    patch = {
        "making": """
usual = Path.mkdir
def mkdir(path, *args, **keywords):
    usual(path, *args, **keywords)
    if path.name == "results":
        stop()
Path.mkdir = mkdir
""",
        "writing": "import pandas; pandas.DataFrame.to_csv = lambda frame, path, **keywords: stop()",
    }[stage]
    code = f"import signal\nfrom pathlib import Path\nstop = lambda: signal.raise_signal(signal.SIGINT)\n{patch}\n"
    out = tmp_path / "deep" / "results"
    arguments = ["compare", "iris", "--model", "gda", "--methods", "exact", "--out", str(out)]
    command = [sys.executable, "-c", code + INTERRUPTIBLE, tmp_path / "begun", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("bayesgen: interrupted\n", 130)
    assert (
        done.stdout.startswith("iris: 112 rows") if stage == "writing" else done.stdout == ""
    )  # then files are written
    assert not (tmp_path / "deep").exists()


def no_space(*args, **kwargs):
    raise OSError(28, "No space left on device")


def test_memory_that_ends_is_status_1_with_one_line_and_no_file(run, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(bayesgen, "compare", full)
    result = run("compare", "iris", "--out", tmp_path / "new", "--methods", "exact")
    assert (
        result.exit_code == 1 and result.stderr.count("\n") <= 2 and "bayesgen: memory is at its end" in result.stderr
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("stage", ["begun", "half"])
def test_nothing_is_left_under_its_name_where_the_disk_is_full(run, tmp_path, monkeypatch, stage):
    folder, old = tmp_path / "new" / "results", tmp_path / "old"
    old.mkdir()
    (old / "table.csv").write_text("of an earlier run")
    to_csv = pd.DataFrame.to_csv

    def full(frame, path, **keywords):
        if stage == "half" and Path(path).name == "table.csv":
            return to_csv(frame, path, **keywords)
        Path(path).write_text("model,met")
        return no_space()

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    for out in (folder, old):
        result = run("compare", "iris", "--out", out, "--methods", "exact")
        assert result.exit_code == 1
        assert result.stderr == f"bayesgen: The result cannot be written to {out}: No space left on device\n"
    assert not (tmp_path / "new").exists()
    assert [path.name for path in old.iterdir()] == ["table.csv"]
    assert (old / "table.csv").read_text() == "of an earlier run"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_signs_that_standard_output_lacks_are_spelled_otherwise(run, tmp_path, monkeypatch, encoding):
    path = tmp_path / "table.csv"
    path.write_text("size,kind\n1,é\n2,é\n3,é\n7,→\n8,→\n9,→\n", encoding="utf-8")
    for arguments in (["--test-size", "0.34", *FAST], ["--methods", "exact", "--json", "--out", tmp_path / "out"]):
        raw = io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", stdout := io.TextIOWrapper(raw, encoding))  # closed when it has no name
            patch.setattr("sys.argv", ["bayesgen", "compare", str(path), *map(str, arguments)])
            with pytest.raises(SystemExit) as end:
                bayesgen.cli.main()
        assert end.value.code == 0 and not stdout.closed
        shown = raw.getvalue().decode(encoding)
        if "--json" in arguments:
            assert json.loads(shown) == json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
        else:
            assert "+-" in shown if encoding == "ascii" else "±" in shown
            assert "(\\xe9, \\u2192)" in shown if encoding == "ascii" else "(é, \\u2192)" in shown


FULL = "bayesgen: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_full_standard_output_is_status_1_with_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == FULL


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_comparison_on_a_full_standard_output_is_status_1_with_one_line(monkeypatch, capsys):
    with open("/dev/full", "w") as full, pytest.raises(SystemExit) as end:
        monkeypatch.setattr("sys.stdout", full)
        monkeypatch.setattr("sys.argv", ["bayesgen", "compare", "iris", "--methods", "exact"])
        bayesgen.cli.main()
    assert end.value.code == 1
    assert capsys.readouterr().err == FULL


def test_a_closed_pipe_is_status_1_without_a_word():
    with subprocess.Popen([*COMMAND, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_a_named_data_set_is_not_mistaken_for_a_file_of_that_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("iris").write_text("something else")
    result = run("compare", "iris", "--methods", "exact", "--json")
    assert json.loads(result.stdout)["config"]["data_sha256"] is None


def test_gda_without_a_column_of_numbers_is_noted(run, tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("colour,kind\n" + "red,a\nblue,b\nred,b\nblue,a\n" * 3)
    result = run("compare", path, "--model", "gda", "--methods", "exact")
    assert "note: No column of" in result.stderr and "gda is naive Bayes here" in result.stderr
    assert "note:" not in run("compare", "iris", "--model", "gda", "--methods", "exact").stderr


@pytest.fixture
def votes(tmp_path):
    """Votes of two parties, of which some are not known, marked by "?", "-" or nothing; and an age, likewise."""
    rng = np.random.default_rng(7)
    party = np.repeat(["left", "right"], 40)
    frame = pd.DataFrame({"party": party, "age": rng.normal(50 + 5 * (party == "left"), 8).round(1).astype(str)})
    for column in ("water", "crime", "schools"):
        frame[column] = np.where(rng.random(80) < 0.2 + 0.6 * (party == "left"), "y", "n")
    for column, mark in {"age": "?", "water": "?", "crime": "-", "schools": ""}.items():
        frame.loc[rng.random(80) < 0.25, column] = mark
    path = tmp_path / "votes.csv"
    frame.to_csv(path, index=False)
    return path


def test_marked_and_empty_cells_are_missing(run, votes):
    wanted = ["--target", "party", "--model", "naive-bayes", "--methods", "map,exact", "--seed", "3", "--json"]
    result = run("compare", votes, "--missing", "?", "--missing", "-", *wanted)
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert "--missing '?' --missing -" in content["config"]["command"]
    frame = pd.read_csv(votes, na_values=["?", "-"])
    assert frame.isna().sum().min() == 0 and frame.isna().sum().sum() > 50  # the party is known, the others not
    dataset = load_dataset(votes, target="party", missing=["?", "-"])
    assert dataset.declared.categories == {name: ("n", "y") for name in ("water", "crime", "schools")}
    split = dataset.split(seed=3)
    fit = bayesgen.fit(bayesgen.NaiveBayes(), split.X_train, split.y_train, method=bayesgen.Exact())
    answer = bayesgen.predict(fit, split.X_test, rule=bayesgen.BMA())
    own = answer.log_probabilities[np.arange(20), (split.y_test == "right").to_numpy().astype(int)]
    shown = next(pair for pair in content["pairs"] if pair["rule"].startswith("BMA"))
    assert shown["log_score"] == pytest.approx(own.mean(), rel=1e-9)
    again = run(*shlex.split(content["config"]["command"])[1:], "--json")
    assert json.loads(again.stdout)["pairs"] == content["pairs"]


def test_values_that_training_rows_lack_are_declared_or_missing(run, tmp_path):
    path = tmp_path / "food.csv"
    rows = [f"{'ab'[row % 2]},{['meat', 'roots'][row // 2 % 2]}" for row in range(20)]
    path.write_text("\n".join(["y,food", *rows, "a,stones", "b,stones"]) + "\n")
    wanted = ["--target", "y", "--per-class", "10", "--methods", "exact", "--json"]
    declared, missing = (run("compare", path, *wanted, *more) for more in ([], ["--unknown", "missing"]))
    assert declared.exit_code == missing.exit_code == 0
    assert "neither had in training" not in declared.stderr and "'food' (2)" in missing.stderr
    scores = [json.loads(result.stdout)["pairs"][0]["log_score"] for result in (declared, missing)]
    assert scores[1] == pytest.approx(-np.log(2))  # cells that are missing tell nothing
    assert json.loads(missing.stdout)["config"]["command"].count("--unknown missing") == 1
    assert run("compare", path, "--unknown", "guess").exit_code == 2


def test_rows_without_labels_are_learned_from(run, tmp_path):
    """Empty cells of the target: of two clusters with one label each, the others are told apart by where they lie."""
    rng = np.random.default_rng(3)
    kinds = np.arange(60) % 2
    labels = np.where(np.arange(60) < 40, "", np.where(kinds, "high", "low"))
    labels[:2] = ["low", "high"]
    frame = pd.DataFrame({"size": rng.normal(6 * kinds, 1.0), "kind": labels})
    path = tmp_path / "some.csv"
    frame.to_csv(path, index=False)
    result = run("compare", path, "--methods", "map,exact", "--test-size", "0.5")
    assert result.exit_code == 0 and "(38 without labels)" in result.stdout.replace("\n", " ")
    pairs = json.loads(run("compare", path, "--methods", "map,exact", "--test-size", "0.5", "--json").stdout)["pairs"]
    assert pairs[0]["accuracy"] > 0.9 and "labels are missing" in pairs[1]["refused"]
