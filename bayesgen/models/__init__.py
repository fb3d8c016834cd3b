"""Models: recipes for generative programs, built from families."""

from .classifier import GenerativeClassifier
from .conjugate import Block, Conjugate, Densities
from .conjugate_structures import ConjugateStructures
from .gaussian_discriminant import GaussianDiscriminant
from .mixture import Mixture
from .naive_bayes import NaiveBayes
from .structure_average import StructureAverage

__all__ = [
    "Block",
    "Conjugate",
    "ConjugateStructures",
    "Densities",
    "GaussianDiscriminant",
    "GenerativeClassifier",
    "Mixture",
    "NaiveBayes",
    "StructureAverage",
]
