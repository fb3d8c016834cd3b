"""p(y | x) of a continuous label as a mixture over draws of a posterior."""

import functools

import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.fitting import Fit
from bayesgen.models import ClosedResponse
from bayesgen.posteriors import ParameterArrays, chains_joined
from bayesgen.predictives import (
    DeferredPredictive,
    GridPredictive,
    MixturePredictive,
    NormalPredictive,
    PredictiveDistribution,
    predictive_on_grid,
)
from bayesgen.program import log_joint_draws
from bayesgen.records import by_content
from bayesgen.runtime import as_key, chunks, in_batches
from bayesgen.typing import Float, Int, Seed

from .batches import ratio_error, tail_indices
from .continuous import ContinuousPrediction, joined_continuous_predictions
from .responses import (
    PARABOLA_POINTS,
    by_process,
    closed_response,
    kept_or_deferred,
    line_of,
    parabola_points,
    parabolas,
    response_of,
)

AVERAGED_NUMBERS = 1 << 21  # of draws x rows in memory at once


@by_content
class DrawsOfResponse:
    """Draws of a posterior for predictions of a continuous label.

    Attributes:
        fit: the fit.
        closed: p(y | x, Q) in closed form, where there is one.
        latents: site -> (draws, ...), batches of successive draws of one chain one after another.
        parameters: the draws in the coordinates that are reported.
        num_batches: number of batches.
        weighted: whether draws have weights p(x | Q), as in the one-step answer, or equal ones.
    """

    fit: Fit
    closed: ClosedResponse | None
    latents: ParameterArrays
    parameters: ParameterArrays
    num_batches: int
    weighted: bool

    @classmethod
    def of(cls, fit: Fit, weighted: bool, num_draws: int = 4000, seed: Seed = 0) -> "DrawsOfResponse":
        """Draws from the posterior of a fit, this number or all where they come from chains."""
        batches = in_batches(fit.posterior.draws(num_draws, as_key(seed)))
        latents, num_batches = chains_joined(batches), len(next(iter(batches.values())))
        return cls(fit, closed_response(fit), latents, fit.program.parameters_of(latents), num_batches, weighted)

    @property
    def num_draws(self) -> int:
        """The number of draws."""
        return len(next(iter(self.latents.values())))

    def answer(self, rows: Rows) -> ContinuousPrediction:
        """The prediction of rows, chunk by chunk; the distributions of draws are recomputed when they are needed."""
        places = chunks(rows.num_rows, max(1, AVERAGED_NUMBERS // self.num_draws)) or [slice(0, 0)]
        return joined_continuous_predictions([self._answer(rows.take(part)) for part in places])

    def _answer(self, rows: Rows) -> ContinuousPrediction:
        by_draw = self.by_draw(rows)
        if by_draw is None:
            return self._on_grid(rows)
        mixture = self._mixture(*by_draw)
        predictive = DeferredPredictive(
            functools.partial(DrawsOfResponse.mixture, self, rows), mixture.mean, mixture.std
        )
        return self._averaged(predictive, mixture.means, by_draw[1])

    def mixture(self, rows: Rows) -> MixturePredictive:
        """p(y | x) of a few rows, as a mixture over draws of closed forms."""
        by_draw = self.by_draw(rows)
        assert by_draw is not None
        return self._mixture(*by_draw)

    def _mixture(
        self, components: PredictiveDistribution, log_marginals: Float[np.ndarray, "draws n"] | None
    ) -> MixturePredictive:
        return MixturePredictive(self._log_weights(log_marginals, components.num_rows), components)

    def _log_weights(
        self, log_marginals: Float[np.ndarray, "draws n"] | None, num_rows: int
    ) -> Float[np.ndarray, "draws n"]:
        if log_marginals is None or not self.weighted:
            log_marginals = np.zeros((self.num_draws, num_rows))
        return log_marginals - scipy.special.logsumexp(log_marginals, axis=0)

    def _averaged(
        self,
        predictive: PredictiveDistribution,
        means: Float[np.ndarray, "draws n"],
        log_marginals: Float[np.ndarray, "draws n"] | None,
    ) -> ContinuousPrediction:
        """The prediction with its Monte Carlo error."""
        weights = np.exp(self._log_weights(log_marginals, predictive.num_rows))
        logs = log_marginals
        return ContinuousPrediction(
            predictive,
            None if logs is None else scipy.special.logsumexp(logs, axis=0) - np.log(self.num_draws),
            _error_of_mean(means, weights, self.num_batches),
            None if logs is None or not self.weighted else _tails(logs, weights),
        )

    def by_draw(self, rows: Rows) -> tuple[PredictiveDistribution, Float[np.ndarray, "draws n"] | None] | None:
        """p(y | x, Q) of each draw, and log p(x | Q) (None where x is given); None without a closed form."""
        components = None if self.closed is None else self.closed.at(self.parameters, rows)
        if components is None:
            return self._parabolas(rows)
        response = response_of(self.fit)
        if response.is_only_attribute(rows):
            return components, None
        if not response.is_parent:
            return components, self.log_joints(rows)
        center = components.mean.mean(0)
        return components, self.log_joints(response.put(rows, center)) - components.log_density(center)

    def log_joints(self, rows: Rows) -> Float[np.ndarray, "draws n"]:
        """Log joints of rows under each draw."""
        return np.asarray(log_joint_draws(self.fit.program, self.latents, rows))[..., 0]

    def _parabolas(self, rows: Rows) -> tuple[NormalPredictive, Float[np.ndarray, "draws n"] | None] | None:
        """Normal distributions, where the log joints of all draws and rows are parabolas in y; else None."""
        if not line_of(self.fit, rows).is_real or not rows.num_rows:
            return None
        at_mean, size = by_process(self.fit, rows, "mean"), rows.num_rows
        if not isinstance(at_mean.outcomes, NormalPredictive):
            return None
        points = parabola_points(at_mean.mean, at_mean.std)
        candidates = response_of(self.fit).put(
            rows.take(np.tile(np.arange(size), len(PARABOLA_POINTS))), points.ravel()
        )
        logs = self.log_joints(candidates).reshape(self.num_draws, len(PARABOLA_POINTS), size).swapaxes(0, 1)
        found = parabolas(logs, at_mean.mean, at_mean.std)
        if not found.fits.all():
            return None
        log_marginals = None if response_of(self.fit).is_only_attribute(rows) else found.log_integral
        return NormalPredictive(found.loc, found.scale), log_marginals

    def _on_grid(self, rows: Rows) -> ContinuousPrediction:
        """The mixture by its log density, normalised by quadrature, as is p(x | Q) of each draw."""
        line, size = line_of(self.fit, rows), rows.num_rows
        no_normalizers = np.zeros((self.num_draws, size))
        joint = LogMixtureDensity(self, rows, no_normalizers)
        grid, _ = predictive_on_grid(joint, size, line)
        log_marginals, means = self._moments(rows, grid)
        if not self.weighted:
            for _ in range(2):  # panels that also suit draws of low p(x | Q)
                joint = LogMixtureDensity(self, rows, log_marginals)
                grid, _ = predictive_on_grid(joint, size, line)
                log_marginals, means = self._moments(rows, grid)
        known = None if response_of(self.fit).is_only_attribute(rows) else log_marginals
        return self._averaged(kept_or_deferred(grid, joint, line, 1), means, known)

    def _moments(
        self, rows: Rows, grid: GridPredictive
    ) -> tuple[Float[np.ndarray, "draws n"], Float[np.ndarray, "draws n"]]:
        """Log p(x | Q) and the mean of y of each draw, by the nodes of a grid."""
        log_marginals, means = np.full((2, self.num_draws, rows.num_rows), -np.inf)
        for row in range(rows.num_rows):
            values, log_weights = grid.nodes_of(row)
            if len(values):
                logs = self.log_joints_at(rows, np.full(len(values), row), values) + log_weights
                log_marginals[:, row] = scipy.special.logsumexp(logs, axis=1)
                shares = np.exp(logs - log_marginals[:, row, None])
                means[:, row] = shares @ values
        return log_marginals, means

    def log_joints_at(
        self, rows: Rows, places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "draws m"]:
        """Log joints of rows at these places, with these values."""
        size = max(len(places), 1)
        more = (1 << (size - 1).bit_length()) - len(places)  # few sizes, as the program is compiled for each
        places, values = (np.concatenate([array, np.repeat(array[:1], more)]) for array in (places, values))
        return self.log_joints(response_of(self.fit).put(rows.take(places), values))[:, : len(places) - more]


@by_content
class LogMixtureDensity:
    """Log of the mean over draws of p(x, y | Q), each divided by a number for the draw and the row.

    Attributes:
        draws: the draws.
        rows: the rows.
        log_divisors: zeros for the one-step answer; log p(x | Q) where draws have equal weights.
    """

    draws: DrawsOfResponse
    rows: Rows
    log_divisors: Float[np.ndarray, "draws n"]

    def __call__(self, places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        parts = chunks(len(places), max(1, AVERAGED_NUMBERS // self.draws.num_draws))
        return np.concatenate([np.zeros(0), *(self._of_few(places[part], values[part]) for part in parts)])

    def _of_few(self, places: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        logs = self.draws.log_joints_at(self.rows, places, values) - self.log_divisors[:, places]
        return scipy.special.logsumexp(logs, axis=0) - np.log(len(logs))


def _error_of_mean(
    means: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, "draws n"], num_batches: int
) -> Float[np.ndarray, " n"]:
    """Monte Carlo standard error of the weighted mean, from means of batches of draws."""
    center = (weights * means).sum(0)
    shape = (num_batches, len(means) // num_batches, means.shape[1])
    parts, totals = (array.reshape(shape).mean(1) for array in (weights * (means - center), weights))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(ratio_error(parts[:, None], totals)[0])


def _tails(logs: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, " n"]:
    """Pareto's k of the weights of draws."""
    effective = 1 / (weights**2).sum(0)
    mean = scipy.special.logsumexp(logs, axis=0)
    return tail_indices(lambda places: logs[:, places, None], mean[:, None], effective[:, None], len(logs))[0]
