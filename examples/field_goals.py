"""Field goals by distance, learned as data are made and as labels follow: two curves of logistic form, and a third.

    python examples/field_goals.py [fieldgoal.dat] [--out field_goals.png]

The file has a line for each attempt: yards, 1 or 0 for good or not, week (National Football League, 2003). Without it
similar attempts are simulated, whose distances are not normal either.

Distances of good and of missed attempts that are normal with one variance make p(good | yards) a logistic curve.
Generative training learns these two normals, and what follows for the curve follows. Discriminative training takes the
same model and looks for the curve under which the results are most probable, which is logistic regression: it does not
care how far the distances are from normal. The one-step answer averages over the normals that may have made the data.
"""

import argparse
import pathlib
from typing import Any

import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

YARDS = np.arange(18, 66)
MODEL = bg.GaussianDiscriminant("tied")
ANSWERS = {
    "generative: MLE": (bg.MLE(), bg.PlugIn()),
    "discriminative: MLE(objective='conditional')": (bg.MLE(objective="conditional"), bg.PlugIn()),
    "one-step: Exact, averaged": (bg.Exact(), bg.BMA()),
}


def read(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """(distances (n, 1) in yards, results "good" or "missed") of the attempts in a file."""
    attempts = pd.read_csv(path, sep=r"\s+", names=["yards", "good", "week"])
    return attempts[["yards"]].to_numpy(float), np.where(attempts["good"] == 1, "good", "missed")


def simulate(num_attempts: int = 948, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Attempts from everywhere between 18 and 58 yards, of which long ones are rarer and fail more often."""
    rng = np.random.default_rng(seed)
    yards = np.round(18 + 40 * rng.beta(1.2, 1.5, num_attempts))
    is_good = rng.random(num_attempts) < 1 / (1 + np.exp(0.11 * yards - 5.7))
    return yards[:, None], np.where(is_good, "good", "missed")


def fits(yards: np.ndarray, results: np.ndarray) -> dict[str, Any]:
    """The three fits."""
    return {name: bg.fit(MODEL, yards, results, method=method) for name, (method, _) in ANSWERS.items()}


def curves(fitted: dict[str, Any], yards: np.ndarray) -> pd.DataFrame:
    """p(good | yards) by each of them, one column each."""
    answers = {name: bg.predict(fit, yards[:, None], rule=ANSWERS[name][1]) for name, fit in fitted.items()}
    columns = {name: answer.probabilities[:, list(answer.classes).index("good")] for name, answer in answers.items()}
    return pd.DataFrame(columns, index=pd.Index(yards, name="yards"))


def coefficients(fit: Any) -> tuple[float, float]:
    """(slope, intercept) of the log odds of a good attempt, where they are a line."""
    low, high = fit.log_joint([[0.0], [1.0]])
    odds = [row[list(fit.classes).index("good")] - row[list(fit.classes).index("missed")] for row in (low, high)]
    return float(odds[1] - odds[0]), float(odds[0])


def draw_figure(table: pd.DataFrame, yards: np.ndarray, results: np.ndarray, out: pathlib.Path) -> None:
    """The curves, and the share of good attempts at each distance, as large as there are attempts."""
    shares = pd.Series(results == "good").groupby(yards[:, 0]).agg(["mean", "size"])
    styles = looks(isinstance(rule, bg.PlugIn) for _, rule in ANSWERS.values())
    with drawing(width=5.0, height=3.2) as (figure, ((axis,),)):
        axis.scatter(shares.index, shares["mean"], 3 * shares["size"], color="0.8", label="share of attempts")
        for (name, curve), look in zip(table.items(), styles, strict=True):
            axis.plot(table.index, curve, label=name, **look | {"marker": None})
        axis.set(xlabel="distance (yards)", ylabel="p(good | yards)", ylim=(-0.02, 1.02))
    save_figure(figure, out)


def main() -> None:
    """Learn, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attempts", nargs="?", type=pathlib.Path, help="yards, good, week, a line for each attempt")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("field_goals.png"))
    options = parser.parse_args()
    yards, results = simulate() if options.attempts is None else read(options.attempts)
    fitted = fits(yards, results)
    for name, fit in fitted.items():
        if fit.log_evidence is None:
            slope, intercept = coefficients(fit)
            print(f"{name}: log odds of a good one = {intercept:.4f} {slope:+.5f} a yard")
    table = curves(fitted, YARDS)
    print(table.loc[[20, 30, 40, 50, 60]].round(3).to_string())
    draw_figure(table, yards, results, options.out)


if __name__ == "__main__":
    main()
