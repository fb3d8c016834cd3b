"""Figures of comparisons, drawn by matplotlib where it is installed."""

import itertools
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from bayesgen.evaluation import Comparison, Scored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = np.linspace(0.0, 1.0, 101)
ONE_STEP, TWO_STEP = "#3b6ea5", "#d1662b"  # the colours of answers in every figure
LINES = ("-", "--", ":", "-.")  # of several answers with the same colour


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def coverage_figure(comparison: Comparison) -> "Figure":
    """Empirical coverage of central intervals against their probability, one panel for each model.

    A curve below the diagonal means overconfidence, one above it underconfidence. The grey band holds 95 % of the
    curves of calibrated forecasts of as many rows, at each probability separately.

    Args:
        comparison: a comparison of predictions of numbers.
    """
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(one.answer.model for one in comparison.scored))
    figure = Figure(figsize=(1.0 + 4.0 * len(models), 4.6))
    figure.set_layout_engine("constrained", wspace=0.06)  # keeps numbers at the ends of axes from overlapping
    panels = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for panel, model in zip(panels, models, strict=True):
        _draw(panel, [one for one in comparison.scored if one.answer.model == model], len(comparison.rows))
        panel.set_title(model)
    panels[0].set_ylabel("share of test rows whose truth it holds")
    return figure


def _draw(panel: "Axes", given: list[Scored], num_rows: int) -> None:
    """The curves of the answers of one model."""
    low, high = (stats.binom.ppf(p, num_rows, _LEVELS) / num_rows for p in (0.025, 0.975))
    panel.fill_between(_LEVELS, low, high, color="0.9", label="calibrated: 95 % of curves")
    panel.plot(_LEVELS, _LEVELS, color="0.6", linewidth=1)
    lines = {ONE_STEP: itertools.cycle(LINES), TWO_STEP: itertools.cycle(LINES)}
    for one in given:
        distances = np.nan_to_num(
            np.abs(2 * one.row_scores["pit"] - 1), nan=np.inf
        )  # impossible rows are in no interval
        shares = np.searchsorted(np.sort(distances), _LEVELS, side="right") / num_rows
        answer = one.answer
        step = "two-step" if answer.two_step else "one-step"
        color = TWO_STEP if answer.two_step else ONE_STEP
        label = f"{step}: {answer.method} · {answer.rule}"
        panel.plot(_LEVELS, shares, next(lines[color]), color=color, label=label)
    panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability of the central interval")
    panel.xaxis.set_major_formatter("{x:.0%}")
    panel.yaxis.set_major_formatter("{x:.0%}")
    panel.legend(loc="upper left", fontsize="small", frameon=False)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the path's suffix, and as PNG, too."""
    for file in dict.fromkeys((path, path.with_suffix(".png"))):
        figure.savefig(file, dpi=150)
