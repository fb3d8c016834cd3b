"""Between generative and discriminative: accuracy by the coupling of the two, where the model is wrong.

    python examples/hybrid.py [--draws 8] [--labelled 4] [--unlabelled 200] [--out hybrid.png]

After Lasserre, Bishop and Minka (2006, section 4): two classes lie beside each other and are long and upright, while
the model takes them for round. A few rows have labels, many have none. Generative training looks for round clusters in
the unlabelled rows, and in some draws those are an upper and a lower one, and not the classes. Discriminative training
looks at the labels alone, which are few. `Hybrid(coupling)` lets two processes differ, one that tells labels and one
that tells where rows are; a coupling between the limits is better than both, by one or two hundredths, for which it
takes a hundred draws of the data to show (--draws 120 --sampled 120, some minutes).

The one-step answer averages over all processes that may have made the data: of the labelled rows alone (`Exact`), or
of all rows (`NUTS`). Its model is as wrong, and labels alone are too few; yet averaging over all rows does not fall for
one way to cluster them.
"""

import argparse
import pathlib
import warnings
from typing import Any

import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

MODEL = bg.GaussianDiscriminant("tied-spherical", class_prior=[0.5, 0.5])
COUPLINGS = np.geomspace(0.03, 30, 9)
SPREAD, GAP = (0.8, 1.5), 2.7  # of both classes, across and upright; between them
NUM_TEST = 1000


def simulate(num_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two upright classes, half of them of each."""
    y = np.arange(num_rows) % 2
    return rng.normal(size=(num_rows, 2)) * SPREAD + np.outer(y, [GAP, 0.0]), y


def accuracies(num_draws: int, num_labelled: int, num_unlabelled: int, num_sampled: int) -> pd.DataFrame:
    """One row for each draw of the data and way of learning, by NUTS() for the first of the draws alone."""
    records = []
    for draw in range(num_draws):
        if draw % 4 == 0:
            print(f"draw {draw + 1} of {num_draws} ...", flush=True)
        rng = np.random.default_rng(draw)
        (X, y), (X_test, y_test) = simulate(num_labelled + num_unlabelled, rng), simulate(NUM_TEST, rng)
        labels = y.astype(object)
        labels[num_labelled:] = None
        known = slice(0, num_labelled)
        fits = {coupling: trained(X, labels, bg.Hybrid(coupling)) for coupling in COUPLINGS}
        fits |= {"generative": trained(X, labels, "joint"), "discriminative": trained(X, labels, "conditional")}
        answers = {name: (fit, bg.PlugIn()) for name, fit in fits.items()}
        exact = bg.fit(MODEL, X[known], y[known], method=bg.Exact())
        answers["one-step, labelled rows"] = exact, bg.BMA()
        if draw < num_sampled:
            answers["one-step, all rows"] = sampled(X, labels), bg.BMA()
        for name, (fit, rule) in answers.items():
            accuracy = np.mean(labels_by(fit, X_test, rule) == y_test)
            records.append({"draw": draw, "learned": name, "accuracy": accuracy})
    return pd.DataFrame(records)


def trained(X: np.ndarray, labels: np.ndarray, objective: Any) -> Any:
    """The fit that maximises an objective."""
    return bg.fit(MODEL, X, labels, method=bg.MAP(objective=objective, num_starts=1), progress=False)


def labels_by(fit: Any, X: np.ndarray, rule: Any) -> np.ndarray:
    """The labels that a fit gives to rows. Rows far out, that few draws decide, are no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)
        return bg.predict(fit, X, rule=rule).labels


def sampled(X: np.ndarray, labels: np.ndarray) -> Any:
    """Draws, given all rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.ConvergenceWarning)  # there may be two ways to tell classes apart
        return bg.fit(MODEL, X, labels, method=bg.NUTS(num_samples=500), progress=False)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the draws, and their standard errors."""
    return table.groupby("learned", sort=False)["accuracy"].agg(["mean", "sem", "size"])


def paired(table: pd.DataFrame) -> pd.DataFrame:
    """By how much the best coupling is better than each other way, on the same draws: mean and standard error."""
    wide = table.pivot(index="draw", columns="learned", values="accuracy")
    best = wide[list(COUPLINGS)].mean().idxmax()
    others = wide.drop(columns=list(COUPLINGS))
    return others.rsub(wide[best], axis=0).agg(["mean", "sem"]).T.rename_axis(f"coupling {best:.2g} less")


def draw_figure(means: pd.DataFrame, X: np.ndarray, y: np.ndarray, out: pathlib.Path) -> None:
    """The data; and accuracy against the coupling, between its limits and beside the one-step answers."""
    ends, averages = COUPLINGS[[0, -1]], means.filter(like="one-step", axis=0)
    rows = pd.concat([means.loc[["generative", "discriminative"]], averages])
    first, *others = looks([True, True, True, *[False] * len(averages)])
    with drawing(None, 1, 2, width=9.0, height=3.6, width_ratios=[1, 2]) as (figure, ((left, axis),)):
        left.scatter(*X.T, c=np.where(y == 0, "0.25", "0.7"), s=6)
        left.set(title="two upright classes", aspect="equal", xlabel="across", ylabel="upright")
        hybrid = means.loc[list(COUPLINGS)]
        axis.errorbar(COUPLINGS, hybrid["mean"], hybrid["sem"], label="Hybrid(coupling)", capsize=3, **first)
        for look, (name, row) in zip(others, rows.iterrows(), strict=True):
            label, line = f"{name}, {row['size']:.0f} draws", look | {"marker": None}
            axis.plot(ends, [row["mean"]] * 2, label=label, **line)
            band = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
            axis.fill_between(ends, row["mean"] - row["sem"], row["mean"] + row["sem"], **band)
        axis.set(xscale="log", xlabel="coupling", ylabel="accuracy on test rows", title="means and standard errors")
    save_figure(figure, out)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=8, help="random draws of the data")
    parser.add_argument("--labelled", type=int, default=4, help="rows with labels")
    parser.add_argument("--unlabelled", type=int, default=200, help="rows without")
    parser.add_argument(
        "--sampled", type=int, default=1, help="draws of the data for which NUTS() averages over all rows"
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("hybrid.png"))
    options = parser.parse_args()
    table = accuracies(options.draws, options.labelled, options.unlabelled, options.sampled)
    means = summary(table)
    print(means.round(3).to_string(), paired(table).round(3).to_string(), sep="\n\n")
    draw_figure(means, *simulate(options.unlabelled, np.random.default_rng(0)), options.out)


if __name__ == "__main__":
    main()
