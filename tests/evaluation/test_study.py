"""Studies: each unit is a comparison of the same split, and a study that was stopped goes on."""

import copy
import importlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from sklearn.preprocessing import FunctionTransformer

import bayesgen as bg
from bayesgen.evaluation.comparison import versions
from bayesgen.evaluation.training_sets import subsets
from bayesgen.evaluation.training_sets import worlds as study_worlds
from bayesgen.program import content_digest
from tests.models.cases import CASES

study_module = importlib.import_module("bayesgen.evaluation.study")

PAIRS = [
    (bg.MLE(), bg.PlugIn()),
    (bg.MAP(), bg.PlugIn()),
    (bg.Exact(), bg.PlugIn(at="mean")),
    (bg.Exact(), bg.BMA()),
    (bg.MAP(), bg.BMA()),  # refused: a point has nothing to average over
]
MODELS = {"diag": bg.GaussianDiscriminant("diag"), "full": bg.GaussianDiscriminant()}
SIZES, REPEATS = [4, 8, 48], 3
IRIS = bg.load_dataset("iris")
SCORES = ["accuracy", "log_score", "brier", "ece"]


def run(**options):
    settings = {"sizes": SIZES, "repeats": REPEATS, "pairs": PAIRS, "seed": 3} | options
    return bg.study(MODELS, IRIS.X, IRIS.y, **settings)


@pytest.fixture(scope="module")
def study():
    return run()


def same_but_for_seconds(table, other):
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), other.drop(columns="seconds"))


def drawn(size, repeat, test=None):
    """Positions of training and test rows."""
    options = {"sizes": SIZES, "repeats": REPEATS, "per_class": True, "schema": None, "seed": 3}
    source = subsets(MODELS["diag"], IRIS.X, IRIS.y, test=test, **options)
    return np.flatnonzero(source.rank[repeat] < size), source.places(size, repeat)


@pytest.mark.parametrize(("size", "repeat"), [(4, 0), pytest.param(8, 2, marks=pytest.mark.slow), (48, 1)])
def test_a_unit_is_the_comparison_of_its_split(study, size, repeat):
    train, test = drawn(size, repeat)
    assert len(train) == 3 * size
    assert sorted([*train, *test]) == list(range(150))
    data = [part.iloc[rows] for rows in (train, test) for part in (IRIS.X, IRIS.y)]
    table = bg.compare(MODELS, *data, methods=PAIRS).table
    rows = study.table[(study.table["size"] == size) & (study.table["repeat"] == repeat)].reset_index(drop=True)
    assert rows[["model", "method", "rule"]].equals(table[["model", "method", "rule"]])
    columns = [*SCORES, "impossible", "ruled_out"]
    np.testing.assert_allclose(rows[columns].astype(float), table[columns].astype(float), rtol=1e-9, atol=1e-9)
    assert (rows["refused"].isna() == table["refused"].isna()).all()


@pytest.mark.parametrize("with_numbers", [False, True])
def test_rows_without_a_label_are_in_every_training_set_as_in_a_comparison(with_numbers):
    data = bg.load_dataset("diabetes") if with_numbers else IRIS
    unlabelled = np.arange(len(data.y)) % 3 == 0
    y = data.y.astype(float if with_numbers else object).mask(unlabelled)
    model, pairs = bg.LinearRegression() if with_numbers else MODELS["diag"], PAIRS[1:2] + PAIRS[3:4]
    settings = {"sizes": [12], "repeats": 2, "seed": 3}
    table = bg.study(model, data.X, y, pairs=pairs, **settings).table
    source = subsets(model, data.X, y, test=None, per_class=True, schema=None, **settings)
    for repeat in range(2):
        train = np.flatnonzero(source.rank[repeat] < 12)
        test = np.flatnonzero(source.rank[repeat] >= 12)
        assert set(np.flatnonzero(unlabelled)) <= set(train) and len(train) == unlabelled.sum() + (
            12 if with_numbers else 36
        )
        expected = bg.compare(
            model, data.X.iloc[train], y.iloc[train], data.X.iloc[test], y.iloc[test], methods=pairs
        ).table
        rows = table[table["repeat"] == repeat]
        np.testing.assert_allclose(rows["log_score"], expected["log_score"], rtol=1e-4)  # EM stops within 1e-5
        assert rows["refused"].isna().tolist() == expected["refused"].isna().tolist() == [True, with_numbers]


