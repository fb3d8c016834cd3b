"""Figures of comparisons and studies, of several answers to the same rows, and of calibration by simulation."""

import functools
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from bayesgen.errors import PredictionError
from bayesgen.evaluation import TRUTH, Answer, Calibration, Comparison, Prequential, Study, answers_of_fit, both_answers
from bayesgen.prediction import ClassPrediction, ContinuousPrediction, Rule, calibration_bins
from bayesgen.typing import Data, Float, Int, Values

from .style import (
    ANSWER_NAMES,
    FAINT,
    GREY,
    INK,
    ONE_STEP,
    PANEL,
    TWO_STEP,
    GivenAxes,
    Look,
    Mark,
    Panel,
    curve_in_band,
    draw,
    draw_diagonal,
    drawn_answers,
    looks,
    mark,
    words_for,
)

PROBABILITIES = np.linspace(0.0, 1.0, 101)  # of central intervals
CURVES = (  # of a study: column of the summary, that of its error, and what it is
    ("log_score", "log_score_error", "mean log score of test rows\n(nats a row; higher is better)"),
    ("difference", "standard_error", "difference from\n{}\n(nats a row)"),
)
NOTE_LETTERS = 34  # in a line below a panel
MOST_LINEAR = 10.0  # nats; farther differences make a forest's axis logarithmic
NOT_FINITE = {-np.inf: "−∞: it rules out true values", np.inf: "+∞: the other answer rules out true values"}


