"""Rows whose states are hidden: EM, whose expectations are those of the forward-backward algorithm."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np

from bayesgen.statistics import KeptRows, Summary
from bayesgen.typing import Array

from .hidden_counts import HiddenCounts, expected_counts, has_holes, nothing, stacked
from .hidden_starts import grouped
from .incomplete import Incomplete, Parameters

if TYPE_CHECKING:
    from .base import Family


class HiddenStates(Incomplete):
    """What `DirichletHiddenMarkov` knows of rows whose states are hidden. Source: Rabiner (1989), section III."""

    has_several_maxima = True
    without_maximum = (
        "MAP() keeps all states by concentrations above 1, DirichletHiddenMarkov(S, concentration=2.0, initial=2.0); "
        "NUTS() needs no maximum."
    )
    num_states: int
    emissions: "Family"

    @abc.abstractmethod
    def of_emissions(self, parameters: Mapping[str, Array]) -> Parameters:
        """Those of the parameters that the emissions have."""

    def has_closed_form(self, summary: Summary) -> bool:
        """Not for rows, whose states are hidden; for their counts, were they seen."""
        return isinstance(summary, HiddenCounts)

    def completed(self, summary: Summary, parameters: Mapping[str, Array]) -> Summary:
        """What rows are expected to count."""
        return self.expectation(summary, parameters)[1]

    def expectation(self, summary: Summary, parameters: Mapping[str, Array]) -> tuple[float, Summary]:
        """The log-likelihood and `completed`, class by class; missing cells of steps as the emissions complete them."""
        assert isinstance(summary, KeptRows)
        holes, log_likelihood, parts = has_holes(summary), 0.0, []
        for code in range(summary.num_classes or 1):
            family, of_class = self._emissions_of(code), {name: value[code] for name, value in parameters.items()}
            emissions = self.of_emissions(of_class)
            with np.errstate(divide="ignore"):
                log_initial, log_transition = np.log(of_class["initial"]), np.log(of_class["transition"])
            of_rows, counts = expected_counts(
                np.asarray(log_initial), np.asarray(log_transition), family.statistic,
                family.likelihood_parameters(emissions), summary.of_class(code), holes,
            )  # fmt: skip
            parts.append(dataclasses.replace(counts, emissions=family.completed(counts.emissions, emissions)))
            log_likelihood += of_rows
        return log_likelihood, stacked(parts)

    def available(self, summary: Summary, rng: np.random.Generator | None = None) -> Summary:
        """What rows would count if groups of their steps were the states. See `grouped`."""
        assert isinstance(summary, KeptRows)
        holes, parts = has_holes(summary), []
        for code in range(summary.num_classes or 1):
            rows, family = summary.of_class(code), self._emissions_of(code)
            if len(rows.places):
                counts = grouped(family.statistic, rows, self.num_states, holes, rng)
            else:
                counts = nothing(family.statistic, rows, self.num_states, holes)
            parts.append(dataclasses.replace(counts, emissions=family.available(counts.emissions)))
        return stacked(parts)

    def _emissions_of(self, code: int) -> "Family":
        """The emissions' family of one class, in whose tables states take the place of classes."""
        assert self.emissions.batch_shape is not None
        of_class = jax.tree.map(lambda value: value[code], self.emissions.hyperparameters)
        return self.emissions.replace(**of_class, batch_shape=self.emissions.batch_shape[1:])
