"""`ConceptPrediction`: whether queries belong to the concept, and how likely each is the next example."""

import dataclasses
import functools
import warnings

import numpy as np

from ..errors import BayesgenWarning, PredictionError
from ..prediction import BMA, PlugIn
from ..prediction.rule import answer
from .learner import ConceptFit


@dataclasses.dataclass(frozen=True, eq=False)
class ConceptPrediction:
    """Answers to n queries, in their order.

    Attributes:
        membership: (n,) probability that the query belongs to the concept.
        next_example: (n,) probability that the query is the next example; over the whole domain it sums to 1.
    """

    membership: np.ndarray
    next_example: np.ndarray


@answer.register
def _(fit: ConceptFit, rule, X):
    model, space = fit.model, fit.model.space
    weights = weights_by(rule, fit)
    used = np.flatnonzero(weights)
    held = space.extensions[np.ix_(used, space.positions(X, "queries"))]
    each = (1 - model.noise) * weights[used] / space.sizes[used]
    noise = model.noise / len(space.domain)
    return ConceptPrediction(weights[used] @ held, each @ held + noise)


@functools.singledispatch
def weights_by(rule, fit):
    """(H,) how much each hypothesis counts by a rule."""
    raise PredictionError(f"A concept is predicted by PlugIn() or BMA(), not by {type(rule).__name__}().")


@weights_by.register
def _(rule: BMA, fit):
    if fit.log_evidence is None:
        raise PredictionError("BMA averages over a posterior, and this is a point estimate. Fit with Exact().")
    return fit.weights


@weights_by.register
def _(rule: PlugIn, fit):
    if len(fit.ties) > 1:
        warnings.warn(
            f"The best hypotheses tie: {list(fit.ties)}. The first of them was taken; BMA() averages over all.",
            BayesgenWarning,
            stacklevel=5,
        )
    return np.asarray([name == fit.ties[0] for name in fit.model.space.names], np.float64)
