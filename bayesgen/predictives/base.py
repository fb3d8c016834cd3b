"""`PredictiveDistribution`: distributions of one number, one for each row, and their CRPS."""

import abc
from collections.abc import Callable

import numpy as np
from scipy import integrate, special

from bayesgen.typing import ArrayOrNumber, Float

# The continuous ranked probability score, CRPS(F, y) = ∫ (F(u) − 1[u ≥ y])² du: a proper score in the units of y, lower
# is better; for point forecasts it is the absolute error (Gneiting & Raftery 2007, eq. 20).

RELATIVE_ERROR = 1e-8
_WIDEST = 40.0  # sinh(40) scales from the centre is 1e17
_TAIL = 1e-11  # contribution of the neglected tails, in scales
_MOST_STEPS = 1024
_CONVERGED = 1e-5  # change of a trapezoid rule, whose error is squared when the step is halved
_NEAR_ONE = 1e-4  # distance from one degree of freedom within which the terms of the closed form cancel


def normal_distance(
    y: Float[np.ndarray, "#*n"], mean: Float[np.ndarray, "#*n"], std: Float[np.ndarray, "#*n"]
) -> Float[np.ndarray, "..."]:
    """E|X − y| of Normal(mean, std²): σ [z (2Φ(z) − 1) + 2φ(z)]."""
    z = (y - mean) / std
    return std * (z * (2 * special.ndtr(z) - 1) + np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2))


def normal_crps(
    y: Float[np.ndarray, "#*n"], mean: Float[np.ndarray, "#*n"], std: Float[np.ndarray, "#*n"]
) -> Float[np.ndarray, "..."]:
    """CRPS of Normal(mean, std²): σ [z (2Φ(z) − 1) + 2φ(z) − 1/√π] (Gneiting & Raftery 2007, eq. 21).

    >>> normal_crps(np.array([1.0]), np.array([1.0]), np.array([2.0])).round(4)
    array([0.4674])
    """
    return normal_distance(y, mean, std) - std / np.sqrt(np.pi)


def student_t_distance(
    y: Float[np.ndarray, "#*n"],
    df: Float[np.ndarray, "#*n"],
    loc: Float[np.ndarray, "#*n"],
    scale: Float[np.ndarray, "#*n"],
) -> Float[np.ndarray, "..."]:
    """E|X − y| of a Student-t: s [z (2F(z) − 1) + 2 f(z) (ν + z²)/(ν − 1)]; infinite where ν is 1 or less."""
    with np.errstate(divide="ignore"):
        return np.where(df > 1, scale * _standard_t_distance((y - loc) / scale, df), np.inf)


def _standard_t_distance(z: Float[np.ndarray, "#*n"], df: Float[np.ndarray, "#*n"]) -> Float[np.ndarray, "..."]:
    density = np.exp(-special.betaln(df / 2, 0.5) - (df + 1) / 2 * np.log1p(z**2 / df)) / np.sqrt(df)
    return z * (2 * special.stdtr(df, z) - 1) + 2 * density * (df + z**2) / (df - 1)


def student_t_crps(
    y: Float[np.ndarray, "#*n"],
    df: Float[np.ndarray, "#*n"],
    loc: Float[np.ndarray, "#*n"],
    scale: Float[np.ndarray, "#*n"],
) -> Float[np.ndarray, "..."]:
    """CRPS of the Student-t with density t_ν((y − loc) / scale) / scale (Jordan, Krüger & Lerch 2019, appendix A).

    s [z (2F(z) − 1) + 2 f(z) (ν + z²)/(ν − 1) − 2√ν/(ν − 1) B(1/2, ν − 1/2) / B(1/2, ν/2)²]. They state it for ν > 1;
    both sides are analytic in ν, so that it holds down to ν = 1/2, and at ν = 1 in the limit. It is infinite below.
    """
    df, loc, scale, y = np.broadcast_arrays(df, loc, scale, y)
    z = (y - loc) / scale
    near_one = np.abs(df - 1) < _NEAR_ONE
    limit = (
        _standard_t_crps(z, np.full_like(df, 1 - _NEAR_ONE)) + _standard_t_crps(z, np.full_like(df, 1 + _NEAR_ONE))
    ) / 2
    elsewhere = _standard_t_crps(z, np.where((df > 0.5) & ~near_one, df, 2.0))
    return scale * np.where(df > 0.5, np.where(near_one, limit, elsewhere), np.inf)


