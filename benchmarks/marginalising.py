"""What marginalising missing cells is worth: log scores beside those of cells filled with the mean or the mode.

`python -m benchmarks.marginalising [FOLDER]` removes 30 % of the cells of the test rows at random, 20 times over, and
asks each fit both ways. Iris, wine and breast cancer come with scikit-learn; house votes, mushroom and heart (UCI) are
read from a folder with house_votes_84.csv, mushroom.csv and heart_cleveland.csv, where there is one, with their own
missing cells in training and test rows.
"""

import argparse
import dataclasses
import json
import pathlib
import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

import bayesgen as bg

SHARE, NUM_MASKS = 0.3, 20
FORMS = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
ANSWERS = {"one-step": bg.BMA(), "two-step": bg.PlugIn()}
FILES = {"house votes": "house_votes_84.csv", "mushroom": "mushroom.csv", "heart": "heart_cleveland.csv"}
MISSING = "?"


@dataclasses.dataclass(frozen=True)
class Line:
    """The log scores of one answer on one data set, of cells marginalised and of cells filled in.

    Attributes:
        data, model, answer: what was asked.
        marginalised, filled: mean log p(y | x) of the test rows, over all masks.
        difference: how much better marginalising is.
        standard_error: of the difference, between test rows (a row's differences under all masks are averaged first).
        accuracy, accuracy_filled: shares of test rows whose class is the most probable.
    """

    data: str
    model: str
    answer: str
    marginalised: float
    filled: float
    difference: float
    standard_error: float
    accuracy: float
    accuracy_filled: float


def main() -> None:
    """Measure, print the table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.marginalising", description=__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="where the files of UCI are")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the table")
    options = parser.parse_args()
    lines = []
    for name, (X, y) in data_sets(options.folder).items():
        lines += compared(name, X, y)
    table = pd.DataFrame(map(dataclasses.asdict, lines))
    print(table.round(4).to_string(index=False))
    if options.json:
        options.json.write_text(json.dumps(table.to_dict("records"), indent=2))


def data_sets(folder: pathlib.Path | None) -> dict[str, tuple[pd.DataFrame, pd.Series]]:
    """Name -> (columns, labels)."""
    loaded = {
        "iris": datasets.load_iris(as_frame=True),
        "wine": datasets.load_wine(as_frame=True),
        "breast cancer": datasets.load_breast_cancer(as_frame=True),
    }
    sets = {name: (bunch.data, bunch.target) for name, bunch in loaded.items()}
    for name, file in FILES.items() if folder else ():
        frame = pd.read_csv(folder / file, na_values=MISSING)
        sets[name] = frame.iloc[:, :-1], frame.iloc[:, -1]
    return sets


def models_for(X: pd.DataFrame) -> dict[str, bg.NaiveBayes | bg.GaussianDiscriminant]:
    """Name -> model, for columns of these types."""
    models: dict[str, bg.NaiveBayes | bg.GaussianDiscriminant] = {
        "naive Bayes": bg.NaiveBayes(),
        "naive Bayes, structures averaged": bg.NaiveBayes(structure="average"),
    }
    if all(map(pd.api.types.is_float_dtype, X.dtypes)):
        models |= {f"discriminant, {form}": bg.GaussianDiscriminant(form) for form in FORMS}
    return models


def compared(name: str, X: pd.DataFrame, y: pd.Series) -> Iterator[Line]:
    """The lines of one data set: trained on one half of its rows, asked of the other."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    codes = np.searchsorted(np.unique(y), y_test)
    rng = np.random.default_rng(0)
    masked = [X_test.mask(rng.random(X_test.shape) < SHARE) for _ in range(NUM_MASKS)]
    filling = typical_cells(X_train)
    schema = bg.Schema(
        categories={
            column: sorted(X[column].dropna().unique()) for column in X if not pd.api.types.is_numeric_dtype(X[column])
        }
    )
    for model_name, model in models_for(X).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bg.ConstantColumnWarning)
            fit = bg.fit(model, X_train, y_train, method=bg.Exact(), schema=schema)
        for answer, rule in ANSWERS.items():
            own, filled = (
                np.stack([bg.predict(fit, rows, rule=rule).log_probabilities for rows in tables])
                for tables in (masked, [rows.fillna(filling) for rows in masked])
            )
            yield line(name, model_name, answer, own, filled, codes)


def typical_cells(X: pd.DataFrame) -> Mapping[str, float | str]:
    """Column -> what stands in for its missing cells: the mean of numbers, the mode of categories."""
    return {
        column: X[column].mean() if pd.api.types.is_numeric_dtype(X[column]) else X[column].mode()[0] for column in X
    }


def line(data: str, model: str, answer: str, own: np.ndarray, filled: np.ndarray, codes: np.ndarray) -> Line:
    """Score both tables of log probabilities, (masks, rows, classes)."""
    rows = np.arange(len(codes))
    scores, filled_scores = (table[:, rows, codes] for table in (own, filled))
    differences = (scores - filled_scores).mean(0)
    return Line(
        data,
        model,
        answer,
        float(scores.mean()),
        float(filled_scores.mean()),
        float(differences.mean()),
        float(differences.std(ddof=1) / np.sqrt(len(codes))),
        float((own.argmax(-1) == codes).mean()),
        float((filled.argmax(-1) == codes).mean()),
    )


if __name__ == "__main__":
    main()
