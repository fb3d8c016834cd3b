"""`ConceptPrediction`: whether queries belong to the concept, and how likely each is the next example."""

import dataclasses
import functools

import numpy as np

from bayesgen.describe import described
from bayesgen.errors import BayesgenWarning, PredictionError, warn
from bayesgen.fitting import MAP, MLE
from bayesgen.prediction import BMA, PlugIn, answer

from .fit import ConceptFit


@dataclasses.dataclass(frozen=True, eq=False)
class ConceptPrediction:
    """Answers to n queries, in their order; from a fit of several sets of examples, a row for each set.

    Attributes:
        membership: (n,) or (sets, n), probability that the query belongs to the concept.
        next_example: (n,) or (sets, n), probability that the query is the next example: a member of the concept, all of
            them equally probable, or noise. Over the whole domain it sums to 1.
    """

    membership: np.ndarray
    next_example: np.ndarray

    def __repr__(self) -> str:
        shape = self.membership.shape
        sets = f" for {shape[0]} sets of examples" if len(shape) > 1 else ""
        facts: dict[str, str | None] = {"next": "answer.membership, answer.next_example"}
        if self.membership.size:
            low, high = self.membership.min(), self.membership.max()
            facts = {"membership": f"{low:.3f} to {high:.3f}, mean {self.membership.mean():.3f}", **facts}
        return described(f"ConceptPrediction of {shape[-1]} queries{sets}", facts)


@answer.register
def _(fit: ConceptFit, rule, X):
    places = fit.model.space.positions(X, "queries")
    if not fit.examples.several:
        return ConceptPrediction(*_answers(fit, rule, places))
    each = [_answers(one, rule, places) for one in fit]
    return ConceptPrediction(*(np.stack(rows) for rows in zip(*each, strict=True)))


def _answers(fit, rule, places):
    """Membership and next example of members of the domain."""
    space = fit.model.space
    weights, noise = belief_by(rule, fit)
    membership = space.extensions.weigh(weights)
    next_example = space.extensions.weigh(weights * (1 - noise) / space.sizes) + (weights * noise).sum() / len(
        space.domain
    )
    return membership[places], next_example[places]


@functools.singledispatch
def belief_by(rule, fit):
    """How much each hypothesis counts by a rule, (H,), and the noise: a number, or given each hypothesis."""
    raise PredictionError(f"A concept is predicted by PlugIn() or BMA(), not by {type(rule).__name__}().")


@belief_by.register
def _(rule: BMA, fit):
    if isinstance(fit.method, MLE | MAP):
        raise PredictionError(
            "BMA averages over a posterior, and this is a point estimate. Fit with Exact() or NUTS()."
        )
    return fit.weights, fit.belief.noise


@belief_by.register
def _(rule: PlugIn, fit):
    """The hypothesis of highest weight, and the noise at its mode or posterior mean."""
    if len(fit.ties) > 1:
        warn(
            f"The best hypotheses tie: {list(fit.ties)}. The first of them in the space was taken, {fit.ties[0]!r}; "
            "BMA() averages over all.",
            BayesgenWarning,
        )
    return (np.arange(len(fit.model.space.names)) == fit.belief.ties[0]).astype(np.float64), fit.point.noise
