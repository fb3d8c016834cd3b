"""What a fit says of a response: p(y | x) by one process, with parameters integrated out, or averaged over draws."""

import dataclasses
import functools

import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.fitting import Fit
from bayesgen.models import ClosedResponse
from bayesgen.posteriors import At, Parameters, ProcessPosterior, chains_joined
from bayesgen.program import log_joint_draws
from bayesgen.runtime import as_key, chunks
from bayesgen.statistics import DeferredOutcomes, MixtureOutcomes
from bayesgen.typing import Float, Seed

from .batches import ratio_error
from .continuous import ContinuousPrediction, joined_answers
from .reliability import tail_indices

AVERAGED_NUMBERS = 1 << 21  # of draws x rows that are held at once
NUM_BATCHES = 100


def closed_response(fit: Fit) -> ClosedResponse | None:
    """What the model tells of its response in closed form."""
    conjugate = fit.concrete.conjugate(fit.schema)
    return None if conjugate is None else conjugate.closed_response


def by_process(fit: Fit, rows: Rows, at: At) -> ContinuousPrediction:
    """p(y | x, Q) at a process, or the predictive p(y | x, T) of an exact fit."""
    closed, posterior = closed_response(fit), fit.posterior
    assert closed is not None and isinstance(posterior, ProcessPosterior)
    outcomes = posterior.outcomes(closed, rows, at)
    assert outcomes is not None
    return ContinuousPrediction(outcomes, log_marginal(fit, rows, at))


def log_marginal(fit: Fit, rows: Rows, at: At) -> Float[np.ndarray, " n"] | None:
    """log p(x); None where x is given, and nothing but the response is modelled."""
    response = fit.concrete.response
    assert response is not None
    return None if response.is_alone(rows) else fit.posterior.log_joint(rows, at)[:, 0]


@dataclasses.dataclass(frozen=True)
class DrawsOfResponse:
    """Processes that are averaged over.

    Attributes:
        fit: the fit.
        closed: p(y | x, Q) in closed form.
        latents: site -> (draws, ...).
        parameters: the same in the coordinates that are reported.
        weighs: whether a draw weighs by p(x | Q), as in the one-step answer; else all count alike.
    """

    fit: Fit
    closed: ClosedResponse
    latents: Parameters
    parameters: Parameters
    weighs: bool

    @classmethod
    def of(cls, fit: Fit, weighs: bool, num_draws: int = 4000, seed: Seed = 0) -> "DrawsOfResponse":
        """So many draws from the posterior of a fit, or all there are where they come from chains."""
        closed = closed_response(fit)
        assert closed is not None
        latents = chains_joined(fit.posterior.draws(num_draws, as_key(seed)))
        return cls(fit, closed, latents, fit.program.parameters_of(latents), weighs)

    @property
    def num_draws(self) -> int:
        """How many there are."""
        return len(next(iter(self.latents.values())))

    def log_marginals(self, rows: Rows) -> Float[np.ndarray, "draws n"] | None:
        """log p(x | Q_s); None where x is given, and nothing but the response is modelled."""
        response = self.fit.concrete.response
        assert response is not None
        if response.is_alone(rows):
            return None
        return np.asarray(log_joint_draws(self.fit.program, self.latents, rows))[..., 0]

    def mixture(self, rows: Rows) -> MixtureOutcomes:
        """p(y | x) of a few rows, as a mixture of what the draws say."""
        return self._mixture(rows, self.log_marginals(rows) if self.weighs else None)

    def _mixture(self, rows: Rows, log_marginals: Float[np.ndarray, "draws n"] | None) -> MixtureOutcomes:
        components = self.closed.at(self.parameters, rows)
        assert components is not None
        if log_marginals is None or not self.weighs:
            log_marginals = np.zeros((self.num_draws, rows.num_rows))
        return MixtureOutcomes(log_marginals - scipy.special.logsumexp(log_marginals, axis=0), components)

    def answer(self, rows: Rows) -> ContinuousPrediction:
        """The answer for rows, chunk by chunk: the distributions of draws are made anew whenever they are asked."""
        places = chunks(rows.num_rows, max(1, AVERAGED_NUMBERS // self.num_draws)) or [slice(0, 0)]
        return joined_answers([self._answer(rows.take(part)) for part in places])

    def _answer(self, rows: Rows) -> ContinuousPrediction:
        logs = self.log_marginals(rows)
        mixture = self._mixture(rows, logs)
        return ContinuousPrediction(
            DeferredOutcomes(functools.partial(self.mixture, rows), mixture.mean, mixture.std),
            None if logs is None else scipy.special.logsumexp(logs, axis=0) - np.log(self.num_draws),
            _error_of_mean(mixture.means, mixture.weights),
            None if logs is None or not self.weighs else _tails(logs, mixture.weights),
        )


def _error_of_mean(
    means: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, "draws n"]
) -> Float[np.ndarray, " n"]:
    """Monte Carlo standard error of the weighted mean, from means of successive draws."""
    size = max(1, len(means) // NUM_BATCHES)
    used = len(means) // size * size
    center = (weights * means).sum(0)
    parts, totals = (
        array[:used].reshape(-1, size, array.shape[1]).mean(1) for array in (weights * (means - center), weights)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(ratio_error(parts[:, None], totals)[0])


def _tails(logs: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, " n"]:
    """Pareto's k of the weights of draws."""
    effective = 1 / (weights**2).sum(0)
    mean = scipy.special.logsumexp(logs, axis=0)
    return tail_indices(lambda places: logs[:, places, None], mean[:, None], effective[:, None], len(logs))
