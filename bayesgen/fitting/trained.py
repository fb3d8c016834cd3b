"""Trained models as records, and how they read new rows."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

import numpy as np

from bayesgen.data import Rows, RowsLike, Schema, Table, category_array, read_table, warn_of_unknown
from bayesgen.describe import Described, Description, significant, stated
from bayesgen.families import Family, argument_names
from bayesgen.generative import GenerativeProgram
from bayesgen.labels import Answered
from bayesgen.posteriors import Posterior
from bayesgen.program import ConcreteModel, read_covariates, read_rows
from bayesgen.records import by_content
from bayesgen.saving import Savable
from bayesgen.typing import Float, Shaped

from .data_sets import schema_moments, with_moments
from .summaries import Summaries


@by_content
class Trained(Described, Savable, Generic[Answered]):
    """A trained model of any kind, with its method and its posterior.

    The type parameter is the type of its predictions, for type checkers and editors: `Trained["ClassPrediction"]`.

    Attributes:
        model: the model as the user gave it.
        method: the training method.
        posterior: distribution of the parameters, or a point.
        seconds: how long `bayesgen.fit` took, compilation included; None of fits that were made in another way.
    """

    model: Any
    method: Any
    posterior: Posterior
    seconds: float | None = dataclasses.field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def method_in_words(self) -> str:
        """The method with the arguments that were stated, and the seconds that it took."""
        return stated(self.method) + ("" if self.seconds is None else f", in {significant(self.seconds, 2)} seconds")

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """name -> array: the point, the posterior mean, or draws (chain, draw, ...)."""
        return self.posterior.parameters

    @property
    def log_evidence(self) -> float | None:
        """Log probability of the training data for `Exact` (and averages over structures), else None."""
        return self.posterior.log_evidence

    @property
    def is_sampled(self) -> bool:
        """Whether the fit holds draws from Markov chains."""
        return self.posterior.is_sampled

    def scores_left_out(self, X: Any, y: Any, is_plain: bool) -> Float[np.ndarray, "2 n"]:
        """Log score of each training example given all others, and given all; of fits of data that are not rows.

        Args:
            X, y: the training data.
            is_plain: whether examples have no weights, no folds and the default rule.
        """
        raise NotImplementedError

    @property
    def sample_stats(self) -> Mapping[str, np.ndarray] | None:
        """Statistics of the sampler, name -> (chain, draw); None where there was no sampler."""
        return self.posterior.sample_stats


class PriorFamilies(Described, dict[str, Family]):
    """Name -> resolved family, "class" and each block. Its text says which hyperparameters come from the data.

    Args:
        families: (name, family).
        model: the model with its choices made.
        schema: of the training data, with their means and variances, from which defaults are made.
    """

    def __init__(self, families: Iterable[tuple[str, Family]], model: ConcreteModel, schema: Schema) -> None:
        super().__init__(families)
        self.model, self.schema = model, schema

    @property
    def from_data(self) -> dict[str, list[str]]:
        """Name of a family -> its hyperparameters that are computed from means and variances of the training data."""
        moments: Any = [None if moment is None else 4 * moment + 1 for moment in schema_moments(self.schema)]
        moved = with_moments(self.schema, moments)
        if (response := moved.response) is not None and response.basis is not None:
            features: Any = response.basis
            basis = dataclasses.replace(features, mean=4 * features.mean + 1, variance=4 * features.variance + 1)
            moved = dataclasses.replace(moved, response=dataclasses.replace(response, basis=basis))
        moved_families = dict(self.model.conjugate(moved).families())
        pairs = {name: (family.hyperparameters, moved_families[name].hyperparameters) for name, family in self.items()}
        return {name: [key for key in now if np.any(now[key] != then[key])] for name, (now, then) in pairs.items()}

    def _description(self) -> Description:
        return "Prior", self.entries

    @property
    def entries(self) -> dict[str, str | None]:
        """Names -> their prior in words, families that are written alike together; and how to state other numbers."""
        names_by_text: dict[str, list[str]] = {}
        from_data, remedies = self.from_data, dict[str, None]()
        for name, family in self.items():
            keys = from_data[name]
            text = repr(family.replace(**dict.fromkeys(keys)))
            if keys:
                words = {argument_names([key]): family.defaults.get(key, "computed") for key in keys}
                text += "; from the data: " + ", ".join(f"{key} ({value})" for key, value in words.items())
                remedies[f"{type(family).__name__}({', '.join(f'{key}=...' for key in words)})"] = None
            names_by_text.setdefault(text, []).append(name)
        remedy = f"give the model {' and '.join(remedies)}" if remedies else None
        return {**{", ".join(names): text for text, names in names_by_text.items()}, "numbers of your own": remedy}


@by_content
class TrainedProgram(Trained[Any]):
    """A trained model of rows by a program, as a record: `Fit` is what it answers.

    Attributes:
        model: the model that was fitted.
        schema: the resolved schema of the training data.
        concrete: the model with its choices made for these columns.
        method: the training method.
        posterior: a point, a conjugate posterior or draws.
        summaries: the summarised training data, for `update` and `add_class`; None for `NUTS`, and where rows have no
            sufficient statistic.
        approximate_log_evidence: a named approximation of the log evidence, where the model has one
            (`ProbabilisticPCA`), up to a function of the numbers of rows and columns; else None.
        attributes: how the fit came about (path of the sampler, device, total weight of the training rows), by name.
    """

    schema: Schema
    concrete: ConcreteModel = dataclasses.field(repr=False)
    summaries: Summaries | None = dataclasses.field(default=None, repr=False)
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    approximate_log_evidence: float | None = None

    @functools.cached_property
    def program(self) -> GenerativeProgram:
        """The `GenerativeProgram` of the training data, bound at first use."""
        return self.concrete.bind(self.schema)

    @functools.cached_property
    def prior(self) -> PriorFamilies | None:
        """name -> resolved family ("class" and each block), kept for updating; None for programs of one's own."""
        conjugate = self.concrete.column_blocks(self.schema)
        return None if conjugate is None else PriorFamilies(conjugate.families(), self.concrete, self.schema)

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels in the order of the tables' columns, of the labels' own type."""
        return category_array(self.schema.classes or ())

    def read(self, X: RowsLike) -> Rows:
        """Rows of new data by attribute site, checked; `Rows` are returned as they are.

        X has the columns of the training schema, or attribute sites and covariates of the program, as `simulate` gives
        them. A label among them is ignored.
        """
        if isinstance(X, Rows):
            return X
        table = read_table(X)
        rows = self.rows_of(table)
        warn_of_unknown(table.unknown_cells)
        return rows

    def rows_to_generate(self, X: RowsLike) -> Rows:
        """Rows for which sites are generated: as `read` takes them, or of a program of one's own the covariates."""
        program = self.program
        if isinstance(X, Rows) or self.prior is not None or not program.covariates:
            return self.read(X)
        table = read_table(X)
        if set(table.names) & {*program.attributes}:
            return self.read(table)
        rows = read_covariates(program, table)
        self.schema.check_ranges(rows.covariates)
        return rows

    def rows_of(self, table: Table, *, checks_sizes: bool = True) -> Rows:
        """The rows of a table, as `read` gives them, without its warning; perhaps with cells whose squares overflow."""
        if self.are_sites(table.names):
            rows = read_rows(self.program, table, labelled=True)
            self.schema.check_ranges(rows.covariates)
            return rows if self.concrete.response is None else self.concrete.response.without(rows)
        columns = self.schema.columns or ()
        if table.named and len(table.names) > len(columns):
            ignored = {self._label, self.schema.label}.difference(columns)
            table = dataclasses.replace(table, names=[name for name in table.names if name not in ignored])
        rows = self.concrete.read_rows(self.schema, table)
        if checks_sizes:
            self.concrete.check_rows(self.schema, rows.values)
        self.schema.check_ranges(rows.covariates)
        return rows

    @property
    def _label(self) -> str | None:
        """Name of the column of labels among simulated rows."""
        response = self.schema.response
        return self.program.label if response is None else response.name

    def columns_among(self, names: Iterable[str]) -> list[str]:
        """The columns that rows of this fit have, of those with these names."""
        columns = {*(self.schema.columns or ())}
        columns |= {*self.program.attributes, *self.program.covariates} if self.prior is None else set()
        return [name for name in names if name in columns]

    def are_sites(self, names: Sequence[str]) -> bool:
        """Whether these are the sites of the program, and not the columns that it was trained on."""
        if names == self.schema.columns:  # the usual case, for which no program is bound
            return False
        attributes = self.program.attributes if self.prior is None else self.prior.keys() - {"class"}
        sites = {*attributes, *self.program.covariates}
        few = len(names) <= len(sites) + len(self.program.local) + 1  # columns may be very many
        return (
            few
            and sites == set(names) - {self.program.label, *self.program.local}
            and set(names) != set(self.schema.columns or ())
        )
