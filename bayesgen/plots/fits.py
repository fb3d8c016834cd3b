"""Figures of one fit: its processes and hypotheses, and its answers over columns, rows and time steps."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import xarray_sel_iter
from arviz_stats.base import array_stats
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from bayesgen.concepts import ConceptFit
from bayesgen.data import read_table
from bayesgen.describe import quote_some
from bayesgen.errors import BayesgenWarning, DataError, PredictionError, without_warnings
from bayesgen.evaluation import Answer, both_answers, named_answers
from bayesgen.fitting import Fit
from bayesgen.posteriors import Point
from bayesgen.prediction import BMA, ClassPrediction, ContinuousPrediction, PlugIn, Rule, named_classes, predict
from bayesgen.typing import Data, Float, Seed, Values

from .results import compared
from .style import (
    AVERAGE_NAME,
    BEST_NAME,
    FAINT,
    GREY,
    INK,
    MEAN_NAME,
    ONE_STEP,
    PAGE,
    PANEL,
    TWO_STEP,
    GivenAxes,
    Look,
    Mark,
    Panel,
    class_look,
    curve_in_band,
    draw,
    drawn_answers,
    mark,
)

MOST_PANELS, MOST_NAMES = 40, 12
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
    ax: GivenAxes = None,
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
    axes = [np.linspace(*_ends(column), resolution) for column in cells]
    points = dict(zip(names, map(np.ravel, np.meshgrid(*axes)), strict=True))
    rows = {name: points.get(name, np.full(resolution**2, np.nan)) for name in read_table(X).names}
    answers = _answers(fit, rows, rules, ClassPrediction)
    tables = [answer.prediction.log_probabilities for answer, _ in answers]
    regions = np.stack([named_classes(table) for table in tables]).reshape(-1, resolution, resolution)
    differs, hatched = (regions != regions[0]).any(0).astype(float), {"colors": "none", "hatches": ["/////"]}
    shared = [
        *([mark("contourf", *axes, differs, [0.5, 1.5], **hatched)] if differs.any() else []),
        *_points(cells, fit, y),
        mark("plot", [], [], color=GREY, label=f"probability {SURE} of the class"),
        mark("fill_between", [], [], facecolor="none", edgecolor=INK, hatch="/////", label="the answers differ"),
    ]
    panels = [
        Panel([*_region_marks(axes, table, region, look), *shared], names[0], names[1], look["label"])
        for (_, look), table, region in zip(answers, tables, regions, strict=True)
    ]
    return draw([panels], ax, width=width, height=2.9, sharey=True)


def _region_marks(axes: Sequence[Any], table: Float[np.ndarray, "n K"], region: Any, look: Look) -> list[Mark]:
    """The regions of classes in light colours, with their borders, and where the most probable class is sure."""
    logs = np.clip(table, -MOST_LEAD, 0.0).reshape(*region.shape, -1)
    tints = [0.45 * np.array(to_rgb(class_look(code)["color"])) + 0.55 for code in range(logs.shape[-1])]
    leads = [
        logs[..., code] - np.delete(logs, code, axis=-1).max(axis=-1, initial=-MOST_LEAD)
        for code in np.unique(region[region >= 0])
    ]
    return [
        mark("pcolormesh", *axes, np.array([*tints, (1, 1, 1)])[region], rasterized=True),
        *(mark("contour", *axes, lead, [0.0], colors="0.35", linewidths=0.8) for lead in leads),
        mark("contour", *axes, np.exp(logs.max(axis=-1)), [SURE], colors=look["color"], linestyles=[look["linestyle"]]),
    ]


def responsibilities(
    fit: Fit,
    X: Data,
    *,
    rule: Rule | None = None,
    columns: Sequence[str] | None = None,
    ax: GivenAxes = None,
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
    names, cells = _numbers(X, columns, min(2, len(columns or read_table(X).names)))
    ((answer, look),) = _answers(fit, X, both_answers(fit)[-1:] if rule is None else [rule], ClassPrediction)
    table, codes = answer.prediction.log_probabilities, list(range(len(fit.classes)))
    colors, probabilities = [to_rgb(class_look(code)["color"]) for code in codes], np.exp(table)
    if len(cells) == 2:  # a point for each row, by its most probable component
        here, mixed = named_classes(table) == np.array(codes)[:, None], np.clip(probabilities @ colors, 0.0, 1.0)
        drawn = [(*(column[rows] for column in cells), mixed[rows]) for rows in here]
    else:  # a point for each row and component
        drawn = [(cells[0], heights, [color]) for heights, color in zip(probabilities.T, colors, strict=True)]
    marks = [
        mark(
            "scatter",
            x,
            y,
            s=20,
            c=colors_of_points,
            marker=class_look(code)["marker"],
            edgecolor=INK,
            linewidth=0.5,
            label=f"{fit.concrete.class_axis} {fit.classes[code]}",
        )
        for code, (x, y, colors_of_points) in zip(codes, drawn, strict=True)
    ]
    x_name, y_name, *_ = *names, "responsibility (probability)"
    return draw([[Panel(marks, x_name, y_name, f"responsibilities, {look['label']}")]], ax, width=width, height=3.0)


def regression_bands(
    fit: Fit,
    X: Data,
    y: Values | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    column: str | None = None,
    prob: float = 0.9,
    num_points: int = 120,
    ax: GivenAxes = None,
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
    x, names = np.linspace(*_ends(cells, 1 / 3), num_points), read_table(X).names
    means = {other: np.nanmean(_numbers(X, [other], 1)[1][0]) for other in names if other != name}
    rows = {other: np.full(num_points, means[other]) if other in means else x for other in names}
    marks = [] if y is None else [mark("plot", cells, np.asarray(y, float), "o", color=INK, markersize=3, label="rows")]
    for answer, look in _answers(fit, rows, rules, ContinuousPrediction):
        ends, median = answer.prediction.interval(prob), answer.prediction.quantile(0.5)
        line = {**look, "marker": None, "label": f"{look['label']}: median, {prob:.0%} interval"}
        marks += curve_in_band(x, median, ends.T, line)
        marks.append(mark("plot", x, ends, **line | {"linewidth": 0.9, "label": None}))
    panel = Panel(
        marks,
        xlabel=name + " (other columns at their means)" * bool(means),
        ylabel=str(getattr(y, "name", None) or getattr(fit.schema.response, "name", "y")),
        settings={"xlim": x[[0, -1]]},
    )
    return draw([[panel]], ax, width=width, height=3.0)


def entropy(answer: ClassPrediction, *, ax: GivenAxes = None, width: float | None = None) -> Figure:
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
    removed = {"label": "mutual information: more training rows would remove it", "facecolor": ONE_STEP}
    left = {"label": "expected entropy: stays, even if the process were known", "facecolor": FAINT, "hatch": "////"}
    marks = [
        mark("stairs", stays + answer.mutual_information[order], edges, baseline=stays, fill=True, **removed),
        mark("stairs", stays, edges, fill=True, **left),
    ]
    panel = Panel(
        marks,
        xlabel="rows, the least certain first",
        ylabel="entropy of the label (nats)",
        settings={"xlim": edges[[0, -1]]},
    )
    return draw([[panel]], ax, width=width)


def states(
    fit: Fit,
    X: Data,
    *,
    row: int = 0,
    label: Any = None,
    rules: Sequence[Rule] | None = None,
    site: str | None = None,
    ax: GivenAxes = None,
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
    symbols = list(map(str, fit.schema.categories.get(name, ())))
    titles = [look["label"] for _, look in drawn_answers(named_answers(fit, rules))]
    xlabels, limits = [*[""] * (len(rules) - 1), "time step"], {"xlim": edges[[0, -1]], "ylim": (0, 1)}
    above = Panel(
        [mark("plot", np.arange(length) + 1, observed, color=INK, marker="o", markersize=2.5, linewidth=0.8)],
        xlabel="",
        ylabel=f"{name}\n(observed)",
        settings={"yticks": range(len(symbols)), "yticklabels": symbols} if symbols else {},
    )
    below = [
        Panel(_stacked(answer.probabilities[place][:length].T, edges), xlabel, "probability\nof states", title, limits)
        for answer, title, xlabel in zip(hidden, titles, xlabels, strict=True)
    ]
    return draw([[above], *([panel] for panel in below)], ax, width=width or 1.4 * PANEL, height=1.6, sharex=True)


def _stacked(shares: Float[np.ndarray, "S T"], edges: Float[np.ndarray, " T+1"]) -> list[Mark]:
    """The probabilities of states at each time step, on top of each other."""
    tops = np.cumsum(shares, axis=0)
    return [
        mark(
            "stairs",
            top,
            edges,
            baseline=top - share,
            facecolor=class_look(state)["color"],
            hatch=class_look(state)["hatch"],
            label=f"state {state}",
            fill=True,
            edgecolor=INK,
            linewidth=0.3,
        )
        for state, (top, share) in enumerate(zip(tops, shares, strict=True))
    ]


def posterior(
    fit: Fit,
    point: Fit | None = None,
    *,
    var_names: Sequence[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    prob: float = 0.9,
    num_draws: int = 1000,
    seed: Seed = 0,
    ax: GivenAxes = None,
    width: float | None = None,
) -> Figure:
    """Posterior densities of parameters, and the one value of each in the two-step answer. The density is ArviZ's.

    Args:
        fit: a fit with a posterior distribution.
        point: a point fit of the same model, by `MLE` or `MAP`, whose parameters are drawn; None for posterior means.
        var_names: names of parameters; None for all.
        coords: dimension -> names along it, as ArviZ takes them, such as {"class": ["setosa"]}.
        prob: probability of the central interval, drawn as a bar.
        num_draws, seed: of the draws from an exact fit, see `Fit.to_datatree`.
        ax: axes to draw in, one for each number; None for a new figure.
        width: of a new figure in inches.

    Raises:
        PredictionError: a fit that is a point; more than 40 numbers.
    """
    process: Any = fit.posterior
    if process.is_point:
        raise PredictionError(
            "The fit is a point, which has no posterior density. Fit with Exact() or NUTS(), and give this fit as "
            "point=."
        )
    at_mean = dataclasses.replace(fit, posterior=Point(None, process.mean, process.conjugate))
    at_point, sampled = (point or at_mean).to_datatree(), fit.to_datatree(num_draws=num_draws, seed=seed)
    points = _selected(at_point["point_estimate"].to_dataset(), var_names, coords or {})
    draws = _selected(sampled["posterior"].to_dataset(), var_names, coords or {})
    entries = list(xarray_sel_iter(points, skip_dims=set()))
    if len(entries) > MOST_PANELS:
        raise PredictionError(f"There are {len(entries)} numbers to draw: choose some by var_names= and coords=.")
    panels = [
        _density_panel(
            draws[name].isel(index),
            points[name].isel(index),
            [name, *labels.values()],
            BEST_NAME if point else MEAN_NAME,
            prob,
        )
        for name, labels, index in entries
    ]
    return draw([panels], ax, width=width, height=1.75, least=1.7)


def _density_panel(draws: xr.DataArray, point: xr.DataArray, names: Sequence[Any], label: str, prob: float) -> Panel:
    """The density of a number, its central interval, and the point."""
    grid, density, _ = array_stats.kde(draws.values.ravel())
    ends = np.quantile(draws, [(1 - prob) / 2, (1 + prob) / 2])
    density_label = f"posterior density: the average weighs all values by it; bar: {prob:.0%}"
    return Panel(
        [
            mark("axvline", point.item(), color=TWO_STEP, linestyle="--", label=label),
            mark("plot", grid, density, color=ONE_STEP, label=density_label),
            mark("plot", ends, [0, 0], color=INK, linewidth=3),
        ],
        xlabel="\n".join(map(str, names)),
        ylabel="density",
        settings={"yticks": []},
    )


def _selected(data: xr.Dataset, var_names: Sequence[str] | None, coords: Mapping[str, Any]) -> xr.Dataset:
    """Some variables, and some labels along their dimensions.

    Raises:
        PredictionError: names of what is not there.
    """
    try:
        chosen = data if var_names is None else data[list(var_names)]
        return chosen.sel({dim: np.atleast_1d(labels) for dim, labels in coords.items()})
    except KeyError as error:
        names = {str(dim): data[dim].values.tolist() for dim in data.coords}
        raise PredictionError(f"There is no {error}. Parameters are {list(data)}, and coords {names}.") from None


def hypotheses(fit: ConceptFit, *, num_hypotheses: int = 8, ax: GivenAxes = None, width: float | None = None) -> Figure:
    """What a concept learner believes, and how it generalises: two panels for each set of examples.

    On the left are the most probable hypotheses, the best one in the colour of the two-step answer, which takes it for
    the truth. On the right is the probability of each member of the domain to belong to the concept: bars averaged over
    hypotheses, dots for members of the best one, and the examples below.

    Args:
        fit: a fit of a `ConceptLearner` with a posterior distribution of hypotheses.
        num_hypotheses: number of hypotheses, at most. Those 200 times less probable than the best one are left out.
        ax: axes to draw in, two for each set of examples; None for a new figure.
        width: of a new figure in inches; panels stand below each other where it is too narrow.
    """
    domain, sets = fit.model.space.domain, list(fit) if fit.examples.several else [fit]
    with without_warnings(BayesgenWarning):  # of equally good hypotheses, which the figure shows
        answers = [np.atleast_2d(predict(fit, domain, rule=rule).membership) for rule in (BMA(), PlugIn())]
    are_numbers = all(isinstance(member, int | float | np.number) for member in domain)
    positions = np.array(domain if are_numbers else range(len(domain)))
    names = map(str, domain if len(domain) <= MOST_NAMES else [""] * len(domain))
    ticks = {} if are_numbers else {"xticks": positions, "xticklabels": list(names)}
    rows = []
    for fit_of_set, examples, average, best in zip(sets, fit.examples.sets, *answers, strict=True):
        members = [
            (best > 0.5, 1.08, "s", TWO_STEP, f"members of the {BEST_NAME}"),
            (examples.positive > 0, -0.08, "^", INK, "examples"),
            (examples.negative > 0, -0.08, "x", INK, "counterexamples"),
        ]
        dots = [
            mark("plot", positions[is_in], [height] * is_in.sum(), marker, markersize=3, color=color, label=label)
            for is_in, height, marker, color, label in members
            if is_in.any()
        ]
        membership = Panel(
            [mark("bar", positions, average, color=ONE_STEP, label=f"belongs to it: {AVERAGE_NAME}"), *dots],
            xlabel="member",
            ylabel="probability\nof membership",
            title="after the examples " + ", ".join(str(domain[place]) for place in np.flatnonzero(examples.positive)),
            settings={"ylim": (-0.15, 1.15), "yticks": [0, 0.5, 1], **ticks},
        )
        rows.append((_hypothesis_panel(fit_of_set, num_hypotheses), membership))
    return draw(rows, ax, width=width or PAGE, height=1.9, width_ratios=(1, 1.8))


def _hypothesis_panel(fit: ConceptFit, number: int) -> Panel:
    """Probabilities of the most probable hypotheses, the best on top."""
    table = fit.hypotheses.head(number).query("weight > weight.max() / 200")
    is_best, places = table["hypothesis"] == fit.ties[0], range(len(table))
    colors, hatches = np.where(is_best, TWO_STEP, ONE_STEP), np.where(is_best, "////", "").tolist()
    return Panel(
        [
            mark("barh", places, table["weight"], color=colors, hatch=hatches, height=0.66),
            mark("locator_params", axis="x", nbins=4),
        ],
        xlabel="posterior probability",
        ylabel="hypothesis",
        settings={
            "yticks": places,
            "yticklabels": table["hypothesis"],
            "xlim": (0, 1.05 * table["weight"][0]),
            "ylim": (number - 0.5, -0.5),
        },
    )


def _answers(fit: Fit, X: Data, rules: Sequence[Rule] | None, kind: type) -> list[tuple[Answer, Look]]:
    """The answers of a fit to rows, predictions of a kind, with their looks and labels."""
    return drawn_answers(compared(fit, X, None, rules, kind, needs_truth=False).answers)


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


def _ends(cells: Float[np.ndarray, " n"], margin: float = 0.08) -> tuple[float, float]:
    """The range of a column with a margin on both sides."""
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    return low - margin * (high - low or 1.0), high + margin * (high - low or 1.0)


def _points(cells: Sequence[Float[np.ndarray, " n"]], fit: Fit, y: Values | None) -> list[Mark]:
    """Rows as points, by their classes."""
    codes: Any = np.full(len(cells[0]), -1) if y is None else fit.schema.label_codes(y)
    looks = {code: {**class_look(code), "label": str(name)} for code, name in enumerate(fit.classes)}
    looks[-1] = {"color": "white", "marker": ".", "label": "rows without a label"}
    return [
        mark(
            "plot",
            *(column[codes == code] for column in cells),
            color=looks[code]["color"],
            marker=looks[code]["marker"],
            linestyle="none",
            markeredgecolor=INK,
            markeredgewidth=0.5,
            label=looks[code]["label"],
        )
        for code in np.unique(codes)
    ]
