"""Calls of public functions with good arguments, and their spoiling."""

import functools
import inspect
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bayesgen as bg

from .good import (
    COUNTS,
    METHODS,
    MODELS,
    NUMBERED,
    OF_NUMBERS,
    ROWS,
    RULES,
    TABLES,
    UNLABELLED,
    Y,
    answered,
    fitted,
    label,
)
from .values import NUMBERS, TEXTS, chosen, hostile, spoiled_cell


class Call(NamedTuple):
    """A function and good arguments; those of `data` may be spoiled in a cell. `then` looks at the result."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    data: tuple[str, ...] = ()
    then: Callable[[Any], Any] = lambda result: result


def _model(rng: np.random.Generator) -> tuple[str, str]:
    name = chosen(rng, MODELS)
    return name, chosen(rng, MODELS[name][1])


def _fit(rng: np.random.Generator) -> Call:
    name, table = _model(rng)
    method = bg.MAP if name in UNLABELLED else chosen(rng, METHODS)
    arguments = {"model": MODELS[name][0](), "X": TABLES[table](), "y": label(name), "method": method()}
    if rng.integers(3) == 0:
        arguments |= {"sample_weight": np.linspace(0.5, 2.0, ROWS), "seed": 3}
    if rng.integers(5) == 0:
        arguments |= {"schema": bg.Schema(classes=["calm", "mad", "wild"])}
    function = chosen(rng, [bg.fit, bg.fit, bg.summarize])
    if function is bg.summarize:
        arguments = {key: value for key, value in arguments.items() if key not in ("method", "seed")}
    again = TABLES[table]()
    rule = bg.PlugIn("mode") if method is not bg.Exact else bg.BMA()
    return Call(
        function.__name__, function, arguments, ("X", "y", "sample_weight"), lambda result: _answer(result, again, rule)
    )


def _answer(result: Any, X: Any, rule: Any) -> Any:
    """The answer of a fit to good rows, which is looked at too where there is one."""
    if not isinstance(result, bg.Fit):
        return result
    try:
        return bg.predict(result, X, rule=rule)
    except bg.BayesgenError:
        return result


def _predict(rng: np.random.Generator) -> Call:
    name, table = _model(rng)
    rule = bg.PlugIn("mode") if name in UNLABELLED else chosen(rng, RULES)()
    arguments = {"fit": fitted(name, table), "X": TABLES[table](), "rule": rule}
    return Call("predict", bg.predict, arguments, ("X",))


def _fit_many(rng: np.random.Generator) -> Call:
    name, table = _model(rng)
    X, y = TABLES[table](), label(name)
    method = bg.MAP() if name in UNLABELLED else bg.Exact()
    sets = [(X,), (X,)] if y is None else [(X, y), (spoiled_cell(X, rng) if rng.integers(2) else X, y)]
    arguments: dict[str, Any] = {"model": MODELS[name][0](), "X": sets, "method": method}
    if rng.integers(3) == 0:
        arguments |= {"X": X, "y": y, "weights": np.stack([np.ones(ROWS), np.linspace(1, 2, ROWS)])}
    return Call("fit_many", bg.fit_many, arguments, ("y", "weights"))


def _methods(rng: np.random.Generator) -> Call:
    """A method of a fit, with good arguments for its parameters."""
    name, table = _model(rng)
    fit = fitted(name, table)
    X, y = TABLES[table](), label(name)
    calls: dict[str, dict[str, Any]] = {
        "update": {"X": X, "y": y, "sample_weight": np.ones(ROWS)},
        "log_joint": {"X": X, "at": "mean"},
        "simulate": {"n": 3, "seed": 1},
        "impute": {"X": X, "num_draws": 2},
        "predictive": {"num_samples": 3, "seed": 1},
        "add_class": {"label": "mad", "X": X},
        "transform": {"X": X},
        "parameters_of": {"column": "height"},
        "relabel": {},
        "to_sql": {"table": "rows", "at": "mean", "dialect": "duckdb", "keep": ()},
        "states": {"X": X, "rule": bg.BMA()},
        "reduce_draws": {"X": X, "reduction": lambda values: values, "num_draws": 20},
    }
    method = chosen(rng, calls)
    return Call(f"fit.{method}", getattr(fit, method), calls[method], ("X", "y", "sample_weight"))


def _evaluate(rng: np.random.Generator) -> Call:
    name, table = _model(rng)
    X, y = TABLES[table](), label(name)
    fit, model = fitted(name, table), MODELS[name][0]()
    pairs = [(bg.Exact(), bg.BMA()), (bg.Exact(), bg.PlugIn())]
    calls: list[Call] = [
        Call("leave_one_out", bg.leave_one_out, {"fit": fit, "X": X, "y": y, "rule": bg.BMA()}, ("X", "y")),
        Call(
            "leave_one_out",
            bg.leave_one_out,
            {"fit": fit, "X": X, "y": y, "folds": np.arange(ROWS) % 3},
            ("X", "y", "folds"),
        ),
        Call("prequential", bg.prequential, {"model": model, "X": X, "y": y, "pairs": pairs}, ("X", "y")),
        Call(
            "prequential",
            bg.prequential,
            {"model": model, "X": X, "y": y, "pairs": pairs, "order": np.arange(ROWS)},
            ("X", "order"),
        ),
        Call(
            "compare",
            bg.compare,
            {"models": model, "X": X, "y": y, "X_test": X, "y_test": y, "pairs": pairs},
            ("X", "y_test"),
        ),
        Call("average", bg.average, {"members": [fit, fitted(name, table, 0)], "prior": None}),
    ]
    if rng.integers(4) == 0:
        sizes = {"sizes": [2, 3], "repeats": 2, "pairs": pairs, "test": 1, "per_class": False}
        calls = [
            Call("study", bg.study, {"models": model, "X": X, "y": y, **sizes}, ("X", "y")),
            Call(
                "calibrate",
                bg.calibrate,
                {"model": fit, "method": bg.Exact(), "n": 5, "simulations": 20, "around": "posterior"},
            ),
        ]
    return chosen(rng, calls)


def _results(rng: np.random.Generator) -> Call:
    """A method of an answer."""
    name, table = _model(rng)
    answer = answered(name, table)
    calls: dict[str, dict[str, Any]] = {"to_frame": {}}
    if name in OF_NUMBERS:
        calls |= {"cdf": {"y": NUMBERED}, "crps": {"y": NUMBERED}, "log_density": {"y": NUMBERED}, "draws": {"n": 3}}
        calls |= {"interval": {"prob": 0.9}, "quantile": {"q": 0.25}}
    elif name not in UNLABELLED:
        calls |= {
            method: {"y": Y}
            for method in ("accuracy", "log_score", "brier_score", "confusion")
            if hasattr(answer, method)
        }
    method = chosen(rng, calls)
    return Call(f"answer.{method}", getattr(answer, method), calls[method], ("y",))


EXEMPT = (
    "Fit",
    "FitBatch",
    "Summaries",
    "Calibration",
    "Comparison",
    "Diagnosis",
    "Prequential",
    "LeaveOneOut",
    "Study",
)
EXEMPT += (
    "Family",
    "Method",
    "Rule",
    "BlockModel",
    "SamplingWrapper",
    "Scale",
    "Names",
    "AverageFit",
    "AverageModel",
    "ConceptFit",
)


@functools.cache
def constructors() -> list[str]:
    """The public classes that users make objects of."""
    classes = [
        name for name in bg.__all__ if inspect.isclass(getattr(bg, name)) and not name.endswith(("Error", "Warning"))
    ]
    return [name for name in classes if name not in EXEMPT and not name.endswith(("Prediction", "States"))]


GOOD: dict[str, Callable[[], Any]] = {
    "model": bg.NaiveBayes,
    "num_components": lambda: 2,
    "classifier": bg.NaiveBayes,
    "name": lambda: "rows",
    "coupling": lambda: 1.0,
    "X": lambda: np.arange(6.0).reshape(3, 2),
    "y": lambda: [1, 2, 1],
    "values": lambda: np.zeros((3, 2)),
    "lengths": lambda: [1, 2, 0],
    "rules": lambda: {"S": ["S S", "a"]},
    "num_states": lambda: 2,
    "families": lambda: None,
    "features": lambda: np.ones((3, 2)),
    "coefficients": lambda: np.ones(2),
    "initial": lambda: np.full(2, 0.5),
    "transition": lambda: np.full((2, 2), 0.5),
    "length": lambda: 3,
    "edges": lambda: [0.0, 1.0, 2.5],
    "probs": lambda: [0.25, 0.75],
    "space": bg.number_game,
    "names": lambda: ["a", "b"],
    "extensions": lambda: [[1, 2], [2, 3]],
    "domain": lambda: [1, 2, 3],
    "prior": lambda: None,
    "blocks": lambda: {},
    "conjugate": bg.NaiveBayes,
    "function": lambda: lambda data: None,
    "probabilities": lambda: [0.5, 0.5],
    "X_train": lambda: None,
    "y_train": lambda: None,
    "X_test": lambda: None,
    "y_test": lambda: None,
    "width": lambda: 3,
    "height": lambda: 3,
}


def _construct(rng: np.random.Generator) -> Call:
    """An object of a class, or of a function that makes one, which is then used where it belongs."""
    name = chosen(rng, [*constructors(), "number_game", "rectangles"])
    kind = getattr(bg, name)
    parameters = {
        key: p
        for key, p in inspect.signature(kind).parameters.items()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    arguments = {
        key: GOOD.get(key, lambda: None)()
        if p.default is p.empty or (rng.integers(8) == 0 and key in GOOD)
        else p.default
        for key, p in parameters.items()
        if p.default is p.empty or not repr(p.default).startswith("<factory")
    }
    return Call(name, kind, arguments, (), _used)


def _used(value: Any) -> Any:
    """The result of what an object is for."""
    X, y = TABLES["array"](), Y
    if isinstance(value, bg.Family):
        value = bg.NaiveBayes(value)
        X = COUNTS.clip(0, 1) if "Bernoulli" in repr(value) else COUNTS if "Poisson" in repr(value) else X
    if isinstance(value, bg.BlockModel) and not isinstance(value, bg.Mixture):
        return _answer(bg.fit(value, X, NUMBERED if "Regression" in repr(value) else y, method=bg.Exact()), X, bg.BMA())
    if isinstance(value, bg.NUTS):
        return value  # to be run, it is too slow
    if isinstance(value, bg.Method):
        return _answer(bg.fit(bg.NaiveBayes(), X, y, method=value), X, bg.PlugIn("mode"))
    if isinstance(value, bg.Rule):
        return bg.predict(fitted("naive Bayes", "array"), X, rule=value)
    if isinstance(value, bg.Schema):
        return _answer(bg.fit(bg.NaiveBayes(), X, y, method=bg.Exact(), schema=value), X, bg.BMA())
    return value


def _load(rng: np.random.Generator) -> Call:
    """A file with a changed byte, or cut, or of texts that are hostile."""
    folder = Path(tempfile.gettempdir()) / f"bayesgen-fuzzer-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    if rng.integers(2):
        path = folder / "fit.nc"
        content = bytearray(_saved())
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
        path.write_bytes(bytes(content[: rng.integers(len(content))] if rng.integers(4) == 0 else content))
        return Call("load", bg.load, {"path": path})
    path = folder / "rows.csv"
    lines = [["a", "b", "label"], *[[str(i), str(i * i % 5), "xy"[i % 2]] for i in range(6)]]
    for _ in range(rng.integers(0, 3)):
        row = lines[rng.integers(len(lines))]
        row[rng.integers(len(row))] = str(
            chosen(rng, [*TEXTS, *map(str, NUMBERS[:8]), '"', "a,b", "\n", "1e999", "NA", "inf", "0x1F"])
        )
    text = "\n".join(",".join(row) for row in lines) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return Call(
        "load_dataset",
        bg.load_dataset,
        {"source": str(path), "target": chosen(rng, ["label", None, "b"]), "separator": ","},
    )


@functools.cache
def _saved() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        fitted("naive Bayes", "reals").save(Path(folder) / "fit.nc")
        return (Path(folder) / "fit.nc").read_bytes()


def _command(rng: np.random.Generator) -> Call:
    """A command line whose words are changed."""
    folder = Path(tempfile.gettempdir()) / f"bayesgen-fuzzer-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    rows = folder / "data.csv"
    rows.write_text("height,sky,label\n" + "".join(f"{i * 7 % 5},{'ab'[i % 2]},{'xy'[i % 3 > 0]}\n" for i in range(9)))
    lines = [
        ["compare", str(rows), "--target", "label", "--methods", "exact", "--json"],
        ["fit", str(rows), "--target", "label", "--out", str(folder / "fit.nc")],
        ["predict", str(folder / "fit.nc"), str(rows)],
        ["diagnose", str(folder / "fit.nc")],
        ["study", str(rows), "--target", "label", "--methods", "exact", "--sizes", "2", "--repeats", "2"],
        ["simulate", str(folder / "fit.nc"), "3"],
    ]
    words = list(chosen(rng, lines))
    others = [*filter(str.isprintable, TEXTS[:-1]), "-1", "1e9", "--help", "--seed", "nan", "iris", str(folder)]
    for _ in range(rng.integers(0, 3)):
        words[rng.integers(len(words))] = chosen(rng, others)
    return Call("bayesgen", run_command, {"words": words})


def run_command(words: list[str]) -> None:
    """The command in this process; its exit status has to be one of those that are documented."""
    import contextlib

    from bayesgen.cli import main

    words = [word.replace("\0", "") for word in words]
    sink, before = io.StringIO(), sys.argv
    sys.argv = ["bayesgen", *words]
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            main()
    except SystemExit as end:
        if end.code not in (None, 0, 1, 2) or "Traceback" in sink.getvalue():
            raise AssertionError(f"exit status {end.code}: {sink.getvalue()[-300:]}") from None
    finally:
        sys.argv = before


MAKERS = [
    _fit,
    _fit,
    _fit,
    _predict,
    _predict,
    _fit_many,
    _methods,
    _methods,
    _evaluate,
    _results,
    _construct,
    _construct,
    _load,
]
MAKERS += [_command]


def spoiled(call: Call, rng: np.random.Generator) -> Call:
    """The call with none, one or two of its arguments spoiled."""
    arguments = dict(call.arguments)
    for _ in range(rng.choice(3, p=[0.1, 0.65, 0.25])):
        if not arguments or call.function is run_command:
            break
        name = chosen(rng, arguments)
        action = rng.integers(6)
        if name in call.data and action < 3:
            arguments[name] = spoiled_cell(arguments[name], rng)
        elif action == 5:
            del arguments[name]
        else:
            arguments[name] = hostile(rng)
    return call._replace(arguments=arguments)
