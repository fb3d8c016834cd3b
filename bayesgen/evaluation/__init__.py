"""Comparing models, methods and rules on test rows."""

from .answers import Answer
from .calibration import Calibration, calibrate
from .comparison import DEFAULT_PAIRS as DEFAULT_PAIRS
from .comparison import TRUTH as TRUTH
from .comparison import Comparison, compare
from .comparison import Pair as Pair
from .figures import LINES as LINES
from .figures import ONE_STEP as ONE_STEP
from .figures import TWO_STEP as TWO_STEP
from .figures import coverage_figure as coverage_figure
from .figures import learning_curves as learning_curves
from .figures import save_figure as save_figure
from .leave_one_out import LeaveOneOut, SamplingWrapper, leave_one_out
from .prequential import Prequential, prequential
from .study import Study, study

# public names; the other ones are for other rooms
__all__ = [
    "Answer",
    "Calibration",
    "Comparison",
    "LeaveOneOut",
    "Prequential",
    "SamplingWrapper",
    "Study",
    "calibrate",
    "compare",
    "leave_one_out",
    "prequential",
    "study",
]
