"""`compare`: models, training methods and rules, scored on the same test rows."""

import functools
import itertools
import json
import math
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from bayesgen import __version__
from bayesgen.data import Schema, as_array, check_index, columns_by_name, read_table
from bayesgen.describe import Description, quote_some, stated
from bayesgen.errors import BayesgenError, DataError, ModelError
from bayesgen.fitting import MAP, MLE, NUTS, Exact, Fit, Method, fit, prepare
from bayesgen.prediction import (
    BMA,
    ClassScorer,
    ContinuousPrediction,
    ContinuousScorer,
    DensityScorer,
    PlugIn,
    Rule,
    Scorer,
    predict,
)
from bayesgen.program import Model, content_digest
from bayesgen.records import by_content, state_of_fields
from bayesgen.runtime import public
from bayesgen.typing import Data, Seed, Shaped, Values

from .answers import (
    Answer,
    Cost,
    costly_rows,
    difference_table,
    disagreement_table,
    notes_on_scores,
    prediction_table,
    score_table,
)
from .training_sets import attempted
from .verdicts import Judged, verdict

Pair: TypeAlias = tuple[Method, Rule]
LONGEST_NAME = 60  # characters of a model that is named by its text
TRUTH = "truth"  # name of the model that is the true process
VERSIONS_OF = ("numpyro", "jax", "numpy", "scipy", "scikit-learn", "arviz-base")


def versions() -> dict[str, str]:
    """The versions of bayesgen, Python and the numerical libraries."""
    ours = {"bayesgen": __version__, "python": platform.python_version()}
    return ours | {name: version(name) for name in VERSIONS_OF}


def row_names(X_test: Data, y_test: Values | None, num_rows: int) -> np.ndarray:
    """Names of test rows: the index of a pandas frame, else positions."""
    frames = [part for part in (y_test, X_test) if isinstance(part, pd.Series | pd.DataFrame)]
    return frames[0].index.to_numpy() if frames else np.arange(num_rows)


_NOT_IN_JSON = ["fit_seconds", "predict_seconds"]  # equal runs give equal results


