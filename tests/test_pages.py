"""The pages of the site: their code gives the output below it; their tables say what the package has."""

import contextlib
import functools
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
import pages
import pytest
from sklearn.preprocessing import PolynomialFeatures

import bayesgen
import bayesgen.sklearn
from bayesgen.data import BINARY, CATEGORICAL, COUNT, REAL
from bayesgen.families import Family, default_family
from bayesgen.program import Recipe
from bayesgen.statistics.base import _TABLE

DOCS = pages.ROOT / "docs"
SITE = [page for page in pages.pages() if DOCS in page.parents]
QUICK = DOCS / "two-answers.md"  # the idea of the library is checked always
every_page = [pytest.param(p, marks=[pytest.mark.slow] * (p != QUICK), id=str(p.relative_to(DOCS))) for p in SITE]


@pytest.mark.filterwarnings("default")  # which are part of the output
@pytest.mark.parametrize("page", every_page)
def test_each_block_gives_the_output_below_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.run_page(page)


@pytest.mark.parametrize(
    ("expected", "output", "agrees"),
    [
        ("a  0.12\n", "a 0.13", True),
        ("a 0.12", "a 0.14", False),
        ("a 12 rows", "a 13 rows", False),
        ("1.5e-07", "1.6e-07", True),
        ("took 0.4 s", "took 12 s", True),
        ("took 4 rows", "took 12 rows", False),
        ("Error: x1", "Error: x2", False),
    ],
)
def test_outputs_agree_up_to_the_last_decimal(expected, output, agrees):
    assert pages.agree(expected, output, is_rough=False) is agrees


def test_rough_outputs_agree_to_a_factor_of_four():
    assert pages.agree("3 of 1,000", "11 of 1,600", is_rough=True)
    assert not pages.agree("3 of 1,000", "13 of 1,000", is_rough=True)


def test_a_page_whose_output_differs_is_refused_and_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n\n```python\n1 / 0\n```\n\nThe end.\n"
    )
    with pytest.raises(pages.OutputError, match=r"page\.md, line 3, says\n3\n\nand the code gives\n2"):
        pages.run_page(page)
    assert pages.run_page(page, write=True)["x"] == 2
    text = page.read_text()
    assert "```text\n2\n```" in text and "```text\nZeroDivisionError: division by zero\n```\n\nThe end." in text
    pages.run_page(page)


def names_in_code(page: Path) -> set[str]:
    return set(re.findall(r"\b[A-Za-z]\w*", " ".join(re.findall(r"`([^`\n]+)`", page.read_text("utf-8")))))


def public(kind: type) -> set[str]:
    names = [name for name in bayesgen.__all__ if name not in ("Family", "BlockModel")]
    objects = {name: getattr(bayesgen, name) for name in names}
    return {name for name, value in objects.items() if inspect.isclass(value) and issubclass(value, kind)}


def test_all_families_and_models_are_in_the_table_of_processes():
    named = names_in_code(DOCS / "processes.md")
    assert public(Family) | {name for name in public(Recipe) if name != "AverageModel"} <= named
    classes = {name for name in named if re.match("[A-Z]+[a-z]+[A-Z]", name)}
    assert classes - set(bayesgen.__all__) == {"PolynomialFeatures"}


def rows_of_table(heading: str) -> list[list[str]]:
    """The cells of the first table of `processes.md` below a heading, without its first two lines."""
    below = (DOCS / "processes.md").read_text("utf-8").partition(f"# {heading}")[2]
    lines = re.search(r"(^\|.*\n)+", below, flags=re.M)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_default_families_are_those_of_the_table():
    defaults = {
        row[3]: row[0].strip("`")
        for row in rows_of_table("Families")
        if row[3] in ("binary", "categorical", "count", "real")
    }
    kinds = (BINARY, CATEGORICAL, COUNT, REAL)
    assert defaults == {kind.name: type(default_family(kind, False)).__name__ for kind in kinds}


NUMBERS = np.random.default_rng(0).normal(size=(12, 3))
CLASSES = ["a", "b"] * 6
WORDS = {"word": ["(())", "()", "((()))", "()"] * 3}


