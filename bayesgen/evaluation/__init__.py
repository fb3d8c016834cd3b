"""Comparing models, methods and rules on test rows."""

from .answers import Answer
from .answers import Scored as Scored
from .comparison import Comparison, compare
from .targets import ClassTarget as ClassTarget
from .targets import ContinuousTarget as ContinuousTarget
from .targets import DensityTarget as DensityTarget
from .targets import Target as Target

# public names; the other ones are for other rooms
__all__ = ["Answer", "Comparison", "compare"]
