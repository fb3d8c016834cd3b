"""What a model is: a recipe for a generative program."""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self

import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import (
    Covariate,
    ResponseColumn,
    Rows,
    Schema,
    Table,
    covariate_values,
    refuse_classes_of_response,
)
from bayesgen.describe import quote_some
from bayesgen.errors import DataError, FitError
from bayesgen.labels import AnyLabel, Labelled, Learned
from bayesgen.runtime import check_not_forked
from bayesgen.statistics import (
    Cells,
    Likelihood,
    Moments,
    PatternMoments,
    SufficientStatistics,
    check_magnitudes,
    check_rows,
    sufficient_statistics,
)
from bayesgen.typing import Array, Bool, Float, Int

from .rows import check_numbers, covariate_cells, read_rows, summarize_rows
from .structure import Program

# `Response`: where the continuous label of a model stands among its attributes.


@dataclasses.dataclass(frozen=True)
class Response:
    """A continuous label: an attribute, or a column of one, that new rows lack.

    Attributes:
        site: the attribute site.
        column: its place among the columns of the site; None where the site is the response alone, (n,).
        is_parent: whether other attributes are made from it, so that nothing is known of these without it.
    """

    site: str
    column: int | None = None
    is_parent: bool = False

    def put(self, rows: Rows, values: Float[Array, " n"]) -> Rows:
        """The rows with these values of the response."""
        return self._replaced(rows, np.asarray(values, np.float64), np.ones(rows.num_rows, bool))

    def without(self, rows: Rows) -> Rows:
        """The rows without their response, as new ones are."""
        return self._replaced(rows, np.full(rows.num_rows, np.nan), np.zeros(rows.num_rows, bool))

    def values(self, rows: Rows) -> Float[np.ndarray, " n"]:
        """The response of each row, NaN where it is missing."""
        cells, mask = (np.asarray(arrays[self.site]) for arrays in (rows.values, rows.observed | self._whole(rows)))
        if self.column is not None:
            cells, mask = cells[:, self.column], mask[:, self.column]
        return np.where(mask, cells, np.nan)

    def is_only_attribute(self, rows: Rows) -> bool:
        """Whether nothing else of a row is modelled, which then is given."""
        whole = self.column is None or rows.values[self.site].shape[1] == 1
        return whole and set(rows.values) == {self.site}

    def _whole(self, rows: Rows) -> dict[str, Bool[np.ndarray, "n ..."]]:
        """The mask of the site where none of its cells is missing."""
        return {} if self.site in rows.observed else {self.site: np.ones(rows.values[self.site].shape, bool)}

    def _replaced(self, rows: Rows, values: Float[np.ndarray, " n"], is_there: Bool[np.ndarray, " n"]) -> Rows:
        mask = (rows.observed | self._whole(rows))[self.site]
        if self.column is None:
            cells, mask = values, is_there
        else:
            cells, mask = np.array(rows.values[self.site], np.float64), np.array(mask)
            cells[:, self.column], mask[:, self.column] = values, is_there
        observed = {site: of_site for site, of_site in rows.observed.items() if site != self.site}
        observed |= {} if mask.all() and len(mask) else {self.site: mask}
        return dataclasses.replace(rows, values=rows.values | {self.site: cells}, observed=observed)


class Model(Generic[Learned]):
    """What `bayesgen.fit` takes as its first argument: a statement of how data come about.

    Its type says what training gives, for type checkers and editors: `Model["ConceptFit"]`.
    """


class Recipe(Model[object], Generic[Labelled], abc.ABC):
    """A recipe for a generative program of rows. Its type says what labels they have: `Recipe[ClassLabel]`."""

    approximates_evidence: ClassVar[bool] = False
    """Whether fits by any method know an approximation of their log evidence."""

    @abc.abstractmethod
    def infer_schema(self, table: Table, y: Any, declared: Schema) -> Schema:
        """The resolved `Schema` of training data, given what the user declared of it."""

    @abc.abstractmethod
    def concrete(self, schema: Schema) -> "ConcreteModel":
        """The model with its choices made for the columns of this schema."""

    def bind(self, schema: Schema) -> Any:
        """The `GenerativeProgram` of data with this schema."""
        return self.concrete(schema).bind(schema)

    def with_components(self, num_components: int) -> "Recipe":
        """The model whose classes are the components 0 to num_components - 1 of a mixture.

        Raises:
            ModelError: a model whose classes cannot be so many, or no components at all.
        """
        return self


