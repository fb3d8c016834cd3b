"""Columns beside the attributes: the response of a regression, its features, and covariates."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import joblib
import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import clone

from bayesgen.describe import quote_some
from bayesgen.errors import DataError
from bayesgen.typing import Bool, Category, Float, Int, Shaped

from .views import Table

Inputs: TypeAlias = pd.DataFrame | np.ndarray | csr_array


class Transformer(Protocol):
    """A scikit-learn transformer."""

    def fit(self, X: Inputs) -> "Transformer":
        """Learn from rows."""

    def transform(self, X: Inputs) -> Inputs:
        """The features of rows."""


@dataclass(frozen=True)
class Basis:
    """The features of a regression: columns, or outputs of a transformer fitted to training rows.

    Attributes:
        names: of the features.
        transformer: fitted to training rows; None where the features are the columns.
        positions: the indices of the features among its outputs.
        ones: the indices of outputs that are 1 in every training row, which are the intercept.
        stated, learned: fingerprints of the transformer before and after it was fitted.
        mean, variance: of the features in training rows (denominator N); None until a fit fills them in. They take no
            part in comparisons.
    """

    names: tuple[str, ...]
    transformer: Any = field(default=None, compare=False)
    positions: tuple[int, ...] = ()
    ones: tuple[int, ...] = ()
    stated: str = ""
    learned: str = ""
    mean: Float[np.ndarray, " F"] | None = field(default=None, compare=False)
    variance: Float[np.ndarray, " F"] | None = field(default=None, compare=False)

    @property
    def constant(self) -> list[str]:
        """Names of the features without variance in training rows."""
        variance = np.ones(len(self.names)) if self.variance is None else self.variance
        return [name for name, feature_variance in zip(self.names, variance, strict=True) if feature_variance == 0]

    def features(self, X: Inputs, num_rows: int) -> Float[np.ndarray, "n F"]:
        """The features of rows by the transformer.

        Args:
            X: the rows as the transformer takes them: see `transformer_input`.
            num_rows: how many they are.

        Raises:
            DataError: the transformer refuses rows; features that are not finite, by name; one that was 1 in every
                training row, and is not.
        """
        if not num_rows:
            return np.zeros((0, len(self.names)))
        outputs = _outputs(self.transformer, X, lambda: self.transformer.transform(X), num_rows)
        features = outputs[:, list(self.positions)]
        _check_finite(self.transformer, features, self.names)
        not_one = np.argwhere(outputs[:, list(self.ones)] != 1)
        if len(not_one):
            row, column = int(not_one[0, 0]), self.ones[int(not_one[0, 1])]
            name = _names(self.transformer, outputs.shape[1])[column]
            raise DataError(
                f"The feature {name!r} of {_class_name(self.transformer)} is 1 in every training row, so it is taken "
                f"as the intercept, but it is {outputs[row, column]:g} in row {row}. Correct the row, or "
                "train with rows in which the feature differs (where data come in chunks, in the first one)."
            )
        return features


def fitted_basis(transformer: Transformer, X: Inputs, num_rows: int, *, intercept: bool) -> Basis:
    """The features of a copy of a transformer that is fitted to these rows.

    Args:
        transformer: of the user, which is not changed.
        X: the rows: see `transformer_input`.
        num_rows: how many they are.
        intercept: whether the model has one: then a feature that is 1 in every row is left out.

    Raises:
        DataError: the transformer refuses rows; features that are not finite, by name.
    """
    fitted = clone(transformer)
    outputs = _outputs(transformer, X, lambda: fitted.fit(X).transform(X), num_rows)
    names = _names(fitted, outputs.shape[1])
    _check_finite(transformer, outputs, names)
    is_one = (outputs == 1).all(0) & intercept
    positions, ones = (tuple(np.flatnonzero(chosen).tolist()) for chosen in (~is_one, is_one))
    return Basis(
        tuple(names[position] for position in positions),
        fitted,
        positions,
        ones,
        stated=fingerprint(clone(transformer)),
        learned=fingerprint(fitted, f"fitted as {id(fitted)}"),
    )


def transformer_input(table: Table, names: tuple[str, ...], training_names: tuple[str, ...] | None) -> Inputs:
    """The rows of a table as transformers take them.

    Args:
        table: the rows.
        names: the table's names of the columns, in the order of training.
        training_names: the names of the columns in training data; None where these were an array.

    Returns:
        A pandas frame; an array or sparse matrix where training data have no names.
    """
    if training_names is None:
        return table.matrix(names)
    return pd.DataFrame({old: table.column(name) for old, name in zip(training_names, names, strict=True)})


def fingerprint(transformer: Transformer, otherwise: str = "") -> str:
    """A hash of a transformer's content; its repr where it cannot be pickled."""
    try:
        return str(joblib.hash(transformer))
    except Exception:  # whatever pickling an object of the user's raises
        return f"{transformer!r} {otherwise}"


