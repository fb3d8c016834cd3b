"""Figures of the processes that a fit finds probable: posteriors of parameters, and hypotheses of a concept."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from arviz_base import xarray_sel_iter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesgen.errors import BayesgenWarning, PredictionError, without_warnings
from bayesgen.fitting import Fit
from bayesgen.prediction import BMA, PlugIn, predict
from bayesgen.typing import Seed

from .answers import Panels
from .style import BEST_NAME, INK, MEAN_NAME, ONE_STEP, ONE_STEP_NAME, PAGE, TWO_STEP, drawing

if TYPE_CHECKING:
    from bayesgen.concepts import ConceptFit

MOST_PANELS, MOST_NAMES = 40, 12
SAMPLE_DIMS = ["chain", "draw"]


def posterior(
    fit: Fit,
    point: Fit | None = None,
    *,
    var_names: Sequence[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    prob: float = 0.9,
    num_draws: int = 1000,
    seed: Seed = 0,
    ax: Panels = None,
    width: float | None = None,
) -> Figure:
    """Posterior densities of parameters, and the one value of each in the two-step answer. Drawn by arviz-plots.

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
    if fit.posterior.is_point:
        raise PredictionError(
            "The fit is a point, which has no posterior density. Fit with Exact() or NUTS(), and give this fit as "
            "point=."
        )
    draws = fit.to_datatree(num_draws=num_draws, seed=seed)["posterior"].to_dataset()
    if point is None:
        means = dict(zip(draws, fit.posterior.mean.values(), strict=True))  # type: ignore[attr-defined]
        points = draws.isel(chain=0, draw=0).copy(data=means)
    else:
        points = point.to_datatree()["point_estimate"].to_dataset()
    chosen: Any = {"var_names": None if var_names is None else list(var_names), "coords": dict(coords or {})}
    draws, points = (_selected(data, **chosen) for data in (draws, points))
    total = sum(values.size for values in points.values())
    if total > MOST_PANELS:
        raise PredictionError(f"There are {total} numbers to draw: choose some by var_names= and coords=.")
    entries = list(xarray_sel_iter(points, skip_dims=set()))
    with drawing(ax, 1, total, width=width, height=1.75, least=1.7) as (figure, ((*panels,),)):
        axes, label = points.astype(object), BEST_NAME if point else MEAN_NAME
        for (name, labels, index), panel in zip(entries, panels, strict=True):
            panel.axvline(points[name].values[*index.values()], color=TWO_STEP, linestyle="--", label=label)
            panel.set(xlabel="\n".join([name, *map(str, labels.values())]), ylabel="density", yticks=[])
            axes[name].values[*index.values()] = panel
        _draw_densities(draws, axes, figure, prob)
        panels[0].lines[1].set_label(f"posterior density: the average weighs all values by it; bar: {prob:.0%}")
    return figure


def _draw_densities(draws: xr.Dataset, axes: xr.Dataset, figure: Any, prob: float) -> None:
    """Densities and central intervals of draws by arviz-plots, in the axes of each number."""
    from arviz_plots import PlotCollection, plot_dist

    children = {key: xr.DataTree(axes) for key in ("plot", "row_index", "col_index")}
    where = xr.DataTree(xr.Dataset({"figure": np.array(figure, object)}), children=children)
    visuals: Any = dict.fromkeys(("title", "remove_axis", "point_estimate", "point_estimate_text"), False)
    plot_dist(
        xr.DataTree.from_dict({"posterior": draws}),
        plot_collection=PlotCollection(draws, where, backend="matplotlib"),
        kind="kde",
        ci_kind="eti",
        ci_prob=prob,
        visuals=visuals | {"dist": {"color": ONE_STEP}, "credible_interval": {"color": INK}},
    )


def _selected(data: xr.Dataset, var_names: list[str] | None, coords: Mapping[str, Any]) -> xr.Dataset:
    """Some variables, and some labels along their dimensions.

    Raises:
        PredictionError: names of what is not there.
    """
    try:
        chosen = data if var_names is None else data[var_names]
        return chosen.sel({dim: np.atleast_1d(labels) for dim, labels in coords.items()})
    except KeyError as error:
        names = {str(dim): data[dim].values.tolist() for dim in data.coords if dim not in SAMPLE_DIMS}
        raise PredictionError(f"There is no {error}. Parameters are {list(data)}, and coords {names}.") from None


def hypotheses(fit: "ConceptFit", *, num_hypotheses: int = 8, ax: Panels = None, width: float | None = None) -> Figure:
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
    answers = []
    for rule in (BMA(), PlugIn()):
        with without_warnings(BayesgenWarning):  # of equally good hypotheses, which the figure shows
            answers.append(np.atleast_2d(predict(fit, domain, rule=rule).membership))
    are_numbers = all(isinstance(member, int | float | np.number) for member in domain)
    positions = np.array(domain if are_numbers else range(len(domain)))
    ratios: Any = {"width_ratios": (1, 1.8)}
    with drawing(ax, len(sets), 2, width=width or PAGE, height=1.9, **ratios) as (figure, panels):
        for (left, right), fit_of_set, examples, *memberships in zip(
            panels, sets, fit.examples.sets, *answers, strict=True
        ):
            _draw_hypotheses(left, fit_of_set, num_hypotheses)
            average, best = memberships
            right.bar(positions, average, color=ONE_STEP, width=0.75, label=f"belongs to it: {ONE_STEP_NAME}")
            for is_shown, height, marker, color, label in (
                (best > 0.5, 1.08, "s", TWO_STEP, f"members of the {BEST_NAME}"),
                (examples.positive > 0, -0.06, "^", INK, "examples"),
                (examples.negative > 0, -0.06, "x", INK, "counterexamples"),
            ):
                if is_shown.any():
                    right.plot(
                        positions[is_shown],
                        [height] * is_shown.sum(),
                        marker,
                        ms=3,
                        color=color,
                        label=label,
                        clip_on=False,
                    )
            right.set(ylim=(0, 1.05), yticks=[0, 0.5, 1], ylabel="probability\nof membership", xlabel="member")
            shown = [domain[place] for place in np.flatnonzero(examples.positive)]
            right.set_title(f"after the examples {', '.join(map(str, shown))}", pad=10)
            right.tick_params(axis="x", pad=6)
            if not are_numbers:
                right.set_xticks(positions, map(str, domain) if len(domain) <= MOST_NAMES else [""] * len(domain))
    return figure


def _draw_hypotheses(panel: Axes, fit: "ConceptFit", number: int) -> None:
    """Probabilities of the most probable hypotheses, the best on top."""
    table = fit.hypotheses.head(number)
    table = table[table["weight"] > table["weight"][0] / 200]
    is_best = table["hypothesis"] == fit.ties[0]
    colors = np.where(is_best, TWO_STEP, ONE_STEP)
    bars = panel.barh(range(len(table)), table["weight"], color=colors, height=0.66)
    bars[int(np.argmax(is_best))].set_hatch("////")
    panel.set_yticks(range(len(table)), map(str, table["hypothesis"]))
    panel.set(ylim=(number - 0.5, -0.5), xlim=(0, 1.05 * table["weight"][0]))
    panel.set(xlabel="posterior probability", ylabel="hypothesis")
    panel.tick_params(axis="y", length=0)
    panel.locator_params(axis="x", nbins=4)
