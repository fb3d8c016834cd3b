"""`ConceptPosterior`: how probable examples make the hypotheses, and a posterior of the hyperparameters."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from bayesgen.data import Rows
from bayesgen.errors import FitError
from bayesgen.posteriors import At, Parameters, Posterior
from bayesgen.records import by_content
from bayesgen.typing import Float, Int

from .learner import ConceptLearner
from .shared import SharedHyperparameters


@by_content
class Belief:
    """What one set of examples tells of its hypothesis.

    Attributes:
        log_weights: log posterior probabilities; of a point estimate, 0 for the hypothesis chosen and -inf else.
        noise: expectation of the noise, given each hypothesis, or a number where it is the same.
        ties: indices of the hypotheses that are equally good as the best; the first of them is the one chosen.
        log_evidence: log probability of the examples; None for point estimates and draws.
    """

    log_weights: Float[np.ndarray, " H"]
    noise: Float[np.ndarray, " H"] | float
    ties: Int[np.ndarray, " best"]
    log_evidence: float | None = None


@by_content
class ConceptPosterior(Posterior):
    """The hypotheses and hyperparameters of a learner after its examples.

    A hypothesis is to queries what elsewhere a class is to rows: its members are what it makes.

    Attributes:
        learner: the concept learner.
        beliefs: one for each set of examples.
        shared: what was learned of the hyperparameters that are distributions; None where there are none.
        is_estimate: whether one hypothesis was chosen, in place of weighing all.
    """

    learner: ConceptLearner
    beliefs: tuple[Belief, ...]
    shared: SharedHyperparameters | None = None
    is_estimate: bool = False
    has_draws = False
    refusals: ClassVar[Mapping[str, str]] = {
        "predictive": "BMA averages over a posterior, and this is a point estimate. Fit with Exact() or NUTS().",
        "draws": "Hypotheses are weighed, not drawn: see fit.weights. Draws of hyperparameters are in fit.parameters.",
    }

    @property
    def has_predictive(self) -> bool:  # type: ignore[override]
        """Whether there is a posterior to average over."""
        return not self.is_estimate

    @property
    def parameters(self) -> Parameters:
        """Hyperparameter -> draws (chain, draw), or its mode; empty where all of them are numbers."""
        return {} if self.shared is None else self.shared.parameters

    @property
    def sample_stats(self) -> Mapping[str, np.ndarray] | None:  # type: ignore[override]
        """What the sampler of the hyperparameters recorded, name -> (chain, draw); None where there was none."""
        return None if self.shared is None else self.shared.sample_stats

    @property
    def log_evidence(self) -> float | None:  # type: ignore[override]
        """Log probability of all examples, where that of each set is known."""
        values = [belief.log_evidence for belief in self.beliefs if belief.log_evidence is not None]
        return sum(values) if len(values) == len(self.beliefs) else None

    @property
    def point(self) -> ConceptLearner:
        """The learner with numbers for hyperparameters: their posterior means, or their mode."""
        return self.learner.at_mode({name: float(np.mean(value)) for name, value in self.parameters.items()})

    @property
    def belief(self) -> Belief:
        """That of the only set of examples.

        Raises:
            FitError: several sets.
        """
        if len(self.beliefs) > 1:
            raise FitError(
                f"This is a fit of {len(self.beliefs)} sets of examples. Take one of them: fit[0], for example."
            )
        return self.beliefs[0]

    def weights(self, at: At) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " H"] | float]:
        """How much each hypothesis counts, and the noise given each: all of them averaged, or the best at the point.

        Raises:
            PredictionError: an average over the hypotheses where one was chosen.
        """
        self.require(at)
        belief = self.belief
        if at == "predictive":
            return np.exp(belief.log_weights), belief.noise
        return (np.arange(len(belief.log_weights)) == belief.ties[0]).astype(np.float64), self.point.noise

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n H"]:
        """log p(next example = x_i, hypothesis = h); rows hold positions in the domain, of the site "query"."""
        weights, noise = self.weights(at)
        space = self.learner.space
        members = np.asarray(space.extensions)[:, rows.values["query"]].T
        with np.errstate(divide="ignore"):
            return np.log(weights * ((1 - noise) * members / space.sizes + noise / len(space.domain)))
