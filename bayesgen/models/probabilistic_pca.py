"""`ProbabilisticPCA`: rows near a linear subspace, and their factor scores."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from bayesgen.data import REAL, Rows, Schema, Table
from bayesgen.describe import Described, Description, quote_some
from bayesgen.errors import DataError, FitError, ModelError
from bayesgen.families import LowRankNormal, log_evidences_of_factors, nearest_factors
from bayesgen.program import ConcreteModel, Recipe
from bayesgen.records import by_content, fill
from bayesgen.runtime import CACHED_CELLS, THREAD_CELLS, all_in_threads, chunks, even_chunks
from bayesgen.statistics import Moments, SufficientStatistics
from bayesgen.typing import Float

from .blocks import BlockModel, refuse_classes
from .closed_response import check_prior
from .naive_bayes import NaiveBayes

if TYPE_CHECKING:
    import pandas as pd


@by_content
class FactorCoordinates(Described):
    """The posterior of the factors of n rows at a process: normal, with these means and covariances.

    `numpy.asarray` gives the means. A row is expected at mean + loadings @ its factors.

    Attributes:
        mean: of the factors of each row.
        covariance: that of the factors, one for all rows; where cells are missing, one for each.
        loadings: of the columns, one for each factor: orthogonal, the longest first, the largest entry of each
            positive.
        index: the index of X, of a pandas frame, which `to_frame` keeps; None where rows have positions alone.
    """

    mean: Float[np.ndarray, "n k"]
    covariance: Float[np.ndarray, "*#n k k"]
    loadings: Float[np.ndarray, "D k"]
    index: "pd.Index | None" = None

    @classmethod
    def of(
        cls,
        mean: Float[np.ndarray, " D"],
        loadings: Float[np.ndarray, "D k"],
        noise: Float[np.ndarray, ""],
        instances: Rows,
    ) -> "FactorCoordinates":
        """The factor scores of instances, given their observed cells.

        With W the loadings of these cells and v the noise variance, factors given a row x have the covariance v inv(M)
        and the mean inv(M) W' (x - mean), M = W' W + v I.

        Source: Tipping and Bishop (1999), Probabilistic principal component analysis, eq. 6.
        """
        rows, observed = np.asarray(instances.values[REAL_COLUMNS]), instances.observed.get(REAL_COLUMNS)
        num_factors, identity = loadings.shape[1], np.eye(loadings.shape[1])
        if observed is None:
            inverse = np.linalg.inv(loadings.T @ loadings + noise * identity)
            weights, means = loadings @ inverse, np.empty((len(rows), num_factors))
            shift = mean @ weights if (np.abs(mean) @ np.abs(weights) <= MOST_FACTOR_SHIFT).all() else None

            def fill_means(part: slice) -> None:
                for cached in chunks(len(rows[part]), CACHED_CELLS // 2 // rows.shape[1]):
                    cells, out = rows[part][cached], means[part][cached]
                    np.matmul(cells if shift is not None else cells - mean, weights, out=out)
                    out -= 0.0 if shift is None else shift

            all_in_threads(fill_means, even_chunks(len(rows), THREAD_CELLS / rows.shape[1]))
            return cls(means, noise * inverse, loadings)
        residuals = np.where(observed, rows - mean, 0.0)
        products = np.einsum("dk,dl->dkl", loadings, loadings)
        matrices = np.tensordot(observed.astype(float), products, 1) + noise * identity
        inverses = np.linalg.inv(matrices)
        means = np.einsum("nkl,nl->nk", inverses, residuals @ loadings)
        return cls(means, noise * inverses, loadings)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """The means."""
        return np.array(self.mean, dtype=dtype, copy=copy)

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame of the means, a column for each factor. It has the index of X."""
        import pandas as pd

        columns = [f"factor_{place}" for place in range(self.mean.shape[1])]
        return pd.DataFrame(self.mean, columns=columns, index=self.index)

    def __len__(self) -> int:
        return len(self.mean)

    def _description(self) -> Description:
        entries = {"next": ".mean, .covariance, .loadings, .to_frame(), numpy.asarray(...)"}
        return f"FactorCoordinates of {len(self.mean)} rows, {self.mean.shape[1]} factors", entries


