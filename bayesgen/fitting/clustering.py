"""Where to start looking for components: rows grouped about a few of them, chosen by k-means++ or at random."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from sklearn.cluster import kmeans_plusplus

from bayesgen.data import BINNED, Rows
from bayesgen.models import Conjugate
from bayesgen.runtime import all_in_threads, even_chunks
from bayesgen.typing import Bool, Float, Int

MOST_ROWS = 10_000  # among which those are chosen about which the others are grouped
CHUNK_CELLS = 1 << 20  # of rows x features, that a thread makes at a time

Grouping: TypeAlias = Int[np.ndarray, " n"]
Values: TypeAlias = Any  # (n, ...) of a site, an array or a csr_array
Features: TypeAlias = Any  # (n, features), likewise
Observed: TypeAlias = Bool[np.ndarray, "n ..."] | None
FeaturesOf: TypeAlias = Callable[[Values, Observed], Features]


def groupings(rows: Rows, conjugate: Conjugate | None, num_groups: int, rng: np.random.Generator) -> Iterator[Grouping]:
    """Groupings of rows without end, the code of each row's group: by k-means++ and about random rows in turn.

    Distances are those of real columns in units of their standard deviations, of indicators of the values of binary and
    categorical ones, and of square roots of counts: of their shares in the row's total, where that is given. A missing
    cell is no distance from the middle.

    Args:
        rows: the data.
        conjugate: the model's blocks, which say what the columns are; None for a program of one's own, whose values are
            all taken for real.
        num_groups: number of groups, of which some may be empty.
        rng: random numbers.
    """
    places = rng.choice(rows.num_rows, min(rows.num_rows, MOST_ROWS), replace=False)
    sample = rows.take(np.sort(places))
    features_of = _features_of(sample, conjugate)
    features = features_of(sample)
    weights = np.asarray(sample.frequencies)
    num_centers = min(num_groups, int(np.count_nonzero(weights)))
    cells_per_row = (features.nnz if scipy.sparse.issparse(features) else features.size) / len(weights)
    chunks = even_chunks(rows.num_rows, CHUNK_CELLS / max(1.0, cells_per_row))
    nearest = functools.partial(_nearest, rows, features_of, chunks)
    while True:
        seed = int(rng.integers(2**31))
        centers, _ = kmeans_plusplus(features, num_centers, sample_weight=weights, random_state=seed)
        yield nearest(_dense(centers))
        places = rng.choice(len(weights), num_centers, replace=False, p=weights / weights.sum())
        yield nearest(_dense(features[places]))


def _nearest(
    rows: Rows,
    features_of: Callable[[Rows], Features],
    chunks: list[slice],
    centers: Float[np.ndarray, "K features"],
) -> Grouping:
    """The nearest center of each row."""
    nearest = np.empty(rows.num_rows, np.int64)
    half_squares = (centers**2).sum(axis=1) / 2

    def fill(places: slice) -> None:
        nearest[places] = (features_of(rows.take(places)) @ centers.T - half_squares).argmax(axis=1)

    all_in_threads(fill, chunks)
    return nearest


def _features_of(sample: Rows, conjugate: Conjugate | None) -> Callable[[Rows], Features]:
    """A function that gives the features of rows, in the units of a sample of them."""
    families = {} if conjugate is None else {block.name: block.family for block in conjugate.blocks}
    of_sites: dict[str, FeaturesOf] = {}
    for site, values in sample.values.items():
        family = families.get(site)
        if family is not None and family.kind == "categorical":
            of_sites[site] = functools.partial(_indicators, num_values=int(values.max()) + 1)
        elif family is not None and family.kind == "count":
            of_sites[site] = _roots_of_shares if family.covariate else _roots
        elif hasattr(values, "tocsr"):
            of_sites[site] = _as_they_are
        else:
            is_real = family is None or family.kind in ("real", BINNED)
            of_sites[site] = _standardizing(_flat(values, _mask(sample, site)), is_real)

    def features_of(rows: Rows) -> Features:
        parts = [of_site(rows.values[site], _mask(rows, site)) for site, of_site in of_sites.items()]
        is_sparse = any(scipy.sparse.issparse(part) for part in parts)
        return scipy.sparse.hstack(parts, format="csr") if is_sparse else np.concatenate(parts, axis=1)

    return features_of


def _standardizing(sample: Float[np.ndarray, "n D"], is_real: bool) -> FeaturesOf:
    """Cells less their mean; of real columns in units of the standard deviation, of which a constant one has none."""
    known = ~np.isnan(sample)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, sample, 0.0).sum(axis=0) / count
    deviation = np.sqrt(np.where(known, (sample - mean) ** 2, 0.0).sum(axis=0) / count)
    unit = np.where((deviation > 0) & is_real, deviation, 1.0)

    def features_of(values: Values, observed: Observed) -> Features:
        return np.nan_to_num((_flat(values, observed) - mean) / unit)

    return features_of


def _mask(rows: Rows, site: str) -> Observed:
    """Which cells are there; None where all are."""
    observed = rows.observed.get(site)
    return None if observed is None else np.asarray(observed)


def _flat(values: Float[np.ndarray, "n ..."], observed: Observed) -> Float[np.ndarray, "n D"]:
    """The cells of each row beside each other, NaN where they are missing."""
    cells = np.asarray(values, np.float64) if observed is None else np.where(observed, values, np.nan)
    return cells.reshape(len(cells), -1)


def _indicators(values: Values, observed: Observed, num_values: int) -> Features:
    """An indicator for each value of each column, none where the cell is missing; a unit apart for different values."""
    is_value = values[..., None] == np.arange(num_values)
    if observed is not None:
        is_value = is_value & observed[..., None]
    return is_value.reshape(len(values), -1) / np.sqrt(2)


def _roots(values: Values, observed: Observed) -> Features:
    """Square roots of counts, whose standard deviations are about a half whatever their mean; 0 where missing."""
    return np.sqrt(values) if observed is None else np.sqrt(np.where(observed, values, 0.0))


def _roots_of_shares(values: Values, observed: Observed) -> Features:
    """Square roots of the shares that counts have in the total of their row: points on a sphere."""
    totals = np.maximum(np.asarray(values.sum(axis=1)).ravel(), 1.0)
    if hasattr(values, "tocsr"):
        return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / np.sqrt(totals)) @ values.sqrt())
    return np.sqrt(values / totals[:, None])


def _as_they_are(values: Values, observed: Observed) -> Features:
    """Sparse cells, which centring would fill."""
    return values


def _dense(array: Features) -> Float[np.ndarray, "K features"]:
    return array.toarray() if scipy.sparse.issparse(array) else np.asarray(array)
