"""From blocks of rows to their sufficient statistics, once model and schema are known."""

import dataclasses
from collections.abc import Iterator

from bayesgen.data import Part, Schema
from bayesgen.errors import DataError
from bayesgen.program import ConcreteModel
from bayesgen.runtime import in_threads
from bayesgen.statistics import SufficientStatistics


@dataclasses.dataclass(frozen=True)
class Reader:
    """A model and a schema: all that it takes to turn rows into statistics."""

    model: ConcreteModel
    schema: Schema

    @classmethod
    def infer(cls, model, data, declared):
        """Complete the schema from these data, and the model from the schema."""
        if declared.classes is None and data.classes is not None:
            declared = dataclasses.replace(declared, classes=data.classes)
        schema = model.infer_schema(data.table, data.labels, declared)
        return cls(model.concrete(schema), schema)

    def statistics(self, data: Part) -> Iterator[SufficientStatistics]:
        """The sufficient statistics of each block of the data."""
        # programs are run by NumPyro, which is not made for threads
        each_block = in_threads if self.model.in_threads else map
        try:
            yield from each_block(lambda block: self._statistics(data.rows(block)), data.blocks())
            return
        except DataError as error:
            found = error
        self._statistics(data)  # names the row, and counts, in the data as they were given
        raise found

    def _statistics(self, data: Part) -> SufficientStatistics:
        schema = self.schema
        if (schema.classes is None) != (data.labels is None):
            raise DataError(
                "The model has no classes, so it takes no y: drop it."
                if schema.classes is None
                else "y is missing: the model has classes, and learns them from a label for each row."
            )
        labels = None if schema.classes is None else schema.encode_labels(data.labels)
        rows = dataclasses.replace(self.model.read(schema, data.table), labels=labels, weights=data.weights)
        return self.model.summarize(schema, rows)