def test_refusals_are_rows_and_the_study_goes_on(study):
    singular = study.table[(study.table.model == "full") & (study.table.method == "MLE") & (study.table["size"] == 4)]
    assert singular["refused"].str.contains("singular|constant").all()
    points = study.table[(study.table.method == "MAP") & (study.table.rule == "BMA")]
    assert len(points) == 2 * len(SIZES) * REPEATS
    assert points["refused"].notna().all()
    assert len(study.table) == 2 * len(PAIRS) * len(SIZES) * REPEATS
    assert study.table.loc[study.table.refused.isna(), SCORES].notna().all(axis=None)


def mean_and_error(values):
    if not len(values):
        return np.nan, np.nan
    return values.mean(), values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan


def test_the_summary_has_means_errors_and_paired_differences_from_map(study):
    assert study.references == dict.fromkeys(MODELS, ("MAP", "PlugIn"))
    rows = study.table.set_index(["model", "method", "rule", "size"]).sort_index()
    for line in study.summary.to_dict("records"):
        key = line["model"], line["method"], line["rule"], line["size"]
        scores = rows.loc[key]["log_score"].to_numpy()
        differences = scores - rows.loc[line["model"], "MAP", "PlugIn", line["size"]]["log_score"].to_numpy()
        scored = ~np.isnan(scores)
        assert (line["repeats"], line["refused"]) == (scored.sum(), (~scored).sum())
        found = [line[name] for name in ("log_score", "log_score_error", "difference", "standard_error")]
        expected = [mean_and_error(values[scored]) for values in (scores, differences)]
        np.testing.assert_allclose(found, np.ravel(expected), rtol=1e-9, atol=1e-12)
        assert line["reference"] == "MAP + PlugIn"


def test_without_map_differences_are_from_the_first_pair():
    assert set(run(sizes=[8], pairs=[PAIRS[3], PAIRS[2]]).references.values()) == {("Exact", "BMA")}


def test_a_plug_in_that_rules_out_test_rows_at_every_size_is_no_reference():
    """A value that no training row of a class has makes the log score of the most probable process infinite."""
    rng = np.random.default_rng(0)
    words = np.stack([rng.choice(list("abcdefgh"), 40), rng.choice(list("abcdefgh"), 40)], axis=1)
    frame = pd.DataFrame(words, columns=["first", "second"]).astype("category")
    result = bg.study(bg.NaiveBayes(), frame, np.arange(40) % 2, sizes=[3], repeats=2, pairs=PAIRS[1:4])
    assert np.isneginf(result.summary["log_score"][0])
    assert set(result.summary["reference"]) == {"Exact + PlugIn(mean)"}
    assert np.isfinite(result.summary["difference"][1:]).all()


def test_averages_are_fitted_one_by_one_and_compared_with_the_first_pair_that_they_answer():
    average = bg.average([bg.GaussianDiscriminant("diag"), bg.GaussianDiscriminant("tied")])
    study = bg.study(average, IRIS.X, IRIS.y, sizes=[8], repeats=2, pairs=PAIRS[1:4], seed=3)
    assert study.table["refused"].notna().tolist() == [True] * 2 + [False] * 4
    assert set(study.summary["reference"]) == {"Exact + PlugIn(mean)"}
    train, test = drawn(8, 1)
    data = [part.iloc[rows] for rows in (train, test) for part in (IRIS.X, IRIS.y)]
    expected = bg.compare(average, *data, methods=PAIRS[3:4]).table["log_score"][0]
    np.testing.assert_allclose(study.table["log_score"].iloc[-1], expected, rtol=1e-9)


def test_smaller_sets_are_parts_of_larger_ones_and_an_integer_has_the_same_test_rows():
    small, large = (drawn(size, 1, test=6) for size in (4, 48))
    assert set(small[0]) < set(large[0])
    assert len(small[1]) == len(large[1]) == 6
    assert not set(small[1]) & set(small[0])
    assert not set(large[1]) & set(large[0])


