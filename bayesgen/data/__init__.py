"""Data from users, read and checked: the one place where bad data are refused."""

from .binned import Binned
from .categories import CATEGORICAL, UNKNOWN, Categorical
from .category_values import as_category, category_array, labelled, named_classes, with_category
from .chunks import is_chunked, naming_origin, read_chunk, read_tables, row_chunks, warn_of_unknown
from .columns import PositionalNames, as_array, as_weights, check_index, numbers_of_objects, type_of_objects
from .datasets import DATASET_NAMES, Dataset, Split, load_dataset
from .kinds import KINDS, ColumnKinds, Columns, Encoded, Kind, StatedKind, as_kind, register_kind, uniform_kind
from .lone_rows import lone_rows
from .number_kinds import BINARY, COUNT, REAL, Binary, Count, Numbers, Real, refuse_missing_cells, whole_numbers
from .response import (
    Basis,
    Covariate,
    ResponseColumn,
    covariate_values,
    fingerprint,
    fitted_basis,
    refuse_classes_of_response,
    response_of_rows,
    response_values,
    transformer_input,
)
from .rows import Rows, RowsLike, filled_up, joined_rows
from .schema import Schema
from .sequence_cells import SequenceSteps, padded_symbols, refuse_unknown, step_codes, steps_of
from .sequence_of import KINDS_OF_STEPS, SEQUENCE, SequenceOf, sequence_lengths
from .sequences import PADDING, CodedSequences, Padded, SequenceCells, as_one_sequence
from .tables import joined_tables, read_table
from .views import Table, collected, successive_rows, with_cells

__all__ = [
    "BINARY",
    "CATEGORICAL",
    "COUNT",
    "DATASET_NAMES",
    "KINDS",
    "KINDS_OF_STEPS",
    "PADDING",
    "REAL",
    "SEQUENCE",
    "UNKNOWN",
    "Basis",
    "Binary",
    "Binned",
    "Categorical",
    "CodedSequences",
    "ColumnKinds",
    "Columns",
    "Count",
    "Covariate",
    "Dataset",
    "Encoded",
    "Kind",
    "Numbers",
    "Padded",
    "PositionalNames",
    "Real",
    "ResponseColumn",
    "Rows",
    "RowsLike",
    "Schema",
    "SequenceCells",
    "SequenceOf",
    "SequenceSteps",
    "Split",
    "StatedKind",
    "Table",
    "as_array",
    "as_category",
    "as_kind",
    "as_one_sequence",
    "as_weights",
    "category_array",
    "check_index",
    "collected",
    "covariate_values",
    "filled_up",
    "fingerprint",
    "fitted_basis",
    "is_chunked",
    "joined_rows",
    "joined_tables",
    "labelled",
    "load_dataset",
    "lone_rows",
    "named_classes",
    "naming_origin",
    "numbers_of_objects",
    "padded_symbols",
    "read_chunk",
    "read_table",
    "read_tables",
    "refuse_classes_of_response",
    "refuse_missing_cells",
    "refuse_unknown",
    "register_kind",
    "response_of_rows",
    "response_values",
    "row_chunks",
    "sequence_lengths",
    "step_codes",
    "steps_of",
    "successive_rows",
    "transformer_input",
    "type_of_objects",
    "uniform_kind",
    "warn_of_unknown",
    "whole_numbers",
    "with_category",
    "with_cells",
]
