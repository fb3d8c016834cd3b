"""p(y | x) of a continuous label by one process, or with parameters integrated out."""

import dataclasses
import functools
import math

import jax
import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.fitting import Fit
from bayesgen.models import ClosedResponse
from bayesgen.posteriors import At, ProcessPosterior, chains_joined
from bayesgen.predictives import (
    DeferredPredictive,
    Line,
    LogJoint,
    NormalPredictive,
    PredictiveDistribution,
    predictive_on_grid,
)
from bayesgen.program import Response
from bayesgen.records import by_content
from bayesgen.runtime import as_key, chunks
from bayesgen.typing import Bool, Float, Int

from .continuous import ContinuousPrediction, joined_continuous_predictions

# Where log joints are parabolas in the response, it is normal in closed form.

PARABOLA_POINTS = np.array([-3.0, -1.0, 0.0, 1.5, 2.5])  # in standard deviations, not symmetric
ROUGHLY, CLOSELY = 1e-6, 1e-8  # of the curvature: residuals of the parabola, far away and near the mode
MOST_ITERATIONS, CONVERGED = 8, 0.1
_VANDERMONDE = np.linalg.inv(np.vander(PARABOLA_POINTS, increasing=True))  # coefficients of powers 0 to 4


@dataclasses.dataclass(frozen=True)
class Parabolas:
    """Parabolas through log joints at five points each.

    Attributes:
        loc, scale: of the normal distributions whose logs they are.
        log_integral: logs of their integrals.
        fits: whether the log joint agrees with the parabola at all five points.
    """

    loc: Float[np.ndarray, "..."]
    scale: Float[np.ndarray, "..."]
    log_integral: Float[np.ndarray, "..."]
    fits: Bool[np.ndarray, "..."]


def parabola_points(center: Float[np.ndarray, "..."], unit: Float[np.ndarray, "..."]) -> Float[np.ndarray, "5 ..."]:
    """The points at which log joints are evaluated."""
    return center + unit * PARABOLA_POINTS.reshape(-1, *(1,) * np.ndim(center))


def parabolas(
    logs: Float[np.ndarray, "5 ..."],
    center: Float[np.ndarray, "..."],
    unit: Float[np.ndarray, "..."],
    tolerance: float = CLOSELY,
) -> Parabolas:
    """The parabolas through log joints at the `parabola_points` about a center."""
    level = logs[2]  # at the center
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        constant, slope, half, *others = np.tensordot(_VANDERMONDE, logs - level, 1)
        reach = np.abs(logs - level).max(0)
        digits = 64 * np.finfo(float).eps  # of log joints, and of y
        rounding = digits * (reach * (1 + np.abs(center / unit)) + np.abs(level))
        left = np.max(np.abs(others), axis=0)
        fits = (half < 0) & (left <= tolerance * np.abs(half) + rounding) & np.isfinite(logs).all(0)
        half = np.where(fits, half, -0.5)
        vertex, scale = -slope / (2 * half), np.sqrt(-0.5 / half)
        top = level + constant - slope**2 / (4 * half)
        log_integral = top + np.log(scale * unit) + 0.5 * math.log(2 * math.pi)
    return Parabolas(center + unit * vertex, unit * scale, log_integral, fits)


def as_normal(
    log_joint: LogJoint, num_rows: int, line: Line
) -> tuple[NormalPredictive, Float[np.ndarray, " n"]] | None:
    """Normal distributions of y and log p(x), where the log joints of all rows are parabolas in y; else None.

    They are evaluated about the center of the training values, and again about the mode found, until it converges.
    """
    if not line.is_real:
        return None
    center, unit, rows = np.full(num_rows, line.center), np.full(num_rows, line.scale), np.arange(num_rows)
    tolerance = ROUGHLY
    for _ in range(MOST_ITERATIONS):
        points = parabola_points(center, unit)
        logs = log_joint(np.tile(rows, len(PARABOLA_POINTS)), points.ravel()).reshape(points.shape)
        found = parabolas(logs, center, unit, tolerance)
        if not found.fits.all():
            return None
        moved = np.abs(found.loc - center) / found.scale + np.abs(np.log(found.scale / unit))
        if tolerance == CLOSELY and (moved < CONVERGED).all():
            return NormalPredictive(found.loc, found.scale), found.log_integral
        center, unit, tolerance = found.loc, found.scale, CLOSELY
    return None


GRID_ROWS = 512  # evaluated on some hundreds of points each at once
COMPILED_ROWS = 8192  # programs run at multiples of this number, and are compiled once
SIMULATED_VALUES, FEW_DRAWS = 512, 8  # values of a response, and processes that generate them, to find its range


def response_of(fit: Fit) -> Response:
    """The response of a fit."""
    response = fit.concrete.response
    assert response is not None
    return response


