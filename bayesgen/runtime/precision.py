"""Tolerances in double precision: zero, equality and rounding."""

ROUNDING = 1e-13  # relative error of a number after some hundreds of operations
EQUAL = 1e-9  # relative difference of numbers that are equal but for the order of their sums over the data
EQUAL_DENSITIES = 1e-6  # difference of log densities that are equal but for the way in which they are computed
PRACTICALLY_EQUAL = 0.01  # difference of probabilities, and of log probabilities, that readers need not be told of
VANISHING = 1e-300  # lost to rounding in any sum, but its logarithm is finite
LOG_OF_ZERO = -1e30  # its exponential is zero, and its products with zero are zero and not NaN