REAL_COLUMNS = "real"
MOST_FACTOR_SHIFT = 1e2  # of factors, in prior deviations: subtracted after the product, it costs two digits


@dataclasses.dataclass(frozen=True)
class ProbabilisticPCA(Recipe):
    """Probabilistic principal component analysis: rows near a line, plane or surface of k dimensions, and noise.

    Generative story, for k factors::

        noise_variance, loadings, mean ~ the prior, a `LowRankNormal`
        factors ~ Normal(0, I), k of them for each row
        real    ~ Normal(mean + loadings factors, noise_variance I)

    so that real ~ Normal(mean, loadings loadings' + noise_variance I). It has no classes, and is fitted without y:
    `MLE()` in closed form (the subspace is that of principal component analysis), `MAP()`, or `NUTS()`; `Exact()`
    refuses. Where cells are missing, `MLE` and `MAP` use EM. `predict` gives densities of rows, and `fit.transform(X)`
    the posterior of their factors, the coordinates on the surface. Noise has one variance for all columns, and
    columns are not rescaled, so give columns of like units.

    Parameters are `real_mean`, `real_covariance` and `real_noise_variance`. Loadings are identified only up to a
    rotation, so they are not a parameter: see `LowRankNormal`. `fit.transform(X).loadings` have orthogonal columns.

    Args:
        num_factors: k, from 1 to the number of columns less 1. None chooses the number of highest approximate evidence
            (Minka 2000), from the eigenvalues of the covariance of complete rows; it is in `fit.concrete.num_factors`,
            and updating keeps it.
        prior: a `LowRankNormal` with hyperparameters of one's own, its number of factors left out or the same; None
            for the defaults, in the units of the data.

    `fit.approximate_log_evidence` is Minka's value, whatever the prior and the method: `average([ProbabilisticPCA(1),
    ProbabilisticPCA(2)])` weighs by it. `Mixture(ProbabilisticPCA(2), 3)` is a mixture of such surfaces.

    Source: Tipping and Bishop (1999), Probabilistic principal component analysis; Minka (2000), Automatic choice of
    dimensionality for PCA.

    >>> import bayesgen as bg
    >>> X = [[1.0, 2.1, 0.1], [2.0, 3.9, 0.0], [3.0, 6.2, -0.1], [4.0, 7.9, 0.1], [5.0, 10.1, 0.0]]
    >>> fit = bg.fit(bg.ProbabilisticPCA(1), X, method=bg.MLE())
    >>> fit.transform([[3.0, 6.0, 0.0], [5.0, None, 0.0]]).mean.round(2).tolist()
    [[-0.01], [1.41]]
    """

    num_factors: int | None = None
    prior: LowRankNormal | None = None
    approximates_evidence: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_prior(self, self.prior, LowRankNormal)
        if self.num_factors is not None:
            fill(self, num_factors=LowRankNormal(self.num_factors).num_factors)  # which refuses what is no number
        stated = 1 if self.prior is None else self.prior.num_factors
        if stated not in (1, self.num_factors):
            raise ModelError(
                f"ProbabilisticPCA: num_factors={self.num_factors}, and the prior has num_factors={stated}. Leave that "
                f"out, LowRankNormal() with its other arguments, or give ProbabilisticPCA({stated})."
            )

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """All columns are real.

        Raises:
            DataError: labels, declared classes; columns of other kinds, by name; one column alone.
        """
        refuse_classes(self, y, declared)
        schema = declared.resolve(table)
        not_real = [name for name in schema.columns or () if schema.kind_of(name).modelled_as != REAL]
        if not_real:
            raise DataError(
                f"ProbabilisticPCA takes real columns, and {quote_some(not_real)} are not. Leave them out, or declare "
                "Schema(kinds={...: 'real'}) if they are numbers."
            )
        if len(schema.columns or ()) < 2:
            raise DataError("ProbabilisticPCA takes two columns or more: factors describe how columns vary together.")
        return schema

    def with_components(self, num_components: int) -> Recipe:
        """The model with a subspace for each component."""
        if self.num_factors is None:
            raise ModelError(
                "ProbabilisticPCA: num_factors=None chooses by the covariance of all rows, which is not that of a "
                "component of a mixture. Give a number."
            )
        return NaiveBayes({"real": self._family(self.num_factors)})

    def concrete(self, schema: Schema) -> ConcreteModel:
        family = self._family(1 if self.num_factors is None else self.num_factors)
        return FactorColumns(((REAL_COLUMNS, family, schema.columns or ()),), self.num_factors is not None)

    def _family(self, num_factors: int) -> LowRankNormal:
        return (self.prior or LowRankNormal()).replace(num_factors=num_factors)


