"""`ConceptFit`: what was learned of concepts."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgen.describe import amount, described
from bayesgen.errors import FitError
from bayesgen.fitting import Trained, fit
from bayesgen.records import by_content
from bayesgen.typing import Float, Seed

from .examples import Examples, read_examples
from .learner import ConceptLearner
from .posterior import Belief, ConceptPosterior
from .shared import SharedHyperparameters

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from .prediction import ConceptPrediction as ConceptPrediction


@by_content
class ConceptFit(Trained["ConceptPrediction"]):
    """What was learned of a concept, or of several that share hyperparameters.

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
        return described(f"ConceptFit of {self.model!r}", self._facts())

    def _facts(self) -> dict[str, str | None]:
        """What `repr` tells, by name."""
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
        """The most probable ones, of the one set of examples."""
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

    # --- the hyperparameters -------------------------------------------------------------------------------------

    @property
    def shared(self) -> SharedHyperparameters | None:
        """The fit of the hyperparameters that are distributions; None where there are none."""
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

    # --- the hypotheses ------------------------------------------------------------------------------------------

    @property
    def beliefs(self) -> tuple[Belief, ...]:
        """What each set of examples tells of its hypothesis."""
        return self.posterior.beliefs

    @property
    def belief(self) -> Belief:
        """That of the one set of examples."""
        if self.examples.several:
            raise FitError(f"This is a fit of {len(self)} sets of examples. Take one of them: fit[0], for example.")
        return self.beliefs[0]

    @property
    def log_weights(self) -> Float[np.ndarray, " H"]:
        """Log posterior probabilities; of a point estimate, 0 for the hypothesis chosen and -inf else."""
        return self.belief.log_weights

    @property
    def weights(self) -> Float[np.ndarray, " H"]:
        """Posterior probabilities."""
        return np.exp(self.log_weights)

    @property
    def ties(self) -> tuple[str, ...]:
        """Names of the hypotheses that are equally good as the best; the first of them is the one chosen."""
        return tuple(self.model.space.names[index] for index in self.belief.ties)

    @property
    def hypotheses(self) -> "pd.DataFrame":
        """A pandas frame of hypotheses, sizes, priors (at `point`) and posterior weights, the most probable first."""
        import pandas as pd

        space = self.point.space
        columns = {"hypothesis": space.names, "size": space.sizes, "prior": space.prior, "weight": self.weights}
        return pd.DataFrame(columns).sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def update(self, more: Any, y: Any = None) -> "ConceptFit":
        """The fit of these examples and more. For several sets: more of each; further ones are new sets."""
        examples = self.examples + read_examples(self.model, more, y)
        return fit(self.model, examples, method=self.method, seed=self.seed)
