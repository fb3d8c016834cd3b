"""Comparing answers: one or several models, learned and asked in several ways, scored on the same rows."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesgen.concepts import ConceptLearner
from bayesgen.data import Schema, check_index, read_table
from bayesgen.describe import quote_some
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.fitting import MAP, MLE, NUTS, Exact, fit, prepare
from bayesgen.prediction import BMA, ContinuousPrediction, PlugIn, predict

from .answers import Answer
from .circumstances import class_shares, row_names, true_classes, true_values, versions
from .class_target import ClassTarget
from .continuous_target import ContinuousTarget
from .result import Comparison
from .targets import DensityTarget, Target


def default_methods() -> list[tuple[Any, Any]]:
    """The (method, rule) pairs of `compare`: MLE, MAP, posterior mean, and averaging exactly and by draws."""
    return [
        (MLE(), PlugIn()),
        (MAP(), PlugIn()),
        (Exact(), PlugIn(at="mean")),
        (Exact(), BMA()),
        (NUTS(), BMA()),
    ]


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
    X, y, schema, seed, progress: as `fit` takes them. X_test, y_test: rows and labels to score on: classes, or numbers
        for models of a continuous label. Models of rows without labels (mixtures, programs with label=None) take y=None
        and y_test=None, and are scored by the density of the test rows.
    methods: (method, rule) pairs; None means MLE + PlugIn, MAP + PlugIn, Exact + PlugIn(at="mean"),
        Exact + BMA and NUTS + BMA. A method that stands in several pairs is fitted once.

    A (method, rule) pair that a model refuses with a `BayesgenError` becomes a row with its message. Where
    every pair is refused there is nothing to compare, and the first refusal is raised. Raises DataError where
    y_test holds a class that the training labels lack, or has another length than X_test, or one of y and y_test is
    None, and ModelError for a concept learner, which has no classes, and where some models predict classes and others
    numbers.

    >>> import bayesgen as bg
    >>> rows = bg.load_dataset("diabetes").split(by_class=False)
    >>> data = (rows.X_train, rows.y_train, rows.X_test, rows.y_test)
    >>> both = [(bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
    >>> bg.compare(bg.JointGaussianRegression(), *data, methods=both).table[["rule", "rmse", "coverage_95"]].round(2)
               rule   rmse  coverage_95
    0  PlugIn(mean)  56.46         0.95
    1           BMA  56.46         0.95
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
        read = {"keeps_rows": True} if any(method.needs_rows for method, _ in pairs) else {}
        learn = _learner(model, X, y, seed=seed, progress=progress, schema=schema, **read)
        asked += list(_ask(name, learn, pairs, X_test))
    answers = tuple(answer for answer, _ in asked)
    if all(answer.refused for answer in answers):
        raise asked[0][1]
    num_rows = read_table(X_test).num_rows
    return Comparison(
        answers=answers,
        target=_target(answers, y, y_test, num_rows),
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


def _target(answers: Sequence[Answer], y: Any, y_test: Any, num_rows: int) -> Target[Any]:
    """What the answers are held against."""
    given = [answer for answer in answers if answer.refused is None]
    if y_test is None:
        return DensityTarget()
    of_numbers = [answer.model for answer in given if isinstance(answer.prediction, ContinuousPrediction)]
    of_classes = [answer.model for answer in given if not isinstance(answer.prediction, ContinuousPrediction)]
    if of_numbers and of_classes:
        raise ModelError(
            f"{quote_some(dict.fromkeys(of_numbers))} predict a number, and {quote_some(dict.fromkeys(of_classes))} a "
            "class. A density of y and a probability of its class are not comparable: compare either kind by itself."
        )
    if of_numbers:
        return ContinuousTarget(true_values(y_test, num_rows))
    classes = np.asarray(given[0].prediction.classes)
    return ClassTarget(classes, true_classes(y_test, classes, num_rows), class_shares(y, classes))


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


def _learner(model: Any, X: Any, y: Any, *, seed: Any, progress: bool | None, **read: Any) -> Callable[..., Any]:
    """`fit` of a model by a method given later; the data are read, as `prepare` says, and summarised once for all."""
    data = _Attempt.at(prepare, model, X, y, **read)

    def learn(*, method: Any) -> Any:
        if isinstance(data.outcome, BayesgenError):
            raise data.outcome
        return fit(model, data.outcome, method=method, seed=seed, progress=progress)

    return learn


def _ask(
    model_name: str, learn: Callable[..., Any], pairs: Sequence[tuple[Any, Any]], X_test: Any
) -> Iterator[tuple[Answer, Any]]:
    """Each pair's answer, with the prediction or the error that refused it."""
    learned: dict[Any, _Attempt] = {}
    for (method, rule), (method_name, rule_name) in zip(pairs, _names_of(pairs), strict=True):
        if method not in learned:
            learned[method] = _Attempt.at(learn, method=method)
        fitted = asked = learned[method]
        if fitted.refused is None:
            asked = _Attempt.at(predict, fitted.outcome, X_test, rule=rule)
        two_step = isinstance(rule, PlugIn)
        yield (
            Answer(
                model=model_name,
                method=method_name,
                rule=rule_name,
                prediction=asked.outcome if asked.refused is None else None,
                refused=asked.refused,
                fit_seconds=fitted.seconds,
                predict_seconds=asked.seconds if fitted.refused is None else float("nan"),
                two_step=two_step,
                is_map=two_step and isinstance(method, MAP) and not method.needs_rows,
                is_mean=two_step and isinstance(method, Exact | NUTS) and rule.at != "mode",
                ask=functools.partial(predict, fitted.outcome, rule=rule) if asked.refused is None else None,
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