def test_given_test_rows_are_those_of_all_repeats(monkeypatch):
    monkeypatch.setattr(study_module, "predict", None)  # fits of all repeats are asked in one call, not one by one
    some = np.r_[0:20, 50:70, 100:120]
    rest = np.setdiff1d(np.arange(150), some)
    test = (IRIS.X.iloc[rest], IRIS.y.iloc[rest])
    study = bg.study(
        MODELS["diag"], IRIS.X.iloc[some], IRIS.y.iloc[some], sizes=[20], repeats=2, pairs=PAIRS[1:2], test=test
    )
    expected = bg.compare(MODELS["diag"], IRIS.X.iloc[some], IRIS.y.iloc[some], *test, methods=PAIRS[1:2]).table
    np.testing.assert_allclose(study.table["log_score"], expected["log_score"][0], rtol=1e-9)


def test_rows_without_labels_are_scored_by_their_densities():
    mixture, options = bg.Mixture(bg.GaussianDiscriminant("diag"), 1), {"sizes": [30], "repeats": 2, "test": 40}
    study = bg.study(mixture, IRIS.X, pairs=PAIRS[1:2], **options)
    source = subsets(mixture, IRIS.X, None, per_class=True, schema=None, seed=0, **options)
    train, test = (IRIS.X.iloc[rows] for rows in (np.flatnonzero(source.rank[1] < 30), source.places(30, 1)))
    expected = bg.compare(mixture, train, None, test, None, methods=PAIRS[1:2]).table["log_score"]
    np.testing.assert_allclose(study.table["log_score"][1:], expected, rtol=1e-9)
    assert not {"accuracy", "brier"} & set(study.metrics)


def test_numbers_are_scored_as_by_compare():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=40)
    options = {"sizes": [12], "repeats": 2, "test": None, "seed": 3}
    study = bg.study(bg.LinearRegression(), X, y, pairs=PAIRS[3:4], **options)
    source = subsets(bg.LinearRegression(), X, y, per_class=True, schema=None, **options)
    train, test = np.flatnonzero(source.rank[1] < 12), source.places(12, 1)
    assert len(train) == 12
    assert study.config["per_class"] is False  # by which the verdict and the figure name the unit of sizes
    expected = bg.compare(bg.LinearRegression(), X[train], y[train], X[test], y[test], methods=PAIRS[3:4]).table
    columns = ["log_score", "rmse", "crps", "coverage_95", "width_95", "impossible"]
    np.testing.assert_allclose(study.table[columns].astype(float)[1:], expected[columns].astype(float), rtol=1e-9)


def test_json_is_strict_and_leaves_times_out(study):
    result = json.loads(study.to_json(), parse_constant=pytest.fail)
    assert len(result["table"]) == len(study.table)
    assert "seconds" not in result["table"][0]
    assert "not errors over new data" in result["about_errors"]


