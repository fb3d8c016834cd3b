"""Figures: what every one of them keeps to, and that it draws what the answers hold."""

import dataclasses
import functools
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy import stats

import bayesgen as bg
from bayesgen import plots
from bayesgen.fitting import HiddenStates
from bayesgen.plots.style import (
    CLASS_COLORS,
    CLASS_HATCHES,
    CLASS_MARKERS,
    ONE_STEP,
    STYLE,
    TWO_STEP,
    looks,
    save_figure,
)

RNG = np.random.default_rng(0)
PAIRS = [(bg.MLE(), bg.PlugIn()), (bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
NAMED = list(enumerate(PAIRS))
ONE_STEP_WORDS, MEAN_WORDS = "averaged over processes (one step)", "mean process (two steps)"


def normal_rows(size):
    """Rows of two columns and three classes, so close together that answers differ."""
    y = np.arange(size) % 3
    return RNG.normal(size=(size, 2)) * [1.0, 3.0] + 0.7 * y[:, None], np.array(["a", "b", "c"])[y]


TRAIN, TEST = normal_rows(15), normal_rows(240)
X_LINE = RNG.normal(size=(6, 1))
Y_LINE = 1.0 + 2.0 * X_LINE[:, 0] + RNG.normal(size=6)


@functools.cache
def fit():
    return bg.fit(bg.GaussianDiscriminant(), *TRAIN, method=bg.Exact())


@functools.cache
def point():
    return bg.fit(bg.GaussianDiscriminant(), *TRAIN, method=bg.MAP())


@functools.cache
def line():
    return bg.fit(bg.LinearRegression(), X_LINE, Y_LINE, method=bg.Exact())


@functools.cache
def comparison():
    models = {"full": bg.GaussianDiscriminant(), "diag": bg.GaussianDiscriminant("diag")}
    return bg.compare(models, *TRAIN, *TEST, methods=PAIRS)


@functools.cache
def study():
    """Three repeats of three sizes, with scores as if made; MLE is refused at the first size and bad at the second."""
    names = [(type(method).__name__, type(rule).__name__ + "(mean)" * (place == 2)) for place, (method, rule) in NAMED]
    index = pd.MultiIndex.from_product([range(4), [2, 5, 10], range(3)], names=["pair", "size", "repeat"])
    table = index.to_frame(index=False)
    table.insert(0, "model", "full")
    table.insert(1, "method", [names[pair][0] for pair in table["pair"]])
    table.insert(2, "rule", [names[pair][1] for pair in table["pair"]])
    scores = -1.0 / table["size"] + 0.1 * table["pair"] + 0.01 * table["repeat"] * (1 + table["pair"])
    is_refused = (table["pair"] == 0) & (table["size"] == 2)
    scores = scores - 100.0 * ((table["pair"] == 0) & (table["size"] == 5))
    table["log_score"] = scores.mask(is_refused)
    table = table.assign(seconds=0.1, refused=np.where(is_refused, "too few rows", None)).drop(columns="pair")
    return bg.Study(table, tuple(PAIRS), "Errors are not errors over new data.", {"per_class": True}, {})


@functools.cache
def game():
    space = bg.HypothesisSpace.of(
        {"even": lambda x: x % 2 == 0, "small": lambda x: x < 4, "all": lambda x: True}, range(1, 9)
    )
    return bg.fit(bg.ConceptLearner(space), [[2, 6], [2]], method=bg.Exact())


@functools.cache
def hidden():
    """What the figure asks of a fit that knows hidden states, and two sequences: nothing is trained or compiled."""
    X = {"level": [[0.1, -0.2, 5.1, 4.9, 5.0, 0.1], [5.0, 5.1, 0.2, -0.1]]}
    lengths, levels = np.array([6, 4]), np.full((2, 6), np.nan)
    for row, level in enumerate(X["level"]):
        levels[row, : len(level)] = level
    first = np.where(np.isnan(levels), np.nan, np.where(levels > 2, 0.9, 0.2))
    states = HiddenStates("level", np.stack([first, 1 - first], -1), None, lengths, np.zeros(2), np.array([]))
    fitted = SimpleNamespace(
        model=bg.NaiveBayes(),
        method=bg.MAP(),
        posterior=SimpleNamespace(is_point=True),
        schema=bg.Schema(),
        states=lambda X, rule, site: states,
        read=lambda X: SimpleNamespace(values={"level": levels}),
    )
    return fitted, X


@functools.cache
def mixture():
    X = np.concatenate([RNG.normal(0, 1, (20, 2)), RNG.normal(4, 1, (20, 2))])
    return bg.fit(bg.Mixture(bg.GaussianDiscriminant("diag"), 2), X, method=bg.MAP(num_starts=1)), X


@functools.cache
def calibration():
    """Uniform shares of one quantity, and shares of another one that are all small."""
    shares = (np.arange(40) + 0.5) / 40
    return bg.Calibration({"mean": shares, "scale": shares / 5}, np.full(40, 99), {"method": "Exact()"})


@functools.cache
def entropies():
    answer = bg.predict(fit(), TEST[0], rule=bg.BMA())
    return dataclasses.replace(answer, expected_entropy=answer.entropy * RNG.uniform(0.3, 1.0, len(TEST[0])))


@functools.cache
def sequence():
    scores = np.log(np.linspace([0.2, 0.3], [0.8, 0.9], 30)).T
    return bg.Prequential(scores, scores - 1, ("Exact + PlugIn(mean)", "Exact + BMA"), (True, False), np.ones(30))


# name -> number of panels, and the figure
FIGURES = {
    "agreement": (1, lambda **how: plots.agreement(fit(), *TEST, **how)),
    "calibration": (1, lambda **how: plots.calibration(calibration(), **how)),
    "coverage": (1, lambda **how: plots.coverage(line(), X_LINE, Y_LINE, **how)),
    "decision_regions": (2, lambda **how: plots.decision_regions(fit(), *TRAIN, resolution=20, **how)),
    "entropy": (1, lambda **how: plots.entropy(entropies(), **how)),
    "hypotheses": (4, lambda **how: plots.hypotheses(game(), **how)),
    "learning_curves": (2, lambda **how: plots.learning_curves(study(), **how)),
    "paired_differences": (1, lambda **how: plots.paired_differences(study(), **how)),
    "posterior": (6, lambda **how: plots.posterior(fit(), point(), var_names=["real_mean"], num_draws=50, **how)),
    "prequential": (1, lambda **how: plots.prequential(sequence(), **how)),
    "regression_bands": (1, lambda **how: plots.regression_bands(line(), X_LINE, Y_LINE, **how)),
    "reliability": (2, lambda **how: plots.reliability(comparison(), **how)),
    "responsibilities": (1, lambda **how: plots.responsibilities(*mixture(), **how)),
    "states": (2, lambda **how: plots.states(*hidden(), **how)),
}


def legend(figure):
    return [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]


def curves(panel):
    """Label -> curve."""
    return {curve.get_label(): curve for curve in panel.lines}


def test_the_table_has_all_figures():
    assert sorted(FIGURES) == sorted(plots.__all__)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_legible_on_a_phone_and_changes_no_settings(name):
    num_panels, draw = FIGURES[name]
    settings = dict(matplotlib.rcParams)
    figure = draw(width=3.5)
    assert dict(matplotlib.rcParams) == settings
    assert matplotlib._pylab_helpers.Gcf.figs == {}
    assert isinstance(figure, Figure) and len(figure.axes) == num_panels and figure.get_figwidth() == 3.5
    assert all(axes.get_xlabel() for axes in figure.axes if axes.xaxis.get_tick_params()["labelbottom"])
    assert all(axes.get_ylabel() for axes in figure.axes)
    figure.draw_without_rendering()  # lays the panels out
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= 8
    low, bottom, high, top = figure.get_tightbbox().extents
    assert min(low, bottom) > -0.05 and high < 3.55 and top < figure.get_figheight() + 0.05


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_in_the_axes_that_are_given(name):
    num_panels, draw = FIGURES[name]
    mine = Figure(figsize=(8, 8))
    axes = mine.subplots(1, num_panels)
    assert draw(ax=axes) is mine
    assert len(mine.axes) == num_panels and not mine.legends
    assert all(panel.has_data() for panel in np.ravel(axes))
    with pytest.raises(bg.DataError, match=f"ax has {num_panels + 1} axes, and there are {num_panels} panels"):
        draw(ax=mine.subplots(1, num_panels + 1))


def test_answers_have_one_colour_each_and_differ_in_grey():
    styles = looks([True, False, True, False, None, True])
    assert [style["color"] for style in styles] == [TWO_STEP, ONE_STEP, TWO_STEP, ONE_STEP, "black", TWO_STEP]
    assert len({(str(style["linestyle"]), style["marker"]) for style in styles}) == 6
    lightness = [np.dot(colors.to_rgb(color), [0.2126, 0.7152, 0.0722]) for color in CLASS_COLORS[:4]]
    assert np.diff(sorted(lightness)).min() > 0.1
    assert len(set(CLASS_MARKERS)) == len(CLASS_MARKERS) >= len(CLASS_COLORS) == len(set(CLASS_HATCHES))


def test_a_notebook_shows_the_figure_by_its_picture():
    picture, size = plots.entropy(entropies())._repr_png_()
    assert picture.startswith(b"\x89PNG") and size == {"width": round(3.5 * 130)}


def test_files_are_written_in_the_format_of_their_names_and_as_png(tmp_path):
    save_figure(plots.entropy(entropies()), tmp_path / "entropy.svg")
    assert (tmp_path / "entropy.svg").read_text().startswith("<?xml")
    header = (tmp_path / "entropy.png").read_bytes()[16:20]
    assert int.from_bytes(header, "big") == round(3.5 * STYLE["savefig.dpi"])


def test_regions_are_those_of_the_predicted_labels():
    figure = plots.decision_regions(fit(), *TRAIN, resolution=15)
    assert [panel.get_title() for panel in figure.axes] == [MEAN_WORDS, ONE_STEP_WORDS]
    low, high = TRAIN[0].min(0), TRAIN[0].max(0)
    ends = [low - 0.08 * (high - low), high + 0.08 * (high - low)]
    grid = np.stack(np.meshgrid(*np.linspace(*ends, 15).T), -1).reshape(-1, 2)
    labels = [bg.predict(fit(), grid, rule=rule).labels for rule in (bg.PlugIn(), bg.BMA())]
    assert (labels[0] != labels[1]).any()
    for panel, names in zip(figure.axes, labels, strict=True):
        drawn = panel.collections[0].get_array().reshape(-1, 3)
        tints = {name: np.unique(drawn[names == name], axis=0) for name in "abc"}
        assert all(len(tint) == 1 for tint in tints.values())
        assert len(np.unique(np.concatenate(list(tints.values())), axis=0)) == 3
        for name in "abc":
            np.testing.assert_array_equal(np.transpose(curves(panel)[name].get_data()), TRAIN[0][TRAIN[1] == name])
    assert "the answers differ" in legend(figure)


def test_names_with_dollar_signs_are_no_formulas():
    X, y = normal_rows(30)
    named = pd.DataFrame(X, columns=[r"$\bad_$", "x$1"])
    figure = plots.decision_regions(bg.fit(bg.GaussianDiscriminant(), named, y, method=bg.Exact()), named, y)
    figure.canvas.draw()
    assert figure.axes[0].get_xlabel() == r"$\bad_$"


def test_columns_that_are_not_drawn_are_marginalised():
    X = np.column_stack([TRAIN[0], TRAIN[0][:, 0] ** 2])
    three = bg.fit(bg.GaussianDiscriminant(), X, TRAIN[1], method=bg.Exact())
    figure = plots.decision_regions(three, X, columns=["x0", "x2"], resolution=5, rules=[bg.BMA()])
    (panel,) = figure.axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("x0", "x2")
    with pytest.raises(bg.DataError, match=r"takes 2 columns of numbers, got \['x9'\]"):
        plots.decision_regions(three, X, columns=["x9"])


def test_reliability_is_that_of_bins_of_equal_mass():
    figure = plots.reliability(fit(), *TEST, num_bins=6)
    assert legend(figure) == [MEAN_WORDS, ONE_STEP_WORDS, "bands of calibrated answers, 95 %"]
    (panel,), answer = figure.axes, bg.predict(fit(), TEST[0], rule=bg.BMA())
    confidence = answer.probabilities.max(1)
    parts = np.array_split(np.argsort(confidence), 6)
    curve = curves(panel)[ONE_STEP_WORDS]
    assert curve.get_color() == ONE_STEP and curves(panel)[MEAN_WORDS].get_color() == TWO_STEP
    np.testing.assert_allclose(curve.get_xdata(), [confidence[part].mean() for part in parts], rtol=1e-12)
    right = answer.labels == TEST[1]
    np.testing.assert_allclose(curve.get_ydata(), [right[part].mean() for part in parts], rtol=1e-12)
    band = panel.collections[1].get_paths()[0].vertices
    low, high = (stats.binom.ppf(p, 40, confidence[parts[0]].mean()) / 40 for p in (0.025, 0.975))
    assert np.isclose(band[:, 0], confidence[parts[0]].mean()).any()
    assert {low, high} <= set(band[np.isclose(band[:, 0], confidence[parts[0]].mean()), 1])


def test_agreement_has_the_probability_of_the_true_class_by_both():
    (panel,) = plots.agreement(fit(), *TEST).axes
    codes = np.searchsorted(["a", "b", "c"], TEST[1])
    answers = [bg.predict(fit(), TEST[0], rule=rule) for rule in (bg.PlugIn(), bg.BMA())]
    expected = np.stack([answer.probabilities[np.arange(240), codes] for answer in answers], 1)
    differs = answers[0].labels != answers[1].labels
    same, different, _ = panel.lines
    assert differs.any()
    np.testing.assert_allclose(np.transpose(same.get_data()), expected[~differs], rtol=1e-12)
    np.testing.assert_allclose(np.transpose(different.get_data()), expected[differs], rtol=1e-12)
    texts = [text.get_text() for text in panel.texts]
    gains = (expected[:, 1] > expected[:, 0]).sum()
    assert texts == [f"higher by the average\nin {gains} rows", f"higher by one process\nin {240 - gains} rows"]
    assert (panel.get_xlabel(), panel.get_ylabel()) == (MEAN_WORDS, ONE_STEP_WORDS)
    with pytest.raises(bg.PredictionError, match="one of two steps"):
        plots.agreement(point(), *TEST)
    with pytest.raises(bg.PredictionError, match="predictions of classes"):
        plots.agreement(line(), X_LINE)


def test_without_labels_answers_are_compared_at_the_class_of_the_average():
    (panel,) = plots.agreement(fit(), TEST[0]).axes
    answer = bg.predict(fit(), TEST[0], rule=bg.BMA())
    drawn = np.concatenate([curve.get_ydata() for curve in panel.lines[:2]])
    np.testing.assert_allclose(np.sort(drawn), np.sort(answer.probabilities.max(1)))
    assert panel.get_title() == "probability of the averaged class"


def test_a_comparison_takes_the_most_probable_process_for_the_two_step_answer():
    panels = plots.agreement(comparison()).axes
    assert [panel.get_title().split("\n")[0] for panel in panels] == ["full", "diag"]
    assert panels[0].get_xlabel() == "best process (two steps)"
    map_scores = next(answer for answer in comparison().scored if answer.is_map).log_scores
    drawn = np.concatenate([curve.get_xdata() for curve in panels[0].lines[:2]])
    np.testing.assert_allclose(np.sort(drawn), np.sort(np.exp(map_scores)), rtol=1e-9, atol=1e-12)


def test_a_forest_has_the_differences_of_the_table():
    (panel,) = plots.paired_differences(comparison()).axes
    table = comparison().table
    labels = [text.get_text().replace("\n", " ") for text in panel.get_yticklabels()]
    assert labels == [f"{row.model}: {row.method} · {row.rule}" for row in table.itertuples()]
    for bar, row in zip(panel.containers, table.itertuples(), strict=True):
        assert bar.lines[0].get_xdata() == [row.difference]
        ends = bar.lines[2][0].get_segments()[0][:, 0]
        np.testing.assert_allclose(ends, row.difference + 2 * row.standard_error * np.array([-1, 1]))
        assert bar.lines[0].get_color() == (ONE_STEP if row.rule == "BMA" else TWO_STEP)
    assert "MAP · PlugIn" in panel.get_xlabel()


def test_a_forest_says_where_an_answer_has_no_difference():
    X, y = {"a": list("ppqqp"), "b": list("rrsrs")}, list("xxyyx")
    new = {"a": list("pqq"), "b": list("rss")}
    pairs = [(bg.MAP(), bg.PlugIn()), (bg.MLE(), bg.PlugIn()), (bg.Exact(), bg.BMA()), (bg.MLE(), bg.BMA())]
    found = bg.compare(bg.NaiveBayes(), X, y, new, list("xyx"), methods=pairs)
    (panel,) = plots.paired_differences(found).axes
    notes = [text.get_text().strip() for text in panel.texts]
    assert notes == ["+∞: the other answer rules out true values", "refused"]
    assert len(panel.get_yticklabels()) == 4
    found = bg.compare(bg.NaiveBayes(), X, y, new, list("xyx"), methods=pairs[1:3])
    with pytest.raises(bg.PredictionError, match="has neither"):
        plots.paired_differences(found)


def test_curves_of_a_study_are_its_summary():
    figure = plots.learning_curves({"rows": study()})
    scores, differences = figure.axes
    rows = study().summary.query("rule == 'BMA'")
    label = "Exact · BMA: averaged over processes (one step)"
    assert label in legend(figure) and scores.get_title() == "rows\nfull"
    np.testing.assert_allclose(curves(scores)[label].get_ydata(), rows["log_score"])
    np.testing.assert_allclose(curves(differences)[label].get_ydata(), rows["difference"])
    assert curves(scores)[label].get_color() == ONE_STEP
    assert "MLE · PlugIn refused at 2" in scores.get_xlabel()


def test_two_answers_are_both_inside_the_panels():
    all_answers = study()
    table = all_answers.table[all_answers.table["rule"].isin(["BMA"]) | (all_answers.table["method"] == "MAP")]
    two = dataclasses.replace(all_answers, table=table, pairs=((bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.BMA())))
    for panel in plots.learning_curves(two).axes:
        values = np.concatenate([curve.get_ydata() for curve in curves(panel).values()])
        lowest, highest = panel.get_ylim()
        assert lowest < values.min() < values.max() < highest


def test_long_differences_leave_short_ones_visible():
    (panel,) = plots.paired_differences(study()).axes
    assert panel.get_xscale() == "symlog" and "logarithmic" in panel.get_xlabel()
    assert "refused" in [text.get_text().strip() for text in panel.texts]


def test_coverage_is_the_share_of_intervals_that_hold_the_truth():
    (panel,) = plots.coverage(line(), X_LINE, Y_LINE).axes
    answer = bg.predict(line(), X_LINE, rule=bg.BMA())
    low, high = answer.interval(0.5).T
    level, share = curves(panel)[ONE_STEP_WORDS].get_data()
    assert level[50] == 0.5 and share[50] == np.mean((low <= Y_LINE) & (high >= Y_LINE))
    with pytest.raises(bg.PredictionError, match=r"predictions of classes and their truths.*See plots\.coverage"):
        plots.reliability(line(), X_LINE, Y_LINE)
    with pytest.raises(bg.PredictionError, match="predictions of numbers and their truths: give X and y"):
        plots.coverage(line(), X_LINE)


def test_bands_are_quantiles_of_a_new_y():
    (panel,) = plots.regression_bands(line(), X_LINE, Y_LINE, prob=0.8, num_points=7).axes
    middle, *_ = (curve for curve in panel.lines if ONE_STEP_WORDS in curve.get_label())
    x = middle.get_xdata()
    answer = bg.predict(line(), x[:, None], rule=bg.BMA())
    np.testing.assert_allclose(middle.get_ydata(), answer.quantile(0.5))
    ends = [curve.get_ydata() for curve in panel.lines if curve.get_color() == ONE_STEP][1:]
    np.testing.assert_allclose(np.transpose(ends), answer.interval(0.8))
    np.testing.assert_array_equal(curves(panel)["rows"].get_ydata(), Y_LINE)
    assert x[0] < X_LINE.min() and x[-1] > X_LINE.max()


def test_entropy_is_split_into_what_goes_and_what_stays():
    (panel,), answer = plots.entropy(entropies()).axes, entropies()
    goes, stays = (patch.get_data() for patch in panel.patches)
    order = np.argsort(-answer.entropy)
    np.testing.assert_allclose(stays.values, answer.expected_entropy[order])
    np.testing.assert_allclose(goes.values - goes.baseline, answer.mutual_information[order], atol=1e-12)
    np.testing.assert_allclose(goes.values, answer.entropy[order], rtol=1e-9)
    assert panel.get_ylabel() == "entropy of the label (nats)"
    with pytest.raises(bg.PredictionError, match=r"BMA\(entropy_draws=1000\)"):
        plots.entropy(bg.predict(fit(), TEST[0], rule=bg.PlugIn()))


def test_posteriors_have_the_point_and_the_interval():
    figure = plots.posterior(fit(), point(), var_names=["real_mean"], coords={"class": ["b"]}, num_draws=200)
    mean, draws = point().parameters["real_mean"][1], fit().to_datatree(num_draws=200)["posterior"]["real_mean"]
    assert [panel.get_xlabel() for panel in figure.axes] == ["real_mean\nb\nx0", "real_mean\nb\nx1"]
    for column, panel in enumerate(figure.axes):
        point_line, density, interval = panel.lines
        assert point_line.get_xdata()[0] == mean[column] and point_line.get_color() == TWO_STEP
        assert colors.to_hex(density.get_color()) == ONE_STEP.lower()
        assert np.trapezoid(density.get_ydata(), density.get_xdata()) == pytest.approx(1, abs=0.03)
        np.testing.assert_allclose(interval.get_xdata(), np.quantile(draws[:, :, 1, column], [0.05, 0.95]), rtol=0.02)
    (panel, *_) = plots.posterior(fit(), var_names=["class_probs"], num_draws=50).axes
    assert panel.lines[0].get_xdata()[0] == fit().parameters["class_probs"][0]
    panels = plots.posterior(fit(), var_names=["real_mean", "real_covariance"], num_draws=50).axes
    drawn = [panel.lines[0].get_xdata()[0] for panel in panels]
    expected = [fit().parameters[name].ravel() for name in ("real_mean", "real_covariance")]
    np.testing.assert_array_equal(drawn, np.concatenate(expected))
    with pytest.raises(bg.PredictionError, match="is a point"):
        plots.posterior(point())
    with pytest.raises(bg.PredictionError, match="Parameters are"):
        plots.posterior(fit(), var_names=["mean"], num_draws=50)


def test_means_are_drawn_in_the_panels_of_their_names(monkeypatch):
    reordered = property(lambda posterior: dict(reversed(posterior.conjugate.mean().items())))
    monkeypatch.setattr(type(fit().posterior), "mean", reordered)
    panels = plots.posterior(fit(), var_names=["real_mean", "class_probs"], num_draws=50).axes
    drawn = [panel.lines[0].get_xdata()[0] for panel in panels]
    means = fit().posterior.conjugate.mean()
    np.testing.assert_array_equal(drawn, np.concatenate([means["real_mean"].ravel(), means["class_probs"]]))


def test_hypotheses_and_memberships_are_those_of_the_learner():
    figure = plots.hypotheses(game())
    left, right = figure.axes[:2]
    table = game()[0].hypotheses
    np.testing.assert_allclose([bar.get_width() for bar in left.patches], table["weight"][table["weight"] > 0])
    assert [text.get_text() for text in left.get_yticklabels()] == ["even", "all"]
    assert [colors.to_hex(bar.get_facecolor()) for bar in left.patches] == [TWO_STEP.lower(), ONE_STEP.lower()]
    average = bg.predict(game()[0], range(1, 9), rule=bg.BMA()).membership
    np.testing.assert_allclose([bar.get_height() for bar in right.patches], average)
    lines_by_label = curves(right)
    np.testing.assert_array_equal(lines_by_label["members of the best process (two steps)"].get_xdata(), [2, 4, 6, 8])
    np.testing.assert_array_equal(lines_by_label["examples"].get_xdata(), [2, 6])
    assert right.get_title() == "after the examples 2, 6"


def test_responsibilities_mix_the_colours_of_components():
    fitted, X = mixture()
    (panel,) = plots.responsibilities(fitted, X).axes
    answer = bg.predict(fitted, X, rule=bg.PlugIn())
    mixed = answer.probabilities @ [colors.to_rgb(color) for color in CLASS_COLORS[:2]]
    for code, group in enumerate(panel.collections):
        here = answer.labels == code
        np.testing.assert_array_equal(group.get_offsets(), X[here])
        np.testing.assert_allclose(group.get_facecolor()[:, :3], mixed[here], atol=1e-9)
    single = bg.fit(fitted.model, X[:, :1], method=bg.MAP(num_starts=1))
    (panel,) = plots.responsibilities(single, X[:, :1]).axes
    answer = bg.predict(single, X[:, :1], rule=bg.PlugIn())
    np.testing.assert_allclose(panel.collections[1].get_offsets()[:, 1], answer.probabilities[:, 1])


def test_states_of_a_sequence_are_stacked_over_time():
    fitted, X = hidden()
    figure = plots.states(fitted, X, row=1)
    observed, panel = figure.axes
    np.testing.assert_allclose(observed.lines[0].get_ydata(), X["level"][1])
    probabilities = fitted.states(X, rule=bg.PlugIn(), site=None).probabilities[1][:4]
    heights = [patch.get_data().values - patch.get_data().baseline for patch in panel.patches]
    np.testing.assert_allclose(np.transpose(heights), probabilities, atol=1e-12)
    assert panel.get_title() == "best process (two steps)" and panel.get_xlabel() == "time step"


@pytest.mark.slow
def test_states_of_classes_are_given_a_class():
    family = bg.DirichletHiddenMarkov(2, bg.DirichletCategorical())
    model = bg.GenerativeClassifier([("word", family, ["word"])])
    X, y = {"word": ["abab", "abba", "cc", "ccc"]}, ["l", "l", "r", "r"]
    fitted = bg.fit(model, X, y, method=bg.MAP(num_starts=1))
    with pytest.raises(bg.PredictionError, match="name one of 'l', 'r' as label="):
        plots.states(fitted, X)
    observed, panel = plots.states(fitted, X, label="r", row=0).axes
    assert [text.get_text() for text in observed.get_yticklabels()] == ["a", "b", "c"]
    expected = fitted.states(X, rule=bg.PlugIn()).probabilities[0, 1]
    np.testing.assert_allclose(panel.patches[0].get_data().values, expected[:, 0])


def test_a_figure_of_a_calibration_names_what_failed():
    result = calibration()
    (panel,) = plots.calibration(result).axes
    drawn = [curve.get_ydata() for curve in panel.lines]
    curves_of_ranks = result.ecdf_curves()
    np.testing.assert_allclose(drawn, curves_of_ranks[["mean", "scale"]].to_numpy().T)
    np.testing.assert_allclose(curves_of_ranks["mean"], 0.0, atol=1e-9)
    assert curves_of_ranks["scale"].iloc[9] == pytest.approx(0.75)
    assert [curve.get_label() for curve in panel.lines][1] == "scale: failed"
    assert (curves_of_ranks["lower"] < 0).all() and (curves_of_ranks["upper"] > 0).all()
