"""How many kinds of iris are there? Mixtures of one to three components, without the species' names.

    python examples/mixture.py [--covariance full] [--most 3] [--draws 500] [--out mixture.png]

Every second flower is held out. Mixtures of Gaussians are fitted to the others by EM, and compared by the density of
the flowers that they have not seen; stacking weighs all of them. Then the number with the largest weight is sampled by
NUTS. Its components are exchangeable, so that what single draws call them means nothing: `fit.relabel()` puts them in
one order. The table at the end shows how they go with the species, which no fit has seen, and the figure the
probabilities of components of each flower.

The flowers come with scikit-learn. Two of the three species overlap, and by their measures alone they are one kind.
"""

import argparse
import pathlib
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

import bayesgen as bg
from bayesgen.plots import responsibilities, save_figure


def mixtures(covariance: str, most: int) -> dict[str, bg.Mixture]:
    """Mixtures of one component, two, and so on."""
    return {f"{number}": bg.Mixture(bg.GaussianDiscriminant(covariance), number) for number in range(1, most + 1)}


def numbers(models: dict[str, bg.Mixture], X: pd.DataFrame, X_test: pd.DataFrame) -> pd.DataFrame:
    """Mean log density of held-out flowers under each number of components, and its weight by stacking."""
    methods = [(bg.MLE(), bg.PlugIn()), (bg.MAP(), bg.PlugIn())]
    scores = bg.compare(models, X, None, X_test, None, methods=methods).table
    table = scores.pivot(index="model", columns="method", values="log_score")
    stacked = bg.fit(bg.average(models.values(), weights="stacking", folds=5), X, method=bg.MAP())
    return table.assign(weight=pd.Series(stacked.weights, list(models)))


def relabelled(model: bg.Mixture, X: pd.DataFrame, num_draws: int) -> bg.Fit:
    """Draws of a mixture, in one order of its components."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.LabelSwitchingWarning)  # they are relabelled here
        return bg.fit(model, X, method=bg.NUTS(num_samples=num_draws), progress=False).relabel()


def kinds(fit: bg.Fit, X: pd.DataFrame, species: pd.Series) -> pd.DataFrame:
    """Expected numbers of flowers of each species in each component, averaged over draws in one order."""
    shares = pd.DataFrame(bg.predict(fit, X, rule=bg.ConditionalAverage()).probabilities)
    return shares.groupby(np.asarray(species)).sum()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables, and draw."""
    parser = argparse.ArgumentParser(description="How many kinds of iris are there?")
    parser.add_argument("--covariance", default="full", help="form of the covariances, as in GaussianDiscriminant")
    parser.add_argument("--most", type=int, default=3, help="largest number of components")
    parser.add_argument("--draws", type=int, default=500, help="draws of each of four chains")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("mixture.png"), help="file of the figure")
    given = parser.parse_args(arguments)
    flowers = load_iris(as_frame=True)
    X, species = flowers.data, flowers.target.map(dict(enumerate(flowers.target_names)))
    models = mixtures(given.covariance, given.most)
    print(f"mixtures of up to {given.most} components by EM ...", flush=True)
    table = numbers(models, X[::2], X[1::2])
    print("Held-out flowers: mean log density, and weight by stacking, by the number of components")
    print(table.round(3).to_string())
    best = models[table.weight.idxmax()]
    print(f"\nsampling the mixture of {best.num_components} components ...", flush=True)
    fit = relabelled(best, X[::2], given.draws)
    print(f"\n{fit}\n")
    print(kinds(fit, X[::2], species[::2]).round(1).to_string())
    rule, columns = bg.ConditionalAverage(), ["petal length (cm)", "petal width (cm)"]
    save_figure(responsibilities(fit, X[::2], rule=rule, columns=columns, width=4.6), given.out)


if __name__ == "__main__":
    main()
