"""The package: public names, what importing costs, and that imports run downward."""

import ast
import functools
import graphlib
import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bayesgen

ROOT = Path(bayesgen.__file__).parent
HEAVY = {"jax", "numpyro", "numpy", "pandas", "scipy", "sklearn", "xarray", "arviz_base"}

# The house, from the ground up: a room may use only rooms named before it, each by its door, the room's __init__.
ROOMS = [
    "runtime",
    "data",
    "statistics",
    "families",
    "predictives",
    "program",
    "recognition",
    "generative",
    "saving",
    "models",
    "posteriors",
    "solvers",
    "fitting",
    "prediction",
    "averaging",
    "evaluation",
    "sequences",
    "concepts",
    "plots",
    "report",
    "cli",
]
GROUND = {
    "bayesgen",
    *(f"bayesgen.{name}" for name in ("describe", "errors", "labels", "log_density", "records", "typing")),
}  # for every room
# Built from what the rooms before them show. No other room knows them, by import or by name: wing -> pattern of names.
WINGS = {"sequences": r"markov|grammar", "concepts": r"concept_?(learner|fit|prediction|problem)|hypothesis_?space"}
SKINS = ["sklearn"]  # files above all rooms
CALLED_BY_METHODS = {
    "plots",
    "report",
}  # rooms that methods of lower rooms, such as `.plot()` and `.to_html()`, import inside of the method
MOST_FILES = 8  # beside the rooms, and under them


def python(code):
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@functools.cache
def of_rooms():
    """What a fresh interpreter prints as it imports a room, classes, and a figure."""
    return python(
        "import sys\n"
        "from bayesgen.data import Schema, SequenceOf\n"
        "from bayesgen.models import NaiveBayes\n"
        "print(NaiveBayes().concrete(Schema.infer({'x': ['ab', 'b']}, kinds={'x': SequenceOf()})))\n"
        "import bayesgen as bg\n"
        "bg.Study, bg.ClassPrediction\n"
        "print('matplotlib.figure' in sys.modules)\n"
        "print(bg.plots.reliability.__name__)"
    ).splitlines()


def heavy_modules_after(code):
    return set(python(f"{code}\nimport sys\nprint(*sys.modules)").split()) & HEAVY


def test_importing_the_package_loads_nothing_heavy():
    assert heavy_modules_after("import bayesgen") == set()


def test_errors_and_submodules_are_reached_without_loading_the_rest():
    assert heavy_modules_after("import bayesgen; bayesgen.DataError; from bayesgen import errors") == set()


def test_help_loads_nothing_heavy():
    code = "from typer.testing import CliRunner\nfrom bayesgen.cli.app import app\n"
    code += "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
    code += "assert CliRunner().invoke(app, ['compare', '--help']).exit_code == 0"
    assert heavy_modules_after(code) == set()


def test_public_names_resolve_and_are_listed():
    assert len(set(bayesgen.__all__)) == len(bayesgen.__all__)
    for name in bayesgen.__all__:
        assert getattr(bayesgen, name) is not None
    for name in (
        "fit",
        "predict",
        "compare",
        "NaiveBayes",
        "GaussianDiscriminant",
        "BetaBernoulli",
        "BMA",
        "NUTS",
    ):
        assert name in bayesgen.__all__
    assert callable(bayesgen.fit)
    assert callable(bayesgen.compare)


def test_the_package_shows_the_names_that_are_needed_first_and_what_it_is_for():
    names = {name for name in dir(bayesgen) if not name.startswith("__")}
    assert {"fit", "predict", "NaiveBayes", "GenerativeProgram", "Exact", "NUTS", "BMA", "plots"} <= names
    assert names < set(bayesgen.__all__) and len(names) <= 30
    assert heavy_modules_after("import bayesgen; dir(bayesgen)") == set()
    for word in ("fit", "predict", "compare", "PlugIn", "BMA", "GenerativeProgram"):
        assert f"`{word}`" in bayesgen.__doc__


def test_type_checkers_are_told_the_same_names():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = set()
    for node in block.body:
        for alias in node.names:
            if alias.name == "*":
                module = importlib.import_module(node.module)
                told |= set(getattr(module, "__all__", vars(module)))
            else:
                told.add(alias.name)
    assert set(bayesgen.__all__) - {"__version__"} <= told


def test_unknown_names_are_attribute_errors():
    for name in ("nothing", "Nothing", "_private"):
        with pytest.raises(AttributeError, match=name):
            getattr(bayesgen, name)


def test_the_version_is_that_of_the_installed_package():
    try:
        installed = importlib.metadata.version("bayesgen")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("bayesgen is run from its folder")
    assert installed == bayesgen.__version__


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in ROOT.rglob("*.py")}


