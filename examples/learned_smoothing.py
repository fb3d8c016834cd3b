"""How much smoothing do few handwritten digits need? The prior learned from the rows, against Dirichlet(1).

    python examples/learned_smoothing.py [--repeats 5] [--out learned_smoothing.png]

Each of 64 pixels has one of 17 shades, with probabilities of its own in each of ten classes: 10,880 numbers, learned
from a hundred digits. Dirichlet(1) adds one pixel of each shade to every table, which outweighs the ten digits of a
class. MAP(integrate_out=True) learns what is added: the concentration at which evidence times prior is highest, with
all tables integrated out in closed form; their posterior is exact given it.

Both answers are asked. The two-step answer of Dirichlet(1) plugs in the most probable process, which has shades of
probability zero, so that it calls nearly every new digit impossible. Under a learned concentration below 1 no process
is the most probable one; the two-step answer plugs in the mean, which for a single row is what averaging gives. The
learned prior names more digits rightly, and most so where rows are few. From 200 rows on it is the surer of the two
where it is wrong: pixels are not independent given the class, and its log score is the lower one.
"""

import argparse
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pandas as pd
from sklearn.datasets import load_digits

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

SIZES = (50, 100, 200, 400)
PIXELS = tuple(f"pixel {index}" for index in range(64))
SCHEMA = bg.Schema(categories=dict.fromkeys(PIXELS, tuple(range(17))), classes=tuple(range(10)))
LEARNED, FLAT = dist.HalfCauchy(1.0), 1.0
ANSWERS = {
    "Dirichlet(1), best process (two steps)": (FLAT, bg.MAP(), bg.PlugIn()),
    "Dirichlet(1), averaged (one step)": (FLAT, bg.Exact(), bg.BMA()),
    "learned, mean process (two steps)": (LEARNED, bg.MAP(integrate_out=True), bg.PlugIn("mean")),
    "learned, averaged (one step)": (LEARNED, bg.MAP(integrate_out=True), bg.BMA()),
}


def scores(repeats: int) -> pd.DataFrame:
    """One row for each draw of training digits, size and answer."""
    digits, records = load_digits(), []
    X = pd.DataFrame(digits.data.astype(int), columns=PIXELS)
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(X))
        test = order[-600:]
        for size in SIZES:
            train = order[:size]
            for name, (concentration, method, rule) in ANSWERS.items():
                model = bg.GenerativeClassifier([("shade", bg.DirichletCategorical(concentration), PIXELS)])
                fit = bg.fit(model, X.iloc[train], digits.target[train], method=method, schema=SCHEMA)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of impossible rows, which are counted here
                    answer = bg.predict(fit, X.iloc[test], rule=rule)
                truth = digits.target[test]
                log_scores = answer.log_probabilities[np.arange(len(test)), truth]
                records.append(
                    {
                        "rows": size,
                        "answer": name,
                        "accuracy": np.mean(answer.labels == truth),
                        "log score": np.where(np.isnan(log_scores), -np.inf, log_scores).mean(),
                        "impossible": np.isnan(log_scores).mean(),
                        "concentration": float(fit.parameters.get("shade_concentration", concentration)),
                    }
                )
    return pd.DataFrame(records)


def figure(table: pd.DataFrame) -> Any:
    """Accuracy and log score by the number of training rows."""
    means = table.groupby(["answer", "rows"], sort=False).mean()
    with drawing(None, 1, 2, width=9.0, height=3.6) as (drawn, panels):
        for panel, column in zip(panels[0], ("accuracy", "log score"), strict=True):
            for name, look in zip(ANSWERS, looks(["two" in name for name in ANSWERS]), strict=True):
                curve = means.loc[name, column]
                curve = curve[np.isfinite(curve)]
                panel.plot(curve.index, curve, **{**look, "label": name})
            panel.set_xscale("log")
            panel.set_xticks(SIZES, [str(size) for size in SIZES])
            panel.set_xticks([], minor=True)
            panel.set_xlabel("training digits")
            panel.set_ylabel(f"mean {column}")
        panels[0][1].set_title("best process: −∞", fontsize=8)
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of all answers, and draw them."""
    parser = argparse.ArgumentParser(description="Smoothing that is learned, against Dirichlet(1).")
    parser.add_argument("--repeats", type=int, default=5, help="draws of training digits")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("learned_smoothing.png"), help="of the figure")
    chosen = parser.parse_args(arguments)
    table = scores(chosen.repeats)
    print(table.groupby(["rows", "answer"], sort=False).mean().round(3).to_string())
    save_figure(figure(table), chosen.out)


if __name__ == "__main__":
    main()
