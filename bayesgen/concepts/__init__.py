"""Finite spaces of processes: concepts that generate their members."""

from .games import number_game, rectangles
from .learner import ConceptFit, ConceptLearner, ConceptPrediction
from .learning import ConceptProblem
from .space import HypothesisSpace

__all__ = [
    "ConceptFit",
    "ConceptLearner",
    "ConceptPrediction",
    "ConceptProblem",
    "HypothesisSpace",
    "number_game",
    "rectangles",
]
