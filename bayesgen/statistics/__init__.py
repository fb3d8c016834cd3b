"""Sufficient statistics by NumPyro distribution type: summarize, merge, log-likelihood, row log-probabilities."""

from .arrays import Cells, flatten_rows, log_factorial, log_rising, namespace, row_sums, safe_product, sum_log_rising
from .base import Parameters, Statistic
from .bins import bin_moments, bin_widths, excess, flat_edges, quantiles
from .completion import expected_moments
from .conditionals import conditional_draws, conditional_means
from .densities import ColumnwiseDensity, DensityGivenFeatures, Reference, RowDensity
from .discrete import CategoricalStatistic
from .exponential import ExponentialFamily
from .hidden_states import StatesStatistic
from .histogram import HistogramStatistic
from .kept_rows import KeptRows
from .last_given_rest import LastGivenRest, last_given_rest
from .latent import LatentDensity, LatentStatistic
from .magnitudes import check_magnitudes, check_rows
from .mahalanobis import Ellipsoids, restricted
from .missing import filled, refuse_missing
from .moments import class_moments
from .multivariate_normal import MultivariateNormalStatistic
from .normal import NormalStatistic, column_sums, few, middle, scaled_squares
from .passes import Classes, class_counts, class_weights
from .patterns import PatternMoments
from .registry import Conditional, is_registered, read_conditional, register, registered_types
from .sparse_counts import sum_log_rising_of_cells
from .sufficient import SufficientStatistics, first_rows, merged, padded_rows, sufficient_statistics, summaries_of
from .summaries import Moments, Summary, Sums, outer_or_square
from .table import BERNOULLI, MULTINOMIAL, POISSON

__all__ = [
    "BERNOULLI",
    "MULTINOMIAL",
    "POISSON",
    "CategoricalStatistic",
    "Cells",
    "Classes",
    "ColumnwiseDensity",
    "Conditional",
    "DensityGivenFeatures",
    "Ellipsoids",
    "ExponentialFamily",
    "HistogramStatistic",
    "KeptRows",
    "LastGivenRest",
    "LatentDensity",
    "LatentStatistic",
    "Moments",
    "MultivariateNormalStatistic",
    "NormalStatistic",
    "Parameters",
    "PatternMoments",
    "Reference",
    "RowDensity",
    "StatesStatistic",
    "Statistic",
    "SufficientStatistics",
    "Summary",
    "Sums",
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
    "is_registered",
    "last_given_rest",
    "log_factorial",
    "log_rising",
    "merged",
    "middle",
    "namespace",
    "outer_or_square",
    "padded_rows",
    "quantiles",
    "read_conditional",
    "refuse_missing",
    "register",
    "registered_types",
    "restricted",
    "row_sums",
    "safe_product",
    "scaled_squares",
    "sufficient_statistics",
    "sum_log_rising",
    "sum_log_rising_of_cells",
    "summaries_of",
]
