"""examples/number_game.py: what it reads of people's judgements, what it prints, and that it draws."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import bayesgen as bg

SCRIPT = Path(__file__).parents[2] / "examples" / "number_game.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("number_game_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def people(tmp_path):
    """Judgements of people who follow powers of 2 for one set, and a neighbourhood for the other."""
    powers = {2, 4, 8, 16, 32, 64}
    lines = ["target\tset\tyes\tno"]
    for number in range(1, 101):
        lines.append(f"{number}\t16,8,2,64\t{9 * (number in powers)}\t{9 * (number not in powers) + 1}")
        lines.append(f"{number}\t16\t{max(0, 9 - abs(number - 16))}\t{min(9, abs(number - 16))}")
    path = tmp_path / "people.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_judgements_are_read_and_compared(script, people, capsys):
    sets, asked, shares = script.read_people(people)
    assert sets == [[16, 8, 2, 64], [16]]
    fit = bg.fit(bg.ConceptLearner(bg.number_game("tenenbaum"), noise=0.02), sets, method=bg.Exact())
    script.report("by hand", fit, asked, shares)
    membership = bg.predict(fit, range(1, 101), rule=bg.BMA()).membership
    by_people = shares.reshape(100, 2).T
    expected = np.corrcoef(membership.ravel(), by_people.ravel())[0, 1]
    assert f"one-step {expected:.3f}" in capsys.readouterr().out


@pytest.mark.slow
def test_the_script_runs_as_its_docstring_says(script, people, tmp_path, capsys, monkeypatch):
    figure = tmp_path / "number_game.png"
    monkeypatch.setattr(sys, "argv", ["number_game.py", "--out", str(figure), "--people", str(people)])
    script.main()
    assert figure.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert (
        "after [16, 8, 2, 64], numbers that belong with a probability of at least 0.5: [2, 4, 8, 16, 32, 64]" in printed
    )
    assert "learned: rule weight" in printed
