"""Starting points of EM and of searches: groups of rows, and parameters or classes as users give them."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
import scipy.sparse
from sklearn.cluster import kmeans_plusplus

from bayesgen.data import CATEGORICAL, COUNT, REAL, Rows, Schema
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, as_numbers
from bayesgen.generative import GenerativeProgram
from bayesgen.posteriors import ParameterArrays
from bayesgen.program import Conjugate, free_vector, program_latents
from bayesgen.records import fill, record
from bayesgen.runtime import THREAD_CELLS, all_in_threads, even_chunks
from bayesgen.solvers import FAR_OUT
from bayesgen.statistics import Classes
from bayesgen.typing import Bool, Float, Int, Shaped

MOST_CANDIDATES = 10_000  # for the centres of groups

Grouping: TypeAlias = Int[np.ndarray, " n"]
SiteValues: TypeAlias = Any  # (n, ...) of a site, an array or a csr_array
FeatureMatrix: TypeAlias = Any  # (n, features), likewise
ObservedMask: TypeAlias = Bool[np.ndarray, "n ..."] | None
FeaturesOf: TypeAlias = Callable[[SiteValues, ObservedMask], FeatureMatrix]


def groupings(rows: Rows, conjugate: Conjugate | None, num_groups: int, rng: np.random.Generator) -> Iterator[Grouping]:
    """An infinite iterator of groupings, the code of each row's group: by k-means++ and about random rows in turn.

    Distances are those of real columns in units of their standard deviations, of indicators of the values of binary and
    categorical ones, and of square roots of counts: of their shares in the row's total, where that is given. A missing
    cell lies at the mean. Up to `MOST_CANDIDATES` rows, a weight counts like repetitions of its row, in any order.

    Args:
        rows: the data.
        conjugate: the model's blocks, with the kinds of columns; None for a program of one's own, whose values count as
            real.
        num_groups: number of groups, of which some may be empty.
        rng: random numbers.
    """
    candidates = rng.choice(rows.num_rows, min(rows.num_rows, MOST_CANDIDATES), replace=False)
    sample = rows.take(np.sort(candidates[np.asarray(rows.frequencies)[candidates] > 0]))
    features_of = _features_of(rows, sample, conjugate)
    features = features_of(sample)
    weights: Float[np.ndarray, " candidates"] = np.asarray(sample.frequencies, np.float64)
    if not scipy.sparse.issparse(features):
        features, row_of = np.unique(features, axis=0, return_inverse=True)
        weights = np.bincount(row_of.ravel(), weights).astype(np.float64)
    num_centers = min(num_groups, len(weights))
    cells_per_row = (features.nnz if scipy.sparse.issparse(features) else features.size) / len(weights)
    chunks = even_chunks(rows.num_rows, THREAD_CELLS / max(1.0, cells_per_row))
    nearest = functools.partial(_nearest, rows, features_of, chunks)
    while True:
        seed = int(rng.integers(2**31))
        centers, _ = kmeans_plusplus(features, num_centers, sample_weight=weights, random_state=seed)
        yield nearest(_dense(centers))
        at_random = rng.choice(len(weights), num_centers, replace=False, p=weights / weights.sum())
        yield nearest(_dense(features[at_random]))


def _nearest(
    rows: Rows,
    features_of: Callable[[Rows], FeatureMatrix],
    chunks: list[slice],
    centers: Float[np.ndarray, "K features"],
) -> Grouping:
    """The nearest center of each row."""
    nearest = np.empty(rows.num_rows, np.int64)
    half_squares = (centers**2).sum(axis=1) / 2

    def fill(part: slice) -> None:
        nearest[part] = (features_of(rows.take(part)) @ centers.T - half_squares).argmax(axis=1)

    all_in_threads(fill, chunks)
    return nearest


def _features_of(rows: Rows, sample: Rows, conjugate: Conjugate | None) -> Callable[[Rows], FeatureMatrix]:
    """A function that gives the features of rows, in the units of a sample of them, with all values of categories."""
    families = {} if conjugate is None else {block.name: block.family for block in conjugate.blocks}
    site_features: dict[str, FeaturesOf] = {}
    for site, values in sample.values.items():
        family = families.get(site)
        if family is not None and family.kind == CATEGORICAL:
            site_features[site] = functools.partial(_indicators, num_values=int(rows.values[site].max()) + 1)
        elif family is not None and family.kind == COUNT:
            site_features[site] = _roots_of_shares if family.traits.covariate else _roots
        elif hasattr(values, "tocsr"):
            site_features[site] = lambda cells, observed: cells  # sparse: centring would make them dense
        else:
            is_real = family is None or family.kind.events == REAL
            site_features[site] = _standardizing(
                _flat(values, _mask(sample, site)), np.asarray(sample.frequencies), is_real
            )

    def features_of(rows: Rows) -> FeatureMatrix:
        parts = [features(rows.values[site], _mask(rows, site)) for site, features in site_features.items()]
        is_sparse = any(scipy.sparse.issparse(part) for part in parts)
        return scipy.sparse.hstack(parts, format="csr") if is_sparse else np.concatenate(parts, axis=1)

    return features_of


def _standardizing(sample: Float[np.ndarray, "n D"], weights: Float[np.ndarray, " n"], is_real: bool) -> FeaturesOf:
    """Cells less their mean; of real columns that are not constant, in units of the standard deviation."""
    cell_weights = np.where(np.isnan(sample), 0.0, weights[:, None])
    total = np.maximum(cell_weights.sum(axis=0), np.finfo(float).tiny)
    mean = (cell_weights * np.nan_to_num(sample)).sum(axis=0) / total
    deviation = np.sqrt((cell_weights * np.nan_to_num(sample - mean) ** 2).sum(axis=0) / total)
    unit = np.where((deviation > 0) & is_real, deviation, 1.0)

    def features_of(values: SiteValues, observed: ObservedMask) -> FeatureMatrix:
        return np.nan_to_num((_flat(values, observed) - mean) / unit)

    return features_of


def _mask(rows: Rows, site: str) -> ObservedMask:
    """Which cells are observed; None where all are."""
    observed = rows.observed.get(site)
    return None if observed is None else np.asarray(observed)


def _flat(values: Float[np.ndarray, "n ..."], observed: ObservedMask) -> Float[np.ndarray, "n D"]:
    """The cells of each row as a vector, NaN where they are missing."""
    cells = np.asarray(values, np.float64) if observed is None else np.where(observed, values, np.nan)
    return cells.reshape(len(cells), -1)


def _indicators(values: SiteValues, observed: ObservedMask, num_values: int) -> FeatureMatrix:
    """An indicator for each value of each column, 0 where the cell is missing; different values have distance 1."""
    is_value = values[..., None] == np.arange(num_values)
    if observed is not None:
        is_value = is_value & observed[..., None]
    return is_value.reshape(len(values), -1) / np.sqrt(2)


def _roots(values: SiteValues, observed: ObservedMask) -> FeatureMatrix:
    """Square roots of counts, whose standard deviation is about 1/2 for every mean; 0 where missing."""
    return np.sqrt(values) if observed is None else np.sqrt(np.where(observed, values, 0.0))


def _roots_of_shares(values: SiteValues, observed: ObservedMask) -> FeatureMatrix:
    """Square roots of the shares of counts in the total of their row: points on a sphere."""
    totals = np.maximum(np.asarray(values.sum(axis=1)).ravel(), 1.0)
    if hasattr(values, "tocsr"):
        return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / np.sqrt(totals)) @ values.sqrt())
    return np.sqrt(values / totals[:, None])


def _dense(array: FeatureMatrix) -> Float[np.ndarray, "K features"]:
    return array.toarray() if scipy.sparse.issparse(array) else np.asarray(array)


@record
class GivenParameters:
    """Processes to start from, as users give them.

    Attributes:
        parameters: for each start a mapping, name of a parameter -> its value.
    """

    parameters: tuple[dict[str, Any], ...]

    def __init__(self, starts: Any) -> None:
        """One mapping or several; a `DataError` for a value that is not an array of finite numbers."""
        mappings = [starts] if isinstance(starts, Mapping) else starts
        arrays = ({name: _as_array(name, value) for name, value in mapping.items()} for mapping in mappings)
        fill(self, parameters=tuple(arrays))

    def __hash__(self) -> int:
        """By names and shapes."""
        return hash(tuple(tuple((name, np.shape(value)) for name, value in start.items()) for start in self.parameters))

    def __repr__(self) -> str:
        return (
            f"<{len(self.parameters)} of {quote_some(sorted({name for start in self.parameters for name in start}))}>"
        )

    def processes(self, program: GenerativeProgram, defaults: ParameterArrays) -> list[ParameterArrays]:
        """The parameters of each start; those that it lacks are the defaults.

        Raises:
            DataError: a name that is not a parameter; a value of another shape, or outside the support.
        """
        return [_checked(start, program, defaults) for start in self.parameters]

    def vectors(self, program: GenerativeProgram, defaults: ParameterArrays) -> Float[np.ndarray, "starts D"]:
        """The unconstrained vector of each start, finite even for probabilities of zero. Inside float64.

        Raises:
            DataError: see `processes`.
        """
        return np.stack([made_finite(free_parameters(program, start)) for start in self.processes(program, defaults)])


def free_parameters(program: GenerativeProgram, parameters: ParameterArrays) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of parameters; infinite, or NaN, where they are on a bound. Inside float64."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return free_vector(program, program_latents(program, program.latents_of(parameters)))


def made_finite(vector: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    """The vector with finite coordinates in place of infinite ones (bounds of the support) and of NaN."""
    return np.nan_to_num(vector, nan=0.0, posinf=FAR_OUT, neginf=-FAR_OUT)


def are_parameters(starts: Any) -> bool:
    """Whether starts are mappings of parameters, not classes of rows."""
    if isinstance(starts, Mapping):
        return True
    is_list = isinstance(starts, list | tuple) and len(starts) > 0
    return is_list and all(isinstance(start, Mapping) for start in starts)


def _as_array(name: str, value: Any) -> np.ndarray:
    array = as_numbers(f"starts= of {name!r}", value, DataError)
    if not np.isfinite(array).all():
        raise DataError(f"starts= has for {name!r} numbers that are not finite.")
    return array


def _checked(
    parameters: Mapping[str, np.ndarray], program: GenerativeProgram, defaults: ParameterArrays
) -> ParameterArrays:
    unknown = [name for name in parameters if name not in defaults]
    if unknown:
        raise DataError(f"starts= names {quote_some(unknown)}, and the parameters are {quote_some(sorted(defaults))}.")
    for name, value in parameters.items():
        if value.shape != np.shape(defaults[name]):
            raise DataError(
                f"starts= has an array of shape {value.shape} for {name!r}, whose shape is {np.shape(defaults[name])}."
            )
    start = {**defaults, **parameters}
    latents = program.latents_of(start)
    for name, support in program.latent_supports.items():
        has_bounds = not any(isinstance(bound, jax.core.Tracer) for bound in jax.tree.leaves(support))
        if name in latents and has_bounds and not np.asarray(support(latents[name])).all():
            raise DataError(
                f"starts= is outside the space: site {name!r} has to be in {support}, and {latents[name]} is not. "
                "Probabilities are nonnegative and sum to 1."
            )
    return start


@record
class GivenClasses:
    """Classes of the rows to start from, as users give them.

    Attributes:
        arrays: labels or responsibilities of the rows as given to `fit`, those of rows with labels included.
    """

    arrays: tuple[Shaped[np.ndarray, "n ..."], ...]

    def __init__(self, starts: Any) -> None:
        several = isinstance(starts, list | tuple) and len(starts) > 0 and all(np.ndim(start) > 0 for start in starts)
        several = several and any(hasattr(start, "shape") for start in starts)
        fill(self, arrays=tuple(map(_array_of_start, starts if several else [starts])))

    def __hash__(self) -> int:
        """By shapes: labels may be any objects."""
        return hash(tuple(array.shape for array in self.arrays))

    def __repr__(self) -> str:
        return f"<{len(self.arrays)} of {', '.join(sorted({str(array.shape) for array in self.arrays}))}>"

    def classes(self, schema: Schema, num_rows: int, positions: Int[np.ndarray, " m"]) -> list[Classes]:
        """The codes or responsibilities of the rows at these positions, for each start.

        Args:
            schema: of the training data.
            num_rows: how many rows there are, with and without labels.
            positions: of those without.

        Raises:
            DataError: another number of rows or classes; unknown labels, or missing ones at these positions; numbers
                that are not responsibilities.
        """
        return [_classes(array, schema, num_rows, positions) for array in self.arrays]


def _array_of_start(start: Any) -> np.ndarray:
    array = np.asarray(start)
    if array.ndim not in (1, 2) or not array.size:
        raise DataError(
            f"starts= takes labels (n,), responsibilities (n, K), or a list of arrays of these, and this has shape "
            f"{array.shape}."
        )
    return array


def _classes(array: np.ndarray, schema: Schema, num_rows: int, positions: Int[np.ndarray, " m"]) -> Classes:
    if len(array) != num_rows:
        raise DataError(
            f"starts= has {len(array)} rows, and X has {num_rows}. Give one for each row, whether y has its label or "
            "not."
        )
    if array.ndim == 2:
        return _responsibilities(array, len(schema.classes or ()), positions)
    codes = schema.label_codes(array, "starts=")
    assert codes is not None
    if (codes[positions] < 0).any():
        row = int(positions[np.argmax(codes[positions] < 0)])
        raise DataError(f"starts= has no label at row {row}, and y neither. Give one wherever y has none.")
    return codes[positions]


def _responsibilities(array: np.ndarray, num_classes: int, positions: Int[np.ndarray, " m"]) -> Classes:
    if array.shape[1] != num_classes or array.dtype.kind not in "biuf":
        raise DataError(
            f"starts= has {array.shape[1]} columns of dtype {array.dtype}, and there are {num_classes} classes: give "
            "responsibilities, one number for each class."
        )
    shares = array[positions].astype(np.float64)
    bad = ~((shares >= 0).all(1) & (np.abs(shares.sum(1) - 1) <= 1e-6))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"starts= has {shares[row].tolist()} at row {int(positions[row])}. Responsibilities are nonnegative, and "
            "those of a row sum to 1."
        )
    return shares / shares.sum(1, keepdims=True)


def rows_of_classes(rows: Rows, classes: Classes) -> Rows:
    """Rows with these classes; for responsibilities, each row once in every class, weighted by its responsibility."""
    if classes.ndim == 1:
        return dataclasses.replace(rows, labels=classes)
    num_rows, num_classes = classes.shape
    copies = rows.take(np.tile(np.arange(num_rows), num_classes))
    assert rows.weights is not None
    weights = (classes * np.asarray(rows.weights)[:, None]).T.ravel()
    return dataclasses.replace(copies, labels=np.repeat(np.arange(num_classes), num_rows), weights=weights)
