"""`ConceptLearner`, a concept of a finite space that generates examples; what it learns, and its answers to queries."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesgen.data import Rows
from bayesgen.describe import Described, Description, amount, stated
from bayesgen.errors import BayesgenWarning, DataError, FitError, ModelError, PredictionError, warn
from bayesgen.fitting import Method, Trained, datatree, fit, sampler_statistics
from bayesgen.posteriors import At, ParameterArrays, Posterior
from bayesgen.prediction import BMA, PlugIn, Rule, answer
from bayesgen.program import Model
from bayesgen.records import by_content, record, static
from bayesgen.typing import Array, Float, Int, Seed

from .examples import SAMPLING, Examples, example_probabilities, read_examples
from .prior import Hyperparameter, check_hyperparameters, unknown
from .space import HypothesisSpace

if TYPE_CHECKING:
    import pandas as pd
    import xarray


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
        sampling: "strong": examples are drawn from the concept, so that small concepts explain them better; "weak":
            examples are drawn from the domain, and only show that they are members, so that the size does not matter.
        noise: probability, from 0 to 1, that an example is drawn from the whole domain; or its NumPyro distribution.

    `bayesgen.fit` takes examples, a sequence of members of the domain, as X. Where some examples are counterexamples, y
    is True for members of the concept and False for the others. A list of sequences is a list of sets of examples: each
    set has its own hypothesis, and all share the hyperparameters.

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
    why_not_compared = "are concept learners, which have none. Use fit and predict, and score the memberships."

    def __hash__(self) -> int:
        """A hash of the space and the sampling."""
        return hash((self.space, self.sampling))

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, str) or self.sampling not in SAMPLING:
            raise ModelError(f"sampling must be one of {list(SAMPLING)}, got {self.sampling!r}.")
        if not isinstance(self.space, HypothesisSpace):
            raise ModelError(f"space must be a HypothesisSpace, such as number_game() gives, got {self.space!r}.")
        check_hyperparameters({"noise": self.noise}, {"noise": (0, 1)}, closed=True)
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
        space_values = {name: value for name, value in values.items() if name != "noise"}
        return dataclasses.replace(self, space=self.space.at_mode(space_values), noise=values.get("noise", self.noise))

    def __call__(self, num_examples: int, num_counterexamples: int = 0) -> None:
        """Generate examples of one concept, inside NumPyro's handlers."""
        values = self.hyperparameters | {name: numpyro.sample(name, prior) for name, prior in self.unknown.items()}
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
        nothing_shown = jnp.maximum(1 - probabilities.sum(), 0.0)
        with numpyro.plate(f"{name}_plate", size):
            numpyro.sample(name, dist.Categorical(probs=jnp.append(probabilities, nothing_shown)))


@by_content
class SharedHyperparameters:
    """The posterior of the hyperparameters that all sets of examples share: draws, or the mode.

    Attributes:
        parameters: name -> draws (chain, draw), or one number.
        method: the training method.
        attributes: how they were found, by name.
        sample_stats: name -> (chain, draw), statistics of the sampler; None where there was no sampler.
    """

    parameters: dict[str, Float[np.ndarray, "..."]]
    method: Method
    attributes: dict[str, Any]
    sample_stats: dict[str, np.ndarray] | None = None

    @property
    def boundary(self) -> dict[str, float]:
        """Name -> the end of its range, for those whose mode lies there."""
        return self.attributes.get("boundary", {})

    def to_datatree(self) -> "xarray.DataTree":
        """An `xarray.DataTree`, for ArviZ."""
        if self.sample_stats is None:
            point = {name: np.asarray(value)[None, None] for name, value in self.parameters.items()}
            groups = {"point_estimate": point}
        else:
            groups = {"posterior": dict(self.parameters), "sample_stats": sampler_statistics(self.sample_stats)}
        return datatree(groups, {}, {}, self.attributes | {"method": repr(self.method)})


@by_content
class HypothesisPosterior:
    """The posterior of the hypothesis of one set of examples.

    Attributes:
        log_weights: log posterior probabilities; of a point estimate, 0 for the chosen hypothesis and -inf else.
        noise: posterior mean of the noise given each hypothesis, or a number where all are equal.
        ties: indices of the best hypotheses; a point estimate chooses the first.
        log_evidence: log probability of the examples; None for point estimates and draws.
    """

    log_weights: Float[np.ndarray, " H"]
    noise: Float[np.ndarray, " H"] | float
    ties: Int[np.ndarray, " best"]
    log_evidence: float | None = None


NOT_DRAWN = "Hypotheses are weighed, not drawn: see fit.weights. Draws of hyperparameters are in fit.parameters."
A_POINT = "BMA averages over a posterior, and this is a point estimate. Fit with Exact() or NUTS()."


