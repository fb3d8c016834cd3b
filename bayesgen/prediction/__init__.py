"""Inference: a rule turns a fit and new rows into class probabilities, or the distribution of a continuous label."""

from .answers import ClassPrediction, ContinuousPrediction
from .answers import named_classes as named_classes
from .answers import normalize as normalize
from .bma import BMA
from .conditional_average import ConditionalAverage
from .plug_in import PlugIn
from .rule import DensityPrediction, Rule, predict
from .rule import answer as answer
from .rule import answer_of_rows as answer_of_rows

# public names; the other ones are for other rooms
__all__ = [
    "BMA",
    "ClassPrediction",
    "ConditionalAverage",
    "ContinuousPrediction",
    "DensityPrediction",
    "PlugIn",
    "Rule",
    "predict",
]
