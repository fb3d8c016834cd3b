"""`ConceptPrediction`: whether queries belong to the concept, and how likely each is the next example."""

from typing import Any

import numpy as np

from bayesgen.describe import described
from bayesgen.errors import BayesgenWarning, PredictionError, warn
from bayesgen.posteriors import At
from bayesgen.prediction import BMA, PlugIn, Rule, answer
from bayesgen.records import by_content
from bayesgen.typing import Float, Int

from .fit import ConceptFit


@by_content
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
def _(fit: ConceptFit, rule: Rule, X: Any) -> ConceptPrediction:
    places = fit.model.space.positions(X, "queries")
    if not fit.examples.several:
        return ConceptPrediction(*_answers(fit, rule, places))
    of_sets = [_answers(of_set, rule, places) for of_set in fit]
    return ConceptPrediction(*(np.stack(rows) for rows in zip(*of_sets, strict=True)))


def _answers(
    fit: ConceptFit, rule: Rule, places: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Membership and next example of members of the domain."""
    space = fit.model.space
    weights, noise = fit.posterior.weights(_process(fit, rule))
    membership = space.extensions.weigh(weights)
    next_example = space.extensions.weigh(weights * (1 - noise) / space.sizes) + (weights * noise).sum() / len(
        space.domain
    )
    return membership[places], next_example[places]


def _process(fit: ConceptFit, rule: Rule) -> At:
    """Whether a rule takes the best hypothesis or averages over all."""
    match rule:
        case BMA():
            return "predictive"
        case PlugIn():
            if len(fit.ties) > 1:
                warn(
                    f"The best hypotheses tie: {list(fit.ties)}. The first of them in the space was taken, "
                    f"{fit.ties[0]!r}; BMA() averages over all.",
                    BayesgenWarning,
                )
            return rule.at
    raise PredictionError(f"A concept is predicted by PlugIn() or BMA(), not by {type(rule).__name__}().")
