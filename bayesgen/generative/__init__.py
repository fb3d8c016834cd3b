"""`GenerativeProgram`: models of data that users state as NumPyro functions."""

from .program import HIDDEN_VARIABLES as HIDDEN_VARIABLES
from .program import GenerativeProgram
from .program import site_entries as site_entries

__all__ = [
    "GenerativeProgram",
]
