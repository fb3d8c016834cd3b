"""Comparisons in a terminal and as figures."""

from bayesgen.evaluation import LINES, ONE_STEP, TWO_STEP, coverage_figure, learning_curves, save

from .columns import ColumnAsRead, column_table, columns_as_read
from .display import can_encode, show, show_study

__all__ = [
    "LINES",
    "ONE_STEP",
    "TWO_STEP",
    "ColumnAsRead",
    "can_encode",
    "column_table",
    "columns_as_read",
    "coverage_figure",
    "learning_curves",
    "save",
    "show",
    "show_study",
]