@by_content
class Comparison(Judged):
    """Predictions of the same test rows by several models, methods and rules, and their scores.

    answers: one `Answer` for each model and (method, rule) pair, refused ones included.
    target: the truth of the test rows, by which answers are scored.
    rows: name of each test row, shape (n,): its index in a pandas frame, otherwise its position.
    costs: the rows with the lowest log scores, after `with_costs`.
    config, versions: the settings of the comparison, and the versions of libraries.
    """

    answers: tuple[Answer, ...]
    target: Scorer
    rows: Shaped[np.ndarray, " n"]
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()

    __getstate__ = state_of_fields

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The K class labels; empty where the test rows have no classes."""
        return self.target.classes

    @property
    def truth(self) -> Shaped[np.ndarray, " n"] | None:
        """Index of each test row's true class, or its number; None where the densities of rows are compared."""
        return self.target.truth

    @functools.cached_property
    def _answers_with_rows(self) -> tuple[Answer, ...]:
        """The answers, with the prediction and the scores of each test row unless they were refused."""
        return tuple(
            answer if answer.refused is not None else replace(answer, rows=self.target.row_frame(answer.prediction))
            for answer in self.answers
        )

    @property
    def scored(self) -> tuple[Answer, ...]:
        """The answers that were not refused, with the prediction and the scores of each test row."""
        return tuple(answer for answer in self._answers_with_rows if answer.rows is not None)

    def with_costs(self, X_test: Data) -> "Comparison":
        """The comparison with the rows of the lowest log scores, and the columns that cause them."""
        return replace(self, costs=costly_rows(self.scored, self.target, self.rows, X_test))

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """One row per answer.

        For classes: `accuracy`; `log_score`, the mean of log p(true class), higher is better (where rows have no
        labels, it is the mean of log p(row), and the other scores are NaN); `brier`, summed over the classes, from 0 to
        2, and `ece`, the calibration error in 15 bins of equal mass, lower is better. `impossible` counts the test rows
        without probabilities, which are scored as if a wrong class were certain; `ruled_out` counts the other rows
        whose true class has probability zero.

        For numbers: `log_score`, the mean of log p(y | x), higher is better; `rmse`, of the mean, and `crps`, the
        continuous ranked probability score, in the units of y, lower is better; `coverage_50`, `coverage_80` and
        `coverage_95`, the shares of rows whose y lies in the central interval of 50, 80 and 95 %, and `width_50` and so
        on, the mean widths of these. `impossible` counts the rows without a density, which have the worst possible
        scores; `ruled_out` counts the other rows whose y has the density zero.

        `difference` is the mean log score minus that of the two-step MAP answer of the same model, and
        `difference_from_mean` that from the plug-in at the posterior mean, each with the standard error of the paired
        difference. `refused` holds the message of a refusal.
        """
        return score_table(self._answers_with_rows, self.target)

    @functools.cached_property
    def differences(self) -> pd.DataFrame:
        """One row per pair of answers: the paired difference of mean log scores, and its standard error."""
        return difference_table(self.scored)

    @functools.cached_property
    def disagreements(self) -> pd.DataFrame:
        """One row per pair of answers and test row in which they differ, with the truth and both predictions.

        For classes: the rows to which the two answers give different classes, with both labels, and the probability of
        every class by both: `p[class]`, `other_p[class]`. For numbers: the ten rows in which the log scores differ
        most, and by more than 0.01, with mean, standard deviation, intervals and scores of both.
        """
        return disagreement_table(self.scored, self.target, self.rows)

    @functools.cached_property
    def predictions(self) -> pd.DataFrame:
        """One row per answer and test row, with the truth.

        For classes: label (None for an impossible row) and all probabilities. For numbers: mean, standard deviation,
        ends of the central intervals (`lower_95`, ...), log score, CRPS, and `pit`, the probability of a value up to
        the truth, which is uniform over rows where answers are calibrated.
        """
        return prediction_table(self.scored, self.target, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """`config`, `versions`, `pairs`, `disagreements`, `costs` in plain Python; None where a number is not finite.

        Lists of probabilities follow `config["classes"]`. Times are left out: equal runs give equal results.
        """
        disagreements: list[dict[Any, Any]] = self.disagreements.to_dict("records")
        for line in disagreements if len(self.classes) else ():
            for prefix in ("", "other_"):
                probabilities = [line.pop(f"{prefix}p[{label}]") for label in self.classes.tolist()]
                line[f"{prefix}probabilities"] = probabilities
        return plain(
            {
                "config": {**self.config, "classes": self.classes.tolist(), **self.target.reference},
                "versions": self.versions,
                "pairs": self.table.drop(columns=_NOT_IN_JSON).to_dict("records"),
                "disagreements": disagreements,
                "costs": [asdict(cost) for cost in self.costs],
            }
        )

    def to_json(self) -> str:
        """`to_dict` as strict JSON: numbers that are not finite are null."""
        return as_json(self.to_dict())

    @functools.cached_property
    def verdicts(self) -> dict[str, str]:
        """Model -> which of the two answers predicts better, by how much, and whether that is more than noise.

        The first average stands against the best plug-in of the same model; the error is that over test rows.
        """
        rows = f"on {len(self.rows):,} test row{'s' * (len(self.rows) > 1)}"
        log_scores: Any = {answer.model: {rows: {}} for answer in self.answers}
        for answer in self.scored:
            log_scores[answer.model][rows][answer.name] = answer.log_scores
        two_step = {answer.name for answer in self.scored if answer.two_step}
        return {model: verdict(by_answer, two_step) for model, by_answer in log_scores.items()}

    def _page(self, path: str | Path | None, title: str | None) -> str:
        from bayesgen.report import comparison_page

        return comparison_page(self, path, title)

    def _description(self) -> Description:
        columns = ["model", "method", "rule", *self.target.headline]
        differences = ["difference", "standard_error"]
        if self.table["difference"].isna().all():  # no MAP
            differences = [f"{column}_from_mean" for column in differences]
        if self.table[differences[0]].notna().any():
            columns += differences
        return f"Comparison on {len(self.rows)} test rows", {
            **self._verdict_entries,
            **notes_on_scores(self.table),
            "scores": self.table[columns],
        }


def plain(value: Any) -> Any:
    """The value in types of JSON; None for pandas' NA and numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


def as_json(content: Any) -> str:
    """Strict JSON: numbers that are not finite are null."""
    return json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False)


DEFAULT_PAIRS: tuple[tuple[Method, Rule], ...] = (
    (MLE(), PlugIn()),
    (MAP(), PlugIn()),
    (Exact(), PlugIn(at="mean")),
    (Exact(), BMA()),
    (NUTS(), BMA()),
)


@public
def compare(
    models: Any,
    X: Data,
    y: Values | None,
    X_test: Data,
    y_test: Values,
    *,
    methods: Sequence[Pair] | None = None,
    pairs: Sequence[Pair] | None = None,
    seed: Seed = 0,
    schema: Schema | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Fit every model by every method, predict by every rule, and score the predictions on the same test rows.

    Args:
        models: one model, several in a list, or a mapping name -> model.
        X, y, schema, seed, progress: as `fit` takes them.
        X_test, y_test: rows and labels to score on, which may be the name of a column, too. Labels are classes, or
            numbers for models of a continuous label. Models of rows without labels (mixtures, programs with label=None)
            take y=None and y_test=None, and are scored by the density of the test rows.
        methods: (method, rule) pairs; None means MLE + PlugIn, MAP + PlugIn, Exact + PlugIn(at="mean"), Exact + BMA and
            NUTS + BMA. A method of several pairs is fitted once.
        pairs: another name of `methods`, that of `study`.

    A (method, rule) pair that a model refuses with a `BayesgenError` becomes a row with its message. Where
    every pair is refused, the first refusal is raised. Raises DataError where
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
    X, y, _ = columns_by_name(X, y)
    X_test, y_test, _ = columns_by_name(X_test, y_test)
    check_index(X_test, y_test, "y_test", "X_test")
    if methods is not None and pairs is not None:
        raise DataError("methods= and pairs= are two names of one argument. Give one of them.")
    by_name, pairs = models_and_pairs(models, pairs if methods is None else methods)
    train_rows = read_table(X).num_rows if y is None or isinstance(y, str) else len(as_array(y, "y"))
    read: dict[str, Any] = {"keeps_rows": True} if any(method.needs_rows for method, _ in pairs) else {}
    outcomes: list[tuple[Answer, Any]] = []
    for name, model in by_name.items():
        data, _ = attempted(prepare, model, X, y, schema=schema, **read)
        outcomes += _answers(name, model, data, pairs, X_test, seed=seed, progress=progress)
    answers = tuple(answer for answer, _ in outcomes)
    if all(answer.refused for answer in answers):
        raise outcomes[0][1]
    num_rows = read_table(X_test).num_rows
    return Comparison(
        answers=answers,
        target=_scorer(answers, y, y_test, num_rows),
        rows=row_names(X_test, y_test, num_rows),
        config={
            "models": {name: repr(model) for name, model in by_name.items()},
            "methods": [[repr(method), repr(rule)] for method, rule in pairs],
            "contents": contents(by_name, pairs, schema=schema),
            "seed": seed if isinstance(seed, int) else repr(seed),
            "train_rows": train_rows,
            "test_rows": num_rows,
        },
        versions=versions(),
    )


def contents(models: Mapping[str, Any], pairs: Sequence[Pair], **settings: Any) -> dict[str, Any]:
    """Digests of models, of (method, rule) pairs and of settings, which tell apart what has one text, such as arrays.

    None where a content cannot be known: see `content_digest`.
    """
    return {
        "models": {name: content_digest(model) for name, model in models.items()},
        "pairs": [[content_digest(method), content_digest(rule)] for method, rule in pairs],
        **{name: content_digest(setting) for name, setting in settings.items()},
    }


def _by_type(models: Any) -> dict[str, Any]:
    """Models with the names of their types; where several have one, in full, or numbered if that does not help."""
    several = list(models) if isinstance(models, list | tuple) else [models]
    kinds = [type(model).__name__ for model in several]
    texts = [stated(model) if kinds.count(kind) > 1 else kind for kind, model in zip(kinds, several, strict=True)]
    numbers = {kind: itertools.count(1) for kind in kinds}
    if len(set(texts)) < len(texts) or max(map(len, texts), default=0) > LONGEST_NAME:
        texts = [f"{kind} {next(numbers[kind])}" if kinds.count(kind) > 1 else kind for kind in kinds]
    return dict(zip(texts, several, strict=True))


def models_and_pairs(models: Any, pairs: Sequence[Pair] | None) -> tuple[dict[str, Any], list[Pair]]:
    """Models by name, and (method, rule) pairs, with the default in place of None.

    Raises:
        DataError: no model, no pair, or a pair that is given twice.
        ModelError: models that are not compared, such as a concept learner, which has no classes.
    """
    by_name = dict(models) if isinstance(models, Mapping) else _by_type(models)
    chosen_pairs = checked_pairs(DEFAULT_PAIRS if pairs is None else pairs)
    if not by_name:
        raise DataError("There is nothing to compare. Give at least one model.")
    reasons = {name: model.why_not_compared for name, model in by_name.items() if isinstance(model, Model)}
    refused = [name for name, reason in reasons.items() if reason]
    if refused:
        raise ModelError(f"compare scores probabilities of classes, and {refused} {reasons[refused[0]]}")
    return by_name, chosen_pairs


def checked_pairs(pairs: Any) -> list[Pair]:
    """(method, rule) pairs as a list.

    Raises:
        DataError: no pair, what is no pair, or a pair that is given twice.
    """
    listed = list(pairs) if isinstance(pairs, Collection | Iterator) and not isinstance(pairs, str) else [pairs]
    example = "Write pairs=[(MAP(), PlugIn()), (Exact(), BMA())]: a list of tuples, each a method and a rule."
    for pair in listed:
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], Method) or not isinstance(pair[1], Rule):
            raise DataError(f"{pair!r} is no pair of a method and a rule. {example}")
        if listed.count(pair) > 1:
            raise DataError(f"The pair {pair} is given {listed.count(pair)} times. Give each pair once.")
    if not listed:
        raise DataError(f"There is no pair of a method and a rule. {example}")
    return listed


def _scorer(answers: Sequence[Answer], y: Values | None, y_test: Values, num_rows: int) -> Scorer:
    """A scorer for the test rows, of the kind that the answers predict."""
    models: dict[bool, dict[str, Any]] = {True: {}, False: {}}  # that predict numbers, and that do not
    for answer in answers:
        if answer.refused is None:
            models[isinstance(answer.prediction, ContinuousPrediction)][answer.model] = answer.prediction
    numbers, classes = models.values()
    if numbers and classes and y_test is not None:
        raise ModelError(
            f"{quote_some(numbers)} predict a number, and {quote_some(classes)} a class. A density of y and a "
            "probability of its class are not comparable: compare either kind by itself."
        )
    return scorer_of(next(iter((numbers or classes).values())), y, y_test, num_rows)


def scorer_of(prediction: Any, y: Values | None, y_test: Values | None, num_rows: int) -> Scorer:
    """A scorer for test rows, of the kind that a prediction is; y are the training labels."""
    if y_test is None:
        return DensityScorer()
    if isinstance(prediction, ContinuousPrediction):
        return ContinuousScorer.of(y_test, num_rows, of_counts=prediction.outcomes.spacing > 0)
    return ClassScorer.of(np.asarray(prediction.classes), y, y_test, num_rows)


def _answers(
    model_name: str, model: Any, data: Any, pairs: Sequence[Pair], X_test: Data, **options: Any
) -> Iterator[tuple[Answer, Any]]:
    """Each pair's answer, with the prediction or what refused it; the data are prepared, or what refused them."""
    learned: dict[Method, tuple[Any, float]] = {}
    for (method, rule), (method_name, rule_name) in zip(pairs, names_of(pairs), strict=True):
        if method not in learned:
            is_read = not isinstance(data, BayesgenError)
            learned[method] = attempted(fit, model, data, method=method, **options) if is_read else (data, 0.0)
        fitted, fit_seconds = learned[method]
        prediction, predict_seconds = fitted, float("nan")
        if not isinstance(fitted, BayesgenError):
            prediction, predict_seconds = attempted(predict, fitted, X_test, rule=rule)
        is_refused = isinstance(prediction, BayesgenError)
        pair_answer = _answer(model_name, (method, rule), (method_name, rule_name))
        yield (
            replace(
                pair_answer,
                prediction=None if is_refused else prediction,
                refused=str(prediction) if is_refused else None,
                fit_seconds=fit_seconds,
                predict_seconds=predict_seconds,
                ask=None if is_refused else functools.partial(predict, fitted, rule=rule),
                fitted=None if is_refused else fitted,
            ),
            prediction,
        )


def _answer(model_name: str, pair: Pair, names: tuple[str, str]) -> Answer:
    """The answer of a pair, without its prediction."""
    method, rule = pair
    is_two_step = isinstance(rule, PlugIn)
    is_mean = isinstance(rule, PlugIn) and rule.at != "mode" and isinstance(method, Exact | NUTS)
    return Answer(model_name, *names, two_step=is_two_step, is_map=is_map(pair), is_mean=is_mean)


def both_answers(fitted: Fit, rules: Sequence[Rule] | None = None) -> Sequence[Rule]:
    """The rules; None stands for those of both answers: the plug-in, and the average unless the fit is a point."""
    if rules is not None:
        return rules
    return (PlugIn(),) if fitted.posterior.is_point else (PlugIn(), BMA())


def named_answers(fitted: Fit, rules: Sequence[Rule]) -> list[Answer]:
    """The answers of one fit by several rules, without their predictions."""
    pairs, model = [(fitted.method, rule) for rule in rules], type(fitted.model).__name__
    return [_answer(model, pair, names) for pair, names in zip(pairs, names_of(pairs), strict=True)]


def answers_of_fit(fitted: Fit, rules: Sequence[Rule], X: Data, y: Values | None = None) -> Comparison:
    """The answers of one fit by several rules, scored by labels or numbers y, or where there are none by densities."""
    answers = tuple(
        replace(answer, prediction=predict(fitted, X, rule=rule))
        for answer, rule in zip(named_answers(fitted, rules), rules, strict=True)
    )
    num_rows = read_table(X).num_rows
    return Comparison(answers, scorer_of(answers[0].prediction, None, y, num_rows), row_names(X, y, num_rows))


def is_map(pair: Pair) -> bool:
    """Whether a pair is the two-step MAP answer, with which others are compared."""
    method, rule = pair
    return isinstance(rule, PlugIn) and isinstance(method, MAP) and not method.needs_rows


def names_of(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """Names of the pairs: types, or in full where two pairs would have the same name."""
    short = [(type(method).__name__, _rule_name(method, rule)) for method, rule in pairs]
    return [
        name if short.count(name) == 1 else (repr(method), repr(rule))
        for name, (method, rule) in zip(short, pairs, strict=True)
    ]


def _rule_name(method: Method, rule: Rule) -> str:
    """The type of the rule, with its point for a plug-in at a point of a posterior distribution."""
    name = type(rule).__name__
    return f"{name}({rule.at})" if isinstance(rule, PlugIn) and not isinstance(method, MLE | MAP) else name
