"""Weights and sums of rows by class, in chunks that stay in cache."""

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from bayesgen.runtime import chunks
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, Sparse, filled, flatten_rows, namespace

Classes: TypeAlias = Int[Array, " n"] | Real[Array, "n K"]  # codes, or responsibilities


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows of one site in classes. The fields are the arguments of `Likelihood.summarize`."""

    values: Cells
    classes: Classes
    num_classes: int
    weights: Real[Array, " n"] | None = None
    observed: Bool[Array, "n ..."] | None = None
    row_parameters: Mapping[str, Array] | None = None

    @property
    def has_codes(self) -> bool:
        """Whether classes are codes, in NumPy: what responsibilities and tracing need is slower."""
        arrays = (self.values, self.classes, self.weights, self.observed)
        return self.classes.ndim == 1 and namespace(*arrays) is np

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a table of cells by class: (K, *extra, *event)."""
        return (self.num_classes, *self.values.shape[1:])

    @property
    def mask(self) -> Bool[Array, "n m"] | None:
        """Mask of the observed cells of a matrix of rows; None where all are observed."""
        return None if self.observed is None else flatten_rows(self.observed)

    def cells(self, filling: float | int = 1.0) -> Cells:
        """The rows, with a value in place of missing cells."""
        return self.values if self.observed is None else filled(self.values, self.observed, filling)

    def take(self, rows: Int[Array, " k"]) -> "Sample":
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        observed = None if self.observed is None else self.observed[rows]
        return dataclasses.replace(
            self, values=self.values[rows], classes=self.classes[rows], weights=weights, observed=observed
        )

    def counts(self) -> Float[Array, " K *columns"]:
        """Total weight of each class, (K,), or of its observed cells, where some are missing."""
        return class_counts(self.classes, self.num_classes, self.weights, self.observed)

    def sums(self, cells: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "K ..."]:
        """Weighted sums by class of what was computed from the rows, (n, *shape), over the observed cells."""
        mask = None if observed is None else flatten_rows(observed)
        total = class_sums(flatten_rows(cells), self.classes, self.num_classes, self.weights, mask)
        return total.reshape(self.num_classes, *cells.shape[1:])


def class_counts(
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    observed: Bool[Array, " n *columns"] | None = None,
) -> Float[Array, " K *columns"]:
    """Total weight of each class, (K,), or of its observed cells, (K, *columns), where some are missing."""
    if observed is not None:
        counts = class_sums(flatten_rows(observed), classes, num_classes, weights)
        return counts.reshape(num_classes, *observed.shape[1:])
    if classes.ndim == 2 or namespace(classes, weights) is jnp:
        return class_weights(classes, num_classes, weights).sum(0)
    return np.bincount(classes, weights=weights, minlength=num_classes).astype(np.float64)


def class_weights(classes: Classes, num_classes: int, weights: Real[Array, " n"] | None = None) -> Float[Array, "n K"]:
    """Weight of each row in each class: the responsibilities, one-hot where codes are given, times the row's weight."""
    if classes.ndim == 2:
        return classes if weights is None else classes * weights[:, None]
    if namespace(classes, weights) is jnp:
        one_hot = jax.nn.one_hot(classes, num_classes, dtype=float)
        return one_hot if weights is None else one_hot * weights[:, None]
    matrix = np.zeros((len(classes), num_classes))
    matrix[np.arange(len(classes)), classes] = 1.0 if weights is None else weights
    return matrix


def class_sums(
    values: Shaped[Array, "n m"] | Sparse,
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None = None,
    observed: Bool[Array, "n m"] | None = None,
) -> Float[Array, "K m"]:
    """Weighted sums of the rows of a matrix by class, over the observed cells."""
    if isinstance(values, Sparse):
        return _sparse_sums(values.tocsr(), classes, num_classes, weights)
    if namespace(values, classes, weights, observed) is jnp:
        cells = values if observed is None else jnp.where(observed, values, 0)
        of_rows = class_weights(jnp.asarray(classes), num_classes, weights)
        return jnp.matmul(of_rows.T, cells.astype(float), precision=jax.lax.Precision.HIGHEST)
    total = np.zeros((num_classes, values.shape[1]))
    for part in chunks(len(values)):
        cells = values[part].astype(np.float64, copy=False)
        if observed is not None:
            cells = np.where(observed[part], cells, 0.0)
        weight = None if weights is None else weights[part]
        total += class_weights(classes[part], num_classes, weight).T @ cells
    return total


def _sparse_sums(
    values: Sparse, classes: Classes, num_classes: int, weights: Real[Array, " n"] | None
) -> Float[Array, "K m"]:
    """Sums of a csr matrix by class; where classes are codes, one count of its entries by (class, column)."""
    if classes.ndim == 2:
        return np.asarray(values.T @ class_weights(classes, num_classes, weights)).T
    num_columns = values.shape[1]
    size, lengths = num_classes * num_columns, np.diff(values.indptr)
    dtype = values.indices.dtype if size <= np.iinfo(values.indices.dtype).max else np.int64
    cells = np.repeat((classes * num_columns).astype(dtype), lengths)
    cells += values.indices
    data = values.data if weights is None else values.data * np.repeat(weights, lengths)
    # a matrix of one column, times one: adds up repeated cells faster than a count by weights does. Its constructor
    # would copy data that are part of a larger array
    column = scipy.sparse.csc_array((size, 1))
    column.data, column.indices, column.indptr = data, cells, np.array([0, len(cells)], dtype)
    return (column @ np.ones(1)).reshape(num_classes, num_columns)
