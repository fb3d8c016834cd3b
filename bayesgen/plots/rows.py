"""Figures of the answers of one fit over its columns, rows and time steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from bayesgen.data import read_table
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, PredictionError
from bayesgen.evaluation import answers_of_fit, both_answers
from bayesgen.fitting import Fit
from bayesgen.prediction import ClassPrediction, Rule, named_classes
from bayesgen.typing import Data, Float, Int, Shaped, Values

from .answers import Panels, class_table, drawn_answers
from .style import CLASS_COLORS, CLASS_HATCHES, CLASS_MARKERS, FAINT, GREY, INK, ONE_STEP, PANEL, drawing

MARGIN = 0.08  # of a range, beyond the rows
MOST_LEAD = 500.0  # of a class over others in log probability, for borders
SURE = 0.9  # the probability whose border is drawn


def decision_regions(
    fit: Fit,
    X: Data,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    columns: Sequence[str] | None = None,
    resolution: int = 150,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """The most probable class over two columns, a panel for each answer; hatched where the answers differ.

    Thin lines are borders between classes. Thick lines enclose the points whose most probable class has at least the
    probability 0.9. All other columns are missing, and so marginalised.

    Args:
        fit: a fit of classes.
        X, y: rows to show, whose range is drawn, and their labels.
        rules: the rules of prediction; None for the plug-in and the average.
        columns: names of two columns of numbers; None for the first two.
        resolution: number of points along each axis.
        ax: axes to draw in, one for each rule; None for a new figure.
        width: of a new figure in inches; panels stand below each other where it is too narrow.
    """
    names, cells = _numbers(X, columns, 2)
    ends = [_ends(column) for column in cells]
    x, y_values = (np.linspace(*end, resolution) for end in ends)
    points = dict(zip(names, map(np.ravel, np.meshgrid(x, y_values)), strict=True))
    rows = {name: points.get(name, np.full(resolution**2, np.nan)) for name in read_table(X).names}
    answers = answers_of_fit(fit, both_answers(fit, rules), rows).answers
    tables = [class_table(answer.prediction).reshape(resolution, resolution, -1) for answer in answers]
    classes = np.stack([named_classes(table.reshape(resolution**2, -1)).reshape(table.shape[:2]) for table in tables])
    differs = (classes != classes[0]).any(0).astype(float)
    codes: Any = np.full(len(cells[0]), -1) if y is None else fit.schema.label_codes(y)
    with drawing(ax, 1, len(answers), width=width, height=2.9, sharey=True) as (figure, ((*panels,),)):
        for panel, (_, label, look), table, named in zip(panels, drawn_answers(answers), tables, classes, strict=True):
            tints = [0.45 * np.array(to_rgb(color)) + 0.55 for color, _ in map(_look, range(len(fit.classes)))]
            panel.pcolormesh(x, y_values, np.array([*tints, (1, 1, 1)])[named], rasterized=True)
            for code in np.unique(named[named >= 0]):
                rivals = np.delete(table, code, axis=-1).max(axis=-1, initial=-np.inf)
                lead = np.clip(table[..., code], -MOST_LEAD, 0) - np.clip(rivals, -MOST_LEAD, 0)
                panel.contour(x, y_values, lead, [0.0], colors="0.35", linewidths=0.8)
            if differs.any():
                panel.contourf(x, y_values, differs, [0.5, 1.5], colors="none", hatches=["/////"])
            style: Any = {"colors": look["color"], "linestyles": [look["linestyle"]], "linewidths": 1.5}
            panel.contour(x, y_values, np.exp(np.nanmax(table, axis=-1)), [SURE], **style)
            _draw_rows(panel, cells, codes, fit.classes)
            panel.set(title=label, xlabel=names[0], ylabel=names[1], xlim=ends[0], ylim=ends[1])
        panels[0].plot([], [], color=GREY, label=f"probability {SURE} of the class")
        panels[0].fill_between([], [], facecolor="none", edgecolor=INK, hatch="/////", label="the answers differ")
    return figure


def responsibilities(
    fit: Fit,
    X: Data,
    *,
    rule: Rule | None = None,
    columns: Sequence[str] | None = None,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """Rows by two columns, in the colours of the components of a mixture mixed by their responsibilities.

    The marker is that of the most probable component. Of rows with one column, the responsibilities are drawn over it.

    Args:
        fit: a fit of a mixture, or of classes.
        X: rows.
        rule: the rule of prediction; None for the average over processes, or the plug-in where the fit is a point.
        columns: names of one or two columns of numbers; None for the first two.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    names, cells = _numbers(X, columns, 2 if len(columns or read_table(X).names) > 1 else 1)
    answers = answers_of_fit(fit, both_answers(fit)[-1:] if rule is None else [rule], X).answers[-1:]
    table, colors = class_table(answers[0].prediction), [to_rgb(_look(code)[0]) for code in range(len(fit.classes))]
    with drawing(ax, width=width, height=3.0) as (figure, ((panel,),)):
        for code, name in enumerate(fit.classes.tolist()):
            here = (named_classes(table) == code) | (len(cells) == 1)
            x, height = cells[0][here], cells[1][here] if len(cells) > 1 else np.exp(table[:, code])
            mixed = np.clip(np.exp(table[here]) @ colors, 0, 1) if len(cells) > 1 else [colors[code]]
            style: Any = {"marker": _look(code)[1], "edgecolor": INK, "linewidth": 0.5}
            panel.scatter(x, height, 20, mixed, label=f"{fit.concrete.class_axis} {name}", **style)
        ((_, title, _),) = drawn_answers(answers)
        panel.set(
            title=f"responsibilities, {title}", xlabel=names[0], ylabel=[*names, "responsibility (probability)"][1]
        )
    return figure


