"""Dirichlet-multinomial: a block of counts that share one total, such as the words of a document."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from bayesgen.data import COUNT
from bayesgen.records import record
from bayesgen.statistics import (
    MULTINOMIAL,
    Cells,
    RowDensity,
    Sums,
    log_factorial,
    refuse_missing,
    row_sums,
    sum_log_rising,
    sum_log_rising_of_cells,
)
from bayesgen.typing import Array, Bool, Float, Int, Real

from .base import Traits
from .dirichlet import DirichletFamily
from .hyperparameters import Scale, Stated


@record
class DirichletMultinomialDensity(RowDensity):
    """Vectors of counts, multinomial with Dirichlet probabilities. Of sparse rows only the nonzero cells cost."""

    concentration: Float[Array, "K V"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n V"] | None = None) -> Float[Array, "n K"]:
        if observed is not None:
            refuse_missing("a Dirichlet-multinomial distribution")
        if hasattr(values, "tocsr"):
            of_cells = sum_log_rising_of_cells(values.tocsr(), np.asarray(self.concentration))
            return of_cells + _lengths(self.concentration, row_sums(values))
        words = sum_log_rising(values, self.concentration)
        return words + _lengths(self.concentration, values.sum(-1)) - log_factorial(values).sum(-1)[:, None]


def _lengths(concentration: Float[Array, "K V"], lengths: Real[Array, " n"]) -> Float[Array, "n K"]:
    """The terms that depend on the length of a row alone."""
    totals, lengths = concentration.sum(-1, keepdims=True), lengths[:, None]
    return log_factorial(lengths) - sum_log_rising(lengths, totals)


@record
class DirichletMultinomial(DirichletFamily):
    """A vector of counts with a Dirichlet prior on the probabilities of the V events.

    Generative story, given the row's total n::

        probs ~ Dirichlet(concentration)
        x     ~ Multinomial(n, probs)

    Rows may have different totals; densities and evidence condition on them and include the multinomial
    coefficient. Rows may be a scipy.sparse matrix.

    Args:
        concentration: pseudo-counts, > 0; a scalar means V equal ones.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, sections 3.4 and 3.5.4.1.

    >>> posterior = DirichletMultinomial([1, 1, 1]).update([[2, 0, 1]])
    >>> posterior.mean()["probs"].round(3).tolist()
    [0.5, 0.167, 0.333]
    """

    kind = COUNT
    traits = Traits(joint=True, sparse=True, missing=False, covariate="total_count")
    likelihood = MULTINOMIAL

    def __init__(self, concentration: Stated = 1.0) -> None:
        super().__init__(concentration)

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, V)."""
        return self._resolved(scale.batch_shape[:-1], scale.batch_shape[-1])

    def scale_of(self, summary: Sums) -> Scale:
        return Scale(num_columns=summary.totals[0].shape[-1])

    def predictive(self, total_count: ArrayLike = 1) -> dist.Distribution:
        """Dirichlet-multinomial distribution of a row with the given total."""
        self.require_numbers("predictive")
        return dist.DirichletMultinomial(self.concentration, total_count)

    def site_distribution(
        self, parameters: Mapping[str, Array], labels: Int[Array, "*n"], total_count: Array | None = None
    ) -> dist.Distribution:
        """Multinomial rows with totals `total_count`, a covariate of the program."""
        largest = None
        if total_count is not None and not hasattr(total_count, "aval") and np.size(total_count):
            largest = int(np.max(total_count))
        return dist.Multinomial(total_count, probs=parameters["probs"][labels], total_count_max=largest)

    def row_predictive(self) -> RowDensity:
        return DirichletMultinomialDensity(self.concentration)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("class", "feature")}