def test_the_figure_has_curves_differences_and_says_what_errors_are_of(study):
    figure = study.plot()
    scores, *_ = figure.axes
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert "Exact · BMA: averaged over processes (one step)" in labels
    assert "MAP · BMA refused at 4, 8, 48" in scores.get_xlabel()
    assert len(figure.axes) == 4
    assert "not errors over new data" in legend.get_title().get_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": [5, 51]}, "Size 51 takes 51 rows of each class, and class 'setosa' has 50, class 'versicolor'"),
        ({"sizes": [50]}, "leaves 0 rows"),
        ({"sizes": [40], "test": 31}, "leaves 30 rows to test on, and 31 are wanted"),
        ({"sizes": [0]}, "sizes must be a whole number and at least 1, got 0"),
        ({"sizes": []}, "sizes must be a whole number and at least 1, got None"),
        ({"test": 0.5}, "test must be a whole number and at least 1, got 0.5"),
        ({"repeats": 0}, "repeats must be a whole number and at least 1, got 0"),
        ({"simulate": 3}, "not both"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(bg.DataError, match=message):
        run(**options)


def test_a_class_that_is_too_small_is_named():
    kept = np.r_[0:50, 50:57, 100:150]
    with pytest.raises(bg.DataError, match=r"of each class, and class 'versicolor' has 7\."):
        bg.study(MODELS["diag"], IRIS.X.iloc[kept], IRIS.y.iloc[kept], sizes=[8])


def test_a_stopped_study_goes_on_and_counts_nothing_twice(study, tmp_path):
    folder = tmp_path / "out"
    run(out=folder)
    units = sorted((folder / "units").iterdir())
    assert len(units) == 2 * 3 * len(SIZES)  # a method of two rules is one unit
    times = {}
    for index, unit in enumerate(units):
        if index % 3 == 0:
            unit.unlink()
        else:
            times[unit] = unit.stat().st_mtime_ns
    (folder / "units" / ".half-written").write_text('[{"rule"')
    same_but_for_seconds(run(out=folder).table, study.table)
    assert all(unit.stat().st_mtime_ns == when for unit, when in times.items())


@pytest.mark.slow
def test_a_killed_process_leaves_whole_units(study, tmp_path):
    folder = tmp_path / "out"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import time, test_study\n"
        "module = sys.modules['bayesgen.evaluation.study']\n"
        "unit = module._Experiment._unit\n"
        "def slow(*arguments):\n    time.sleep(0.05)\n    return unit(*arguments)\n"
        "module._Experiment._unit = slow\n"
        "test_study.run(out=sys.argv[2])\n"
    )
    arguments = [str(Path(__file__).parent), str(folder)]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments])
    start = time.monotonic()
    while len(list(folder.glob("units/[0-9]*"))) < 2 and time.monotonic() < start + 60:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    num_finished = len(list(folder.glob("units/[0-9]*")))
    assert 2 <= num_finished < 2 * 3 * len(SIZES)
    same_but_for_seconds(run(out=folder).table, study.table)


def test_a_study_ends_where_the_disk_is_full_and_goes_on_later(study, tmp_path, monkeypatch):
    usual = Path.write_bytes

    def full(path, content):
        if len(list(path.parent.glob("[0-9]*"))) == 2:
            usual(path, content[:10])
            raise OSError(28, "No space left on device")
        return usual(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*units/\d-\d-\d+\.json'"):
            run(out=tmp_path)
    assert len(list((tmp_path / "units").iterdir())) == 2  # finished, and no half of another
    same_but_for_seconds(run(out=tmp_path).table, study.table)


def test_the_folder_of_another_study_is_left_as_it_is(tmp_path):
    run(out=tmp_path / "one", sizes=[8], pairs=PAIRS[1:2])
    before = {path: path.read_bytes() for path in (tmp_path / "one").rglob("*.json")}
    with pytest.raises(bg.DataError, match=r"holds another study: repeats differ"):
        run(out=tmp_path / "one", sizes=[8], pairs=PAIRS[1:2], repeats=REPEATS + 1)
    other = IRIS.X.copy()
    other.iloc[0, 0] += 1
    with pytest.raises(bg.DataError, match="data_sha256 differ"):
        bg.study(MODELS, other, IRIS.y, sizes=[8], pairs=PAIRS[1:2], repeats=REPEATS, seed=3, out=tmp_path / "one")
    assert before == {path: path.read_bytes() for path in (tmp_path / "one").rglob("*.json")}
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "notes.txt").write_text("mine")
    with pytest.raises(bg.DataError, match="no study"):
        run(out=tmp_path / "two")
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["notes.txt"]


def resumed(folder, model, X=IRIS.X):
    return bg.study(model, X, IRIS.y, sizes=[6], repeats=1, pairs=PAIRS[3:4], out=folder)


