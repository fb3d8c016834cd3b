"""What unlabelled rows are worth: accuracy by the number of labelled rows, with and without the others.

    python examples/semi_supervised.py [sms_spam.tsv.gz] [--draws 5] [--out semi_supervised.png]

Each data set is halved; of the training half some rows keep their labels, at least one of each class, and the others
lose them. One fit sees the labelled rows alone. The others see all rows, and find the classes of the unlabelled ones by
expectation maximisation (EM), where an unlabelled row counts as much as a labelled one or a tenth of it
(`unlabelled_weight`, Nigam, McCallum, Thrun and Mitchell 2000, section 5.3.1). The test rows are in neither.

Unlabelled rows help to find the classes as far as the model says truly how classes make data. Where it does not, many
of them pull the classes to where the model would have them: neighbouring pixels are not drawn independently, and from
some hundred labelled digits on EM is worse than the labelled rows alone, where it does not let unlabelled rows count
less. For the wine it always helps; and in text messages it finds spam from ten labels as well as from a thousand.

The wine and the digits come with scikit-learn. The third panel is drawn where the file of the SMS Spam Collection
(Almeida, Gómez Hidalgo and Yamakami 2011) is given: lines of label, tab, text.
"""

import argparse
import csv
import dataclasses
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

SOFT = bg.MAP(num_starts=1)  # the start is the fit of the labelled rows
METHODS = {
    "labelled rows alone": None,
    "all rows, EM": SOFT,
    "all rows, EM, an unlabelled one counts 1/10": dataclasses.replace(SOFT, unlabelled_weight=0.1),
}


@dataclasses.dataclass(frozen=True)
class Panel:
    """A data set, the model that is asked of it, and numbers of labelled rows.

    Attributes:
        title: for the figure.
        model: the model.
        X: (n, D), dense or sparse.
        y: (n,) labels.
        sizes: numbers of labelled rows.
    """

    title: str
    model: Any
    X: Any
    y: np.ndarray
    sizes: tuple[int, ...]


def panels(spam: pathlib.Path | None) -> Iterator[Panel]:
    """The data sets."""
    wine = load_wine()
    yield Panel("wine, normal classes", bg.GaussianDiscriminant("diag"), wine.data, wine.target, (6, 12, 24, 48))
    digits = load_digits()
    words = bg.NaiveBayes(bg.DirichletMultinomial(2))  # one more than the counts: the mode has no zeros
    yield Panel("digits, ink as multinomial events", words, digits.data, digits.target, (20, 50, 100, 300))
    if spam is not None:
        frame = pd.read_csv(spam, sep="\t", names=["label", "text"], quoting=csv.QUOTE_NONE)
        counts = CountVectorizer(min_df=3).fit_transform(frame["text"])
        yield Panel("SMS spam, words", words, counts, frame["label"].to_numpy(), (10, 40, 160, 640))


def accuracies(panel: Panel, num_draws: int) -> pd.DataFrame:
    """One row for each draw of labelled rows, size and method."""
    records = []
    for draw in range(num_draws):
        rng = np.random.default_rng(draw)
        X, X_test, y, y_test = train_test_split(panel.X, panel.y, test_size=0.5, stratify=panel.y, random_state=draw)
        order = first_of_each_class(y, rng)
        for size in panel.sizes:
            labelled = np.zeros(len(y), bool)
            labelled[order[:size]] = True
            for name, method in METHODS.items():
                fit = trained(panel.model, X, y, labelled, method)
                answer = bg.predict(fit, X_test, rule=bg.PlugIn())
                accuracy = np.mean(answer.labels == y_test)
                records.append({"labelled": size, "method": name, "draw": draw, "accuracy": accuracy})
    return pd.DataFrame(records)


def first_of_each_class(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows in random order, but for one of each class that come first."""
    order = rng.permutation(len(y))
    _, firsts = np.unique(y[order], return_index=True)
    return np.concatenate([order[firsts], np.delete(order, firsts)])


def trained(model: Any, X: Any, y: np.ndarray, labelled: np.ndarray, method: bg.MAP | None) -> Any:
    """The fit of the labelled rows alone where there is no method, else of all rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConstantColumnWarning)
        if method is None:
            return bg.fit(model, X[labelled], y[labelled], method=SOFT)
        return bg.fit(model, X, np.where(labelled, y, None), method=method, progress=False)


def draw_figure(tables: dict[str, pd.DataFrame], out: pathlib.Path) -> None:
    """A panel for each data set: means over the draws, and their standard errors."""
    with drawing(None, 1, len(tables), width=3.5 * len(tables), height=3.0) as (figure, axes):
        for axis, (title, table) in zip(axes[0], tables.items(), strict=True):
            for name, look in zip(METHODS, looks([True] * len(METHODS)), strict=True):
                grouped = table[table["method"] == name].groupby("labelled")["accuracy"]
                axis.errorbar(grouped.mean().index, grouped.mean(), grouped.sem(), label=name, capsize=3, **look)
            axis.set(title=title, xlabel="labelled rows", ylabel="accuracy on test rows", xscale="log")
            axis.set_xticks(sorted(table["labelled"].unique()), sorted(table["labelled"].unique()))
            axis.minorticks_off()
    save_figure(figure, out)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spam", nargs="?", type=pathlib.Path, help="the SMS Spam Collection, label TAB text")
    parser.add_argument("--draws", type=int, default=5, help="random draws of the labelled rows")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("semi_supervised.png"))
    options = parser.parse_args()
    tables = {panel.title: accuracies(panel, options.draws) for panel in panels(options.spam)}
    for title, table in tables.items():
        summary = table.groupby(["labelled", "method"])["accuracy"].agg(["mean", "sem"])
        print(title, summary.unstack(0).round(3).to_string(), sep="\n", end="\n\n")
    draw_figure(tables, options.out)


if __name__ == "__main__":
    main()