class ConcreteModel(Recipe[Labelled]):
    """A model whose attribute sites are known."""

    class_axis: ClassVar[str] = "class"
    """What the axis of the classes is called where parameters are exported."""

    @property
    def has_labels(self) -> bool:
        """Whether rows come with labels, all or some of them: those of a mixture have none."""
        return True

    @property
    def response(self) -> Response | None:
        """Where the continuous label stands among the attributes; None for a model without one."""
        return None

    @property
    def response_support(self) -> Constraint:
        """The values that the response may take."""
        return constraints.real

    def concrete(self, schema: Schema) -> "ConcreteModel":
        """The model itself."""
        return self

    def label_codes(self, schema: Schema, table: Table) -> Int[np.ndarray, " n"] | None:
        """The codes of the labels of training rows, -1 where they are missing; None in a program without classes.

        Raises:
            DataError: no labels where there are classes, or labels where there are none.
        """
        if self.response is not None:
            check_has_response(table)
            return None
        if table.labels is None and self.has_labels:
            raise DataError(
                "y is missing: the model has classes, and learns them from labels. For rows without any label give "
                "Mixture(model, num_components)."
            )
        return schema.label_codes(table.labels)

    @abc.abstractmethod
    def read(self, schema: Schema, table: Table) -> Rows:
        """The rows of a table by attribute site."""

    @abc.abstractmethod
    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """Refuse new rows, as `read` gives them, that lie too far from the training data for floating point."""

    @abc.abstractmethod
    def statistics(self, schema: Schema) -> dict[str, Likelihood]:
        """site -> its likelihood, of the sites that have one."""

    @property
    def in_threads(self) -> bool:
        """Whether rows may be summarised in threads: NumPyro, which runs programs, is not made for them."""
        return True

    def summarize(self, schema: Schema, rows: Rows) -> SufficientStatistics:
        """The sufficient statistics of rows."""
        return sufficient_statistics(rows, self.statistics(schema), max(1, len(schema.classes or ())))

    @abc.abstractmethod
    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """The schema with the columns' means and variances filled in, where default priors need them."""

    def settled(self, statistics: SufficientStatistics) -> "ConcreteModel":
        """The model with those of its choices made that are left to the training data."""
        return self

    def approximate_log_evidence(self, statistics: SufficientStatistics) -> float | None:
        """A named approximation of the log evidence, comparable among models of one kind; None where there is none."""
        return None

    def takes_summaries_of(self, other: "ConcreteModel") -> bool:
        """Whether summaries that were made for another model are those that this one would make."""
        return self == other

    def transform(self, parameters: Mapping[str, np.ndarray], rows: Rows) -> Any:
        """Coordinates of rows on what a process has them lie near; None where there is no such thing."""
        return None

    def check_searchable(self, method: str) -> None:
        """Refuse a method, by its name, that looks for processes of one program, where these are not all there are."""

    def check_classes_apart(self, schema: Schema) -> None:
        """Refuse to learn another class from its rows alone, where these tell of the other classes too."""
        raise FitError("The model has no classes, so none can be added. More rows are learned by fit.update.")

    @abc.abstractmethod
    def conjugate(self, schema: Schema) -> Any:
        """The model's conjugate blocks, or None where it has no closed forms."""


def check_has_response(table: Table) -> None:
    """Refuse training rows without their response."""
    if table.labels is None:
        raise DataError("y is missing: a regression learns from the number that belongs to each row. Give y.")


# A program as a model: how it reads data and what it makes of them.


