"""Comparing answers: one or several models, learned and asked in several ways, scored on the same rows."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray

from bayesgen.concepts import ConceptLearner
from bayesgen.data import Schema, check_index, read_table
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.fitting import MAP, MLE, NUTS, Exact, fit, prepare
from bayesgen.prediction import BMA, PlugIn, predict

from .answers import Answer, difference_table, disagreement_table, plain, prediction_table, score_table
from .circumstances import row_names, true_classes, versions

_NOT_IN_JSON = ["fit_seconds", "predict_seconds"]  # equal runs give equal results


def default_methods() -> list[tuple[Any, Any]]:
    """The (method, rule) pairs of `compare`: MLE, MAP, posterior mean, and averaging exactly and by draws."""
    return [
        (MLE(), PlugIn()),
        (MAP(), PlugIn()),
        (Exact(), PlugIn(at="mean")),
        (Exact(), BMA()),
        (NUTS(), BMA()),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What several answers say of the same test rows, and how well.

    answers: one `Answer` for each model and (method, rule) pair, refused ones included.
    classes: the K class labels. truth: index of each test row's true class, shape (n,). Where rows have no labels there
        are no classes, truth is None, and what is compared are the densities of the test rows.
    rows: what each test row is called, shape (n,): its index in a pandas frame, otherwise its position.
    config, versions: what was compared, and with which versions of what.
    """

    answers: tuple[Answer, ...]
    classes: np.ndarray
    truth: np.ndarray | None
    rows: np.ndarray
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> pd.DataFrame:
        """One row per answer.

        `accuracy`; `log_score`, the mean of log p(true class), or of log p(row) where rows have no labels (and then
        the others are NaN), higher is better; `brier`, summed over the
        classes, from 0 to 2, and `ece`, the calibration error in 15 bins of equal mass, lower is better.
        `impossible` counts the test rows without probabilities, scored as certainty of a wrong class, and
        `ruled_out` the others whose true class got probability zero.
        `difference` is the mean log score minus that of the two-step MAP answer of the same model, and
        `difference_from_mean` the same from the plug-in at the posterior mean, each with the standard error
        of the paired difference. `refused` holds the message where there is no answer.
        """
        return score_table(self.answers, self.truth)

    @property
    def differences(self) -> pd.DataFrame:
        """One row per two answers, of any models: the paired difference in mean log score, standard error."""
        return difference_table(self.answers, self.truth)

    @property
    def disagreements(self) -> pd.DataFrame:
        """One row per two answers and test row to which they give different classes.

        With the truth, both labels, and the probability of every class by both: `p[class]`, `other_p[class]`.
        """
        return disagreement_table(self.answers, self.truth, self.classes, self.rows)

    @property
    def predictions(self) -> pd.DataFrame:
        """One row per answer and test row: truth, label (None where impossible), all probabilities."""
        return prediction_table(self.answers, self.truth, self.classes, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """`config`, `versions`, `pairs`, `disagreements` in plain Python; None where a number is not finite.

        Lists of probabilities follow `config["classes"]`. Times are left out: equal runs give equal results.
        """
        classes = self.classes.tolist()
        disagreements = self.disagreements.to_dict("records")
        for record in disagreements:
            for prefix in ("", "other_"):
                columns = [f"{prefix}p[{label}]" for label in classes]
                record[f"{prefix}probabilities"] = [record.pop(column) for column in columns]
        return plain(
            {
                "config": {**self.config, "classes": classes},
                "versions": self.versions,
                "pairs": self.table.drop(columns=_NOT_IN_JSON).to_dict("records"),
                "disagreements": disagreements,
            }
        )

    def to_json(self) -> str:
        """`to_dict` as strict JSON: what is not finite is null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def to_datatree(self) -> xarray.DataTree:
        """Groups `scores` (pair), `log_scores` (pair, row) and `predictions` (pair, row, class).

        The coordinates `model`, `method` and `rule` run along `pair`. What a refused pair lacks is NaN. Without labels
        there are no `predictions`.
        """
        scores = np.full((len(self.answers), len(self.rows)), np.nan)
        for place, answer in enumerate(self.answers):
            if answer.refused is None:
                scores[place] = answer.log_scores(self.truth)
        keys = [answer.key for answer in self.answers]
        pair: dict[str, Any] = {"pair": [" · ".join(key.values()) for key in keys]}
        pair |= {name: ("pair", [key[name] for key in keys]) for name in keys[0]}
        truth = {} if self.truth is None else {"truth": ("row", self.classes[self.truth])}
        row: dict[str, Any] = {"row": self.rows} | truth
        columns = self.table.drop(columns=[*keys[0], "refused"]).astype(float)
        variables = {str(name): ("pair", column.to_numpy()) for name, column in columns.items()}
        groups = {
            "scores": xarray.Dataset(variables, pair),
            "log_scores": xarray.Dataset({"log_score": (("pair", "row"), scores)}, pair | row),
        }
        if self.truth is not None:
            table = {"log_probability": (("pair", "row", "class"), self._log_probabilities())}
            groups["predictions"] = xarray.Dataset(table, pair | row | {"class": self.classes})
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs |= {
            "config": json.dumps(plain(self.config)),
            "versions": json.dumps(plain(self.versions)),
        }
        return tree

    def _log_probabilities(self) -> np.ndarray:
        """Those of every answer (pair, row, class); NaN where it was refused."""
        logs = np.full((len(self.answers), len(self.rows), len(self.classes)), np.nan)
        for place, answer in enumerate(self.answers):
            if answer.refused is None:
                logs[place] = answer.log_probabilities
        return logs

    def __repr__(self) -> str:
        accuracy = [] if self.truth is None else ["accuracy"]
        columns = ["model", "method", "rule", *accuracy, "log_score", "difference", "standard_error"]
        return f"Comparison on {len(self.rows)} test rows\n{self.table[columns].to_string(index=False)}"


def compare(
    models: Any,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    methods: Sequence[tuple[Any, Any]] | None = None,
    seed: Any = 0,
    schema: Schema | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Learn every model by every method, ask by every rule, and score the answers on the same test rows.

    models: one model, or a mapping name -> model.
    X, y, schema, seed, progress: as `fit` takes them. X_test, y_test: rows and labels to score on. Models of rows
        without labels (mixtures, programs with label=None) take y=None and y_test=None, and are scored by the density
        of the test rows.
    methods: (method, rule) pairs; None means MLE + PlugIn, MAP + PlugIn, Exact + PlugIn(at="mean"),
        Exact + BMA and NUTS + BMA. A method that stands in several pairs is fitted once.

    A (method, rule) pair that a model refuses with a `BayesgenError` becomes a row with its message. Where
    every pair is refused there is nothing to compare, and the first refusal is raised. Raises DataError where
    y_test holds a class that the training labels lack, or has another length than X_test, or one of y and y_test is
    None, and ModelError for a concept learner, which has no classes.
    """
    if (y is None) != (y_test is None):
        raise DataError(
            "One of y and y_test is None. Give both, to score probabilities of the test labels; or neither, to score "
            "the densities of the test rows under models of rows without labels."
        )
    check_index(X_test, y_test, "y_test", "X_test")
    by_name = dict(models) if isinstance(models, Mapping) else {type(models).__name__: models}
    pairs = list(default_methods() if methods is None else methods)
    if not by_name or not pairs:
        raise DataError("There is nothing to compare. Give at least one model and one (method, rule) pair.")
    concepts = [name for name, model in by_name.items() if isinstance(model, ConceptLearner)]
    if concepts:
        raise ModelError(
            f"compare scores probabilities of classes, and {concepts} are concept learners, which have none. Use fit "
            "and predict, and score the memberships."
        )
    asked, train_rows = [], read_table(X).num_rows if y is None else len(y)
    for name, model in by_name.items():
        learn = _learner(model, X, y, schema=schema, seed=seed, progress=progress)
        asked += list(_ask(name, learn, pairs, X_test, with_classes=y is not None))
    predictions = [outcome for answer, outcome in asked if answer.refused is None]
    if not predictions:
        raise asked[0][1]
    num_rows = read_table(X_test).num_rows
    classes = np.asarray([] if y_test is None else predictions[0].classes)
    truth = None if y_test is None else true_classes(y_test, classes, num_rows)
    return Comparison(
        answers=tuple(answer for answer, _ in asked),
        classes=classes,
        truth=truth,
        rows=row_names(X_test, y_test, num_rows),
        config={
            "models": {name: repr(model) for name, model in by_name.items()},
            "methods": [[repr(method), repr(rule)] for method, rule in pairs],
            "seed": seed if isinstance(seed, int) else repr(seed),
            "train_rows": train_rows,
            "test_rows": num_rows,
        },
        versions=versions(),
    )


@dataclass(frozen=True)
class _Attempt:
    """What came of a call: its value or its refusal, and how long it took."""

    outcome: Any
    refused: str | None
    seconds: float

    @classmethod
    def at(cls, function: Callable[..., Any], *arguments: Any, **named: Any) -> "_Attempt":
        start = time.perf_counter()
        try:
            outcome, refused = function(*arguments, **named), None
        except BayesgenError as refusal:
            outcome, refused = refusal, str(refusal)
        return cls(outcome, refused, time.perf_counter() - start)


def _learner(
    model: Any, X: Any, y: Any, *, schema: Schema | None, seed: Any, progress: bool | None
) -> Callable[..., Any]:
    """`fit` of a model by a method given later; the data are read and summarised once for all methods."""
    data = _Attempt.at(prepare, model, X, y, schema=schema)

    def learn(*, method: Any) -> Any:
        if isinstance(data.outcome, BayesgenError):
            raise data.outcome
        return fit(model, data.outcome, method=method, seed=seed, progress=progress)

    return learn


def _ask(
    model_name: str, learn: Callable[..., Any], pairs: Sequence[tuple[Any, Any]], X_test: Any, *, with_classes: bool
) -> Iterator[tuple[Answer, Any]]:
    """Each pair's answer, with the prediction behind it or the error that refused it."""
    learned: dict[Any, _Attempt] = {}
    for (method, rule), (method_name, rule_name) in zip(pairs, _names_of(pairs), strict=True):
        if method not in learned:
            learned[method] = _Attempt.at(learn, method=method)
        fitted = asked = learned[method]
        if fitted.refused is None:
            asked = _Attempt.at(predict, fitted.outcome, X_test, rule=rule)
        two_step = isinstance(rule, PlugIn)
        is_answer = asked.refused is None
        yield (
            Answer(
                model=model_name,
                method=method_name,
                rule=rule_name,
                log_probabilities=np.asarray(asked.outcome.log_probabilities if is_answer and with_classes else ()),
                log_densities=asked.outcome.log_marginal if is_answer and not with_classes else None,
                refused=asked.refused,
                fit_seconds=fitted.seconds,
                predict_seconds=asked.seconds if fitted.refused is None else float("nan"),
                two_step=two_step,
                is_map=two_step and isinstance(method, MAP),
                is_mean=two_step and isinstance(method, Exact | NUTS) and rule.at != "mode",
            ),
            asked.outcome,
        )


def _names_of(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[str, str]]:
    """What each pair is called: by type, or in full where two pairs would be called the same."""
    short = [(type(method).__name__, _rule_name(method, rule)) for method, rule in pairs]
    return [
        name if short.count(name) == 1 else (repr(method), repr(rule))
        for name, (method, rule) in zip(short, pairs, strict=True)
    ]


def _rule_name(method: Any, rule: Any) -> str:
    """The type of the rule, and for a plug-in into a whole posterior the point that it takes there."""
    at_point = isinstance(rule, PlugIn) and not isinstance(method, MLE | MAP)
    return f"{type(rule).__name__}({rule.at})" if at_point else type(rule).__name__
