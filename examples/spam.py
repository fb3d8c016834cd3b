"""Two ways to see a message: which words it has, or how often it has each of them.

    python examples/spam.py [sms_spam.tsv.gz] [--repeats 10] [--out spam.png]

Naive Bayes of words comes in two event models (McCallum and Nigam 1998). In the Bernoulli one a message either has a
word or has it not; words that it lacks are evidence, too. In the multinomial one a message is a number of words drawn
one after another; its length tells nothing. The script learns both from few or many messages, by their exact
posteriors, and prints and draws how well the two-step and the one-step answer tell spam. For the Bernoulli model both
answers are the same by algebra: a word is there once or not at all, so that the mean process has the average's answer.

The messages are simulated: each has words drawn from its class, but a word that was used is likely to be used again.
Spam is longer. The multinomial model is far ahead with few messages, and the Bernoulli one a little with a thousand.
Given the file of the SMS Spam Collection (lines of label, tab, text; Almeida, Gómez Hidalgo and Yamakami 2011), real
messages are used.
"""

import argparse
import csv
import pathlib

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

SIZES = (20, 50, 100, 300, 1000)
NUM_WORDS, NUM_MESSAGES = 800, 3000
MODELS = {"Bernoulli": bg.NaiveBayes(bg.BetaBernoulli()), "multinomial": bg.NaiveBayes(bg.DirichletMultinomial())}
RULES = {"two steps": bg.PlugIn(), "one step": bg.BMA()}


def simulate(seed: int = 0) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """(counts of words, labels) of messages, a fifth of them spam.

    Generative story: the words of a class have probabilities about those of the language; a message draws probabilities
    of its own about those of its class, by which words come again; and then its words, 10 on average and 20 in spam.
    """
    rng = np.random.default_rng(seed)
    language = 1.0 / np.arange(3, NUM_WORDS + 3)
    by_class = rng.dirichlet(300 * language / language.sum(), 2)
    codes = (rng.random(NUM_MESSAGES) < 0.2).astype(int)
    lengths = 1 + rng.poisson(np.array([9, 19])[codes])
    own_probs = [rng.dirichlet(60 * by_class[code] + 1e-9) for code in codes]
    counts = [rng.multinomial(length, probs) for length, probs in zip(lengths, own_probs, strict=True)]
    return scipy.sparse.csr_array(np.array(counts)), np.array(["ham", "spam"])[codes]


def read(path: pathlib.Path) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """(counts of words, labels) of the messages in a file; words of two messages or fewer are left out."""
    frame = pd.read_csv(path, sep="\t", names=["label", "text"], quoting=csv.QUOTE_NONE)
    counts = CountVectorizer(min_df=3).fit_transform(frame["text"])
    return scipy.sparse.csr_array(counts), frame["label"].to_numpy(str)


def scores(counts: scipy.sparse.csr_array, labels: np.ndarray, num_repeats: int) -> pd.DataFrame:
    """Log score and accuracy, one row for each training set, event model and answer."""
    records = []
    for repeat in range(num_repeats):
        pool, test = train_test_split(np.arange(len(labels)), test_size=0.3, stratify=labels, random_state=repeat)
        for size in SIZES:
            train, _ = train_test_split(pool, train_size=size, stratify=labels[pool], random_state=repeat)
            for event, model in MODELS.items():
                X = counts > 0 if event == "Bernoulli" else counts
                fit = bg.fit(model, X[train], labels[train], method=bg.Exact())
                for steps, rule in RULES.items():
                    score = bg.predict(fit, X[test], rule=rule).score(labels[test])
                    records.append((size, f"{event}, {steps}", score["log_score"], score["accuracy"]))
    return pd.DataFrame(records, columns=["messages", "answer", "log score", "accuracy"])


def draw_figure(table: pd.DataFrame, out: pathlib.Path) -> None:
    """Losses and error rates by the number of messages: means over training sets, and their standard errors."""
    answers = list(table["answer"].unique())
    losses = table.assign(loss=-table["log score"], error=1 - table["accuracy"])
    labels = {"loss": "mean -log p(class | message)\n(nats; lower is better)", "error": "share of wrong classes"}
    with drawing(None, 1, 2, height=2.8) as (figure, axes):
        for axis, (column, label) in zip(axes[0], labels.items(), strict=True):
            for answer, look in zip(answers, looks("two" in answer for answer in answers), strict=True):
                grouped = losses[losses["answer"] == answer].groupby("messages")[column]
                axis.errorbar(grouped.mean().index, grouped.mean(), grouped.sem(), label=answer, capsize=3, **look)
            axis.set(xlabel="messages for training", ylabel=label, xscale="log", yscale="log")
            axis.set_xticks(SIZES, SIZES)
            axis.xaxis.minorticks_off()
    save_figure(figure, out)


def main() -> None:
    """Read or simulate, measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spam", nargs="?", type=pathlib.Path, help="the SMS Spam Collection, label TAB text")
    parser.add_argument("--repeats", type=int, default=10, help="random training sets of each size")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("spam.png"))
    options = parser.parse_args()
    counts, labels = simulate() if options.spam is None else read(options.spam)
    print(f"{counts.shape[0]:,} messages with {counts.shape[1]:,} words, {np.mean(labels == 'spam'):.0%} spam")
    table = scores(counts, labels, options.repeats)
    for column in ("log score", "accuracy"):
        means = table.groupby(["answer", "messages"], sort=False)[column].mean().unstack()
        print(f"\n{column}, by the number of messages for training", means.round(3).to_string(), sep="\n")
    draw_figure(table, options.out)


if __name__ == "__main__":
    main()
