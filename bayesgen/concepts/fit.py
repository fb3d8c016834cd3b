"""`ConceptFit`, a trained concept learner, and `ConceptPrediction`, its answers to queries."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayesgen.data import Rows
from bayesgen.describe import amount, described
from bayesgen.errors import BayesgenWarning, FitError, PredictionError, warn
from bayesgen.fitting import Trained, fit
from bayesgen.posteriors import At, ParameterArrays, Posterior
from bayesgen.prediction import BMA, PlugIn, Rule, answer
from bayesgen.records import by_content
from bayesgen.typing import Float, Int, Seed

from .examples import Examples, read_examples
from .learner import ConceptLearner
from .marginal import SharedHyperparameters

if TYPE_CHECKING:
    import pandas as pd
    import xarray


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


@by_content
class ConceptPosterior(Posterior):
    """The posterior of the hypotheses and hyperparameters of a learner.

    Hypotheses take the place of classes, and queries that of rows.

    Attributes:
        learner: the concept learner.
        beliefs: the posterior of the hypothesis of each set of examples.
        shared: posterior of the hyperparameters that are distributions; None where there are none.
        is_estimate: whether it is a point estimate, one hypothesis.
    """

    learner: ConceptLearner
    beliefs: tuple[HypothesisPosterior, ...]
    shared: SharedHyperparameters | None = None
    is_estimate: bool = False
    has_draws = False
    refusals: ClassVar[Mapping[str, str]] = {
        "predictive": "BMA averages over a posterior, and this is a point estimate. Fit with Exact() or NUTS().",
        "draws": "Hypotheses are weighed, not drawn: see fit.weights. Draws of hyperparameters are in fit.parameters.",
    }

    @property
    def has_predictive(self) -> bool:  # type: ignore[override]
        return not self.is_estimate

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
        if len(self.beliefs) > 1:
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
    """A concept learner trained on examples of a concept, or of several that share hyperparameters.

    A fit of a list of sets is a sequence of fits, one a set: `fit[3].hypotheses`, `len(fit)`, `for each in fit`.

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

    def __repr__(self) -> str:
        return described(f"ConceptFit of {self.model!r}", self._lines())

    def _lines(self) -> dict[str, str | None]:
        """The lines of `repr`, by name."""
        positive = sum(examples.num_positive for examples in self.examples.sets)
        negative = sum(examples.num_negative for examples in self.examples.sets)
        means = [f"{name} {np.mean(value):.3f}" for name, value in self.parameters.items()]
        return {
            "method": repr(self.method),
            "sets of examples": str(len(self)) if self.examples.several else None,
            "examples": f"{positive}, and {negative} of what does not belong to it",
            "hypotheses": self._best_hypotheses(),
            "hyperparameters": ", ".join(means),
            "log evidence": amount(self.log_evidence),
            "next": f"predict(fit, queries, rule=...), fit{'[0]' if self.examples.several else ''}.hypotheses",
        }

    def _best_hypotheses(self) -> str | None:
        """The most probable hypotheses of the only set of examples."""
        if self.examples.several:
            return None
        best = [index for index in np.argsort(-self.log_weights, kind="stable")[:3] if self.weights[index] > 0]
        return ", ".join(f"{self.model.space.names[index]!r} {self.weights[index]:.3f}" for index in best)

    def __iter__(self) -> Iterator["ConceptFit"]:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        return len(self.beliefs)

    def __getitem__(self, index: int) -> "ConceptFit":
        one = dataclasses.replace(self.examples, sets=(self.examples.sets[index],), several=False)
        posterior = dataclasses.replace(self.posterior, beliefs=(self.beliefs[index],))
        return dataclasses.replace(self, examples=one, posterior=posterior)

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
        """Hyperparameter -> the end of its range, for those whose mode lies there (`MAP`)."""
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
        if self.examples.several:
            raise FitError(f"This is a fit of {len(self)} sets of examples. Take one of them: fit[0], for example.")
        return self.beliefs[0]

    @property
    def log_weights(self) -> Float[np.ndarray, " H"]:
        """Log posterior probabilities; of a point estimate, 0 for the chosen hypothesis and -inf else."""
        return self.belief.log_weights

    @property
    def weights(self) -> Float[np.ndarray, " H"]:
        """Posterior probabilities."""
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
        """The fit of these and more examples. For several sets: more of each; further ones are new sets."""
        examples = self.examples + read_examples(self.model, more, y)
        return fit(self.model, examples, method=self.method, seed=self.seed)


@by_content
class ConceptPrediction:
    """Predictions for n queries, in their order; from a fit of several sets of examples, a row for each set.

    Attributes:
        membership: (n,) or (sets, n), probability that the query belongs to the concept.
        next_example: (n,) or (sets, n), probability that the query is the next example: uniform over the concept, with
            probability 1 - noise, else over the domain. Over the whole domain it sums to 1.
    """

    membership: np.ndarray
    next_example: np.ndarray

    def __repr__(self) -> str:
        shape = self.membership.shape
        sets = f" for {shape[0]} sets of examples" if len(shape) > 1 else ""
        lines: dict[str, str | None] = {"next": "answer.membership, answer.next_example"}
        if self.membership.size:
            low, high = self.membership.min(), self.membership.max()
            lines = {"membership": f"{low:.3f} to {high:.3f}, mean {self.membership.mean():.3f}", **lines}
        return described(f"ConceptPrediction of {shape[-1]} queries{sets}", lines)


@answer.register
def _(fit: ConceptFit, rule: Rule, X: Any) -> ConceptPrediction:
    places = fit.model.space.positions(X, "queries")
    if not fit.examples.several:
        return ConceptPrediction(*_predictions(fit, rule, places))
    of_sets = [_predictions(of_set, rule, places) for of_set in fit]
    return ConceptPrediction(*(np.stack(rows) for rows in zip(*of_sets, strict=True)))


def _predictions(
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
