"""`Draws`: draws from the posterior by Markov chains."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpyro.distributions import constraints

from bayesgen.models import Conjugate, Densities
from bayesgen.program import GenerativeProgram
from bayesgen.records import by_content
from bayesgen.typing import Float, PRNGKeyArray

from .base import Exported, Parameters, ProcessPosterior, chains_joined
from .components import UnnamedComponents, warn_of_switching
from .convergence import FEWEST_DRAWS, Entries

DENSITIES = 200  # of draws that are averaged over where each makes arrays of its own
CHOLESKY = tuple(
    type(support)
    for support in (
        constraints.corr_cholesky,
        constraints.lower_cholesky,
        constraints.scaled_unit_lower_cholesky,
        constraints.softplus_lower_cholesky,
    )
)


@by_content
class Draws(ProcessPosterior):
    """Draws from the posterior by Markov chains.

    Attributes:
        program: the bound program.
        latents: site -> (chain, draw, ...).
        values: parameter -> (chain, draw, ...), covariances in place of Cholesky factors.
        sample_stats: name -> (chain, draw), what the sampler recorded.
        components: what the draws are judged by where they are of a mixture whose components are exchangeable, and are
            in no order yet; else None.
    """

    program: GenerativeProgram
    latents: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    sample_stats: dict[str, Any]
    components: UnnamedComponents | None = None
    conjugate = None
    is_sampled = True
    has_mode = False
    has_predictive = False
    refusals: ClassVar[Mapping[str, str]] = {
        "mode": "Draws do not tell the posterior mode. Use PlugIn(at='mean'), or fit with MAP() and use PlugIn().",
        "predictive": "Draws have no closed-form predictive; use rule=BMA(), which averages over them.",
    }

    @functools.cached_property
    def described(self) -> str:
        """How many draws there are, and how well the chains agree."""
        diverging = self.sample_stats["diverging"]
        chains, draws = diverging.shape
        text = f"{chains} chains of {draws}, {diverging.sum()} divergent"
        if draws < FEWEST_DRAWS or not any(np.ptp(value) > 0 for value in self.judged.values()):
            return text
        entries = Entries.of(self.judged)
        agreement = f", R-hat at most {entries.rhats.max():.3f}" if chains > 1 else ""
        return f"{text}{agreement}, bulk ESS at least {entries.sizes.min():,.0f}"

    @property
    def has_order(self) -> bool:
        """Unless components are exchangeable, and not put in one order yet."""
        return self.components is None

    @property
    def judged(self) -> dict[str, np.ndarray]:
        """What tells whether chains agree: the parameters, or what does not depend on the names of components."""
        return self.values if self.components is None else self.components.invariants

    @property
    def parameters(self) -> Parameters:
        """The draws."""
        return self.values

    @functools.cached_property
    def mean(self) -> Parameters:
        """Means of the draws; of Cholesky factors L, the factor of the mean of L L^T.

        Warns of components in no order, whose mean is that of all of them.
        """
        if not self.has_order:
            warn_of_switching()
        supports = self.program.latent_supports
        return {
            name: _mean_factor(value) if isinstance(supports.get(name), CHOLESKY) else np.asarray(value.mean((0, 1)))
            for name, value in self.values.items()
        }

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        """Those at some of the draws, at even distances."""
        flat = chains_joined(self.values)
        total = len(next(iter(flat.values())))
        chosen = np.linspace(0, total - 1, min(total, DENSITIES)).round().astype(int)
        return [conjugate.densities_at({name: value[index] for name, value in flat.items()}) for index in chosen]

    def _draws(self, num_draws: int, key: PRNGKeyArray) -> Parameters:
        return self.latents

    def exported(self, num_draws: int, key: PRNGKeyArray) -> Exported:
        """The chains, and what the sampler recorded under ArviZ's names."""
        return Exported.of_chains(self.values, self.sample_stats)


def _mean_factor(factors: Float[np.ndarray, "chains draws *batch D D"]) -> Float[np.ndarray, "*batch D D"]:
    """The Cholesky factor of the mean of L L^T over the chains and draws.

    The mean is A A^T, where A has the factors beside each other; A^T = Q R gives R^T without squaring anything.
    """
    *_, dimension = factors.shape
    draws = np.moveaxis(factors.reshape(-1, *factors.shape[2:]), 0, -3)
    side_by_side = np.swapaxes(draws, -1, -2).reshape(*factors.shape[2:-2], -1, dimension)
    lower = np.swapaxes(np.linalg.qr(side_by_side / draws.shape[-3] ** 0.5, mode="r"), -1, -2)
    return lower * np.sign(np.diagonal(lower, axis1=-2, axis2=-1))[..., None, :]
