"""Dirichlet priors of tables of probabilities: what their families share; categorical columns; fixed probabilities."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaln, softmax, xlogy

from bayesgen.data import CATEGORICAL, Categorical, Schema
from bayesgen.errors import FitError, ModelError, as_numbers
from bayesgen.records import fill, record
from bayesgen.runtime import generator
from bayesgen.statistics import (
    DIRICHLET,
    CategoricalLikelihood,
    Likelihood,
    RowDensity,
    Sums,
    log_rising,
    log_rising_of_few,
    namespace,
    safe_product,
)
from bayesgen.typing import Array, ArrayOrNumber, Category, Float, Int

from .base import Family, Key, ParameterTables, default_family
from .forms import Form, Tables, register_form
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Pooling,
    Scale,
    Stated,
    as_number,
    broadcast,
    check_counted,
    check_mode,
    check_positive,
)
from .special import sample_log_gamma


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
        for name, table in weights.items():
            check_unique(names, name, table, remedy)
        return {name: table / table.sum(-1, keepdims=True) for name, table in weights.items()}

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> ParameterTables:
        return {
            name: softmax(sample_log_gamma(rng, alpha, (*shape, *alpha.shape)), axis=-1)
            for name, alpha in self.concentration.items()
        }

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
    totals = {name: table.sum(-1, keepdims=True) for name, table in counts.items()}
    for name, total in totals.items():
        check_counted(names, total[..., 0] == 0, f"nothing was counted of '{names.block}_{name}'")
    return {name: table / totals[name] for name, table in counts.items()}


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
        """The concentration as an array; refuses as `require_numbers` does, and a single number for unknown values."""
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

    def posterior(self, summary: Sums) -> Self:
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
            length = self._table("its likelihood").shape[-1]
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


def dirichlet_form(
    family: type[DirichletFamily], has_likelihood: Callable[[Likelihood], bool], *, is_vector: bool = False
) -> Form:
    """A Dirichlet site of probabilities, whose logs are the parameters of the likelihood."""

    def prior(arguments: Mapping[str, Tables], parameters: Tables, pooling: Pooling) -> DirichletFamily:
        concentration = arguments["probs"]["concentration"]
        return family(concentration).replace(batch_shape=concentration.shape)

    def probs(parameters: Tables) -> ParameterTables:
        return {"probs": np.exp(parameters["log_probs"])}

    return Form(family, has_likelihood, {"probs": DIRICHLET}, probs, prior, is_vector=is_vector)


register_form(dirichlet_form(DirichletCategorical, lambda likelihood: isinstance(likelihood, CategoricalLikelihood)))


@record
class FixedCategorical(Family):
    """Codes 0..r-1 with known probabilities. Every closed form is trivial; updating changes nothing.

    Args:
        probs: (r,) probabilities, nonnegative, summing to 1.
    """

    probs: Float[Array, " r"]
    kind = CATEGORICAL
    is_fixed = True

    def __init__(self, probs: ArrayLike | Sequence[float]) -> None:
        values = as_numbers("Fixed probabilities", probs)
        if values.ndim != 1 or (values < 0).any() or not np.isclose(values.sum(), 1.0, rtol=0, atol=1e-9):
            raise ModelError(f"Fixed probabilities must be nonnegative and sum to 1, got {values.tolist()!r}.")
        fill(self, probs=values, batch_shape=values.shape)

    def resolve(self, scale: Scale) -> Self:
        """Check the length."""
        if scale.num_categories not in (None, len(self.probs)):
            raise ModelError(
                f"There are {len(self.probs)} fixed class probabilities, but {scale.num_categories} classes."
            )
        return self

    @property
    def num_values(self) -> int:
        return len(self.probs)

    @property
    def likelihood(self) -> CategoricalLikelihood:
        return CategoricalLikelihood(len(self.probs))

    def posterior(self, summary: Sums) -> Self:
        return self

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        counts = summary.totals[0]
        with np.errstate(divide="ignore"):
            logs = np.log(self.probs)
        return safe_product(counts, logs).sum(-1)

    def mean(self) -> ParameterTables:
        return {"probs": self.probs}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        return self.mean()

    def variance(self) -> ParameterTables:
        return {"probs": np.zeros_like(self.probs)}

    def quantile(self, prob: float) -> ParameterTables:
        return self.mean()

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        return self.mean()

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        return {"probs": np.broadcast_to(self.probs, (*shape, len(self.probs)))}

    def predictive(self) -> dist.Distribution:
        return dist.Categorical(probs=self.probs)

    def sample_sites(self, name: str) -> ParameterTables:
        return {"probs": self.probs}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.Categorical(probs=parameters["probs"][labels])

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        with np.errstate(divide="ignore"):
            return {"log_probs": np.log(parameters["probs"])}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        return 0.0

    def row_predictive(self) -> RowDensity:
        return self.row_density(self.mean())

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("category",)}
