"""The figure and the page of the atlas, from its tables of results alone.

    python -m benchmarks.atlas_page

reads benchmarks/results/atlas.csv, atlas_tables.csv and atlas.json, draws docs/figures/atlas.png, and writes the
numbers of docs/atlas.md between its markers, `<!-- name -->` and `<!-- end of name -->`. The unit of all statistics is
a data set: those that are the data of another one (`keel.SAME_DATA`) are left out.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from . import keel
from .atlas import AVERAGE, DISCRIMINANTS, NAIVE, ONE_STEP, RESULTS, SHARES, SIZES, WHOLE, best_plug_ins

DOCS = Path(__file__).parents[1] / "docs"
LABELS = [*map(str, SIZES), WHOLE]
MODELS = [*NAIVE, *DISCRIMINANTS, AVERAGE]
SHOWN = {
    "naive Bayes": "naive Bayes",
    "full": "discriminant, full",
    "tied": "discriminant, tied",
    AVERAGE: "average of models",
}
MACHINE = ("processor", "cores", "python", "jax", "numpyro", "numpy", "scikit-learn", "commit")
TICKS = (-0.1, 0, 0.1, 1, 10, 100, 1000, 10000)  # nats a row
ROUNDING = 1e-6  # nats a row, below which two answers are the same
NUM_ERRORS = 2  # standard errors over splits from which a data set is ahead or behind
LINEAR = 0.01  # nats a row around 0 in which the scale of the figure is linear
CAUSES = {  # of refusals, and words of their messages
    "a column that is constant in a class": "a constant column",
    "fewer rows than a covariance needs": "covariance of dimension",
    "no such fit": "is averaged exactly",
}
SMALLEST_LOSS = 0.0005  # nats a row that the table of losses shows


class Results:
    """The lines of the atlas, one data set each once.

    Attributes:
        lines: atlas.csv, with sizes as texts.
        best: the lines of the best plug-ins, with those of the one-step answer in columns that end in `_one_step`, and
            the log score of the shares of the classes in `shares`.
        tables: atlas_tables.csv.
        run: atlas.json.
    """

    def __init__(self, folder: Path) -> None:
        lines = pd.read_csv(folder / "atlas.csv", dtype={"size": str})
        self.lines = lines[~lines["table"].isin(keel.SAME_DATA)]
        self.tables = pd.read_csv(folder / "atlas_tables.csv").set_index("table")
        self.run = json.loads((folder / "atlas.json").read_text())
        keys = ["table", "model", "size"]
        one_step = self.lines[self.lines["pair"] == ONE_STEP]
        shares = self.lines[self.lines["model"] == SHARES].rename(columns={"log_score": "shares"})
        best = best_plug_ins(self.lines).merge(one_step, "left", keys, suffixes=("", "_one_step"))
        best = best.merge(shares[["table", "size", "shares"]], "left", ["table", "size"])
        is_equal = best["gain"].abs() < ROUNDING
        far = best["gain"].abs() > NUM_ERRORS * best["gain_error"]
        best["verdict"] = np.where(is_equal | ~far, "alike", np.where(best["gain"] > 0, "ahead", "behind"))
        self.best = best

    def gains(self, model: str, size: str) -> pd.DataFrame:
        """The lines of the best plug-ins of a model and a size, one for each data set."""
        return self.best[(self.best["model"] == model) & (self.best["size"] == size)]


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table; the first column is of words, the others are of numbers."""
    rule = "|---|" + "---:|" * (len(header) - 1)
    return "\n".join(["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(line) + " |" for line in lines)])


def number(value: float) -> str:
    """Three significant digits, without an exponent where they can be read."""
    if not np.isfinite(value):
        return "−∞" if value < 0 else "∞" if value > 0 else "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}".replace("-", "−")


def with_error(values: pd.Series) -> str:
    """A mean with its standard error over data sets."""
    return f"{number(values.mean())} ± {number(values.sem())}" if len(values) > 1 else number(values.mean())


def p_value(gains: pd.Series) -> str:
    """Of Wilcoxon's signed-rank test over data sets that differ by more than rounding."""
    differing = gains[gains.abs() >= ROUNDING]
    return f"{wilcoxon(differing).pvalue:.1g}" if len(differing) >= 6 else "–"


def summary(results: Results) -> str:
    """The counts of all models and sizes together."""
    best = results.best
    counts = best["verdict"].value_counts()
    plug_in, one_step = (best[name] > best["shares"] for name in ("log_score", "log_score_one_step"))
    return (
        f"Of {len(best):,} combinations of a data set, a model and a size, the one-step answer is ahead in "
        f"{counts['ahead']:,}, alike in {counts['alike']:,} and behind in {counts['behind']:,}. It is better than the "
        f"shares of the classes in {one_step.sum():,}, and the best plug-in is in {plug_in.sum():,}: in "
        f"{(one_step & ~plug_in).sum():,} the one-step answer alone is, and in {(plug_in & ~one_step).sum():,} the "
        f"plug-in alone. The best plug-in is the posterior mean in {(best['pair'] == 'mean').sum():,}, MAP in "
        f"{(best['pair'] == 'MAP').sum():,} and MLE in {(best['pair'] == 'MLE').sum():,}."
    )


def gains(results: Results) -> str:
    """Median gains, and how many data sets are ahead, alike and behind, by model and rows a class."""

    def cell(best: pd.DataFrame) -> str:
        counts = ((best["verdict"] == verdict).sum() for verdict in ("ahead", "alike", "behind"))
        return f"{number(best['gain'].median())} ({', '.join(map(str, counts))})"

    lines = [[SHOWN.get(model, model), *(cell(results.gains(model, size)) for size in LABELS)] for model in MODELS]
    return markdown(["model", *LABELS], lines)


def statistics(results: Results) -> str:
    """Means over data sets with their errors, a test, and medians where the one-step answer is of use."""
    lines = []
    for model, size in itertools.product(SHOWN, LABELS):
        best = results.gains(model, size)
        useful = best[best["log_score_one_step"] > best["shares"]]
        numbers = [with_error(best["gain"]), p_value(best["gain"]), str(len(useful)), number(useful["gain"].median())]
        lines.append([f"{SHOWN[model]}, {size}", str(len(best)), number(best["gain"].median()), *numbers])
    header = ["model, rows a class", "data sets", "median", "mean ± error", "p", "better than shares", "their median"]
    return markdown(header, lines)


def plug_ins(results: Results) -> str:
    """Median gains over each of the plug-ins, and the number of data sets in which it answers every training set."""
    lines = []
    for model, pair in itertools.product(SHOWN, ("MLE", "MAP", "mean")):
        of_pair = results.lines[(results.lines["model"] == model) & (results.lines["pair"] == pair)]
        answered = of_pair[of_pair["refused"] == 0]
        by_size = [answered.loc[answered["size"] == size, "gain"] for size in LABELS]
        if len(answered):
            cells = [f"{number(gain.median())} ({len(gain)})" if len(gain) else "–" for gain in by_size]
            lines.append([f"{SHOWN[model]}, {pair}", *cells])
    return markdown(["model, plug-in", *LABELS], lines)


def scores(results: Results) -> str:
    """Differences of the other scores, as means over data sets."""
    lines = []
    for model, size in itertools.product(SHOWN, (LABELS[0], LABELS[2], WHOLE)):
        best = results.gains(model, size)
        differences = (best[f"{name}_one_step"] - best[name] for name in ("accuracy", "brier", "ece"))
        lines.append([f"{SHOWN[model]}, {size}", *map(with_error, differences)])
    return markdown(["model, rows a class", "accuracy", "Brier", "calibration error"], lines)


def losses(results: Results) -> str:
    """The largest losses of the one-step answer, one for each data set and model."""
    behind = results.best[results.best["verdict"] == "behind"]
    worst = behind.loc[behind.groupby(["table", "model"])["gain"].idxmin()].sort_values("gain")
    lines = []
    for _, line in worst[worst["gain"] < -SMALLEST_LOSS].iterrows():
        numbers = (line["log_score"], line["log_score_one_step"], line["shares"], line["ece"], line["ece_one_step"])
        gain = f"{number(line['gain'])} ± {number(line['gain_error'])}"
        model = SHOWN.get(line["model"], line["model"])
        lines.append([f"{line['table']}, {model}, {line['size']}", gain, line["pair"], *map(number, numbers)])
    header = ["data set, model, rows a class", "gain", "plug-in", "its log score", "one-step", "class shares"]
    table = markdown([*header, "its calibration error", "one-step"], lines)
    left = f"{len(worst) - len(lines)} further pairs of a data set and a model are behind by less than {SMALLEST_LOSS}."
    return f"{table}\n\n{left}"


def shares(results: Results) -> str:
    """How many data sets have answers that are worse than the shares of the classes, and calibration errors."""
    lines = []
    for model in MODELS:
        for size in (str(SIZES[0]), WHOLE):
            best = results.gains(model, size)
            if len(best):
                worse = [str((best[name] < best["shares"]).sum()) for name in ("log_score", "log_score_one_step")]
                calibration = [number(best[name].median()) for name in ("ece", "ece_one_step")]
                lines.append([f"{SHOWN.get(model, model)}, {size}", str(len(best)), *worse, *calibration])
    header = ["model, rows a class", "data sets", "plug-in is worse", "one-step is worse"]
    return markdown([*header, "calibration error, plug-in", "one-step"], lines)


def seconds(results: Results) -> str:
    """The price of a training set of all rows and the predictions, by model."""
    lines = results.lines[results.lines["size"] == WHOLE]
    by_pair = lines.pivot(index=["model", "table"], columns="pair", values="seconds")
    table = []
    for model in MODELS:
        if model in by_pair.index:
            price = by_pair.loc[model]
            medians = [number(1000 * price[pair].median()) for pair in ("MLE", "MAP", "mean", ONE_STEP)]
            ratio = price[ONE_STEP] / price["mean"]
            table.append([SHOWN.get(model, model), *medians, number(ratio.median()), number(ratio.max())])
    header = ["model", "MLE, ms", "MAP, ms", "mean, ms", "one-step, ms", "one-step / mean", "at most"]
    return markdown(header, table)


def refusals(results: Results) -> str:
    """Training sets that were refused, and those whose fit gives probability 0 to a test row, by model and pair."""
    lines = []
    for (model, pair), group in results.lines[results.lines["model"] != SHARES].groupby(["model", "pair"], sort=False):
        refused, infinite = group["refused"].sum(), group["infinite"].sum()
        if refused or infinite:
            causes = [cause for cause, words in CAUSES.items() if group["refusal"].str.contains(words).any()]
            counts = [f"{refused:,} of {group['splits'].sum() + refused:,}", f"{infinite:,}"]
            num_tables = group[group["refused"] > 0]["table"].nunique()
            lines.append([f"{SHOWN.get(model, model)}, {pair}", *counts, str(num_tables), "; ".join(causes) or "–"])
    return markdown(["model, plug-in", "refused", "log score −∞", "data sets that refuse", "because of"], lines)


def measured(results: Results) -> str:
    """What was measured, and on which machine."""
    tables, run = results.tables, results.run
    once = tables[~tables.index.isin(keel.SAME_DATA)]
    machine = ", ".join(f"{name} {run['machine'][name]}" for name in MACHINE).replace("+", " with changes")
    return (
        f"{len(tables)} tables, of which {len(once)} count: {once['rows'].min():,} to {once['rows'].max():,} rows, "
        f"{once['columns'].min()} to {once['columns'].max()} columns, {once['classes'].min()} to "
        f"{once['classes'].max()} classes; {int(once['numeric'].sum())} have real columns alone. "
        f"{run['splits']} splits of each. {run['minutes']} minutes with {run['workers']} processes, "
        f"{run['core_minutes']} minutes of one core. {machine[0].upper()}{machine[1:]}."
    )


def first_look(results: Results) -> str:
    """The counts and medians that were seen before, at 5 and 50 rows a class."""
    lines = []
    for size, said_ahead, said in (("5", "74 of 78", "2.1, 4.9, 1.5"), ("50", "58 of 65", "0.07, 0.45, 0.014")):
        groups = [results.gains(model, size) for model in ("naive Bayes", "full", "tied")]
        together = pd.concat(groups)
        ahead, equal = (together["gain"] > ROUNDING).sum(), (together["gain"].abs() <= ROUNDING).sum()
        medians = ", ".join(number(group["gain"].median()) for group in groups)
        unequal = ", ".join(number(group.loc[group["gain"].abs() > ROUNDING, "gain"].median()) for group in groups)
        counts = f"{ahead} of {len(together)}, {equal} equal"
        lines.append([f"{size} rows a class", said_ahead, counts, said, medians, unequal])
    header = ["", "ahead, first look", "ahead, here", "medians, first look", "medians, here", "without equal ones"]
    return markdown(header, lines)


SECTIONS: dict[str, Callable[[Results], str]] = {
    "measured": measured,
    "summary": summary,
    "gains": gains,
    "statistics": statistics,
    "plug-ins": plug_ins,
    "scores": scores,
    "losses": losses,
    "shares": shares,
    "seconds": seconds,
    "refusals": refusals,
    "first look": first_look,
}


def filled(page: str, results: Results) -> str:
    """A page with its numbers."""
    for name, section in SECTIONS.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"The page needs one pair of markers {begin} and {end}.")
        before, rest = page.split(begin)
        page = f"{before}{begin}\n\n{section(results)}\n\n{end}{rest.split(end)[1]}"
    return page


def draw(results: Results, path: Path) -> None:
    """The gain of the one-step answer by rows a class: a thin line for each data set, their median thick."""
    from bayesgen.plots import style

    note = "Gain: log score of the average less that of the best plug-in, in nats. Linear in the grey band."
    with style.drawing(None, 2, 2, width=4.6, height=2.1, least=2.0, note=note, sharex=True, sharey=True) as (
        figure,
        panels,
    ):
        for panel, (model, title) in zip(panels.ravel(), SHOWN.items(), strict=True):
            best = results.best[results.best["model"] == model]
            is_useful = best["log_score_one_step"] > best["shares"]
            gain, useful = (
                lines.pivot(index="size", columns="table", values="gain").reindex(LABELS)
                for lines in (best, best[is_useful])
            )
            positions = np.arange(len(LABELS))
            panel.axhspan(-LINEAR, LINEAR, color=style.FAINT, linewidth=0)
            panel.axhline(0.0, color=style.INK, linewidth=0.7)
            for table_gain in gain.to_numpy().T:
                has_size = ~np.isnan(table_gain)
                panel.plot(positions[has_size], table_gain[has_size], color=style.GREY, alpha=0.45, linewidth=0.6)
            panel.plot([], [], color=style.GREY, linewidth=0.6, label="a data set")
            panel.plot(positions, gain.median(axis=1), color=style.ONE_STEP, linewidth=2.6, marker="o", label="median")
            label = "median where the average beats the shares of the classes"
            panel.plot(positions, useful.median(axis=1), color=style.INK, linestyle="--", label=label)
            panel.set_title(f"{title} ({best['table'].nunique()})")
            panel.set_yscale("symlog", linthresh=LINEAR, linscale=0.6)
            panel.set_yticks(TICKS, [f"{tick:,g}".replace("-", "−") for tick in TICKS])
            panel.set_xticks(positions, [*LABELS[:-1], "all"])
        for panel in panels[1]:
            panel.set_xlabel("rows a class")
        for panel in panels[:, 0]:
            panel.set_ylabel("gain, nats a row")
    path.parent.mkdir(exist_ok=True)
    style.save_figure(figure, path)


def main() -> None:
    """Draw the figure and fill the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.atlas_page", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the tables of results")
    parser.add_argument("--figure", type=Path, default=DOCS / "figures" / "atlas.png")
    parser.add_argument("--page", type=Path, default=DOCS / "atlas.md")
    options = parser.parse_args()
    results = Results(options.results)
    draw(results, options.figure)
    options.page.write_text(filled(options.page.read_text(), results))


if __name__ == "__main__":
    main()
