"""What a model is: a recipe for a generative program."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Generic

import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from bayesgen.data import Rows, Schema, Table
from bayesgen.errors import DataError, FitError
from bayesgen.labels import Labelled, Learned
from bayesgen.statistics import Cells, Statistic, SufficientStatistics, sufficient_statistics
from bayesgen.typing import Int

from .response import Response


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
    def statistics(self, schema: Schema) -> dict[str, Statistic]:
        """site -> its statistic, of the sites that have one."""

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
