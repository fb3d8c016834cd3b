"""Comparing models, methods and rules on test rows."""

from .answers import Answer
from .answers import paired_difference as paired_difference
from .calibration import Calibration, calibrate
from .comparison import DEFAULT_PAIRS as DEFAULT_PAIRS
from .comparison import TRUTH as TRUTH
from .comparison import Comparison, compare
from .comparison import Pair as Pair
from .comparison import answers_of_fit as answers_of_fit
from .comparison import both_answers as both_answers
from .comparison import named_answers as named_answers
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
