"""Densities of rows: prepared once, evaluated at any rows."""

import abc
from typing import TypeAlias

import jax
import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, namespace

Weight: TypeAlias = Real[Array, "..."] | float


class RowDensity(abc.ABC):
    """K class-conditional densities of one site, with whatever is worth computing once for many chunks of rows.

    `takes_codes` says whether rows of integers have to come as such: symbols of sequences, which are padded otherwise
    than numbers are.
    """

    takes_codes: bool = False

    @abc.abstractmethod
    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class, summed over the columns of the site.

        Args:
            values: (n, *extra, *event), the rows.
            observed: mask of the cells that are there, of the rows' shape; None where all are. The density is that of
                these cells, whatever stands in the others.
        """

    def log_prob_of(self, rows: Rows, site: str) -> Float[Array, "n K"]:
        """Log density of this site of rows under each class."""
        return self.log_prob(rows.values[site], rows.observed.get(site))

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m *r"]:
        """Mean of each missing cell given those of its row that are there, under each class.

        Of columns with finitely many values, the probability of each value. What stands where cells are there does not
        matter. NumPy only; of densities whose cells may be missing.
        """
        raise NotImplementedError(f"{type(self).__name__} does not tell of single cells.")

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        """Draws of the missing cells given those of their row that are there, and its class. See `expected`."""
        raise NotImplementedError(f"{type(self).__name__} does not tell of single cells.")

    def mixed(self, other: "RowDensity", log_weight: Weight, log_other_weight: Weight) -> "RowDensity":
        """The density of rows that follow this density, or another of its kind, with these probabilities.

        `other` has the same classes or one; weights are numbers, or (D,) for columns that mix each on its own.
        """
        return MixedRows(self, other, log_weight, log_other_weight)


class DensityGivenFeatures(RowDensity):
    """Densities that depend on features of the row: another site of it, or a covariate, which `source` names."""

    source: str

    @abc.abstractmethod
    def log_prob_given(
        self, features: Float[Array, "n F"], values: Float[Array, "n ..."], observed: Bool[Array, "n ..."] | None
    ) -> Float[Array, "n K"]:
        """Log density of each row under each class, given its features. See `log_prob`."""

    def log_prob_of(self, rows: Rows, site: str) -> Float[Array, "n K"]:
        """Log density of this site of rows under each class, given its features, which are at their place."""
        features = rows.values[self.source] if self.source in rows.values else rows.covariates[self.source]
        features = features[:, None] if features.ndim == 1 else features
        return self.log_prob_given(features, rows.values[site], rows.observed.get(site))

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Not without features."""
        raise NotImplementedError(f"{type(self).__name__} has no density of rows without their features.")


class ColumnwiseDensity(RowDensity):
    """Columns that are independent given the class: a record of arrays with the axes (K, D)."""

    def column(self, index: int) -> "ColumnwiseDensity":
        """The density of one column."""
        return jax.tree.map(lambda array: array[:, index : index + 1], self)

    def mixed(self, other: RowDensity, log_weight: Weight, log_other_weight: Weight) -> RowDensity:
        """Each column mixes on its own. See `RowDensity.mixed`."""
        assert isinstance(other, ColumnwiseDensity)
        return MixedColumns(self, other, np.atleast_1d(log_weight), np.atleast_1d(log_other_weight))


@record
class MixedRows(RowDensity):
    """Rows that follow one density or another as a whole; weights are numbers, in logs."""

    first: RowDensity
    second: RowDensity
    log_first: Weight
    log_second: Weight

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class."""
        first, second = (density.log_prob(values, observed) for density in (self.first, self.second))
        return namespace(first).logaddexp(self.log_first + first, self.log_second + second)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m *r"]:
        """Means of missing cells. Those that are there tell which density a row follows."""
        share = self._share(values, observed)
        first, second = (density.expected(values, observed) for density in (self.first, self.second))
        share = share.reshape(*share.shape, *[1] * (first.ndim - 2))
        return share * first + (1 - share) * second

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        """Draws of missing cells, of the density that the row follows, which is drawn too."""
        share = self._share(values, observed)
        is_first = rng.random(len(classes)) < share[np.arange(len(classes)), classes]
        first = self.first.sample(values, observed, classes, rng)
        return np.where(is_first[:, None], first, self.second.sample(values, observed, 0 * classes, rng))

    def _share(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "n K"]:
        """Probability that a row follows the first density, given the cells that are there."""
        first, second = (np.asarray(density.log_prob(values, observed)) for density in (self.first, self.second))
        return scipy.special.expit(self.log_first + first - self.log_second - second)


@record
class MixedColumns(RowDensity):
    """Columns that are independent given the class, each of which follows one density or another."""

    first: ColumnwiseDensity
    second: ColumnwiseDensity
    log_first: Real[Array, " D"]
    log_second: Real[Array, " D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class: the sum over columns of the logs of the mixtures."""
        total: Float[Array, ...] = np.zeros((1, 1))
        for index, (log_first, log_second) in enumerate(zip(self.log_first, self.log_second, strict=True)):
            column = MixedRows(self.first.column(index), self.second.column(index), log_first, log_second)
            there = None if observed is None else observed[:, index : index + 1]
            cells = column.log_prob(values[:, index : index + 1], there)
            if observed is not None:
                cells = namespace(cells, observed).where(observed[:, index, None], cells, 0.0)
            total = total + cells
        return total

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n D"]) -> Float[np.ndarray, "#n #K D"]:
        """Means of missing cells, column by column: the others do not tell which density a column follows."""
        first, second = (density.expected(values, observed) for density in (self.first, self.second))
        return np.exp(self.log_first) * first + np.exp(self.log_second) * second

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n D"],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n D"]:
        """Draws of missing cells, of the density that the column follows, which is drawn too."""
        first = self.first.sample(values, observed, classes, rng)
        second = self.second.sample(values, observed, 0 * classes, rng)
        return np.where(rng.random(first.shape) < np.exp(self.log_first), first, second)


class Reference(abc.ABC):
    """A process in the middle of many, about which their log densities are linear in features of the rows.

    log p(x | Q) = log p(x | Q0) + <natural parameters of Q about Q0, features of x> - log-partition of Q about Q0.
    What is added to the density of the reference Q0 is a small number, made of columns in its units, so that single
    precision has digits enough for it whatever the data's offset and scale, but for rows many units away.
    """

    @abc.abstractmethod
    def natural_parameters(
        self, parameters: dict[str, Float[Array, "draws K ..."]]
    ) -> tuple[Float[Array, "draws K F"], Float[Array, "draws K"]]:
        """Natural parameters of many processes about this one, and their log-partitions with the sign turned."""

    @abc.abstractmethod
    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        """Log densities of rows under the reference, and their features."""
