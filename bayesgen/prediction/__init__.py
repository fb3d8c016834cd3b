"""Inference: a rule turns a fit and new rows into class probabilities."""

from .answer import ClassPrediction
from .bma import BMA
from .conditional_average import ConditionalAverage
from .plug_in import PlugIn
from .rule import Rule, answer, predict

__all__ = ["BMA", "ClassPrediction", "ConditionalAverage", "PlugIn", "Rule", "answer", "predict"]