class ProgramModel(Program, ConcreteModel[AnyLabel]):
    """What a program does as a model, which is `GenerativeProgram`'s whatever its function."""

    @abc.abstractmethod
    def as_read_now(self) -> "ProgramModel":
        """The program, made again where what its function reads has changed since it was made."""

    @abc.abstractmethod
    def check_row_count(self, size: int) -> None:
        """Refuse a program that is another one at this number of rows."""

    def infer_schema(self, table: Table, y: Any, declared: Schema) -> Schema:
        """The schema with names of the attributes and covariates, and the program's classes."""
        if (program := self.as_read_now()) is not self:
            return program.infer_schema(table, y, declared)
        if y is not None and self.label is not None and self.classes == tuple(range(self.num_classes)):
            check_numbers(y, self.num_classes)
        program = self.of_table(table, declared.covariates)
        program.check_row_count(table.num_rows)
        names = tuple(name for name in (*program.attributes, *program.covariates) if name != self.response_site)
        schema = dataclasses.replace(declared, columns=names, covariates=dict(program.known_covariates or ()))
        cells, columns = covariate_cells(program, table), program.covariate_columns
        schema = schema.widened({name: columns[name].values(name, cells[name]) for name in program.indexes.others})
        if self.response_site is not None:
            refuse_classes_of_response("The program", declared.classes)
            return dataclasses.replace(schema, response=ResponseColumn(self.response_site))
        return dataclasses.replace(schema, classes=self.classes or None)

    def of_table(self, table: Table, declared: Mapping[str, Covariate] | None = None) -> Self:
        """The program of the covariates of a table, some of which may be declared to be others."""
        cells = covariate_cells(self, table)
        found = {name: Covariate.of(covariate_values(name, values)) for name, values in cells.items()}
        return self.of_covariates({**found, **(declared or {})})

    def label_codes(self, schema: Schema, table: Table) -> Int[np.ndarray, " n"] | None:
        """See `ConcreteModel.label_codes`."""
        if self.label is not None and table.labels is None:
            raise DataError(f"The program has classes, so it needs y: the {self.label!r} of each row.")
        return super().label_codes(schema, table)

    def read(self, schema: Schema | None, table: Any) -> Rows:
        """See `ConcreteModel.read`. The program's sites are its schema; anything that is a table is read."""
        check_not_forked()  # what is compiled already runs without tracing
        return read_rows(self, table)

    def check_rows(self, schema: Schema, attributes: Mapping[str, Cells]) -> None:
        """See `ConcreteModel.check_rows`. The units of the columns are not known here."""
        for site, likelihood in self.plan.compressed:
            if likelihood.takes_squares:
                axis = "column" if self.structure.attribute[site].steps is None else "step"
                check_rows(attributes[site], 1.0, functools.partial(_column_name, site, axis=axis))

    @functools.cached_property
    def response(self) -> Response | None:
        """The continuous label, if there is one."""
        site = self.response_site
        if site is None:
            return None
        return Response(site, None, any(site in others for _, others in self.plan.dependences))

    @property
    def has_labels(self) -> bool:
        """Where it has classes."""
        return self.label is not None

    @property
    def in_threads(self) -> bool:
        """No: see `ConcreteModel.in_threads`."""
        return False

    def statistics(self, schema: Schema) -> dict[str, Likelihood]:
        """Those of the compressed sites."""
        return dict(self.plan.compressed)

    def summarize(self, schema: Schema, rows: Rows) -> SufficientStatistics:
        """See `ConcreteModel.summarize`. Rows are kept for the other sites."""
        return summarize_rows(self, rows)

    def with_scale(self, schema: Schema, summaries: Mapping[str, Any]) -> Schema:
        """The schema as it is: a program of one's own states its priors itself."""
        for site, summary in summaries.items():
            moments = summary.by_column() if isinstance(summary, PatternMoments) else summary
            if isinstance(moments, Moments):
                check_magnitudes(moments, functools.partial(_column_name, site))
        return schema

    def check_classes_apart(self, schema: Schema) -> None:
        """Refuse: the program itself says how many classes there are, and what they share."""
        raise FitError(
            f"A program of one's own makes the classes that it states, {quote_some(self.classes) or 'none'}, and no "
            "other can be added to its fit. State a program with all classes, and fit it to all rows."
        )

    def conjugate(self, schema: Schema) -> None:
        """None: its closed forms, if there are any, are not known."""
        return None


def _column_name(site: str, place: tuple[int, ...], axis: str = "column") -> str:
    """The name of a column, or of a step, as a sentence begins with it."""
    return f"Attribute {site!r}" + (f", {axis} {', '.join(map(str, place))}," if place else "")
