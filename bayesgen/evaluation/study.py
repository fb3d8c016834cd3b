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
from bayesgen.errors import BayesgenError, DataError, ImpossibleRowsWarning, check_whole, keywords_stated
from bayesgen.fitting import FitBatch, Method
from bayesgen.prediction import PlugIn, Rule, Target, mean_and_error, of_set, paired_difference, predict
from bayesgen.program import GenerativeProgram
from bayesgen.records import by_content
from bayesgen.runtime import bar, check_seed, interrupts_kept
from bayesgen.typing import Data, Seed, Values

from .comparison import Pair, as_json, asked_for, is_map, names_of, plain, target_of, versions
from .figures import LearningCurves, learning_curve_figure
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

        Pairs whose mean log score is finite at no size are passed over. The truth of simulated worlds has the first
        model's.
        """
        pairs = sorted(zip(names_of(self.pairs), self.pairs, strict=True), key=lambda pair: not is_map(pair[1]))
        means = self.table.groupby([*PAIR, "size"])["log_score"].mean()
        scored = {key[:-1] for key in means.index[np.isfinite(means)]}
        models = list(dict.fromkeys(self.table["model"]))
        found = {model: next((name for name, _ in pairs if (model, *name) in scored), pairs[0][0]) for model in models}
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
        reference is the two-step MAP answer of the same model where there is one, else the model's first pair, of those
        with a finite mean log score at some size; for the truth of simulated worlds that of the first model.
        """
        groups: dict[Any, pd.DataFrame] = {
            key: group.set_index("repeat") for key, group in self.table.groupby([*PAIR, "size"], sort=False)
        }
        rows = []
        for (model, method, rule, size), group in groups.items():
            of_pair = self.references[model]
            origin = (self.answers[0][0] if model == TRUTH else model, *of_pair)
            scored = group[group["refused"].isna()]
            row: dict[str, Any] = dict(zip([*PAIR, "size"], (model, method, rule, size), strict=True))
            row |= {"repeats": len(scored), "refused": len(group) - len(scored)}
            for name in self.metrics:
                row[name], row[f"{name}_error"] = mean_and_error(scored[name].to_numpy(float, na_value=np.nan))
            reference = groups[*origin, size]["log_score"].reindex(scored.index)
            both = np.stack([scored["log_score"], reference]).astype(float)
            row["difference"], row["standard_error"] = paired_difference(*both[:, ~np.isnan(both).any(axis=0)])
            rows.append({**row, "reference": " + ".join(of_pair)})
        return pd.DataFrame(rows)

    def plot(self) -> "Figure":
        """Learning curves of the mean log score with bands of a standard error, and paired differences below."""
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
        return as_json(self.to_dict())

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


