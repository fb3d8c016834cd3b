"""The style of all figures: colours, lines and words of the two answers, panels and legends, and files."""

import contextlib
import dataclasses
import io
import itertools
import math
import operator
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from bayesgen.errors import DataError
from bayesgen.evaluation import Answer
from bayesgen.typing import Float

# The two answers have one colour each in every figure, from the palette of Okabe and Ito for colour-blind readers. In
# grey they differ by their lines and markers.
ONE_STEP, TWO_STEP = "#0072B2", "#D55E00"
AVERAGE_NAME, BEST_NAME, MEAN_NAME = (
    "averaged over processes (one step)",
    "best process (two steps)",
    "mean process (two steps)",
)
# Whether an answer is of two steps, or None for the true process -> its name; its colour, lines and markers in turn.
ANSWER_NAMES = {False: AVERAGE_NAME, True: "one process (two steps)", None: "true process"}
ANSWER_STYLES: Mapping[bool | None, tuple[Sequence[Any], ...]] = {
    False: ([ONE_STEP], ("-", (0, (7, 1.5)), (0, (7, 1.5, 1, 1.5))), "oDP"),
    True: ([TWO_STEP], ("--", ":", "-.", (0, (1, 2.5))), "s^vX"),
    None: (["black"], ((0, (3, 1, 1, 1, 1, 1)),), "*"),
}
INK, GREY, FAINT = "0.1", "0.5", "0.88"
# Classes, components and states: the rest of the palette, with lightness that differs in grey.
CLASS_COLORS = ("#009E73", "#F0E442", "#882255", "#56B4E9", "#E69F00", "#000000")
CLASS_MARKERS, CLASS_HATCHES = "os^DvPX", ("", "////", "....", "\\\\\\\\", "xx", "--")
STYLE = {
    "figure.dpi": 130,
    "savefig.dpi": 200,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.handletextpad": 0.5,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "0.3",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "text.parse_math": False,  # names of users may hold dollar signs
    "pdf.fonttype": 42,  # letters that stay letters
}
PANEL, LEAST_PANEL, PAGE = 3.5, 2.9, 7.0  # widths in inches: of one panel, at least, and of all panels of a row
LETTER, HANDLE, LINE = 0.063, 0.5, 0.175  # of legends in inches: width of a letter and of a handle, height of a line

GivenAxes: TypeAlias = Axes | Sequence[Axes] | np.ndarray | None
Look: TypeAlias = Mapping[str, Any]  # colour, line, marker and label, as `Axes.plot` takes them
Mark: TypeAlias = Callable[[Axes], Any]  # draws in axes
mark: Callable[..., Mark] = operator.methodcaller  # by a method of `Axes`, with these arguments


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel to be drawn.

    Attributes:
        marks: what is drawn, in this order.
        xlabel, ylabel, title: of the axes.
        settings: limits and ticks, as `Axes.set` takes them.
    """

    marks: Iterable[Mark]
    xlabel: str
    ylabel: str
    title: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def named(self, name: str) -> "Panel":
        """The panel with a name above its title."""
        return dataclasses.replace(self, title="\n".join(filter(None, [name, self.title])))

    def draw_in(self, axes: Axes) -> None:
        """Draw in these axes."""
        for draw_mark in self.marks:
            draw_mark(axes)
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel, title=self.title, **self.settings)


class Figure(matplotlib.figure.Figure):
    """A figure that a notebook shows where it is the last line of a cell, and that pyplot knows nothing of."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, twice as fine as it is large on the screen."""
        return png(self, 2 * self.dpi), {"width": round(self.dpi * self.get_figwidth())}


def png(figure: matplotlib.figure.Figure, dpi: float) -> bytes:
    """A figure as PNG."""
    picture = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(picture, format="png", dpi=dpi)
    return picture.getvalue()


