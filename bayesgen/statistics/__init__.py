"""Sufficient statistics by NumPyro distribution type: summarize, merge, log-likelihood, row log-probabilities."""

from .arrays import (
    LOG_2PI,
    Cells,
    as_float,
    filled,
    flatten_rows,
    is_traced,
    log_diagonal,
    log_factorial,
    log_rising,
    log_rising_of_few,
    namespace,
    refuse_missing,
    row_sums,
    safe_product,
    sum_log_rising,
)
from .base import (
    ColumnwiseDensity,
    Conditional,
    DensityGivenFeatures,
    Likelihood,
    Parameters,
    Reference,
    RowDensity,
    read_conditional,
    register,
)
from .completion import expected_moments
from .discrete import CategoricalLikelihood, sum_log_rising_of_cells
from .histogram import HistogramLikelihood, bin_moments, bin_widths, excess, flat_edges, quantiles
from .last_given_rest import LastGivenRest, last_given_rest
from .latent import LATENT_CHUNK_NUMBERS, LatentDensity, LatentLikelihood, RetainedRows, StatesLikelihood
from .mahalanobis import Ellipsoids, conditional_draws, conditional_means, restricted
from .moments import class_moments
from .multivariate_normal import MultivariateNormalLikelihood
from .normal import NormalLikelihood, column_sums, few, median_of_draws, scaled_squares
from .passes import Classes, class_counts, class_weights
from .patterns import PatternMoments
from .sufficient import SufficientStatistics, first_rows, merged, padded_rows, sufficient_statistics, summaries_of
from .summaries import Moments, Summary, Sums, check_magnitudes, check_rows, outer_or_square
from .table import BERNOULLI, MULTINOMIAL, POISSON, ExponentialFamily

__all__ = [
    "BERNOULLI",
    "LATENT_CHUNK_NUMBERS",
    "LOG_2PI",
    "MULTINOMIAL",
    "POISSON",
    "CategoricalLikelihood",
    "Cells",
    "Classes",
    "ColumnwiseDensity",
    "Conditional",
    "DensityGivenFeatures",
    "Ellipsoids",
    "ExponentialFamily",
    "HistogramLikelihood",
    "LastGivenRest",
    "LatentDensity",
    "LatentLikelihood",
    "Likelihood",
    "Moments",
    "MultivariateNormalLikelihood",
    "NormalLikelihood",
    "Parameters",
    "PatternMoments",
    "Reference",
    "RetainedRows",
    "RowDensity",
    "StatesLikelihood",
    "SufficientStatistics",
    "Summary",
    "Sums",
    "as_float",
    "bin_moments",
    "bin_widths",
    "check_magnitudes",
    "check_rows",
    "class_counts",
    "class_moments",
    "class_weights",
    "column_sums",
    "conditional_draws",
    "conditional_means",
    "excess",
    "expected_moments",
    "few",
    "filled",
    "first_rows",
    "flat_edges",
    "flatten_rows",
    "is_traced",
    "last_given_rest",
    "log_diagonal",
    "log_factorial",
    "log_rising",
    "log_rising_of_few",
    "median_of_draws",
    "merged",
    "namespace",
    "outer_or_square",
    "padded_rows",
    "quantiles",
    "read_conditional",
    "refuse_missing",
    "register",
    "restricted",
    "row_sums",
    "safe_product",
    "scaled_squares",
    "sufficient_statistics",
    "sum_log_rising",
    "sum_log_rising_of_cells",
    "summaries_of",
]
