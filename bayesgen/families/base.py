"""The contract of conjugate families. A family is a prior that, updated with data, is again a family."""

import abc
import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.sparse
from numpyro.distributions.transforms import Transform

from bayesgen.data import REAL, Kind, Schema, as_array, as_weights, read_table, refuse_missing_cells
from bayesgen.errors import DataError, ModelError
from bayesgen.records import content_hash, copied, field_names, record, static
from bayesgen.statistics import (
    Cells,
    Likelihood,
    Moments,
    RowDensity,
    Summary,
    Sums,
    as_float,
    check_magnitudes,
    column_moments,
)
from bayesgen.typing import Array, ArrayOrNumber, Category, Float, Int, Values

from .hyperparameters import (
    ANONYMOUS,
    ARGUMENTS,
    Names,
    Pooling,
    Scale,
    TableShape,
    Traits,
    argument_names,
    num_columns_of,
    shown,
)

ParameterTables: TypeAlias = dict[str, ArrayOrNumber]
"""Parameters by name, each of a shape of its own."""

FamilyType = TypeVar("FamilyType", bound="Family")

Key: TypeAlias = jax.Array | np.random.Generator
"""A source of random numbers: a JAX key, or a NumPy generator."""


@record
class Family(abc.ABC):
    """A conjugate family: a prior over the parameters of a class-conditional distribution, and its algebra.

    A family is a record: a frozen dataclass, equal by content, whose hyperparameters are the leaves of a pytree.
    Hyperparameters are numbers or arrays; None, where the constructor allows it, to be resolved from the scale
    of the data; or NumPyro distributions, which makes them latent sites of the program (closed forms refuse).
    A resolved family holds hyperparameters for a whole table of parameters: `batch_shape` (K, D) inside a
    model, () or (D,) alone, where NumPy's numbers stand for arrays without axes.
    """

    kind: ClassVar[Kind]
    """The kind of column that the family models."""
    traits: ClassVar[Traits] = Traits()
    """How the family models columns of this kind."""
    batch_shape: TableShape = static(default=None, init=False)
    """The shape of the table of parameters; None until the family is resolved."""
    is_fixed: ClassVar[bool] = False
    """Whether its parameters are known."""
    way_to_numbers: ClassVar[str] = "update with data first"
    """What gives a number for each hyperparameter, for messages."""
    reference_point: Any = dataclasses.field(default=None, init=False)
    """Parameters about which sites are standardised for sampling. Does not change the prior."""

    __hash__ = content_hash

    # --- hyperparameters ---------------------------------------------------------------------------------------

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Name -> value, in the constructor's order and under the names of the fields."""
        leaves, _ = field_names(type(self))
        return {name: getattr(self, name) for name in leaves if name != "reference_point"}

    def replace(self, **values: Any) -> Self:
        """Return a copy with some fields replaced, unchecked."""
        return copied(self, **values)

    def __repr__(self) -> str:
        structure = {name: getattr(self, name) for name in field_names(type(self))[1] if name != "batch_shape"}
        shared = vars(structure.pop("pooling", Pooling()))
        values = {**self.hyperparameters, **structure, **{name: True for name in shared if shared[name]}}
        stated = {ARGUMENTS.get(name, name): value for name, value in values.items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={shown(value)}' for name, value in stated.items())})"

    @property
    def num_values(self) -> int | None:
        """The number of values or bins of each column that hyperparameters imply; None where they imply none."""
        return None

    @property
    def alphabet(self) -> tuple[Hashable, ...] | None:
        """The symbols of its columns where the family states them, as a grammar states its terminals; else None."""
        return None

    @property
    def unresolved(self) -> list[str]:
        """Names of the hyperparameters that are None."""
        return _named(self, type(None))

    @property
    def defaults(self) -> Mapping[str, str]:
        """Hyperparameter -> what its default is computed from, in words; of those that come from the data."""
        return {}

    @property
    def hierarchical(self) -> list[str]:
        """Names of the hyperparameters that are NumPyro distributions."""
        return _named(self, dist.Distribution)

    def require_numbers(self, verb: str) -> None:
        """Refuse a closed form where a hyperparameter is a distribution or not yet resolved."""
        if self.hierarchical:
            raise ModelError(
                f"{type(self).__name__}: {verb} has no closed form, because the hyperparameter "
                f"{argument_names(self.hierarchical)} is itself a distribution. Use NUTS() or MAP(), or give a number."
            )
        if self.unresolved:
            raise ModelError(
                f"{type(self).__name__}: {verb} needs numbers for {argument_names(self.unresolved)}; "
                f"give them, or {self.way_to_numbers}."
            )

    def closed(self, verb: str) -> Self:
        """The family as a table of numbers, on which closed forms work; refuses as `require_numbers` does."""
        self.require_numbers(verb)
        return self.resolve(self._implied_scale()) if self.batch_shape is None else self

    def _implied_scale(self) -> Scale:
        """The number of columns that the shapes of hyperparameters imply, for a prior used alone."""
        return Scale(num_columns=num_columns_of(type(self).__name__, **self.hyperparameters))

    def kind_of_column(self, index: int) -> Kind:
        """The kind of a column of the block, where neither schema nor data declare one."""
        return self.kind

    @abc.abstractmethod
    def resolve(self, scale: Scale) -> Self:
        """Fill in defaults from the scale of the data and broadcast to the block's table of parameters."""

    def with_class_axis(self) -> Self:
        """The family, resolved alone, as a table of one class: with an axis of length 1 first."""
        assert self.batch_shape is not None
        numbers = {k: v for k, v in self.hyperparameters.items() if not isinstance(v, dist.Distribution)}
        with_axis = {k: v.with_class_axis() if isinstance(v, Family) else v[None] for k, v in numbers.items()}
        return self.replace(**with_axis, batch_shape=(1, *self.batch_shape))

    def scale_of(self, summary: Any) -> Scale:
        """The scale of the columns of a summary without class axis, for a family used alone."""
        means = summary.mean if isinstance(summary, Moments) else summary.totals[0]
        shape = means.shape if self.traits.joint else summary.log_base.shape
        mean, variance = column_moments(summary) if self.traits.scaled else (None, None)
        return Scale(num_columns=shape[0] if shape else None, mean=mean, variance=variance)

    @property
    def is_proper(self) -> bool:
        """Whether the prior density integrates to one, so that evidences do not depend on the units of the data."""
        return True

    # --- closed forms -------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def likelihood(self) -> Likelihood:
        """The likelihood of rows, with its sufficient statistic."""

    def summarize(self, values: Values, weights: Array | None = None) -> Summary:
        """Summarise rows of one class: values (n,) or (n, D).

        Raises:
            DataError: rows of another shape; cells, by row and column (x0, x1, ...), that are missing, or impossible
                for columns of the family's kind; weights that are negative or not finite.
        """
        likelihood, rows = self.likelihood, self._encoded(values)
        cells, row_parameters = (rows[:, -1], {"features": rows[:, :-1]}) if self.traits.features else (rows, None)
        row_weights, codes = as_weights(weights, rows.shape[0], "weights"), np.zeros(rows.shape[0], np.int64)
        summary = likelihood.summarize(cells, codes, 1, row_weights, row_parameters=row_parameters).select_class(0)
        if isinstance(summary, Moments):
            check_magnitudes(summary, lambda place: f"Column {place[0]}" if place else "The data")
        return summary

    def _encoded(self, values: Values) -> Cells:
        """Rows as numbers, (n,) or (n, D), read as a model reads columns of the family's kind."""
        name, is_sparse = type(self).__name__, scipy.sparse.issparse(values)
        if is_sparse and not self.traits.sparse:
            raise DataError(f"{name} takes every cell of its columns, and the data are sparse. Give data.toarray().")
        cells: Cells = scipy.sparse.csr_array(values) if is_sparse else as_array(values, f"{name}: data")
        if cells.ndim not in self.traits.row_shapes or 0 in cells.shape[1:]:
            shapes = " or ".join(self.traits.row_shapes.values())
            raise DataError(
                f"{name} takes rows {shapes}, and the data have the shape {cells.shape}. Give them that shape."
            )
        table = read_table(cells[:, None] if cells.ndim == 1 else cells, least_rows=0)
        kind = REAL if self.kind.parameters else self.kind  # the likelihood bins numbers itself
        codes = range(self.num_values or 0)
        categories = dict.fromkeys(table.names, codes) if kind.has_categories and codes else {}
        schema = Schema(dict.fromkeys(table.names, kind), categories).resolve(table)
        numbers, observed = schema.encode_cells(table, table.names)
        if observed is not None:
            refuse_missing_cells(observed, table.names, f"{name} used alone takes whole rows. Leave these rows out.")
        return numbers.reshape(cells.shape)

    def _prepared(self, data: Any, weights: Array | None, verb: str) -> tuple[Self, Summary]:
        is_summary = isinstance(data, Summary)
        if is_summary and weights is not None:
            raise DataError(
                f"{type(self).__name__}: {verb} takes weights of rows, and a summary has its own. Leave weights out, "
                "and give them to what makes the summary, summarize(rows, weights)."
            )
        summary, family = data if is_summary else self.summarize(data, weights), self
        if not self.hierarchical and (self.batch_shape is None or not is_summary):
            family = self.resolve(self.scale_of(summary))
            if self.batch_shape not in (None, family.batch_shape):
                raise DataError(
                    f"{type(self).__name__}: its parameters are a table of the shape {self.batch_shape}, and these "
                    f"rows have one of the shape {family.batch_shape}. Give rows of the columns it has learned from."
                )
        family.require_numbers(verb)
        check_axes(family, summary)
        return family, summary

    def update(self, data: Values | Summary, weights: Array | None = None) -> Self:
        """Return the posterior: a family of the same type.

        Args:
            data: rows (n,) or (n, D), or a `Summary` of them.
            weights: (n,) frequency weights of rows, or None.

        Raises:
            DataError: rows that are impossible, missing or ill-shaped, by row and column; weights beside a summary.
        """
        family, summary = self._prepared(data, weights, "update")
        return family.posterior(summary)

    def log_evidence(self, data: Values | Summary, weights: Array | None = None) -> float | Float[Array, ""]:
        """Log marginal likelihood of rows (or of a `Summary`), the parameters integrated out."""
        return as_float(self.log_evidence_terms(data, weights).sum())

    def log_evidence_terms(self, data: Values | Summary, weights: Array | None = None) -> Float[ArrayOrNumber, "..."]:
        """The log evidence term by term, for each parameter vector that has a prior of its own."""
        family, summary = self._prepared(data, weights, "log_evidence")
        return family._log_evidence(summary)

    @abc.abstractmethod
    def posterior(self, summary: Any) -> Self:
        """The posterior of a resolved family of numbers given a complete summary: `update` without its checks."""

    @abc.abstractmethod
    def _log_evidence(self, summary: Any) -> Float[ArrayOrNumber, "..."]: ...

    @abc.abstractmethod
    def mean(self) -> ParameterTables:
        """Mean of each parameter (infinite where it does not exist)."""

    @abc.abstractmethod
    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """Joint mode of the parameters; a `FitError` names the place where it is unbounded or not unique."""

    @abc.abstractmethod
    def variance(self) -> ParameterTables:
        """Variance of each parameter, elementwise (infinite where it does not exist)."""

    def quantile(self, prob: float) -> ParameterTables:
        """Quantile of each parameter, elementwise; NaN, or no entry, where its marginal has no closed form."""
        return {}

    @abc.abstractmethod
    def maximum_likelihood(self, summary: Any, names: Names = ANONYMOUS) -> ParameterTables:
        """The parameters of highest likelihood; a `FitError` names the place where there are none."""

    @abc.abstractmethod
    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        """Draw parameters independently: each of shape `shape` + the parameter's shape."""

    @abc.abstractmethod
    def predictive(self) -> dist.Distribution:
        """The distribution of one new row with the parameters integrated out, a NumPyro distribution."""

    # --- points of the posterior ----------------------------------------------------------------------------------

    def maximum_posterior(self, summary: Any, names: Names = ANONYMOUS) -> ParameterTables:
        """The joint mode of the parameters given rows, the family being the prior; a `FitError` names the place."""
        return self.update(summary).mode(names)

    def central_parameters(self, summary: Any = None) -> ParameterTables:
        """Parameters in the middle of the family, or of the posterior given a summary: starts of searches and samplers.

        They are means, or the mode where one of them is infinite, and no probability is zero.
        """
        family = self if summary is None else self.update(summary)
        mean = family.mean()
        return mean if all(np.isfinite(value).all() for value in mean.values()) else family.mode()

    # --- what models and fits need ------------------------------------------------------------------------------

    @abc.abstractmethod
    def sample_sites(self, name: str) -> ParameterTables:
        """The prior as a NumPyro program: sample the parameters as sites `{name}_{parameter}`."""

    @abc.abstractmethod
    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        """NumPyro distribution of rows with class codes `labels`, given the (K, ...) parameters."""

    @abc.abstractmethod
    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """The parameters as the family's likelihood takes them: those of the class-conditional distributions."""

    def row_density(self, parameters: Mapping[str, Array]) -> RowDensity:
        """The class-conditional densities of rows at given parameters."""
        return self.likelihood.density(self.likelihood_parameters(parameters))

    def log_likelihood(self, parameters: Mapping[str, Array], summary: Summary) -> float:
        """Log-likelihood of summarised rows at given parameters, over all classes and columns."""
        return float(np.sum(self.likelihood.log_likelihood(self.likelihood_parameters(parameters), summary)))

    @abc.abstractmethod
    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        """Log prior density of given parameters, in the coordinates that `mode` maximises it in."""

    @abc.abstractmethod
    def row_predictive(self) -> RowDensity:
        """The class-conditional densities of rows, the parameters integrated out."""

    def log_prob_left_out(
        self, values: Float[np.ndarray, "n D"], classes: Int[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"] | None:
        """The predictive of each row in its class by this posterior without the row; None where there is no short form.

        NaN for rows that a short form cannot take out without losing digits.

        Args:
            values: complete rows, from all of which this posterior has learned.
            classes, weights: of the rows.
        """
        return None

    def tilted(self, parameters: Mapping[str, np.ndarray], slopes: Float[np.ndarray, "K D"]) -> ParameterTables | None:
        """The parameters of densities p(x | k) exp(slopes_k * x), normalised: exponential tilting.

        None where log odds of classes are not linear in the cells x at all parameters, or slopes are bounded.

        Args:
            parameters: of the family.
            slopes: of each class and column.
        """
        return None

    @property
    def coordinates(self) -> dict[str, tuple[str, Transform]]:
        """Sites that are transformed parameters: site -> (parameter, NumPyro transform of it)."""
        return {}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """The same prior, its sites in coordinates in which samplers move well near these parameters."""
        return self

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """The names of the axes of each parameter inside a model: "class", and those of `axis_names`."""
        raise NotImplementedError

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Category]]:
        """Name of an axis other than that of classes -> the names along it, of a block of these columns."""
        return {"feature": list(columns), "feature_2": list(columns)}


def _named(family: Family, kind: type) -> list[str]:
    """Names of the hyperparameters of this type, with those of families within."""
    names: list[str] = []
    for name, value in family.hyperparameters.items():
        names += _named(value, kind) if isinstance(value, Family) else [name] * isinstance(value, kind)
    return names


def hyperparameter_site(family: Family, block: str, name: str) -> str:
    """The site of a drawn hyperparameter: `{block}_{name}`; `{block}_prior_{name}` where a parameter has its name."""
    return f"{block}_prior_{name}" if name in family.parameter_axes() else f"{block}_{name}"


def with_sampled_hyperparameters(family: FamilyType, name: str) -> FamilyType:
    """The family with draws in place of hyperparameters that are distributions, at sites of `hyperparameter_site`."""
    draws: dict[str, Any] = {}
    for key, value in family.hyperparameters.items():
        if isinstance(value, Family):
            draws[key] = with_sampled_hyperparameters(value, name)
        elif isinstance(value, dist.Distribution):
            draws[key] = numpyro.sample(hyperparameter_site(family, name, key), value)
    return family.replace(**draws) if draws else family


def check_axes(family: Family, summary: Summary) -> None:
    """Refuse statistics of several data sets along a leading axis, which closed forms would take for classes.

    Raises:
        ModelError: with both shapes.
    """
    if family.batch_shape is None or not isinstance(summary, Moments | Sums):
        return
    shape = np.shape(summary.mean if isinstance(summary, Moments) else summary.totals[0])
    if len(shape) != len(family.batch_shape) + family.traits.features:
        raise ModelError(
            f"{type(family).__name__}: its parameters are a table of the shape {family.batch_shape}, and these "
            f"statistics are of tables of the shape {shape}. Take data sets one by one, or by jax.vmap."
        )


class IncompleteFamily(Family, abc.ABC):
    """A family for incomplete rows, in which cells are missing or variables hidden, and whose parameters EM finds.

    The E-step turns a summary of incomplete rows into an expected summary of complete rows, which the closed forms
    take.
    """

    why_no_closed_form: ClassVar[str]
    """Why there is no closed form of incomplete rows, and what to do, for messages."""
    without_maximum: ClassVar[str] = ""
    """The remedy where EM finds no maximum from any of several starts; empty where it starts once."""

    @abc.abstractmethod
    def initial_summary(self, summary: Any, rng: np.random.Generator | None = None) -> Summary:
        """The summary of complete rows at which EM starts, estimated from the observed cells.

        Args:
            summary: of incomplete rows.
            rng: random numbers for one of several starts; None for the first start, which is deterministic.
        """

    @abc.abstractmethod
    def e_step(self, summary: Any, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """The log-likelihood of incomplete rows, and the expected summary of complete ones, given parameters."""

    def check_estimable(self, summary: Any, names: Names = ANONYMOUS) -> None:
        """Refuse incomplete rows whose likelihood has no maximum or several.

        Raises:
            FitError: naming the place.
        """
        return None

    def free_parameters(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """The unconstrained vector of the parameters that EM iterates over; empty where its steps are not sped up."""
        return np.zeros(0)

    def at_free_parameters(self, vector: Float[np.ndarray, " F"]) -> ParameterTables | None:
        """The parameters of such a vector; None where they are singular in floating point."""
        return {}

    def _prepared(self, data: Any, weights: Array | None, verb: str) -> tuple[Self, Summary]:
        if not (data.is_complete if isinstance(data, Summary) else not isinstance(self, LatentVariableFamily)):
            self._refuse(verb)
        family, summary = super()._prepared(data, weights, verb)
        if not summary.is_complete:
            self._refuse(verb)
        return family, summary

    def _refuse(self, verb: str) -> NoReturn:
        raise ModelError(f"{type(self).__name__}: {verb} has no closed form: {self.why_no_closed_form}")


class LatentVariableFamily(IncompleteFamily, abc.ABC):
    """A prior for rows with latent variables (states, trees, factors).

    The posterior is not of the family, and has no closed form: parameters are found by EM, or sampled.
    """

    way_to_numbers = "fit a model with it and ask fit.prior[block]"

    def _log_evidence(self, summary: Summary) -> NoReturn:
        self._refuse("log_evidence")

    def predictive(self) -> NoReturn:
        self._refuse("predictive")

    def row_predictive(self) -> RowDensity:
        self._refuse("predictive")

    def moment_estimates(self, summary: Any) -> ParameterTables:
        """Rough estimates of parameters, whatever the prior, at which `reparametrised` is taken; mostly none."""
        return {}


@functools.singledispatch
def default_family(kind: Kind, is_sparse: bool) -> Family | None:
    """The family of a column where none is chosen: that of the kind which it is modelled as; None where it has none.

    A family registers itself for the kind whose default it is.
    """
    return None if kind.modelled_as == kind else default_family(kind.modelled_as, is_sparse)
