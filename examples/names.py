"""Which continent is this city on? Classes of names by k-grams, plug-in and averaged over parameters and orders.

    python examples/names.py [sms_spam.tsv.gz] [--splits 20] [--out names.svg]

The names of the world's time zones are cities and islands by continent: "Europe/Berlin". For each continent, a Markov
chain of order k makes the letters of a name, one after another, and ends it: order 0 knows how frequent letters are,
order 1 which follow which, and so on. What follows a context has a Dirichlet prior about how frequent letters are in
all names for training, worth some pseudo-counts. The other names are told apart

- plug-in: by the chains of mean probabilities;
- averaged over parameters: by `BMA()` of a fit of one order;
- averaged over orders too: by `bayesgen.average` of the fits of all orders, weighed by their evidence, or by stacking,
  which looks at class probabilities of names left out.

The log score is the mean of log p(continent | name) over names for tests, averaged over random splits; the line
"shares" knows how many names each continent has, and no letters.

What is seen, with 20 splits. Letters tell little of the continent: of 350 names, the shares score -1.61 (37 % right),
order 1 has 44 % right, and yet a worse log score, -1.74, as chains are too sure: the letters of a name are not drawn
given the continent alone. Plug-in and the average over parameters differ at order 0, where letters come again within a
name, and from few names (-1.93 and -1.89 from 50); from order 1 on, pairs hardly do, and the two are the same. The
evidence gives nearly all weight to order 1, the best account of names, which is not what the log score asks for: all of
these chains are wrong, and the average by evidence stays below the shares at every number of names. Where all models
are wrong, stacking is the average to take: it asks for the log score, mixes the orders, and is best from 100 names on
(-1.50 and 46 % from 350). Text messages are longer, and the averages over parameters differ from plug-in at every
order: they are better at orders 0 and 1 (at order 1, -0.27 and -0.30 from 100 messages), and mostly worse at orders 2
and 3, where what a message repeats makes them even surer. The evidence goes from order 2 to order 3, both too sure, and
stacking is best from any number of messages.

The second row of panels is drawn where the file of the SMS Spam Collection (Almeida, Gómez Hidalgo and Yamakami 2011)
is given: lines of label, tab, text.
"""

import argparse
import csv
import dataclasses
import pathlib
import re
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
TESTS = 0.2  # the share of strings that no fit sees
SCORES = ("log score", "accuracy")
SHARES, BY_EVIDENCE, BY_STACKING = "shares", "averaged by evidence", "averaged by stacking"
FOLDS = 5  # of stacking
RULES = {"plug-in": bg.PlugIn(), "BMA": bg.BMA()}
AVERAGES = (BY_EVIDENCE, BY_STACKING)
NOTE = (
    "All of these chains are wrong: the letters of a string are not drawn given its class alone. The evidence picks "
    "the chain that describes whole strings best, which is too sure of classes: its average may score below shares of "
    "the classes. Stacking weighs chains by p(class | string) of strings left out: where all models are wrong, average "
    "so."
)


@dataclasses.dataclass(frozen=True)
class Task:
    """Strings with classes, and what is asked about them.

    Attributes:
        title: for the figure.
        strings: the strings.
        y: (n,) their classes.
        orders: of the chains that are fitted.
        pseudo_counts: what the prior of the letters that follow a context is worth, all together.
        sizes: numbers of strings for training.
    """

    title: str
    strings: Sequence[str]
    y: np.ndarray
    orders: tuple[int, ...]
    pseudo_counts: float
    sizes: tuple[int, ...]

    @property
    def alphabet(self) -> list[str]:
        """The letters of all strings, so that one that no string for training has is no surprise."""
        return sorted(set("".join(self.strings)))

    def models(self, strings: Sequence[str]) -> list[bg.NaiveBayes]:
        """Chains of each order, one a class, their prior about the frequencies of letters, and of ends, in strings."""
        seen = Counter("".join(strings))
        counts = np.array([1 + seen[letter] for letter in self.alphabet] + [1 + len(strings)])
        concentration = self.pseudo_counts * counts / counts.sum()
        return [bg.NaiveBayes(bg.DirichletMarkov(order, concentration, end=True)) for order in self.orders]


def tasks(spam: pathlib.Path | None) -> Iterator[Task]:
    """The data sets."""
    places, continents = names()
    yield Task("continents of cities", places, continents, (0, 1, 2, 3), 30.0, (25, 50, 100, 200, 350))
    if spam is not None:
        texts, labels = messages(spam)
        yield Task("spam among text messages", texts, labels, (0, 1, 2, 3), 10.0, (30, 100, 300, 1000))


def names() -> tuple[list[str], np.ndarray]:
    """Names of places in lower case, and their continents, those that have some names."""
    zones = [zone.split("/") for zone in zoneinfo.available_timezones()]
    places = {(zone[0], zone[-1].replace("_", " ").lower()) for zone in zones if len(zone) > 1 and zone[0] != "Etc"}
    frame = pd.DataFrame(sorted(places), columns=["continent", "name"])
    frame = frame[frame.groupby("continent")["name"].transform("size") >= LEAST_NAMES]
    return frame["name"].tolist(), frame["continent"].to_numpy(str)