def wishart(scale):
    return bg.GaussianDiscriminant(prior=bg.NormalInverseWishart(np.zeros(4), 1.0, 7.0, scale))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (wishart(np.eye(4)), wishart(9 * np.eye(4))),
        (
            bg.NaiveBayes(bg.NormalInverseGamma(np.arange(4.0))),
            bg.NaiveBayes(bg.NormalInverseGamma(np.arange(4.0) + 1)),
        ),
    ],
)
def test_models_with_other_numbers_are_another_study_though_their_texts_are_the_same(first, second, tmp_path):
    expected = resumed(tmp_path, first).table["log_score"]
    again = resumed(tmp_path, copy.deepcopy(first))
    assert (again.table["log_score"] == expected).all()
    with pytest.raises(bg.DataError, match="holds another study: contents of models differ"):
        resumed(tmp_path, second)


def test_what_tells_a_study_from_others_is_all_that_its_scores_depend_on(tmp_path, monkeypatch):
    """Starts of EM, names of columns and the versions of libraries, beside models and data."""
    starts = [np.eye(3)[np.arange(150) % 3], np.eye(3)[np.arange(150) // 50]]
    digests = [content_digest(bg.MAP(starts=start)) for start in (*starts, starts[0].copy())]
    assert digests[0] == digests[2] != digests[1]
    model = MODELS["diag"]
    resumed(tmp_path, model)
    with pytest.raises(bg.DataError, match="data_sha256 differ"):
        resumed(tmp_path, model, IRIS.X.rename(columns=dict(zip(IRIS.X, reversed(IRIS.X.columns), strict=True))))
    monkeypatch.setattr(study_module, "versions", lambda: versions() | {"bayesgen": "0.0.9"})
    with pytest.raises(bg.DataError, match="holds another study: versions differ"):
        resumed(tmp_path, model)


def test_a_program_whose_content_is_not_known_is_another_one(tmp_path):
    numbers = IRIS.X.to_numpy()
    model = bg.LinearRegression(FunctionTransformer(lambda X: X * float(Path("/dev/null").read_text() or 2.0)))
    options = {"sizes": [9], "repeats": 1, "out": tmp_path, "pairs": PAIRS[3:4]}
    bg.study(model, numbers[:, :2], numbers[:, 2], **options)
    with pytest.raises(bg.DataError, match="whether it is this one cannot be told: the content of its models"):
        bg.study(model, numbers[:, :2], numbers[:, 2], **options)


def test_configurations_tell_priors_apart():
    rows = [part.iloc[::9] for part in (IRIS.X, IRIS.y)]
    both = {"one": wishart(np.eye(4)), "other": wishart(9 * np.eye(4))}
    config = bg.compare(both, *rows, *rows, methods=PAIRS[3:4]).config
    assert config["models"]["one"] == config["models"]["other"]
    assert config["contents"]["models"]["one"] != config["contents"]["models"]["other"]


@pytest.mark.parametrize("place", ["fits", "predictions"])
def test_a_unit_that_fails_costs_its_own_lines_and_is_tried_again(place, tmp_path, monkeypatch):
    options = {"sizes": [6], "repeats": 2, "pairs": PAIRS[1:4], "out": tmp_path}

    def failing(original):
        def call(*arguments, **named):
            if named.get("method", getattr(arguments[0], "method", None)) == bg.MAP():
                raise TypeError("no number")
            return original(*arguments, **named)

        return call

    owner, name = (study_module, "_predictions") if place == "predictions" else (study_module.TrainingSets, "fits")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing(getattr(owner, name)))
        with pytest.warns(bg.BayesgenWarning, match=r"by MAP\(.*\) failed: TypeError: no number\. The study went on"):
            study = bg.study(MODELS["diag"], IRIS.X, IRIS.y, **options)
    assert study.table["refused"].notna().tolist() == [True] * 2 + [False] * 4
    assert study.table["refused"].str.contains("TypeError: no number").sum() == 2
    assert bg.study(MODELS["diag"], IRIS.X, IRIS.y, **options).table["refused"].isna().all()


def test_fits_that_are_refused_together_are_lines_of_refusals(monkeypatch):
    def refused(self, model, size, **options):
        if options["method"] == bg.MAP():
            raise bg.DataError("not these rows")
        return original(self, model, size, **options)

    original = study_module.TrainingSets.fits
    monkeypatch.setattr(study_module.TrainingSets, "fits", refused)
    table = bg.study(MODELS["diag"], IRIS.X, IRIS.y, sizes=[6], repeats=2, pairs=PAIRS[1:4]).table
    assert table["refused"].tolist()[:2] == ["not these rows"] * 2 and table["refused"][2:].isna().all()


def wheel(n):
    """Two classes, each with a normal attribute of two columns."""
    with numpyro.plate("classes", 2):
        mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 2.0).to_event(1))
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    with numpyro.plate("instances", n):
        y = numpyro.sample("y", dist.Categorical(jnp.stack([share, 1 - share])))
        numpyro.sample("x", dist.Normal(mean[y], 1.0).to_event(1))


