"""The README: its examples give the output below them; and what pages for contributors name is there."""

import fnmatch
import functools
import re
from typing import Any

import pages
import pytest

README = pages.ROOT / "README.md"


@functools.cache
def names() -> dict[str, Any]:
    """What the blocks of the README define; an `OutputError` where one gives another output."""
    return pages.run_page(README)


def test_each_block_gives_the_output_below_it():
    assert len(pages.blocks_of_page(README)) >= 3
    names()


def test_the_two_answers_of_the_first_example_differ_and_the_average_is_better():
    scores = [names()[answer].score(names()["y_new"])["log_score"] for answer in ("two_step", "one_step")]
    assert scores[1] > scores[0] + 0.5


def test_a_program_of_ones_own_is_compressed_and_its_answer_makes_sense():
    assert names()["program"].plan.rowwise == ()
    answer = names()["answer"]
    assert (answer.standard_error < 0.02).all()
    assert (answer.mutual_information > -1e-9).all()


def test_it_says_of_the_atlas_what_the_page_of_the_atlas_says():
    readme, page = (" ".join(path.read_text("utf-8").split()) for path in (README, pages.ROOT / "docs" / "atlas.md"))
    assert re.search(r"Of [\d,]+ combinations.*?behind in \d+", readme)[0] in page


def test_it_is_short():
    assert len(README.read_text("utf-8").splitlines()) <= 200


PAGES = [README, pages.ROOT / "CONTRIBUTING.md", *sorted((pages.ROOT / "docs").rglob("*.md"))]


def test_tables_have_no_gaps():
    """A row of a table follows a row: after an empty line it would need a header of its own."""
    for page in PAGES:
        lines = ["", *page.read_text(encoding="utf-8").splitlines()]
        begins = [i for i, line in enumerate(lines) if line.startswith("|") and not lines[i - 1].startswith("|")]
        assert all(set(lines[index + 1]) <= set("|-: ") for index in begins), page


@functools.cache
def checkout_files() -> list[str]:
    """Paths from its root, each after a slash."""
    return [f"/{path.relative_to(pages.ROOT).as_posix()}" for path in pages.ROOT.rglob("*.*")]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "tests/README.md"])
def test_pages_for_contributors_name_files_that_exist(page):
    """Named by the end of their path; a star stands for any part of a name."""
    named = set(re.findall(r"[\w/*.]*\w\.(?:py|json|toml|yml|md)\b", (pages.ROOT / page).read_text("utf-8")))
    assert len(named) > 5
    patterns = {name: name.removeprefix("../").lstrip("/") for name in named}
    assert [name for name, pattern in patterns.items() if not fnmatch.filter(checkout_files(), f"*/{pattern}")] == []
