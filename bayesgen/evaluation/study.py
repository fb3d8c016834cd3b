"""`study`: the two-step and the one-step answer over many training sets of several sizes, with learning curves."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from bayesgen.data import Schema, Table
from bayesgen.describe import Description
from bayesgen.errors import (
    BayesgenError,
    DataError,
    ImpossibleRowsWarning,
    check_flag,
    check_integer,
    warn,
    without_warnings,
)
from bayesgen.fitting import FitBatch, Method
from bayesgen.generative import GenerativeProgram
from bayesgen.prediction import PlugIn, Rule, answer_for_set, answer_of_sets, predict
from bayesgen.records import by_content, state_of_fields
from bayesgen.runtime import bar, check_seed, in_units, public, write_file
from bayesgen.typing import Data, Seed, Values

from .answers import mean_and_error, notes_on_scores, paired_difference, score_frame
from .comparison import TRUTH, Pair, as_json, contents, is_map, models_and_pairs, names_of, plain, scorer_of, versions
from .training_sets import TrainingSets, attempted, subsets, worlds
from .verdicts import Judged, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIR = ["model", "method", "rule"]
KEYS = [*PAIR, "size", "repeat"]
Records: TypeAlias = list[dict[str, Any]]


@by_content
class Study(Judged):
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

    __getstate__ = state_of_fields

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
        first_scored = {
            model: next((name for name, _ in pairs if (model, *name) in scored), pairs[0][0]) for model in models
        }
        return first_scored | ({TRUTH: first_scored[models[0]]} if TRUTH in first_scored else {})

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
        log_scores, rows = self.table.set_index(KEYS)["log_score"].sort_index(), []
        groups: Any = self.table.groupby([*PAIR, "size"], sort=False)
        for (model, method, rule, size), group in groups:
            scored, reference = group[group["refused"].isna()], self.references[model]
            row = {"model": model, "method": method, "rule": rule, "size": size}
            row |= {"repeats": len(scored), "refused": len(group) - len(scored)}
            for name in self.metrics:
                row[name], row[f"{name}_error"] = mean_and_error(scored[name].to_numpy(float, na_value=np.nan))
            origin = (self.answers[0][0] if model == TRUTH else model, *reference, size)
            pairs = np.stack([scored["log_score"], log_scores.loc[origin].reindex(scored["repeat"])]).astype(float)
            row["difference"], row["standard_error"] = paired_difference(*pairs[:, ~np.isnan(pairs).any(axis=0)])
            rows.append({**row, "reference": " + ".join(reference)})
        return pd.DataFrame(rows)

    @functools.cached_property
    def verdicts(self) -> dict[str, str]:
        """Model -> which of the two answers predicts better, at which sizes, by how much, and where that may be noise.

        The first average stands against the best plug-in of the same model at each size; errors are those over
        training sets: see `about_errors`.
        """
        log_scores: Any = {model: {} for model in self.references if model != TRUTH}
        unit = f" training rows{' of each class' * self.config['per_class']}"
        groups: Any = self.table.groupby(["model", "size", "method", "rule"], sort=False)
        for (model, size, *pair), rows in groups:
            if model != TRUTH:
                by_size = log_scores[model]
                scores = by_size.setdefault(f"with {size}{unit if size == self.config['sizes'][0] else ''}", {})
                scores[" + ".join(pair)] = rows.sort_values("repeat")["log_score"].to_numpy(float)
        two_step = {" + ".join(pair) for pair in self.two_step}
        return {model: verdict(by_size, two_step) for model, by_size in log_scores.items()}

    def plot(self) -> "Figure":
        """Learning curves of the mean log score with bands of a standard error, and paired differences."""
        from bayesgen.plots import learning_curves

        return learning_curves(self)

    @property
    def _log_scores_by_size(self) -> pd.DataFrame:
        """A row for each answer, and a column for each size."""
        by_size = self.summary.pivot(index=PAIR, columns="size", values="log_score").loc[self.answers]
        return by_size.rename_axis(columns=None).reset_index()

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

    def _page(self, path: str | Path | None, title: str | None) -> str:
        from bayesgen.report import study_page

        return study_page(self, path, title)

    def _description(self) -> Description:
        lines = {
            **self._verdict_entries,
            **notes_on_scores(self.table),
            "errors": self.about_errors,
            "next": "study.summary, study.table, study.plot(), study.to_json()",
            "mean log scores by number of training rows": self._log_scores_by_size,
        }
        return f"Study of {self.table['repeat'].nunique()} repeats", lines


@public
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
        models: one model, several in a list, or a mapping name -> model.
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
            stopped goes on there, with the same versions of Python and the libraries; models and data are known by
            their content, the numbers in arrays and what functions read included.
        progress: whether to show bars on standard error; None means in a terminal. Unless it is False, a call that
            shows none for four seconds says in one line what it is doing.

    Standard errors are over repeats. Random subsets of one data set share rows, so that errors over them are not errors
    over new data; those over simulated worlds are.

    Rows without a label are learned from in every training set, besides its size, and are never scored.

    A pair that refuses a training set is a row with the message of the refusal. Where the fits of a model, method and
    size, or their predictions, end in another error, their rows have its message, with a warning.

    Raises:
        DataError: sizes that a class cannot give; a folder of another study, or of a study by other versions or of
            what cannot be known by content; neither data nor a program.

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
    by_name, method_rule_pairs = models_and_pairs(models, pairs)
    check_seed(seed)
    sizes = list(dict.fromkeys(np.ravel(np.asarray(sizes, object)).tolist()))
    counts: dict[str, Any] = {
        "sizes": sizes or [None],
        "repeats": [repeats],
        "test": [1 if isinstance(test, tuple | None) else test],
    }
    for name, number in ((name, number) for name, numbers in counts.items() for number in numbers):
        check_integer(f"study: {name}", number, 1, DataError)
    check_flag("study: per_class", per_class, DataError)
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
            "models": {name: repr(model) for name, model in by_name.items()},
            "pairs": [[repr(method), repr(rule)] for method, rule in method_rule_pairs],
            "contents": contents(by_name, method_rule_pairs, schema=schema, simulate=simulate),
            **drawn,
            "schema": repr(schema),
            "seed": seed if isinstance(seed, int) else repr(seed),
            **source.description,
        }
    )
    units = None if out is None else _folder_of_units(Path(out), config)
    experiment = _Experiment(by_name, method_rule_pairs, sizes, source, {"seed": seed, "schema": schema})
    table = experiment.table(units, progress)
    return Study(table, tuple(method_rule_pairs), source.about_errors, config, versions())


def _folder_of_units(folder: Path, config: Mapping[str, Any]) -> Path:
    """The folder of the units of a study with these settings, by these versions.

    Raises:
        DataError: a folder of another study, or of something else, which is left as it is.
    """
    settings = folder / "config.json"
    config, is_old = {**config, "versions": versions()}, settings.exists()
    if not is_old:
        if folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise DataError(f"{folder} has files and no study. Name an empty or a new folder.")
        _written(settings, as_json(config) + "\n")
    try:
        stored = dict(json.loads(settings.read_text("utf-8")))
    except (ValueError, TypeError):  # no JSON, or none of a study
        stored = {}
    if stored != config:
        differing = [name for name in config if name != "contents" and stored.get(name) != config[name]]
        before = stored.get("contents", {})
        differing += [f"contents of {name}" for name, now in config["contents"].items() if before.get(name) != now]
        raise DataError(
            f"{folder} holds another study: {', '.join(differing) or 'its settings'} differ. Name another folder; this "
            "one is left as it is."
        )
    unknown = [name for name, digests in config["contents"].items() if not _are_known(digests)]
    if is_old and unknown:
        raise DataError(
            f"{folder} holds a study, and whether it is this one cannot be told: the content of its "
            f"{' and '.join(unknown)} is not known, as where functions read files, the clock, or what cannot be "
            "pickled. Name another folder; this one is left as it is."
        )
    return folder / "units"


def _are_known(digests: Any) -> bool:
    """Whether none of the digests of `contents` is None."""
    if isinstance(digests, Mapping | list):
        return all(map(_are_known, digests.values() if isinstance(digests, Mapping) else digests))
    return digests is not None


def _stored(path: Path | None, records: Records | Exception | None) -> Records:
    """The rows of a unit: from its file, or as they are without a path."""
    if isinstance(records, Exception):
        raise records
    return records or [] if path is None else json.loads(path.read_text("utf-8"))


def _written(path: Path, text: str) -> None:
    """Write a text file, which is there whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())


