"""Comparing models, methods and rules on test rows."""

from .answers import Answer
from .answers import Scored as Scored
from .class_target import ClassTarget as ClassTarget
from .comparison import compare
from .continuous_target import ContinuousTarget as ContinuousTarget
from .result import Comparison
from .targets import DensityTarget as DensityTarget
from .targets import Target as Target

# what users see; other rooms may have the rest
__all__ = ["Answer", "Comparison", "compare"]
