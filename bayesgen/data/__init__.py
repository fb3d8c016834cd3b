"""What users hand over, read and checked: the one door where bad data are refused."""

from .categories import as_level, levels_array, with_level
from .chunks import naming_origin, read_tables
from .columns import ColumnKinds, PositionalNames, check_index
from .datasets import DATASET_NAMES, Dataset, Split, load_dataset
from .encoding import refuse_missing_cells, whole_numbers
from .rows import Rows, joined
from .schema import Schema
from .tables import read_table
from .views import Table, successive_rows

__all__ = [
    "DATASET_NAMES",
    "ColumnKinds",
    "Dataset",
    "PositionalNames",
    "Rows",
    "Schema",
    "Split",
    "Table",
    "as_level",
    "check_index",
    "joined",
    "levels_array",
    "load_dataset",
    "naming_origin",
    "read_table",
    "read_tables",
    "refuse_missing_cells",
    "successive_rows",
    "whole_numbers",
    "with_level",
]