@pytest.fixture(scope="module")
def worlds():
    models = {"gda": bg.GaussianDiscriminant("spherical"), "bayes": bg.NaiveBayes()}
    program = bg.GenerativeProgram(wheel, classes=["a", "b"])
    pairs = [(bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    return bg.study(models, simulate=program, sizes=[3, 30], repeats=6, test=600, pairs=pairs, seed=1)


def test_in_simulated_worlds_no_answer_beats_the_truth(worlds):
    assert list(worlds.table["model"].unique()) == ["gda", "bayes", "truth"]
    means = worlds.summary.set_index(["model", "rule", "size"])["log_score"].sort_index()
    for size in (3, 30):
        assert means["truth", "truth", size] > means.drop("truth").xs(size, level="size").max()
    assert means["gda", "BMA", 30] > means["gda", "BMA", 3]
    assert means["truth", "truth", 3] == means["truth", "truth", 30]  # the same test rows
    assert worlds.plot().legends[0].get_texts()[-1].get_text() == "true process"
    assert "drawn from the prior" in worlds.about_errors


def test_the_score_of_a_true_process_is_that_of_its_densities(worlds):
    program = bg.GenerativeProgram(wheel, classes=["a", "b"])
    source = study_worlds(program, sizes=[3, 30], repeats=6, per_class=True, test=600, seed=1)
    latents, rows, training = (
        {name: values[0] for name, values in sites.items()}
        for sites in (source.latents, source.test_rows, source.training_rows)
    )
    assert [(training["y"][:6] == label).sum() for label in "ab"] == [3, 3]
    shares = np.array([latents["share"], 1 - latents["share"]])
    densities = stats.norm.pdf(rows["x"][:, None], latents["mean"], 1.0).prod(-1) * shares
    codes = (rows["y"] == "b").astype(int)
    expected = np.log(densities[np.arange(600), codes] / densities.sum(1)).mean()
    truth = worlds.table[(worlds.table.model == "truth") & (worlds.table.repeat == 0)]["log_score"]
    np.testing.assert_allclose(truth, expected, rtol=1e-9)


def test_the_example_draws_its_figure(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location(
        "curves_example", Path(__file__).parents[2] / "examples" / "learning_curves.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(["--data", "iris", "--repeats", "3", "--folder", str(tmp_path), "--out", str(tmp_path / "study.png")])
    assert "Exact          BMA    40" in capsys.readouterr().out
    assert (tmp_path / "study.png").exists()
    assert (tmp_path / "iris" / "config.json").exists()


@pytest.mark.slow  # discriminants, naive Bayes and averages are studied above
@pytest.mark.parametrize("name", CASES)
def test_every_model_with_a_closed_form_is_studied(name):
    case = CASES[name]
    pairs = [(bg.Exact(), bg.BMA())]
    study = bg.study(case.model, *case.data, sizes=[20], repeats=2, per_class=False, test=7, pairs=pairs, seed=1)
    assert study.table.refused.isna().all() and study.table.log_score.notna().all()


def test_the_text_of_a_study_has_its_log_scores_in_few_columns(study):
    lines = repr(study).split("\n")
    header = next(index for index, line in enumerate(lines) if line.split()[:3] == ["model", "method", "rule"])
    assert lines[header].split()[3:] == [str(size) for size in sorted(set(study.table["size"]))]
    assert len(lines) - header - 1 == len(study.answers)
    assert f"{study.summary['log_score'][0]:,.4g}" in lines[header + 1]
