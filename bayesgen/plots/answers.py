"""Figures of several answers to the same rows: calibration, coverage, agreement, paired differences of scores."""

import contextlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from bayesgen.errors import PredictionError
from bayesgen.evaluation import TRUTH, Answer, Comparison, Study, answers_of_fit, both_answers, paired_difference
from bayesgen.prediction import Rule, calibration_bins
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
    comparison = _classes_compared(_compared(subject, X, y, rules))
    with _model_panels(comparison, ax, width) as (figure, panels):
        for panel, answers in panels:
            truth: Any = comparison.truth
            lowest = 1.0
            for answer, label, look in drawn_answers(answers):
                table = answer.prediction.log_probabilities
                count, confidence, share = calibration_bins(table, truth, num_bins)
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
    comparison = _compared(subject, X, y, rules)
    with _model_panels(comparison, ax, width) as (figure, panels):
        for panel, answers in panels:
            places = {label: (answer.rows["pit"].to_numpy(), look) for answer, label, look in drawn_answers(answers)}
            draw_coverage(panel, places)
    return figure


def draw_coverage(panel: Axes, places: Mapping[str, tuple[Float[np.ndarray, " n"], Mapping[str, Any]]]) -> None:
    """Curves of coverage with their band.

    Args:
        panel: the axes.
        places: label -> probability of a value up to the truth for each row, NaN where the row is impossible; and the
            look of the curve.
    """
    num_rows = max(len(pit) for pit, _ in places.values())
    low, high = (stats.binom.ppf(p, num_rows, LEVELS) / num_rows for p in (0.025, 0.975))
    panel.fill_between(LEVELS, low, high, color=FAINT, linewidth=0, label="band of calibrated answers, 95 %")
    for label, (pit, look) in places.items():
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
    comparison = _classes_compared(_compared(subject, X, y, rules))
    is_known = comparison.truth is not None
    with _model_panels(comparison, ax, width) as (figure, panels):
        for panel, answers in panels:
            pair = two_step, one_step = _pair(answers)
            logs = [answer.prediction.log_probabilities for answer in pair]
            codes = comparison.truth if is_known else np.nan_to_num(logs[1], nan=-np.inf).argmax(1)
            x, y_values = (np.exp(table[np.arange(len(table)), codes]) for table in logs)
            differs = two_step.prediction.labels != one_step.prediction.labels
            panel.plot(x[~differs], y_values[~differs], "o", color=GREY, alpha=0.6, mew=0, label="same class by both")
            label = "different classes" if differs.any() else None
            panel.plot(x[differs], y_values[differs], "x", color=INK, mew=1.2, label=label)
            panel.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
            gains, losses = int((y_values > x).sum()), int((y_values < x).sum())
            corners: Any = {"transform": panel.transAxes}
            panel.text(0.03, 0.97, f"higher by the average\nin {gains} rows", color=ONE_STEP, va="top", **corners)
            text = f"higher by one process\nin {losses} rows"
            panel.text(0.97, 0.03, text, color=TWO_STEP, ha="right", **corners)
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel=_label(two_step))
            panel.set_ylabel(_label(one_step))
            panel.xaxis.label.set_color(TWO_STEP)
            panel.yaxis.label.set_color(ONE_STEP)
        figure_title = "probability of the true class" if is_known else "probability of the averaged answer's class"
        for panel, _ in panels:
            panel.set_title("\n".join(filter(None, [panel.get_title(), figure_title])))
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
    lines = [*(_study_lines(result) if isinstance(result, Study) else _comparison_lines(result))]
    width = 1.4 * PANEL if width is None else width
    labels = [textwrap.fill(line[0], max(12, int(7 * width))) for line in lines]
    height = 0.9 + sum(0.1 + 0.14 * (label.count("\n") + 1) for label in labels)
    with drawing(ax, width=width, height=height) as (figure, ((panel,),)):
        _scale_differences(panel, [(difference, error) for _, _, difference, error, _ in lines])
        for place, (_, is_two_step, difference, error, note) in enumerate(lines):
            look = looks([is_two_step])[0] | {"linestyle": "none"}
            if np.isfinite(difference):
                label = {True: ONE_PROCESS_NAME, False: ONE_STEP_NAME, None: TRUTH_NAME}[is_two_step]
                panel.errorbar(difference, place, xerr=2 * np.nan_to_num(error), capsize=2.5, label=label, **look)
            else:
                panel.text(0, place, f" {note or NOT_FINITE.get(difference, 'no number')}", va="center", color=INK)
        panel.axvline(0, color=GREY, linewidth=0.8, zorder=0)
        panel.set_yticks(range(len(lines)), labels)
        panel.set_ylim(len(lines) - 0.5, -0.5)
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        scale = "; logarithmic\nbeyond ±1" if panel.get_xscale() == "symlog" else ""
        panel.set_xlabel(f"mean log score less that of\n{_reference(result)}\n(nats a row{scale})")
        if isinstance(result, Study):
            panel.set_ylabel(f"answer, training rows{' of each class' * result.config['per_class']}")
    return figure


