"""Normal columns: centred moments, and densities of rows."""

import dataclasses
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np

from bayesgen.records import record, static
from bayesgen.typing import Array, Bool, Float, Int, Shaped

from .arrays import LOG_2PI, Cells, filled_matrix, flatten_rows, namespace, precise, table_by_class
from .base import CellSums, Likelihood, Parameters, Reference, RowDensity
from .moments import class_moments
from .summaries import Moments, Sample, trailing

MOST_DEVIATIONS = 30.0  # of means from their centre: squares that are three digits larger than their differences


@dataclasses.dataclass(frozen=True)
class NormalLikelihood(Likelihood):
    """Independent normal columns. Parameters: `loc`, `scale`, each (K, *extra).

    With `log_scale`, the columns are log-normal: the logarithms are normal, and the log-Jacobian is in the base.
    """

    log_scale: bool = False

    @property
    def takes_squares(self) -> bool:  # type: ignore[override]
        """Of values on the scale of the data, not of their logarithms."""
        return not self.log_scale

    @property
    def cell_sums(self) -> CellSums:  # type: ignore[override]
        return CellSums.NONE if self.log_scale else CellSums.SQUARES

    def summary_of(self, sample: Sample) -> Moments:
        """Centred moments of each column by class. See `Likelihood.summarize`."""
        values = sample.cells()
        rows = flatten_rows(namespace(values).log(precise(values)) if self.log_scale else values)
        moments = class_moments(rows, sample.classes, sample.num_classes, sample.weights, observed=sample.mask)
        base = moments.log_base - trailing(moments.count, 2) * moments.mean if self.log_scale else moments.log_base
        shape = sample.shape
        count = moments.count if sample.observed is None else moments.count.reshape(shape)
        return Moments(count, moments.mean.reshape(shape), moments.scatter.reshape(shape), base.reshape(shape))

    def log_likelihood(self, parameters: Parameters, summary: Moments) -> Float[Array, "..."]:  # type: ignore[override]
        """-n log(scale) - n/2 log(2 pi) - (scatter + n (mean - loc)^2) / (2 scale^2), per class and column."""
        loc, scale = parameters["loc"], parameters["scale"]
        xp, count = namespace(loc, scale, summary.mean), trailing(summary.count, loc.ndim)
        residual = summary.scatter / scale**2 + count * ((summary.mean - loc) / scale) ** 2
        return xp.asarray(summary.log_base - count * (xp.log(scale) + 0.5 * LOG_2PI) - 0.5 * residual)

    def density(self, parameters: Parameters) -> "NormalDensity":
        loc, scale = (flatten_rows(parameters[name]) for name in ("loc", "scale"))
        return NormalDensity(loc, scale, self.log_scale)

    def reference(self, parameters: Mapping[str, Float[Array, "draws K ..."]]) -> "NormalReference":
        loc, scale = _columns(parameters)
        return NormalReference(median_of_draws(loc), median_of_draws(scale), self.log_scale)