@dataclasses.dataclass(frozen=True)
class FactorColumns(BlockModel):
    """Columns of a few factors and noise, without classes.

    Attributes:
        blocks: one, with a `LowRankNormal`.
        is_selected: whether its number of factors is known; else the data select it.
    """

    blocks: Sequence[tuple[str, LowRankNormal, Sequence[str]]]
    is_selected: bool = True
    class_prior = None
    approximates_evidence: ClassVar[bool] = True

    @property
    def num_factors(self) -> int | None:
        """The number of factors; None before it is selected."""
        return self.blocks[0][1].num_factors if self.is_selected else None

    def shares_statistics(self, other: ConcreteModel) -> bool:
        """Yes, for any number of factors and any prior: the columns have to be the same."""
        return isinstance(other, FactorColumns) and self.blocks[0][2] == other.blocks[0][2]

    def selected_by(self, statistics: SufficientStatistics) -> ConcreteModel:
        """The model with the number of factors of highest approximate evidence, where none was given.

        Raises:
            FitError: missing cells, or too few rows.
        """
        if self.is_selected:
            return self
        evidences = self._evidences(statistics)
        if evidences is None:
            raise FitError(
                "ProbabilisticPCA: num_factors=None chooses by the eigenvalues of complete rows, and cells are missing."
                " Give a number."
            )
        if not np.isfinite(evidences).any():
            raise FitError(
                "ProbabilisticPCA: num_factors=None finds no number of factors that leaves any noise: there are too "
                "few rows or columns, or columns are linear combinations of others. Give a number, with MAP()."
            )
        name, family, columns = self.blocks[0]
        chosen = family.replace(num_factors=1 + int(np.argmax(evidences)))
        return dataclasses.replace(self, blocks=((name, chosen, columns),), is_selected=True)

    def approximate_log_evidence(self, statistics: SufficientStatistics) -> float | None:
        """Minka's value: see `log_evidences_of_factors`. None where cells are missing, or no noise is left."""
        evidences = self._evidences(statistics)
        if evidences is None or self.num_factors is None or self.num_factors > len(evidences):
            return None
        value = float(evidences[self.num_factors - 1])
        return value if np.isfinite(value) else None

    def _evidences(self, statistics: SufficientStatistics) -> Float[np.ndarray, " numbers"] | None:
        summary = statistics.summaries[REAL_COLUMNS]
        if not isinstance(summary, Moments):
            return None
        count = float(summary.count[0])
        if count <= 1:
            return np.full(summary.mean.shape[-1] - 1, -np.inf)
        values = np.linalg.eigvalsh(np.asarray(summary.scatter[0]) / (count - 1))[::-1]
        return log_evidences_of_factors(values, count)

    def row_coordinates(self, parameters: Mapping[str, np.ndarray]) -> Callable[[Rows], FactorCoordinates]:
        """The posterior of the factors of rows, at a process."""
        mean, covariance = (np.asarray(parameters[f"{REAL_COLUMNS}_{name}"]) for name in ("mean", "covariance"))
        loadings, noise = map(np.asarray, nearest_factors(covariance, self.blocks[0][1].num_factors))
        return functools.partial(FactorCoordinates.of, mean, loadings, noise)
