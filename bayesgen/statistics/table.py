"""The statistics of NumPyro's distributions: one registration each."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.nn import log_sigmoid, log_softmax

from bayesgen.typing import Array, Float, Real

from .arrays import Cells, log_factorial, namespace, precise, segment_sums, special
from .base import Parameters
from .discrete import BernoulliStatistic, CategoricalStatistic
from .exponential import ExponentialFamily
from .low_rank_normal import LowRankNormalStatistic
from .multivariate_normal import MultivariateNormalStatistic
from .normal import NormalStatistic
from .registry import register

# --- exponential families -------------------------------------------------------------------------------------


def _no_partition(parameters: Parameters) -> Float[Array, "K ..."]:
    first = next(iter(parameters.values()))
    return namespace(first).zeros(first.shape)


def _log_binomial(values: Real[Array, "n ..."], inert: Parameters) -> Float[Array, "n ..."]:
    total = inert["total_count"]
    return log_factorial(total) - log_factorial(values) - log_factorial(total - values)


def _log_multinomial(values: Cells, inert: Parameters | None) -> Float[Array, "n ..."]:
    """log(n! / prod_v x_v!), of dense or sparse counts."""
    if not hasattr(values, "tocsr"):
        return log_factorial(values.sum(-1)) - log_factorial(values).sum(-1)
    values = values.tocsr()
    others = np.flatnonzero(values.data != 1)  # log(1!) = 0, and most words of a document come once
    counts, ends = values.data[others], np.searchsorted(others, values.indptr)
    totals = np.diff(values.indptr) + segment_sums(counts - 1.0, ends)
    return log_factorial(totals) - segment_sums(log_factorial(counts), ends)


def _gammaln(values: Float[Array, "..."]) -> Float[Array, "..."]:
    return special(namespace(values)).gammaln(values)


def _log(values: Real[Array, "..."]) -> Float[Array, "..."]:
    return namespace(values).log(precise(values))


BERNOULLI = BernoulliStatistic()
BINOMIAL = ExponentialFamily(
    statistics=lambda x, inert: (x, inert["total_count"] - x),
    natural=lambda p: (p["log_one"], p["log_zero"]),
    log_partition=_no_partition,
    log_base=_log_binomial,
    uses_inert=True,
)
GEOMETRIC = ExponentialFamily(
    statistics=lambda x, inert: (x, 1.0 + 0.0 * x),
    natural=lambda p: (p["log_zero"], p["log_one"]),
    log_partition=_no_partition,
)
MULTINOMIAL = ExponentialFamily(
    statistics=lambda x, inert: (x,),
    natural=lambda p: (p["log_probs"],),
    log_partition=lambda p: namespace(p["log_probs"]).zeros(p["log_probs"].shape[:-1]),
    log_base=_log_multinomial,
    event_dim=1,
    name="a multinomial distribution",
)
POISSON = ExponentialFamily(
    statistics=lambda x, inert: (x,),
    natural=lambda p: (p["log_rate"],),
    log_partition=lambda p: p["rate"],
    log_base=lambda x, inert: -log_factorial(x),
    mean=lambda natural: np.exp(natural[0]),
    draw=lambda rng, natural: rng.poisson(np.exp(natural[0])),
)
EXPONENTIAL = ExponentialFamily(
    statistics=lambda x, inert: (x,),
    natural=lambda p: (-p["rate"],),
    log_partition=lambda p: -_log(p["rate"]),
)
GAMMA = ExponentialFamily(
    statistics=lambda x, inert: (_log(x), x),
    natural=lambda p: (p["concentration"] - 1.0, -p["rate"]),
    log_partition=lambda p: _gammaln(p["concentration"]) - p["concentration"] * _log(p["rate"]),
)
INVERSE_GAMMA = ExponentialFamily(
    statistics=lambda x, inert: (_log(x), 1.0 / precise(x)),
    natural=lambda p: (-p["concentration"] - 1.0, -p["rate"]),
    log_partition=lambda p: _gammaln(p["concentration"]) - p["concentration"] * _log(p["rate"]),
)
BETA = ExponentialFamily(
    statistics=lambda x, inert: (_log(x), namespace(x).log1p(-precise(x))),
    natural=lambda p: (p["concentration1"] - 1.0, p["concentration0"] - 1.0),
    log_partition=lambda p: (
        _gammaln(p["concentration1"])
        + _gammaln(p["concentration0"])
        - _gammaln(p["concentration1"] + p["concentration0"])
    ),
)
DIRICHLET = ExponentialFamily(
    statistics=lambda x, inert: (_log(x),),
    natural=lambda p: (p["concentration"] - 1.0,),
    log_partition=lambda p: _gammaln(p["concentration"]).sum(-1) - _gammaln(p["concentration"].sum(-1)),
    event_dim=1,
    name="a Dirichlet distribution",
)
HALF_NORMAL = ExponentialFamily(
    statistics=lambda x, inert: (precise(x) ** 2,),
    natural=lambda p: (-0.5 / p["scale"] ** 2,),
    log_partition=lambda p: _log(p["scale"]) + 0.5 * math.log(math.pi / 2),
)
LAPLACE = ExponentialFamily(  # an exponential family where the location is known, and only there
    statistics=lambda x, inert: (abs(x - inert["loc"]),),
    natural=lambda p: (-1.0 / p["scale"],),
    log_partition=lambda p: _log(2.0 * p["scale"]),
    uses_inert=True,
)
NORMAL = NormalStatistic()
LOG_NORMAL = NormalStatistic(log_scale=True)
MULTIVARIATE_NORMAL = MultivariateNormalStatistic()
LOW_RANK_NORMAL = LowRankNormalStatistic()

# --- how each NumPyro distribution writes its parameters --------------------------------------------------------


def _binary_probs(d: Any) -> dict[str, jax.Array]:
    return {"log_one": jnp.log(d.probs), "log_zero": jnp.log1p(-d.probs)}


def _binary_logits(d: Any) -> dict[str, jax.Array]:
    return {"log_one": log_sigmoid(d.logits), "log_zero": log_sigmoid(-d.logits)}


def _category_probs(d: Any) -> dict[str, jax.Array]:
    return {"log_probs": jnp.log(d.probs)}


def _category_logits(d: Any) -> dict[str, jax.Array]:
    return {"log_probs": log_softmax(d.logits, axis=-1)}


def _named(*names: str) -> Callable[[Any], dict[str, jax.Array]]:
    return lambda d: {name: jnp.asarray(getattr(d, name)) for name in names}


def _total_count(d: Any) -> dict[str, Any]:
    return {"total_count": d.total_count}


def _categorical(d: Any) -> CategoricalStatistic:
    return CategoricalStatistic((d.probs if "probs" in d.__dict__ else d.logits).shape[-1])


VECTOR = {"log_probs": 1}

register(dist.BernoulliProbs, BERNOULLI, _binary_probs)
register(dist.BernoulliLogits, BERNOULLI, _binary_logits)
register(dist.BinomialProbs, BINOMIAL, _binary_probs, inert=_total_count)
register(dist.BinomialLogits, BINOMIAL, _binary_logits, inert=_total_count)
register(dist.GeometricProbs, GEOMETRIC, _binary_probs)
register(dist.GeometricLogits, GEOMETRIC, _binary_logits)
register(dist.CategoricalProbs, _categorical, _category_probs, event_dims=VECTOR)
register(dist.CategoricalLogits, _categorical, _category_logits, event_dims=VECTOR)
register(dist.MultinomialProbs, MULTINOMIAL, _category_probs, inert=_total_count, event_dims=VECTOR)
register(dist.MultinomialLogits, MULTINOMIAL, _category_logits, inert=_total_count, event_dims=VECTOR)
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
register(dist.Laplace, LAPLACE, _named("scale"), inert=_named("loc"))
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
