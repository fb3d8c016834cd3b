"""examples/semi_supervised.py: what unlabelled rows are worth."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "semi_supervised.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("semi_supervised_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_unlabelled_wines_are_worth_more_than_their_lack_costs(script, tmp_path):
    wine = dataclasses.replace(next(script.panels(None)), sizes=(6,))
    table = script.accuracies(wine, 3)
    assert len(table) == 3 * len(script.METHODS)
    means = table.groupby("method")["accuracy"].mean()
    assert means["all rows, EM"] > means["labelled rows alone"] + 0.05
    script.draw_figure({wine.title: table}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