def learning_curves(studies: Mapping[str, Study]) -> "Figure":
    """Learning curves of several studies, title -> study, with a column of panels for each model of each."""
    columns = []
    for title, of_title in studies.items():
        models = [model for model in of_title.references if model != TRUTH]
        about_sizes = "training rows of each class" if of_title.config["per_class"] else "training rows"
        for model in models:
            name = model if not title else title if len(models) == 1 else f"{title} · {model}"
            table = of_title.summary[of_title.summary["model"].isin([model, TRUTH])]
            reference = " + ".join(of_title.references[model])
            columns.append(LearningCurves(name, table, of_title.two_step, reference, about_sizes, TRUTH))
    return learning_curve_figure(columns, [of_title.about_errors for of_title in studies.values()])


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
    sizes = list(dict.fromkeys(np.ravel(sizes).tolist()))
    numbers: dict[str, Sequence[Any]] = {"sizes": sizes or [None], "repeats": [repeats]}
    if test is not None and not isinstance(test, tuple):
        numbers["test"] = [test]
    for name, number in ((name, number) for name, of_name in numbers.items() for number in of_name):
        check_whole(f"study: {name}", number, 1, DataError)
    if TRUTH in by_name and simulate is not None:
        raise DataError(f"{TRUTH!r} is the name of the true process. Give the model another name.")
    if (X is None) == (simulate is None):
        raise DataError("Give data, X and y, or simulate=program, and not both.")
    drawn: dict[str, Any] = {"sizes": sizes, "repeats": int(repeats), "per_class": per_class}
    source: TrainingSets
    if simulate is not None:
        source = worlds(simulate, **drawn, test=test, seed=seed)
    else:
        source = subsets(next(iter(by_name.values())), X, y, schema=schema, **drawn, test=test, seed=seed)
    config = plain(
        {
            "models": {name: _stated(model) for name, model in by_name.items()},
            "pairs": [[repr(method), repr(rule)] for method, rule in asked],
            **drawn,
            "schema": repr(schema),
            "seed": seed if isinstance(seed, int) else repr(seed),
            **source.description,
        }
    )
    units = _Units.opened(None if out is None else Path(out), config)
    with interrupts_kept():
        table = _Experiment(by_name, asked, sizes, source, seed, schema).table(units, progress)
    return Study(table, tuple(asked), source.about_errors, config, versions())


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
                found = dict(json.loads(stated.read_text("utf-8")))
            except (ValueError, TypeError):  # no JSON, or none of a study
                found = {}
            if found != config:
                differing = [name for name in config if found.get(name) != config[name]]
                raise DataError(
                    f"{folder} holds another study: {', '.join(differing) or 'its settings'} differ. Name another "
                    "folder; this one is left as it is."
                )
        elif folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise DataError(f"{folder} has files and no study. Name an empty or a new folder.")
        (folder / "units").mkdir(parents=True, exist_ok=True)
        if not stated.exists():
            _written(stated, as_json(config) + "\n")
        return cls(folder / "units")

    def made(self, name: str, make: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """The rows of a unit: from its file, or made now and written there."""
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.json"
        if not path.exists():
            _written(path, json.dumps(make(), ensure_ascii=False))
        return json.loads(path.read_text("utf-8"))


def _stated(model: Any) -> str:
    """A model in words; of a program of one's own with a digest of its source, by which an edited one is another."""
    if not isinstance(model, GenerativeProgram):
        return repr(model)
    try:
        source = inspect.getsource(model.function)
    except (OSError, TypeError):  # typed into an interpreter, or no plain function
        return repr(model)
    return f"{model!r}, source {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def _written(path: Path, text: str) -> None:
    """Write a file that appears when it is complete."""
    aside = path.with_name(f".{uuid4().hex}")
    aside.write_text(text, "utf-8")
    os.replace(aside, path)


@dataclasses.dataclass(frozen=True)
class _Experiment:
    """The models, the pairs and the training sets of a study."""

    models: Mapping[str, Any]
    pairs: Sequence[Pair]
    sizes: Sequence[int]
    source: TrainingSets
    seed: Seed
    schema: Schema | None

    def table(self, units: _Units, progress: bool | None) -> pd.DataFrame:
        """The rows of all units, each a model, a method and a size, in the order of models, pairs, sizes and repeats.

        Raises:
            DataError: where every row is a refusal, with the first of them.
        """
        methods = list(dict.fromkeys(method for method, _ in self.pairs))
        answers: dict[Any, list[dict[str, Any]]] = {
            (model, *names): [] for model in self.models for names in names_of(self.pairs)
        }
        with bar("Training sets", len(self.models) * len(methods) * len(self.sizes), progress) as advance:
            for (of_model, name), (of_method, method) in itertools.product(enumerate(self.models), enumerate(methods)):
                for size in self.sizes:
                    make = functools.partial(self._unit, self.models[name], method, size)
                    for row in units.made(f"{of_model}-{of_method}-{size}", make):
                        answers[name, row["method"], row["rule"]].append({"model": name, **row})
                    advance(1)
        rows = [row for of_answer in answers.values() for row in of_answer]
        if all(row["refused"] for row in rows):
            raise DataError(f"Every answer is refused. The first message: {rows[0]['refused']}")
        truths = self.source.truths()
        for size in self.sizes if truths else ():
            names = {"model": TRUTH, "method": TRUTH, "rule": TRUTH, "size": size, "seconds": float("nan")}
            rows += self._scored(truths, names)
        metrics = dict.fromkeys(name for row in rows for name in row if name not in (*KEYS, "seconds", "refused"))
        counts = {metric.column: "Int64" for metric in Target.counts if metric.column in metrics}
        refused = pd.Series([row["refused"] for row in rows], dtype=object)  # None stays None
        return pd.DataFrame(rows, columns=[*KEYS, *metrics, "seconds"]).astype(counts).assign(refused=refused)

    def _unit(self, model: Any, method: Method, size: int) -> list[dict[str, Any]]:
        """The rows of one model, method and size: for each rule and repeat the scores, or the refusal."""
        rows: list[dict[str, Any]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImpossibleRowsWarning)  # the table counts them
            start = time.perf_counter()
            fits = self.source.fits(model, method, size, self.seed, self.schema)
            fit_seconds, tested = time.perf_counter() - start, self.source.tested(model)
            for (of_rule, rule), (method_name, rule_name) in zip(self.pairs, names_of(self.pairs), strict=True):
                if of_rule == method:
                    start = time.perf_counter()
                    predictions = _predictions(fits, rule, tested)
                    seconds = (fit_seconds + time.perf_counter() - start) / len(predictions)
                    names = {"method": method_name, "rule": rule_name, "size": size, "seconds": seconds}
                    rows += self._scored(predictions, names)
        return rows

    def _scored(self, predictions: Sequence[Any], names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """A row for each repeat: the scores of `compare`, or the message of the refusal."""
        for repeat, prediction in enumerate(predictions):
            row = {**names, "repeat": repeat, "refused": None}
            if isinstance(prediction, BayesgenError):
                yield {**row, "refused": str(prediction)}
                continue
            labels, num_rows = self.source.labels(repeat)
            target = target_of(prediction, labels, labels, num_rows)
            yield row | target.scores_at(prediction, self.source.places(names["size"], repeat))


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
