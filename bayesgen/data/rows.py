"""`Rows`: encoded data, n instances by site."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, TypeAlias

import jax
import numpy as np
from scipy.sparse import csr_array

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Data, Float, Int, Real, Shaped

from .sequences import PADDING
from .views import Table, sharing_cells, successive_rows


@record
class Rows:
    """Instances by site. In every array the first axis is that of the rows.

    Attributes:
        values: attribute site -> (n, ...); a scipy.sparse matrix where the site takes one.
        observed: attribute site -> mask of the observed cells, of the shape of its values, where some are missing.
        covariates: name -> (n, ...), values that no site models.
        labels: codes of the classes, -1 where the class is not known; None in new rows, and where there are no classes.
        weights: frequency weights, 0 for padding; None where all are 1.

    >>> rows = Rows({"height": np.array([1.6, 1.9, 1.7])}, labels=np.array([0, 1, 0]))
    >>> rows.num_rows, rows.take(slice(1, 3)).values["height"].tolist(), rows.take([2]).labels.tolist()
    (3, [1.9, 1.7], [0])
    """

    values: dict[str, Any]
    observed: dict[str, Bool[Array, "n ..."]] = dataclasses.field(default_factory=dict)
    covariates: dict[str, Shaped[Array, "n ..."]] = dataclasses.field(default_factory=dict)
    labels: Int[Array, " n"] | None = None
    weights: Float[Array, " n"] | None = None

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(next(iter((self.values or self.covariates).values())).shape[0])

    @property
    def codes(self) -> Int[Array, " n"]:
        """The class of each row: its label, or 0 where there are no labels."""
        return np.zeros(self.num_rows, np.int64) if self.labels is None else self.labels

    @property
    def frequencies(self) -> Float[Array, " n"]:
        """The weight of each row, 1 where there are no weights."""
        return np.ones(self.num_rows) if self.weights is None else self.weights

    @property
    def cells_per_row(self) -> float:
        """The mean number of cells of a row; of stored ones, where rows are sparse."""
        num_cells = sum(cells.nnz if hasattr(cells, "tocsr") else cells.size for cells in self.values.values())
        return num_cells / max(self.num_rows, 1)

    def take(self, places: slice | list[int] | Int[Array, " m"]) -> "Rows":
        """Some of the rows, by a slice, which copies no cells, or by positions."""
        return jax.tree.map(functools.partial(_take, places), self)


RowsLike: TypeAlias = Data | Table | Rows
"""Rows before or after they are read."""


def _take(places: slice | list[int] | Int[Array, " m"], array: Array | csr_array) -> Array | csr_array:
    is_sparse = hasattr(array, "tocsr")
    return successive_rows(array, places) if is_sparse and isinstance(places, slice) else array[places]


def joined_rows(parts: list[Rows]) -> Rows:
    """The rows of all parts, with sequences padded to the longest of all."""
    if len(parts) == 1:
        return parts[0]
    parts = _padded_to_longest(parts)
    masked = dict.fromkeys(site for part in parts for site in part.observed)
    return jax.tree.map(_join, *(_masking(part, masked) for part in parts))


def _padded_to_longest(parts: list[Rows]) -> list[Rows]:
    """The parts with sequences of each site padded to the same number of time steps."""
    for site in parts[0].values:
        lengths = {part.values[site].shape[1:2] for part in parts}
        if len(lengths) > 1:
            longest = max(length for (length,) in lengths)
            parts = [_with_steps(part, site, longest) for part in parts]
    return parts


def _with_steps(rows: Rows, site: str, length: int) -> Rows:
    """The rows with sequences of a site padded to this number of time steps."""
    values, observed = filled_up(rows.values[site], rows.observed.get(site), length)
    masks = rows.observed if observed is None else {**rows.observed, site: observed}
    return dataclasses.replace(rows, values={**rows.values, site: values}, observed=masks)


def filled_up(
    values: Real[Array, "m T ..."], observed: Bool[Array, "m T ..."] | None, num_steps: int
) -> tuple[Real[np.ndarray, "m ..."], Bool[np.ndarray, "m ..."] | None]:
    """Rows padded to a number of time steps: symbols by `PADDING`, numbers by missing time steps."""
    rows, mask = np.asarray(values), None if observed is None else np.asarray(observed)
    added = num_steps - rows.shape[1]
    if added <= 0:
        return rows, mask
    filling = [(0, 0), (0, added), *[(0, 0)] * (rows.ndim - 2)]
    if np.issubdtype(rows.dtype, np.integer):
        mask = None if mask is None else np.pad(mask, filling, constant_values=True)
        return np.pad(rows, filling, constant_values=PADDING), mask
    return np.pad(rows, filling), np.pad(np.ones(rows.shape, bool) if mask is None else mask, filling)


def _masking(rows: Rows, sites: Iterable[str]) -> Rows:
    """The rows with a mask for each of these sites."""
    full_masks = {site: np.ones(rows.values[site].shape, bool) for site in sites if site not in rows.observed}
    return dataclasses.replace(rows, observed={site: (rows.observed | full_masks)[site] for site in sites})


def _join(*arrays: Any) -> Any:
    """Arrays or csr matrices, one below the other."""
    if not hasattr(arrays[0], "tocsr"):
        return np.concatenate(arrays)
    data, columns = (np.concatenate([getattr(array, name) for array in arrays]) for name in ("data", "indices"))
    lengths = np.concatenate([[0], *(np.diff(array.indptr) for array in arrays)])
    index = np.int32 if max(len(data), arrays[0].shape[1]) <= np.iinfo(np.int32).max else np.int64
    joined = sharing_cells(data, columns.astype(index, copy=False), lengths.cumsum().astype(index), arrays[0].shape[1])
    joined.has_canonical_format = all(array.has_canonical_format for array in arrays)
    return joined