@dataclasses.dataclass(frozen=True)
class _Experiment:
    """The models, the pairs and the training sets of a study."""

    models: Mapping[str, Any]
    pairs: Sequence[Pair]
    sizes: Sequence[int]
    source: TrainingSets
    options: Mapping[str, Any]

    def table(self, units: Path | None, progress: bool | None) -> pd.DataFrame:
        """The rows of all units, each a model, a method and a size, in the order of models, pairs, sizes and repeats.

        Raises:
            DataError: where every row is a refusal, with the first of them.
        """
        methods, rows = list(dict.fromkeys(method for method, _ in self.pairs)), []
        work = list(itertools.product(enumerate(self.models), enumerate(methods), self.sizes))
        paths = {
            (name, method, size): None if units is None else units / f"{model_index}-{method_index}-{size}.json"
            for (model_index, name), (method_index, method), size in work
        }
        remaining = [unit for unit, path in paths.items() if path is None or not path.exists()]
        fresh = in_units(self._attempted, remaining, lambda unit, error: [error])
        with bar("Training sets", len(work), progress) as advance:
            for unit, path in paths.items():
                records = next(fresh) if unit in remaining else None
                if path is not None and isinstance(records, list):
                    _written(path, json.dumps(records, ensure_ascii=False))  # where it cannot be, the study ends
                try:
                    records = _stored(path, records)
                except Exception as error:  # of a model of the user's, or a fault: it costs no other unit
                    records = self._failed(*unit, error)
                rows += [{"model": unit[0], **row} for row in records]
                advance(1)
        order = {answer: place for place, answer in enumerate(itertools.product(self.models, names_of(self.pairs)))}
        rows.sort(key=lambda row: order[row["model"], (row["method"], row["rule"])])
        if all(row["refused"] for row in rows):
            raise DataError(f"Every answer is refused. The first message: {rows[0]['refused']}")
        truths = self.source.truths()
        for size in self.sizes if truths else ():
            names = {"model": TRUTH, "method": TRUTH, "rule": TRUTH, "size": size, "seconds": float("nan")}
            rows += self._scored(truths, self.source.tested(None), names)
        metrics = dict.fromkeys(name for row in rows for name in row if name not in (*KEYS, "seconds", "refused"))
        return score_frame(rows, [*KEYS, *metrics, "seconds"])

    def _attempted(self, unit: tuple[str, Method, int]) -> Iterator[Records | Exception]:
        """The rows of a unit, or the error in which it ended."""
        name, method, size = unit
        try:
            yield self._unit(self.models[name], method, size)
        except Exception as error:
            yield error

    def _unit(self, model: Any, method: Method, size: int) -> Records:
        """The rows of one model, method and size: for each rule and repeat the scores, or the refusal."""
        rows: Records = []
        with without_warnings(ImpossibleRowsWarning):  # the table counts them
            options = {"method": method, "progress": False, **self.options}
            fits, fit_seconds = attempted(self.source.fits, model, size, **options)
            fits = [fits] * self.source.num_repeats if isinstance(fits, BayesgenError) else fits
            tested = self.source.tested(model)
            for rule, names in self._rules(method):
                predictions, seconds = attempted(_predictions, fits, rule, tested)
                about = {"size": size, "seconds": (fit_seconds + seconds) / len(predictions)}
                rows += self._scored(predictions, tested, {**names, **about})
        return rows

    def _rules(self, method: Method) -> Iterator[tuple[Rule, dict[str, str]]]:
        """The rules by which fits of a method predict, and the names of method and rule."""
        for (pair_method, rule), names in zip(self.pairs, names_of(self.pairs), strict=True):
            if pair_method == method:
                yield rule, dict(zip(("method", "rule"), names, strict=True))

    def _failed(self, model_name: str, method: Method, size: int, error: Exception) -> Records:
        """The rows of a unit that ended in an error, which is told: they are not kept, and it is tried again."""
        message = f"The fits or predictions of {model_name} by {method!r} failed: {type(error).__name__}: {error}."
        warn(f"{message} The study went on without them at size {size}.")
        about = {"size": size, "seconds": float("nan"), "refused": message}
        repeats = range(self.source.num_repeats)
        return [{**names, "repeat": repeat, **about} for _, names in self._rules(method) for repeat in repeats]

    def _scored(
        self, predictions: Sequence[Any], tested: Sequence[Table], names: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """A row for each repeat: the scores of `compare`, or the message of the refusal."""
        for repeat, (prediction, table) in enumerate(zip(predictions, itertools.cycle(tested), strict=False)):
            row = {**names, "repeat": repeat, "refused": None}
            if isinstance(prediction, BayesgenError):
                yield {**row, "refused": str(prediction)}
                continue
            scorer = scorer_of(prediction, table.labels, table.labels, table.num_rows)
            scored = self.source.places(names["size"], repeat)
            yield row | scorer.scores(scorer.row_frame(prediction).iloc[scored])


def _predictions(fits: Any, rule: Rule, tested: Sequence[Table]) -> list[Any]:
    """The prediction by each fit, or the error that refuses it: in one call, or one by one where all are refused."""
    if isinstance(fits, FitBatch):
        together, _ = attempted(answer_of_sets, fits, rule, tested if len(tested) > 1 else tested[0])
        if not isinstance(together, BayesgenError):
            refused = {**fits.refused, **together[1]}
            return [refused.get(index) or answer_for_set(together[0], index) for index in range(len(fits))]

    def prediction_by(index: int) -> Any:
        if isinstance(fits[index], BayesgenError):
            raise fits[index]
        return predict(fits[index], tested[index % len(tested)], rule=rule)

    return [attempted(prediction_by, index)[0] for index in range(len(fits))]
