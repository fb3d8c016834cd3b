"""`TrainedOnRows`: what training on rows by column gives, and how it reads new rows."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgen.data import Rows, Schema, Table, check_ranges, levels_array, read_table, unknown_cells, warn_of_unknown
from bayesgen.families import Family
from bayesgen.labels import Answered
from bayesgen.program import ConcreteModel, GenerativeProgram, read_rows
from bayesgen.records import by_content
from bayesgen.typing import Shaped

from .summaries import Summaries
from .trained import Trained


@by_content
class TrainedOnRows(Trained[Answered]):
    """A model that was trained on rows by column: what is known of it. `Fit` says what can be asked of it."""

    schema: Schema
    concrete: ConcreteModel = dataclasses.field(repr=False)
    problem: Any = dataclasses.field(default=None, repr=False)
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    approximate_log_evidence: float | None = None

    @functools.cached_property
    def program(self) -> GenerativeProgram:
        """The `GenerativeProgram` of the training data, bound when it is first asked for."""
        return self.concrete.bind(self.schema)

    @functools.cached_property
    def prior(self) -> dict[str, Family] | None:
        """name -> resolved family ("class" and each block), kept for updating; None for programs of one's own."""
        conjugate = self.concrete.conjugate(self.schema)
        return None if conjugate is None else dict(conjugate.families())

    @property
    def summaries(self) -> Summaries | None:
        """The summarised training data, which tell whether two evidences are comparable; None where it keeps none."""
        return None if self.problem is None else self.problem.data

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels in the order of the tables' columns, of the labels' own type."""
        return levels_array(self.schema.classes or ())

    def read(self, X: Any) -> Rows:
        """Rows of new data by attribute site, checked; what has been read already is returned as it is.

        X has the columns of the training schema, or is what `simulate` gives: the attribute sites and covariates of the
        program, and perhaps its label site, which is not read.
        """
        if isinstance(X, Rows):
            return X
        table = read_table(X)
        self.warn_of_new_values(table)
        return self.rows_of(table)

    def rows_of(self, table: Table) -> Rows:
        """The rows of a table, as `read` gives them, without its warning."""
        if self.are_sites(table.names):
            rows = read_rows(self.program, table, labelled=True)
            check_ranges(self.schema.ranges, rows.covariates)
            return rows if self.concrete.response is None else self.concrete.response.without(rows)
        rows = self.concrete.read(self.schema, table)
        self.concrete.check_rows(self.schema, rows.values)
        check_ranges(self.schema.ranges, rows.covariates)
        return rows

    def warn_of_new_values(self, table: Table) -> None:
        """One warning that counts the cells of values that are new and taken as missing, if there are any."""
        if not self.are_sites(table.names):
            warn_of_unknown(unknown_cells(self.schema, table))

    def are_sites(self, names: Sequence[str]) -> bool:
        """Whether these are the sites that the program makes, and not the columns that it was trained on."""
        if names == self.schema.columns:  # the usual case, for which no program is bound
            return False
        attributes = self.program.attributes if self.prior is None else self.prior.keys() - {"class"}
        sites = {*attributes, *self.program.covariates}
        few = len(names) <= len(sites) + 1  # columns may be very many
        return few and sites == set(names) - {self.program.label} and set(names) != set(self.schema.columns or ())
