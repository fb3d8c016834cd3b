"""Do 80 % intervals hold 80 % of what they are about? Two steps, one step and few rows.

    python examples/regression_coverage.py [--simulations 500] [--out regression_coverage.png]

Lines are drawn from a stated prior, then noise and rows, and the prior is what the fit is told: nothing is wrong with
the model. A new y is drawn at a new x, and its interval is asked of the two-step answer (the most probable line and
noise) and of the one-step answer (averaged over all lines and noises that may have made the rows). From five rows, the
most probable process is too sure of itself: it passes near these rows by choice, and its noise is that of what is left.
The one-step answer covers what it says, at any number of rows. With a hundred rows, they agree.
"""

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.plots import coverage_panel, drawing, looks, save_figure

SIZES = (5, 20, 100)
LEVELS = (0.5, 0.8, 0.95)
NUM_FEATURES = 2
# variance ~ InverseGamma(3, 2); coefficients, and the intercept at x = 0 ~ Normal(0, variance)
PRIOR = bg.LinearNormalInverseGamma(coefficients=0, precision=1, mean=0, kappa=1, shape=3, scale=2, center=0)
RULES = {"two-step": bg.PlugIn("mode"), "one-step": bg.BMA()}
NAMES = {"two-step": "best process (two steps)", "one-step": "averaged over processes (one step)"}


def rows(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """One process, drawn from the prior, and rows that it makes."""
    variance = 2.0 / rng.standard_gamma(3.0)
    intercept, *coefficients = rng.normal(0.0, np.sqrt(variance), 1 + NUM_FEATURES)
    X = rng.normal(0.0, 1.0, (size, NUM_FEATURES))
    return X, intercept + X @ coefficients + rng.normal(0.0, np.sqrt(variance), size)


def places(sizes: Sequence[int], simulations: int, seed: int = 0) -> pd.DataFrame:
    """Where new values fall in their predictive distributions: the probability of a smaller one.

    Args:
        sizes: numbers of training rows.
        simulations: how many processes are drawn, for each of these.
        seed: of the simulations.
    """
    rng, found = np.random.default_rng(seed), []
    model = bg.LinearRegression(prior=PRIOR)
    for size in sizes:
        for _ in range(simulations):
            X, y = rows(rng, size + 1)
            fit = bg.fit(model, X[:-1], y[:-1], method=bg.Exact())
            for name, rule in RULES.items():
                answer = bg.predict(fit, X[-1:], rule=rule)
                found.append((size, name, answer.cdf(y[-1:]).item()))
    return pd.DataFrame(found, columns=["rows", "answer", "place"])


def coverage(found: pd.DataFrame, levels: Sequence[float] = LEVELS) -> pd.DataFrame:
    """The share of central intervals that hold the new value, by number of rows and answer."""
    distance = (2 * found.place - 1).abs()
    shares = {f"{level:.0%}": distance <= level for level in levels}
    return pd.DataFrame(shares).groupby([found.rows, found.answer]).mean()


def figure(found: pd.DataFrame) -> Any:
    """Coverage against what intervals say, a panel for each number of rows."""
    sizes = found.rows.unique().tolist()
    with drawing(None, 1, len(sizes), width=9.0, height=3.2) as (drawn, panels):
        for panel, size in zip(panels[0], sizes, strict=True):
            places_of = found[found.rows == size].groupby("answer").place
            looks_of = zip(NAMES, looks([True, False]), strict=True)
            pits = {NAMES[name]: (places_of.get_group(name).to_numpy(), look) for name, look in looks_of}
            coverage_panel(pits).draw_in(panel)
            panel.set_title(f"{size} rows")
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the coverage of intervals, and draw it."""
    parser = argparse.ArgumentParser(description="Coverage of two-step and one-step intervals of a regression.")
    parser.add_argument("--simulations", type=int, default=500, help="processes that are drawn for each size")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("regression_coverage.png"), help="file of the figure"
    )
    given = parser.parse_args(arguments)
    found = places(SIZES, given.simulations)
    print("Share of intervals that hold the new y")
    print(coverage(found).round(3).to_string())
    save_figure(figure(found), given.out)


if __name__ == "__main__":
    main()
