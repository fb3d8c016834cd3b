"""What users hand over, read and checked: the one door where bad data are refused."""

from .basis import Basis, fingerprint, fitted_basis, transformer_input
from .binned import BINNED, Binned
from .categories import UNKNOWN
from .chunks import naming_origin, read_tables, row_chunks
from .columns import ColumnKinds, PositionalNames, as_array, as_weights, check_index
from .covariates import Covariate, check_ranges, covariate_values
from .datasets import DATASET_NAMES, Dataset, Split, load_dataset
from .encoding import Wording, encode_numbers, refuse_missing_cells, whole_numbers
from .filling import collected, filled
from .kinds import Kind, name_of_kind
from .levels import as_level, labelled, levels_array, with_level
from .response import ResponseColumn, refuse_classes_of_response, response_of_rows, response_values
from .rows import Rows, filled_up, joined
from .schema import Schema
from .sequence_cells import padded_symbols, sequence_lengths
from .sequence_codes import refuse_unknown, step_codes
from .sequences import PADDING, SEQUENCE, Cells, CodedSequences, Padded, SequenceOf, as_one_sequence
from .steps import Steps, steps_of
from .tables import read_table
from .unknown import UnknownCells, unknown_cells, warn_of_unknown
from .views import Table, successive_rows

__all__ = [
    "BINNED",
    "DATASET_NAMES",
    "PADDING",
    "SEQUENCE",
    "UNKNOWN",
    "Basis",
    "Binned",
    "Cells",
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
    "SequenceOf",
    "Split",
    "Steps",
    "Table",
    "UnknownCells",
    "Wording",
    "as_array",
    "as_level",
    "as_one_sequence",
    "as_weights",
    "check_index",
    "check_ranges",
    "collected",
    "covariate_values",
    "encode_numbers",
    "filled",
    "filled_up",
    "fingerprint",
    "fitted_basis",
    "joined",
    "labelled",
    "levels_array",
    "load_dataset",
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
    "with_level",
]
