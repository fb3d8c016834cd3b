"""Contracts of densities of rows and of likelihoods, and the registry of NumPyro distributions."""

import abc
import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from numpyro.distributions.distribution import Distribution, ExpandedDistribution, Independent, MaskedDistribution

from bayesgen.data import Rows
from bayesgen.records import record
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import Cells, namespace
from .summaries import Classes, Sample, Summary

Weight: TypeAlias = Real[Array, "..."] | float


class RowDensity(abc.ABC):
    """K class-conditional densities of one site, prepared once and evaluated at many chunks of rows.

    With `keeps_integers`, integer rows are not converted to floats: the end of a sequence is -1 among symbols, and NaN
    among numbers.
    """

    keeps_integers: bool = False

    @abc.abstractmethod
    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class, summed over the columns of the site.

        Args:
            values: (n, *extra, *event), the rows.
            observed: mask of the observed cells, of the rows' shape; None where all are. The density is the
                marginal one of these cells; the values of the others are ignored.
        """

    def log_prob_of(self, rows: Rows, site: str) -> Float[Array, "n K"]:
        """Log density of this site of rows under each class."""
        return self.log_prob(rows.values[site], rows.observed.get(site))

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m *r"]:
        """Mean of each missing cell given the observed cells of its row, under each class.

        For columns with finitely many values, the probability of each value. Results at observed cells are arbitrary.
        NumPy only, and only for densities that allow missing cells.
        """
        raise NotImplementedError(f"{type(self).__name__} does not tell of single cells.")

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        """Draws of the missing cells given the observed cells of their row and its class. See `expected`."""
        raise NotImplementedError(f"{type(self).__name__} does not tell of single cells.")

    def sql_terms(self, literal: Callable[[float], str]) -> list[list[str]] | None:
        """For each class and column the log density of a cell {0} in SQL, but for what classes share; None without one.

        Args:
            literal: a number in SQL.
        """
        return None

    def mixed(self, other: "RowDensity", log_weight: Weight, log_other_weight: Weight) -> "RowDensity":
        """The mixture of this density and another of its kind, with these log weights.

        `other` has the same classes or one; weights are numbers, or (D,) for columns that are mixed one by one.
        """
        return MixtureDensity(self, other, log_weight, log_other_weight)


class DensityGivenFeatures(RowDensity):
    """Densities that depend on features of the row: another site or a covariate, whose name is `source`."""

    source: str

    @abc.abstractmethod
    def log_prob_given(
        self, features: Float[Array, "n F"], values: Float[Array, "n ..."], observed: Bool[Array, "n ..."] | None
    ) -> Float[Array, "n K"]:
        """Log density of each row under each class, given its features. See `log_prob`."""

    def log_prob_of(self, rows: Rows, site: str) -> Float[Array, "n K"]:
        features = rows.values[self.source] if self.source in rows.values else rows.covariates[self.source]
        features = features[:, None] if features.ndim == 1 else features
        return self.log_prob_given(features, rows.values[site], rows.observed.get(site))

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        raise NotImplementedError(f"{type(self).__name__} has no density of rows without their features.")


class ColumnwiseDensity(RowDensity):
    """Columns that are independent given the class: a record of arrays with the axes (K, D)."""

    def column(self, index: int) -> "ColumnwiseDensity":
        """The density of one column."""
        return jax.tree.map(lambda array: array[:, index : index + 1], self)

    def mixed(self, other: RowDensity, log_weight: Weight, log_other_weight: Weight) -> RowDensity:
        """A mixture for each column."""
        assert isinstance(other, ColumnwiseDensity)
        return MixedColumns(self, other, np.atleast_1d(log_weight), np.atleast_1d(log_other_weight))


@record
class MixtureDensity(RowDensity):
    """Mixture of two densities of whole rows, with log weights."""

    first: RowDensity
    second: RowDensity
    log_first: Weight
    log_second: Weight

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        first, second = (density.log_prob(values, observed) for density in (self.first, self.second))
        return namespace(first).logaddexp(self.log_first + first, self.log_second + second)

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m *r"]:
        """Means of missing cells, weighted by the posterior probability of each density given the observed cells."""
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
        share = self._share(values, observed)
        is_first = rng.random(len(classes)) < share[np.arange(len(classes)), classes]
        first = self.first.sample(values, observed, classes, rng)
        return np.where(is_first[:, None], first, self.second.sample(values, observed, 0 * classes, rng))

    def _share(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "n K"]:
        """Probability that a row follows the first density, given the observed cells."""
        first, second = (np.asarray(density.log_prob(values, observed)) for density in (self.first, self.second))
        return scipy.special.expit(self.log_first + first - self.log_second - second)


@record
class MixedColumns(RowDensity):
    """Columns that are independent given the class, each a mixture of two densities."""

    first: ColumnwiseDensity
    second: ColumnwiseDensity
    log_first: Real[Array, " D"]
    log_second: Real[Array, " D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        """Log density of each row under each class: the sum over columns of the logs of the mixtures."""
        total: Float[Array, ...] = np.zeros((1, 1))
        for index, (log_first, log_second) in enumerate(zip(self.log_first, self.log_second, strict=True)):
            column = MixtureDensity(self.first.column(index), self.second.column(index), log_first, log_second)
            mask = None if observed is None else observed[:, index : index + 1]
            cells = column.log_prob(values[:, index : index + 1], mask)
            if observed is not None:
                cells = namespace(cells, observed).where(observed[:, index, None], cells, 0.0)
            total = total + cells
        return total

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n D"]) -> Float[np.ndarray, "#n #K D"]:
        """Means of missing cells: the prior mixture of each column, because columns are independent."""
        first, second = (density.expected(values, observed) for density in (self.first, self.second))
        return np.exp(self.log_first) * first + np.exp(self.log_second) * second

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n D"],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n D"]:
        first = self.first.sample(values, observed, classes, rng)
        second = self.second.sample(values, observed, 0 * classes, rng)
        return np.where(rng.random(first.shape) < np.exp(self.log_first), first, second)


class Reference(abc.ABC):
    """A reference process, about which the log densities of many processes are linear in features of the rows.

    log p(x | Q) = log p(x | Q0) + <natural parameters of Q about Q0, features of x> - log-partition of Q about Q0.
    Differences from the density of the reference Q0 are small numbers, so that single precision has enough digits for
    them whatever the offset and scale of the data, except in rows many standard deviations away.
    """

    @abc.abstractmethod
    def natural_parameters(
        self, parameters: dict[str, Float[Array, "draws K ..."]]
    ) -> tuple[Float[Array, "draws K F"], Float[Array, "draws K"]]:
        """Natural parameters of many processes about this one, and their negative log-partitions."""

    @abc.abstractmethod
    def features(self, values: Float[Array, "n ..."]) -> tuple[Float[Array, "K n"], Float[Array, "K F n"]]:
        """Log densities of rows under the reference, and their features."""


Parameters = Mapping[str, Array]


class CellSums(enum.Enum):
    """Which sums of the cells of each class are the sufficient statistic of a likelihood."""

    NONE = 0  # others than these
    SQUARES = 1  # the cells of each column, and their squares
    PRODUCTS = 2  # the cells of each column, and products of any two
    VALUES = 3  # how often each value of each column comes
    TOTALS = 4  # these, and how often each total of the cells of a row comes

    @property
    def of_numbers(self) -> bool:
        """Whether cells are numbers that are added."""
        return self in (CellSums.SQUARES, CellSums.PRODUCTS)


class Likelihood(abc.ABC):
    """A family of distributions with a sufficient statistic of fixed size.

    The log-likelihood of any number of rows is a function of their `Summary` alone. `has_row_parameters` says whether
    densities depend on known quantities of each row (see `register`) besides the parameters that are learned;
    `takes_squares` whether they take squares of the rows' values, which may overflow; `cell_sums` which sums of cells
    by class its summary is made of.
    """

    has_row_parameters: bool = False
    takes_squares: bool = False
    cell_sums: ClassVar[CellSums] = CellSums.NONE

    @property
    def has_symmetries(self) -> bool:
        """Whether several parameters give the same distribution, such as those of hidden states under other names."""
        return False

    @property
    def summarizes(self) -> bool:
        """Whether rows can be summarised: not where a program computes the edges of bins."""
        return True

    def why_impossible(self, site: str, rows: Rows, numbers: Int[np.ndarray, " n"]) -> str | None:
        """Why some rows of a site have probability zero at all parameters, and what to do; None if none has.

        Args:
            site: its name.
            rows: the data.
            numbers: of the rows, for messages.
        """
        return None

    def summarize(
        self,
        values: Cells,
        classes: Classes,
        num_classes: int,
        weights: Real[Array, " n"] | None = None,
        observed: Bool[Array, "n ..."] | None = None,
        row_parameters: Mapping[str, Array] | None = None,
    ) -> Summary:
        """Summarise rows by class.

        Args:
            values: (n, *extra, *event), the rows (sparse where the statistic allows it).
            classes: the code of each row, 0..K-1, or its responsibilities, p(class | row).
            num_classes: K; a class may be empty.
            weights: nonnegative frequency weights; None where all are 1.
            observed: mask of the observed cells, of the rows' shape; None where all are. The values
                of the others are ignored.
            row_parameters: known quantities of each row that its density depends on, by name: a binomial's total
                count, a regression's features.

        Returns:
            A `Summary`: float64 NumPy arrays from NumPy arrays; from JAX arrays, traceably, JAX arrays.
        """
        return self.summary_of(Sample(values, classes, num_classes, weights, observed, row_parameters))

    @abc.abstractmethod
    def summary_of(self, sample: Sample) -> Summary:
        """The summary of rows by class. See `summarize`."""

    @abc.abstractmethod
    def log_likelihood(self, parameters: Parameters, summary: Summary) -> Float[Array, "..."]:
        """Log-likelihood of the summarised rows, per class and column as the summary has them. Traceable."""

    @abc.abstractmethod
    def density(self, parameters: Parameters) -> RowDensity:
        """The class-conditional densities of rows at parameters, arrays with the class first. Traceable.

        Not where `has_row_parameters`.
        """

    def without_base(self) -> "Likelihood":
        """The likelihood without its log base measure, which depends on the rows alone.

        So the base measure is not computed again where the same rows are evaluated at many parameters.
        """
        return self

    def reference(self, parameters: Mapping[str, Float[Array, "draws K ..."]]) -> Reference | None:
        """A reference at the medians of many processes; None where they are best evaluated one by one. Traceable."""
        return None

    def log_prob_of_many(
        self,
        parameters: Mapping[str, Float[Array, "draws K ..."]],
        values: Cells,
        observed: Bool[Array, "n ..."] | None = None,
    ) -> Float[Array, "K draws n"]:
        """Log densities of rows under many processes."""
        draws, num_classes = next(iter(parameters.values())).shape[:2]
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in parameters.items()}
        table = self.density(flat).log_prob(values, observed)
        return table.reshape(-1, draws, num_classes).transpose(2, 1, 0)


DistributionType = TypeVar("DistributionType", bound=Distribution)


@dataclasses.dataclass(frozen=True)
class Registration(Generic[DistributionType]):
    """How one NumPyro distribution type is read.

    Attributes:
        likelihood: a `Likelihood`, or a function from the distribution to one, or to None where it has none.
        parameters: distribution -> dict of the arrays that are learned.
        row_parameters: distribution -> dict of the known quantities of its rows, or None.
        event_dims: number of event axes of each parameter (0 where not stated), or a function from the distribution
            to these numbers.
    """

    likelihood: Likelihood | Callable[[DistributionType], Likelihood | None]
    parameters: Callable[[DistributionType], Mapping[str, Array]]
    row_parameters: Callable[[DistributionType], Mapping[str, Array]] | None = None
    event_dims: Mapping[str, int] | Callable[[DistributionType], Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )


_TABLE: dict[type, Registration] = {}


def register(
    distribution_type: type[DistributionType],
    likelihood: Likelihood | Callable[[DistributionType], Likelihood | None],
    parameters: Callable[[DistributionType], Mapping[str, Array]],
    *,
    row_parameters: Callable[[DistributionType], Mapping[str, Array]] | None = None,
    event_dims: Mapping[str, int] | Callable[[DistributionType], Mapping[str, int]] | None = None,
) -> None:
    """Teach bayesgen the sufficient statistic of a distribution type, so that programs with it are compressed.

    Args:
        distribution_type: a `numpyro.distributions.Distribution` subclass; subclasses of it are not covered.
        likelihood: a `Likelihood` such as `ExponentialFamily(...)`, or a function distribution -> `Likelihood`, or None
            where this distribution, because of what it is made of, has no likelihood.
        parameters: function distribution -> {name: array}, what `likelihood` takes as parameters.
        row_parameters: function distribution -> {name: array}, known quantities that may differ from row to row but
            must not depend on any latent: a binomial's total count, a regression's features.
        event_dims: number of event axes of each of these arrays, where that is not 0; or a function distribution ->
            these numbers.

    The half-Cauchy is no exponential family; the Rayleigh distribution is:

    >>> import numpyro.distributions as dist, jax.numpy as jnp
    >>> from bayesgen.statistics import ExponentialFamily, register
    >>> rayleigh = ExponentialFamily(
    ...     statistics=lambda x, row: (x**2,),
    ...     natural=lambda p: (-0.5 / p["scale"] ** 2,),
    ...     log_partition=lambda p: 2 * jnp.log(p["scale"]),
    ...     log_base=lambda x, row: jnp.log(x),
    ... )
    >>> class Rayleigh(dist.Weibull):
    ...     def __init__(self, scale):
    ...         super().__init__(scale * 2**0.5, 2.0)
    >>> register(Rayleigh, rayleigh, lambda d: {"scale": d.scale / 2**0.5})
    """
    _TABLE[distribution_type] = Registration(likelihood, parameters, row_parameters, event_dims or {})


@dataclasses.dataclass(frozen=True)
class Conditional:
    """K class-conditional distributions of one site (or n, one a row), read into arrays.

    Attributes:
        likelihood: what can be done with them.
        parameters: by name; then extra axes, then those of events.
        row_parameters: likewise, see `register`.
        mask: of what counts; None where all does.
    """

    likelihood: Likelihood
    parameters: dict[str, Real[Array, "K ..."]]
    row_parameters: dict[str, Shaped[Array, "K ..."]]
    mask: Bool[Array, " K *extra"] | None = None

    def log_likelihood(self, summary: Summary) -> Float[Array, ""]:
        """Log-likelihood of a summary."""
        terms = self.likelihood.log_likelihood(self.parameters, summary)
        return jnp.asarray(terms if self.mask is None else jnp.where(self.mask, terms, 0.0)).sum()


def read_conditional(distribution: Distribution, axis: int) -> Conditional | None:
    """Read a site's distribution into a `Conditional`, or None where it has no registered likelihood.

    Args:
        distribution: NumPyro distribution, possibly wrapped by `to_event`, `expand` and `mask`.
        axis: position of the instance plate among the batch axes (negative).
    """
    leaf, mask = _unwrap(distribution)
    registration = _TABLE.get(type(leaf))
    if registration is None:
        return None
    stated = registration.likelihood
    likelihood = stated if isinstance(stated, Likelihood) else stated(leaf)
    if likelihood is None:
        return None
    event_dims = registration.event_dims(leaf) if callable(registration.event_dims) else registration.event_dims
    num_extra = len(distribution.event_shape) - len(leaf.event_shape)
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape[:num_extra])
    position = len(distribution.batch_shape) + axis

    def arrange(array: Shaped[Array, "..."], event_dim: int = 0) -> jax.Array:
        array = jnp.asarray(array)
        event = array.shape[array.ndim - event_dim :]
        return jnp.moveaxis(jnp.broadcast_to(array, shape + event), position, 0)

    def arrange_all(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {name: arrange(array, event_dims.get(name, 0)) for name, array in arrays.items()}

    return Conditional(
        likelihood,
        arrange_all(registration.parameters(leaf)),
        arrange_all(registration.row_parameters(leaf)) if registration.row_parameters else {},
        None if mask is None else arrange(mask),
    )


def bare_distribution(distribution: Distribution) -> Distribution:
    """A distribution without `to_event`, `expand` and `mask`."""
    return _unwrap(distribution)[0]


def _unwrap(distribution: Distribution) -> tuple[Distribution, Array | None]:
    """Strip `to_event`, `expand` and `mask`; return the bare distribution and the mask (trailing axes added)."""
    mask = None
    while isinstance(distribution, Independent | ExpandedDistribution | MaskedDistribution):
        if isinstance(distribution, MaskedDistribution):
            own_mask = jnp.asarray(distribution._mask)
            mask = own_mask if mask is None else mask & own_mask
        if isinstance(distribution, Independent) and mask is not None:
            mask = jnp.reshape(mask, jnp.shape(mask) + (1,) * distribution.reinterpreted_batch_ndims)
        distribution = distribution.base_dist
    return distribution, mask
