"""Which iris is it? The two answers from five flowers of each species, side by side.

    python examples/quickstart.py [--rows 5] [--out quickstart.png]

A discriminant learns the four measures of a few flowers of each species, by its exact posterior. The two-step answer
takes the mean process for the truth; the one-step answer averages over all processes that may have made the flowers.
Both name the species of the other flowers, and the script prints how well, and the flowers on which they differ most.
The figure shows where each answer is sure, by the two measures of petals: the average is sure in a smaller region.
"""

import argparse
import pathlib

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

import bayesgen as bg
from bayesgen import plots

PETALS = ["petal length (cm)", "petal width (cm)"]


def flowers(num_rows: int, seed: int = 1) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, pd.Series]:
    """(X, y) of as many flowers of each species, and of all others."""
    iris = load_iris(as_frame=True)
    X, y = iris.data, iris.target.map(dict(enumerate(iris.target_names))).rename("species")
    train = X.groupby(y).sample(num_rows, random_state=seed).index
    return X.loc[train], y[train], X.drop(index=train), y.drop(index=train)


def main() -> None:
    """Learn, print both answers, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5, help="flowers of each species to learn from")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("quickstart.png"))
    options = parser.parse_args()
    X, y, X_test, y_test = flowers(options.rows)

    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    two_step = bg.predict(fit, X_test, rule=bg.PlugIn())
    one_step = bg.predict(fit, X_test, rule=bg.BMA())

    print(fit, end="\n\n")
    for name, answer in {"two-step": two_step, "one-step": one_step}.items():
        score = answer.score(y_test)
        print(f"{name}: accuracy {score['accuracy']:.3f}, mean log p(species | flower) {score['log_score']:.3f}")
    table = X_test[PETALS].assign(
        species=y_test,
        two_step=np.exp(two_step.log_probabilities.max(1)),
        one_step=one_step.probabilities[np.arange(len(y_test)), two_step.probabilities.argmax(1)],
        named_by_two_step=two_step.labels,
    )
    differs = (table.two_step - table.one_step).abs().nlargest(4).index
    print("\nProbability of the species that the two-step answer names, where the answers differ most:")
    print(table.loc[differs].round(3).to_string(index=False))
    plots.save_figure(plots.decision_regions(fit, X, y, columns=PETALS), options.out)


if __name__ == "__main__":
    main()
