"""How probable examples are under a hypothesis: one formula, for hypotheses and for groups of them.

A positive example comes from the extension h, with probability 1 - noise, else from the domain; a negative one from the
complement, else from the domain. Under strong sampling each member of the extension (complement) is equally probable,
1 / size. Under weak sampling a member of the domain is drawn, 1 / D, and shown only if it is in the extension
(complement); so the probabilities of what is shown do not sum to 1, and nor do they for negative examples of a
hypothesis that leaves nothing out. The rest is the probability that nothing is shown.
"""

from typing import Any

import numpy as np

from bayesgen.records import record
from bayesgen.statistics import namespace, safe_product
from bayesgen.typing import Array, Float, Real

from .hyperparameters import Number

# sampling -> the numbers of members that a positive and a negative example are drawn from
SAMPLING = {
    "strong": lambda sizes, num_members: (sizes, num_members - sizes),
    "weak": lambda sizes, num_members: (num_members + 0 * sizes, num_members + 0 * sizes),
}


@record
class Tally:
    """How examples fall with hypotheses, all arrays of one shape.

    Attributes:
        sizes: number of members of the hypothesis.
        held: number of positive examples in its extension.
        avoided: number of negative examples outside of it.
        strays: number of examples that are neither, so that only noise explains them.
    """

    sizes: Real[Array, "*H"]
    held: Real[Array, "*H"]
    avoided: Real[Array, "*H"]
    strays: Real[Array, "*H"]

    @classmethod
    def of(cls, space: Any, examples: Any) -> "Tally":
        """The tally of one set of examples for each hypothesis, (H,)."""
        held = space.extensions.held(examples.positive)
        avoided = examples.num_negative - space.extensions.held(examples.negative)
        strays = examples.num_positive + examples.num_negative - held - avoided
        return cls(space.sizes, held, avoided, strays)


def example_probabilities(
    sizes: Real[Array, "*H"], noise: Number, sampling: str, num_members: int
) -> tuple[Real[Array, "*H"], Real[Array, "*H"], Number]:
    """Probability of each member as next example: (a positive one inside, a negative one outside, any other)."""
    xp = namespace(noise, sizes)
    positive, negative = SAMPLING[sampling](sizes, num_members)
    background = noise / num_members
    inside = (1 - noise) / positive + background
    outside = (1 - noise) / xp.maximum(negative, 1) + background  # with an empty complement nothing is outside
    return inside, outside, background


def log_likelihood(tally: Tally, noise: Number, sampling: str, num_members: int) -> Float[Array, "*H"]:
    """Log probability of examples, in the shape of the tally."""
    xp = namespace(noise, tally.sizes)
    with np.errstate(divide="ignore"):
        inside, outside, background = (
            xp.log(probability) for probability in example_probabilities(tally.sizes, noise, sampling, num_members)
        )
    return (
        safe_product(tally.held, inside) + safe_product(tally.avoided, outside) + safe_product(tally.strays, background)
    )
