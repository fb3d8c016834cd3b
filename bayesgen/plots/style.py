"""The style of all figures: colours, lines and words of the two answers, panels and legends, and files."""

import contextlib
import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from bayesgen.errors import DataError

# The two answers have one colour each in every figure, from the palette of Okabe and Ito for colour-blind readers. In
# grey they differ by their lines and markers.
ONE_STEP, TWO_STEP = "#0072B2", "#D55E00"
ONE_STEP_NAME, ONE_PROCESS_NAME = "averaged over processes (one step)", "one process (two steps)"
BEST_NAME, MEAN_NAME, TRUTH_NAME = "best process (two steps)", "mean process (two steps)", "true process"
ONE_STEP_LINES, TWO_STEP_LINES = ("-", (0, (7, 1.5)), (0, (7, 1.5, 1, 1.5))), ("--", ":", "-.", (0, (1, 2.5)))
ONE_STEP_MARKERS, TWO_STEP_MARKERS = "oDP", "s^vX"
INK, GREY, FAINT = "0.1", "0.5", "0.88"
# Classes, components and states: the rest of the palette, with lightness that differs in grey.
CLASS_COLORS = ("#009E73", "#F0E442", "#882255", "#56B4E9", "#E69F00", "#000000")
CLASS_MARKERS, CLASS_HATCHES = "os^DvPX", ("", "////", "....", "\\\\\\\\", "xx", "--")
STYLE = {
    "figure.dpi": 130,
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
    "pdf.fonttype": 42,  # letters that stay letters
}
PANEL, LEAST_PANEL, PAGE = 3.5, 2.9, 7.0  # widths in inches: of one panel, at least, and of all panels of a row
LETTER, HANDLE, LINE = 0.063, 0.5, 0.175  # of legends in inches: width of a letter and of a handle, height of a line
FILE_DPI = 200


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
    ax: Any = None,
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
            width = min(PANEL * num_columns, PAGE) if width is None else width
            per_row = max(1, min(num_columns, int(width // least)))
            per_row = per_row if num_rows == 1 or per_row == num_columns else 1
            lines = math.ceil(total / per_row)
            figure: Any = Figure(figsize=(width, height * lines), layout="constrained")
            options = options if (lines, per_row) == (num_rows, num_columns) else {}
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
        style: Any = {"loc": "outside lower center", "ncols": columns, "alignment": "left"}
        figure.legend(entries.values(), labels, title=title, title_fontsize=8.5, **style)


def looks(are_two_step: Iterable[bool | None]) -> list[dict[str, Any]]:
    """Colour, line and marker of answers, no two alike, that are of two steps or of one; None for the true process."""
    counts, styles = dict[bool | None, int](), list[dict[str, Any]]()
    for is_two_step in are_two_step:
        index = counts[is_two_step] = counts.get(is_two_step, -1) + 1
        color, lines, markers = {
            None: ("black", ((0, (3, 1, 1, 1, 1, 1)),), "*"),
            False: (ONE_STEP, ONE_STEP_LINES, ONE_STEP_MARKERS),
            True: (TWO_STEP, TWO_STEP_LINES, TWO_STEP_MARKERS),
        }[is_two_step]
        line, marker = lines[index % len(lines)], markers[index % len(markers)]
        zorder = 2.2 if is_two_step else 2.1  # broken lines stay visible above others
        styles.append({"color": color, "linestyle": line, "marker": marker, "zorder": zorder})
    return styles


def save_figure(figure: matplotlib.figure.Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and as PNG, too."""
    with matplotlib.rc_context(STYLE):
        for file in dict.fromkeys((path, path.with_suffix(".png"))):
            figure.savefig(file, dpi=FILE_DPI)
