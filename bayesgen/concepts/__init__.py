"""Finite spaces of processes: concepts that generate their members."""

from .games import number_game
from .learner import ConceptFit, ConceptLearner
from .prediction import ConceptPrediction
from .space import HypothesisSpace

__all__ = ["ConceptFit", "ConceptLearner", "ConceptPrediction", "HypothesisSpace", "number_game"]
