"""`ConceptFit`: what was learned of concepts."""

import dataclasses
from typing import Any

import numpy as np

from bayesgen.describe import amount, described
from bayesgen.errors import FitError
from bayesgen.fitting import Fit, fit

from .examples import Examples, read_examples
from .learner import ConceptLearner


@dataclasses.dataclass(frozen=True, eq=False)
class Belief:
    """What one set of examples tells of its hypothesis.

    Attributes:
        log_weights: (H,) log posterior probabilities; of a point estimate, 0 for the hypothesis chosen and -inf else.
        noise: expectation of the noise, given each hypothesis: (H,), or a number where it is the same.
        ties: indices of the hypotheses that are equally good as the best; the first of them is the one chosen.
        log_evidence: log probability of the examples; None for point estimates and draws.
    """

    log_weights: np.ndarray
    noise: Any
    ties: np.ndarray
    log_evidence: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class ConceptFit:
    """What was learned of a concept, or of several that share hyperparameters.

    A fit of a list of sets is a sequence of fits, one a set: `fit[3].hypotheses`, `len(fit)`, `for each in fit`.

    Attributes:
        model: the learner.
        method: the training method.
        examples: the training data.
        beliefs: one for each set of examples.
        shared: the fit of the hyperparameters that are distributions; None where there are none.
        seed: integer or JAX key.
    """

    model: ConceptLearner
    method: Any
    examples: Examples
    beliefs: tuple[Belief, ...]
    shared: Fit | None = None
    seed: Any = 0

    def __repr__(self) -> str:
        return described(f"ConceptFit of {self.model!r}", self._facts())

    def _facts(self):
        """What `repr` tells, by name."""
        positive = sum(one.num_positive for one in self.examples.sets)
        negative = sum(one.num_negative for one in self.examples.sets)
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

    def _best_hypotheses(self):
        """The most probable ones, of the one set of examples."""
        if self.examples.several:
            return None
        best = [index for index in np.argsort(-self.log_weights, kind="stable")[:3] if self.weights[index] > 0]
        return ", ".join(f"{self.model.space.names[index]!r} {self.weights[index]:.3f}" for index in best)

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    def __len__(self):
        return len(self.beliefs)

    def __getitem__(self, index) -> "ConceptFit":
        one = dataclasses.replace(self.examples, sets=(self.examples.sets[index],), several=False)
        return dataclasses.replace(self, examples=one, beliefs=(self.beliefs[index],))

    # --- the hyperparameters -------------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Hyperparameter -> draws (chain, draw), or its mode; empty where all of them are numbers."""
        return {} if self.shared is None else self.shared.parameters

    @property
    def point(self) -> ConceptLearner:
        """The learner with numbers for hyperparameters: their posterior means, or their mode."""
        return self.model.at_mode({name: float(np.mean(value)) for name, value in self.parameters.items()})

    @property
    def boundary(self) -> dict[str, float]:
        """Hyperparameter -> the end of its range, for those whose mode lies there (`MAP`)."""
        return {} if self.shared is None else self.shared.attributes.get("boundary", {})

    @property
    def sample_stats(self):
        """What the sampler recorded, name -> (chain, draw); None where there was no sampler."""
        return None if self.shared is None else self.shared.sample_stats

    def to_datatree(self):
        """The hyperparameters as an `xarray.DataTree`, for ArviZ."""
        if self.shared is None:
            raise FitError("All hyperparameters are numbers, so there is nothing to export: see fit.hypotheses.")
        return self.shared.to_datatree()

    # --- the hypotheses ------------------------------------------------------------------------------------------

    @property
    def belief(self) -> Belief:
        """That of the one set of examples."""
        if self.examples.several:
            raise FitError(f"This is a fit of {len(self)} sets of examples. Take one of them: fit[0], for example.")
        return self.beliefs[0]

    @property
    def log_weights(self) -> np.ndarray:
        """(H,) log posterior probabilities; of a point estimate, 0 for the hypothesis chosen and -inf else."""
        return self.belief.log_weights

    @property
    def weights(self) -> np.ndarray:
        """(H,) posterior probabilities."""
        return np.exp(self.log_weights)

    @property
    def ties(self) -> tuple[str, ...]:
        """Names of the hypotheses that are equally good as the best; the first of them is the one chosen."""
        return tuple(self.model.space.names[index] for index in self.belief.ties)

    @property
    def log_evidence(self) -> float | None:
        """Log probability of all examples, for `Exact`; else None."""
        values = [belief.log_evidence for belief in self.beliefs if belief.log_evidence is not None]
        return sum(values) if len(values) == len(self) else None

    @property
    def hypotheses(self):
        """A pandas frame of hypotheses, sizes, priors (at `point`) and posterior weights, the most probable first."""
        import pandas as pd

        space = self.point.space
        columns = {"hypothesis": space.names, "size": space.sizes, "prior": space.prior, "weight": self.weights}
        return pd.DataFrame(columns).sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def update(self, more, y=None):
        """The fit of these examples and more. For several sets: more of each; further ones are new sets."""
        examples = self.examples + read_examples(self.model, more, y)
        return fit(self.model, examples, method=self.method, seed=self.seed)
