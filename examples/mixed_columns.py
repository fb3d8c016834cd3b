"""Columns of four kinds with missing cells: marginalise them, fill them in, or drop the rows?

    python examples/mixed_columns.py [--repeats 20] [--out mixed_columns.png]

Patients are well or ill. Their age is a number, their visits to a doctor are counted, smoking is true or false, and the
part of the country is a word. Naive Bayes takes a family for each kind of column. Then cells go missing at random, in
training and in prediction. The one-step answer of bayesgen marginalises a missing cell: it is integrated out. The
script compares that with what is often done instead, filling in the mean or the most frequent value, or learning from
complete rows alone, and prints and draws the log scores by the share of missing cells.
"""

import argparse
import pathlib

import numpy as np
import pandas as pd

import bayesgen as bg
from bayesgen.plots import drawing, looks, save_figure

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
NUM_TRAIN, NUM_TEST = 100, 400
MODEL = bg.NaiveBayes()
MARGINALISED, PLUG_IN = "marginalised, one step", "marginalised, two steps"
FILLED, COMPLETE = "filled in, one step", "complete rows, test cells filled in, one step"


def simulate(num_rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Patients, two fifths of them ill, and their states."""
    is_ill = rng.random(num_rows) < 0.4
    regions = np.array(["north", "south", "west"])
    frame = pd.DataFrame(
        {
            "age": rng.normal(np.where(is_ill, 62, 50), 10),
            "visits": rng.poisson(np.where(is_ill, 4.0, 1.5)),
            "smoker": rng.random(num_rows) < np.where(is_ill, 0.6, 0.25),
            "region": np.where(is_ill, rng.choice(regions, num_rows, p=[0.6, 0.2, 0.2]), rng.choice(regions, num_rows)),
        }
    ).astype({"visits": "Int64", "smoker": "boolean", "region": "string"})
    return frame, np.where(is_ill, "ill", "well")


def filled(frame: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The rows with the mean age and the most frequent other values of the training rows in the missing cells."""
    values = train.mode().iloc[0].to_dict() | {"age": train["age"].mean()}
    return frame.fillna(values)


SCHEMA = bg.Schema(
    kinds={"visits": "count"}, categories={"region": ["north", "south", "west"]}, classes=["ill", "well"]
)


def scores(num_repeats: int) -> pd.DataFrame:
    """Mean log p(state | cells) of each way, one row for each draw of the data and share of missing cells."""
    records = []
    for repeat in range(num_repeats):
        rng = np.random.default_rng(repeat)
        (X, y), (X_test, y_test) = simulate(NUM_TRAIN, rng), simulate(NUM_TEST, rng)
        order, order_test = rng.random(X.shape), rng.random(X_test.shape)
        for share in SHARES:
            holes, test = X.mask(order < share), X_test.mask(order_test < share)
            complete = holes.notna().all(axis=1)
            fit, of_filled, of_complete = (
                bg.fit(MODEL, rows, labels, method=bg.Exact(), schema=SCHEMA)
                for rows, labels in ((holes, y), (filled(holes, holes), y), (holes[complete], y[complete]))
            )
            answers = {
                MARGINALISED: bg.predict(fit, test, rule=bg.BMA()),
                PLUG_IN: bg.predict(fit, test, rule=bg.PlugIn()),
                FILLED: bg.predict(of_filled, filled(test, holes), rule=bg.BMA()),
                COMPLETE: bg.predict(of_complete, filled(test, holes), rule=bg.BMA()),
            }
            records += [(share, name, answer.score(y_test)["log_score"]) for name, answer in answers.items()]
    return pd.DataFrame(records, columns=["missing", "way", "log score"])


def draw_figure(table: pd.DataFrame, out: pathlib.Path) -> None:
    """Log scores by the share of missing cells: means over the draws, and their standard errors."""
    with drawing(width=5.0, height=3.0) as (figure, ((axis,),)):
        ways = list(table["way"].unique())
        for way, look in zip(ways, looks(way == PLUG_IN for way in ways), strict=True):
            grouped = table[table["way"] == way].groupby("missing")["log score"]
            axis.errorbar(grouped.mean().index, grouped.mean(), grouped.sem(), label=way, capsize=3, **look)
        axis.set(xlabel="share of missing cells", ylabel="mean log p(state | cells)\n(nats; higher is better)")
    save_figure(figure, out)


def main() -> None:
    """Show one fit, measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="random draws of the data")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("mixed_columns.png"))
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    X, y = simulate(NUM_TRAIN, rng)
    holes = X.mask(rng.random(X.shape) < 0.3)
    fit = bg.fit(MODEL, holes, y, method=bg.Exact(), schema=SCHEMA)
    print(fit, holes.head(3).to_string(), sep="\n\n", end="\n\n")
    patient = pd.DataFrame({"age": [70.0], "visits": [6], "smoker": [True], "region": ["north"]}).convert_dtypes()
    for known in range(5):
        cells = patient.mask(np.arange(4)[None] >= known)
        answer = bg.predict(fit, cells, rule=bg.BMA())
        print(f"p(ill | {', '.join(patient.columns[:known]) or 'nothing'}) = {answer.probabilities[0, 0]:.3f}")

    table = scores(options.repeats)
    print("\nmean log score by the share of missing cells")
    print(table.groupby(["way", "missing"], sort=False)["log score"].mean().unstack().round(3).to_string())
    draw_figure(table, options.out)


if __name__ == "__main__":
    main()
