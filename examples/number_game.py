"""The number game: a few numbers are shown, and we say which others belong to the same concept.

    python examples/number_game.py [--people numbergame_human.tsv] [--out number_game.png]

Prints and draws what the Bayesian learner believes and how it generalises, after each of the four classic sets of
examples (Tenenbaum 1999). The two-step answer is the most probable concept alone, in the figure as dots; the one-step
answer averages over all concepts, and generalises by degrees, as people do.

Given people's judgements (a table with the columns target, set, yes, no; Bigelow and Piantadosi, 2016, A large dataset
of generalization patterns in the number game, doi 10.5334/jopd.19), it learns noise and rule weight from all sets
together, and prints how well the two answers go with what people say.
"""

import argparse
import pathlib
import warnings

import numpy as np
import numpyro.distributions as dist
import pandas as pd

import bayesgen as bg
from bayesgen.plots import hypotheses, save_figure

SETS = [[16], [60], [16, 8, 2, 64], [16, 23, 19, 20]]
NUMBERS = range(1, 101)


def draw(path):
    """Print what is believed after each set; draw that and the generalisation to all numbers."""
    fit = bg.fit(bg.ConceptLearner(bg.number_game("tenenbaum")), SETS, method=bg.Exact())
    for examples, fit_of_set in zip(SETS, fit, strict=True):
        membership = bg.predict(fit_of_set, NUMBERS, rule=bg.BMA()).membership
        likely = [number for number in NUMBERS if membership[number - 1] >= 0.5]
        print(f"\nafter {examples}, numbers that belong with a probability of at least 0.5: {likely}")
        print(fit_of_set.hypotheses.head(3).round(3).to_string(index=False))
    save_figure(hypotheses(fit), path)


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
    """Print and draw the classic sets; compare with people where their judgements are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=pathlib.Path, help="tab-separated table of people's judgements")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("number_game.png"))
    options = parser.parse_args()
    draw(options.out)
    if options.people:
        compare_with_people(options.people)


if __name__ == "__main__":
    main()
