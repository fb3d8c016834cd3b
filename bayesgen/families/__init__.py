"""Conjugate families, closed under updating: the posterior is again a family of the same type."""

from .base import Family
from .base import IncompleteFamily as IncompleteFamily
from .base import Key as Key
from .base import LatentVariableFamily as LatentVariableFamily
from .base import ParameterTables as ParameterTables
from .base import default_family as default_family
from .base import hyperparameter_site as hyperparameter_site
from .base import with_sampled_hyperparameters as with_sampled_hyperparameters
from .counts import BetaBernoulli, DirichletMultinomial, GammaPoisson
from .dirichlet import DirichletCategorical
from .dirichlet import DirichletFamily as DirichletFamily
from .dirichlet import DirichletTables as DirichletTables
from .dirichlet import FixedCategorical as FixedCategorical
from .dirichlet import check_unique as check_unique
from .dirichlet import relative_frequencies as relative_frequencies
from .dirichlet import shares as shares
from .dirichlet_histogram import DirichletHistogram, PiecewiseUniform
from .factors import log_evidences_of_factors as log_evidences_of_factors
from .factors import nearest_factors as nearest_factors
from .forms import FORMS as FORMS
from .forms import Form as Form
from .forms import Tables as Tables
from .forms import register_form as register_form
from .hyperparameters import ANONYMOUS as ANONYMOUS
from .hyperparameters import Hyperparameter as Hyperparameter
from .hyperparameters import Names, Scale
from .hyperparameters import Pooling as Pooling
from .hyperparameters import Stated as Stated
from .hyperparameters import Traits as Traits
from .hyperparameters import argument_names as argument_names
from .hyperparameters import as_number as as_number
from .hyperparameters import broadcast as broadcast
from .hyperparameters import broadcasts_to as broadcasts_to
from .hyperparameters import check_counted as check_counted
from .hyperparameters import check_positive as check_positive
from .hyperparameters import shown as shown
from .linear_normal_inverse_gamma import LinearNormalInverseGamma
from .low_rank_normal import LowRankNormal
from .normal_inverse_gamma import NormalInverseGamma
from .normal_inverse_wishart import NormalInverseWishart
from .special import inverse_wishart_variance as inverse_wishart_variance
from .special import quotient as quotient
from .special import sample_log_gamma as sample_log_gamma
from .student_t import MultivariateStudentTDensity as MultivariateStudentTDensity
from .student_t import joint_student_t as joint_student_t

__all__ = [
    "BetaBernoulli",
    "DirichletCategorical",
    "DirichletHistogram",
    "DirichletMultinomial",
    "Family",
    "GammaPoisson",
    "LinearNormalInverseGamma",
    "LowRankNormal",
    "Names",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "PiecewiseUniform",
    "Scale",
]
