"""What a program is made of: found by tracing it, and proven by numbers."""

from .conjugacy import ClosedForm
from .discovery import check_signature, continuous_label, is_of_classes, value_range
from .introspection import Introspection, check_values, summarize_rows

__all__ = [
    "ClosedForm",
    "Introspection",
    "check_signature",
    "check_values",
    "continuous_label",
    "is_of_classes",
    "summarize_rows",
    "value_range",
]
