"""examples/names.py: which continent a city is on, by k-grams."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "names.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("names_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_names_are_those_of_places_by_continent(script):
    places, continents = script.names()
    by_place = dict(zip(places, continents, strict=True))
    assert by_place["berlin"] == "Europe" and by_place["buenos aires"] == "America"
    assert {"Africa", "America", "Asia", "Europe"} <= set(continents) and "Etc" not in continents
    assert np.unique(continents, return_counts=True)[1].min() >= script.LEAST_NAMES


def test_averages_over_parameters_and_orders_are_worth_their_price(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ORDERS", (0, 1))
    table = script.scores(2, sizes=(50, 300))
    assert len(table) == 2 * 2 * (1 + 2 * 2 + 2)
    means = table.groupby(["answer", "names"])["log score"].mean()
    assert means["order 0, BMA", 50] > means["order 0, plug-in", 50] + 0.02
    assert means[script.BY_STACKING, 300] > means[script.BY_EVIDENCE, 300] + 0.1
    assert means[script.BY_STACKING, 300] > means[script.SHARES, 300]
    script.draw_figure(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
