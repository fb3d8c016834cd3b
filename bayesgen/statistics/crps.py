"""The continuous ranked probability score of distributions of one number, in closed form and by quadrature.

CRPS(F, y) = ∫ (F(u) − 1[u ≥ y])² du, in the units of y and the smaller the better: the mean absolute error for a
forecast that is sure of one number, and a proper score of whole distributions (Gneiting & Raftery 2007, eq. 20).
"""

from collections.abc import Callable

import numpy as np
from scipy import integrate, special, stats

from bayesgen.typing import Float

RELATIVE_ERROR = 1e-8
_WIDEST = 40.0  # sinh(40) scales from the centre is 1e17
_TAIL = 1e-12  # the square of so small a probability adds nothing
_FEW = 1e-4  # so near to one degree of freedom the terms of the closed form cancel


def normal_crps(
    y: Float[np.ndarray, " n"], mean: Float[np.ndarray, " n"], std: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """CRPS of Normal(mean, std²): σ [z (2Φ(z) − 1) + 2φ(z) − 1/√π] (Gneiting & Raftery 2007, eq. 21).

    >>> normal_crps(np.array([1.0]), np.array([1.0]), np.array([2.0])).round(4)
    array([0.4674])
    """
    z = (y - mean) / std
    return std * (z * (2 * special.ndtr(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))


def student_t_crps(
    y: Float[np.ndarray, " n"],
    df: Float[np.ndarray, " n"],
    loc: Float[np.ndarray, " n"],
    scale: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """CRPS of the Student-t with density t_ν((y − loc) / scale) / scale (Jordan, Krüger & Lerch 2019, appendix A).

    s [z (2F(z) − 1) + 2 f(z) (ν + z²)/(ν − 1) − 2√ν/(ν − 1) B(1/2, ν − 1/2) / B(1/2, ν/2)²]. They state it for ν > 1;
    both sides are analytic in ν, so that it holds down to ν = 1/2, and at ν = 1 in the limit. It is infinite below.
    """
    df, loc, scale, y = np.broadcast_arrays(*map(np.asarray, (df, loc, scale, y)))
    z = (y - loc) / scale
    near_one = np.abs(df - 1) < _FEW
    value = np.where(
        near_one,
        (_standard_t_crps(z, 1 - _FEW) + _standard_t_crps(z, 1 + _FEW)) / 2,
        _standard_t_crps(z, np.where((df > 0.5) & ~near_one, df, 2.0)),
    )
    return scale * np.where(df > 0.5, value, np.inf)


def _standard_t_crps(z: Float[np.ndarray, " n"], df: Float[np.ndarray, " n"] | float) -> Float[np.ndarray, " n"]:
    log_ratio = special.betaln(0.5, np.subtract(df, 0.5)) - 2 * special.betaln(0.5, np.divide(df, 2))
    around = 2 * stats.t.pdf(z, df) * (df + z**2) / np.subtract(df, 1)
    return z * (2 * stats.t.cdf(z, df) - 1) + around - 2 * np.sqrt(df) / np.subtract(df, 1) * np.exp(log_ratio)


def crps_by_quadrature(
    cdf: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]],
    y: Float[np.ndarray, " n"],
    centre: Float[np.ndarray, " n"],
    scale: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """CRPS of n distributions by their distribution functions, to a relative error of 1e-8.

    The integral is taken on both sides of y, over w with u = centre + scale · sinh(w), by an adaptive Gauss-Kronrod
    rule of all rows together.

    Args:
        cdf: the distribution function of each row at a value each.
        y: what was to be told.
        centre: about the middle of each distribution.
        scale: about its width, above zero.
    """
    half_width = 4.0
    while half_width < _WIDEST and _tail(cdf, centre, scale * np.sinh(half_width)) > _TAIL:
        half_width *= 1.5
    at_y = np.arcsinh((y - centre) / scale)
    ends = np.minimum(at_y, -half_width), np.maximum(at_y, half_width)
    lengths = at_y - ends[0], ends[1] - at_y
    size = scale + np.abs(y - centre)  # about that of the score: the error of each row is held against its own

    def integrand(share: float) -> Float[np.ndarray, " n"]:
        below, above = ends[0] + share * lengths[0], at_y + share * lengths[1]
        left = cdf(centre + scale * np.sinh(below)) ** 2 * np.cosh(below) * lengths[0]
        right = (1 - cdf(centre + scale * np.sinh(above))) ** 2 * np.cosh(above) * lengths[1]
        return (left + right) * (scale / size)

    total, _ = integrate.quad_vec(integrand, 0.0, 1.0, epsabs=0.0, epsrel=RELATIVE_ERROR, norm="max")
    return total * size


def _tail(
    cdf: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]],
    centre: Float[np.ndarray, " n"],
    distance: Float[np.ndarray, " n"],
) -> float:
    """The largest probability beyond the distance, on either side, of all rows."""
    return float(max(np.max(cdf(centre - distance)), np.max(1 - cdf(centre + distance))))