def one_normal(n):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(mean, 1.0))


def data_of_row(code: str) -> tuple[Any, Any]:
    """Data that a model of the table takes."""
    if code.startswith("Concept"):
        return [16, 8], None
    if code.startswith("GenerativeProgram"):
        return {"x": NUMBERS[:, 0]}, None
    if "Regression" in code:
        return NUMBERS[:, :2], NUMBERS[:, 2]
    if code.startswith(("Mixture", "Probabilistic")):
        return NUMBERS, None
    if "Hidden" in code:
        return {"signal": [row.tolist() for row in NUMBERS]}, CLASSES
    return (WORDS, CLASSES) if re.search("DirichletMarkov|Grammar", code) else (NUMBERS, CLASSES)


MODELS = {re.search("`(.*?)`", row[2])[1]: row[3] for row in rows_of_table("Which process made the data?")}


@pytest.mark.parametrize("code", [code for code in MODELS if not code.startswith("MLE")])
def test_a_posterior_is_a_formula_where_the_table_says_so(code):
    blocks = [("place", bayesgen.NormalInverseWishart(), ["x0", "x1"]), ("size", bayesgen.NormalInverseGamma(), ["x2"])]
    stated = {"k": 1, "K": 2, "num_states": 2, "rules": {"S": ["( S )", "( )"]}, "blocks": blocks}
    program = functools.partial(bayesgen.GenerativeProgram, label=None)
    names = {name: getattr(bayesgen, name) for name in bayesgen.__all__} | stated | {"function": one_normal}
    model = eval(code, names | {"GenerativeProgram": program, "PolynomialFeatures": PolynomialFeatures})
    X, y = data_of_row(code)
    has_formula = contextlib.nullcontext() if "formula" in MODELS[code] else pytest.raises(bayesgen.FitError)
    with has_formula:
        bayesgen.fit(model, X, y, method=bayesgen.Exact())


def test_the_distributions_that_programs_sum_are_listed():
    """Those that users write: NumPyro's `Categorical` is two classes, CategoricalProbs and CategoricalLogits."""
    listed = set(re.findall(r"\w+", (DOCS / "processes.md").read_text("utf-8").partition("## Distributions")[2]))
    kinds = [kind for kind in [*_TABLE] if hasattr(dist, kind.__name__) or kind.__name__ in bayesgen.__all__]
    assert {re.sub("(Logits|Probs)$", "", kind.__name__) for kind in kinds} <= listed


def test_every_public_name_is_in_the_interface():
    listed: dict[str, list[str]] = {}
    for block in (DOCS / "api.md").read_text("utf-8").split("currentmodule:: ")[1:]:
        listed.setdefault(block.split()[0], []).extend(re.findall(r"^   (\w+)$", block, flags=re.M))
    modules = (bayesgen, bayesgen.plots, bayesgen.sklearn)
    assert {module.__name__: sorted({*module.__all__} - {"__version__", "plots"}) for module in modules} == {
        name: sorted(names) for name, names in listed.items()
    }


def test_links_between_pages_lead_to_pages():
    for page in [pages.ROOT / "README.md", *DOCS.rglob("*.md")]:
        if "_build" in page.parts:
            continue
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
        assert [target for target in targets if not (page.parent / target).exists()] == [], page


def test_all_examples_are_listed_and_no_others_are_named():
    named: dict[Path, set[str]] = {}
    for page in [pages.ROOT / "README.md", *DOCS.rglob("*.md")]:
        named[page] = set(re.findall(r"examples/(\w+\.py)", page.read_text("utf-8")))
    scripts = {path.name for path in (pages.ROOT / "examples").glob("*.py")}
    assert named[DOCS / "examples.md"] == scripts == set().union(*named.values())


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text("utf-8")
    listed = {
        name for block in re.findall(r"^```{toctree}(.*?)^```", index, flags=re.S | re.M) for name in block.split()
    }
    written = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert written - {"index"} <= listed


def test_groups_of_dependencies_are_the_extras():
    settings = tomllib.loads((pages.ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["dependency-groups"] == settings["project"]["optional-dependencies"]