@functools.cache
def shown_at_door(room):
    """What a room shows at its door, which may have the name of one of its modules; nothing for a module."""
    path = MODULES.get(room)
    if path is None or path.name != "__init__.py" or room == bayesgen.__name__:
        return frozenset()
    imports = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
    return frozenset(alias.asname or alias.name for node in imports for alias in node.names)


@functools.cache
def imports_of(module):
    """The modules of the package that a module imports, at its top or in a function, but not for types."""
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name | ast.Attribute)  # others take long to unparse
        if ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    in_methods = {
        id(inner)
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef)
        for inner in ast.walk(method)
    }
    found = set()
    for node in ast.walk(tree):
        names = []
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [stem if alias.name in shown_at_door(stem) else f"{stem}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            is_called = id(node) in in_methods and name.count(".") == 1 and room_of(name) in CALLED_BY_METHODS
            if name and name not in (module, bayesgen.__name__) and not is_called:
                found.add(name)
    return frozenset(found)


def room_of(module):
    return module.split(".")[1]


def test_rooms_are_those_of_the_house_and_few_files_stand_beside_them():
    assert {path.parent.name for path in ROOT.glob("*/*.py")} == set(
        ROOMS
    )  # folders that an older version left are none
    assert len([path for path in ROOT.iterdir() if path.is_file() and path.stem not in SKINS]) <= MOST_FILES


def rooms_on_the_page():
    """The rooms in the order of the table in docs/architecture.md, the modules for every room left out."""
    lines = (ROOT.parent / "docs" / "architecture.md").read_text("utf-8").splitlines()
    listed = [name for line in lines if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    return [name for name in listed if f"bayesgen.{name}" not in GROUND]


def test_the_page_of_the_architecture_lists_all_rooms():
    assert sorted(rooms_on_the_page()) == sorted(ROOMS + SKINS)


@pytest.mark.parametrize("order", [ROOMS + SKINS, rooms_on_the_page()], ids=["tests", "page"])
def test_imports_run_downward(order):
    upward = [
        f"{module} -> {other}"
        for module in MODULES
        if module not in GROUND
        for other in imports_of(module) - GROUND
        if order.index(room_of(other)) > order.index(room_of(module))
    ]
    assert upward == []
    assert {other for module in GROUND for other in imports_of(module)} <= GROUND


@functools.cache
def words_of(path):
    """The identifiers and texts of a module, without its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    words = set()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words.add(node.value)
        elif isinstance(node, ast.Name | ast.Attribute | ast.alias | ast.FunctionDef | ast.ClassDef | ast.arg):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
            words.add(name or node.arg)
    return words


def test_wings_stand_above_the_core_and_are_those_of_the_package():
    assert tuple(WINGS) == bayesgen.WINGS
    assert ROOMS.index("evaluation") < min(map(ROOMS.index, WINGS))


def test_defaults_that_wings_register_are_known_to_whoever_imports_a_room():
    assert "Markov" in "".join(of_rooms()[:-2])


@pytest.mark.parametrize("wing", WINGS)
def test_no_room_of_the_core_knows_a_wing(wing):
    core = [m for m in MODULES if m not in GROUND and room_of(m) not in {*WINGS, *CALLED_BY_METHODS, "cli", *SKINS}]
    assert len(core) > 100
    assert [f"{m} -> {other}" for m in core for other in imports_of(m) - GROUND if room_of(other) == wing] == []
    named = [(m, word) for m in core for word in words_of(MODULES[m]) if re.search(WINGS[wing], word, re.IGNORECASE)]
    assert named == []
    of_wing = [word for m in MODULES if m.startswith(f"bayesgen.{wing}.") for word in words_of(MODULES[m])]
    assert any(re.search(WINGS[wing], word, re.IGNORECASE) for word in of_wing)


def test_no_import_goes_past_a_door():
    past = [
        f"{module} -> {other}"
        for module in MODULES
        if module not in GROUND
        for other in imports_of(module) - GROUND
        if room_of(other) != room_of(module) and other.count(".") > 1
    ]
    assert past == []


def test_no_module_imports_itself_by_a_detour():
    # A package's __init__ gathers what its own modules define; these may not ask it for anything.
    graph = {module: imports_of(module) for module in MODULES}
    graphlib.TopologicalSorter(graph).prepare()


def test_the_check_of_imports_sees_relative_and_absolute_ones():
    assert "bayesgen.errors" in imports_of("bayesgen.data.schema")
    assert "bayesgen.evaluation" in imports_of("bayesgen.cli.display")
    assert "bayesgen.families" in imports_of("bayesgen.models.naive_bayes")


def test_figures_are_imported_by_methods_alone():
    assert "bayesgen.plots" not in imports_of("bayesgen.evaluation.study")
    assert of_rooms()[-2:] == ["False", "reliability"]
    assert "bayesgen.families.base" in imports_of("bayesgen.families.counts")