@record
class NormalDensity(RowDensity):
    """Densities of rows of independent normal (or log-normal) columns."""

    loc: Float[Array, "K m"]
    scale: Float[Array, "K m"]
    log_scale: bool = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        xp = namespace(self.loc, values, observed)
        rows, mask = filled_matrix(values, observed)
        rows = xp.log(rows) if self.log_scale else rows
        constants = -xp.log(self.scale) - 0.5 * LOG_2PI
        table = self._expanded(rows, mask, constants) if xp is np else None
        if table is None:
            columns = rows.T.copy()  # sums over columns are then sums of long vectors
            squares = table_by_class(
                xp, lambda *units: column_sums(scaled_squares(columns, *units), mask), self.loc, 1 / self.scale
            )
            constant = constants.sum(-1) if mask is None else mask.astype(float) @ constants.T
            table = constant - 0.5 * squares
        if self.log_scale:
            table = table - (rows if mask is None else xp.where(mask, rows, 0.0)).sum(-1)[:, None]
        return table

    def _expanded(
        self, rows: Float[np.ndarray, "n m"], mask: Bool[np.ndarray, "n m"] | None, constants: Float[np.ndarray, "K m"]
    ) -> Float[np.ndarray, "n K"] | None:
        """Log densities by two products of matrices, from squares about a centre of all classes (`mixtures`).

        None where digits would be lost: means far from each other, in units of deviations, or squares out of range.
        """
        center, scale = self.loc.mean(0), self.scale
        shift = (self.loc - center) / scale
        if not ((abs(shift) <= MOST_DEVIATIONS) & (scale > 1e-100) & (scale < 1e100)).all():
            return None
        columns, constants = rows.T.copy(), constants - 0.5 * shift**2
        columns -= center[:, None]
        if mask is not None:
            columns *= mask.T
        table = (shift / scale) @ columns
        columns *= columns
        table -= (0.5 / scale**2) @ columns
        table += constants.sum(1)[:, None] if mask is None else constants @ mask.T
        return table.T if np.isfinite(table).all() else None

    def sql_terms(self, literal: Callable[[float], str]) -> list[list[str]]:
        def term(loc: float, scale: float) -> str:
            cell = "ln({0})" if self.log_scale else "{0}"
            return f"-0.5e0 * power(({cell} - {literal(loc)}) * {literal(1 / scale)}, 2) - {literal(np.log(scale))}"

        return np.vectorize(term, otypes=[object])(self.loc, self.scale).tolist()

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        loc = np.asarray(self.loc)
        return np.exp(loc + 0.5 * np.asarray(self.scale) ** 2)[None] if self.log_scale else loc[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        cells = rng.normal(np.asarray(self.loc)[classes], np.asarray(self.scale)[classes])
        return np.exp(cells) if self.log_scale else cells


@record
class NormalReference(Reference):
    """Independent normal columns: features are the columns in units of the reference, and their squares."""

    loc: Float[Array, "K m"]
    scale: Float[Array, "K m"]
    log_scale: bool = static()

    def natural_parameters(
        self, parameters: Mapping[str, Float[Array, "draws K ..."]]
    ) -> tuple[Float[Array, "draws K F"], Float[Array, "draws K"]]:
        loc, scale = _columns(parameters)
        shift, precision = (loc - self.loc) / self.scale, (self.scale / scale) ** 2
        constant = jnp.log(self.scale / scale).sum(-1) - 0.5 * (precision * shift**2).sum(-1)
        return jnp.concatenate([precision * shift, 0.5 - 0.5 * precision], -1), constant

    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        columns = flatten_rows(jnp.log(values) if self.log_scale else values).T
        whitened = (columns - self.loc[..., None]) / self.scale[..., None]
        base = columns.sum(0) if self.log_scale else 0.0
        return standard_log_density(whitened, jnp.log(self.scale).sum(-1)) - base, jnp.concatenate(
            [whitened, whitened**2], 1
        )


def few(draws: Float[Array, "draws ..."]) -> Float[Array, "few ..."]:
    """At most 101 of the draws, spread evenly: enough for a median."""
    return draws[:: -(-len(draws) // 101)]


def median_of_draws(draws: Float[Array, " draws *shape"]) -> Float[Array, " *shape"]:
    """The elementwise median of draws, which outliers do not move."""
    ordered = jnp.sort(few(draws), axis=0)
    return 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])


def scaled_squares(
    columns: Float[Array, "D n"],
    center: Float[Array, " D"],
    factor: Float[Array, " D"],
    out: Float[np.ndarray, "D n"] | None = None,
) -> Float[Array, "D n"]:
    """((columns - center) * factor) ** 2, in the memory of one array: `out`, if it is given."""
    squares = columns - center[:, None] if out is None else np.subtract(columns, center[:, None], out=out)
    squares *= factor[:, None]
    squares *= squares
    return squares


def column_sums(cells: Float[Array, "D n"], observed: Bool[Array, "n D"] | None) -> Float[Array, " n"]:
    """Sums over the observed columns."""
    return (cells if observed is None else namespace(cells, observed).where(observed.T, cells, 0.0)).sum(0)


def _columns(
    parameters: Mapping[str, Float[Array, "draws K ..."]],
) -> tuple[Float[Array, "draws K m"], Float[Array, "draws K m"]]:
    """Locations and scales, the columns in one axis."""
    loc, scale = (parameters[name].reshape(*parameters[name].shape[:2], -1) for name in ("loc", "scale"))
    return loc, scale


def standard_log_density(whitened: Float[Array, "K D n"], log_det: Float[Array, " K"]) -> Float[Array, "K n"]:
    """Log densities of columns that were whitened by a factor of this log-determinant."""
    return -0.5 * ((whitened**2).sum(1) + LOG_2PI * whitened.shape[1]) - log_det[:, None]
