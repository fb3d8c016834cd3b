"""examples/regression_coverage.py: intervals of the one-step answer hold what they say, the two-step ones do not."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "regression_coverage.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("regression_coverage_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(script, sizes, simulations, seed):
    table = script.coverage(script.places(sizes, simulations, seed))
    for column, level in zip(table, script.LEVELS, strict=True):
        error = np.sqrt(level * (1 - level) / simulations)
        for size in sizes:
            assert abs(table.loc[(size, "one-step"), column] - level) < 4 * error, (size, level)
        assert table.loc[(sizes[0], "two-step"), column] < level - 4 * error


def test_five_rows(script):
    check(script, [5], 250, seed=1)


@pytest.mark.slow
def test_any_number_of_rows(script):
    check(script, list(script.SIZES), 2000, seed=2)


@pytest.mark.slow
def test_the_figure_is_drawn(script, tmp_path, capsys):
    script.main(["--simulations", "20", "--out", str(tmp_path / "figure.svg")])
    assert "one-step" in capsys.readouterr().out and (tmp_path / "figure.svg").stat().st_size > 1000
