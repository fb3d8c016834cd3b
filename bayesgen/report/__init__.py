"""Results as people read them."""

from .class_layout import ClassLayout as ClassLayout  # each registers how its kind of answers is told
from .continuous_layout import ContinuousLayout as ContinuousLayout
from .display import show
from .figures import LINES, ONE_STEP, TWO_STEP, can_draw, coverage_figure, save
from .table import can_encode

__all__ = ["LINES", "ONE_STEP", "TWO_STEP", "can_draw", "can_encode", "coverage_figure", "save", "show"]
