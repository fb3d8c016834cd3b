"""Figures of several answers to the same rows: calibration, coverage, agreement, paired differences of scores."""

import contextlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from bayesgen.errors import PredictionError
from bayesgen.evaluation import TRUTH, Answer, Comparison, Study, answers_of_fit, both_answers
from bayesgen.prediction import ClassPrediction, ClassScorer, ContinuousScorer, Rule, Scorer, calibration_bins
from bayesgen.typing import Data, Float, Values

from .style import (
    BEST_NAME,
    FAINT,
    GREY,
    INK,
    MEAN_NAME,
    ONE_PROCESS_NAME,
    ONE_STEP,
    ONE_STEP_NAME,
    PANEL,
    TRUTH_NAME,
    TWO_STEP,
    drawing,
    looks,
)

LEVELS = np.linspace(0.0, 1.0, 101)
Panels: TypeAlias = Axes | Sequence[Axes] | np.ndarray | None


def reliability(
    subject: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    num_bins: int = 10,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """How often the most probable class is the true one, against its probability: a reliability diagram.

    Rows are in bins of equal mass, those of the calibration error `ece`. A curve below the diagonal means
    overconfidence, one above it underconfidence. The band of an answer holds 95 % of the shares of calibrated answers
    with these probabilities, in each bin separately.

    Args:
        subject: a fit; or a comparison of predictions of classes, with a panel for each model.
        X, y: of a fit, rows that it was not trained on, and their labels.
        rules: of a fit, the rules of prediction; None for the plug-in and the average.
        num_bins: number of bins.
        ax: axes to draw in, one for each panel; None for a new figure.
        width: of a new figure in inches; panels stand below each other where it is too narrow.
    """
    comparison = _scored(_compared(subject, X, y, rules), ClassScorer, "classes", "coverage")
    with _model_panels(comparison, ax, width) as (figure, panels):
        for panel, answers in panels:
            lowest, truth = 1.0, cast("np.ndarray", comparison.truth)
            for answer, label, look in drawn_answers(answers):
                count, confidence, share = calibration_bins(class_table(answer.prediction), truth, num_bins)
                low, high = (stats.binom.ppf(p, count, np.minimum(confidence, 1.0)) / count for p in (0.025, 0.975))
                panel.fill_between(confidence, low, high, color=look["color"], alpha=0.13, linewidth=0)
                panel.plot(confidence, share, label=label, **look)
                lowest = min(lowest, *confidence, *share, *low)
            _add_diagonal(panel, max(0.0, lowest - 0.03))
            panel.fill_between([], [], color=GREY, alpha=0.3, label="bands of calibrated answers, 95 %")
            panel.set(xlabel="probability of the most probable class", ylabel="share of rows where it is true")
    return figure


def coverage(
    subject: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """The share of central intervals that hold the truth, against their probability.

    A curve below the diagonal means overconfidence, one above it underconfidence. The band holds 95 % of the shares of
    calibrated answers for as many rows, at each probability separately.

    Args:
        subject: a fit; or a comparison of predictions of numbers, with a panel for each model.
        X, y: of a fit, rows that it was not trained on, and their numbers.
        rules, ax, width: as in `reliability`.
    """
    comparison = _scored(_compared(subject, X, y, rules), ContinuousScorer, "numbers", "reliability")
    with _model_panels(comparison, ax, width) as (figure, panels):
        for panel, answers in panels:
            pits = {label: (answer.rows["pit"].to_numpy(), look) for answer, label, look in drawn_answers(answers)}
            draw_coverage(panel, pits)
    return figure


def draw_coverage(panel: Axes, pits: Mapping[str, tuple[Float[np.ndarray, " n"], Mapping[str, Any]]]) -> None:
    """Curves of coverage with their band.

    Args:
        panel: the axes.
        pits: label -> probability of a value up to the truth for each row, NaN where the row is impossible (the
            probability integral transform); and the look of the curve.
    """
    num_rows = max(len(pit) for pit, _ in pits.values())
    low, high = (stats.binom.ppf(p, num_rows, LEVELS) / num_rows for p in (0.025, 0.975))
    panel.fill_between(LEVELS, low, high, color=FAINT, linewidth=0, label="band of calibrated answers, 95 %")
    for label, (pit, look) in pits.items():
        distances = np.nan_to_num(np.abs(2 * pit - 1), nan=np.inf)  # impossible rows are in no interval
        shares = np.searchsorted(np.sort(distances), LEVELS, side="right") / num_rows
        panel.plot(LEVELS, shares, label=label, markevery=20, **look)
    _add_diagonal(panel, 0.0)
    panel.set(xlabel="probability of the central interval", ylabel="share of rows whose truth it holds")


def agreement(
    subject: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """Probabilities of the true class by both answers against each other, a point for each row.

    Rows on the diagonal have the same probability by both. Where no labels are given, it is the probability of the
    class that is the most probable one by the average. Crosses are rows in which the answers name different classes.

    Args:
        subject: a fit; or a comparison of predictions of classes, with a panel for each model, of whose answers the
            first average and the first plug-in are drawn, MAP before others.
        X, y: of a fit, rows and, if they are known, their labels.
        rules: of a fit, one of two steps and one of one step.
        ax, width: as in `reliability`.
    """
    comparison = _compared(subject, X, y, rules)
    _ = [class_table(answer.prediction) for answer in comparison.answers if answer.refused is None]  # or refuse
    heading = "probability of the true class" if y is not None or X is None else "probability of the averaged class"
    with _model_panels(comparison, ax, width, heading) as (figure, panels):
        for panel, answers in panels:
            pair = two_step, one_step = _pair(answers)
            tables = [class_table(answer.prediction) for answer in pair]
            truth: Any = (
                np.nan_to_num(tables[1], nan=-np.inf).argmax(1) if comparison.truth is None else comparison.truth
            )
            x, height = (np.exp(table[np.arange(len(table)), truth]) for table in tables)
            differs = two_step.prediction.labels != one_step.prediction.labels
            panel.plot(x[~differs], height[~differs], "o", color=GREY, alpha=0.6, mew=0, label="same class by both")
            label = "different classes" if differs.any() else None
            panel.plot(x[differs], height[differs], "x", color=INK, mew=1.2, label=label)
            panel.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
            corner: Any = {"transform": panel.transAxes}
            text = f"higher by the average\nin {np.sum(height > x)} rows"
            panel.text(0.03, 0.97, text, color=ONE_STEP, va="top", **corner)
            text = f"higher by one process\nin {np.sum(height < x)} rows"
            panel.text(0.97, 0.03, text, color=TWO_STEP, ha="right", **corner)
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            panel.set(xlabel=_label(two_step), ylabel=_label(one_step))
    return figure


def paired_differences(result: Comparison | Study, *, ax: Panels = None, width: float | None = None) -> Figure:
    """Differences of mean log scores from one answer of the same model, on the same rows, with their errors: a forest.

    Bars are two standard errors to either side: of rows in a comparison, of repeats in a study (`Study.about_errors`
    says what they tell). The answer from which differences are taken is the two-step MAP one where there is one. An
    answer without a finite difference has a word in the place of its bar.

    Args:
        result: a comparison or a study.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    table, reference = _differences(result)
    width = 1.4 * PANEL if width is None else width
    labels = [textwrap.fill(label, max(12, int(7 * width))) for label in table["label"]]
    height = 0.9 + sum(0.1 + 0.14 * (label.count("\n") + 1) for label in labels)
    with drawing(ax, width=width, height=height) as (figure, ((panel,),)):
        for place, row in enumerate(table.to_dict("records")):
            look = looks([row["is_two_step"]])[0] | {"linestyle": "none", "label": WORDS[row["is_two_step"]]}
            if np.isfinite(row["difference"]):
                ends = 2 * np.nan_to_num(row["standard_error"])
                panel.errorbar(row["difference"], place, xerr=ends, capsize=2.5, **look)
            else:
                note = "refused" if row["refused"] else NOT_FINITE.get(row["difference"], "no difference")
                panel.text(0, place, f" {note}", va="center", color=INK)
        longest = float(table["difference"].abs().replace(np.inf, np.nan).max())
        if longest > MOST_LINEAR:  # so that short differences can be seen, too
            panel.set_xscale("symlog", linthresh=1.0)
            panel.set_xticks([-round(longest), -1, 0, 1], [f"−{longest:,.0f}", "−1", "0", "1"])
        panel.axvline(0, color=GREY, linewidth=0.8, zorder=0)
        panel.set_yticks(range(len(labels)), labels)
        panel.set_ylim(len(labels) - 0.5, -0.5)
        scale = "; logarithmic\nbeyond ±1" * (longest > MOST_LINEAR)
        panel.set_xlabel(f"mean log score less that of\n{reference}\n(nats a row{scale})")
        panel.set_ylabel("answer, training rows" if isinstance(result, Study) else "answer")
    return figure


MOST_LINEAR = 10.0  # nats; farther differences make a forest's axis logarithmic
NOT_FINITE = {-np.inf: "−∞: it rules out true values", np.inf: "+∞: the other answer rules out true values"}
WORDS = {True: ONE_PROCESS_NAME, False: ONE_STEP_NAME, None: TRUTH_NAME}


def _differences(result: Comparison | Study) -> tuple[pd.DataFrame, str]:
    """A line for each answer with its difference, label and number of steps; and from which answer differences are."""
    if isinstance(result, Study):
        table, two_step = result.summary, result.two_step
        size: Any = ", " + table["size"].astype(str)
        names = [" · ".join(pair) for pair in result.references.values()]
        table = table.assign(refused=table["repeats"] == 0)
    else:
        table, size = result.table, ""
        two_step = {(answer.method, answer.rule) for answer in result.answers if answer.two_step}
        reference = _first(result.scored)
        if not reference.is_map:
            mean = {name: table[f"{name}_from_mean"] for name in ("difference", "standard_error")}
            table = table.assign(**mean)
        if not (reference.is_map or reference.is_mean):
            raise PredictionError(
                "Differences are taken from the MAP() plug-in, or from the plug-in at a posterior mean, and the "
                "comparison has neither: see comparison.differences."
            )
        names = [f"{reference.method} · {reference.rule}"]
    steps = [None if model == TRUTH else (method, rule) in two_step for model, method, rule in table.iloc[:, :3].values]
    model = table["model"] + ": " if table["model"].nunique() > 1 else ""
    labels = model + table["method"] + " · " + table["rule"] + size
    table = table.assign(label=labels, is_two_step=pd.Series(steps, table.index, object))
    return table, " or ".join(dict.fromkeys(names))


def _first(answers: Sequence[Answer]) -> Answer:
    """The answer from which differences are taken: MAP, or the plug-in at the posterior mean, or the first."""
    return min(answers, key=lambda answer: (not answer.is_map, not answer.is_mean))


def _pair(answers: Sequence[Answer]) -> tuple[Answer, Answer]:
    """A two-step and a one-step answer."""
    two_step, one_step = ([a for a in answers if a.two_step is is_two] for is_two in (True, False))
    if not two_step or not one_step:
        raise PredictionError(
            f"The answers of {answers[0].model!r} are {', '.join(map(_label, answers))}: ask for one of two steps, "
            "such as PlugIn(), and one of one step, such as BMA()."
        )
    return _first(two_step), one_step[0]


def _compared(subject: Any, X: Data | None, y: Values | None, rules: Sequence[Rule] | None) -> Comparison:
    """A comparison as it is, or that of the answers of a fit."""
    if isinstance(subject, Comparison):
        return subject
    if X is None:
        raise PredictionError("X is missing: rows for which the fit is asked, such as plots.reliability(fit, X, y).")
    return answers_of_fit(subject, both_answers(subject, rules), X, y)


def _scored(comparison: Comparison, kind: type[Scorer], noun: str, other: str) -> Comparison:
    """The comparison, if its answers are scored by truths of a kind."""
    if not isinstance(comparison.target, kind):
        raise PredictionError(
            f"The figure is of predictions of {noun} and their truths: give X and y, or a comparison with y_test. See "
            f"plots.{other} for others."
        )
    return comparison


@contextlib.contextmanager
def _model_panels(
    comparison: Comparison, ax: Panels, width: float | None, heading: str = ""
) -> Iterator[tuple[Figure, list[tuple[Axes, list[Answer]]]]]:
    """A figure, and a panel with its answers for each model."""
    by_model: dict[str, list[Answer]] = {}
    for answer in comparison.scored:
        by_model.setdefault(answer.model, []).append(answer)
    with drawing(ax, 1, len(by_model), width=width, height=3.5) as (figure, ((*panels,),)):
        for panel, model in zip(panels, by_model, strict=True):
            panel.set_title("\n".join([*[model] * (len(by_model) > 1), heading]).strip())
        yield figure, list(zip(panels, by_model.values(), strict=True))


def class_table(prediction: Any) -> Float[np.ndarray, "n K"]:
    """The log probabilities of a prediction of classes."""
    if not isinstance(prediction, ClassPrediction):
        raise PredictionError("The figure is of probabilities of classes, and a number is predicted: see coverage.")
    return prediction.log_probabilities


def _label(answer: Answer) -> str:
    """What an answer is, in words."""
    return (MEAN_NAME if answer.is_mean else BEST_NAME) if answer.two_step else ONE_STEP_NAME


def drawn_answers(answers: Sequence[Answer]) -> Iterator[tuple[Answer, str, dict[str, Any]]]:
    """Answers with their labels, no two alike, and looks."""
    words = [_label(answer) for answer in answers]
    for answer, word, look in zip(answers, words, looks(answer.two_step for answer in answers), strict=True):
        details = f", {answer.method} · {answer.rule}" * (words.count(word) > 1)
        yield answer, f"{word}{details}", look


def _add_diagonal(panel: Axes, lowest: float) -> None:
    """The diagonal, where answers are calibrated, and axes of shares."""
    panel.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
    panel.set(xlim=(lowest, 1.02), ylim=(lowest, 1.02), aspect="equal")
    panel.xaxis.set_major_formatter("{x:.0%}")
    panel.yaxis.set_major_formatter("{x:.0%}")
