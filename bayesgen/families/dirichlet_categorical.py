"""Dirichlet-categorical: columns with a finite number of values, and the class prior."""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import numpyro.distributions as dist

from bayesgen.data import CATEGORICAL, Categorical, Schema
from bayesgen.errors import ModelError
from bayesgen.records import record
from bayesgen.statistics import CategoricalLikelihood
from bayesgen.typing import Array, Category, Int

from .base import default_family
from .dirichlet import DirichletFamily
from .hyperparameters import Scale, Stated


@record
class DirichletCategorical(DirichletFamily):
    """Columns of codes 0..r-1 with a Dirichlet prior on the probabilities of the values.

    Generative story::

        probs ~ Dirichlet(concentration)
        x     ~ Categorical(probs)

    Args:
        concentration: pseudo-counts, > 0; a scalar means r equal ones. A family used alone needs an array of length r,
            because no model tells it the number of values.

    Source: Murphy, Machine Learning: A Probabilistic Perspective, section 3.4.

    >>> posterior = DirichletCategorical([1, 1, 1]).update([0, 0, 2])
    >>> posterior.mean()["probs"].round(3).tolist()
    [0.5, 0.167, 0.333]
    """

    kind = CATEGORICAL

    def __init__(self, concentration: Stated = 1.0) -> None:
        super().__init__(concentration)

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D, r)."""
        length = scale.num_categories
        if length is None:
            self.require_numbers("a family used alone")
            if not np.ndim(self.concentration):
                raise ModelError(
                    "DirichletCategorical used alone cannot know how many values there are: "
                    "give concentration as an array with one entry for each value."
                )
            length = self.concentration.shape[-1]
        return self._resolved(scale.batch_shape, length)

    def _implied_scale(self) -> Scale:
        columns = np.shape(self.concentration)[:-1]  # the last axis is that of the values
        return Scale(num_columns=columns[-1] if columns else None)

    @property
    def likelihood(self) -> CategoricalLikelihood:
        """Counts of each value."""
        if self.batch_shape is not None:
            return CategoricalLikelihood(self.batch_shape[-1])
        return CategoricalLikelihood(self.resolve(Scale()).batch_shape[-1])

    def predictive(self) -> dist.Distribution:
        """Categorical with the mean probabilities (exact for one row)."""
        return dist.Categorical(probs=self.mean()["probs"])

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.Categorical(probs=parameters["probs"][labels]).to_event(1)

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("class", "feature", "category")}

    def axis_names(self, schema: Schema, columns: Sequence[str]) -> dict[str, Sequence[Category]]:
        """The values of a single column; codes where several columns have different ones."""
        values = schema.categories[columns[0]]
        names = range(len(values)) if columns[1:] else [str(value) for value in values]
        return {**super().axis_names(schema, columns), "category": names}


default_family.register(Categorical, lambda kind, is_sparse: DirichletCategorical())
