"""What users hold on to: public names, their arguments and attributes, options of the command line, keys of JSON.

`interface.json` was written at a state whose users are to lose nothing. Additions are free; what stands in the file
must stay. After a deliberate change write it anew: `python tests/test_interface.py`.
"""

import inspect
import json
from pathlib import Path

import typer.main

import bayesgen as bg
from bayesgen.cli.app import app

FROZEN = Path(__file__).with_name("interface.json")
# what users are given and do not make: their attributes count, the arguments they are made with do not
RESULTS = {"Fit", "AverageFit", "AverageModel", "ConceptFit", "Summaries", "Comparison"}
RESULTS |= {"ClassPrediction", "ConceptPrediction"}


def arguments(function):
    """The arguments and their defaults, without types: "(X, y=None, *, seed=0)"; None for what has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def members(cls):
    """Public attributes of a class: the arguments of methods, None for all else."""
    names = {*dir(cls), *getattr(cls, "__dataclass_fields__", ()), *getattr(cls, "__annotations__", ())}
    found = {}
    for name in sorted(name for name in names if not name.startswith("_")):
        value = inspect.getattr_static(cls, name, None)
        value = getattr(value, "__func__", value)
        found[name] = arguments(value) if inspect.isfunction(value) else None
    return found


def describe(value):
    """What a public name offers."""
    if not inspect.isclass(value):
        return {"arguments": arguments(value) if callable(value) else None}
    bases = [base.__name__ for base in value.__mro__ if issubclass(base, Exception)]
    made_by_users = not bases and value.__name__ not in RESULTS
    return {
        "arguments": arguments(value) if made_by_users else None,
        "members": {} if bases else members(value),
        "bases": bases,
    }


def options():
    """Command -> its options and arguments with their defaults."""
    group = typer.main.get_command(app)
    commands = getattr(group, "commands", {"": group})
    return {
        name: {parameter.name: [*parameter.opts, repr(parameter.default)] for parameter in command.params}
        for name, command in commands.items()
    }


def result_keys():
    """The keys of a comparison as JSON."""
    X, y = [[1.0], [2.0], [2.5], [3.0], [7.0], [9.0]], list("aababb")
    methods = [(bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    comparison = bg.compare(bg.NaiveBayes(), X, y, [[2.2], [2.6], [2.8], [5.0]], list("abab"), methods=methods)
    result = json.loads(comparison.to_json())
    return {"config": sorted(result["config"]), "pairs": sorted(result["pairs"][0])}


def interface():
    """All of it."""
    return {
        "names": {name: describe(getattr(bg, name)) for name in sorted(bg.__all__) if name != "__version__"},
        "plots": {name: describe(getattr(bg.plots, name)) for name in bg.plots.__all__},
        "options": options(),
        "keys": result_keys(),
    }


def lost(frozen, found, path=""):
    """Paths of what stands in the frozen description and not, or otherwise, in the one found."""
    if isinstance(frozen, dict) and isinstance(found, dict):
        gone = [f"{path}/{key}" for key in frozen if key not in found]
        parts = [lost(value, found[key], f"{path}/{key}") for key, value in frozen.items() if key in found]
        return gone + [place for part in parts for place in part]
    if isinstance(frozen, list) and isinstance(found, list) and path.endswith(("config", "pairs", "bases")):
        return [f"{path}/{item}" for item in frozen if item not in found]
    return [] if frozen == found or frozen is None else [f"{path}: {frozen} became {found}"]


def test_users_lose_nothing():
    assert lost(json.loads(FROZEN.read_text("utf-8")), json.loads(json.dumps(interface()))) == []


def test_what_is_lost_is_found():
    frozen = {
        "names": {"f": {"arguments": [["x", "POSITIONAL_OR_KEYWORD", None]], "g": None}},
        "keys": {"pairs": ["a"]},
    }
    found = {"names": {"f": {"arguments": []}}, "keys": {"pairs": ["b"]}}
    assert len(lost(frozen, found)) == 3
    assert lost(frozen, frozen) == []


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(interface(), indent=1, sort_keys=True) + "\n", "utf-8")
