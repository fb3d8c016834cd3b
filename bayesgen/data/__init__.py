"""What users hand over, read and checked: the one door where bad data are refused."""

from .categories import levels_array
from .chunks import Part, is_chunked, naming_chunk, read_chunk, read_part, telling_dropped
from .columns import ColumnKinds, PositionalNames, check_index
from .datasets import DATASET_NAMES, Dataset, Split, load_dataset
from .encoding import whole_numbers
from .rows import Rows, joined
from .schema import Schema
from .tables import read_table
from .views import Table, successive_rows

__all__ = [
    "DATASET_NAMES",
    "ColumnKinds",
    "Dataset",
    "Part",
    "PositionalNames",
    "Rows",
    "Schema",
    "Split",
    "Table",
    "check_index",
    "is_chunked",
    "joined",
    "levels_array",
    "load_dataset",
    "naming_chunk",
    "read_chunk",
    "read_part",
    "read_table",
    "successive_rows",
    "telling_dropped",
    "whole_numbers",
]
