"""A program as a model: how it reads data and what it makes of them."""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

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
from bayesgen.labels import AnyLabel
from bayesgen.runtime import check_not_forked
from bayesgen.statistics import (
    Cells,
    Moments,
    PatternMoments,
    Statistic,
    SufficientStatistics,
    check_magnitudes,
    check_rows,
)
from bayesgen.typing import Int

from .base import Program
from .model import ConcreteModel
from .response import Response
from .rows import check_numbers, covariate_cells, read_rows, summarize_rows


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
        for site, statistic in self.plan.compressed:
            if statistic.takes_squares:
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

    def statistics(self, schema: Schema) -> dict[str, Statistic]:
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