def messages(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Texts in letters, one digit and a few signs, and whether they are spam."""
    frame = pd.read_csv(path, sep="\t", names=["label", "text"], quoting=csv.QUOTE_NONE)
    texts = [re.sub(r"[^a-z0 .,!?'£]", "*", re.sub(r"\d", "0", text.lower())) for text in frame["text"]]
    return texts, frame["label"].to_numpy(str)


def scores(task: Task, num_splits: int) -> pd.DataFrame:
    """Log score and accuracy of each answer, one row for each split, number of strings for training, and answer."""
    records = []
    for split in range(num_splits):
        pool, tests, y_pool, y_test = train_test_split(
            task.strings, task.y, test_size=TESTS, stratify=task.y, random_state=split
        )
        for size in task.sizes:
            strings, _, y, _ = train_test_split(pool, y_pool, train_size=size, stratify=y_pool, random_state=split)
            records.append((size, SHARES, split, *of_shares(y, y_test)))
            for answer, prediction in answers(task, strings, y, tests):
                records.append((size, answer, split, *scored(prediction, y_test)))
    return pd.DataFrame(records, columns=["strings", "answer", "split", *SCORES])


def answers(
    task: Task, strings: Sequence[str], y: np.ndarray, tests: Sequence[str]
) -> Iterator[tuple[str, bg.ClassPrediction]]:
    """The answers of all orders and rules, and of the averages, to strings whose class is asked for."""
    X, models, schema = {"text": strings}, task.models(strings), bg.Schema(categories={"text": task.alphabet})
    fits = [bg.fit(model, X, y, method=bg.Exact(), schema=schema) for model in models]
    for order, fit in zip(task.orders, fits, strict=True):
        for name, rule in RULES.items():
            yield f"order {order}, {name}", bg.predict(fit, {"text": tests}, rule=rule)
    yield BY_EVIDENCE, bg.predict(bg.average(fits), {"text": tests}, rule=bg.BMA())
    stacked = bg.average(fits, weights="stacking", X=X, y=y, folds=FOLDS)
    yield BY_STACKING, bg.predict(stacked, {"text": tests}, rule=bg.BMA())


def scored(prediction: bg.ClassPrediction, y: np.ndarray) -> tuple[float, float]:
    """Mean of log p(class | string), and the share of strings whose most probable class is theirs."""
    places = np.searchsorted(prediction.classes, y)
    log_scores = prediction.log_probabilities[np.arange(len(y)), places]
    return float(log_scores.mean()), float(np.mean(prediction.labels == y))


def of_shares(y: np.ndarray, y_test: np.ndarray) -> tuple[float, float]:
    """Both scores of the shares of the classes, whatever the string."""
    shares = pd.Series(y).value_counts(normalize=True)
    return float(np.log(shares[y_test]).mean()), float(np.mean(y_test == shares.idxmax()))


def draw_figure(tables: dict[str, pd.DataFrame], out: pathlib.Path) -> None:
    """A row of two panels for each task: log scores of single orders, and of averages over them, with their errors."""
    with drawing(None, len(tables), 2, width=8.0, height=3.4, sharey="row", note=NOTE) as (figure, axes):
        for (left, right), (title, table) in zip(axes, tables.items(), strict=True):
            grouped = table.groupby(["answer", "strings"])["log score"].agg(["mean", "sem"])
            orders = sorted({answer for answer in table["answer"] if answer.startswith("order")})
            styles = looks(answer.endswith("plug-in") for answer in orders)
            for answer, look in zip(orders, styles, strict=True):
                draw_line(left, grouped.loc[answer], answer, **look)
            for answer, look in zip(AVERAGES, looks([False] * len(AVERAGES)), strict=True):
                draw_line(right, grouped.loc[answer], answer, **look)
            for axis, of_what in ((left, "two-step and one-step"), (right, "one-step, all orders")):
                shares = {"color": "0.55", "linewidth": 4, "alpha": 0.5}
                draw_line(axis, grouped.loc[SHARES], "shares of the classes, no letters", **shares)
                axis.set(title=f"{title}: {of_what}", xlabel="strings for training", xscale="log")
                sizes = sorted(table["strings"].unique())
                axis.set_xticks(sizes, sizes)
                axis.minorticks_off()
            left.set_ylabel("log score (nats; higher is better)")
    save_figure(figure, out)


def draw_line(axis: Any, scores: pd.DataFrame, label: str, **style: Any) -> None:
    """Means by the number of strings, and their standard errors."""
    axis.errorbar(scores.index, scores["mean"], scores["sem"], label=label, capsize=3, **style)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spam", nargs="?", type=pathlib.Path, help="the SMS Spam Collection, label TAB text")
    parser.add_argument("--splits", type=int, default=20, help="random splits into strings for training and for tests")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("names.svg"))
    options = parser.parse_args()
    tables = {task.title: scores(task, options.splits) for task in tasks(options.spam)}
    for title, table in tables.items():
        means = table.groupby(["answer", "strings"], sort=False)[list(SCORES)].mean().unstack().round(3)
        print(title, means.to_string(), sep="\n", end="\n\n")
    draw_figure(tables, options.out)


if __name__ == "__main__":
    main()