MOST_LINEAR = 10.0  # nats; farther ends make a forest's axis logarithmic
NOT_FINITE = {-np.inf: "−∞: it rules out true values", np.inf: "+∞: the other answer rules out true values"}
Line: TypeAlias = tuple[str, bool | None, float, float, str | None]  # label, two-step, difference, error, note


def _scale_differences(panel: Axes, differences: Sequence[tuple[float, float]]) -> None:
    """A logarithmic axis where some differences are very long, so that the others can be seen, too."""
    finite = [pair for pair in differences if np.isfinite(pair).all()]
    low = min((difference - 2 * error for difference, error in finite), default=0.0)
    high = max((difference + 2 * error for difference, error in finite), default=0.0)
    if max(-low, high) > MOST_LINEAR:
        panel.set_xscale("symlog", linthresh=1.0, linscale=1.0)
        powers = [10.0 ** int(np.log10(max(end, 1.0))) for end in (-low, high)]
        panel.set_xticks(sorted({-powers[0], -1.0, 0.0, 1.0, powers[1]} if low < -1 else {0.0, 1.0, powers[1]}))
        panel.minorticks_off()
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace("-", "−"))


def _comparison_lines(comparison: Comparison) -> Iterator[Line]:
    """A line for each answer but the references."""
    scored = comparison.scored
    references = {model: _first([answer for answer in scored if answer.model == model]) for model in _models(scored)}
    names = dict.fromkeys(answer.model for answer in comparison.answers)
    for answer in comparison.answers:
        label = f"{answer.model}: " * (len(names) > 1) + f"{answer.method} · {answer.rule}"
        reference = references.get(answer.model)
        if answer.refused is not None or reference is None:
            yield label, answer.two_step, np.nan, np.nan, "refused"
        elif answer.key != reference.key:
            rows = next(other for other in scored if other.key == answer.key).log_scores
            yield label, answer.two_step, *paired_difference(rows, reference.log_scores), None


def _study_lines(study: Study) -> Iterator[Line]:
    """A line for each answer and size but those of the references."""
    models = len(study.references)
    for row in study.summary.to_dict("records"):
        pair = row["method"], row["rule"]
        if row["model"] != TRUTH and pair == study.references[row["model"]]:
            continue
        name = f"{row['model']}: " * (models > 1 and row["model"] != TRUTH) + " · ".join(dict.fromkeys(pair))
        note = "refused" if not row["repeats"] else None
        is_two_step = None if row["model"] == TRUTH else pair in study.two_step
        yield f"{name}, {row['size']}", is_two_step, row["difference"], row["standard_error"], note


def _reference(result: Comparison | Study) -> str:
    """The names of the answers from which differences are taken."""
    if isinstance(result, Study):
        names = [" · ".join(pair) for pair in result.references.values()]
    else:
        firsts = [_first([answer for answer in result.scored if answer.model == m]) for m in _models(result.scored)]
        names = [f"{answer.method} · {answer.rule}" for answer in firsts]
    return " or ".join(dict.fromkeys(names))


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
        raise PredictionError("X is needed for the answers of a fit: give rows, plots.reliability(fit, X, y).")
    return answers_of_fit(subject, both_answers(subject, rules), X, y)


def _classes_compared(comparison: Comparison) -> Comparison:
    """The comparison, if its answers are probabilities of classes."""
    if any(not hasattr(answer.prediction, "log_probabilities") for answer in comparison.scored):
        raise PredictionError("The figure is of probabilities of classes, and a number is predicted: see coverage.")
    return comparison


def _models(answers: Sequence[Answer]) -> list[str]:
    return list(dict.fromkeys(answer.model for answer in answers))


@contextlib.contextmanager
def _model_panels(
    comparison: Comparison, ax: Panels, width: float | None
) -> Iterator[tuple[Figure, list[tuple[Axes, list[Answer]]]]]:
    """A figure, and a panel with its answers for each model."""
    models = _models(comparison.scored)
    with drawing(ax, 1, len(models), width=width, height=3.5) as (figure, ((*panels,),)):
        for panel, model in zip(panels if len(models) > 1 else (), models, strict=False):
            panel.set_title(model)
        answers = [[answer for answer in comparison.scored if answer.model == model] for model in models]
        yield figure, list(zip(panels, answers, strict=True))


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