def closed_response(fit: Fit) -> ClosedResponse | None:
    """The closed form of p(y | x) of the model, or None."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return None if conjugate is None else conjugate.closed_response


def by_process(fit: Fit, rows: Rows, at: At) -> ContinuousPrediction:
    """p(y | x, Q) at a process, or the predictive p(y | x, T) of an exact fit."""
    closed, posterior = closed_response(fit), fit.posterior
    assert isinstance(posterior, ProcessPosterior)
    predictive = None if closed is None else posterior.predictive_of_response(closed, rows, at)
    if predictive is not None:
        return ContinuousPrediction(predictive, _log_marginal(fit, rows, at, predictive))
    line = line_of(fit, rows)
    places = chunks(rows.num_rows, GRID_ROWS) or [slice(0, 0)]
    return joined_continuous_predictions(
        [_by_log_joint(JointOfProcess(fit, rows.take(part), at), line, len(places)) for part in places]
    )


def _log_marginal(fit: Fit, rows: Rows, at: At, predictive: PredictiveDistribution) -> Float[np.ndarray, " n"] | None:
    """log p(x); None where x is given, and only the response is modelled.

    Where attributes are made from the response, it is log p(x, y) - log p(y | x) at any y, here the median.
    """
    response = response_of(fit)
    if response.is_only_attribute(rows):
        return None
    if not response.is_parent:
        return fit.posterior.log_joint(rows, at)[:, 0]
    values = predictive.quantile(0.5)
    return fit.posterior.log_joint(response.put(rows, values), at)[:, 0] - predictive.log_density(values)


@by_content
class JointOfProcess:
    """log p(x, y) of rows at one process or with the parameters integrated out, by positions of rows and values of y.

    Attributes:
        fit: the fit.
        rows: the rows.
        at: the process, or "predictive".
    """

    fit: Fit
    rows: Rows
    at: At

    def with_values(self, places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]) -> Rows:
        """The rows at these positions with these values, padded where programs are compiled for each size."""
        more = -len(places) % COMPILED_ROWS if closed_response(self.fit) is None else 0
        places, values = (np.concatenate([array, np.repeat(array[:1], more)]) for array in (places, values))
        return response_of(self.fit).put(self.rows.take(places), values)

    def __call__(self, places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        if not len(places):
            return np.zeros(0)
        return self.fit.posterior.log_joint(self.with_values(places, values), self.at)[: len(places), 0]


def _by_log_joint(joint: JointOfProcess, line: Line, num_parts: int) -> ContinuousPrediction:
    """The prediction by log joints alone: normal where they are parabolas, else on a grid."""
    is_only_attribute, size = response_of(joint.fit).is_only_attribute(joint.rows), joint.rows.num_rows
    normal = as_normal(joint, size, line)
    if normal is not None:
        return ContinuousPrediction(normal[0], None if is_only_attribute else normal[1])
    predictive, log_normalizer = predictive_on_grid(joint, size, line)
    return ContinuousPrediction(
        kept_or_deferred(predictive, joint, line, num_parts), None if is_only_attribute else log_normalizer
    )


def kept_or_deferred(
    predictive: PredictiveDistribution, joint: LogJoint, line: Line, num_parts: int
) -> PredictiveDistribution:
    """The grid itself, or where there are many of them a function that recomputes it when needed."""
    if num_parts == 1:
        return predictive
    return DeferredPredictive(
        functools.partial(_grid, joint, predictive.num_rows, line), predictive.mean, predictive.std
    )


def _grid(joint: LogJoint, size: int, line: Line) -> PredictiveDistribution:
    return predictive_on_grid(joint, size, line)[0]


def line_of(fit: Fit, rows: Rows) -> Line:
    """The range of the response: that of its training values, or of values simulated by the fit."""
    support, known = fit.concrete.response_support, fit.schema.response
    if known is not None and known.mean is not None and known.variance:
        spread = np.sqrt(known.variance) * scipy.special.ndtri(np.arange(1, 100) / 100)
        return Line.of(support, known.mean + spread)
    return Line.of(support, _simulated(fit, rows))


def _simulated(fit: Fit, rows: Rows) -> Float[np.ndarray, " m"]:
    """Values of the response simulated by processes of the fit."""
    program, site = fit.program, response_of(fit).site
    if fit.posterior.has_draws:
        draws = chains_joined(fit.posterior.draws(FEW_DRAWS, as_key(0)))
        total = len(next(iter(draws.values())))
        chosen = np.linspace(0, total - 1, FEW_DRAWS).astype(int)
        processes = [{name: draws[name][index] for name in program.latents} for index in chosen]
    else:
        latents = program.latents_of(fit.parameters)
        processes = [{name: latents[name] for name in program.latents}]
    size = SIMULATED_VALUES // len(processes)
    places = np.arange(size) * max(rows.num_rows, 1) // size
    ones = {name: np.ones((size, *value.shape[1:]), value.dtype) for name, value in rows.covariates.items()}
    covariates = {k: v[places] for k, v in rows.covariates.items()} if rows.num_rows else ones
    keys = jax.random.split(as_key(0), len(processes))
    made = [
        program.simulate(size, seed=key, latents=latents, **covariates)[site]
        for key, latents in zip(keys, processes, strict=True)
    ]
    return np.concatenate(made).astype(np.float64)
