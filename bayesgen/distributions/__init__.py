"""NumPyro distributions that NumPyro lacks, one a file; what has a sufficient statistic registers it there."""

from .gamma_poisson import PreciseGammaPoisson as PreciseGammaPoisson

__all__: list[str] = []
