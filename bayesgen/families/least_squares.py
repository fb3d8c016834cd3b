"""Least squares from means and cross products, of data alone or with a normal prior; the prior of an intercept."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import AffineTransform

from bayesgen.errors import FitError, ModelError, as_numbers
from bayesgen.runtime import ROUNDING
from bayesgen.statistics import Moments, any_known, namespace
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, PRNGKeyArray, Real

from .coordinates import Moved
from .hyperparameters import Names, Stated, check_counted
from .special import shrinkage


class InterceptPrior(dist.Distribution):
    """Normal(loc, noise_variance / kappa), or flat with density 1, and without draws, where kappa is 0.

    Args:
        loc: mean.
        noise_variance: variance of the rows about the line.
        kappa: weight of the prior, in rows.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real,
        "noise_variance": constraints.positive,
        "kappa": constraints.nonnegative,
    }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """The real numbers, with coordinates about the location, so that a location far from 0 costs no digits."""
        return Moved(constraints.real, AffineTransform(self.loc, 1.0, domain=constraints.real))

    def __init__(
        self, loc: Real[Array, "*#batch"], noise_variance: Float[Array, "*#batch"], kappa: Float[Array, "*#batch"]
    ) -> None:
        self.loc, self.noise_variance, self.kappa = loc, noise_variance, kappa
        super().__init__(jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(noise_variance), jnp.shape(kappa)))

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        """Its variance; where it is flat, that of one row, as a scale for samplers."""
        return jnp.broadcast_to(self.noise_variance / jnp.where(self.kappa > 0, self.kappa, 1.0), self.batch_shape)

    def sample(self, key: PRNGKeyArray | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        assert key is not None
        if any_known(self.kappa == 0):
            raise ModelError(
                "The intercept is flat (kappa=0), and of a flat prior there are no draws. Give kappa a positive "
                "number, or simulate from a fit."
            )
        normal = jax.random.normal(key, (*sample_shape, *self.batch_shape))
        return jnp.where(self.kappa > 0, self.loc + jnp.sqrt(self.variance) * normal, jnp.nan)

    def log_prob(self, value: Real[Array, "..."]) -> Float[Array, "..."]:
        variance = self.variance
        normal = -0.5 * ((value - self.loc) ** 2 / variance + jnp.log(variance) + math.log(2 * math.pi))
        return jnp.where(self.kappa > 0, normal, 0.0)


@dataclasses.dataclass(frozen=True)
class BayesianLeastSquares:
    """Least squares of a column on features with a normal prior: the posterior of the coefficients, and residuals.

    Attributes:
        coefficients: posterior means.
        precision: posterior precision of the coefficients, in units of the noise variance.
        growth: posterior less prior precision.
        squares: sum of squared residuals, and of squared distances from the prior in its units.
        freedom: degrees of freedom of the residuals: the number of rows, less one where the intercept is flat.
    """

    coefficients: Float[Array, "*batch F"]
    precision: Float[Array, "*batch F F"]
    growth: Float[Array, "*batch F F"]
    squares: Float[ArrayOrNumber, "*batch"]
    freedom: Float[ArrayOrNumber, "*batch"]

    @classmethod
    def of(
        cls,
        summary: Moments,
        coefficients: Float[Array, "*batch F"],
        precision: Float[Array, "*batch F F"],
        location: Float[ArrayOrNumber, "*batch"],
        center: Float[Array, "*batch F"],
        kappa: Float[ArrayOrNumber, "*batch"] | None,
    ) -> "BayesianLeastSquares":
        """Least squares of the residuals of the prior's coefficients, so that no large numbers cancel.

        Args:
            summary: moments of features and column.
            coefficients, precision: of the prior.
            location, center: the prior's value at a point.
            kappa: weight of that value; None where it is known.
        """
        count, xp = row_counts(summary), namespace(summary.mean, summary.count)
        weight, freedom = count, count
        if kappa is not None:
            weight = kappa * shrinkage(kappa, count)
            freedom = count - ((kappa == 0) & (count > 0))
        features, column = summary.mean[..., :-1], summary.mean[..., -1]
        shift = features - center
        mean_residuals = xp.asarray(column - location - (shift * coefficients).sum(-1))
        weight = xp.asarray(weight)
        data_rows = root(summary.scatter)
        data_residuals = data_rows[..., -1] - xp.einsum("...ij,...j->...i", data_rows[..., :-1], coefficients)
        prior_rows = np.swapaxes(np.linalg.cholesky(precision), -1, -2)
        mean_rows = xp.sqrt(weight)[..., None] * shift
        step, squares, _ = solution(
            xp.concatenate([prior_rows, data_rows[..., :-1], mean_rows[..., None, :]], -2),
            xp.concatenate([0.0 * coefficients, data_residuals, (xp.sqrt(weight) * mean_residuals)[..., None]], -1),
        )
        growth = summary.scatter[..., :-1, :-1] + mean_rows[..., :, None] * mean_rows[..., None, :]
        return cls(coefficients + step, precision + growth, growth, squares, freedom)


def root(matrix: Float[Array, "*batch P P"]) -> Float[Array, "*batch P P"]:
    """A root R of a positive semidefinite matrix, R' R: rows with the cross products of the data."""
    xp = namespace(matrix)
    units = xp.sqrt(xp.diagonal(matrix, axis1=-2, axis2=-1))
    positive = xp.where(units > 0, units, 1.0)
    standard = matrix / (positive[..., :, None] * positive[..., None, :])
    return _root_of_correlations(standard) * units[..., None, :]


def _root_of_correlations(standard: Float[Array, "*batch P P"]) -> Float[Array, "*batch P P"]:
    """Its Cholesky factor, or a root by eigenvalues where it may be singular, and under jit."""
    if isinstance(standard, np.ndarray):
        try:
            return np.swapaxes(np.linalg.cholesky(standard), -1, -2)
        except np.linalg.LinAlgError:
            pass
    xp = namespace(standard)
    values, vectors = xp.linalg.eigh(standard)
    return xp.sqrt(xp.maximum(values, 0.0))[..., :, None] * xp.swapaxes(vectors, -1, -2)


def solution(
    rows: Float[Array, "*batch m F"], targets: Float[Array, "*batch m"]
) -> tuple[Float[Array, "*batch F"], Float[ArrayOrNumber, "*batch"], Float[Array, "*batch F F"]]:
    """The coefficients of least squares by a QR decomposition, their sum of squares, and R of rows in equal units."""
    xp = namespace(rows, targets)
    units = xp.sqrt((rows**2).sum(-2))
    units = xp.where(units > 0, units, 1.0)
    orthogonal, triangular = xp.linalg.qr(rows / units[..., None, :])
    projected = xp.swapaxes(orthogonal, -1, -2) @ targets[..., None]
    is_zero = xp.diagonal(triangular, axis1=-2, axis2=-1) == 0
    solvable = triangular + is_zero[..., None] * xp.eye(rows.shape[-1])
    coefficients = xp.linalg.solve(solvable, projected)[..., 0] / units
    residuals = targets - xp.einsum("...ij,...j->...i", rows, coefficients)
    return coefficients, (residuals**2).sum(-1), triangular


def row_counts(summary: Moments) -> Float[ArrayOrNumber, "*batch"]:
    """Weight of the rows of each column."""
    return namespace(summary.count).broadcast_to(summary.cell_counts[..., 0], summary.mean.shape[:-1])


def least_squares(summary: Moments, intercept: bool, names: Names) -> dict[str, ArrayOrNumber]:
    """Intercept, coefficients and mean squared residual of each column.

    Raises:
        FitError: no rows; features of which some are linear in others, by name; a column without residuals.
    """
    counts, xp = row_counts(summary), namespace(summary.mean, summary.count)
    check_counted(names, counts == 0)
    rows = root(summary.scatter)
    if not intercept:
        rows = xp.concatenate([rows, xp.sqrt(counts)[..., None, None] * summary.mean[..., None, :]], -2)
    coefficients, squares, triangular = solution(rows[..., :-1], rows[..., -1])
    _check_rank(triangular, (rows[..., :-1] ** 2).sum(-2) == 0, counts, names)
    _check_residual(squares <= ROUNDING * (rows[..., -1] ** 2).sum(-1), names)
    estimates = {"coefficients": coefficients, "variance": squares / counts}
    if intercept:
        estimates = {"intercept": summary.mean[..., -1] - (summary.mean[..., :-1] * coefficients).sum(-1), **estimates}
    return {name: xp.asarray(value) for name, value in estimates.items()}


def _check_rank(
    triangular: Float[Array, "*batch F F"],
    is_constant: Bool[Array, "*batch F"],
    counts: Float[ArrayOrNumber, "*batch"],
    names: Names,
) -> None:
    """Refuse features of which some are linear in others, or constant."""
    if not triangular.shape[-1]:
        return
    values = namespace(triangular).linalg.svd(triangular, compute_uv=False)
    singular = values[..., -1] ** 2 <= ROUNDING
    if not any_known(singular):
        return
    place = tuple(np.argwhere(singular)[0])
    constant = np.asarray(is_constant[place])
    weights_of_smallest = np.linalg.svd(triangular[place])[2][-1]
    taking_part = constant if constant.any() else np.abs(weights_of_smallest) > 1e-6
    features = feature_names(names, triangular.ndim > 2, np.flatnonzero(taking_part).tolist())
    rows = float(np.asarray(counts)[place])
    if rows <= 1:
        raise FitError(
            f"Block {names.block!r}: {rows:g} row is too few for least squares. Give more rows, or use "
            f"{names.with_prior}, whose prior decides."
        )
    several = taking_part.sum() > 1
    problem = f"features {features} are {'constant' if constant.any() else 'linear in each other'}"
    few = f" ({rows:g} rows for {len(constant)} features)" if rows <= len(constant) else ""
    remedy = "Drop one of them (OneHotEncoder(drop='first'), SplineTransformer(include_bias=False))"
    raise FitError(
        f"Block {names.block!r}: the {problem if several else f'feature {features} is constant'}{few}, so least "
        f"squares has no single answer. {remedy if several else 'Drop it'}, or use {names.with_prior}, whose "
        "prior decides."
    )


def feature_names(names: Names, has_columns: bool, places: Sequence[int]) -> str:
    """Names of features: by `names.columns`, or by number where these are columns that depend on features."""
    column_names = None if has_columns else names.columns
    return ", ".join(repr(place if column_names is None else column_names[place]) for place in places)


def _check_residual(none_left: Bool[ArrayOrNumber, "..."], names: Names) -> None:
    if any_known(none_left):
        where = names.where(none_left)
        raise FitError(
            f"Block {names.block!r}: the residuals of least squares are zero at {where}, so the likelihood is "
            f"unbounded. Use {names.with_prior}, whose prior keeps the noise positive, or fewer features."
        )


def as_matrix(precision: Float[ArrayOrNumber, "..."], num_features: int) -> Float[Array, "*batch F F"]:
    """A precision matrix from a number or one for each feature (on the diagonal); matrices as they are."""
    xp = namespace(precision)
    precision = xp.asarray(precision)
    return precision if precision.ndim > 1 else xp.eye(num_features) * precision


def check_precision(family: str, precision: Stated) -> None:
    """Refuse a precision that is not positive (definite) and finite."""
    if precision is None or isinstance(precision, dist.Distribution | jnp.ndarray):
        return
    matrix = as_numbers(f"{family}: the hyperparameter precision", precision)
    is_good = bool(np.isfinite(matrix).all())
    if is_good and matrix.ndim < 2:
        is_good = bool((matrix > 0).all())
    elif is_good:
        is_good = matrix.shape[-1] == matrix.shape[-2] and np.allclose(matrix, np.swapaxes(matrix, -1, -2))
        is_good = is_good and bool((np.linalg.eigvalsh(matrix) > 0).all())
    if not is_good:
        raise ModelError(
            f"{family}: the hyperparameter precision must be positive and finite, a number, one for each feature or a "
            "symmetric positive-definite matrix."
        )


def check_intercept(family: str, mean: Stated, kappa: Stated, center: Stated, intercept: bool) -> None:
    """Refuse an invalid kappa or center, and a prior mean or center without an intercept."""
    if not isinstance(kappa, dist.Distribution):
        number = as_numbers(f"{family}: the hyperparameter kappa", kappa)
        if not (np.isfinite(number) & (number >= 0)).all():
            raise ModelError(f"{family}: the hyperparameter kappa must be finite and at least 0, got {kappa!r}.")
    if isinstance(center, dist.Distribution):
        raise ModelError(f"{family}: center is a point that is chosen, and not a distribution. Give numbers.")
    if not intercept and not (mean is None and center is None):
        raise ModelError(f"{family}: without an intercept there is no value to know: leave mean and center out.")


def check_features(family: str, num_features: int, stated: Mapping[str, Any]) -> None:
    """Refuse hyperparameters that are given for another number of features."""
    for name, value in stated.items():
        shape = () if isinstance(value, dist.Distribution) else np.shape(value)
        if shape and shape[-1] != num_features and shape != (1,):
            raise ModelError(
                f"{family}: the hyperparameter {name} is given for {shape[-1]} features, and there are {num_features}."
            )
