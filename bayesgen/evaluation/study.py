"""`study`: the two-step and the one-step answer over many training sets of several sizes, with learning curves."""

import dataclasses
import functools
import hashlib
import inspect
import itertools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pandas as pd
import xarray

from bayesgen.data import Schema
from bayesgen.describe import described
from bayesgen.errors import BayesgenError, DataError, ImpossibleRowsWarning, keywords_stated
from bayesgen.fitting import FitBatch, Method
from bayesgen.prediction import PlugIn, Rule, of_set, predict
from bayesgen.program import GenerativeProgram
from bayesgen.records import by_content
from bayesgen.runtime import bar, check_seed, interrupts_kept
from bayesgen.typing import Data, Seed, Values

from .comparison import Pair, asked_for, is_map, names_of, plain, target_of, versions
from .scores import paired_difference
from .targets import Target
from .training_sets import Fits, TrainingSets, subsets, worlds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIR = ["model", "method", "rule"]
KEYS = [*PAIR, "size", "repeat"]
TRUTH = "truth"


@by_content
class Study:
    """The scores of several models, methods and rules, learned from many training sets of several sizes.

    Attributes:
        table: one row for each model, method, rule, size and repeat: the scores of `compare`, the seconds of training
            and prediction (those of all repeats, divided by their number), and the message of a refusal or None.
        pairs: the (method, rule) pairs.
        about_errors: a sentence on what standard errors over repeats tell.
        config, versions: the settings of the study, and the versions of libraries.
    """

    table: pd.DataFrame
    pairs: tuple[Pair, ...]
    about_errors: str
    config: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def metrics(self) -> list[str]:
        """The names of the scores."""
        return [name for name in self.table.columns if name not in (*KEYS, "seconds", "refused")]

    @functools.cached_property
    def references(self) -> dict[str, tuple[str, str]]:
        """Model -> method and rule from which differences are taken: two-step MAP, or else the first pair.

        Pairs that are refused in all repeats are passed over. The truth of simulated worlds has the first model's.
        """
        names = names_of(self.pairs)
        order = sorted(range(len(names)), key=lambda index: not is_map(self.pairs[index]))
        known = self.table[self.table["refused"].isna()]
        scored = set(known[PAIR].itertuples(index=False, name=None))
        models = list(dict.fromkeys(self.table["model"]))
        found = {
            model: next((names[index] for index in order if (model, *names[index]) in scored), names[order[0]])
            for model in models
        }
        return found | ({TRUTH: found[models[0]]} if TRUTH in found else {})

    @property
    def answers(self) -> list[tuple[str, str, str]]:
        """Model, method and rule of each answer, in the order of the table."""
        return list(self.table[PAIR].drop_duplicates().itertuples(index=False, name=None))

    @property
    def two_step(self) -> set[tuple[str, str]]:
        """Method and rule of the plug-in answers."""
        names = zip(names_of(self.pairs), self.pairs, strict=True)
        return {name for name, (_, rule) in names if isinstance(rule, PlugIn)}

    @functools.cached_property
    def summary(self) -> pd.DataFrame:
        """One row for each model, method, rule and size.

        `repeats` counts the training sets that were scored, `refused` the others. Each score has its mean over repeats
        and, as `..._error`, the standard error of the mean. `difference` is the mean over repeats of the log score
        minus that of `reference` on the same training and test rows, and `standard_error` the error of that mean. The
        reference is the two-step MAP answer of the same model where there is one, else the model's first pair; for the
        truth of simulated worlds that of the first model.
        """
        groups: dict[Any, pd.DataFrame] = {
            key: group.set_index("repeat") for key, group in self.table.groupby([*PAIR, "size"], sort=False)
        }
        rows = []
        for (model, method, rule, size), group in groups.items():
            of_pair = self.references[model]
            origin = (self.answers[0][0] if model == TRUTH else model, *of_pair)
            scored = group[group["refused"].isna()]
            scores = scored["log_score"].to_numpy(float)
            reference = groups[*origin, size]["log_score"].reindex(scored.index).to_numpy(float)
            both = ~np.isnan(scores) & ~np.isnan(reference)
            difference, error = _paired(scores[both], reference[both])
            means = {
                f"{name}{suffix}": value
                for name in self.metrics
                for suffix, value in zip(
                    ("", "_error"), _mean(scored[name].to_numpy(float, na_value=np.nan)), strict=True
                )
            }
            rows.append(
                {"model": model, "method": method, "rule": rule, "size": size}
                | {"repeats": len(scored), "refused": len(group) - len(scored)}
                | means
                | {"difference": difference, "standard_error": error, "reference": " + ".join(of_pair)}
            )
        return pd.DataFrame(rows)

    def plot(self) -> "Figure":
        """Learning curves of the mean log score with bands of a standard error, and paired differences below."""
        from bayesgen.report import learning_curves

        return learning_curves({"": self})

    def to_dict(self) -> dict[str, Any]:
        """`config`, `versions`, `about_errors`, `summary`, `table` in plain Python; None where a number is not finite.

        Times are left out: equal runs give equal results.
        """
        return plain(
            {
                "config": self.config,
                "versions": self.versions,
                "about_errors": self.about_errors,
                "summary": self.summary.to_dict("records"),
                "table": self.table.drop(columns="seconds").to_dict("records"),
            }
        )

    def to_json(self) -> str:
        """`to_dict` as strict JSON: numbers that are not finite are null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def to_datatree(self) -> xarray.DataTree:
        """An `xarray.DataTree` of `scores` (pair, size, repeat) and `summary` (pair, size).

        The coordinates `model`, `method` and `rule` are along `pair`. Values of refused repeats are NaN.
        """
        answers = self.answers
        coords: dict[str, Any] = {"pair": [" · ".join(answer) for answer in answers]}
        coords |= {name: ("pair", list(values)) for name, values in zip(PAIR, zip(*answers, strict=True), strict=True)}
        scores = self._dataset(self.table, [*self.metrics, "seconds"], ["size", "repeat"], coords)
        means = self.summary.drop(columns=[*PAIR, "size", "reference"]).columns
        tree = xarray.DataTree.from_dict(
            {"scores": scores, "summary": self._dataset(self.summary, list(means), ["size"], coords)}
        )
        tree.attrs |= {
            "config": json.dumps(plain(self.config)),
            "versions": json.dumps(plain(self.versions)),
            "about_errors": self.about_errors,
            "references": json.dumps({model: " + ".join(pair) for model, pair in self.references.items()}),
        }
        return tree

    def _dataset(
        self, table: pd.DataFrame, columns: list[str], axes: list[str], coords: Mapping[str, Any]
    ) -> xarray.Dataset:
        """Columns of a table with an axis of pairs and further axes."""
        shape = (len(self.answers), *(table[axis].nunique() for axis in axes))
        arrays = {name: table[name].to_numpy(float, na_value=np.nan).reshape(shape) for name in columns}
        along = {axis: table[axis].unique() for axis in axes}
        return xarray.Dataset({name: (("pair", *axes), array) for name, array in arrays.items()}, {**coords, **along})

    def __repr__(self) -> str:
        lines = {
            "answers": "; ".join(" + ".join(answer) for answer in self.answers),
            "sizes": ", ".join(map(str, self.table["size"].unique())),
            "refused": f"{count} rows: see study.table"
            if (count := int(self.table["refused"].notna().sum()))
            else None,
            "differences": f"from {', '.join(dict.fromkeys(map(' + '.join, self.references.values())))}",
            "errors": self.about_errors,
            "next": "study.summary, study.table, study.plot(), study.to_datatree(), study.to_json()",
        }
        return described(f"Study of {self.table['repeat'].nunique()} repeats", lines)


def _paired(scores: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    return paired_difference(scores, reference) if len(scores) else (float("nan"), float("nan"))


def _mean(values: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error; NaN for an error of fewer than two values, or of infinite ones."""
    if not len(values) or np.isnan(values).all():
        return float("nan"), float("nan")
    finite = len(values) > 1 and np.isfinite(values).all()
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if finite else float("nan")


