"""Models: recipes for generative programs, built from families."""

from .blocks import BlockModel
from .classifier import GenerativeClassifier
from .function import LABEL as LABEL
from .function import covariate_name as covariate_name
from .gaussian_discriminant import GaussianDiscriminant
from .joint_gaussian_regression import JointGaussianRegression
from .linear_regression import LinearRegression
from .mixture import Mixture
from .naive_bayes import ConjugateStructures, NaiveBayes, StructureAverage
from .naive_bayes_regression import NaiveBayesRegression
from .probabilistic_pca import FactorCoordinates as FactorCoordinates
from .probabilistic_pca import ProbabilisticPCA

__all__ = [
    "BlockModel",
    "ConjugateStructures",
    "GaussianDiscriminant",
    "GenerativeClassifier",
    "JointGaussianRegression",
    "LinearRegression",
    "Mixture",
    "NaiveBayes",
    "NaiveBayesRegression",
    "ProbabilisticPCA",
    "StructureAverage",
]
