"""The README's Python examples run as they stand."""

import doctest
import fnmatch
import functools
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)


@functools.cache
def names_of(block):
    """What a block defines, run by itself in a fresh namespace."""
    defined: dict = {}
    exec(compile(BLOCKS[block], str(README), "exec"), defined)
    return defined


# what is sampled compiles for long: the first example of it is run always, the others with -m slow
SAMPLED = [block for block, text in enumerate(BLOCKS) if "method=bg.NUTS(" in text]
every_block = [pytest.param(block, marks=[pytest.mark.slow] * (block in SAMPLED[1:])) for block in range(len(BLOCKS))]


@pytest.mark.parametrize("block", every_block)
def test_each_block_runs_by_itself(block):
    assert names_of(block)["fit"] is not None


def test_the_two_answers_of_the_first_example_are_the_published_ones():
    names = names_of(0)
    truth = names["y"].drop(index=names["train"]).to_numpy()
    score = names["one_step"].log_probabilities[np.arange(len(truth)), truth].mean()
    assert -score == pytest.approx(0.10270724, abs=1e-8)
    assert not np.allclose(names["one_step"].probabilities, names["two_step"].probabilities, atol=1e-3)


def test_a_program_of_ones_own_is_compressed_and_its_answer_makes_sense():
    names = names_of(1)
    assert names["program"].plan.rowwise == ()
    answer = names["answer"]
    assert (answer.labels == names["labels"]).mean() > 0.5
    assert (answer.standard_error < 0.02).all()
    assert (answer.mutual_information > -1e-9).all()


def test_tables_have_no_gaps():
    """A row of a table follows a row: after an empty line it would need a header of its own."""
    lines = README.read_text(encoding="utf-8").splitlines()
    begins = [
        index for index, line in enumerate(lines) if line.startswith("|") and not lines[index - 1].startswith("|")
    ]
    assert begins and all(set(lines[index + 1]) <= set("|- ") for index in begins)


@functools.cache
def checkout_files():
    """Paths from its root, each after a slash."""
    return [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.rglob("*.*")]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "tests/README.md"])
def test_pages_for_contributors_name_files_that_exist(page):
    """Named by the end of their path; a star stands for any part of a name."""
    named = set(re.findall(r"[\w/*.]*\w\.(?:py|json|toml|yml|md)\b", (ROOT / page).read_text("utf-8")))
    assert len(named) > 5
    patterns = {name: name.removeprefix("../").lstrip("/") for name in named}
    assert [name for name, pattern in patterns.items() if not fnmatch.filter(checkout_files(), f"*/{pattern}")] == []


def test_one_process_says_red_and_the_average_says_blue():
    found = doctest.testfile(str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5 and found.failed == 0
