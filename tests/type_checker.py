"""Checks of types: arguments and results of the package's inner functions against their annotations, shapes included.

The tests are run with these checks where the environment says BAYESGEN_CHECK_TYPES=1, as `.ci/run` does for some.
"""

import os
import pathlib
from collections.abc import Callable
from typing import Any, Self

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

from bayesgen import errors

PACKAGE = pathlib.Path(errors.__file__).parent
DOORS = ("__init__", "program", "introspected")  # users call the methods of the latter two
INNER = [path.stem for path in (PACKAGE / "generative").glob("*.py") if path.stem not in DOORS]

# These modules, and those inside them, are checked. Not so those of `GenerativeProgram` and of `predict`: users call
# them, and what they refuse by themselves is tested.
CHECKED = [
    "bayesgen.records",
    *(f"bayesgen.runtime.{name}" for name in ("chunking", "compilation", "progress", "threads")),
    "bayesgen.solvers",
    "bayesgen.data.rows",
    "bayesgen.statistics",
    "bayesgen.families",
    "bayesgen.program",
    "bayesgen.recognition",
    *(f"bayesgen.generative.{name}" for name in INNER),
    *(f"bayesgen.sequences.dirichlet_{name}" for name in ("grammar", "hidden_markov", "markov")),
    "bayesgen.posteriors",
    "bayesgen.prediction.answers",
    *(f"bayesgen.averaging.{name}" for name in ("comparable", "fit", "left_out")),
    *(f"bayesgen.concepts.{name}" for name in ("hypothesis_classes", "prior")),
]
REQUESTED = os.environ.get("BAYESGEN_CHECK_TYPES") == "1"


def missing_modules() -> list[str]:
    """Names of `CHECKED` that are no module, of which nothing would be checked."""
    paths = {name: PACKAGE.parent.joinpath(*name.split(".")) for name in CHECKED}
    return [name for name, path in paths.items() if not (path.is_dir() or path.with_suffix(".py").exists())]


def install() -> None:
    """Has the modules checked that are imported from now on."""
    jaxtyping.install_import_hook(CHECKED, "type_checker.check")
    # Between functions that are checked lie frames of the checkers: warnings point past them, at the user's line.
    checkers = str(pathlib.Path(jaxtyping.__file__).parent), "<@beartype("
    errors._NOT_THE_USER = (*errors._NOT_THE_USER, *checkers)


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, checked: an int is a float, as for type checkers, and Self is the class of the method."""
    # Functions come one by one, so that what Self means is told by their names.
    overrides, (owner, _, _) = {}, function.__qualname__.rpartition(".")
    if owner:
        overrides = {Self: f"{function.__module__}.{owner}"}
    conf = BeartypeConf(is_pep484_tower=True, hint_overrides=FrozenDict(overrides))
    return beartype(conf=conf)(function)
