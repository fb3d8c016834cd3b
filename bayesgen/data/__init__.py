"""What users hand over, read and checked: the one door where bad data are refused."""

from .binned import BINNED, Binned
from .categories import UNKNOWN
from .category_values import as_category, category_array, labelled, with_category
from .chunks import UnknownCells, naming_origin, read_tables, row_chunks, unknown_cells, warn_of_unknown
from .columns import ColumnKinds, PositionalNames, as_array, as_weights, check_index
from .datasets import DATASET_NAMES, Dataset, Split, load_dataset
from .encoding import refuse_missing_cells, whole_numbers
from .kinds import Kind, name_of_kind
from .lone_rows import lone_rows
from .response import (
    Basis,
    Covariate,
    ResponseColumn,
    check_ranges,
    covariate_values,
    fingerprint,
    fitted_basis,
    refuse_classes_of_response,
    response_of_rows,
    response_values,
    transformer_input,
)
from .rows import Rows, filled_up, joined_rows
from .schema import Schema
from .sequence_cells import SequenceSteps, padded_symbols, refuse_unknown, sequence_lengths, step_codes, steps_of
from .sequences import (
    KINDS_OF_STEPS,
    PADDING,
    SEQUENCE,
    CodedSequences,
    Padded,
    SequenceCells,
    SequenceOf,
    as_one_sequence,
)
from .tables import read_table
from .views import Table, collected, successive_rows, with_cells

__all__ = [
    "BINNED",
    "DATASET_NAMES",
    "KINDS_OF_STEPS",
    "PADDING",
    "SEQUENCE",
    "UNKNOWN",
    "Basis",
    "Binned",
    "CodedSequences",
    "ColumnKinds",
    "Covariate",
    "Dataset",
    "Kind",
    "Padded",
    "PositionalNames",
    "ResponseColumn",
    "Rows",
    "Schema",
    "SequenceCells",
    "SequenceOf",
    "SequenceSteps",
    "Split",
    "Table",
    "UnknownCells",
    "as_array",
    "as_category",
    "as_one_sequence",
    "as_weights",
    "category_array",
    "check_index",
    "check_ranges",
    "collected",
    "covariate_values",
    "filled_up",
    "fingerprint",
    "fitted_basis",
    "joined_rows",
    "labelled",
    "load_dataset",
    "lone_rows",
    "name_of_kind",
    "naming_origin",
    "padded_symbols",
    "read_table",
    "read_tables",
    "refuse_classes_of_response",
    "refuse_missing_cells",
    "refuse_unknown",
    "response_of_rows",
    "response_values",
    "row_chunks",
    "sequence_lengths",
    "step_codes",
    "steps_of",
    "successive_rows",
    "transformer_input",
    "unknown_cells",
    "warn_of_unknown",
    "whole_numbers",
    "with_category",
    "with_cells",
]
