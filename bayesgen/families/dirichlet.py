"""Tables of probabilities with Dirichlet priors: moments, modes, draws, densities and sites, and families of them."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Self

import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.random import Generator
from scipy.special import betaincinv, gammaln, xlogy

from bayesgen.errors import FitError, ModelError
from bayesgen.records import fill, record
from bayesgen.runtime import generator
from bayesgen.statistics import RowDensity, Sums, log_rising, log_rising_of_few, namespace
from bayesgen.typing import Array, ArrayOrNumber, Float

from .base import Family, Key, ParameterTables
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Stated,
    as_number,
    broadcast,
    check_counted,
    check_mode,
    check_positive,
)
from .special import sample_dirichlet


@dataclasses.dataclass(frozen=True)
class DirichletTables:
    """Tables of probabilities, each row of which has a Dirichlet distribution of its own.

    Attributes:
        concentration: parameter -> the concentrations of its rows, along the last axis.
    """

    concentration: Mapping[str, Float[Array, "... r"]]

    def mean(self) -> ParameterTables:
        """Normalised concentrations."""
        return {name: alpha / alpha.sum(-1, keepdims=True) for name, alpha in self.concentration.items()}

    def variance(self) -> ParameterTables:
        """p (1 - p) / (total + 1)."""
        totals = {name: alpha.sum(-1, keepdims=True) for name, alpha in self.concentration.items()}
        return {name: probs * (1 - probs) / (totals[name] + 1) for name, probs in self.mean().items()}

    def quantile(self, prob: float) -> ParameterTables:
        """Of beta distributions; a probability that is the only one of its row is 1."""
        rests = {name: alpha.sum(-1, keepdims=True) - alpha for name, alpha in self.concentration.items()}
        return {
            name: np.where(rests[name] > 0, betaincinv(alpha, rests[name], prob), 1.0)
            for name, alpha in self.concentration.items()
        }

    def mode(self, names: Names, remedy: str = "") -> ParameterTables:
        """(alpha - 1) / sum(alpha - 1), where every alpha >= 1 and one is above 1; a `FitError` elsewhere."""
        weights = {name: alpha - 1 for name, alpha in self.concentration.items()}
        for name, of_table in weights.items():
            check_unique(names, name, of_table, remedy)
        return {name: of_table / of_table.sum(-1, keepdims=True) for name, of_table in weights.items()}

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> ParameterTables:
        return {name: sample_dirichlet(rng, alpha, shape) for name, alpha in self.concentration.items()}

    def log_density(self, parameters: Mapping[str, Array]) -> float:
        total = 0.0
        for name, alpha in self.concentration.items():
            constant = gammaln(alpha.sum(-1)) - gammaln(alpha).sum(-1)
            total += float(np.sum(xlogy(alpha - 1, parameters[name]).sum(-1) + constant))
        return total

    def sites(self, block: str) -> ParameterTables:
        """Sample `{block}_{parameter}`."""
        return {
            name: numpyro.sample(f"{block}_{name}", dist.Dirichlet(alpha).to_event(alpha.ndim - 1))
            for name, alpha in self.concentration.items()
        }


def check_unique(names: Names, parameter: str, weights: Float[Array, "... r"], remedy: str = "") -> None:
    """Refuse modes of Dirichlet distributions, of concentrations less 1, that are unbounded or not unique."""
    name, remedy = f"{names.block}_{parameter}", remedy or f"Give a concentration above 1, or use {names.averaging}."
    check_mode(names, weights.min(-1) < 0, f"{name!r} is unbounded with a concentration below 1.", remedy)
    nothing = f"nothing was counted of {name!r}, which is flat with concentrations of 1."
    check_mode(names, weights.max(-1) <= 0, nothing, remedy)


def relative_frequencies(counts: Mapping[str, Float[Array, "... r"]], names: Names) -> ParameterTables:
    """The probabilities of highest likelihood, by parameter; a `FitError` where nothing was counted."""
    totals = {name: of_table.sum(-1, keepdims=True) for name, of_table in counts.items()}
    for name, total in totals.items():
        check_counted(names, total[..., 0] == 0, f"nothing was counted of '{names.block}_{name}'")
    return {name: of_table / totals[name] for name, of_table in counts.items()}


def shares(weights: Float[Array, "... r"], of_none: float) -> Float[Array, "... r"]:
    """Weights divided by their sums, where these are positive; a number elsewhere."""
    total, xp = weights.sum(-1, keepdims=True), namespace(weights)
    return xp.where(total > 0, weights / xp.where(total > 0, total, 1.0), of_none)


def log_evidences(alpha: Float[Array, "... r"], counts: Float[Array, "... r"]) -> Float[ArrayOrNumber, "..."]:
    """Log probabilities of sequences with these counts, the probabilities of each row being integrated out."""
    return log_rising_of_few(alpha, counts).sum(-1) - log_rising(alpha.sum(-1), counts.sum(-1))


@record
class DirichletFamily(Family, abc.ABC):
    """A Dirichlet prior on probabilities: concentration (..., r). Subclasses add the likelihood.

    Sufficient statistics are counts of the shape of the concentration. Where its rows are those of several parameters,
    `_split` says which.
    """

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

    # --- the table of probabilities -------------------------------------------------------------------------------

    def _split(self, table: Float[Array, "..."]) -> dict[str, Float[Array, "..."]]:
        """The tables of the parameters, from that of the concentration."""
        return {"probs": table}

    def _joined(self, parameters: Mapping[str, Array]) -> Float[Array, "..."]:
        """The inverse of `_split`."""
        return parameters["probs"]

    def _table(self, verb: str) -> Float[Array, "..."]:
        """The concentration; refuses what `require_numbers` refuses, and one number of values that are not known."""
        self.require_numbers(verb)
        if not np.ndim(self.concentration):
            raise ModelError(
                f"{type(self).__name__} used alone cannot know how many values there are, and {verb} needs to: give "
                "concentration as an array with one entry for each value."
            )
        return self.concentration

    def _tables(self, verb: str) -> DirichletTables:
        return DirichletTables(self._split(self._table(verb)))

    # --- closed forms ---------------------------------------------------------------------------------------------

    def _updated(self, summary: Sums) -> Self:
        concentration = self.concentration + summary.totals[0]
        return self.replace(concentration=concentration, batch_shape=concentration.shape)

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        return log_evidences(self.concentration, summary.totals[0]) + summary.log_base

    def mean(self) -> ParameterTables:
        return self._tables("mean").mean()

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        return self._tables("mode").mode(names)

    def variance(self) -> ParameterTables:
        return self._tables("variance").variance()

    def quantile(self, prob: float) -> ParameterTables:
        return self._tables("quantile").quantile(prob)

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        return relative_frequencies(self._split(summary.totals[0]), names)

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        return self._tables("sample").sample(generator(key), shape)

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        return self._tables("log_prior").log_density(parameters)

    def row_predictive(self) -> RowDensity:
        """The density with the mean probabilities, which is exact for one row where each value is drawn from them."""
        return self.row_density(self.mean())

    # --- the program ----------------------------------------------------------------------------------------------

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Log probabilities."""
        table = self._joined(parameters)
        with np.errstate(divide="ignore"):
            return {"log_probs": namespace(table).log(table)}

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_{parameter}`. A drawn concentration broadcasts to the table like a stated one."""
        stated = {"concentration": self.concentration}
        table = broadcast(type(self).__name__, self.batch_shape, **stated)["concentration"]
        return DirichletTables(self._split(table)).sites(name)
