"""Rows for families used alone, without a schema."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse

from bayesgen.errors import DataError
from bayesgen.typing import Float, Shaped, Values

from .categories import CATEGORICAL
from .columns import PositionalNames, as_array
from .kinds import Kind
from .number_kinds import Wording, encode_numbers, refuse_missing_cells


class RowTraits(Protocol):
    """The traits of a `Family` that `lone_rows` needs."""

    @property
    def sparse(self) -> bool: ...
    @property
    def row_shapes(self) -> Mapping[int, str]: ...


@runtime_checkable
class TakesRows(Protocol):
    """The part of `Family` that `lone_rows` needs."""

    @property
    def kind(self) -> Kind: ...
    @property
    def num_values(self) -> int | None: ...
    @property
    def traits(self) -> "RowTraits": ...


def lone_rows(family: TakesRows, data: Values) -> Shaped[np.ndarray, "n ..."] | scipy.sparse.csr_array:
    """Rows as numbers: (n,) or (n, D), or a csr_array (n, D).

    Raises:
        DataError: rows of another shape; cells, by row and column (x0, x1, ...), that are missing, not numbers, or
            impossible for columns of the family's kind.
    """
    name = type(family).__name__
    if scipy.sparse.issparse(data):
        if not family.traits.sparse:
            raise DataError(f"{name} takes every cell of its columns, and the data are sparse. Give data.toarray().")
        cells = scipy.sparse.csr_array(data)
    else:
        cells = as_array(data, f"{name}: data")
    if cells.ndim not in family.traits.row_shapes or 0 in cells.shape[1:]:
        shapes = " or ".join(family.traits.row_shapes.values())
        raise DataError(f"{name} takes rows {shapes}, and the data have the shape {cells.shape}. Give them that shape.")
    matrix = cells[:, None] if cells.ndim == 1 else cells
    columns = PositionalNames(matrix.shape[1])
    wording = Wording(
        declared=str,
        remedy=lambda column, kind: f"fit NaiveBayes(), which models {kind} columns.",
        unknown="leave these rows out",
    )
    numbers, observed, _ = encode_numbers(matrix, columns, family.kind, wording=wording)
    if observed is not None:
        refuse_missing_cells(observed, columns, f"{name} used alone takes whole rows. Leave these rows out.")
    if family.kind == CATEGORICAL:
        _check_codes(name, numbers, family.num_values)
    return numbers.astype(np.float64, copy=False).reshape(cells.shape)


def _check_codes(name: str, codes: Float[np.ndarray, "n D"], num_values: int | None) -> None:
    """Refuse invalid codes; the number of values may be unknown."""
    largest = np.inf if num_values is None else num_values - 1
    wrong = (codes < 0) | (codes > largest) | (codes != np.floor(codes))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        raise DataError(
            f"{name}: column 'x{column}' has {codes[row, column]:g} at row {row}, and used alone it takes the codes of "
            f"values, whole numbers from 0 to {largest:g}. Correct it, or give concentration as many entries as there "
            "are values."
        )
