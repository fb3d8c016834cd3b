"""Figures of studies, of predictions row after row, and of calibration by simulation."""

import itertools
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesgen.evaluation import TRUTH, Calibration, Prequential, Study

from .answers import Panels
from .style import FAINT, GREY, INK, ONE_PROCESS_NAME, ONE_STEP_NAME, TRUTH_NAME, TWO_STEP, drawing, looks

NOTE_LETTERS = 34  # in a line below a panel


def learning_curves(studies: Study | Mapping[str, Study], *, ax: Panels = None, width: float | None = None) -> Figure:
    """Mean log scores by size with bands of a standard error, and beside them paired differences with theirs.

    There is a row of two panels for each model of each study. Sizes at which an answer is refused in all repeats, or
    lies below the panel, are named below it.

    Args:
        studies: a study, or title -> study.
        ax: axes to draw in, two for each model; None for a new figure.
        width: of a new figure in inches; panels stand below each other where it is too narrow.
    """
    by_title = {"": studies} if isinstance(studies, Study) else studies
    models = {title: [model for model in study.references if model != TRUTH] for title, study in by_title.items()}
    columns = [(title, by_title[title], model) for title in models for model in models[title]]
    about = " ".join(["Bands: one standard error.", *dict.fromkeys(study.about_errors for study in by_title.values())])
    with drawing(ax, len(columns), 2, width=width, height=2.7, note=about) as (figure, panels):
        for (title, study, model), (scores, differences) in zip(columns, panels, strict=True):
            table = study.summary[study.summary["model"].isin([model, TRUTH])]
            for panel, column, error in (
                (scores, "log_score", "log_score_error"),
                (differences, "difference", "standard_error"),
            ):
                unit = f"training rows{' of each class' * study.config['per_class']}"
                notes = _draw_curves(panel, table, study.two_step, column, error)
                panel.set_xlabel("\n".join([unit, *(textwrap.fill(note, NOTE_LETTERS) for note in notes)]))
            name = title if len(models[title]) == 1 else f"{title} · {model}"
            scores.set_title(name if title else model)
            scores.set_ylabel("mean log score of test rows\n(nats a row; higher is better)")
            differences.axhline(0, color=GREY, linewidth=0.8, zorder=0)
            reference = " · ".join(study.references[model])
            differences.set_ylabel(f"difference from {reference}\n(nats a row)")
    return figure


def _draw_curves(
    panel: Axes, table: pd.DataFrame, two_step: set[tuple[str, str]], column: str, error: str
) -> Iterator[str]:
    """Draw a column of the table by size, a curve for each answer with a band of its error; what lacks, in words."""
    lowest, highest = _limits(table, column, error)
    sizes = list(table["size"].unique())
    groups: Any = list(table.groupby(["model", "method", "rule"], sort=False))
    steps = [None if model == TRUTH else (method, rule) in two_step for (model, method, rule), _ in groups]
    for ((_, method, rule), curve), is_two_step, look in zip(groups, steps, looks(steps), strict=True):
        name, words = (
            f"{method} · {rule}",
            {None: TRUTH_NAME, True: ONE_PROCESS_NAME, False: ONE_STEP_NAME}[is_two_step],
        )
        is_scored = curve["repeats"] > 0
        absent = {"refused": ~is_scored, "below the panel": is_scored & ~(curve[column] >= lowest)}
        for reason, here in absent.items():
            if here.any():
                yield f"{name} {reason} at {', '.join(map(str, curve['size'][here]))}"
        drawn = curve[np.isfinite(curve[column])].sort_values("size")
        x, middle, width = (drawn[key].to_numpy(float) for key in ("size", column, error))
        panel.plot(x, middle, label=words if is_two_step is None else f"{name}: {words}", **look)
        panel.fill_between(x, middle - width, middle + width, color=look["color"], alpha=0.15, linewidth=0)
    panel.set_xscale("log")
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.minorticks_off()
    panel.set_ylim(lowest, highest)


def _limits(curves: pd.DataFrame, column: str, error: str) -> tuple[float, float]:
    """The ends of a panel: it holds at each size half of the answers, those that are far below them perhaps not."""
    values = curves[column].astype(float)
    finite = values[np.isfinite(values)]
    if finite.empty:
        return -1.0, 1.0
    middle = finite.groupby(curves["size"]).median().min()
    bottom = max(middle - 0.5 * (finite.max() - middle), finite.min())
    shown = curves.loc[finite.index[finite >= bottom]]
    highest = (shown[column] + shown[error].fillna(0.0)).max()
    margin = 0.05 * max(highest - bottom, 0.01)
    return float(bottom - margin), float(highest + margin)


def prequential(result: Prequential, *, ax: Panels = None, width: float | None = None) -> Figure:
    """Mean log scores over sequences, by row; of one sequence, means over successive rows.

    Args:
        result: predictions of rows from the rows before them.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    with drawing(ax, width=width, height=2.6) as (figure, ((panel,),)):
        num_rows = result.log_scores.shape[-1]
        scores = result.log_scores.reshape(len(result.pairs), -1, num_rows)
        for name, look, pair_scores in zip(result.pairs, looks(result.two_step), scores, strict=True):
            mean = pd.DataFrame(pair_scores).mean()  # of rows that have a score
            if len(pair_scores) == 1:
                mean = mean.rolling(max(1, num_rows // 20), min_periods=1).mean()
            words = ONE_PROCESS_NAME if look["color"] == TWO_STEP else ONE_STEP_NAME
            panel.plot(
                np.arange(num_rows), mean.to_numpy(), label=f"{name}: {words}", markevery=max(1, num_rows // 8), **look
            )
        panel.set(xlabel="rows learned before", ylabel="log p(y | x, rows before)\n(nats; higher is better)")
    return figure


def calibration(result: Calibration, *, ax: Panels = None, width: float | None = None) -> Figure:
    """Empirical distribution functions (ECDF) of the ranks of true values, minus that of uniform ones.

    The band holds the whole curve of one quantity with probability 0.95. Curves that failed a test have names.

    Args:
        result: a calibration by simulation.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    with drawing(ax, width=width, height=2.6) as (figure, ((panel,),)):
        curves, failed = result.ecdf_curves(), {*result.table.loc[~result.table["passed"], "quantity"]}
        band = {"color": FAINT, "step": "mid", "linewidth": 0, "label": "band of right curves, 95 %"}
        panel.fill_between(curves.index, curves.pop("lower"), curves.pop("upper"), **band)
        lines = itertools.cycle(["-", "--", ":", "-."])
        for name, curve in curves.items():
            look: Any = {"color": GREY, "linewidth": 0.8}
            if name in failed:
                look = {"color": INK, "linestyle": next(lines), "label": f"{name}: failed"}
            panel.plot(curve.index, curve, **look)
        panel.set(xlabel="share of posterior draws below the true value", ylabel="ECDF minus that\nof uniform shares")
    return figure
