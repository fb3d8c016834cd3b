"""Inference: a rule turns a fit and new rows into class probabilities, or the distribution of a continuous label."""

from .answers import ClassPrediction, ContinuousPrediction, DensityPrediction
from .answers import joined as joined
from .answers import named_classes as named_classes
from .answers import normalize as normalize
from .averages import MAX_K as MAX_K
from .averages import warn_of_few_draws as warn_of_few_draws
from .bma import BMA
from .conditional_average import ConditionalAverage
from .left_out import LogScores as LogScores
from .left_out import refitted as refitted
from .left_out import scores_by as scores_by
from .left_out import scores_without as scores_without
from .left_out import table_by as table_by
from .plug_in import PlugIn
from .predicting import answer as answer
from .predicting import answer_for_set as answer_for_set
from .predicting import answer_of_sets as answer_of_sets
from .predicting import in_chunks as in_chunks
from .predicting import predict
from .rule import Rule
from .scorers import ClassScorer as ClassScorer
from .scorers import ContinuousScorer as ContinuousScorer
from .scorers import DensityScorer as DensityScorer
from .scorers import Metric as Metric
from .scorers import Scorer as Scorer
from .scorers import calibration_bins as calibration_bins

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