def _outputs(
    transformer: Transformer, X: Inputs, transformed: Callable[[], Any], num_rows: int
) -> Float[np.ndarray, "n F"]:
    """The outputs of a transformer for rows."""
    try:
        features = transformed()
    except Exception as error:  # whatever the transformer raises
        message = str(error).rstrip(" .")
        raise DataError(f"The basis {_class_name(transformer)} refuses X: {message}.{_remedies(X, message)}") from error
    features = features.toarray() if hasattr(features, "toarray") else features
    try:
        outputs = np.asarray(features, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The basis {_class_name(transformer)} makes features that are not numbers ({error}). Encode them."
        ) from None
    if outputs.ndim != 2 or len(outputs) != num_rows:
        raise DataError(
            f"The basis {_class_name(transformer)} makes an array of shape {outputs.shape} of {num_rows} rows. It has "
            "to keep the rows, and to give a number for each feature."
        )
    return outputs


def _remedies(X: Inputs, message: str) -> str:
    """Remedies for known messages of transformers that refuse rows."""
    remedies = ""
    if np.any(pd.isna(np.asarray(X if isinstance(X, pd.DataFrame | np.ndarray) else X.data))):
        remedies += " Cells are missing: begin the basis with an imputer (make_pipeline(SimpleImputer(), ...))."
    if re.search("could not convert|strings", message):
        remedies += " Encode text in it (OneHotEncoder, in a ColumnTransformer)."
    if re.search(r"\by\b", message):
        remedies += " A basis is given X alone, and no y: take a transformer that does without."
    return remedies


def _class_name(transformer: Transformer) -> str:
    return type(transformer).__name__


def _names(transformer: Transformer, num_outputs: int) -> list[str]:
    """Names of a transformer's outputs; numbered where it has none."""
    try:
        names = [str(name) for name in transformer.get_feature_names_out()]  # type: ignore[attr-defined]
    except (AttributeError, ValueError, NotImplementedError):
        names = []
    are_names = len(names) == num_outputs and len(set(names)) == num_outputs
    return names if are_names else [f"feature{index}" for index in range(num_outputs)]


def _check_finite(transformer: Transformer, features: Float[np.ndarray, "n F"], names: Sequence[str]) -> None:
    wrong: Int[np.ndarray, "cells 2"] = np.argwhere(~np.isfinite(features))
    if not len(wrong):
        return
    row, column = map(int, wrong[0])
    bad = [names[index] for index in sorted(set(wrong[:, 1].tolist()))]
    raise DataError(
        f"The basis {_class_name(transformer)} gives {features[row, column]} for the feature {names[column]!r} in row "
        f"{row} ({len(wrong)} such cells, of {quote_some(bad, 5)}). Features have to be finite numbers: where cells "
        "are missing, begin the basis with an imputer, such as SimpleImputer()."
    )


FOR_CLASSES = (
    "For classes use a classifier, such as NaiveBayes(); for numbers that are written otherwise, convert them."
)


@dataclass(frozen=True)
class ResponseColumn:
    """Name, moments and features of the response.

    Attributes:
        name: of the response.
        mean, variance: of its observed training values (denominator N); None until a fit fills them in. Default priors
            come from them. They take no part in comparisons.
        basis: the features that it is linear in; None where there are none.
    """

    name: str = "y"
    mean: float | None = field(default=None, compare=False)
    variance: float | None = field(default=None, compare=False)
    basis: Basis | None = None

    @property
    def constant(self) -> list[str]:
        """Names of its features without variance in training, and its own if it has none."""
        features = [] if self.basis is None else self.basis.constant
        return [*features, *([self.name] if self.variance == 0 else [])]


