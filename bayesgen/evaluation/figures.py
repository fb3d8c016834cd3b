"""Figures of comparisons, studies, sequences and calibrations."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from bayesgen.typing import Float

from .answers import Answer
from .comparison import TRUTH, Comparison
from .uniformity import band, counts_below, grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = np.linspace(0.0, 1.0, 101)
ONE_STEP, TWO_STEP = "#3b6ea5", "#d1662b"  # the colours of answers in every figure
LINES = ("-", "--", ":", "-.")  # of several answers with the same colour


def coverage_figure(comparison: Comparison) -> "Figure":
    """Empirical coverage of central intervals against their probability, one panel for each model.

    A curve below the diagonal means overconfidence, one above it underconfidence. The grey band holds 95 % of the
    curves of calibrated forecasts of as many rows, at each probability separately.

    Args:
        comparison: a comparison of predictions of numbers.
    """
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(answer.model for answer in comparison.scored))
    figure = Figure(figsize=(1.0 + 4.0 * len(models), 4.6))
    figure.set_layout_engine("constrained", wspace=0.06)  # keeps numbers at the ends of axes from overlapping
    panels = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for panel, model in zip(panels, models, strict=True):
        _draw(panel, [answer for answer in comparison.scored if answer.model == model], len(comparison.rows))
        panel.set_title(model)
    panels[0].set_ylabel("share of test rows whose truth it holds")
    return figure


def _draw(panel: "Axes", answers: list[Answer], num_rows: int) -> None:
    """The curves of the answers of one model."""
    low, high = (stats.binom.ppf(p, num_rows, _LEVELS) / num_rows for p in (0.025, 0.975))
    panel.fill_between(_LEVELS, low, high, color="0.9", label="calibrated: 95 % of curves")
    panel.plot(_LEVELS, _LEVELS, color="0.6", linewidth=1)
    lines = {ONE_STEP: itertools.cycle(LINES), TWO_STEP: itertools.cycle(LINES)}
    for answer in answers:
        pit = answer.rows["pit"].to_numpy()
        distances = np.nan_to_num(np.abs(2 * pit - 1), nan=np.inf)  # impossible rows are in no interval
        shares = np.searchsorted(np.sort(distances), _LEVELS, side="right") / num_rows
        step, color = ("two-step", TWO_STEP) if answer.two_step else ("one-step", ONE_STEP)
        label = f"{step}: {answer.method} · {answer.rule}"
        panel.plot(_LEVELS, shares, next(lines[color]), color=color, label=label)
    panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability of the central interval")
    panel.xaxis.set_major_formatter("{x:.0%}")
    panel.yaxis.set_major_formatter("{x:.0%}")
    panel.legend(loc="upper left", fontsize="small", frameon=False)


def learning_curves(studies: Mapping[str, Any]) -> "Figure":
    """Mean log scores by size with bands of a standard error, and below paired differences with theirs.

    There is a column of panels for each model of each study. Sizes at which an answer is refused in all repeats, or
    lies below the panel, are named in the legend.

    Args:
        studies: title -> `Study`.
    """
    from matplotlib.figure import Figure

    models = {title: [model for model in study.references if model != TRUTH] for title, study in studies.items()}
    columns = [(title, studies[title], model) for title in models for model in models[title]]
    figure = Figure(figsize=(1.2 + 4.6 * len(columns), 7.2), layout="constrained")
    panels = figure.subplots(2, len(columns), squeeze=False, sharex="col", height_ratios=(3, 2))
    for (title, study, model), (scores, differences) in zip(columns, panels.T, strict=True):
        table = study.summary[study.summary["model"].isin([model, TRUTH])]
        _draw_curves(scores, table, study.two_step, "log_score", "log_score_error")
        _draw_curves(differences, table, study.two_step, "difference", "standard_error")
        name = title if len(models[title]) == 1 else f"{title} · {model}"
        scores.set_title(name if title else model)
        scores.legend(fontsize="small", framealpha=0.85, edgecolor="none", loc="lower right")
        differences.axhline(0, color="0.6", linewidth=1, zorder=0)
        reference = " + ".join(study.references[model])
        unit = "training rows of each class" if study.config["per_class"] else "training rows"
        differences.set(ylabel=f"difference from\n{reference}", xlabel=unit)
    panels[0, 0].set_ylabel("mean log score of test rows (higher is better)")
    notes = ["Bands: one standard error.", *dict.fromkeys(study.about_errors for study in studies.values())]
    figure.supxlabel("\n".join(notes), fontsize="small", color="0.3")
    return figure


def _draw_curves(panel: "Axes", table: pd.DataFrame, two_step: set[tuple[str, str]], column: str, error: str) -> None:
    """A column of the table by size, a curve for each answer, with bands of its error."""
    lowest, highest = _limits(table, column, error)
    lines = {color: itertools.cycle(LINES) for color in (ONE_STEP, TWO_STEP, "black")}
    sizes = list(table["size"].unique())
    for (model, method, rule), curve in table.groupby(["model", "method", "rule"], sort=False):
        color = "black" if model == TRUTH else TWO_STEP if (method, rule) in two_step else ONE_STEP
        is_scored = curve["repeats"] > 0
        absent = {"refused": ~is_scored, "below": is_scored & ~(curve[column] >= lowest)}
        notes = [f"{why} at {', '.join(map(str, curve['size'][here]))}" for why, here in absent.items() if here.any()]
        label = "; ".join(["true process" if model == TRUTH else f"{method} · {rule}", *notes])
        drawn = curve[np.isfinite(curve[column])].sort_values("size")
        x, middle, width = (drawn[name].to_numpy(float) for name in ("size", column, error))
        panel.plot(x, middle, next(lines[color]), color=color, marker="o", markersize=3, label=label)
        panel.fill_between(x, middle - width, middle + width, color=color, alpha=0.15, linewidth=0)
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


def rank_curves(
    fractions: Mapping[str, Float[np.ndarray, " simulations"]], num_simulations: int, named: set[str], ax: "Axes | None"
) -> "Axes":
    """Empirical distribution functions of fractions minus that of uniform ones, and the band of right curves.

    Args:
        fractions: quantity -> values from 0 to 1.
        num_simulations: number of values of a quantity.
        named: the quantities whose curves have names.
        ax: where they are drawn; None for a new figure.
    """
    axes = panel(ax, "fraction of posterior draws below the truth", "ECDF minus uniform")
    points = grid(num_simulations)
    low, high = band(num_simulations, 0.95)
    axes.fill_between(points, low - points, high - points, color="0.9", step="mid", label="95 % of right curves")
    for name, values in fractions.items():
        style: dict[str, Any] = {"label": name} if name in named else {"color": "0.5", "linewidth": 0.8}
        axes.plot(points, counts_below(values) / num_simulations - points, **style)
    axes.legend()
    return axes


def panel(ax: "Axes | None", xlabel: str, ylabel: str) -> "Axes":
    """The axes, or those of a new figure, with labels."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(6.4, 4.0), layout="constrained").subplots() if ax is None else ax
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return axes


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the path's suffix, and as PNG, too."""
    for file in dict.fromkeys((path, path.with_suffix(".png"))):
        figure.savefig(file, dpi=150)