def regression_bands(
    fit: Fit,
    X: Data,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    column: str | None = None,
    prob: float = 0.9,
    num_points: int = 120,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """Medians and central intervals of a new y over one column, by both answers. Other columns are at their means.

    Args:
        fit: a fit of a response that is a number.
        X, y: rows to show, beyond whose range the figure goes by a third on either side, and their responses.
        rules: the rules of prediction; None for the plug-in and the average.
        column: name of a column of numbers; None for the first.
        prob: probability of the intervals.
        num_points: number of points along the column.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.
    """
    (name,), (cells,) = _numbers(X, None if column is None else [column], 1)
    x, table = np.linspace(*_ends(cells, 1 / 3), num_points), read_table(X)
    rows = {
        other: x if other == name else np.full(num_points, np.nanmean(_numbers(X, [other], 1)[1][0]))
        for other in table.names
    }
    answers = answers_of_fit(fit, both_answers(fit, rules), rows).answers
    with drawing(ax, width=width, height=3.0) as (figure, ((panel,),)):
        for answer, label, look in drawn_answers(answers):
            line = {**look, "marker": None}
            ends = answer.prediction.interval(prob)
            panel.fill_between(x, *ends.T, color=look["color"], alpha=0.13, linewidth=0)
            panel.plot(x, answer.prediction.quantile(0.5), label=f"{label}: median, {prob:.0%} interval", **line)
            panel.plot(x, ends, **line | {"linewidth": 0.9})
        if y is not None:
            panel.plot(cells, np.asarray(y, float), "o", color=INK, markersize=3, label="rows")
        others = " (other columns at their means)" * (len(table.names) > 1)
        panel.set(xlabel=f"{name}{others}", xlim=x[[0, -1]])
        panel.set_ylabel(getattr(y, "name", None) or getattr(fit.schema.response, "name", "y"))
    return figure


def entropy(answer: ClassPrediction, *, ax: Panels = None, width: float | None = None) -> Figure:
    """The entropy of the label of each row, split into what more training data would remove and what would stay.

    Entropy is mutual information (removed by knowledge of the process) plus expected entropy (which stays even then).
    Rows are sorted by their entropy, the least certain first.

    Args:
        answer: a prediction of classes by an average, such as `BMA(entropy_draws=1000)`.
        ax: axes to draw in; None for a new figure.
        width: of a new figure in inches.

    Raises:
        PredictionError: an answer without mutual information, such as that of a plug-in.
    """
    if answer.mutual_information is None or answer.expected_entropy is None:
        raise PredictionError(
            "This answer has no mutual information: one process has none, and that of an exact fit takes draws. Ask "
            "for predict(fit, X, rule=BMA(entropy_draws=1000))."
        )
    order = np.argsort(-answer.entropy, kind="stable")
    stays, edges = answer.expected_entropy[order], np.arange(len(order) + 1) + 0.5
    with drawing(ax, width=width) as (figure, ((panel,),)):
        style: Any = {"fill": True, "edgecolor": INK, "linewidth": 0}
        panel.stairs(
            stays + answer.mutual_information[order], edges, baseline=stays, facecolor=ONE_STEP, **style,
            label="mutual information: more training rows would remove it",
        )  # fmt: skip
        panel.stairs(
            stays, edges, facecolor=FAINT, hatch="////", **style,
            label="expected entropy: stays, even if the process were known",
        )  # fmt: skip
        panel.set(xlabel="rows, the least certain first", ylabel="entropy of the label (nats)", xlim=edges[[0, -1]])
    return figure


def states(
    fit: Fit,
    X: Data,
    *,
    row: int = 0,
    label: Any = None,
    rules: Sequence[Rule] | None = None,
    site: str | None = None,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """The hidden states of one sequence over time: what was observed, and below probabilities of states by each answer.

    Args:
        fit: a fit with hidden states, see `Fit.states`.
        X: sequences.
        row: position of the sequence in X.
        label: the class given which states are shown, where the model has classes.
        rules: the rules of prediction; None for the plug-in and the average.
        site: the site with states, where there are several.
        ax: axes to draw in, one for the observations and one for each rule; None for a new figure.
        width: of a new figure in inches.
    """
    rules = both_answers(fit, rules)
    hidden = [fit.states(X, rule=rule, site=site) for rule in rules]
    name, length, classes = hidden[0].site, hidden[0].lengths[row], hidden[0].classes.tolist()
    if classes and label not in classes:
        raise PredictionError(f"States are given each class: name one of {quote_some(classes)} as label=.")
    place = (row, classes.index(label)) if classes else (row,)
    observed, edges = np.asarray(fit.read(X).values[name])[row, :length], np.arange(length + 1) + 0.5
    labels = [label_ for _, label_, _ in drawn_answers(answers_of_fit(fit, rules, X).answers)]
    with drawing(ax, 1 + len(rules), 1, width=width or 1.4 * PANEL, height=1.6, sharex=True) as (figure, panels):
        panels[0, 0].plot(np.arange(length) + 1, observed, color=INK, marker="o", markersize=2.5, linewidth=0.8)
        panels[0, 0].set_ylabel(f"{name}\n(observed)")
        symbols = fit.schema.categories.get(name)
        if symbols is not None:
            panels[0, 0].set_yticks(range(len(symbols)), list(map(str, symbols)))
        for panel, states_of_answer, title in zip(panels[1:, 0], hidden, labels, strict=True):
            below = np.zeros(length)
            for state, probabilities in enumerate(states_of_answer.probabilities[place][:length].T):
                style: Any = {"facecolor": _look(state)[0], "hatch": CLASS_HATCHES[state % len(CLASS_HATCHES)]}
                panel.stairs(
                    below + probabilities, edges, baseline=below, fill=True, edgecolor=INK, linewidth=0.3,
                    label=f"state {state}", **style,
                )  # fmt: skip
                below = below + probabilities
            panel.set(title=title, ylim=(0, 1), ylabel="probability\nof states")
        panels[-1, 0].set(xlabel="time step", xlim=edges[[0, -1]])
    return figure


def _numbers(X: Data, columns: Sequence[str] | None, count: int) -> tuple[list[str], list[Float[np.ndarray, " n"]]]:
    """Names and cells of so many columns of numbers.

    Raises:
        DataError: columns that are not there or no numbers, or too few of them.
    """
    table = read_table(X)
    cells = {name: np.asarray(table.column(name)) for name in table.names if columns is None or name in columns}
    numbers = {name: column.astype(float) for name, column in cells.items() if column.dtype.kind in "iufb"}
    names = list(numbers) if columns is None else list(columns)
    if len(names) < count or not numbers.keys() >= set(names[:count]):
        raise DataError(
            f"The figure takes {count} columns of numbers, got {names if columns is None else list(columns)}. X has "
            f"{list(table.names)}: name columns of numbers."
        )
    return names[:count], [numbers[name] for name in names[:count]]


def _ends(cells: Float[np.ndarray, " n"], margin: float = MARGIN) -> tuple[float, float]:
    """The range of a column with a margin on both sides."""
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    more = margin * (high - low or 1.0)
    return low - more, high + more


def _look(code: int) -> tuple[str, str]:
    """Colour and marker of a class."""
    return CLASS_COLORS[code % len(CLASS_COLORS)], CLASS_MARKERS[code % len(CLASS_MARKERS)]


def _draw_rows(
    panel: Axes,
    cells: Sequence[Float[np.ndarray, " n"]],
    codes: Int[np.ndarray, " n"],
    classes: Shaped[np.ndarray, " K"],
) -> None:
    """Rows as points, by their classes."""
    for code in np.unique(codes):
        color, marker = _look(code) if code >= 0 else ("white", ".")
        name, here = classes[code] if code >= 0 else "rows without a label", codes == code
        style: Any = {"color": color, "markeredgecolor": INK, "markeredgewidth": 0.5, "linestyle": "none"}
        panel.plot(cells[0][here], cells[1][here], marker=marker, label=str(name), **style)
