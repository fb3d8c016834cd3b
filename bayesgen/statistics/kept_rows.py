"""`KeptRows`: rows that no statistic of fixed size stands for, because what made them is hidden, with their classes."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from bayesgen.data import filled_up
from bayesgen.records import record, static
from bayesgen.runtime import pad, padded_size
from bayesgen.typing import Array, Bool, Float, Int, Real

from .arrays import namespace
from .moments import class_moments
from .passes import Classes
from .summaries import Moments, Summary


@record
class KeptRows(Summary):
    """Rows, each a sequence of steps, and how much each of them counts in which class.

    A row with a label is counted once, in its class; a row with responsibilities in every class that it may be of. Both
    are `entries`: so the likelihood of labelled rows takes one density each, whatever the number of classes, but for
    what a statistic tells in tables of all classes.

    Rows of different lengths are filled up: symbols (integers) with `PADDING`, numbers with steps that are not
    observed, which tell as much as no step. So rows of any length can be merged.

    Attributes:
        values: the rows.
        observed: the cells that are there; None where all are.
        places: of each entry, its row.
        classes: of each entry, its class.
        weights: of each entry, how much it counts.
        num_classes: K; None in the summary of one class.
    """

    values: Real[Array, "m T ..."]
    observed: Bool[Array, "m T ..."] | None
    places: Int[Array, " e"]
    classes: Int[Array, " e"]
    weights: Float[Array, " e"]
    num_classes: int | None = static()

    @classmethod
    def of_rows(
        cls,
        values: Real[Array, "n T ..."],
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n T ..."] | None = None,
    ) -> "KeptRows":
        """Those of rows, without the ones that count in no class. Where they are traced, all are kept."""
        if namespace(values, classes, weights) is jnp:
            return _traced(jnp.asarray(values), jnp.asarray(classes), num_classes, weights, observed)
        places, codes, counts = _entries(np.asarray(classes), num_classes, weights)
        entries = np.flatnonzero(counts)
        rows, of_entries = np.unique(places[entries], return_inverse=True)
        mask = None if observed is None else np.asarray(observed)[rows]
        mask = None if mask is None or mask.all() else mask
        kept = np.asarray(values)[rows]
        kept = kept if mask is None or kept.dtype.kind in "iu" else np.where(mask, kept, 0.0)
        return cls(kept, mask, of_entries, codes[entries], counts[entries], num_classes)

    @property
    def is_complete(self) -> bool:
        """No: what is hidden has to be summed out."""
        return False

    @property
    def num_rows(self) -> int:
        """How many rows are kept."""
        return len(self.values)

    @property
    def count(self) -> Float[Array, " *K"]:
        """The weight of each class."""
        counts = np.bincount(self.classes, self.weights, self.num_classes or 1).astype(np.float64)
        return counts if self.num_classes is not None else np.asarray(counts.sum())

    def merge(self, other: Summary) -> "KeptRows":
        """All rows, those of the shorter table filled up."""
        assert isinstance(other, KeptRows)
        num_steps = max(self.values.shape[1], other.values.shape[1])
        one, another = self.with_steps(num_steps), other.with_steps(num_steps)
        observed = None
        if one.observed is not None or another.observed is not None:
            observed = np.concatenate([one._mask(), another._mask()])
        return KeptRows(
            np.concatenate([one.values, another.values]),
            observed,
            np.concatenate([one.places, another.places + one.num_rows]),
            np.concatenate([one.classes, another.classes]),
            np.concatenate([one.weights, another.weights]),
            self.num_classes,
        )

    def pooled(self) -> "KeptRows":
        """All classes taken for one; of a row that counted in several, one entry is left."""
        weights = np.bincount(self.places, self.weights, self.num_rows).astype(np.float64)  # of none, integers
        places = np.flatnonzero(weights)
        return dataclasses.replace(
            self, places=places, classes=np.zeros_like(places), weights=weights[places], num_classes=1
        )

    def of_class(self, index: int) -> "KeptRows":
        """Take one class, and the rows that count in it."""
        entries = np.flatnonzero(self.classes == index)
        rows, places = np.unique(self.places[entries], return_inverse=True)
        return KeptRows(
            self.values[rows],
            None if self.observed is None else self.observed[rows],
            places,
            np.zeros_like(places),
            self.weights[entries],
            None,
        )

    def with_empty_class(self, place: int) -> "KeptRows":
        """The summary with one more class: no entry is of it."""
        assert self.num_classes is not None
        return dataclasses.replace(
            self, classes=self.classes + (self.classes >= place), num_classes=self.num_classes + 1
        )

    def by_column(self) -> Moments:
        """Moments of each column of the steps by class, of all cells that are there. Of numbers alone."""
        num_classes, num_columns = self.num_classes or 1, int(np.prod(self.values.shape[2:]))
        steps = self.values.reshape(-1, num_columns)
        observed = None if self.observed is None else self.observed.reshape(-1, num_columns)
        of_rows = np.zeros((self.num_rows, num_classes))
        np.add.at(of_rows, (self.places, self.classes), self.weights)
        moments = class_moments(steps, np.repeat(of_rows, self.values.shape[1], 0), num_classes, observed=observed)
        return moments if self.num_classes is not None else moments.of_class(0)

    def with_steps(self, num_steps: int) -> "KeptRows":
        """The same with rows filled up to a number of steps: symbols with `PADDING`, numbers with none observed."""
        values, observed = filled_up(self.values, self.observed, num_steps)
        return dataclasses.replace(self, values=values, observed=observed)

    def padded(self) -> "KeptRows":
        """Rows, steps and entries of weight zero are added, up to numbers for which functions are compiled."""
        values, observed = filled_up(self.values, self.observed, padded_size(max(self.values.shape[1], 1)))
        if observed is None and not np.issubdtype(values.dtype, np.integer):
            observed = np.ones(values.shape, bool)  # as where steps had to be added
        size, num_entries = padded_size(max(self.num_rows, 1)), padded_size(max(len(self.places), 1))
        is_entry = np.arange(num_entries) < len(self.places)
        return KeptRows(
            pad(values, size),
            None if observed is None else pad(observed, size),
            np.where(is_entry, pad(np.asarray(self.places), num_entries), 0),
            np.where(is_entry, pad(np.asarray(self.classes), num_entries), 0),
            np.where(is_entry, pad(np.asarray(self.weights), num_entries), 0.0),
            self.num_classes,
        )

    def _mask(self) -> Bool[np.ndarray, "m T ..."]:
        return np.ones(self.values.shape, bool) if self.observed is None else np.asarray(self.observed)


def _entries(
    classes: Classes, num_classes: int, weights: Real[Array, " n"] | None
) -> tuple[Int[Array, " e"], Int[Array, " e"], Float[Array, " e"]]:
    """Row, class and weight of each entry: one a row where there are codes, one a row and class else."""
    xp, num_rows = namespace(classes, weights), len(classes)
    counts = xp.ones(num_rows) if weights is None else xp.asarray(weights, float)
    if classes.ndim == 1:
        return xp.arange(num_rows), xp.asarray(classes, int), counts
    shares = (xp.asarray(classes, float) * counts[:, None]).ravel()
    return xp.repeat(xp.arange(num_rows), num_classes), xp.tile(xp.arange(num_classes), num_rows), shares


def _traced(
    values: Real[Array, "n T ..."],
    classes: Classes,
    num_classes: int,
    weights: Real[Array, " n"] | None,
    observed: Bool[Array, "n T ..."] | None,
) -> KeptRows:
    """All rows, whatever they count."""
    places, codes, counts = _entries(classes, num_classes, weights)
    mask = None if observed is None else jnp.asarray(observed)
    kept = values if mask is None or jnp.issubdtype(values.dtype, jnp.integer) else jnp.where(mask, values, 0.0)
    return KeptRows(kept, mask, jnp.asarray(places), codes, counts, num_classes)
