"""`ConceptLearner`: a concept of a finite space that generates examples, as a NumPyro program."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesgen.errors import ModelError
from bayesgen.program import Model
from bayesgen.records import record, static
from bayesgen.statistics import namespace, safe_product
from bayesgen.typing import Array, Float, Real

from .prior import Hyperparameter, Number, check_hyperparameter, sample_values, unknown
from .space import HypothesisSpace

# The likelihood of examples.
#
# A positive example comes from the extension h, with probability 1 - noise, else from the domain; a negative one from
# the complement, else from the domain. Under strong sampling each member of the extension (complement) is equally
# probable, 1 / size. Under weak sampling a member of the domain is drawn, 1 / D, and shown only if it is in the
# extension (complement); so the probabilities of shown examples do not sum to 1, nor do those of negative examples of a
# hypothesis that holds the whole domain. The rest is the probability that nothing is shown.

# sampling -> the numbers of members that a positive and a negative example are drawn from
SAMPLING = {
    "strong": lambda sizes, num_members: (sizes, num_members - sizes),
    "weak": lambda sizes, num_members: (num_members + 0 * sizes, num_members + 0 * sizes),
}


@record
class ExampleCounts:
    """Numbers of examples that hypotheses explain, all arrays of one shape.

    Attributes:
        sizes: number of members of the hypothesis.
        held: number of positive examples in its extension.
        avoided: number of negative examples outside of it.
        unexplained: number of all other examples, which only noise explains.
    """

    sizes: Real[Array, "*H"]
    held: Real[Array, "*H"]
    avoided: Real[Array, "*H"]
    unexplained: Real[Array, "*H"]

    @classmethod
    def of(cls, space: Any, examples: Any) -> "ExampleCounts":
        """The counts of one set of examples for each hypothesis, (H,)."""
        held = space.extensions.held(examples.positive)
        avoided = examples.num_negative - space.extensions.held(examples.negative)
        unexplained = examples.num_positive + examples.num_negative - held - avoided
        return cls(space.sizes, held, avoided, unexplained)


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


def log_prob_of_examples(counts: ExampleCounts, noise: Number, sampling: str, num_members: int) -> Float[Array, "*H"]:
    """Log probability of examples, in the shape of the counts."""
    xp = namespace(noise, counts.sizes)
    with np.errstate(divide="ignore"):
        inside, outside, background = (
            xp.log(probability) for probability in example_probabilities(counts.sizes, noise, sampling, num_members)
        )
    return (
        safe_product(counts.held, inside)
        + safe_product(counts.avoided, outside)
        + safe_product(counts.unexplained, background)
    )


if TYPE_CHECKING:
    from .fit import ConceptFit as ConceptFit


@record
class ConceptLearner(Model["ConceptFit"]):
    """A concept from a finite space, learned from examples.

    Generative story::

        hyperparameters ~ their priors, where they have any
        hypothesis      ~ Categorical(space.prior)
        example         ~ Uniform(members of the hypothesis), with probability 1 - noise; else Uniform(domain)
        counterexample  ~ Uniform(all others),                with probability 1 - noise; else Uniform(domain)

    Args:
        space: the hypotheses.
        sampling: "strong": examples are drawn from the concept, so small concepts explain them better; "weak": drawn
            from the domain and found to be members, independently of the size.
        noise: probability that an example is any member of the domain, from 0 to 1; or a NumPyro distribution of it.

    `bayesgen.fit` takes examples, a sequence of members of the domain, as X. Where some are not members of the
    concept, y holds True or False for each. A list of sequences is taken as sets of examples: each has a hypothesis of
    its own, and all share the hyperparameters.

    Called inside NumPyro's handlers, the learner makes examples of one concept: the sites `hypothesis`, `examples`
    and `counterexamples` hold positions in `space.names` and `space.domain`. The value D, one beyond the domain,
    means that nothing was shown, as for most draws under weak sampling.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 3.2; Tenenbaum (1999), A Bayesian framework
    for concept learning.

    >>> import bayesgen as bg
    >>> learner = ConceptLearner(bg.number_game("murphy"))
    >>> fit = bg.fit(learner, [16, 8, 2, 64], method=bg.Exact())
    >>> fit.hypotheses["hypothesis"][0]
    'powers of 2'
    >>> fit = bg.fit(learner, [16, 64, 10], [True, True, False], method=bg.Exact())
    >>> fit.hypotheses["hypothesis"][0]
    'powers of 4'
    """

    space: HypothesisSpace
    sampling: str = static(default="strong")
    noise: Hyperparameter = 0.0

    def __hash__(self) -> int:
        """A hash of the space and the sampling."""
        return hash((self.space, self.sampling))

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLING:
            raise ModelError(f"sampling must be one of {list(SAMPLING)}, got {self.sampling!r}.")
        if not isinstance(self.space, HypothesisSpace):
            raise ModelError(f"space must be a HypothesisSpace, such as number_game() gives, got {self.space!r}.")
        check_hyperparameter("noise", self.noise, 0, 1, closed=True)
        if "noise" in self.space.hyperparameters:
            raise ModelError("A hyperparameter of the space cannot be called 'noise': that name is taken.")

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        """All hyperparameters by name: numbers or distributions."""
        return {**self.space.hyperparameters, "noise": self.noise}

    @property
    def unknown(self) -> dict[str, dist.Distribution]:
        """The hyperparameters that are distributions, by name."""
        return unknown(self.hyperparameters)

    @property
    def is_noisy(self) -> bool:
        """Whether positive examples may lie outside of the concept."""
        return isinstance(self.noise, dist.Distribution) or self.noise > 0

    def at(self, **values: Hyperparameter) -> "ConceptLearner":
        """The same learner with numbers for some of its hyperparameters."""
        noise = values.pop("noise", self.noise)
        return dataclasses.replace(self, space=self.space.at(**values), noise=noise)

    def at_mode(self, values: Mapping[str, float]) -> "ConceptLearner":
        """The same learner with the numbers of a mode, name -> number, which may be ends of ranges."""
        others = {name: value for name, value in values.items() if name != "noise"}
        return dataclasses.replace(self, space=self.space.at_mode(others), noise=values.get("noise", self.noise))

    def __call__(self, num_examples: int, num_counterexamples: int = 0) -> None:
        """Generate examples of one concept, inside NumPyro's handlers."""
        values = sample_values(self.hyperparameters)
        space, size = self.space, len(self.space.domain)
        log_prior = jnp.asarray(space.log_prior(values))
        hypothesis = numpyro.sample("hypothesis", dist.Categorical(logits=log_prior))
        members = jnp.unpackbits(jnp.asarray(space.extensions.rows)[hypothesis], count=size).astype(bool)
        inside, outside, background = example_probabilities(
            jnp.asarray(space.sizes, log_prior.dtype)[hypothesis], values["noise"], self.sampling, size
        )
        _draw("examples", num_examples, jnp.where(members, inside, background))
        _draw("counterexamples", num_counterexamples, jnp.where(members, background, outside))


def _draw(name: str, size: int, probabilities: Float[Array, " D"]) -> None:
    """Draw members of the domain; the rest of the probability is that nothing is shown."""
    if size:
        rest = jnp.maximum(1 - probabilities.sum(), 0.0)
        with numpyro.plate(f"{name}_plate", size):
            numpyro.sample(name, dist.Categorical(probs=jnp.append(probabilities, rest)))
