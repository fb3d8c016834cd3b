"""The contract of models: `Recipe`, `ConcreteModel`, `WrappedModel`, and the `Response` of a regression."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeAlias

import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import Rows, Schema, Table
from bayesgen.errors import DataError, FitError
from bayesgen.labels import Labelled, Learned
from bayesgen.statistics import Cells, Likelihood, SufficientStatistics, sufficient_statistics
from bayesgen.typing import Array, Bool, Float, Int

SummedBlock: TypeAlias = tuple[str, Likelihood, Sequence[str | None]]
"""Site, likelihood and columns of a block; None is the column of the label."""


@dataclasses.dataclass(frozen=True)
class Response:
    """The label of a regression, a number or a count: an attribute site, or a column of it, missing in new rows.

    Attributes:
        site: the attribute site.
        column: index among the columns of the site; None where the site is the response alone, (n,).
        is_parent: whether other attributes depend on it, so that their densities need its value.
    """

    site: str
    column: int | None = None
    is_parent: bool = False

    def put(self, rows: Rows, values: Float[Array, " n"]) -> Rows:
        """The rows with these values of the response."""
        return self._replaced(rows, np.asarray(values, np.float64), np.ones(rows.num_rows, bool))

    def without(self, rows: Rows) -> Rows:
        """The rows with the response missing, as in new rows."""
        return self._replaced(rows, np.full(rows.num_rows, np.nan), np.zeros(rows.num_rows, bool))

    def values(self, rows: Rows) -> Float[np.ndarray, " n"]:
        """The response of each row, NaN where it is missing."""
        cells, mask = (np.asarray(arrays[self.site]) for arrays in (rows.values, rows.observed | self._full_mask(rows)))
        if self.column is not None:
            cells, mask = cells[:, self.column], mask[:, self.column]
        return np.where(mask, cells, np.nan)

    def is_only_attribute(self, rows: Rows) -> bool:
        """Whether the response is all that is modelled, conditional on everything else in a row."""
        is_site = self.column is None or rows.values[self.site].shape[1] == 1
        return is_site and set(rows.values) == {self.site}

    def _full_mask(self, rows: Rows) -> dict[str, Bool[np.ndarray, "n ..."]]:
        """A mask of ones for the site, if it has no mask."""
        return {} if self.site in rows.observed else {self.site: np.ones(rows.values[self.site].shape, bool)}

    def _replaced(self, rows: Rows, values: Float[np.ndarray, " n"], is_observed: Bool[np.ndarray, " n"]) -> Rows:
        mask = (rows.observed | self._full_mask(rows))[self.site]
        if self.column is None:
            cells, mask = values, is_observed
        else:
            cells, mask = np.array(rows.values[self.site], np.float64), np.array(mask)
            cells[:, self.column], mask[:, self.column] = values, is_observed
        observed = {site: site_mask for site, site_mask in rows.observed.items() if site != self.site}
        observed |= {} if mask.all() and len(mask) else {self.site: mask}
        return dataclasses.replace(rows, values=rows.values | {self.site: cells}, observed=observed)


class Model(Generic[Learned]):
    """A model of data, the first argument of `bayesgen.fit`.

    Its type parameter is the type of its fits, for type checkers and editors: `Model["ConceptFit"]`.
    """

    why_not_compared: ClassVar[str] = ""
    """Why `compare` and `study` take no such models, for messages; empty where they do."""

    @property
    def exact_takes_missing(self) -> bool:
        """Whether the exact posterior of rows with missing cells has a closed form, where that of complete rows has."""
        return True


class Recipe(Model[object], Generic[Labelled], abc.ABC):
    """A model of rows whose attribute sites are chosen when the columns are known.

    Its type parameter is the type of the labels: `Recipe[ClassLabel]`.
    """

    approximates_evidence: ClassVar[bool] = False
    """Whether fits by any method have an approximate log evidence."""

    @abc.abstractmethod
    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        """The resolved `Schema` of training data, given what the user declared."""

    def columns_read(self, names: Sequence[str]) -> Sequence[str]:
        """The columns that the model reads, of those that a table outside of memory has."""
        return names

    @abc.abstractmethod
    def concrete(self, schema: Schema) -> "ConcreteModel":
        """The model with its attribute sites chosen for the columns of this schema."""

    def bind(self, schema: Schema) -> Any:
        """The `GenerativeProgram` of data with this schema."""
        return self.concrete(schema).bind(schema)

    def with_components(self, num_components: int) -> "Recipe":
        """The model as that of a mixture, its classes the components 0 to num_components - 1.

        Raises:
            ModelError: a model that has another number of classes, or no classes.
        """
        return self


class ConcreteModel(Recipe[Labelled]):
    """A model whose attribute sites are known."""

    class_axis: ClassVar[str] = "class"
    """Name of the axis of the classes in exported parameters."""
    has_columns: ClassVar[bool] = True
    """Whether its blocks are of columns; a program of one's own has sites."""

    @property
    def has_labels(self) -> bool:
        """Whether training rows have labels, all or some of them."""
        return True

    @property
    def has_row_statistics(self) -> bool:
        """Whether some parameters are functions of all training rows, which are evaluated with these."""
        return False

    @property
    def response(self) -> Response | None:
        """The label that is a number; None for a model without one."""
        return None

    def response_support(self, rows: Rows) -> Constraint:
        """The values that the response of rows may take; bounds that differ between rows have the rows first."""
        return constraints.real

    def concrete(self, schema: Schema) -> "ConcreteModel":
        return self

    def label_codes(self, schema: Schema, table: Table) -> Int[np.ndarray, " n"] | None:
        """Class codes of training rows, -1 where the label is missing; None in a model without classes.

        Raises:
            DataError: labels missing for a model with classes, or given to a model without.
        """
        if self.response is not None:
            if table.labels is None:
                raise DataError("y is missing: a regression learns from the number that belongs to each row. Give y.")
            return None
        if table.labels is None and self.has_labels:
            raise DataError(
                "y is missing: the model has classes, and learns them from labels. For rows without any label give "
                "Mixture(model, num_components)."
            )
        return schema.label_codes(table.labels)

    @abc.abstractmethod
    def read_rows(self, schema: Schema, table: Table) -> Rows:
        """The rows of a table by attribute site."""

    @abc.abstractmethod
    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """Refuse rows, as `read_rows` gives them, so far from the training data that densities lose all digits."""

    @abc.abstractmethod
    def statistics(self, schema: Schema) -> dict[str, Likelihood]:
        """Site -> likelihood, for the sites with sufficient statistics."""

    def summed_blocks(self, schema: Schema) -> Sequence[SummedBlock] | None:
        """The blocks, where sums of their cells are all that statistics are made of; else None."""
        return None

    @property
    def in_threads(self) -> bool:
        """Whether rows may be summarised in threads. NumPyro programs may not run in several threads at once."""
        return True

    def summarize(self, schema: Schema, rows: Rows) -> SufficientStatistics:
        """The sufficient statistics of rows."""
        return sufficient_statistics(rows, self.statistics(schema), max(1, len(schema.classes or ())))

    @property
    def is_traceable(self) -> bool:
        """Whether statistics of dense rows with labels, their scale and the prior can be traced by JAX."""
        return False

    @abc.abstractmethod
    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """The schema with the means and variances of columns that default priors need."""

    def selected_by(self, statistics: SufficientStatistics) -> "ConcreteModel":
        """The model that model selection on the training data gives; itself where nothing is to be selected."""
        return self

    def approximate_log_evidence(self, statistics: SufficientStatistics) -> float | None:
        """An approximation of the log evidence, comparable among models of one kind; None where there is none."""
        return None

    def shares_statistics(self, other: "ConcreteModel") -> bool:
        """Whether this model has the same sufficient statistics as another one."""
        return self == other

    def row_coordinates(self, parameters: Mapping[str, np.ndarray]) -> Callable[[Rows], Any] | None:
        """What gives latent coordinates of rows, such as factors, at a process; None for models without any."""
        return None

    @property
    def form_to_search(self) -> str | None:
        """The argument with which methods that search one program take the model; None where they take it as it is."""
        return None

    def check_searchable(self, method: str) -> None:
        """Refuse a method, by name, that searches one program, where the model averages over several."""

    def check_class_can_be_added(self, schema: Schema) -> None:
        """Refuse to learn another class from its rows alone, where classes share parameters."""
        raise FitError("The model has no classes, so none can be added. More rows are learned by fit.update.")

    @abc.abstractmethod
    def conjugate(self, schema: Schema) -> Any:
        """The model's conjugate blocks; None for a model without closed forms."""

    def with_hyperparameters(self, values: Mapping[str, Array]) -> "ConcreteModel | None":
        """The model with values in place of hyperparameters that are distributions, by site; None for other models."""
        return None

    def column_blocks(self, schema: Schema) -> Any:
        """The conjugate blocks of columns; None for a program of one's own."""
        return self.conjugate(schema) if self.has_columns else None

    def why_not_conjugate(self, method: str) -> str:
        """Why a method has no closed form of a model without conjugate blocks, and the remedy."""
        return f"{method}() needs conjugate families, and {type(self).__name__} has none. Use NUTS()."


