"""`AveragePosterior`: several posteriors, each with a weight."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.special

from bayesgen.data import Rows
from bayesgen.errors import PredictionError
from bayesgen.models import Conjugate, Densities
from bayesgen.records import by_content
from bayesgen.typing import Float

from .base import At, ParameterArrays, Posterior

Mixes = Literal["joint", "conditional", "marginal"]


@by_content
class AveragePosterior(Posterior):
    """Several posteriors, each with a weight.

    Generative story, for weights that are posterior probabilities::

        structure ~ Categorical(weights)
        process   ~ the posterior of that structure
        x, y      ~ process

    Its point is that of the member with the largest weight. It takes the rows of all members: see `rows_of_members`.

    Attributes:
        members: the posteriors.
        weights: (M,) nonnegative, summing to 1.
        mixes: the mixed density: "joint", p(x, y); "conditional", p(y | x), for weights learned on class probabilities,
            whose members may be densities of different data; or "marginal", p(x), for members with different classes.
        log_evidence: log p(X, y), structures marginalised; None where the weights are no posterior.
    """

    members: tuple[Posterior, ...]
    weights: Float[np.ndarray, " M"]
    mixes: Mixes = "joint"
    log_evidence: float | None = None
    has_draws = False
    refusals: ClassVar[Mapping[str, str]] = {
        "draws": (
            "An average over structures has no draws, because its members have no parameters in common. Predict with "
            "BMA(), or take draws from one member: fit.members[i]."
        ),
        "predictive": (
            "The members of this average have classes, or components, of their own, so it has no table of classes. "
            "Ask for densities, predict(fit, X, rule=BMA()).log_marginal, or ask one member."
        ),
    }
    is_point = False

    @property
    def has_predictive(self) -> bool:  # type: ignore[override]
        """Whether the members have their classes in common, so that there is one table of them."""
        return self.mixes != "marginal"

    @property
    def best(self) -> int:
        """Index of the member with the largest weight (the first of equal ones)."""
        return int(np.argmax(self.weights))

    @property
    def parameters(self) -> ParameterArrays:
        return self.members[self.best].parameters

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        raise PredictionError(
            "An average over structures has no density by blocks. Ask one of its members, fit.best or fit.members[i]."
        )

    def _log_joint(self, rows: Rows, at: At) -> Float[np.ndarray, "n K"]:
        if at != "predictive":
            return self.members[self.best].log_joint(_of_member(rows, self.best), at)
        tables = [
            np.log(weight) + self._predictive(rows, index) for index, weight in enumerate(self.weights) if weight > 0
        ]
        return scipy.special.logsumexp(tables, axis=0)

    def _predictive(self, rows: Rows, index: int) -> Float[np.ndarray, "n K"]:
        table = self.members[index].log_joint(_of_member(rows, index), "predictive")
        return log_conditional(table) if self.mixes == "conditional" else table


def rows_of_members(members: Sequence[Rows]) -> Rows:
    """The same rows, as each member of an average reads them, in one value with the sites "member/name".

    >>> rows = rows_of_members([Rows({"real": np.ones((2, 3))}), Rows({"height": np.ones(2), "width": np.ones(2)})])
    >>> rows.num_rows, sorted(rows.values)
    (2, ['0/real', '1/height', '1/width'])
    """

    def by_member(arrays: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return {f"{index}/{name}": array for index, of_member in enumerate(arrays) for name, array in of_member.items()}

    return Rows(
        values=by_member(rows.values for rows in members),
        observed=by_member(rows.observed for rows in members),
        covariates=by_member(rows.covariates for rows in members),
    )


def _of_member(rows: Rows, index: int) -> Rows:
    """The rows as one member reads them."""
    prefix = f"{index}/"

    def of_member(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    return Rows(of_member(rows.values), of_member(rows.observed), of_member(rows.covariates))


def log_conditional(table: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """log p(y | x) from log-joints; -inf for all classes of a row that is impossible under all of them."""
    with np.errstate(invalid="ignore"):
        conditional = table - scipy.special.logsumexp(table, axis=1, keepdims=True)
    return np.where(np.isnan(conditional), -np.inf, conditional)
