"""examples/mixture.py: what it prints of the number of components, and of the components themselves."""

import importlib.util
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

SCRIPT = Path(__file__).parents[2] / "examples" / "mixture.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("mixture_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_numbers_of_components_are_scored_and_weighed(script):
    X = load_iris(as_frame=True).data
    table = script.numbers(script.mixtures("tied-diag", 2), X[::2], X[1::2])
    assert table.index.tolist() == ["1", "2"] and table.columns.tolist() == ["MAP", "MLE", "weight"]
    assert table.weight.sum() == pytest.approx(1.0) and table.weight["2"] > 0.9
    assert (table.loc["2"] > table.loc["1"]).all()


@pytest.mark.slow
def test_the_whole_example_tells_setosa_from_the_others(script, capsys, tmp_path):
    script.main(["--most", "2", "--draws", "300", "--out", str(tmp_path / "figure.png")])
    printed = capsys.readouterr().out
    assert "components: 2 (0, 1)" in printed
    setosa, versicolor, virginica = (line.split()[1:] for line in printed.splitlines()[-3:])
    assert sorted(setosa) == sorted(versicolor) == ["0.0", "25.0"] and setosa != versicolor == virginica
    assert (tmp_path / "figure.png").stat().st_size > 10_000
