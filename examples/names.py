"""Which continent is this city on? Classes of names by k-grams, plug-in and averaged over parameters and orders.

    python examples/names.py [--splits 3] [--out names.png]

The names of the world's time zones are cities and islands by continent: "Europe/Berlin". For each continent, a Markov
chain of order k makes the letters of a name, one after another, and ends it: order 0 knows how frequent letters are,
order 1 which follow which, and so on. Other names are told apart by the mean chains (plug-in), by the average over the
parameters of one order (BMA), and by averages over the orders, too: weighed by their evidence, or by stacking. The
line "shares" knows how many names each continent has, and no letters.

Letters tell little of the continent, and all of these chains are wrong. The evidence gives nearly all weight to order
1, the best account of whole names, which is too sure of continents: its average stays below the shares. Stacking looks
at probabilities of continents of names left out, and is best from 100 names on. Where all models are wrong, average so.
"""

import argparse
import pathlib
import zoneinfo
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

LEAST_NAMES = 20  # of a continent, of which some are for training
TESTS = 0.2  # the share of names that no fit sees
SIZES = (25, 50, 100, 200, 350)
ORDERS = (0, 1, 2, 3)
PSEUDO_COUNTS = 30.0  # what the prior of the letters that follow a context is worth, all together
SCORES = ("log score", "accuracy")
SHARES, BY_EVIDENCE, BY_STACKING = "shares", "averaged by evidence", "averaged by stacking"
FOLDS = 5  # of stacking
RULES = {"plug-in": bg.PlugIn(), "BMA": bg.BMA()}
AVERAGES = (BY_EVIDENCE, BY_STACKING)


def names() -> tuple[list[str], np.ndarray]:
    """Names of cities and islands in lower case, and their continents, those that have some names."""
    zones = [zone.split("/") for zone in zoneinfo.available_timezones()]
    pairs = {(zone[0], zone[-1].replace("_", " ").lower()) for zone in zones if len(zone) > 1 and zone[0] != "Etc"}
    frame = pd.DataFrame(sorted(pairs), columns=["continent", "name"])
    frame = frame[frame.groupby("continent")["name"].transform("size") >= LEAST_NAMES]
    return frame["name"].tolist(), frame["continent"].to_numpy(str)


def chain_models(strings: Sequence[str], alphabet: Sequence[str]) -> list[bg.NaiveBayes]:
    """Chains of each order, one a class, their prior about the frequencies of letters, and of ends, in strings."""
    frequencies = Counter("".join(strings))
    counts = np.array([1 + frequencies[letter] for letter in alphabet] + [1 + len(strings)])
    concentration = PSEUDO_COUNTS * counts / counts.sum()
    return [bg.NaiveBayes(bg.DirichletMarkov(order, concentration, end=True)) for order in ORDERS]


def scores(num_splits: int, sizes: Sequence[int] = SIZES) -> pd.DataFrame:
    """Log score and accuracy of each answer, one row for each split, number of names for training, and answer."""
    cities, continents = names()
    alphabet = sorted(set("".join(cities)))  # so that a letter that no name for training has is no surprise
    records = []
    for split in range(num_splits):
        print(f"split {split + 1} of {num_splits} ...", flush=True)
        pool, tests, y_pool, y_test = train_test_split(
            cities, continents, test_size=TESTS, stratify=continents, random_state=split
        )
        for size in sizes:
            strings, _, y, _ = train_test_split(pool, y_pool, train_size=size, stratify=y_pool, random_state=split)
            records.append((size, SHARES, split, *scores_of_shares(y, y_test)))
            for answer, prediction in answers(strings, y, tests, alphabet):
                score = prediction.score(y_test)
                records.append((size, answer, split, score["log_score"], score["accuracy"]))
    return pd.DataFrame(records, columns=["names", "answer", "split", *SCORES])


def answers(
    strings: Sequence[str], y: np.ndarray, tests: Sequence[str], alphabet: Sequence[str]
) -> Iterator[tuple[str, bg.ClassPrediction]]:
    """The answers of all orders and rules, and of the averages, to strings whose class is asked for."""
    X, schema = {"name": strings}, bg.Schema(categories={"name": alphabet})
    fits = [bg.fit(model, X, y, method=bg.Exact(), schema=schema) for model in chain_models(strings, alphabet)]
    for order, fit in zip(ORDERS, fits, strict=True):
        for name, rule in RULES.items():
            yield f"order {order}, {name}", bg.predict(fit, {"name": tests}, rule=rule)
    yield BY_EVIDENCE, bg.predict(bg.average(fits), {"name": tests}, rule=bg.BMA())
    stacked = bg.average(fits, weights="stacking", X=X, y=y, folds=FOLDS)
    yield BY_STACKING, bg.predict(stacked, {"name": tests}, rule=bg.BMA())


def scores_of_shares(y: np.ndarray, y_test: np.ndarray) -> tuple[float, float]:
    """Both scores of the shares of the classes, whatever the name."""
    shares = pd.Series(y).value_counts(normalize=True)
    return float(np.log(shares[y_test]).mean()), float(np.mean(y_test == shares.idxmax()))


def draw_figure(table: pd.DataFrame, out: pathlib.Path) -> None:
    """Log scores of single orders, and of averages over them, with their errors over splits."""
    grouped = table.groupby(["answer", "names"])["log score"].agg(["mean", "sem"])
    orders = sorted({answer for answer in table["answer"] if answer.startswith("order")})
    sizes = sorted(table["names"].unique())
    with drawing(None, 1, 2, height=3.2, sharey="row") as (figure, ((left, right),)):
        for answer, look in zip(orders, looks(answer.endswith("plug-in") for answer in orders), strict=True):
            draw_line(left, grouped.loc[answer], answer, **look)
        for answer, marker, look in zip(AVERAGES, ("s", "X"), looks([False] * len(AVERAGES)), strict=True):
            draw_line(right, grouped.loc[answer], answer, **look | {"marker": marker})
        for axis, title in ((left, "single orders"), (right, "averages over all orders")):
            style = {"color": "0.55", "linewidth": 4, "alpha": 0.5}
            draw_line(axis, grouped.loc[SHARES], "shares of the continents, no letters", **style)
            axis.set(title=title, xlabel="names for training", xscale="log")
            axis.set_xticks(sizes, sizes)
            axis.minorticks_off()
        left.set_ylabel("mean log p(continent | name)\n(nats; higher is better)")
    save_figure(figure, out)


def draw_line(axis: Any, scores: pd.DataFrame, label: str, **style: Any) -> None:
    """Means by the number of names, and their standard errors."""
    axis.errorbar(scores.index, scores["mean"], scores["sem"], label=label, capsize=3, **style)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3, help="random splits into names for training and for tests")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("names.png"))
    options = parser.parse_args()
    table = scores(options.splits)
    for column in SCORES:
        means = table.groupby(["answer", "names"], sort=False)[column].mean().unstack()
        print(f"\n{column}, by the number of names for training", means.round(3).to_string(), sep="\n")
    draw_figure(table, options.out)


if __name__ == "__main__":
    main()