def response_values(labels: Shaped[np.ndarray, " n"], name: str = "y") -> Float[np.ndarray, " n"]:
    """The values of a response, NaN where they are missing.

    Raises:
        DataError: values that are not numbers (texts, booleans, dates), and infinite ones.
    """
    if labels.dtype.kind == "O":
        labels = _numbers_among_objects(labels, name)
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
    """Whether an object is a finite number, and neither text nor truth value."""
    if isinstance(value, str | bytes | bool | np.bool_):
        return False
    try:
        return bool(np.isfinite(float(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def refuse_classes_of_response(owner: str, classes: Sequence[Category] | None) -> None:
    """Refuse classes, where the label is continuous.

    Raises:
        DataError: naming models for classes.
    """
    if classes is not None:
        raise DataError(
            f"{owner} predicts numbers, and its y has, or was declared to have, the classes {quote_some(classes)}. For "
            "classes use a classifier, such as NaiveBayes(); for a regression give y as plain numbers and leave "
            "Schema(classes=...) out."
        )


def _numbers_among_objects(labels: Shaped[np.ndarray, " n"], name: str) -> Float[np.ndarray, " n"]:
    """Objects that are numbers or missing, as floats."""
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


# kind of a dtype -> what a message calls its numbers
_NUMBERS: Final = {"b": "truth values", "i": "whole numbers", "u": "whole numbers", "f": "real numbers"}
_REAL: Final = np.dtype(np.float64)
_USUAL: Final = (np.dtype(bool), np.dtype(np.int64), _REAL)


@dataclass(frozen=True)
class Covariate:
    """Shape and dtype of a covariate; by default one real number a row.

    Attributes:
        row_shape: the shape of its value in a row, () for one number.
        dtype: bool, float64, or the data's own dtype of whole numbers, whose arithmetic programs are written for.
    """

    row_shape: tuple[int, ...] = ()
    dtype: np.dtype = _REAL

    def __str__(self) -> str:
        return f"{_shown((*self.row_shape,))} of {self.numbers}"

    @property
    def numbers(self) -> str:
        """What a message calls its numbers: whole numbers with their dtype, unless it is the usual one."""
        return _NUMBERS[self.dtype.kind] + ("" if self.dtype in _USUAL else f" ({self.dtype})")

    @classmethod
    def of(cls, values: Shaped[np.ndarray, "n ..."]) -> "Covariate":
        """The covariate with these values."""
        return cls(values.shape[1:], values.dtype)

    def values(self, name: str, cells: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
        """The values of rows of this covariate: those of `covariate_values`, in its dtype.

        Raises:
            DataError: rows of another shape; numbers that this dtype would change.
        """
        values = covariate_values(name, cells)
        if values.shape[1:] != self.row_shape:
            raise DataError(
                f"Covariate {name!r} has the shape {_shown(values.shape[1:])}, and {_shown(self.row_shape)} in the "
                "data that were seen first. Give it the same in training and in prediction."
            )
        converted, differs = _converted(values, self.dtype)
        if differs.any():
            place = tuple(map(int, np.argwhere(differs)[0]))
            raise DataError(
                f"Covariate {name!r} has {values[place]} in row {place[0]}, and {self.numbers} in the "
                f"data that were seen first. If both are right, give the values seen first as {values.dtype}, too."
            )
        return converted


def covariate_values(name: str, cells: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
    """The cells of a covariate as they are: truth values, whole numbers of their dtype, or real ones (float64).

    Raises:
        DataError: cells that are missing, infinite or not numbers.
    """
    if cells.dtype.kind == "O":
        _refuse_missing(name, np.asarray(pd.isna(cells)))
        cells = _array_of_objects(name, cells.tolist())
    if cells.dtype.kind not in _NUMBERS:
        raise DataError(
            f"Covariate {name!r} holds no numbers, but {cells.dtype}. Encode them as the program computes with them; "
            "names of groups, say, as 0, 1, 2 and so on."
        )
    # programs compute with whole numbers as they are, and with real ones in float64
    values, differs = _converted(
        cells, _REAL if cells.dtype.kind == "f" else np.dtype(f"{cells.dtype.kind}{cells.dtype.itemsize}")
    )
    if values.dtype.kind == "f":
        _refuse_missing(name, np.isnan(values))
        differs = np.isinf(values)
    if differs.any():
        place = tuple(map(int, np.argwhere(differs)[0]))
        raise DataError(f"Covariate {name!r} has {cells[place]} in row {place[0]}: correct it, or drop the row.")
    return values


def _converted(
    values: Shaped[np.ndarray, "*shape"], dtype: np.dtype
) -> tuple[Shaped[np.ndarray, "*shape"], Bool[np.ndarray, "*shape"]]:
    """The values in another dtype, and a mask of those that it changes."""
    with np.errstate(invalid="ignore"):
        converted = values.astype(dtype, copy=False)
        changed = converted.astype(values.dtype, copy=False) != values
        return converted, changed | ((converted < 0) != (values < 0))


def _array_of_objects(name: str, cells: list) -> Shaped[np.ndarray, "..."]:
    try:
        return np.asarray(cells)
    except ValueError as error:
        raise DataError(f"Covariate {name!r} has rows of several shapes ({error}). Give all rows the same.") from None


def _refuse_missing(name: str, missing: Bool[np.ndarray, "..."]) -> None:
    if missing.any():
        row = int(np.argmax(missing.reshape(len(missing), -1).any(1)))
        raise DataError(
            f"Covariate {name!r} has {int(missing.sum())} missing cells, the first in row {row}. The program "
            "computes with covariates and has no distribution for them: drop these rows, or impute them."
        )


def _shown(row_shape: tuple[int, ...]) -> str:
    """The shape of all rows."""
    return f"(n{''.join(f', {size}' for size in row_shape)}{'' if row_shape else ','})"
