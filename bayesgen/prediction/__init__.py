"""Inference: a rule turns a fit and new rows into class probabilities."""

from .answer import ClassPrediction
from .bma import BMA
from .conditional_average import ConditionalAverage
from .plug_in import PlugIn
from .rule import Rule, predict
from .rule import answer as answer

# what users see; other rooms may have the rest
__all__ = ["BMA", "ClassPrediction", "ConditionalAverage", "PlugIn", "Rule", "predict"]
