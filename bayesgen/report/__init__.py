"""Results as people read them."""

from .display import ClassLayout as ClassLayout  # each registers how its kind of answers is told
from .display import ContinuousLayout as ContinuousLayout
from .display import can_encode, show
from .figures import LINES, ONE_STEP, TWO_STEP, can_draw, coverage_figure, save

__all__ = ["LINES", "ONE_STEP", "TWO_STEP", "can_draw", "can_encode", "coverage_figure", "save", "show"]
