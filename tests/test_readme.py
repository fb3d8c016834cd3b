"""The README's Python examples run as they stand."""

import doctest
import pathlib
import re

import numpy as np
import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture(scope="module")
def names():
    """What the blocks define, run one after another as a reader would."""
    defined: dict = {}
    for block in BLOCKS:
        exec(compile(block, str(README), "exec"), defined)
    return defined


def test_the_two_answers_of_the_first_example_are_the_published_ones(names):
    truth = names["y"].drop(index=names["train"]).to_numpy()
    score = names["one_step"].log_probabilities[np.arange(len(truth)), truth].mean()
    assert -score == pytest.approx(0.10270724, abs=1e-8)
    assert not np.allclose(names["one_step"].probabilities, names["two_step"].probabilities, atol=1e-3)


def test_a_program_of_ones_own_is_compressed_and_its_answer_makes_sense(names):
    assert names["program"].plan.rowwise == ()
    answer = names["answer"]
    assert (answer.labels == names["labels"]).mean() > 0.5
    assert (answer.standard_error < 0.02).all()
    assert (answer.mutual_information > -1e-9).all()


def test_one_process_says_red_and_the_average_says_blue():
    found = doctest.testfile(str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5 and found.failed == 0
