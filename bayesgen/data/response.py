"""The response: a continuous label, the y of a regression, and its one door."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Float, Shaped

from .basis import Basis
from .views import Table

FOR_CLASSES = (
    "For classes use a classifier, such as NaiveBayes(); for numbers that are written otherwise, convert them."
)


@dataclass(frozen=True)
class ResponseColumn:
    """What is known of the response.

    Attributes:
        name: what it is called.
        mean, variance: of the training rows in which it is there (denominator N); None until a fit fills them in.
            Default priors come from them. They take no part in comparisons.
        basis: the features that it is linear in, as training rows have shown them; None where there are none.
    """

    name: str = "y"
    mean: float | None = field(default=None, compare=False)
    variance: float | None = field(default=None, compare=False)
    basis: Basis | None = None

    @property
    def constant(self) -> list[str]:
        """Names of its features without variance in training, and its own if it has none."""
        of_features = [] if self.basis is None else self.basis.constant
        return [*of_features, *([self.name] if self.variance == 0 else [])]


def response_values(labels: Shaped[np.ndarray, " n"], name: str = "y") -> Float[np.ndarray, " n"]:
    """The values of a response, NaN where they are missing.

    Raises:
        DataError: what are no numbers (texts, booleans, dates), and infinite ones.
    """
    if labels.dtype.kind == "O":
        labels = _of_objects(labels, name)
    if labels.dtype.kind not in "iuf":
        raise DataError(
            f"{name} has dtype {labels.dtype}, and a regression wants numbers: its label is continuous. {FOR_CLASSES}"
        )
    values = labels.astype(np.float64, copy=False)
    infinite = np.isinf(values)
    if infinite.any():
        raise DataError(
            f"{name} has {int(infinite.sum())} infinite values, the first at row {int(np.argmax(infinite))}. Correct "
            "them, or make them NaN where the value is not known."
        )
    return values


def response_of_rows(table: Table, name: str) -> Float[np.ndarray, " n"]:
    """The response of each row of a table, NaN where it is missing, as in all new rows. See `response_values`."""
    return np.full(table.num_rows, np.nan) if table.labels is None else response_values(table.labels, name)


def _is_number(value: object) -> bool:
    """Whether an object is a number: no text that could be read as one, and no truth value."""
    if isinstance(value, str | bytes | bool | np.bool_):
        return False
    try:
        return bool(np.isfinite(float(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def refuse_classes_of_response(owner: str, classes: Sequence[Any] | None) -> None:
    """Refuse classes, where the label is continuous.

    Raises:
        DataError: saying what takes classes.
    """
    if classes is not None:
        raise DataError(
            f"{owner} predicts numbers, and its y has, or was declared to have, the classes {quote_some(classes)}. For "
            "classes use a classifier, such as NaiveBayes(); for a regression give y as plain numbers and leave "
            "Schema(classes=...) out."
        )


def _of_objects(labels: Shaped[np.ndarray, " n"], name: str) -> Float[np.ndarray, " n"]:
    """Numbers among missing values."""
    import pandas as pd

    missing = np.asarray(pd.isna(labels))
    wrong = [value for value in labels[~missing].tolist() if not _is_number(value)]
    if wrong:
        raise DataError(
            f"{name} holds {quote_some(dict.fromkeys(map(str, wrong)), 5)}, and a regression wants numbers: its "
            f"label is continuous. {FOR_CLASSES}"
        )
    values = np.full(len(labels), np.nan)
    values[~missing] = [float(value) for value in labels[~missing]]
    return values