@contextlib.contextmanager
def drawing(
    ax: GivenAxes = None,
    num_rows: int = 1,
    num_columns: int = 1,
    *,
    width: float | None = None,
    height: float = 2.4,
    least: float = LEAST_PANEL,
    note: str = "",
    **options: Any,
) -> Iterator[tuple[matplotlib.figure.Figure, np.ndarray]]:
    """A figure and its panels, (rows, columns), in the style of the package; a legend is added at the end.

    A figure that is made here has its legend below the panels. Settings of matplotlib are changed until the end alone.

    Args:
        ax: axes to draw in: one, or an array of as many as there are panels; None for a new figure.
        num_rows, num_columns: of panels.
        width: of a new figure in inches. Panels for which a row is too narrow stand below each other.
        height: of a panel in inches.
        least: width of a panel in inches, at least.
        note: a sentence above the legend.
        options: of `Figure.subplots`.

    Raises:
        DataError: another number of axes than of panels.
    """
    total = num_rows * num_columns
    with matplotlib.rc_context(STYLE):
        if ax is None:
            width = width or min(PANEL * num_columns, PAGE)
            per_row = max(1, min(num_columns, int(width // least)))
            if per_row < num_columns:
                per_row, options = per_row if num_rows == 1 else 1, {}
            lines = math.ceil(total / per_row)
            figure: Any = Figure(figsize=(width, height * lines), layout="constrained")
            panels = figure.subplots(lines, per_row, squeeze=False, **options).ravel()
            for unused in panels[total:]:
                unused.remove()
        else:
            panels = np.ravel(np.asarray(ax, object))
            if len(panels) != total:
                raise DataError(f"ax has {len(panels)} axes, and there are {total} panels. Give one for each.")
            figure = panels[0].get_figure(root=True)
        panels = panels[:total].reshape(num_rows, num_columns)
        yield figure, panels
        _add_legend(figure, panels.ravel(), ax is None, note)


def draw(rows: Sequence[Sequence[Panel]], ax: GivenAxes, **options: Any) -> matplotlib.figure.Figure:
    """A figure of rows of panels, with the options of `drawing`."""
    with drawing(ax, len(rows), len(rows[0]), **options) as (figure, axes):
        for panel, panel_axes in zip((panel for row in rows for panel in row), axes.flat, strict=True):
            panel.draw_in(panel_axes)
    return figure


def _add_legend(figure: Any, panels: Sequence[Axes], is_new: bool, note: str) -> None:
    """The entries of all panels, each once: below a new figure, or in the first of the axes that were given."""
    entries = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if entries and not is_new:
        panels[0].legend(entries.values(), entries)
    elif entries:
        width = figure.get_figwidth()
        labels = [textwrap.fill(label, int((width - HANDLE) / LETTER)) for label in entries]
        longest = max(len(line) for label in labels for line in label.splitlines())
        columns = max(1, min(len(labels), int(width / (LETTER * longest + HANDLE))))
        title = "\n".join(textwrap.wrap(note, int(width / LETTER)))
        num_lines = sum(label.count("\n") + 1 for label in labels) / columns + title.count("\n") + bool(title)
        figure.set_figheight(figure.get_figheight() + LINE * math.ceil(num_lines))
        figure.legend(
            entries.values(),
            labels,
            title=title,
            loc="outside lower center",
            ncols=columns,
            alignment="left",
            title_fontsize=8.5,
        )


def looks(are_two_step: Iterable[bool | None]) -> list[dict[str, Any]]:
    """Colour, line and marker of answers, no two alike, that are of two steps or of one; None for the true process."""
    cycles = {kind: zip(*map(itertools.cycle, ANSWER_STYLES[kind]), strict=True) for kind in ANSWER_STYLES}
    styles = [(next(cycles[is_two_step]), is_two_step) for is_two_step in are_two_step]
    return [  # broken lines stay visible above others
        {"color": color, "linestyle": line, "marker": marker, "zorder": 2.2 if is_two_step else 2.1}
        for (color, line, marker), is_two_step in styles
    ]


def drawn_answers(answers: Sequence[Answer]) -> list[tuple[Answer, Look]]:
    """Answers with their looks and labels, no two alike."""
    words, styles = [words_for(answer) for answer in answers], looks(answer.two_step for answer in answers)
    details = [f", {answer.method} · {answer.rule}" for answer in answers]
    labels = [word + detail * (words.count(word) > 1) for word, detail in zip(words, details, strict=True)]
    return [(answer, {**look, "label": label}) for answer, look, label in zip(answers, styles, labels, strict=True)]


def words_for(answer: Answer) -> str:
    """What an answer is, in words."""
    return (MEAN_NAME if answer.is_mean else BEST_NAME) if answer.two_step else AVERAGE_NAME


def class_look(code: int) -> dict[str, str]:
    """Colour, marker and hatch of a class, a component or a state."""
    cycles = {"color": CLASS_COLORS, "marker": CLASS_MARKERS, "hatch": CLASS_HATCHES}
    return {name: cycle[code % len(cycle)] for name, cycle in cycles.items()}


def curve_in_band(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], ends: Sequence[Any], look: Look
) -> list[Mark]:
    """A curve in front of the band between two ends, in its colour."""
    return [mark("fill_between", x, *ends, color=look["color"], alpha=0.14, linewidth=0), mark("plot", x, y, **look)]


def draw_diagonal(panel: Axes) -> None:
    """The line of equal probabilities, and axes of probabilities from the lowest that is drawn to 1."""
    ends = max(0.0, min(panel.dataLim.min)) - 0.03, 1.03
    panel.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
    panel.set(xlim=ends, ylim=ends)  # no equal aspect, for which the first layout of a figure is wrong


def save_figure(figure: matplotlib.figure.Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and as PNG, too."""
    with matplotlib.rc_context(STYLE):
        for file in dict.fromkeys((path, path.with_suffix(".png"))):
            figure.savefig(file)
