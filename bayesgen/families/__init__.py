"""Conjugate families, closed under updating: the posterior is again a family of the same type."""

from .base import Family
from .base import IncompleteFamily as IncompleteFamily
from .base import LatentVariableFamily as LatentVariableFamily
from .base import default_family as default_family
from .base import hyperparameter_site as hyperparameter_site
from .base import with_sampled_hyperparameters as with_sampled_hyperparameters
from .beta_bernoulli import BetaBernoulli
from .counts import DirichletMultinomial, GammaPoisson
from .dirichlet_categorical import DirichletCategorical
from .dirichlet_grammar import DirichletGrammar
from .dirichlet_hidden_markov import DirichletHiddenMarkov
from .dirichlet_histogram import DirichletHistogram
from .dirichlet_markov import DirichletMarkov
from .factors import log_evidences_of_factors as log_evidences_of_factors
from .factors import nearest_factors as nearest_factors
from .fixed_categorical import FixedCategorical as FixedCategorical
from .hyperparameters import Advice as Advice
from .hyperparameters import Names, Scale
from .hyperparameters import argument_names as argument_names
from .hyperparameters import default_variances as default_variances
from .linear_normal_inverse_gamma import LinearNormalInverseGamma
from .low_rank_normal import LowRankNormal
from .normal_inverse_gamma import NormalInverseGamma
from .normal_inverse_wishart import NormalInverseWishart
from .student_t import MultivariateStudentTDensity as MultivariateStudentTDensity

__all__ = [
    "BetaBernoulli",
    "DirichletCategorical",
    "DirichletGrammar",
    "DirichletHiddenMarkov",
    "DirichletHistogram",
    "DirichletMarkov",
    "DirichletMultinomial",
    "Family",
    "GammaPoisson",
    "LinearNormalInverseGamma",
    "LowRankNormal",
    "Names",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "Scale",
]
