"""What a fit holds: a point, a conjugate posterior, or draws."""

import dataclasses
import functools
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from bayesgen.errors import PredictionError
from bayesgen.models import Conjugate
from bayesgen.program import Evidence, GenerativeProgram
from bayesgen.runtime import generator

from .base import Exported, ProgramState
from .closed import closed_table
from .convergence import FEWEST_DRAWS, Entries

CHOLESKY = tuple(
    type(support)
    for support in (
        constraints.corr_cholesky,
        constraints.lower_cholesky,
        constraints.scaled_unit_lower_cholesky,
        constraints.softplus_lower_cholesky,
    )
)
ARVIZ_NAMES = {"num_steps": "n_steps", "accept_prob": "acceptance_rate"}


@dataclasses.dataclass(frozen=True)
class Point(ProgramState):
    """One process, which is its own mean and mode.

    Attributes:
        program: the bound program.
        values: parameters by name.
        conjugate: the model's blocks, where it has any.
    """

    program: GenerativeProgram
    values: dict[str, np.ndarray]
    conjugate: Conjugate | None = None

    @property
    def parameters(self):
        """The point."""
        return self.values

    @property
    def mean(self):
        """The point."""
        return self.values

    @property
    def mode(self):
        """The point."""
        return self.values

    def predictive(self, attributes, covariates):
        """A point has none."""
        raise PredictionError(
            "BMA averages over a posterior, and this is a point estimate (MLE or MAP). Fit with Exact() or NUTS(), or "
            "predict with PlugIn()."
        )

    def draws(self, num_draws, key):
        """A point has none."""
        raise PredictionError(
            "This is a point estimate (MLE or MAP), which has no draws to average over. Fit with Exact() or NUTS(), or "
            "predict with PlugIn()."
        )

    def exported(self, num_draws, key):
        """The point as one draw."""
        return Exported(
            {"point_estimate": {name: np.asarray(v)[None, None] for name, v in self.values.items()}}, "none"
        )


@dataclasses.dataclass(frozen=True)
class Posterior(ProgramState):
    """The exact posterior over processes, in closed form.

    Attributes:
        program: the bound program.
        conjugate: the posterior: updated families.
        prior: the families before.
        evidence: the data that they were updated with.
    """

    program: GenerativeProgram
    conjugate: Conjugate
    prior: Conjugate
    evidence: Evidence

    @functools.cached_property
    def log_evidence(self):  # type: ignore[override]
        """log p(X, y), in closed form."""
        return self.prior.log_evidence(self.evidence)

    @property
    def parameters(self):
        """Posterior means."""
        return self.mean

    @functools.cached_property
    def mean(self):
        """Posterior means."""
        return self.conjugate.mean()

    @functools.cached_property
    def mode(self):
        """The joint mode, by families."""
        return self.conjugate.mode()

    @functools.cached_property
    def _predictive(self):
        return self.conjugate.predictive_densities()

    def predictive(self, attributes, covariates):
        """The closed form."""
        return closed_table(self._predictive, attributes)

    def draws(self, num_draws, key):
        """Independent draws, as one chain."""
        return self.program.latents_of(self.conjugate.sample((1, num_draws), generator(key)))

    def exported(self, num_draws, key):
        """Independent draws, as four chains."""
        return Exported({"posterior": self.conjugate.sample((4, num_draws), generator(key))}, "independent")


@dataclasses.dataclass(frozen=True)
class Draws(ProgramState):
    """Draws from the posterior by Markov chains.

    Attributes:
        program: the bound program.
        latents: site -> (chain, draw, ...).
        values: parameter -> (chain, draw, ...), covariances in place of Cholesky factors.
        sample_stats: name -> (chain, draw), what the sampler recorded.
    """

    program: GenerativeProgram
    latents: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    sample_stats: dict[str, Any]
    conjugate = None

    @functools.cached_property
    def described(self) -> str:
        """How many draws there are, and how well the chains agree."""
        diverging = self.sample_stats["diverging"]
        chains, draws = diverging.shape
        text = f"{chains} chains of {draws}, {diverging.sum()} divergent"
        if draws < FEWEST_DRAWS or not any(np.ptp(value) > 0 for value in self.values.values()):
            return text
        entries = Entries.of(self.values)
        agreement = f", R-hat at most {entries.rhats.max():.3f}" if chains > 1 else ""
        return f"{text}{agreement}, bulk ESS at least {entries.sizes.min():,.0f}"

    @property
    def parameters(self):
        """The draws."""
        return self.values

    @functools.cached_property
    def mean(self):
        """Means of the draws; of Cholesky factors L, the factor of the mean of L L^T."""
        supports = self.program.latent_supports
        return {
            name: _mean_factor(value) if isinstance(supports.get(name), CHOLESKY) else value.mean((0, 1))
            for name, value in self.values.items()
        }

    @property
    def mode(self):
        """Not known."""
        raise PredictionError(
            "Draws do not tell the posterior mode. Use PlugIn(at='mean'), or fit with MAP() and use PlugIn()."
        )

    def predictive(self, attributes, covariates):
        """Not in closed form."""
        raise PredictionError("Draws have no closed-form predictive; use rule=BMA(), which averages over them.")

    def draws(self, num_draws, key):
        """All draws (`num_draws` is for posteriors that can make as many as one likes)."""
        return self.latents

    def exported(self, num_draws, key):
        """The chains, and what the sampler recorded under ArviZ's names."""
        stats = {ARVIZ_NAMES.get(name, name): value for name, value in self.sample_stats.items()}
        stats["lp"] = -stats.pop("potential_energy")  # the log density, up to a constant
        return Exported({"posterior": self.values, "sample_stats": stats}, "chains")


def _mean_factor(factors: np.ndarray) -> np.ndarray:
    """The Cholesky factor of the mean of L L^T over the first two axes, (..., D, D).

    The mean is A A^T, where A has the factors beside each other; A^T = Q R gives R^T without squaring anything.
    """
    *_, dimension = factors.shape
    draws = np.moveaxis(factors.reshape(-1, *factors.shape[2:]), 0, -3)
    side_by_side = np.swapaxes(draws, -1, -2).reshape(*factors.shape[2:-2], -1, dimension)
    lower = np.swapaxes(np.linalg.qr(side_by_side / draws.shape[-3] ** 0.5, mode="r"), -1, -2)
    return lower * np.sign(np.diagonal(lower, axis1=-2, axis2=-1))[..., None, :]
