"""Comparisons in a terminal and as figures."""

from .display import ClassLayout as ClassLayout  # each registers the layout of its kind of answers
from .display import ContinuousLayout as ContinuousLayout
from .display import can_encode, show
from .figures import LINES, ONE_STEP, TWO_STEP, can_draw, coverage_figure, save

__all__ = ["LINES", "ONE_STEP", "TWO_STEP", "can_draw", "can_encode", "coverage_figure", "save", "show"]
