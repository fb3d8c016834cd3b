"""p(y | x) of a label that is a number: by one process, with parameters integrated out, or averaged over draws."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.fitting import Fit
from bayesgen.posteriors import At, ParameterArrays, ProcessPosterior, chains_joined
from bayesgen.predictives import (
    GridPredictive,
    Line,
    LogFunction,
    MixturePredictive,
    NormalPredictive,
    PredictiveDistribution,
    StudentTPredictive,
    Support,
    WholeNumbers,
    deferred,
)
from bayesgen.program import ClosedAnswer, ClosedResponse, Response, log_joint_draws
from bayesgen.records import by_content
from bayesgen.runtime import CACHE_ROWS, LATENT_CELLS, as_key, chunks, in_batches
from bayesgen.statistics import LOG_2PI
from bayesgen.typing import Float, Int, Seed

from .answers import ContinuousPrediction, joined
from .averages import average_of_draws

# Where log joints are parabolas in the response, it is normal in closed form.

PARABOLA_POINTS = np.array([-3.0, -1.0, 0.0, 1.5, 2.5])  # in standard deviations, not symmetric
ROUGHLY, CLOSELY = 1e-6, 1e-8  # of the curvature: residuals of the parabola, far away and near the mode
_VANDERMONDE = np.linalg.inv(np.vander(PARABOLA_POINTS, increasing=True))  # coefficients of powers 0 to 4


NormalAndLog: TypeAlias = tuple[NormalPredictive, Float[np.ndarray, "..."]]
"""Normal distributions, and logs of the integrals of the joints that are proportional to them."""


def as_normal(log_joint: LogFunction, num_rows: int, support: Support) -> NormalAndLog | None:
    """Normal distributions of y and log p(x), where the log joints of all rows are parabolas in y; else None.

    They are evaluated about the center of the training values, and again about the mode, until it converges.
    """
    if support.real_scale is None:
        return None
    center, unit, tolerance = *(np.full(num_rows, number) for number in support.real_scale), ROUGHLY
    for _ in range(8):
        normal = parabolas(log_joint, center, unit, tolerance)
        if normal is None:
            return None
        loc, scale = normal[0].loc, normal[0].scale
        moved = np.abs(loc - center) / scale + np.abs(np.log(scale / unit))
        if tolerance == CLOSELY and (moved < 0.1).all():
            return normal
        center, unit, tolerance = loc, scale, CLOSELY
    return None


def parabolas(
    log_joints: Callable[[Int[np.ndarray, " m"], Float[np.ndarray, " m"]], Float[np.ndarray, "*S m"]],
    center: Float[np.ndarray, " n"],
    unit: Float[np.ndarray, " n"],
    tolerance: float = CLOSELY,
) -> NormalAndLog | None:
    """Normal distributions by the parabolas through log joints at five points about a center in each row.

    None where a log joint is not on its parabola at all five points.
    """
    points = center + unit * PARABOLA_POINTS[:, None]
    logs = log_joints(np.tile(np.arange(len(center)), len(points)), points.ravel())
    logs = np.moveaxis(logs.reshape(*logs.shape[:-1], *points.shape), -2, 0)
    level = logs[2]  # at the center
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        constant, slope, half, *higher = np.tensordot(_VANDERMONDE, logs - level, 1)
        reach = np.abs(logs - level).max(0)
        digits = 64 * np.finfo(float).eps  # of log joints, and of y
        rounding = digits * (reach * (1 + np.abs(center / unit)) + np.abs(level))
        left = np.max(np.abs(higher), axis=0)
        fits = (half < 0) & (left <= tolerance * np.abs(half) + rounding) & np.isfinite(logs).all(0)
    if not fits.all():
        return None
    vertex, scale = -slope / (2 * half), np.sqrt(-0.5 / half)
    log_integral = level + constant - slope**2 / (4 * half) + np.log(scale * unit) + 0.5 * LOG_2PI
    return NormalPredictive(center + unit * vertex, unit * scale), log_integral


FAR = 1e6, 1e9  # in units: points by which the exponent of a tail is found


def as_student(log_joint: LogFunction, center: Float[np.ndarray, " n"], unit: Float[np.ndarray, " n"]) -> Any:
    """Student-t distributions of y and log p(x), where the log joints of all rows have their form; else None.

    Tails tell the degrees of freedom ν: the power -2 / (ν + 1) of the density is then a parabola.
    """
    rows = np.arange(len(center))
    far = np.multiply.outer([*FAR, *np.negative(FAR)], unit) + center
    near, further = log_joint(np.tile(rows, 4), far.ravel()).reshape(2, 2, -1).mean(0)
    with np.errstate(invalid="ignore"):  # beyond all numbers: NaN, and no Student-t
        exponent, level = (near - further) / np.log(FAR[1] / FAR[0]), log_joint(rows, center)

    def powers(places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        return -np.exp(-2 * (log_joint(places, values) - level[places]) / exponent[places])

    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        normal = parabolas(powers, center, unit) if (exponent > 1).all() else None
    if normal is None:
        return None
    loc, df = normal[0].loc, exponent - 1
    student = StudentTPredictive(df, loc, normal[0].scale * np.sqrt(-2 * powers(rows, loc) / df))
    return student, log_joint(rows, loc) - student.log_density(loc)


GRID_ROWS = 512  # evaluated on some hundreds of points each at once
SIMULATIONS, SIMULATED_ROWS = 8, 64  # by which the range of a response is found

ByProcess: TypeAlias = ClosedAnswer
"""p(y | x, Q) of each process, (S, n), or (n,) of one; and log p(x | Q), None where x is given and not modelled."""


@by_content
class ResponseProcesses:
    """Processes of a fit with a continuous label: one, or draws of its posterior.

    Attributes:
        fit: the fit.
        at: "mean", "mode" or, with the parameters integrated out, "predictive" of one process; None for draws.
        latents: site -> (draws, ...), batches of successive draws of one chain one after another.
        num_batches: number of batches.
        is_weighted: whether draws have weights p(x | Q), as in the one-step answer, or equal ones.
    """

    fit: Fit
    at: At | None
    latents: ParameterArrays = dataclasses.field(default_factory=dict)
    num_batches: int = 1
    is_weighted: bool = True

    @classmethod
    def drawn(cls, fit: Fit, is_weighted: bool, num_draws: int = 4000, seed: Seed = 0) -> "ResponseProcesses":
        """Draws from the posterior of a fit, this number or all where they come from chains."""
        batches = in_batches(fit.posterior.draws(num_draws, as_key(seed)))
        return cls(fit, None, chains_joined(batches), len(next(iter(batches.values()))), is_weighted)

    @property
    def num_processes(self) -> int:
        """S."""
        return 1 if self.at is not None else len(next(iter(self.latents.values())))

    @property
    def response(self) -> Response:
        """The response of the fit."""
        response = self.fit.concrete.response
        assert response is not None
        return response

    @property
    def closed(self) -> ClosedResponse | None:
        """The closed form of p(y | x) of the model."""
        conjugate = self.fit.concrete.column_blocks(self.fit.schema)
        return None if conjugate is None else conjugate.closed_response

    @functools.cached_property
    def parameters(self) -> ParameterArrays:
        """The draws in the coordinates that are reported."""
        return self.fit.program.parameters_of(self.latents)

    @property
    def rows_at_once(self) -> int:
        """Rows whose log joints are in memory at once: a power of two."""
        return 1 << int(math.log2(max(1, LATENT_CELLS // self.num_processes)))

    def answer(self, rows: Rows) -> ContinuousPrediction:
        """The prediction of rows, chunk by chunk; those of draws, and large grids, are made anew for each question."""
        return joined([self._answer(rows.take(part)) for part in _parts(rows.num_rows, self.rows_at_once)])

    def _answer(self, rows: Rows) -> ContinuousPrediction:
        in_closed_form = self._prediction(functools.partial(ResponseProcesses.in_closed_form, self, rows))
        if in_closed_form is not None:
            return in_closed_form
        support, answers = support_of(self.fit, rows), []
        for part in _parts(rows.num_rows, GRID_ROWS):
            chunk = rows.take(part), support.take(part)
            forms = ResponseProcesses.as_normals, ResponseProcesses.as_students
            closed = (self._prediction(functools.partial(form, self, *chunk)) for form in forms)
            answers.append(next((answer for answer in closed if answer is not None), None) or self.on_grid(*chunk))
        return joined(answers)

    def log_joints(self, rows: Rows) -> Float[np.ndarray, "S m"]:
        """log p(x, y | Q) of rows with a response."""
        if self.at is not None:
            return self.fit.posterior.log_joint(rows, self.at).T
        return np.asarray(log_joint_draws(self.fit.program.for_prediction, self.latents, rows))[..., 0]

    def log_joints_at(
        self, rows: Rows, row_indices: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "S m"]:
        """Log joints of rows at these places, with these values."""
        is_compiled = self.at is None or (self.closed is None and self.fit.posterior.is_compiled(self.at))
        # for each number of rows
        more = -len(row_indices) % (min(2 * CACHE_ROWS, self.rows_at_once) if is_compiled else 1)
        row_indices, values = (np.concatenate([array, np.repeat(array[:1], more)]) for array in (row_indices, values))
        return self.log_joints(self.response.put(rows.take(row_indices), values))[:, : len(row_indices) - more]

    def in_closed_form(self, rows: Rows) -> ByProcess | None:
        """p(y | x, Q) in closed form; log p(x | Q) is log p(x, y | Q) - log p(y | x, Q) at any y, if y makes x."""
        by_process = None if self.closed is None else self._components(self.closed, rows)
        if by_process is None or by_process[1] is not None or self.response.is_only_attribute(rows):
            return by_process
        components = by_process[0]
        if not self.response.is_parent:
            return components, self.log_joints(rows)
        center = np.atleast_2d(components.quantile(0.5)).mean(0)
        return components, self.log_joints(self.response.put(rows, center)) - components.log_density(center)

    def _components(self, closed: ClosedResponse, rows: Rows) -> ByProcess | None:
        if self.at is None:
            return closed.at(self.parameters, rows)
        assert isinstance(self.fit.posterior, ProcessPosterior)
        return self.fit.posterior.predictive_of_response(closed, rows, self.at)

    def as_normals(self, rows: Rows, support: Support) -> ByProcess | None:
        """Normal p(y | x, Q), and log p(x | Q); None where some log joint is no parabola in y."""
        if not rows.num_rows:
            return None
        process = ResponseProcesses(self.fit, self.at or "mean")
        normal = as_normal(LogMeanJoint.weighted(process, rows), rows.num_rows, support)
        if normal is not None and self.at is None:  # about those of the posterior mean
            normal = parabolas(functools.partial(self.log_joints_at, rows), normal[0].loc, normal[0].scale)
        return None if normal is None else (normal[0], self._if_modelled(rows, normal[1]))

    def as_students(self, rows: Rows, support: Support) -> ByProcess | None:
        """Student-t p(y | x), the parameters integrated out, and log p(x); None where it has another form."""
        if self.at != "predictive" or not rows.num_rows or not self.fit.posterior.can("mean"):
            return None
        at_mean = ResponseProcesses(self.fit, "mean").as_normals(rows, support)
        if at_mean is None:
            return None
        assert isinstance(at_mean[0], NormalPredictive)
        student = as_student(LogMeanJoint.weighted(self, rows), at_mean[0].loc, at_mean[0].scale)
        return None if student is None else (student[0], self._if_modelled(rows, student[1]))

    def _if_modelled(self, rows: Rows, log_marginals: Float[np.ndarray, "*S n"]) -> Float[np.ndarray, "S n"] | None:
        """log p(x | Q), or None where x is given."""
        return None if self.response.is_only_attribute(rows) else np.atleast_2d(log_marginals)

    def _prediction(self, find: Callable[[], ByProcess | None]) -> ContinuousPrediction | None:
        """The prediction by the distributions that a function finds, for draws by a mixture made anew on each query."""
        by_process = find()
        if by_process is None:
            return None
        components, log_marginals = by_process
        if self.at is not None:
            return ContinuousPrediction(components, None if log_marginals is None else log_marginals[0])
        mixture = self._mixture(lambda: by_process)
        again = functools.partial(ResponseProcesses._mixture, self, find)
        return self._averaged(deferred(again, mixture), mixture.means, log_marginals)

    def _mixture(self, find: Callable[[], ByProcess | None]) -> MixturePredictive:
        """The mixture of the distributions that a function finds."""
        by_process = find()
        assert by_process is not None
        return MixturePredictive(self._log_weights(by_process[1], by_process[0].num_rows), by_process[0])

    def _log_weights(self, log_marginals: Float[np.ndarray, "S n"] | None, num_rows: int) -> Float[np.ndarray, "S n"]:
        if log_marginals is None or not self.is_weighted:
            log_marginals = np.zeros((self.num_processes, num_rows))
        return log_marginals - scipy.special.logsumexp(log_marginals, axis=0)

    def quadrature(self, rows: Rows, support: Support) -> "tuple[LogMeanJoint, GridPredictive]":
        """The mean joint of rows, and its integrals over y."""
        joint = LogMeanJoint.weighted(self, rows)
        grid = joint.grid(support)
        for _ in range(0 if self.is_weighted else 2):  # panels that also suit draws of low p(x | Q)
            joint = LogMeanJoint(self, rows, self.moments(rows, grid)[0])
            grid = joint.grid(support)
        return joint, grid

    def on_grid(self, rows: Rows, support: Support) -> ContinuousPrediction:
        """The prediction by log joints alone, normalised by quadrature, as is p(x | Q) of each draw."""
        joint, grid = self.quadrature(rows, support)
        predictive = joint.within_memory(grid)
        if self.at is not None:
            is_given = self.response.is_only_attribute(rows)
            return ContinuousPrediction(predictive, None if is_given else grid.log_normalizer)
        log_marginals, means = self.moments(rows, grid)
        return self._averaged(predictive, means, self._if_modelled(rows, log_marginals))

    def moments(self, rows: Rows, grid: GridPredictive) -> tuple[Float[np.ndarray, "S n"], Float[np.ndarray, "S n"]]:
        """Log p(x | Q) and the mean of y of each draw, by the nodes of a grid."""
        log_marginals, means = np.empty((2, self.num_processes, rows.num_rows))
        for node_rows, values, log_weights in grid.nodes(self.rows_at_once // 2):
            logs = self.log_joints_at(rows, node_rows, values) + log_weights
            for row, first in zip(*np.unique(node_rows, return_index=True), strict=True):
                nodes = slice(first, first + np.count_nonzero(node_rows == row))
                log_marginals[:, row] = scipy.special.logsumexp(logs[:, nodes], axis=1)
                means[:, row] = np.exp(logs[:, nodes] - log_marginals[:, row, None]) @ values[nodes]
        return log_marginals, means

    def _averaged(
        self,
        predictive: PredictiveDistribution,
        means: Float[np.ndarray, "S n"],
        log_marginals: Float[np.ndarray, "S n"] | None,
    ) -> ContinuousPrediction:
        """The prediction by draws with its Monte Carlo error."""
        log_weights = self._log_weights(log_marginals, predictive.num_rows)
        error, k = average_of_draws(means, log_weights, self.num_batches)
        if log_marginals is None:
            return ContinuousPrediction(predictive, None, error)
        log_marginal = scipy.special.logsumexp(log_marginals, axis=0) - np.log(self.num_processes)
        return ContinuousPrediction(predictive, log_marginal, error, k if self.is_weighted else None)


def _parts(num_rows: int, size: int) -> list[slice]:
    """Successive rows, at least one part."""
    return chunks(num_rows, size) or [slice(0, 0)]


@by_content
class LogMeanJoint:
    """Log of the mean over processes of p(x, y | Q), each divided by a number for the process and the row.

    Attributes:
        processes: the processes.
        rows: the rows.
        log_divisors: zeros for weights p(x | Q); log p(x | Q) for equal weights.
    """

    processes: ResponseProcesses
    rows: Rows
    log_divisors: Float[np.ndarray, "S n"]

    @classmethod
    def weighted(cls, processes: ResponseProcesses, rows: Rows) -> "LogMeanJoint":
        """The log mean with the weights p(x | Q)."""
        return cls(processes, rows, np.zeros((processes.num_processes, rows.num_rows)))

    def __call__(self, places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        logs = [np.zeros(0)]
        for part in chunks(len(places), self.processes.rows_at_once):
            joints = self.processes.log_joints_at(self.rows, places[part], values[part])
            joints = joints - self.log_divisors[:, places[part]]
            logs.append(joints[0] if len(joints) == 1 else scipy.special.logsumexp(joints, axis=0))
        return np.concatenate(logs) - np.log(self.processes.num_processes)

    def grid(self, support: Support) -> GridPredictive:
        """Its normalised density."""
        return GridPredictive.of(self, self.rows.num_rows, support)

    def within_memory(self, grid: GridPredictive) -> PredictiveDistribution:
        """The grid. For 512 rows or more none is kept: it is computed again on each query, so memory stays bounded."""
        again = functools.partial(LogMeanJoint.grid, self, grid.support)
        return grid if self.rows.num_rows < GRID_ROWS else deferred(again, grid)


def support_of(fit: Fit, rows: Rows) -> Support:
    """The values that the response of rows may take; of a line with its training values, or some simulated ones."""
    support, trained = fit.concrete.response_support(rows), fit.schema.response
    if support.is_discrete:
        return WholeNumbers.of(support, rows.num_rows)
    if trained is not None and trained.mean is not None and trained.variance:
        spread = np.sqrt(trained.variance) * scipy.special.ndtri(np.arange(1, 100) / 100)
        return Line.of(support, trained.mean + spread)
    evenly = np.arange(SIMULATED_ROWS) * max(rows.num_rows, 1) // SIMULATED_ROWS
    covariates = rows.take(evenly).covariates if rows.num_rows else {
        name: np.ones((SIMULATED_ROWS, *value.shape[1:]), value.dtype) for name, value in rows.covariates.items()
    }  # fmt: skip
    assert fit.concrete.response is not None
    site = fit.concrete.response.site
    simulated = [fit.simulate_sites(SIMULATED_ROWS, seed=seed, **covariates)[site] for seed in range(SIMULATIONS)]
    return Line.of(support, np.concatenate(simulated).astype(np.float64))
