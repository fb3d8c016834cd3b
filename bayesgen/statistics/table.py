"""Exponential families, and the likelihoods of NumPyro's distributions: one registration each."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.nn import log_sigmoid, log_softmax

from bayesgen.records import record, static
from bayesgen.typing import Array, Bool, Float, Int, Real, Shaped

from .arrays import (
    Cells,
    filled,
    flatten_rows,
    log_factorial,
    log_linear,
    namespace,
    precise,
    refuse_missing,
    row_sums,
    safe_product,
    special,
    sum_log_factorials,
)
from .base import CellSums, Likelihood, Parameters, RowDensity, register
from .discrete import BernoulliLikelihood, CategoricalLikelihood
from .multivariate_normal import LowRankNormalLikelihood, MultivariateNormalLikelihood
from .normal import NormalLikelihood
from .summaries import Sample, Sums, trailing

# Exponential families: log p(x | theta) = sum_j eta_j(theta) T_j(x) - A(theta) + log h(x).


@dataclasses.dataclass(frozen=True)
class ExponentialFamily(Likelihood):
    """An exponential family with elementwise or vector statistics.

    Attributes:
        statistics: (values, row_parameters) -> tuple of arrays T_j, each of the rows' shape.
        natural: parameters -> tuple of arrays eta_j, each of shape (K, *extra, *event); -inf is allowed.
        log_partition: parameters -> A, (K, *extra).
        log_base: (values, row_parameters) -> log h, (n, *extra); or None where h = 1.
        event_dim: number of event axes of the distribution.
        has_row_parameters: whether `statistics` or `log_base` look at `row_parameters`.
        name: for messages.
        mean: natural parameters -> mean; None where it is not known.
        draw: (random numbers, natural parameters) -> a draw of each; None where it is not known.
        cell_sums: VALUES or TOTALS for columns of counts, whose only statistic is the count; numbers have as many
            values as there are rows.
    """

    statistics: Callable[[Any, Any], tuple[Array, ...]]
    natural: Callable[[Parameters], tuple[Array, ...]]
    log_partition: Callable[[Parameters], Array]
    log_base: Callable[[Any, Any], Array] | None = None
    event_dim: int = 0
    has_row_parameters: bool = False
    name: str = "this distribution"
    mean: Callable[[tuple[Array, ...]], Array] | None = None
    draw: Callable[[np.random.Generator, tuple[Array, ...]], np.ndarray] | None = None
    cell_sums: CellSums = CellSums.NONE  # type: ignore[misc]

    def summary_of(self, sample: Sample) -> Sums:
        """Sum each statistic by class. See `Likelihood.summarize`; vectors are observed or missing as a whole."""
        events = None if sample.observed is None else self.whole_events(sample.observed)
        values, row_parameters = sample.cells(), sample.row_parameters

        def by_class(rows: Cells) -> Float[Array, "K ..."]:
            return sample.sums(rows, sample.observed if rows.shape == values.shape else events)

        with np.errstate(divide="ignore"):  # of filled cells, which may be at the boundary of the support
            totals = tuple(by_class(rows) for rows in self.statistics(values, row_parameters))
            if self.log_base is not None:
                base = by_class(self.log_base(values, row_parameters))
            else:
                base = namespace(*totals).zeros(sample.shape[: values.ndim - self.event_dim])
        return Sums(dataclasses.replace(sample, observed=events).counts(), totals, base)

    def whole_events(self, observed: Bool[Array, "n ..."]) -> Bool[Array, "n ..."]:
        """Mask (n, *extra) of the observed events; a DataError refuses partly observed vectors."""
        axes = tuple(range(-self.event_dim, 0))
        events = namespace(observed).asarray(observed.all(axes))
        if axes and namespace(observed) is np and (events != observed.any(axes)).any():
            refuse_missing(self.name)
        return events

    def log_likelihood(self, parameters: Parameters, summary: Sums) -> Float[Array, "..."]:  # type: ignore[override]
        """Inner product of natural parameters and totals, less the log-partition. See `Likelihood`."""
        terms = [safe_product(t, eta) for t, eta in zip(summary.totals, self.natural(parameters), strict=True)]
        events = tuple(range(-self.event_dim, 0))
        total = sum(term.sum(events) if events else term for term in terms)
        partition = self.log_partition(parameters)
        count = trailing(summary.count, partition.ndim)
        log_likelihood = total - safe_product(count, partition) + summary.log_base
        return namespace(log_likelihood).asarray(log_likelihood)

    def without_base(self) -> "ExponentialFamily":
        """The same with h = 1."""
        return self if self.log_base is None else dataclasses.replace(self, log_base=None)

    def density(self, parameters: Parameters) -> "ExponentialFamilyDensity":
        """Natural parameters and log-partitions. Not where `has_row_parameters`."""
        natural = tuple(eta.reshape(len(eta), -1) for eta in self.natural(parameters))
        if namespace(*natural) is np:
            natural = tuple(map(np.asfortranarray, natural))  # as products with sparse rows take them
        partition = self.log_partition(parameters)
        return ExponentialFamilyDensity(natural, partition.reshape(len(partition), -1), self)


@record
class ExponentialFamilyDensity(RowDensity):
    """Densities of rows under an exponential family: one matrix product for each statistic.

    Attributes:
        natural: eta_j, extra and event axes flattened; -inf where a value is impossible.
        log_partition: A, extra axes flattened.
    """

    natural: tuple[Float[Array, "K m"], ...]
    log_partition: Float[Array, "K extra"]
    family: ExponentialFamily = static()

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        family, mask, events = self.family, None, None
        if observed is not None:
            values, mask = filled(values, observed), flatten_rows(observed)
            events = flatten_rows(family.whole_events(observed))
        with np.errstate(divide="ignore"):  # as in `ExponentialFamily.summarize`
            statistics = [flatten_rows(rows) for rows in family.statistics(values, None)]
            base = None if family.log_base is None else family.log_base(values, None)
        if mask is not None:
            xp = namespace(mask, *statistics)
            statistics = [xp.where(mask, rows, 0.0) for rows in statistics]
        table = sum(log_linear(rows, eta) for rows, eta in zip(statistics, self.natural, strict=True))
        partition = self.log_partition.sum(-1) if events is None else events.astype(float) @ self.log_partition.T
        table = table - partition
        if base is None:
            return table
        base = namespace(base).reshape(base, (len(base), -1))
        return table + (base if events is None else namespace(base, events).where(events, base, 0.0)).sum(-1)[:, None]

    def sql_terms(self, literal: Callable[[float], str]) -> list[list[str]] | None:
        if self.family.cell_sums is not CellSums.VALUES:
            return None
        pairs = [zip(*pair, strict=True) for pair in zip(self.natural[0], self.log_partition, strict=True)]
        term = "CASE {{0}} WHEN 0 THEN 0e0 ELSE {} * {{0}} END - {}".format
        return [[term(literal(eta), literal(partition)) for eta, partition in pair] for pair in pairs]

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        assert self.family.mean is not None, f"the mean of {self.family.name} is not known"
        return np.asarray(self.family.mean(self.natural))[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        assert self.family.draw is not None, f"draws of {self.family.name} are not known"
        return self.family.draw(rng, tuple(np.asarray(eta)[classes] for eta in self.natural))


@dataclasses.dataclass(frozen=True)
class MultinomialFamily(ExponentialFamily):
    """The multinomial distribution as an exponential family."""

    def density(self, parameters: Parameters) -> "MultinomialDensity":
        density = super().density(parameters)
        return MultinomialDensity(density.natural, density.log_partition, self)


@record
class MultinomialDensity(ExponentialFamilyDensity):
    """Densities of rows of counts. Of sparse rows one product gives the totals too."""

    @functools.cached_property
    def _log_probs_and_ones(self) -> Float[np.ndarray, " rows m"]:
        return np.asfortranarray(np.vstack([self.natural[0], np.ones(self.natural[0].shape[1:])]))

    def log_prob(self, values: Cells, observed: Bool[Array, "n ..."] | None = None) -> Float[Array, "n K"]:
        has_base = self.family.log_base is not None
        if observed is not None or not hasattr(values, "tocsr") or not has_base or namespace(*self.natural) is jnp:
            return super().log_prob(values, observed)
        rows = values.tocsr()
        table = log_linear(rows, self._log_probs_and_ones)
        log_base = log_factorial(table[:, -1]) - sum_log_factorials(rows)
        return np.add(table[:, :-1].T, log_base, order="C").T  # of few classes, several times as fast as row by row


# --- exponential families -------------------------------------------------------------------------------------


def _no_partition(parameters: Parameters) -> Float[Array, "K ..."]:
    first = next(iter(parameters.values()))
    return namespace(first).zeros(first.shape)


def _log_binomial(values: Real[Array, "n ..."], row_parameters: Parameters) -> Float[Array, "n ..."]:
    total = row_parameters["total_count"]
    return log_factorial(total) - log_factorial(values) - log_factorial(total - values)


def _log_multinomial(values: Cells, row_parameters: Parameters | None) -> Float[Array, "n ..."]:
    """log(n! / prod_v x_v!), of dense or sparse counts."""
    if not hasattr(values, "tocsr"):
        return log_factorial(values.sum(-1)) - log_factorial(values).sum(-1)
    return log_factorial(row_sums(values)) - sum_log_factorials(values.tocsr())


def _gammaln(values: Float[Array, "..."]) -> Float[Array, "..."]:
    return special(namespace(values)).gammaln(values)


def _log(values: Real[Array, "..."]) -> Float[Array, "..."]:
    return namespace(values).log(precise(values))


BERNOULLI = BernoulliLikelihood()
BINOMIAL = ExponentialFamily(
    statistics=lambda x, row: (x, row["total_count"] - x),
    natural=lambda p: (p["log_one"], p["log_zero"]),
    log_partition=_no_partition,
    log_base=_log_binomial,
    has_row_parameters=True,
)
GEOMETRIC = ExponentialFamily(
    statistics=lambda x, row: (x, 1.0 + 0.0 * x),
    natural=lambda p: (p["log_zero"], p["log_one"]),
    log_partition=_no_partition,
)
MULTINOMIAL = MultinomialFamily(
    statistics=lambda x, row: (x,),
    natural=lambda p: (p["log_probs"],),
    log_partition=lambda p: namespace(p["log_probs"]).zeros(p["log_probs"].shape[:-1]),
    log_base=_log_multinomial,
    event_dim=1,
    name="a multinomial distribution",
    cell_sums=CellSums.TOTALS,
)
POISSON = ExponentialFamily(
    statistics=lambda x, row: (x,),
    natural=lambda p: (p["log_rate"],),
    log_partition=lambda p: p["rate"],
    log_base=lambda x, row: -log_factorial(x),
    mean=lambda natural: np.exp(natural[0]),
    draw=lambda rng, natural: rng.poisson(np.exp(natural[0])),
    cell_sums=CellSums.VALUES,
)
EXPONENTIAL = ExponentialFamily(
    statistics=lambda x, row: (x,),
    natural=lambda p: (-p["rate"],),
    log_partition=lambda p: -_log(p["rate"]),
)
GAMMA = ExponentialFamily(
    statistics=lambda x, row: (_log(x), x),
    natural=lambda p: (p["concentration"] - 1.0, -p["rate"]),
    log_partition=lambda p: _gammaln(p["concentration"]) - p["concentration"] * _log(p["rate"]),
)
INVERSE_GAMMA = ExponentialFamily(
    statistics=lambda x, row: (_log(x), 1.0 / precise(x)),
    natural=lambda p: (-p["concentration"] - 1.0, -p["rate"]),
    log_partition=lambda p: _gammaln(p["concentration"]) - p["concentration"] * _log(p["rate"]),
)
BETA = ExponentialFamily(
    statistics=lambda x, row: (_log(x), namespace(x).log1p(-precise(x))),
    natural=lambda p: (p["concentration1"] - 1.0, p["concentration0"] - 1.0),
    log_partition=lambda p: (
        _gammaln(p["concentration1"])
        + _gammaln(p["concentration0"])
        - _gammaln(p["concentration1"] + p["concentration0"])
    ),
)
DIRICHLET = ExponentialFamily(
    statistics=lambda x, row: (_log(x),),
    natural=lambda p: (p["concentration"] - 1.0,),
    log_partition=lambda p: _gammaln(p["concentration"]).sum(-1) - _gammaln(p["concentration"].sum(-1)),
    event_dim=1,
    name="a Dirichlet distribution",
)
HALF_NORMAL = ExponentialFamily(
    statistics=lambda x, row: (precise(x) ** 2,),
    natural=lambda p: (-0.5 / p["scale"] ** 2,),
    log_partition=lambda p: _log(p["scale"]) + 0.5 * math.log(math.pi / 2),
)
LAPLACE = ExponentialFamily(  # an exponential family where the location is known, and only there
    statistics=lambda x, row: (abs(x - row["loc"]),),
    natural=lambda p: (-1.0 / p["scale"],),
    log_partition=lambda p: _log(2.0 * p["scale"]),
    has_row_parameters=True,
)
NORMAL = NormalLikelihood()
LOG_NORMAL = NormalLikelihood(log_scale=True)
MULTIVARIATE_NORMAL = MultivariateNormalLikelihood()
LOW_RANK_NORMAL = LowRankNormalLikelihood()

# --- how each NumPyro distribution writes its parameters --------------------------------------------------------


def _binary_probs(d: dist.BernoulliProbs | dist.BinomialProbs | dist.GeometricProbs) -> dict[str, jax.Array]:
    return {"log_one": jnp.log(d.probs), "log_zero": jnp.log1p(-d.probs)}


def _binary_logits(d: dist.BernoulliLogits | dist.BinomialLogits | dist.GeometricLogits) -> dict[str, jax.Array]:
    return {"log_one": log_sigmoid(d.logits), "log_zero": log_sigmoid(-d.logits)}


def _category_probs(d: dist.CategoricalProbs | dist.MultinomialProbs) -> dict[str, jax.Array]:
    return {"log_probs": jnp.log(d.probs)}


def _category_logits(d: dist.CategoricalLogits | dist.MultinomialLogits) -> dict[str, jax.Array]:
    return {"log_probs": log_softmax(d.logits, axis=-1)}


def _named(*names: str) -> Callable[[dist.Distribution], dict[str, jax.Array]]:
    return lambda d: {name: jnp.asarray(getattr(d, name)) for name in names}


def _categorical(d: dist.CategoricalProbs | dist.CategoricalLogits) -> CategoricalLikelihood:
    return CategoricalLikelihood((d.probs if "probs" in d.__dict__ else d.logits).shape[-1])


TOTAL_COUNT = _named("total_count")
VECTOR = {"log_probs": 1}

register(dist.BernoulliProbs, BERNOULLI, _binary_probs)
register(dist.BernoulliLogits, BERNOULLI, _binary_logits)
register(dist.BinomialProbs, BINOMIAL, _binary_probs, row_parameters=TOTAL_COUNT)
register(dist.BinomialLogits, BINOMIAL, _binary_logits, row_parameters=TOTAL_COUNT)
register(dist.GeometricProbs, GEOMETRIC, _binary_probs)
register(dist.GeometricLogits, GEOMETRIC, _binary_logits)
register(dist.CategoricalProbs, _categorical, _category_probs, event_dims=VECTOR)
register(dist.CategoricalLogits, _categorical, _category_logits, event_dims=VECTOR)
register(dist.MultinomialProbs, MULTINOMIAL, _category_probs, row_parameters=TOTAL_COUNT, event_dims=VECTOR)
register(dist.MultinomialLogits, MULTINOMIAL, _category_logits, row_parameters=TOTAL_COUNT, event_dims=VECTOR)
register(dist.Poisson, POISSON, lambda d: {"rate": jnp.asarray(d.rate), "log_rate": jnp.log(d.rate)})
register(dist.Exponential, EXPONENTIAL, _named("rate"))
register(dist.Gamma, GAMMA, _named("concentration", "rate"))
register(dist.Chi2, GAMMA, _named("concentration", "rate"))
register(
    dist.InverseGamma,
    INVERSE_GAMMA,
    lambda d: {
        "concentration": jnp.asarray(d.base_dist.concentration),
        "rate": jnp.asarray(d.base_dist.rate),
    },
)
register(dist.Beta, BETA, _named("concentration1", "concentration0"))
register(dist.Dirichlet, DIRICHLET, _named("concentration"), event_dims={"concentration": 1})
register(dist.HalfNormal, HALF_NORMAL, _named("scale"))
register(dist.Laplace, LAPLACE, _named("scale"), row_parameters=_named("loc"))
register(dist.Normal, NORMAL, _named("loc", "scale"))
register(dist.LogNormal, LOG_NORMAL, _named("loc", "scale"))
register(
    dist.MultivariateNormal,
    MULTIVARIATE_NORMAL,
    _named("loc", "scale_tril"),
    event_dims={"loc": 1, "scale_tril": 2},
)
register(
    dist.LowRankMultivariateNormal,
    LOW_RANK_NORMAL,
    _named("loc", "scale_tril", "cov_factor", "cov_diag"),
    event_dims={"loc": 1, "scale_tril": 2, "cov_factor": 2, "cov_diag": 1},
)
