"""What every conjugate family can do. A family is a prior that, updated with data, is again a family."""

import abc
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesgen.data import Kind, Schema, SequenceOf, as_weights, lone_rows, name_of_kind
from bayesgen.errors import DataError, ModelError
from bayesgen.records import content_hash, copied, field_names, record, static
from bayesgen.statistics import Cells, Likelihood, Moments, RowDensity, Summary, check_magnitudes
from bayesgen.typing import Array, ArrayOrNumber, Float, Int

from .hyperparameters import ANONYMOUS, ARGUMENTS, Names, Scale, TableShape, num_columns_of

# What a family knows of rows of which cells are missing: what EM asks of it.

Parameters: TypeAlias = dict[str, ArrayOrNumber]
"""Parameters by name, each of a shape of its own."""


class Incomplete(abc.ABC):
    """Rows of which cells are missing. Where columns are alone, their summaries count cells, and all is as it was."""

    has_several_maxima: ClassVar[bool] = False
    """Whether likelihoods of rows have several maxima, because something is hidden: EM then starts several times."""
    without_maximum: ClassVar[str] = ""
    """What to do where there is no maximum from any of several starts, for messages."""
    why_open: ClassVar[str] = "what it depends on is missing. Use NUTS() or MAP()."
    """Why the posterior has no closed form where `has_closed_form` says so, and what to do, for messages."""

    @abc.abstractmethod
    def log_likelihood(self, parameters: Mapping[str, Array], summary: Summary) -> float:
        """Log-likelihood of summarised rows at given parameters, over all classes and columns."""

    def e_step(self, summary: Summary, parameters: Mapping[str, Array]) -> Summary:
        """The expected summary of the rows with all their cells, given those that are there and parameters.

        It is the summary itself, but for families that model columns jointly and whose rows lack some cells.
        """
        return summary

    def has_closed_form(self, summary: Summary) -> bool:
        """Whether the posterior given this summary is again of the family: not if jointly normal rows lack cells."""
        return True

    def check_estimable(self, summary: Summary, names: Names = ANONYMOUS) -> None:
        """Refuse a summary of rows that lack cells, where their likelihood has no maximum or several.

        Raises:
            FitError: naming the place.
        """
        return None

    def initial_summary(self, summary: Summary, rng: np.random.Generator | None = None) -> Summary:
        """The summary of whole rows that the cells that are there suggest: where to begin with `completed`.

        Args:
            summary: of the rows.
            rng: where there are several maxima, what another beginning is drawn from; None for the one that needs no
                luck.
        """
        return summary

    def e_step_with_log_likelihood(self, summary: Summary, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """What `log_likelihood` and `completed` give, in one pass over what is summarised."""
        return self.log_likelihood(parameters, summary), self.e_step(summary, parameters)

    def free_parameters(self, parameters: Mapping[str, Array]) -> Float[np.ndarray, " F"]:
        """The parameters that missing cells leave to be looked for, without constraints: none, where columns are alone.

        See `completed`.
        """
        return np.zeros(0)

    def at_free_parameters(self, vector: Float[np.ndarray, " F"]) -> Parameters | None:
        """The parameters of such a vector; None where floating point has none."""
        return {}


# What a family knows of where processes are: what searches and samplers ask of it.


class Searched(abc.ABC):
    """Parameters that searches look for, and those at which they and samplers begin."""

    @abc.abstractmethod
    def update(self, data: Any, weights: Array | None = None) -> Self:
        """The posterior: a family of the same type."""

    @abc.abstractmethod
    def mean(self) -> Parameters:
        """Mean of each parameter (infinite where it does not exist)."""

    @abc.abstractmethod
    def mode(self, names: Names = ANONYMOUS) -> Parameters:
        """Joint mode of the parameters; a `FitError` names the place where it is unbounded or not unique."""

    def maximum_posterior(self, summary: Any, names: Names = ANONYMOUS) -> Parameters:
        """The joint mode of the parameters given rows, the family being the prior; a `FitError` names the place."""
        return self.update(summary).mode(names)

    def posterior_center(self, summary: Any) -> Parameters:
        """Parameters in the middle of the posterior, at which no probability is zero."""
        return self.update(summary).central_parameters()

    def central_parameters(self) -> Parameters:
        """Parameters in the middle of the family: means, or the mode where one of them is infinite."""
        mean = self.mean()
        return mean if all(np.isfinite(value).all() for value in mean.values()) else self.mode()

    def moment_estimates(self, summary: Any) -> Parameters:
        """Rough parameters of rows whatever the prior, of which `adapted` makes something: none, mostly."""
        return {}

    def reparametrised(self, parameters: Mapping[str, Array]) -> Self:
        """The same prior, its sites in coordinates that suit processes near one: what samplers move in."""
        return self


Key: TypeAlias = jax.Array | np.random.Generator
"""A JAX key, or a NumPy generator that is to be drawn from."""


@record
class Family(Incomplete, Searched, abc.ABC):
    """A conjugate family: a prior over the parameters of a class-conditional distribution, and its algebra.

    A family is a record: a frozen dataclass, equal by content, whose hyperparameters are the leaves of a pytree.
    Hyperparameters are numbers or arrays; None, where the constructor allows it, to be resolved from the scale
    of the data; or NumPyro distributions, which makes them latent sites of the program (closed forms refuse).
    A resolved family holds hyperparameters for a whole table of parameters: `batch_shape` (K, D) inside a
    model, () or (D,) alone, where NumPy's numbers stand for arrays without axes.
    """

    kind: ClassVar[str]
    """The name of the kind of column (see `Schema`) that the family models."""
    joint: ClassVar[bool] = False
    """Whether the columns of a block are modelled jointly, so that none of them stands alone."""
    scaled: ClassVar[bool] = False
    """Whether the default hyperparameters need the training columns' means and variances."""
    covariate: ClassVar[str | None] = None
    """Name of the argument of `likelihood` that is a covariate of the program, if there is one."""
    takes_sparse: ClassVar[bool] = False
    """Whether its columns may come as a scipy.sparse matrix."""
    takes_missing: ClassVar[bool] = True
    """Whether some cells of a row may be missing, the others still having a density."""
    is_closed: ClassVar[bool] = True
    """Whether the posterior is again of the family, where hyperparameters are numbers and no cell is missing."""
    batch_shape: TableShape = static(default=None, init=False)
    """The shape of the table of parameters; None until the family is resolved."""

    __hash__ = content_hash

    @property
    def why_never_closed(self) -> str:
        """Why the posterior never has a closed form, where `is_closed` says so, and what to do, for messages."""
        return f"no posterior of {type(self).__name__} is again one. Use NUTS(), or MAP() for the mode."

    # --- hyperparameters ---------------------------------------------------------------------------------------

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the fields that are structure, not hyperparameters."""
        _, fixed = field_names(type(self))
        return tuple(name for name in fixed if name != "batch_shape")

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Name -> value, in the constructor's order and under the names of the fields."""
        leaves, _ = field_names(type(self))
        return {name: getattr(self, name) for name in leaves}

    def replace(self, **values: Any) -> Self:
        """Return a copy with some fields replaced, unchecked."""
        return copied(self, **values)

    def __repr__(self) -> str:
        values = {**self.hyperparameters, **{name: getattr(self, name) for name in self.flags}}
        arguments = ", ".join(f"{name}={shown(value)}" for name, value in values.items())
        return f"{type(self).__name__}({arguments})"

    def argument_names(self, names: Iterable[str]) -> str:
        """Hyperparameters under the names of the constructor's arguments."""
        return ", ".join(ARGUMENTS.get(name, name) for name in names)

    @property
    def num_values(self) -> int | None:
        """How many values or bins each column has to have, where a hyperparameter has one entry for each."""
        return None

    @property
    def alphabet(self) -> tuple[Hashable, ...] | None:
        """The symbols of its columns, where the family itself says what they are: terminals of a grammar."""
        return None

    @property
    def unresolved(self) -> list[str]:
        """Names of the hyperparameters that are None."""
        return [name for name, value in self.hyperparameters.items() if value is None]

    @property
    def hierarchical(self) -> list[str]:
        """Names of the hyperparameters that are NumPyro distributions."""
        return [name for name, value in self.hyperparameters.items() if isinstance(value, dist.Distribution)]

    def require_numbers(self, verb: str) -> None:
        """Refuse a closed form where a hyperparameter is a distribution or not yet resolved."""
        if self.hierarchical:
            names = self.argument_names(self.hierarchical)
            raise ModelError(
                f"{type(self).__name__}: {verb} has no closed form, because the hyperparameter {names} is itself "
                "a distribution. Use NUTS() or MAP(), or give a number."
            )
        if self.unresolved:
            known = "update with data first" if self.is_closed else "fit a model with it and ask fit.prior[block]"
            raise ModelError(
                f"{type(self).__name__}: {verb} needs numbers for {self.argument_names(self.unresolved)}; "
                f"give them, or {known}."
            )

    def closed(self, verb: str) -> Self:
        """The family as a table of numbers, on which closed forms work; refuses as `require_numbers` does."""
        self.require_numbers(verb)
        return self.resolve(self._implied_scale()) if self.batch_shape is None else self

    def _implied_scale(self) -> Scale:
        """The scale that hyperparameters which are all numbers imply, for a prior used alone: how many columns."""
        return Scale(num_columns=num_columns_of(type(self).__name__, **self.hyperparameters))

    def kind_of_column(self, index: int) -> Kind:
        """The kind that a column of the block is declared to have by this family, where nothing else declares one."""
        return self.kind

    def takes_kind(self, kind: Kind) -> bool:
        """Whether columns of this kind are what the family models; of sequences, with their steps and their end."""
        return kind == self.kind_of_column(0) if isinstance(kind, SequenceOf) else name_of_kind(kind) == self.kind

    @abc.abstractmethod
    def resolve(self, scale: Scale) -> Self:
        """Fill in defaults from the scale of the data and broadcast to the block's table of parameters."""

    def of_one_class(self) -> Self:
        """The family, resolved alone, as a table of one class: with an axis of length 1 first."""
        assert self.batch_shape is not None
        numbers = {k: v for k, v in self.hyperparameters.items() if not isinstance(v, dist.Distribution)}
        with_axis = jax.tree.map(lambda value: value[None], numbers)
        return self.replace(**with_axis, batch_shape=(1, *self.batch_shape))

    def scale_of(self, summary: Any) -> Scale:
        """The scale that a summary without class axis implies, for a family used alone."""
        return Scale(num_columns=_num_columns(summary))

    @property
    def is_proper(self) -> bool:
        """Whether the prior density integrates to one, so that evidences do not hang on the units of the data."""
        return True

    # --- closed forms -------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def likelihood(self) -> Likelihood:
        """The sufficient statistic of the likelihood."""

    @property
    def row_shapes(self) -> Mapping[int, str]:
        """Number of axes -> the shape, in words, of rows that the family takes where it is used alone."""
        return {2: "(n, D)"} if self.joint else {1: "(n,)", 2: "(n, D)"}

    def summarize(self, values: Any, weights: Array | None = None) -> Summary:
        """Summarise rows of one class: values (n,) or (n, D).

        Raises:
            DataError: rows or cells that are impossible, missing or of another shape, see `lone_rows`; weights that
                are no numbers of times.
        """
        rows = lone_rows(self, values)
        summary = self._summary_of_rows(rows, as_weights(weights, rows.shape[0], "weights"))
        if isinstance(summary, Moments):
            check_magnitudes(summary, lambda place: f"Column {place[0]}" if place else "The data")
        return summary

    def _summary_of_rows(self, rows: Cells, weights: Array | None) -> Summary:
        codes = np.zeros(rows.shape[0], np.int64)
        return self.likelihood.summarize(rows, codes, 1, weights).of_class(0)

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
            self._check_columns(family)
        family.require_numbers(verb)
        return family, summary

    def _check_columns(self, of_rows: Self) -> None:
        """Refuse rows of other columns than those of a family that is resolved, as `of_rows` is to them."""
        if self.batch_shape not in (None, of_rows.batch_shape):
            raise DataError(
                f"{type(self).__name__}: its parameters are a table of the shape {self.batch_shape}, and these rows "
                f"have one of the shape {of_rows.batch_shape}. Give rows of the columns that it has learned from."
            )

    def update(self, data: Any, weights: Array | None = None) -> Self:
        """Return the posterior: a family of the same type.

        Args:
            data: rows (n,) or (n, D), or a `Summary` of them.
            weights: (n,) frequency weights of rows, or None.

        Raises:
            DataError: rows that are impossible, missing or ill-shaped, by row and column; weights beside a summary.
        """
        family, summary = self._prepared(data, weights, "update")
        return family._updated(summary)

    def log_evidence(self, data: Any, weights: Array | None = None) -> float:
        """Log marginal likelihood of rows (or of a `Summary`), the parameters integrated out."""
        return float(np.sum(self.log_evidence_terms(data, weights)))

    def log_evidence_terms(self, data: Any, weights: Array | None = None) -> Float[ArrayOrNumber, "..."]:
        """The log evidence term by term, for each parameter vector that has a prior of its own."""
        family, summary = self._prepared(data, weights, "log_evidence")
        return family._log_evidence(summary)

    @abc.abstractmethod
    def _updated(self, summary: Any) -> Self: ...

    @abc.abstractmethod
    def _log_evidence(self, summary: Any) -> Float[ArrayOrNumber, "..."]: ...

    @abc.abstractmethod
    def variance(self) -> Parameters:
        """Variance of each parameter, elementwise (infinite where it does not exist)."""

    @abc.abstractmethod
    def maximum_likelihood(self, summary: Any, names: Names = ANONYMOUS) -> Parameters:
        """The parameters of highest likelihood; a `FitError` names the place where there are none."""

    @abc.abstractmethod
    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Parameters:
        """Draw parameters independently: each of shape `shape` + the parameter's shape.

        `key` is a JAX key, or a NumPy generator that is to be drawn from.
        """

    @abc.abstractmethod
    def predictive(self) -> dist.Distribution:
        """The distribution of one new row with the parameters integrated out, a NumPyro distribution."""

    # --- what models and fits need ------------------------------------------------------------------------------

    @abc.abstractmethod
    def sample_sites(self, name: str) -> Parameters:
        """The prior as a NumPyro program: sample the parameters as sites `{name}_{parameter}`."""

    @abc.abstractmethod
    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        """NumPyro distribution of rows with class codes `labels`, given the (K, ...) parameters."""

    @abc.abstractmethod
    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> Parameters:
        """The parameters as the family's likelihood takes them: those of the class-conditional distributions."""

    def row_density(self, parameters: Mapping[str, Array]) -> RowDensity:
        """The class-conditional densities of rows at given parameters."""
        return self.likelihood.density(self.likelihood_parameters(parameters))

    def log_likelihood(self, parameters: Mapping[str, Array], summary: Summary) -> float:
        """Log-likelihood of summarised rows at given parameters, over all classes and columns."""
        return float(np.sum(self.likelihood.log_likelihood(self.likelihood_parameters(parameters), summary)))

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        """Log prior density of given parameters, in the coordinates that `mode` maximises it in."""
        self.require_numbers("log_prior")
        return self._log_prior(parameters)

    @abc.abstractmethod
    def _log_prior(self, parameters: Mapping[str, Array]) -> float: ...

    @abc.abstractmethod
    def row_predictive(self) -> RowDensity:
        """The class-conditional densities of rows, the parameters integrated out."""

    @property
    def coordinates(self) -> dict[str, tuple[str, Any]]:
        """Sampled sites that stand for a parameter in other coordinates: site -> (parameter, NumPyro transform)."""
        return {}

    def sampled_hyperparameters(self, name: str) -> Self:
        """Replace hyperparameters that are distributions by draws at sites `{name}_{hyperparameter}`."""
        draws = {key: numpyro.sample(f"{name}_{key}", self.hyperparameters[key]) for key in self.hierarchical}
        return self.replace(**draws) if draws else self

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        """The names of the axes of each parameter inside a model: "class", and those of `axis_names`."""
        raise NotImplementedError

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Any]]:
        """Name of an axis other than that of classes -> the names along it, of a block of these columns."""
        return {"feature": list(columns), "feature_2": list(columns)}


def _num_columns(summary: Any) -> int | None:
    shape = summary.log_base.shape
    return shape[0] if shape else None


def shown(value: Any) -> str:
    """A hyperparameter as it is written: numbers as such, arrays by shape, so that reprs stay short."""
    if isinstance(value, np.ndarray | jax.Array):
        return f"{value.item():g}" if value.ndim == 0 else f"<array {value.shape}>"
    return type(value).__name__ if isinstance(value, dist.Distribution) else repr(value)
