"""`Mixture`: several posteriors, each with a weight."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.records import record
from bayesgen.typing import Array, Float, Int

from .base import At, Parameters, Posterior


@record
class MemberRows:
    """The same rows as each member of an average reads them."""

    members: tuple[Rows, ...]

    def take(self, places: slice | list[int] | Int[Array, " m"]) -> "MemberRows":
        """Some of the rows."""
        return MemberRows(tuple(rows.take(places) for rows in self.members))


@dataclasses.dataclass(frozen=True)
class Mixture(Posterior):
    """Several posteriors, each with a weight.

    Generative story, for weights that are posterior probabilities::

        structure ~ Categorical(weights)
        process   ~ the posterior of that structure
        x, y      ~ process

    Its point is that of the best member.

    Attributes:
        members: the posteriors.
        weights: (M,) nonnegative, summing to 1.
        conditional: mix p(y | x) and not p(x, y): for weights that were learned on class probabilities, whose members
            may be densities of different data.
        log_evidence: log p(X, y), structures summed out; None where the weights are no posterior.
    """

    members: tuple[Posterior, ...]
    weights: Float[np.ndarray, " M"]
    conditional: bool = False
    log_evidence: float | None = None
    has_draws = False
    refusals: ClassVar[Mapping[str, str]] = {
        "draws": (
            "An average over structures has no draws, because its members have no parameters in common. Predict with "
            "BMA(), or take draws from one member: fit.members[i]."
        )
    }

    @property
    def best(self) -> int:
        """Index of the member with the largest weight (the first of equal ones)."""
        return int(np.argmax(self.weights))

    @property
    def parameters(self) -> Parameters:
        """Those of the best member."""
        return self.members[self.best].parameters

    def _log_joint(self, rows: MemberRows, at: At) -> Float[Array, "n K"]:  # type: ignore[override]
        if at != "predictive":
            return self.members[self.best].log_joint(rows.members[self.best], at)
        tables = [
            np.log(weight) + self._predictive(rows, index) for index, weight in enumerate(self.weights) if weight > 0
        ]
        return scipy.special.logsumexp(tables, axis=0)

    def _predictive(self, rows: MemberRows, index: int) -> Float[Array, "n K"]:
        table = self.members[index].log_joint(rows.members[index], "predictive")
        return log_conditional(table) if self.conditional else table


def log_conditional(table: Float[Array, "n K"]) -> Float[Array, "n K"]:
    """log p(y | x) from log-joints; -inf for all classes of a row that no class can have."""
    with np.errstate(invalid="ignore"):
        conditional = table - scipy.special.logsumexp(table, axis=1, keepdims=True)
    return np.where(np.isnan(conditional), -np.inf, conditional)
