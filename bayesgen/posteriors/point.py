"""`Point`: one process, such as MLE and MAP give."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from bayesgen.generative import GenerativeProgram
from bayesgen.program import Conjugate, Densities
from bayesgen.records import by_content
from bayesgen.typing import PRNGKeyArray

from .base import ParameterArrays, ParameterSummaries, ProcessPosterior

_REMEDY = "Fit with NUTS(), or with Exact() where the posterior has a closed form, or predict with PlugIn()."


@by_content
class Point(ProcessPosterior):
    """One process, which is its own mean and mode.

    Attributes:
        program: the bound program; None where there are blocks.
        values: parameters by name.
        conjugate: the model's blocks, where it has any.
    """

    program: GenerativeProgram | None
    values: dict[str, Any]
    conjugate: Conjugate | None = None
    is_point = True
    refusals: ClassVar[Mapping[str, str]] = {
        "predictive": f"BMA averages over a posterior, and this is a point estimate (MLE or MAP). {_REMEDY}",
        "draws": f"This is a point estimate (MLE or MAP), which has no draws to average over. {_REMEDY}",
    }

    @property
    def parameters(self) -> ParameterArrays:
        return self.values

    @property
    def mean(self) -> ParameterArrays:
        return self.values

    @property
    def mode(self) -> ParameterArrays:
        return self.values

    def densities(self, conjugate: Conjugate) -> list[Densities]:
        return [conjugate.densities_at(self.values)]

    def parameter_draws(self, num_draws: int, key: PRNGKeyArray) -> ParameterArrays:
        return {name: np.asarray(value)[None, None] for name, value in self.values.items()}

    def with_values(self, values: ParameterArrays) -> Self:
        return dataclasses.replace(self, values=self.values | {name: value[0, 0] for name, value in values.items()})

    def numbers(self, prob: float) -> ParameterSummaries:
        return {"value": self.values}
