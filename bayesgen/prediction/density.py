"""`DensityPrediction`: densities of new rows, where no class of theirs can be asked for."""

from typing import NoReturn

import numpy as np

from bayesgen.describe import described
from bayesgen.errors import PredictionError
from bayesgen.records import by_content
from bayesgen.typing import Float


@by_content
class DensityPrediction:
    """Densities of n new rows under what has no classes: a program with label=None, an average over mixtures.

    Attributes:
        log_marginal: log p(x), as the rule has it; -inf for a row that is impossible.
        without_classes: why there are no class probabilities, in words.
        device: "cpu" or "gpu", where it was computed.
    """

    log_marginal: Float[np.ndarray, " n"]
    without_classes: str
    device: str = "cpu"

    def __repr__(self) -> str:
        values = self.log_marginal
        facts = {
            "log density": f"{values.min():,.6g} to {values.max():,.6g}, mean {values.mean():,.6g}"
            if len(values)
            else None,
            "next": "answer.log_marginal",
        }
        return described(f"DensityPrediction of {len(values)} rows", facts)

    @property
    def probabilities(self) -> NoReturn:
        """Refused, in words."""
        raise PredictionError(self.without_classes)

    @property
    def log_probabilities(self) -> NoReturn:
        """Refused, in words."""
        raise PredictionError(self.without_classes)

    @property
    def labels(self) -> NoReturn:
        """Refused, in words."""
        raise PredictionError(self.without_classes)
