"""What a program is made of: found by tracing it, and proven by numbers."""

from .conjugacy import ClosedForm, Finding
from .discovery import check_signature, continuous_label, is_of_classes, latents_before_failure, value_range
from .introspection import Introspection, check_values, summarize_rows

__all__ = [
    "ClosedForm",
    "Finding",
    "Introspection",
    "check_signature",
    "check_values",
    "continuous_label",
    "is_of_classes",
    "latents_before_failure",
    "summarize_rows",
    "value_range",
]
