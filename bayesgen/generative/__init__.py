"""`GenerativeProgram`: models of data that users state as NumPyro functions."""

from .program import GenerativeProgram

__all__ = [
    "GenerativeProgram",
]
