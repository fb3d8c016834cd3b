"""`Trained`: what all that training gives has in common."""

from collections.abc import Mapping
from typing import Any, Generic

import numpy as np

from bayesgen.labels import Answered
from bayesgen.posteriors import Posterior
from bayesgen.records import by_content


@by_content
class Trained(Generic[Answered]):
    """What training gives, whatever the model: what was learned of it, and by which method.

    Its type says what predictions are, for type checkers and editors: `Trained["ClassPrediction"]`.

    Attributes:
        model: the model as the user gave it.
        method: the training method.
        posterior: what was learned.
    """

    model: Any
    method: Any
    posterior: Posterior

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """name -> array: the point, the posterior mean, or draws (chain, draw, ...)."""
        return self.posterior.parameters

    @property
    def log_evidence(self) -> float | None:
        """Log probability of the training data for `Exact` (and averages over structures), else None."""
        return self.posterior.log_evidence

    @property
    def is_sampled(self) -> bool:
        """Whether it holds draws from Markov chains."""
        return self.posterior.is_sampled

    @property
    def sample_stats(self) -> Mapping[str, np.ndarray] | None:
        """What the sampler recorded, name -> (chain, draw); None where there was no sampler."""
        return self.posterior.sample_stats
