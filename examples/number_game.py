"""The number game: a few numbers are shown, and we say which others belong to the same concept.

Draws what the Bayesian learner believes and how it generalises, after each of the four classic sets of examples, as
number_game.pdf or where it is told to:

    python examples/number_game.py
    python examples/number_game.py --figure figure.png

Given people's judgements (a table with the columns target, set, yes, no; Bigelow and Piantadosi, 2016, A large dataset
of generalization patterns in the number game, doi 10.5334/jopd.19), it learns noise and rule weight from all sets
together and tells how well the two answers go with what people say:

    python examples/number_game.py --people numbergame_human.tsv
"""

import argparse
import pathlib
import warnings

import numpy as np
import numpyro.distributions as dist
import pandas as pd

import bayesgen as bg
from bayesgen.evaluation import ONE_STEP, TWO_STEP, save_figure

SETS = [[16], [60], [16, 8, 2, 64], [16, 23, 19, 20]]
NUMBERS = range(1, 101)
BARS = 8  # hypotheses shown for each set

INK, FAINT = "#222222", "#8a8a8a"


def draw(path):
    """The figure: for each set the posterior over hypotheses, and the generalisation to all numbers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(STYLE)
    fit = bg.fit(bg.ConceptLearner(bg.number_game("tenenbaum")), SETS, method=bg.Exact())
    figure, axes = plt.subplots(len(SETS), 2, figsize=(7.4, 7.6), width_ratios=(1, 2.5), layout="constrained")
    for examples, one, (left, right) in zip(SETS, fit, axes, strict=True):
        draw_posterior(left, one)
        draw_generalisation(right, one, examples)
    axes[0, 0].set_title("Which concept is it?", pad=24)
    axes[0, 1].set_title("Does the number belong to it?", pad=24)
    axes[-1, 0].set_xlabel("posterior probability")
    axes[-1, 1].set_xlabel("number")
    figure.get_layout_engine().set(h_pad=0.07, w_pad=0.06)
    figure.legend(*legend(axes[0, 1]), loc="outside lower center", ncols=3, frameon=False, handletextpad=0.5)
    save_figure(figure, path)


STYLE = {
    "font.family": "serif",
    "font.serif": ["STIX Two Text", "STIXGeneral", "DejaVu Serif"],
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 10.5,
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "pdf.fonttype": 42,
}


def legend(axes):
    """Handles and labels, bars first."""
    handles, labels = axes.get_legend_handles_labels()
    return handles[-1:] + handles[:-1], labels[-1:] + labels[:-1]


def draw_posterior(axes, fit):
    """The most probable hypotheses, the best on top; those too improbable to be seen are left out."""
    table = fit.hypotheses.head(BARS)
    table = table[table.weight > table.weight[0] / 200]
    colors = [TWO_STEP if name == fit.ties[0] else ONE_STEP for name in table.hypothesis]
    axes.barh(range(len(table)), table.weight, color=colors, height=0.66)
    axes.set_yticks(range(len(table)), [short(name) for name in table.hypothesis], fontsize=8.5)
    axes.set(ylim=(BARS - 0.5, -0.5), xlim=(0, max(1.05 * table.weight[0], 0.15)))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter("{x:g}")


def short(name):
    """The name of a hypothesis as it stands beside its bar."""
    first, _, last = name.partition(" to ")
    return first if first == last else name.replace(" to ", "–")


def draw_generalisation(axes, fit, examples):
    """One-step membership as bars, the members of the best hypothesis as dots above, the examples marked below."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.BayesgenWarning)  # of a tie at the best hypothesis, which the figure shows
        best = bg.predict(fit, NUMBERS, rule=bg.PlugIn()).membership
    average = bg.predict(fit, NUMBERS, rule=bg.BMA()).membership
    axes.bar(NUMBERS, average, color=ONE_STEP, width=0.72, label="one-step: all concepts, averaged")
    members = np.flatnonzero(best) + 1
    axes.plot(members, np.full(len(members), 1.1), "o", color=TWO_STEP, ms=2.9, mew=0, clip_on=False,
              label="two-step: members of the most probable one")  # fmt: skip
    axes.plot(examples, np.full(len(examples), -0.075), "^", color=INK, ms=4.2, mew=0, clip_on=False, label="examples")
    axes.set(xlim=(0, 101), ylim=(0, 1.04), xticks=[1, *range(10, 101, 10)], yticks=[0, 0.5, 1])
    axes.tick_params(axis="x", pad=6)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.annotate("{" + ", ".join(map(str, examples)) + "}", (0, 1.17), xycoords="axes fraction", fontsize=10.5)


def read_people(path):
    """People's judgements: (sets of examples, index of the set and number asked, share of yes)."""
    table = pd.read_csv(path, sep="\t", dtype={"set": str})
    names = table.set.unique().tolist()
    sets = [[int(number) for number in name.split(",")] for name in names]
    which = table.set.map({name: index for index, name in enumerate(names)}).to_numpy()
    return sets, (which, table.target.to_numpy() - 1), (table.yes / (table.yes + table.no)).to_numpy()


def compare_with_people(path):
    """Print how one-step and two-step generalisation correlate with the shares of people who say yes."""
    sets, asked, shares = read_people(path)
    print(f"{len(sets)} sets of examples, {len(shares)} judgements: correlation with the share of people who say yes")
    by_hand = bg.ConceptLearner(bg.number_game("tenenbaum"), noise=0.02)
    report("by hand: rule weight 2/3, noise 0.02", bg.fit(by_hand, sets, method=bg.Exact()), asked, shares)
    space = bg.number_game("tenenbaum", rule_weight=dist.Beta(1, 1))
    fit = bg.fit(bg.ConceptLearner(space, noise=dist.Beta(1, 1)), sets, method=bg.NUTS())
    learned = [f"{name.replace('_', ' ')} {fit.parameters[name].mean():.3f} ± {fit.parameters[name].std():.3f}"
               for name in ("rule_weight", "noise")]  # fmt: skip
    report(f"learned: {', '.join(learned)}", fit, asked, shares)


def report(title, fit, asked, shares):
    """Print both correlations of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.BayesgenWarning)  # of ties, one for each set that has one
        answers = {
            "one-step": bg.predict(fit, NUMBERS, rule=bg.BMA()),
            "two-step": bg.predict(fit, NUMBERS, rule=bg.PlugIn()),
        }
    correlations = [f"{name} {np.corrcoef(each.membership[asked], shares)[0, 1]:.3f}" for name, each in answers.items()]
    print(f"  {title:48}  {',  '.join(correlations)}")


def main():
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=pathlib.Path, help="where to draw the figure (.pdf, .png, .svg)")
    parser.add_argument("--people", type=pathlib.Path, help="tab-separated table of people's judgements")
    arguments = parser.parse_args()
    if not arguments.figure and not arguments.people:
        arguments.figure = pathlib.Path("number_game.pdf")
    if arguments.figure:
        draw(arguments.figure)
        print(f"drawn: {arguments.figure}")
    if arguments.people:
        compare_with_people(arguments.people)


if __name__ == "__main__":
    main()
