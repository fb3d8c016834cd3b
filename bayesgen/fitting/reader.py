"""From blocks of rows to `Evidence`, once model and schema are known; and the evidence of all blocks together."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator

from bayesgen.data import Part, Schema, joined
from bayesgen.errors import DataError
from bayesgen.program import ConcreteModel, Evidence, first_rows, summarize_rows
from bayesgen.runtime import in_threads
from bayesgen.statistics import class_counts


@dataclasses.dataclass(frozen=True)
class Reader:
    """A model and a schema: all that it takes to turn rows into evidence."""

    model: ConcreteModel
    schema: Schema

    @classmethod
    def infer(cls, model, data, declared):
        """Complete the schema from these data, and the model from the schema."""
        if declared.classes is None and data.classes is not None:
            declared = dataclasses.replace(declared, classes=data.classes)
        schema = model.infer_schema(data.table, data.labels, declared)
        return cls(model.concrete(schema), schema)

    def evidences(self, data: Part) -> Iterator[Evidence]:
        """The evidence of each block of the data."""
        # programs are run by NumPyro, which is not made for threads
        each_block = map if self._statistics is None else in_threads
        try:
            yield from each_block(lambda block: self._evidence(data.rows(block)), data.blocks())
            return
        except DataError as error:
            found = error
        self._evidence(data)  # names the row, and counts, in the data as they were given
        raise found

    @functools.cached_property
    def _statistics(self):
        return self.model.statistics(self.schema)

    def _evidence(self, data: Part) -> Evidence:
        schema = self.schema
        if (schema.classes is None) != (data.labels is None):
            raise DataError(
                "The model has no classes, so it takes no y: drop it."
                if schema.classes is None
                else "y is missing: the model has classes, and learns them from a label for each row."
            )
        labels = None if schema.classes is None else schema.encode_labels(data.labels)
        rows = dataclasses.replace(self.model.read(schema, data.table), labels=labels, weights=data.weights)
        if self._statistics is None:
            return summarize_rows(self.model.bind(schema), rows)
        num_classes = len(schema.classes or ())
        summaries = {
            name: statistic.summarize(rows.values[name], rows.codes, num_classes, data.weights)
            for name, statistic in self._statistics.items()
        }
        examples = first_rows(rows.covariates, num_classes)
        return Evidence(class_counts(rows.codes, num_classes, data.weights), summaries, examples)


def merged(evidences: Iterable[Evidence]) -> Evidence:
    """The evidence of all rows together. Rows that are kept are joined once, at the end."""
    iterator = iter(evidences)
    total = next(iterator)
    kept = [total.rows]
    for part in iterator:
        summaries = {name: summary.merge(part.summaries[name]) for name, summary in total.summaries.items()}
        total = Evidence(total.class_counts + part.class_counts, summaries, total.covariates)
        kept.append(part.rows)
    rows = [part for part in kept if part is not None]
    return dataclasses.replace(total, rows=joined(rows)) if rows else total
