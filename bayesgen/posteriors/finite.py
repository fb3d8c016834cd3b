"""`FinitePosterior`: the exact posterior of a program with discrete latents that all rows share, by enumeration."""

import functools
import operator
from collections.abc import Mapping

import jax
import numpy as np
import scipy.special

from bayesgen.describe import free_name, quote_some
from bayesgen.errors import PredictionError
from bayesgen.program import ClosedProgram
from bayesgen.records import by_content, fill
from bayesgen.typing import Float

from .base import ParameterArrays, ParameterSummaries
from .closed import ClosedPosterior

NO_MEAN = (
    "The program has the discrete latents {}, which have no mean. Use PlugIn(at='mode'), the most probable process, or "
    "BMA(), which weighs all values."
)


@by_content
class FinitePosterior(ClosedPosterior):
    """A finite mixture: the weight of each joint value of the discrete latents, and the posterior of others given it.

    Parameters have the joint values as first axis.
    """

    is_weighted = True

    @property
    def refusals(self) -> Mapping[str, str]:
        return {"mean": NO_MEAN.format(quote_some(self.values))}

    @functools.cached_property
    def log_evidence(self) -> float | None:  # type: ignore[override]
        return None if self.closed.rest else float(scipy.special.logsumexp(self.closed.solution.log_integral))

    @property
    def values(self) -> ParameterArrays:
        """Discrete latent -> its value in each joint value."""
        return self.program.structure.finite_values

    @property
    def weights(self) -> Float[np.ndarray, " J"]:
        """Posterior probability of each joint value."""
        return np.exp(self.closed.log_weights)

    @property
    def parameters(self) -> ParameterArrays:
        """The joint values, the means of other latents given each, and the weights."""
        num_values = len(self.weights)
        points = {n: np.broadcast_to(v, (num_values, *np.shape(v))) for n, v in self.closed.rest.items()}
        values = {**points, **self.closed.solution.mean, **self.values}
        return {
            **{name: np.asarray(values[name]) for name in self.program.latents},
            free_name("weight", values): self.weights,
        }

    @property
    def mean(self) -> ParameterArrays:
        raise PredictionError(self.refusals["mean"])

    def numbers(self, prob: float) -> ParameterSummaries:
        """Each joint value with its weight, and the other latents given it."""
        arrays = {name: self.parameters[name] for name in self.program.latents}
        weights = {name: self.weights.reshape(-1, *(1,) * (v.ndim - 1)) + 0 * v for name, v in arrays.items()}
        if not self.program.structure.latents:
            return {"weight": weights, "value": arrays}
        columns = [self._given(index).numbers(prob) for index in range(len(self.weights))]
        return {"weight": weights} | {
            label: {name: np.stack([numbers[label][name] for numbers in columns]) for name in weights}
            for label in columns[0]
        }

    def _given(self, index: int) -> ClosedPosterior:
        """The posterior given one joint value."""
        values, solution = jax.tree.map(operator.itemgetter(index), (self.values, self.closed.solution))
        return ClosedPosterior(fill(self.closed.given(values), solution=solution))


def closed_posterior(closed: ClosedProgram) -> ClosedPosterior:
    """The posterior of a program whose latents are integrated out, discrete ones or none among them."""
    return ClosedPosterior(closed) if closed.finite is None else FinitePosterior(closed)