@keywords_stated
def study(
    models: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    sizes: Sequence[int] = (5, 10, 20, 50),
    repeats: int = 50,
    pairs: Sequence[Pair] | None = None,
    per_class: bool = True,
    test: int | tuple[Data, Values] | None = None,
    simulate: GenerativeProgram | None = None,
    schema: Schema | None = None,
    seed: Seed = 0,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Study:
    """Score models, methods and rules on many random training sets of several sizes.

    All repeats of one model, method and size are fitted together, see `fit_many`, and every answer is scored as by
    `compare` on the same training and test rows. Smaller training sets are parts of the larger ones of the same repeat.

    Args:
        models: one model, or a mapping name -> model.
        X, y: the data, in any form that `fit` takes; None with `simulate`. Columns, categories and edges of bins are
            those of all rows; default priors are resolved for each training set.
        sizes: numbers of training rows: of each class, or in all.
        repeats: number of training sets of each size.
        pairs: (method, rule) pairs, as `compare` takes them; None for its default.
        per_class: whether a size is a number of rows of each class; else of all rows together, as it is for models
            without classes.
        test: rows to score on: None for all rows that are not learned from, an integer for so many of them, or
            (X_test, y_test).
        simulate: a program from whose prior each repeat draws a process, which makes its training and test rows (1,000
            test rows, unless `test` says how many). The score of the true process is shown as the model "truth". With
            `per_class` training rows are made with given classes; without it the process makes the classes as well.
        schema: declarations for the columns.
        seed: integer or JAX key, of the training sets and the fits.
        out: a folder: config.json, and in `units` the finished rows of each model, method and size. A study that was
            stopped goes on there.
        progress: whether to show progress on standard error; None means in a terminal.

    Standard errors are over repeats. Random subsets of one data set share rows, so that errors over them are not errors
    over new data; those over simulated worlds are.

    A pair that refuses a training set is a row with the message of the refusal.

    Raises:
        DataError: sizes that a class cannot give; a folder of another study; neither data nor a program.

    >>> import bayesgen as bg
    >>> data = bg.load_dataset("iris")
    >>> both = [(bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    >>> result = bg.study(bg.GaussianDiscriminant(), data.X, data.y, sizes=[5, 20], repeats=10, pairs=both)
    >>> result.summary[["method", "size", "log_score", "difference"]].round(2)
      method  size  log_score  difference
    0    MAP     5      -0.54        0.00
    1    MAP    20      -0.06        0.00
    2  Exact     5      -0.23        0.31
    3  Exact    20      -0.07       -0.01
    """
    by_name, asked = asked_for(models, pairs)
    check_seed(seed)
    sizes, repeats = _whole(sizes, repeats, test)
    if TRUTH in by_name and simulate is not None:
        raise DataError(f"{TRUTH!r} is the name of the true process. Give the model another name.")
    if (X is None) == (simulate is None):
        raise DataError("Give data, X and y, or simulate=program, and not both.")
    source: TrainingSets
    drawn: dict[str, Any] = {
        "sizes": sizes,
        "repeats": repeats,
        "per_class": per_class,
        "test": test,
        "seed": seed,
    }
    if simulate is not None:
        source = worlds(simulate, **drawn)
    else:
        first = next(iter(by_name.values()))
        source = subsets(first, X, y, schema=schema, **drawn)
    config = plain(
        {
            "models": {name: _stated(model) for name, model in by_name.items()},
            "pairs": [[repr(method), repr(rule)] for method, rule in asked],
            "sizes": sizes,
            "repeats": repeats,
            "per_class": per_class,
            "schema": repr(schema),
            "seed": seed if isinstance(seed, int) else repr(seed),
            **source.description,
        }
    )
    units = _Units.opened(None if out is None else Path(out), config)
    with interrupts_kept():
        rows = _rows(by_name, asked, sizes, source, units, seed, schema, progress)
    return Study(_table(rows, by_name, asked), tuple(asked), source.about_errors, config, versions())


def _whole(sizes: Sequence[int], repeats: int, test: Any) -> tuple[list[int], int]:
    """Sizes without repetitions, and the number of repeats.

    Raises:
        DataError: what is no positive whole number.
    """
    numbers: dict[str, list[Any]] = {"sizes": list(np.ravel(sizes)), "repeats": [repeats]}
    if test is not None and not isinstance(test, tuple):
        numbers["test"] = [test]
    for name, values in numbers.items():
        if not values or not all(isinstance(value, int | np.integer) and value > 0 for value in values):
            raise DataError(
                f"{name} has to hold positive whole numbers, got {values if name == 'sizes' else values[0]!r}."
            )
    return list(dict.fromkeys(map(int, numbers["sizes"]))), int(repeats)


@dataclasses.dataclass(frozen=True)
class _Units:
    """The rows of finished units, in files of a folder if there is one.

    A file appears under its name when it is complete, so that a unit is in the folder whole, or not at all.
    """

    folder: Path | None

    @classmethod
    def opened(cls, folder: Path | None, config: Mapping[str, Any]) -> "_Units":
        """The units of a study with these settings.

        Raises:
            DataError: a folder of another study, or of something else, which is left as it is.
        """
        if folder is None:
            return cls(None)
        stated = folder / "config.json"
        if stated.exists():
            try:
                found = json.loads(stated.read_text("utf-8"))
            except ValueError:
                found = {}
            if found != config:
                differing = (
                    [name for name in config if found.get(name) != config[name]] if isinstance(found, dict) else []
                )
                raise DataError(
                    f"{folder} holds another study: {', '.join(differing) or 'its settings'} differ. Name another "
                    "folder; this one is left as it is."
                )
        elif folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise DataError(f"{folder} has files and no study. Name an empty or a new folder.")
        (folder / "units").mkdir(parents=True, exist_ok=True)
        if not stated.exists():
            _written(stated, json.dumps(config, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
        return cls(folder / "units")

    def made(self, name: str, make: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """The rows of a unit: from its file, or made now and written there."""
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.json"
        if not path.exists():
            rows = [{key: _as_json(value) for key, value in row.items()} for row in make()]
            _written(path, json.dumps(rows, allow_nan=False, ensure_ascii=False))
        rows = json.loads(path.read_text("utf-8"))
        return [{key: value if key in TEXTS else float(value) for key, value in row.items()} for row in rows]


TEXTS = (*KEYS, "refused")  # columns that are not numbers to be scored


def _stated(model: Any) -> str:
    """A model in words; of a program of one's own with a digest of its source, by which an edited one is another."""
    if not isinstance(model, GenerativeProgram):
        return repr(model)
    try:
        source = inspect.getsource(model.function)
    except (OSError, TypeError):  # typed into an interpreter, or no plain function
        return repr(model)
    return f"{model!r}, source {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def _as_json(value: Any) -> Any:
    """A number that is not finite by its name, which `float` reads."""
    return repr(value) if isinstance(value, float) and not np.isfinite(value) else value


def _written(path: Path, text: str) -> None:
    """Write a file that appears when it is complete."""
    aside = path.with_name(f".{uuid4().hex}")
    aside.write_text(text, "utf-8")
    os.replace(aside, path)


def _rows(
    models: Mapping[str, Any],
    pairs: Sequence[Pair],
    sizes: Sequence[int],
    source: TrainingSets,
    units: _Units,
    seed: Seed,
    schema: Schema | None,
    progress: bool | None,
) -> list[dict[str, Any]]:
    """The rows of all units, each a model, a method and a size."""
    rules: dict[Method, dict[str, Rule]] = {}
    names: dict[Method, dict[str, str]] = {}
    for (method, rule), (method_name, rule_name) in zip(pairs, names_of(pairs), strict=True):
        rules.setdefault(method, {})[rule_name] = rule
        names.setdefault(method, {})[rule_name] = method_name
    rows = []
    with bar("Training sets", len(models) * len(rules) * len(sizes), progress) as advance:
        for of_model, (model_name, model) in enumerate(models.items()):
            for (of_method, method), size in itertools.product(enumerate(rules), sizes):
                make = functools.partial(_unit, source, model, method, rules[method], size, seed, schema)
                for row in units.made(f"{of_model}-{of_method}-{size}", make):
                    rows.append({"model": model_name, "method": names[method][row["rule"]], **row})
                advance(1)
    truths, of_truth = source.truths(), {"rule": TRUTH, "seconds": float("nan")}
    for size in sizes if truths else ():
        scored = _scored(source, truths, {**of_truth, "size": size})
        rows += [{"model": TRUTH, "method": TRUTH, **row} for row in scored]
    return rows


def _unit(
    source: TrainingSets,
    model: Any,
    method: Method,
    rules: Mapping[str, Rule],
    size: int,
    seed: Seed,
    schema: Schema | None,
) -> list[dict[str, Any]]:
    """The rows of one model, method and size: for each rule and repeat the scores, or the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImpossibleRowsWarning)  # the table counts them
        start = time.perf_counter()
        fits = source.fits(model, method, size, seed, schema)
        fit_seconds, tested = time.perf_counter() - start, source.tested(model)
        rows: list[dict[str, Any]] = []
        for name, rule in rules.items():
            start = time.perf_counter()
            predictions = _predictions(fits, rule, tested)
            seconds = (fit_seconds + time.perf_counter() - start) / len(predictions)
            rows += _scored(source, predictions, {"rule": name, "size": size, "seconds": seconds})
    return rows


def _predictions(fits: Fits, rule: Rule, tested: Any) -> list[Any]:
    """The prediction by each fit, or the error that refuses it: in one call, or one by one where one is refused."""
    if isinstance(fits, FitBatch) and len(fits.refused) < len(fits):
        try:
            prediction = predict(fits, tested, rule=rule)
            return [fits.refused.get(index) or of_set(prediction, index) for index in range(len(fits))]
        except BayesgenError:
            pass
    tables = tested if isinstance(tested, list) else [tested] * len(fits)
    return [_prediction(fits, index, rule, table) for index, table in enumerate(tables)]


def _prediction(fits: Fits, index: int, rule: Rule, table: Any) -> Any:
    try:
        fitted = fits[index]
        return fitted if isinstance(fitted, BayesgenError) else predict(fitted, table, rule=rule)
    except BayesgenError as refusal:
        return refusal


def _scored(source: TrainingSets, predictions: Sequence[Any], names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each repeat: the scores of `compare`, or the message of the refusal."""
    for repeat, prediction in enumerate(predictions):
        row = {**names, "repeat": repeat}
        if isinstance(prediction, BayesgenError):
            yield {**row, "refused": str(prediction)}
            continue
        labels, num_rows = source.labels(repeat)
        target = target_of(prediction, labels, labels, num_rows)
        yield {**row, **target.scores_at(prediction, source.places(names["size"], repeat)), "refused": None}


def _table(rows: list[dict[str, Any]], models: Mapping[str, Any], pairs: Sequence[Pair]) -> pd.DataFrame:
    """The rows in the order of models, pairs, sizes and repeats.

    Raises:
        DataError: where every row is a refusal, with the first of them.
    """
    if all(row["refused"] for row in rows if row["model"] != TRUTH):
        raise DataError(f"Every answer is refused. The first message: {rows[0]['refused']}")
    answers = [*itertools.product(models, names_of(pairs)), (TRUTH, (TRUTH, TRUTH))]
    place = {(model, *names): index for index, (model, names) in enumerate(answers)}
    sizes = {size: index for index, size in enumerate(dict.fromkeys(row["size"] for row in rows))}
    rows = sorted(
        rows, key=lambda row: (place[row["model"], row["method"], row["rule"]], sizes[row["size"]], row["repeat"])
    )
    columns = [name for row in rows for name in row if name not in (*TEXTS, "seconds")]
    counts = {metric.column: "Int64" for metric in Target.counts if metric.column in columns}
    refused = pd.Series([row["refused"] for row in rows], dtype=object)  # None stays None
    ordered = [*KEYS, *dict.fromkeys(columns), "seconds"]
    return pd.DataFrame(rows, columns=ordered).astype(counts).assign(refused=refused)
