"""Finite spaces of processes: concepts that generate their members."""

from .fit import ConceptFit, ConceptPrediction
from .games import number_game, rectangles
from .learner import ConceptLearner
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
