"""`Trained` and `TrainedOnRows`: the results of training, how they read new rows, and their description."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Generic

import numpy as np

from bayesgen.data import Rows, Schema, Table, category_array, check_ranges, read_table, unknown_cells, warn_of_unknown
from bayesgen.describe import amount, counted, quote_some, shapes
from bayesgen.families import Family
from bayesgen.labels import Answered
from bayesgen.posteriors import Posterior
from bayesgen.program import ConcreteModel, GenerativeProgram, read_rows
from bayesgen.records import by_content
from bayesgen.typing import Shaped

from .summaries import Summaries


@by_content
class Trained(Generic[Answered]):
    """A trained model of any kind, with its method and its posterior.

    The type parameter is the type of its predictions, for type checkers and editors: `Trained["ClassPrediction"]`.

    Attributes:
        model: the model as the user gave it.
        method: the training method.
        posterior: distribution of the parameters, or a point.
    """

    model: Any
    method: Any
    posterior: Posterior

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
        """Whether it holds draws from Markov chains."""
        return self.posterior.is_sampled

    @property
    def sample_stats(self) -> Mapping[str, np.ndarray] | None:
        """Statistics of the sampler, name -> (chain, draw); None where there was no sampler."""
        return self.posterior.sample_stats


@by_content
class TrainedOnRows(Trained[Answered]):
    """A model trained on rows by column: its data, and how it reads new rows. `Fit` adds the questions."""

    schema: Schema
    concrete: ConcreteModel = dataclasses.field(repr=False)
    problem: Any = dataclasses.field(default=None, repr=False)
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    approximate_log_evidence: float | None = None

    @functools.cached_property
    def program(self) -> GenerativeProgram:
        """The `GenerativeProgram` of the training data, bound at first use."""
        return self.concrete.bind(self.schema)

    @functools.cached_property
    def prior(self) -> dict[str, Family] | None:
        """name -> resolved family ("class" and each block), kept for updating; None for programs of one's own."""
        conjugate = self.concrete.conjugate(self.schema)
        return None if conjugate is None else dict(conjugate.families())

    @property
    def summaries(self) -> Summaries | None:
        """The summarised training data; None where it keeps none."""
        return None if self.problem is None else self.problem.data

    @property
    def classes(self) -> Shaped[np.ndarray, " K"]:
        """The labels in the order of the tables' columns, of the labels' own type."""
        return category_array(self.schema.classes or ())

    def read(self, X: Any) -> Rows:
        """Rows of new data by attribute site, checked; `Rows` are returned as they are.

        X has the columns of the training schema; or those that `simulate` gives, the attribute sites and covariates of
        the program, and perhaps its label site, which is not read.
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
        """Warn once of new values, which are taken as missing, with the number of their cells."""
        if not self.are_sites(table.names):
            warn_of_unknown(unknown_cells(self.schema, table))

    def are_sites(self, names: Sequence[str]) -> bool:
        """Whether these are the sites of the program, and not the columns that it was trained on."""
        if names == self.schema.columns:  # the usual case, for which no program is bound
            return False
        attributes = self.program.attributes if self.prior is None else self.prior.keys() - {"class"}
        sites = {*attributes, *self.program.covariates}
        few = len(names) <= len(sites) + 1  # columns may be very many
        return few and sites == set(names) - {self.program.label} and set(names) != set(self.schema.columns or ())


def description_of(fit: TrainedOnRows) -> dict[str, str | None]:
    """The lines of `repr` of a fit, by name."""
    about_draws = fit.posterior.described
    return {
        "method": repr(fit.method),
        "rows (total weight)": amount(fit.attributes.get("total_weight")),
        "columns": counted(fit.schema.columns or fit.program.attributes),
        "components" if fit.concrete.class_axis == "component" else "classes": counted(fit.classes),
        "rows without labels (weight)": _unlabelled_rows(fit),
        "log evidence": amount(fit.log_evidence),
        "approximate log evidence, up to a constant of rows and columns": amount(fit.approximate_log_evidence),
        "draws": f"{about_draws}, path {fit.attributes.get('path')!r}" if about_draws else None,
        "parameters": shapes(fit.parameters, skip=2 if fit.is_sampled else 0),
        "next": f"{_next_step(fit)}, fit.parameters, fit.to_datatree()",
    }


def _unlabelled_rows(fit: TrainedOnRows) -> str | None:
    """The weight of the rows without labels, and the classes of which no row has one."""
    weight, unnamed = (fit.attributes.get(name) for name in ("total_weight_unlabelled", "classes_without_labels"))
    lacking = f"; no row has the label {quote_some(unnamed)}" if unnamed else ""
    return None if weight is None else f"{amount(weight)}{lacking}"


def _next_step(fit: TrainedOnRows) -> str:
    """How to predict for new rows."""
    if len(fit.classes) == 0 and fit.concrete.response is None:
        return "fit.log_joint(X)"
    order = "" if fit.posterior.is_identified else "fit.relabel(), "
    return f"{order}predict(fit, X, rule={'PlugIn()' if fit.posterior.is_point else 'BMA()'})"