def reliability(
    subject: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    num_bins: int = 10,
    ax: GivenAxes = None,
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
    comparison = compared(subject, X, y, rules, ClassPrediction)
    return _draw_models(
        comparison, functools.partial(_reliability_panel, truth=comparison.truth, num_bins=num_bins), ax, width
    )


def _reliability_panel(answers: Sequence[Answer], truth: Any, num_bins: int) -> Panel:
    marks: list[Mark] = []
    for answer, look in drawn_answers(answers):
        counts, confidences, shares = calibration_bins(answer.prediction.log_probabilities, truth, num_bins)
        marks += curve_in_band(confidences, shares, _calibrated_shares(counts, confidences), look)
    return Panel(
        [
            *marks,
            draw_diagonal,
            mark("fill_between", [], [], color=GREY, alpha=0.3, label="bands of calibrated answers, 95 %"),
        ],
        xlabel="probability of the most probable class",
        ylabel="share of rows where it is true",
    )


def coverage(
    subject: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    ax: GivenAxes = None,
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
    return _draw_models(compared(subject, X, y, rules, ContinuousPrediction), _coverage_panel, ax, width)


def _coverage_panel(answers: Sequence[Answer]) -> Panel:
    return coverage_panel({look["label"]: (answer.rows["pit"], look) for answer, look in drawn_answers(answers)})


def coverage_panel(pits: Mapping[str, tuple[Float[np.ndarray, " n"], Look]]) -> Panel:
    """Curves of coverage with their band.

    Args:
        pits: label -> probability of a value up to the truth for each row, NaN where the row is impossible (the
            probability integral transform); and the look of the curve.
    """
    num_rows = max(len(pit) for pit, _ in pits.values())
    ends, band = _calibrated_shares(num_rows, PROBABILITIES), "band of calibrated answers, 95 %"
    curves = [
        mark("plot", PROBABILITIES, _shares_inside(pit), markevery=20, **{**look, "label": label})
        for label, (pit, look) in pits.items()
    ]
    return Panel(
        [mark("fill_between", PROBABILITIES, *ends, color=FAINT, linewidth=0, label=band), *curves, draw_diagonal],
        xlabel="probability of the central interval",
        ylabel="share of rows whose truth it holds",
    )


def _shares_inside(pit: Float[np.ndarray, " n"]) -> Float[np.ndarray, " probabilities"]:
    """The shares of rows whose truth is in the central intervals of all `PROBABILITIES`."""
    distances = np.nan_to_num(np.abs(2 * np.asarray(pit) - 1), nan=np.inf)  # impossible rows are in no interval
    return np.searchsorted(np.sort(distances), PROBABILITIES, side="right") / len(distances)


def _calibrated_shares(
    counts: Int[np.ndarray, "*n"] | int, probabilities: Float[np.ndarray, " n"]
) -> list[Float[np.ndarray, " n"]]:
    """The ends of the 95 % of shares of so many rows that calibrated answers of these probabilities have."""
    return [stats.binom.ppf(end, counts, np.minimum(probabilities, 1.0)) / counts for end in (0.025, 0.975)]


def agreement(
    subject: Any,
    X: Data | None = None,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    ax: GivenAxes = None,
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
    comparison = compared(subject, X, y, rules, ClassPrediction, needs_truth=False)
    return _draw_models(comparison, functools.partial(_agreement_panel, truth=comparison.truth), ax, width)


def _agreement_panel(answers: Sequence[Answer], truth: Any) -> Panel:
    pair = two_step, one_step = _pair(answers)
    tables = [answer.prediction.log_probabilities for answer in pair]
    codes = np.nan_to_num(tables[1], nan=-np.inf).argmax(1) if truth is None else truth
    x, height = (np.exp(table[np.arange(len(table)), codes]) for table in tables)
    differs = two_step.prediction.labels != one_step.prediction.labels
    label = "different classes" if differs.any() else None
    note = functools.partial(mark, "annotate", xycoords="axes fraction")
    return Panel(
        [
            mark("plot", x[~differs], height[~differs], "o", color=GREY, alpha=0.6, mew=0, label="same class by both"),
            mark("plot", x[differs], height[differs], "x", color=INK, mew=1.2, label=label),
            draw_diagonal,
            note(f"higher by the average\nin {np.sum(height > x)} rows", (0.03, 0.97), color=ONE_STEP, va="top"),
            note(f"higher by one process\nin {np.sum(height < x)} rows", (0.97, 0.03), color=TWO_STEP, ha="right"),
        ],
        xlabel=words_for(two_step),
        ylabel=words_for(one_step),
        title=f"probability of the {'averaged' if truth is None else 'true'} class",
    )


def _pair(answers: Sequence[Answer]) -> tuple[Answer, Answer]:
    """A two-step and a one-step answer."""
    two_step, one_step = ([a for a in answers if a.two_step is is_two] for is_two in (True, False))
    if not two_step or not one_step:
        raise PredictionError(
            f"The answers of {answers[0].model!r} are {', '.join(map(words_for, answers))}: ask for one of two steps, "
            "such as PlugIn(), and one of one step, such as BMA()."
        )
    return reference(two_step), one_step[0]


def reference(answers: Sequence[Answer]) -> Answer:
    """The answer with which others are compared: MAP, or the plug-in at the posterior mean, or the first."""
    return min(answers, key=lambda answer: (not answer.is_map, not answer.is_mean))


def compared(
    subject: Any, X: Data | None, y: Values | None, rules: Sequence[Rule] | None, kind: type, needs_truth: bool = True
) -> Comparison:
    """A comparison as it is, or that of the answers of a fit, if it is of predictions of a kind.

    Raises:
        PredictionError: other predictions, or none; no truths, where the figure needs them.
    """
    if not isinstance(subject, Comparison):
        if X is None:
            raise PredictionError("X is missing: rows for which the fit is asked, as in plots.reliability(fit, X, y).")
        subject = answers_of_fit(subject, both_answers(subject, rules), X, y)
    answered = [answer for answer in subject.answers if answer.refused is None]
    if not all(isinstance(answer.prediction, kind) for answer in answered) or (needs_truth and subject.truth is None):
        noun, other = {ClassPrediction: ("classes", "coverage"), ContinuousPrediction: ("numbers", "reliability")}[kind]
        raise PredictionError(
            f"The figure is of predictions of {noun}"
            f"{' and their truths: give X and y, or a comparison with y_test' * needs_truth}. "
            f"See plots.{other} for others."
        )
    return subject


def _draw_models(
    comparison: Comparison, panel: Callable[[Sequence[Answer]], Panel], ax: GivenAxes, width: float | None
) -> Figure:
    """A figure with a panel for each model, named where there are several."""
    panels = {
        model: panel(list(answers))
        for model, answers in itertools.groupby(comparison.scored, key=lambda answer: answer.model)
    }
    named = [panel.named(model) if len(panels) > 1 else panel for model, panel in panels.items()]
    return draw([named], ax, width=width, height=3.5)


def paired_differences(result: Comparison | Study, *, ax: GivenAxes = None, width: float | None = None) -> Figure:
    """Differences of mean log scores from one answer of the same model, on the same rows, with their errors: a forest.

    Bars are two standard errors to either side: of rows in a comparison, of repeats in a study (`Study.about_errors`
    says what they tell). The answer from which differences are taken is the two-step MAP one where there is one. An
    answer without a finite difference has a word in the place of its bar.

    Args:
        result: a comparison or a study.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    table, origin = _differences(result)
    longest = float(table["difference"].abs().replace(np.inf, np.nan).max())
    width = 1.4 * PANEL if width is None else width
    labels = [textwrap.fill(label, max(12, int(7 * width))) for label in table["label"]]
    bars = [_bar(place, row) for place, row in enumerate(table.to_dict("records"))]
    marks = [mark("axvline", 0, color=GREY, linewidth=0.8, zorder=0), *bars]
    scale = ""
    if longest > MOST_LINEAR:  # so that short differences can be seen, too
        scale, ticks = "; logarithmic\nbeyond ±1", {-round(longest): f"−{longest:,.0f}", -1: "−1", 0: "0", 1: "1"}
        marks += [mark("set_xscale", "symlog", linthresh=1.0), mark("set_xticks", list(ticks), list(ticks.values()))]
    panel = Panel(
        marks,
        f"mean log score less that of\n{origin}\n(nats a row{scale})",
        "answer, training rows" if isinstance(result, Study) else "answer",
        settings={"yticks": range(len(labels)), "yticklabels": labels, "ylim": (len(labels) - 0.5, -0.5)},
    )
    height = 0.9 + sum(0.1 + 0.14 * (label.count("\n") + 1) for label in labels)
    return draw([[panel]], ax, width=width, height=height)


def _bar(place: int, row: Mapping[Any, Any]) -> Mark:
    """The difference of an answer with its errors, or a word in its place."""
    difference, is_two_step = row["difference"], row["is_two_step"]
    if not np.isfinite(difference):
        note = "refused" if row["refused"] else NOT_FINITE.get(difference, "no difference")
        return mark("text", 0, place, f" {note}", va="center", color=INK)
    look = looks([is_two_step])[0] | {"linestyle": "none", "label": ANSWER_NAMES[is_two_step]}
    return mark("errorbar", difference, place, xerr=2 * np.nan_to_num(row["standard_error"]), capsize=2.5, **look)


def _differences(result: Comparison | Study) -> tuple[pd.DataFrame, str]:
    """A line for each answer with its difference, label and number of steps; and from which answer differences are."""
    if isinstance(result, Study):
        two_step, sizes = result.two_step, ", " + result.summary["size"].astype(str)
        table = result.summary.assign(refused=result.summary["repeats"] == 0, size=sizes)
        origins = [" · ".join(pair) for pair in result.references.values()]
    else:
        origin, two_step = reference(result.scored), {(a.method, a.rule) for a in result.answers if a.two_step}
        if not (origin.is_map or origin.is_mean):
            raise PredictionError(
                "Differences are taken from the MAP() plug-in, or from the plug-in at a posterior mean, and the "
                "comparison has neither: see comparison.differences."
            )
        table, from_mean = result.table.assign(size=""), "" if origin.is_map else "_from_mean"
        table = table.assign(**{name: table[name + from_mean] for name in ("difference", "standard_error")})
        origins = [f"{origin.method} · {origin.rule}"]
    table = _with_names(table, two_step)
    model = table["model"] + ": " if table["model"].nunique() > 1 else ""
    return table.assign(label=model + table["name"] + table["size"]), " or ".join(dict.fromkeys(origins))


def _with_names(table: pd.DataFrame, two_step: set[tuple[str, str]]) -> pd.DataFrame:
    """Scores with the name of each answer, and whether it is of two steps; None for the true process."""
    names = table[["model", "method", "rule"]].itertuples(index=False, name=None)
    steps = [None if model == TRUTH else (method, rule) in two_step for model, method, rule in names]
    name = table["method"].where(table["model"] == TRUTH, table["method"] + " · " + table["rule"])
    return table.assign(name=name, is_two_step=pd.Series(steps, table.index, object))


def learning_curves(
    studies: Study | Mapping[str, Study], *, ax: GivenAxes = None, width: float | None = None
) -> Figure:
    """Mean log scores by size with bands of a standard error, and beside them paired differences with theirs.

    There is a row of two panels for each model of each study. Sizes at which an answer is refused in all repeats, or
    lies below the panel, are named below it.

    Args:
        studies: a study, or title -> study.
        ax: axes to draw in, two for each model; None for a new figure.
        width: of a new figure in inches; panels stand below each other where it is too narrow.
    """
    by_title = {"": studies} if isinstance(studies, Study) else studies
    abouts = dict.fromkeys(study.about_errors for study in by_title.values())
    rows = [
        [_curve_panel(study, model, *columns).named(title) for columns in CURVES]
        for title, study in by_title.items()
        for model in study.references
        if model != TRUTH
    ]
    return draw(rows, ax, width=width, height=2.7, note=" ".join(["Bands: one standard error.", *abouts]))


def _curve_panel(study: Study, model: str, column: str, error: str, ylabel: str) -> Panel:
    """A column of a study's summary by size, a curve for each answer with a band of its error; what lacks, in words."""
    table = _with_names(study.summary[study.summary["model"].isin([model, TRUTH])], study.two_step)
    ends, sizes = _limits(table, column, error), table["size"].unique()
    curves: Any = [curve for _, curve in table.groupby(["model", "name"], sort=False)]
    marks, notes = [mark("set_xscale", "log", subs=[]), mark("axhline", 0, color=GREY, linewidth=0.8, zorder=0)], []
    for curve, look in zip(curves, looks(curve["is_two_step"].iloc[0] for curve in curves), strict=True):
        name, is_scored = curve["name"].iloc[0], curve["repeats"] > 0
        absent = {"refused": ~is_scored, "below the panel": is_scored & ~(curve[column] >= ends[0])}
        notes += [f"{name} {why} at {', '.join(map(str, curve['size'][at]))}" for why, at in absent.items() if at.any()]
        drawn = curve[np.isfinite(curve[column])].sort_values("size")
        size, middle, half = (drawn[key].to_numpy(float) for key in ("size", column, error))
        is_two_step = curve["is_two_step"].iloc[0]
        label = f"{name}: {ANSWER_NAMES[is_two_step]}" if is_two_step is not None else ANSWER_NAMES[None]
        marks += curve_in_band(size, middle, (middle - half, middle + half), {**look, "label": label})
    unit = f"training rows{' of each class' * study.config['per_class']}"
    return Panel(
        marks,
        xlabel="\n".join([unit, *(textwrap.fill(note, NOTE_LETTERS) for note in notes)]),
        ylabel=ylabel.format(" · ".join(study.references[model])),
        title=model,
        settings={"xticks": sizes, "xticklabels": sizes, "ylim": ends},
    )


def _limits(curves: pd.DataFrame, column: str, error: str) -> tuple[float, float]:
    """The ends of a panel: it holds at each size half of the answers, those that are far below them perhaps not."""
    finite = curves[np.isfinite(curves[column].astype(float))].fillna({error: 0.0})
    if finite.empty:
        return -1.0, 1.0
    middle = finite.groupby("size")[column].quantile(0.5, interpolation="lower").min()  # of two, the lower
    lowest = max(middle - 0.5 * (finite[column].max() - middle), finite[column].min())
    shown = finite[finite[column] >= lowest]
    highest = (shown[column] + shown[error]).max()
    margin = 0.05 * max(highest - lowest, 0.01)
    return float(lowest - margin), float(highest + margin)


def prequential(result: Prequential, *, ax: GivenAxes = None, width: float | None = None) -> Figure:
    """Mean log scores over sequences, by row; of one sequence, means over successive rows.

    Args:
        result: predictions of rows from the rows before them.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    num_rows = result.log_scores.shape[-1]
    scores = result.log_scores.reshape(len(result.pairs), -1, num_rows)
    window = max(1, num_rows // 20) if scores.shape[1] == 1 else 1
    means = [pd.DataFrame(table).mean().rolling(window, min_periods=1).mean() for table in scores]  # of scored rows
    labels = [f"{pair}: {ANSWER_NAMES[step]}" for pair, step in zip(result.pairs, result.two_step, strict=True)]
    marks = [
        mark("plot", range(num_rows), mean.to_numpy(), label=label, markevery=max(1, num_rows // 8), **look)
        for mean, label, look in zip(means, labels, looks(result.two_step), strict=True)
    ]
    panel = Panel(marks, "rows learned before", "log p(y | x, rows before)\n(nats; higher is better)")
    return draw([[panel]], ax, width=width, height=2.6)


def calibration(result: Calibration, *, ax: GivenAxes = None, width: float | None = None) -> Figure:
    """Empirical distribution functions (ECDF) of the ranks of true values, minus that of uniform ones.

    The band holds the whole curve of one quantity with probability 0.95. Curves that failed a test have names.

    Args:
        result: a calibration by simulation.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    curves, failed = result.ecdf_curves(), result.table.loc[~result.table["passed"], "quantity"]
    lines, right = itertools.cycle(["-", "--", ":", "-."]), {"color": GREY, "linewidth": 0.8}
    looks_of_failed = {name: {"color": INK, "linestyle": next(lines), "label": f"{name}: failed"} for name in failed}
    ends, band = (curves.pop("lower"), curves.pop("upper")), {"label": "band of right curves, 95 %"}
    marks = [
        mark("fill_between", curves.index, *ends, color=FAINT, step="mid", linewidth=0, **band),
        *(mark("plot", curves.index, curves[name], **looks_of_failed.get(name, right)) for name in curves),
    ]
    panel = Panel(marks, "share of posterior draws below the true value", "ECDF minus that\nof uniform shares")
    return draw([[panel]], ax, width=width, height=2.6)