class WrappedModel(ConcreteModel[Labelled]):
    """A model made of another one, which does all that is not said here."""

    @property
    @abc.abstractmethod
    def wrapped(self) -> ConcreteModel:
        """The other model."""

    def infer_schema(self, table: Table, y: np.ndarray | None, declared: Schema) -> Schema:
        return self.wrapped.infer_schema(table, y, declared)

    def read_rows(self, schema: Schema, table: Table) -> Rows:
        return self.wrapped.read_rows(schema, table)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        self.wrapped.check_rows(schema, attributes)

    def statistics(self, schema: Schema) -> dict[str, Likelihood]:
        return self.wrapped.statistics(schema)

    @property
    def in_threads(self) -> bool:
        return self.wrapped.in_threads

    def summarize(self, schema: Schema, rows: Rows) -> SufficientStatistics:
        return self.wrapped.summarize(schema, rows)

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        return self.wrapped.with_scale(schema, summaries)

    @property
    def form_to_search(self) -> str | None:
        return self.wrapped.form_to_search

    def check_searchable(self, method: str) -> None:
        self.wrapped.check_searchable(method)

    def conjugate(self, schema: Schema) -> Any:
        return self.wrapped.conjugate(schema)

    @property
    def has_columns(self) -> bool:  # type: ignore[override]
        return self.wrapped.has_columns

    def why_not_conjugate(self, method: str) -> str:
        return self.wrapped.why_not_conjugate(method)

    def bind(self, schema: Schema) -> Any:
        return self.wrapped.bind(schema)