def _standard_t_crps(z: Float[np.ndarray, "#*n"], df: Float[np.ndarray, "#*n"]) -> Float[np.ndarray, "..."]:
    log_ratio = special.betaln(0.5, df - 0.5) - 2 * special.betaln(0.5, df / 2)
    return _standard_t_distance(z, df) - 2 * np.sqrt(df) / (df - 1) * np.exp(log_ratio)


Cdf = Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]


def half_distance_of_draws(
    cdf: Cdf, survival: Cdf, centre: Float[np.ndarray, " n"], scale: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """E|X − X'| / 2 of two independent draws: ∫ F(u) (1 − F(u)) du, to a relative error of about 1e-8.

    By the trapezoid rule over w with u = centre + scale · sinh(w), which converges geometrically where F is smooth: the
    step is halved until the integral converges. If it does not with a thousand steps, an adaptive rule takes over.

    Args:
        cdf: the distribution function F of each row, at one value a row.
        survival: 1 − F, to full precision above the centre.
        centre: rough centre of each distribution.
        scale: rough width, above zero. Variances have to be finite.

    Rows whose centre or scale is not finite give NaN.
    """
    known = np.isfinite(centre) & np.isfinite(scale)
    half_width = _half_width(cdf, survival, centre, scale)

    def integrand(w: float) -> Float[np.ndarray, " n"]:
        beyond = (cdf if w < 0 else survival)(centre + scale * np.sinh(w))
        return np.where(known, beyond * (1 - beyond) * np.cosh(w), 0.0)

    num_steps = 16
    total = sum(integrand(w) for w in np.linspace(-half_width, half_width, num_steps + 1)) / num_steps
    while num_steps < _MOST_STEPS:
        between = np.linspace(-half_width, half_width, 2 * num_steps + 1)[1::2]
        finer = (total + sum(integrand(w) for w in between) / num_steps) / 2
        num_steps *= 2
        converged = bool((np.abs(finer - total) <= _CONVERGED * finer).all())
        total = finer
        if converged:
            return np.where(known, total * 2 * half_width * scale, np.nan)
    integral, _ = integrate.quad_vec(integrand, -half_width, half_width, epsabs=0.0, epsrel=RELATIVE_ERROR, norm="max")
    return np.where(known, integral * scale, np.nan)


def crps_by_quadrature(
    cdf: Cdf,
    y: Float[np.ndarray, " n"],
    centre: Float[np.ndarray, " n"],
    scale: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """CRPS of n distributions by their distribution functions, to a relative error of 1e-8.

    The integral is taken on both sides of y, over w with u = centre + scale · sinh(w), by an adaptive Gauss-Kronrod
    rule of all rows together.

    Args:
        cdf: the distribution function of each row, at one value a row.
        y: the true values.
        centre: rough centre of each distribution.
        scale: rough width, above zero.

    Rows whose centre or scale is not finite give NaN.
    """
    known = np.isfinite(centre) & np.isfinite(scale)
    half_width = _half_width(cdf, lambda u: 1 - cdf(u), centre, scale)
    at_y = np.arcsinh((y - centre) / scale)
    ends = np.minimum(at_y, -half_width), np.maximum(at_y, half_width)
    lengths = at_y - ends[0], ends[1] - at_y
    size = scale + np.abs(y - centre)  # rough size of the score, so that errors of rows are relative

    def integrand(share: float) -> Float[np.ndarray, " n"]:
        below, above = ends[0] + share * lengths[0], at_y + share * lengths[1]
        left = cdf(centre + scale * np.sinh(below)) ** 2 * np.cosh(below) * lengths[0]
        right = (1 - cdf(centre + scale * np.sinh(above))) ** 2 * np.cosh(above) * lengths[1]
        return np.where(known, (left + right) * (scale / size), 0.0)

    total, _ = integrate.quad_vec(integrand, 0.0, 1.0, epsabs=0.0, epsrel=RELATIVE_ERROR, norm="max")
    return np.where(known, total * size, np.nan)


def _half_width(cdf: Cdf, survival: Cdf, centre: Float[np.ndarray, " n"], scale: Float[np.ndarray, " n"]) -> float:
    """The limit of integrals over w, on both sides of 0, for all rows."""
    half_width = 3.0
    while half_width < _WIDEST:
        distance = np.sinh(half_width)
        beyond = np.maximum(cdf(centre - scale * distance), survival(centre + scale * distance))
        if np.max(beyond, initial=0.0, where=~np.isnan(beyond)) * distance <= _TAIL:
            break
        half_width *= 1.25
    return half_width


class PredictiveDistribution(abc.ABC):
    """n distributions of a number. Arguments have the rows last, (..., n)."""

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """n."""

    @property
    @abc.abstractmethod
    def mean(self) -> Float[np.ndarray, "*draws n"]:
        """Means; NaN where they do not exist."""

    @property
    @abc.abstractmethod
    def std(self) -> Float[np.ndarray, "*draws n"]:
        """Standard deviations; infinite where they do not exist."""

    @abc.abstractmethod
    def log_density(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """Log densities of values."""

    @abc.abstractmethod
    def cdf(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """P(X <= value)."""

    @abc.abstractmethod
    def quantile(self, probability: float) -> Float[np.ndarray, "*draws n"]:
        """Quantiles at a probability in (0, 1)."""

    @abc.abstractmethod
    def draws(self, rng: np.random.Generator, num_draws: int) -> Float[np.ndarray, "num ... n"]:
        """Independent draws from each distribution."""

    def survival(self, values: Float[ArrayOrNumber, "..."]) -> Float[np.ndarray, "*draws n"]:
        """P(X > value)."""
        return 1 - self.cdf(values)

    def mean_distance(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"] | None:
        """E|X − value|; None without a closed form."""
        return None

    def crps(self, values: Float[ArrayOrNumber, " n"]) -> Float[np.ndarray, "*draws n"]:
        """The continuous ranked probability score of a value for each row: in closed form, or by quadrature."""
        return crps_by_quadrature(self.cdf, np.asarray(values, np.float64), *centre_and_scale(self))


def centre_and_scale(predictive: PredictiveDistribution) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Rough centre and width of each distribution."""
    mean, std = np.asarray(predictive.mean), np.asarray(predictive.std)
    is_known = np.isfinite(mean) & np.isfinite(std) & (std > 0)
    if is_known.all():
        return mean, std
    with np.errstate(invalid="ignore"):  # impossible rows have no quantiles
        low, median, high = (predictive.quantile(probability) for probability in (0.25, 0.5, 0.75))
        return np.where(is_known, mean, median), np.where(is_known, std, high - low)


ROOT_STEPS = 200  # of a root search, which halves a bracket at worst
ROOT_TOLERANCE = 1e-15  # of a root relative to its bracket, and of the function, a probability


def find_roots(
    function: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]],
    slope: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]],
    low: Float[np.ndarray, "..."],
    high: Float[np.ndarray, "..."],
) -> Float[np.ndarray, "..."]:
    """Roots of increasing functions in brackets: by Newton's steps, or bisection where these leave the bracket."""
    least = ROOT_TOLERANCE * np.maximum(abs(low), abs(high))
    point = 0.5 * (low + high)
    for _ in range(ROOT_STEPS):
        value = function(point)
        low, high = np.where(value <= 0, point, low), np.where(value >= 0, point, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = point - value / slope(point)
        is_small = abs(step - point) <= least  # also to or past a near end
        is_inside = (step > low) & (step < high)
        is_converged = (high - low <= least) | is_small | (abs(value) <= ROOT_TOLERANCE) | np.isnan(point)
        point = np.where(is_converged, point, np.where(is_inside, step, 0.5 * (low + high)))
        if is_converged.all():
            break
    return point
