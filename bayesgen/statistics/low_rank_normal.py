"""Jointly normal columns whose covariance is of low rank but for a diagonal: a few factors, and noise."""

import dataclasses

from bayesgen.typing import Array, Float

from .arrays import log_diagonal, namespace
from .base import Parameters
from .multivariate_normal import MultivariateNormalStatistic
from .normal import LOG_2PI
from .patterns import PatternMoments
from .summaries import Moments, trailing

MANY, SHARE = 20, 3  # columns, and columns a factor, from which on factors cost less: `_factors` in benchmarks/surfaces


@dataclasses.dataclass(frozen=True)
class LowRankNormalStatistic(MultivariateNormalStatistic):
    """Jointly normal columns with covariance W W' + diag(c).

    Parameters: `loc` and `scale_tril`, as of any jointly normal columns, and beside them `cov_factor` W
    (K, *extra, D, k) and `cov_diag` c (K, *extra, D), by which likelihoods cost less. What is to be known of rows is
    what is to be known of any that are jointly normal: moments, by pattern where cells are missing.
    """

    def log_likelihood(  # type: ignore[override]
        self, parameters: Parameters, summary: Moments | PatternMoments
    ) -> Float[Array, "..."]:
        """That of `MultivariateNormalStatistic`; of whole rows and few factors for D^2 k instead of D^3.

        With C = diag(c) and M = I + W' inv(C) W, the factors of a row r are expected at Z r, Z = inv(M) W' inv(C). The
        squared distance of r is that of r - W Z r by the noise alone, plus |Z r|^2: sums of squares, in which nothing
        cancels. The determinant of the covariance is that of C times that of M.

        Source: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, eq. A.9 and A.10.
        """
        loc, factor, noise = (parameters[name] for name in ("loc", "cov_factor", "cov_diag"))
        dimension, num_factors = factor.shape[-2:]
        if isinstance(summary, PatternMoments) or dimension < max(MANY, SHARE * num_factors):
            return super().log_likelihood(parameters, summary)
        xp = namespace(loc, factor, noise, summary.mean)
        weighted = xp.swapaxes(factor / noise[..., None], -1, -2)
        precision = weighted @ factor + xp.eye(num_factors)
        expected = xp.linalg.solve(precision, weighted)
        half_log_det = log_diagonal(xp.linalg.cholesky(precision)) + 0.5 * xp.log(noise).sum(-1)
        shift, scatter, count = summary.mean - loc, summary.scatter, trailing(summary.count, loc.ndim - 1)
        factors = xp.einsum("...kd,...d->...k", expected, shift)
        rest = shift - xp.einsum("...dk,...k->...d", factor, factors)
        of_means = (rest**2 / noise).sum(-1) + (factors**2).sum(-1)
        of_factors = expected @ scatter
        left = scatter - factor @ of_factors  # (I - W Z) S, and below the diagonal of (I - W Z) S (I - W Z)'
        noises = xp.diagonal(left, axis1=-2, axis2=-1) - ((left @ xp.swapaxes(expected, -1, -2)) * factor).sum(-1)
        of_scatter = (noises / noise).sum(-1) + (of_factors * expected).sum((-2, -1))
        constant = count * (half_log_det + 0.5 * LOG_2PI * dimension)
        return xp.asarray(summary.log_base - constant - 0.5 * (of_scatter + count * of_means))
