"""`bayesgen fit` and `bayesgen predict`: a table becomes a fit in a file, and new rows become answers, line by line."""

import io

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
from bayesgen.cli import tables


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """A folder with a table whose cells need options to be read, a fit of it, and rows without labels."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    kinds = np.arange(60) % 2
    frame = pd.DataFrame(
        {
            "id": [f"P{row:03d}" for row in range(60)],
            "area": [f"0{row % 3}" for row in range(60)],
            "kind": np.where(kinds, "=yes", "no"),
            "size": rng.normal(2 * kinds, 1).round(2).astype(str),
            "land": np.where(rng.random(60) < 0.5, "NA", "DE"),
        }
    )
    frame.loc[3, "size"] = "?"
    frame.to_csv(folder / "sites.csv", index=False, sep=";", decimal=",")
    frame.drop(columns="kind")[::-1].head(7).to_csv(folder / "new.csv", index=False, sep=";")
    return folder


READ = ["--target", "kind", "--separator", ";", "--missing", "?", "--words-are-values"]


@pytest.fixture
def fitted(run, sites):
    """The file of a fit of the sites."""
    if not (sites / "fit.nc").exists():
        result = run("fit", sites / "sites.csv", *READ, "--out", sites / "fit.nc")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("Fit of NaiveBayes") and "Written: " in result.stderr
    return sites / "fit.nc"


def expected(sites, fitted, rule):
    """The answers of Python to the new rows."""
    X = pd.read_csv(sites / "new.csv", sep=";", dtype={"area": str}, keep_default_na=False)[["area", "size", "land"]]
    return bg.predict(bg.load(fitted), X.assign(size=X["size"].astype(float)), rule=rule).to_frame()


def test_each_new_row_has_a_line_in_its_order_read_as_the_table_of_the_fit_was(run, sites, fitted):
    result = run("predict", fitted, sites / "new.csv")
    assert result.exit_code == 0, result.stderr
    answers = pd.read_csv(io.StringIO(result.stdout))
    pd.testing.assert_frame_equal(answers, expected(sites, fitted, bg.BMA()))
    assert "left out" not in result.stderr and "'?'" not in result.stderr
    two_step = run("predict", fitted, sites / "new.csv", "--rule", "plug-in").stdout
    assert two_step == expected(sites, fitted, bg.PlugIn()).to_csv(index=False, lineterminator="\n") != result.stdout


def test_standard_input_and_other_formats_hold_the_same_rows(run, sites, fitted, tmp_path):
    pytest.importorskip("pyarrow")
    printed = run("predict", fitted, sites / "new.csv").stdout
    assert run("predict", fitted, "-", input=(sites / "new.csv").read_text()).stdout == printed
    frame = pd.read_csv(sites / "new.csv", sep=";", dtype=str, keep_default_na=False)
    frame.assign(size=frame["size"].astype(float)).to_parquet(tmp_path / "new.parquet")
    assert run("predict", fitted, tmp_path / "new.parquet", "--out", "-").stdout == printed
    for name, read in {"a.parquet": pd.read_parquet, "a.tsv.gz": lambda path: pd.read_csv(path, sep="\t")}.items():
        assert run("predict", fitted, sites / "new.csv", "--out", tmp_path / name).exit_code == 0
        pd.testing.assert_frame_equal(read(tmp_path / name), pd.read_csv(io.StringIO(printed)), check_dtype=False)
    assert {path.name for path in tmp_path.iterdir()} == {"new.parquet", "a.parquet", "a.tsv.gz"}
    compressed = run("predict", fitted, "-", input=(tmp_path / "a.tsv.gz").read_bytes())
    assert compressed.exit_code == 1 and "name the file instead" in compressed.stderr


def test_texts_that_a_spreadsheet_takes_for_formulas_are_written_as_they_are_and_named(run, sites, fitted):
    result = run("predict", fitted, sites / "new.csv")
    assert set(pd.read_csv(io.StringIO(result.stdout))["label"]) == {"=yes", "no"}
    assert "note: Texts of 'label' begin with one of = + - @" in result.stderr


def test_columns_that_the_fit_does_not_use_are_noted_and_those_that_it_needs_are_missed(run, sites, fitted, tmp_path):
    frame, path = pd.read_csv(sites / "new.csv", sep=";", dtype=str, keep_default_na=False), tmp_path / "new.csv"
    frame.assign(weight=1, kind="?").to_csv(path, index=False, sep=";")
    result = run("predict", fitted, path)
    assert result.stdout == run("predict", fitted, sites / "new.csv").stdout
    assert "does not use are left out: 'weight'." in result.stderr  # the identifier and the labels are known
    frame.drop(columns="size").to_csv(path, index=False, sep=";")
    result = run("predict", fitted, path)
    assert result.exit_code == 1 and result.stdout == "" and "Missing: 'size'" in result.stderr
    frame.assign(land="FR").to_csv(path, index=False, sep=",")
    result = run("predict", fitted, path, "--separator", ",")
    assert result.exit_code == 1 and "'FR'" in result.stderr


def test_numbers_are_predicted_with_their_intervals(run, tmp_path):
    path = tmp_path / "fit.nc"
    learned = run("fit", "diabetes", "--task", "regression", "--model", "joint-gaussian", "--drop", "s1", "--out", path)
    assert learned.exit_code == 0, learned.stderr
    answers = pd.read_csv(io.StringIO(run("predict", path, "diabetes").stdout))
    dataset = bg.load_dataset("diabetes")
    fit = bg.fit(bg.JointGaussianRegression(), dataset.X.drop(columns="s1"), dataset.y, method=bg.Exact())
    expected = bg.predict(fit, dataset.X.drop(columns="s1"), rule=bg.BMA()).to_frame()
    pd.testing.assert_frame_equal(answers, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "iris", "--out", "-"], "call it fit.nc"),
        (["fit", "iris", "--out", "fit.pkl"], "call it fit.nc"),
        (["fit", "iris"], "Missing option '--out'"),
        (["fit", "iris", "--model", "linear", "--out", "fit.nc"], "not a model for classification"),
        (["predict", "-", "new.csv"], "call it fit.nc"),
        (["predict", "fit.nc", "new.csv", "--out", "answers.xlsx"], ".parquet; or say -"),
        (["predict", "fit.nc", "new.csv", "--rule", "best"], "best"),
    ],
)
def test_wrong_usage_is_status_2(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_refusals_are_status_1_in_one_line(run, tmp_path, monkeypatch):
    (tmp_path / "fit.nc").write_text("no fit")
    for arguments in (
        ["predict", tmp_path / "fit.nc", "iris"],
        ["predict", tmp_path / "lost.nc", "iris"],
        ["fit", tmp_path / "lost.csv", "--out", tmp_path / "new.nc"],
        ["fit", "iris", "--out", tmp_path / "fit.nc" / "new.nc"],
    ):
        result = run(*arguments)
        assert result.exit_code == 1 and result.stdout == "" and result.stderr.count("\n") == 1
        assert result.stderr.startswith("bayesgen: ")
    batch = bg.fit_many(bg.NaiveBayes(), [([[1.0], [2.0]], ["a", "b"])], method=bg.Exact())
    batch.save(tmp_path / "batch.nc")
    assert "holds a FitBatch" in run("predict", tmp_path / "batch.nc", "iris").stderr
    monkeypatch.setattr("bayesgen.cli.options.find_spec", lambda name: None)
    lacking = run("predict", tmp_path / "fit.nc", "iris", "--out", "a.parquet")
    assert lacking.exit_code == 2 and "pip install pyarrow" in " ".join(lacking.stderr.split())


def test_a_fit_of_an_array_is_not_asked_by_names(run, tmp_path):
    bg.fit(bg.NaiveBayes(), [[1.0], [2.0], [4.0], [5.0]], list("aabb"), method=bg.Exact()).save(tmp_path / "fit.nc")
    (tmp_path / "new.csv").write_text("x0\n1\n")
    result = run("predict", tmp_path / "fit.nc", tmp_path / "new.csv")
    assert result.exit_code == 1 and "array, whose columns have no names" in result.stderr


def test_comparisons_read_standard_input_as_they_read_files(run, sites):
    content = (sites / "sites.csv").read_text()
    result = run("compare", "-", *READ, "--methods", "exact", input=content)
    assert result.exit_code == 0, result.stderr
    file = run("compare", sites / "sites.csv", *READ, "--methods", "exact")
    scores = [[line for line in text.splitlines() if "log score " in line] for text in (result.stdout, file.stdout)]
    assert scores[0] == scores[1] and "standard input: 45 rows" in result.stdout
    empty = run("compare", "-", input="")
    assert empty.exit_code == 1 and "standard input is empty" in empty.stderr


def test_categories_that_are_numbers_are_read_as_numbers(run, tmp_path):
    pytest.importorskip("pyarrow")
    table, fit, new = (tmp_path / name for name in ("codes.parquet", "fit.nc", "new.csv"))
    pd.DataFrame({"code": [1, 2, 1, 2] * 5, "kind": [*"abab"] * 5}).to_parquet(table)
    assert run("fit", table, "--kind", "code=categorical", "--out", fit).exit_code == 0
    assert [*tables.loaded(fit).schema.categories["code"]] == [1, 2]
    new.write_text("code\n2\n1\n")
    assert pd.read_csv(io.StringIO(run("predict", fit, new).stdout))["label"].tolist() == ["b", "a"]