@by_content
class ConceptPosterior(Posterior):
    """The posterior of the hypotheses and hyperparameters of a learner.

    Hypotheses take the place of classes, and queries that of rows.

    Attributes:
        learner: the concept learner.
        beliefs: the posterior of the hypothesis of each set of examples.
        shared: posterior of the hyperparameters that are distributions; None where there are none.
        is_point: whether it is a point estimate, one hypothesis.
        several: whether a list of sets was given, not the examples of one concept.
    """

    learner: ConceptLearner
    beliefs: tuple[HypothesisPosterior, ...]
    shared: SharedHyperparameters | None = None
    is_point: bool = False  # type: ignore[misc]
    several: bool = False

    @property
    def refusals(self) -> Mapping[str, str]:
        """Draws; and the predictive of a point estimate."""
        return {"draws": NOT_DRAWN} | ({"predictive": A_POINT} if self.is_point else {})

    @property
    def parameters(self) -> ParameterArrays:
        """Hyperparameter -> draws (chain, draw), or its mode; empty where all of them are numbers."""
        return {} if self.shared is None else self.shared.parameters

    @property
    def sample_stats(self) -> Mapping[str, np.ndarray] | None:  # type: ignore[override]
        """Statistics of the sampler of the hyperparameters, name -> (chain, draw); None where there was none."""
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
    def belief(self) -> HypothesisPosterior:
        """The posterior of the hypothesis of the only set of examples.

        Raises:
            FitError: several sets.
        """
        if self.several:
            raise FitError(
                f"This is a fit of {len(self.beliefs)} sets of examples. Take one of them: fit[0], for example."
            )
        return self.beliefs[0]

    def weights(self, at: At) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " H"] | float]:
        """Weights of the hypotheses, and the noise given each: posterior probabilities, or 1 for the best at the point.

        Raises:
            PredictionError: an average over hypotheses, of a point estimate.
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


@by_content
class ConceptFit(Trained["ConceptPrediction"]):
    """A concept learner trained on examples of one concept, or of several concepts that share hyperparameters.

    A fit of several sets of examples is a sequence of fits, one for each set: `len(fit)`, `fit[3].hypotheses`.

    Attributes:
        model: the learner.
        method: the training method.
        posterior: weights of the hypotheses for each set of examples, and the fit of the hyperparameters.
        examples: the training data.
        seed: integer or JAX key.
    """

    model: ConceptLearner
    posterior: ConceptPosterior
    examples: Examples
    seed: Seed = dataclasses.field(default=0, compare=False)

    def _description(self) -> Description:
        sets, several = self.examples.sets, self.examples.several
        positive = sum(examples.num_positive for examples in sets)
        negative = sum(examples.num_negative for examples in sets)
        best = [] if several else np.argsort(-self.log_weights, kind="stable")[:3].tolist()
        hypotheses = [f"{self.model.space.names[at]!r} {self.weights[at]:.3f}" for at in best if self.weights[at] > 0]
        lines = {
            "method": self.method_in_words,
            "sets of examples": str(len(self)) if several else None,
            "examples": f"{positive}, and {negative} of what does not belong to it",
            "hypotheses": ", ".join(hypotheses),
            "hyperparameters": ", ".join(f"{name} {np.mean(value):.3f}" for name, value in self.parameters.items()),
            "log evidence": amount(self.log_evidence),
            "next": f"predict(fit, queries, rule=...), fit{'[0]' if several else ''}.hypotheses",
        }
        return f"ConceptFit of {stated(self.model)}", lines

    def __iter__(self) -> Iterator["ConceptFit"]:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        return len(self.beliefs)

    def __getitem__(self, index: int) -> "ConceptFit":
        examples = Examples((self.examples.sets[index],), several=False)
        posterior = dataclasses.replace(self.posterior, beliefs=(self.beliefs[index],), several=False)
        return dataclasses.replace(self, examples=examples, posterior=posterior)

    def scores_left_out(self, X: Any, y: Any, is_plain: bool) -> Float[np.ndarray, "2 n"]:
        """Ratios of evidences with an example and without: given the other examples of its set, and given all."""
        if self.log_evidence is None or not is_plain:
            raise PredictionError(
                "Examples of a concept are left out one at a time, of Exact() fits, with rule=BMA(), folds=None and no "
                f"sample_weight. This is a fit by {self.method!r}."
            )
        if read_examples(self.model.space, X, y) != self.examples:
            raise DataError("X= and y= are not the examples that this fit was trained on. Give the training examples.")
        several, scores = self.examples.several, []
        labels = [None] * len(self) if y is None else y if several else [y]
        for fit_of_set, members, belongs in zip(self, X if several else [X], labels, strict=True):
            examples = list(zip(members, [True] * len(members) if belongs is None else belongs, strict=True))
            for place, (member, label) in enumerate(examples):
                remaining = np.array([*examples[:place], *examples[place + 1 :]], object).reshape(-1, 2)
                without = fit(self.model, remaining[:, 0].tolist(), remaining[:, 1].tolist(), method=self.method)
                twice = fit_of_set.update([member], [label])
                scores.append(np.diff([without.log_evidence, fit_of_set.log_evidence, twice.log_evidence]))
        return np.array(scores).T

    @property
    def shared(self) -> SharedHyperparameters | None:
        """The posterior of the hyperparameters that are distributions; None where there are none."""
        return self.posterior.shared

    @property
    def point(self) -> ConceptLearner:
        """The learner with numbers for hyperparameters: their posterior means, or their mode."""
        return self.posterior.point

    @property
    def boundary(self) -> dict[str, float]:
        """Hyperparameters whose mode is at an end of their range (`MAP`): name -> this end."""
        return {} if self.shared is None else self.shared.boundary

    def to_datatree(self) -> "xarray.DataTree":
        """The hyperparameters as an `xarray.DataTree`, for ArviZ."""
        if self.shared is None:
            raise FitError("All hyperparameters are numbers, so there is nothing to export: see fit.hypotheses.")
        return self.shared.to_datatree()

    @property
    def beliefs(self) -> tuple[HypothesisPosterior, ...]:
        """The posterior of the hypothesis of each set of examples."""
        return self.posterior.beliefs

    @property
    def belief(self) -> HypothesisPosterior:
        """The posterior of the hypothesis of the only set of examples."""
        return self.posterior.belief

    @property
    def log_weights(self) -> Float[np.ndarray, " H"]:
        """Log posterior probabilities of the hypotheses; under a point estimate 0 for the chosen one, else -inf."""
        return self.belief.log_weights

    @property
    def weights(self) -> Float[np.ndarray, " H"]:
        """Posterior probabilities of the hypotheses."""
        return np.exp(self.log_weights)

    @property
    def ties(self) -> tuple[str, ...]:
        """Names of the best hypotheses; a point estimate chooses the first."""
        return tuple(self.model.space.names[index] for index in self.belief.ties)

    @property
    def hypotheses(self) -> "pd.DataFrame":
        """A pandas frame of hypotheses, sizes, priors (at `point`) and posterior weights, the most probable first."""
        import pandas as pd

        space = self.point.space
        columns = {"hypothesis": space.names, "size": space.sizes, "prior": space.prior, "weight": self.weights}
        return pd.DataFrame(columns).sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def update(self, more: Any, y: Any = None) -> "ConceptFit":
        """The fit of the training examples and more. Where there are several sets: more of each, and then new sets."""
        examples = self.examples + read_examples(self.model.space, more, y)
        return fit(self.model, examples, method=self.method, seed=self.seed)


@by_content
class ConceptPrediction(Described):
    """Predictions for n queries, in their order; from a fit of several sets of examples, a row for each set.

    Attributes:
        membership: (n,) or (sets, n), probability that the query belongs to the concept.
        next_example: (n,) or (sets, n), probability that the query is the next example: uniform over the concept, with
            probability 1 - noise, else over the domain. Over the whole domain it sums to 1.
    """

    membership: np.ndarray
    next_example: np.ndarray

    def _description(self) -> Description:
        shape = self.membership.shape
        sets = f" for {shape[0]} sets of examples" if len(shape) > 1 else ""
        lines: dict[str, str | None] = {"next": "answer.membership, answer.next_example"}
        if self.membership.size:
            low, high = self.membership.min(), self.membership.max()
            lines = {"membership": f"{low:.3f} to {high:.3f}, mean {self.membership.mean():.3f}", **lines}
        return f"ConceptPrediction of {shape[-1]} queries{sets}", lines


@answer.register
def _(fit: ConceptFit, rule: Rule, X: Any) -> ConceptPrediction:
    queries, several = fit.model.space.positions(X, "queries"), fit.examples.several
    tables = [_predictions(fit_of_set, rule, queries) for fit_of_set in (fit if several else [fit])]
    return ConceptPrediction(*(np.stack(rows) if several else rows[0] for rows in zip(*tables, strict=True)))


def _predictions(
    fit: ConceptFit, rule: Rule, queries: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Membership and next-example probabilities of members of the domain, given by their positions."""
    space = fit.model.space
    weights, noise = fit.posterior.weights(_process(fit, rule))
    membership = space.extensions.weigh(weights)
    next_example = space.extensions.weigh(weights * (1 - noise) / space.sizes) + (weights * noise).sum() / len(
        space.domain
    )
    return membership[queries], next_example[queries]


def _process(fit: ConceptFit, rule: Rule) -> At:
    """The process of a rule: the best hypothesis, or the average over all."""
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
