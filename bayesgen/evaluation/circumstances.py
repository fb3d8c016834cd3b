"""What answers are held against and reported with: the true classes and names of test rows, versions of libraries."""

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from bayesgen import __version__
from bayesgen.data import Schema, as_array, response_values
from bayesgen.errors import DataError
from bayesgen.typing import Float

VERSIONS_OF = ("numpyro", "jax", "numpy", "scipy", "scikit-learn", "arviz-base")


def versions() -> dict[str, str]:
    """The versions of bayesgen, Python and what the numbers come from."""
    ours = {"bayesgen": __version__, "python": platform.python_version()}
    return ours | {name: version(name) for name in VERSIONS_OF}


def true_classes(y_test: Any, classes: np.ndarray, num_rows: int) -> np.ndarray:
    """The index of each test row's class.

    Raises:
        DataError: a label that is none of the classes; another number of labels than of rows.
    """
    truth = Schema(classes=classes.tolist()).encode_labels(y_test, "y_test")
    if len(truth) != num_rows:
        raise DataError(f"X_test has {num_rows} rows and y_test {len(truth)} labels. Give one label a row.")
    return truth


def class_shares(y: Any, classes: np.ndarray) -> Float[np.ndarray, " K"]:
    """The share of each class among the training rows that have a label."""
    codes = Schema(classes=classes.tolist()).label_codes(y)
    assert codes is not None
    counts = np.bincount(codes[codes >= 0], minlength=len(classes))
    return counts / max(1, counts.sum())


def true_values(y_test: Any, num_rows: int) -> Float[np.ndarray, " n"]:
    """The response of each test row.

    Raises:
        DataError: what is no finite number, or missing; another number of responses than of rows.
    """
    values = response_values(as_array(y_test, "y_test"), "y_test")
    if values.shape != (num_rows,):
        raise DataError(f"X_test has {num_rows} rows, and y_test the shape {values.shape}. Give one number a row.")
    missing = np.isnan(values)
    if missing.any():
        raise DataError(
            f"y_test has {missing.sum()} missing values (first at row {int(np.argmax(missing))}). Drop these rows: "
            "what is not known cannot be scored."
        )
    return values


def row_names(X_test: Any, y_test: Any, num_rows: int) -> np.ndarray:
    """What test rows are called: by the index of a pandas frame, else by position."""
    frames = [part for part in (y_test, X_test) if isinstance(part, pd.Series | pd.DataFrame)]
    return frames[0].index.to_numpy() if frames else np.arange(num_rows)
