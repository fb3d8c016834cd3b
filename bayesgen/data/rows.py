"""`Rows`: data as every room after this one sees them, n instances by site."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, Num

from .views import successive_rows


@record
class Rows:
    """Instances by site. In every array the first axis is that of the rows.

    Attributes:
        values: attribute site -> (n, ...); a scipy.sparse matrix where the site takes one.
        observed: attribute site -> mask of the cells that are there, of the shape of its values, for sites of which
            some cells are missing.
        covariates: name -> (n, ...), what each row has and no site models.
        labels: codes of the classes, -1 where the class is not known; None in new rows, and where there are no classes.
        weights: how often each row counts, 0 where it is padding; None where each counts once.

    >>> rows = Rows({"height": np.array([1.6, 1.9, 1.7])}, labels=np.array([0, 1, 0]))
    >>> rows.num_rows, rows.take(slice(1, 3)).values["height"].tolist(), rows.take([2]).labels.tolist()
    (3, [1.9, 1.7], [0])
    """

    values: dict[str, Any]
    observed: dict[str, Bool[Array, "n ..."]] = dataclasses.field(default_factory=dict)
    covariates: dict[str, Num[Array, "n ..."]] = dataclasses.field(default_factory=dict)
    labels: Int[Array, " n"] | None = None
    weights: Float[Array, " n"] | None = None

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(next(iter(self.values.values())).shape[0])

    @property
    def codes(self) -> Int[Array, " n"]:
        """The class of each row: its label, or the only class there is where there are no labels."""
        return np.zeros(self.num_rows, np.int64) if self.labels is None else self.labels

    def take(self, places: slice | list[int] | Int[Array, " m"]) -> "Rows":
        """Some of the rows: a slice of them, which copies no cells, or their positions."""
        return jax.tree.map(functools.partial(_take, places), self)


def _take(places: slice | list[int] | Int[Array, " m"], array: Any) -> Any:
    is_sparse = hasattr(array, "tocsr")
    return successive_rows(array, places) if is_sparse and isinstance(places, slice) else array[places]


def joined(parts: list[Rows]) -> Rows:
    """The rows of all parts, one part after another. Values are dense."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
