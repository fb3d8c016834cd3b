"""The Dirichlet algebra that categorical columns and multinomial counts share."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.special import gammaln, xlogy

from bayesgen.errors import FitError, ModelError
from bayesgen.records import fill, record
from bayesgen.runtime import generator
from bayesgen.statistics import Sums, holds_anywhere, log_rising, log_rising_of_few, namespace
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float

from .base import Family, Key, ParameterTables
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Stated,
    as_number,
    broadcast,
    check_mode,
    check_positive,
)
from .special import sample_dirichlet


def check_dirichlet_mode(names: Names, bad: Bool[ArrayOrNumber, "..."]) -> None:
    """Refuse modes of Dirichlet distributions that are unbounded or not unique."""
    why = "a Dirichlet with a concentration below 1 is unbounded, with all of them 1 it is flat."
    check_mode(names, bad, why, f"Give a concentration above 1, or use {names.averaging}.")


@record
class DirichletFamily(Family):
    """A Dirichlet prior on probabilities: concentration (..., r). Abstract: subclasses add the likelihood."""

    concentration: Hyperparameter

    def __init__(self, concentration: Stated = 1.0) -> None:
        check_positive(type(self).__name__, concentration=concentration)
        fill(self, concentration=as_number(concentration))

    @property
    def num_values(self) -> int | None:
        """The length of the concentration, where it is an array."""
        value = self.concentration
        return None if isinstance(value, dist.Distribution) or not np.ndim(value) else value.shape[-1]

    def _resolved(self, batch_shape: tuple[int, ...], length: int) -> Self:
        if self.num_values not in (None, length):
            raise FitError(f"{type(self).__name__}: concentration has length {self.num_values}, the data {length}.")
        table = (*batch_shape, length)
        concentration = broadcast(type(self).__name__, table, concentration=self.concentration)
        return self.replace(**concentration, batch_shape=table)

    def _require_vector(self, verb: str) -> None:
        """Refuse what `require_numbers` refuses, and a scalar concentration whose length is not known."""
        self.require_numbers(verb)
        if not np.ndim(self.concentration):
            raise ModelError(
                f"{type(self).__name__} used alone cannot know how many values there are, and {verb} needs to: give "
                "concentration as an array with one entry for each value."
            )

    def _updated(self, summary: Sums) -> Self:
        concentration = self.concentration + summary.totals[0]
        return self.replace(concentration=concentration, batch_shape=concentration.shape)

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        alpha, counts = self.concentration, summary.totals[0]
        total, number = alpha.sum(-1), counts.sum(-1)
        return log_rising_of_few(alpha, counts).sum(-1) - log_rising(total, number) + summary.log_base

    def mean(self) -> ParameterTables:
        """Normalised concentration."""
        self._require_vector("mean")
        return {"probs": self.concentration / self.concentration.sum(-1, keepdims=True)}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """(alpha - 1) / sum(alpha - 1), where every alpha >= 1 and one is above 1."""
        self._require_vector("mode")
        above = self.concentration - 1
        check_dirichlet_mode(names, (above < 0).any(-1) | (above.sum(-1) <= 0))
        return {"probs": above / above.sum(-1, keepdims=True)}

    def variance(self) -> ParameterTables:
        """p (1 - p) / (total + 1)."""
        self._require_vector("variance")
        probs = self.mean()["probs"]
        return {"probs": probs * (1 - probs) / (self.concentration.sum(-1, keepdims=True) + 1)}

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        """Relative frequencies."""
        counts = summary.totals[0]
        total = counts.sum(-1, keepdims=True)
        if holds_anywhere(total == 0):
            raise FitError(
                f"Block {names.block!r}: nothing was counted at {names.where(total[..., 0] == 0)}, so maximum "
                f"likelihood has no estimate. Use {names.averaging}, or {names.advice.without_class}."
            )
        return {"probs": counts / total}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        self._require_vector("sample")
        return {"probs": sample_dirichlet(generator(key), self.concentration, shape)}

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Log probabilities."""
        probs = parameters["probs"]
        with np.errstate(divide="ignore"):
            return {"log_probs": namespace(probs).log(probs)}

    def _log_prior(self, parameters: Mapping[str, Array]) -> float:
        self._require_vector("log_prior")
        alpha = self.concentration
        logs = xlogy(alpha - 1, parameters["probs"]).sum(-1) + gammaln(alpha.sum(-1)) - gammaln(alpha).sum(-1)
        return float(np.sum(logs))

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_probs`, (..., r)."""
        batch = self.batch_shape[:-1]
        value = self.concentration
        value = value if value.ndim and value.shape[-1] == self.batch_shape[-1] else value[..., None]
        prior = dist.Dirichlet(np.ones(self.batch_shape) * value).to_event(len(batch))
        return {"probs": numpyro.sample(f"{name}_probs", prior)}
