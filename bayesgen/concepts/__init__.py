"""Finite spaces of processes: concepts that generate their members."""

from . import learning as learning
from .fit import ConceptFit
from .games import number_game, rectangles
from .learner import ConceptLearner
from .prediction import ConceptPrediction
from .space import HypothesisSpace

__all__ = ["ConceptFit", "ConceptLearner", "ConceptPrediction", "HypothesisSpace", "number_game", "rectangles"]
