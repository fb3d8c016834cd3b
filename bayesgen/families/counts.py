"""Zeros and ones, and counts: Beta-Bernoulli, gamma-Poisson, and Dirichlet-multinomial where columns share a total."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln as jax_gammaln
from numpy.typing import ArrayLike
from scipy.special import betaincinv, betaln, expit, gammaincinv, gammaln, logit, xlog1py, xlogy

from bayesgen.data import BINARY, COUNT, Binary, Count
from bayesgen.records import fill, record
from bayesgen.runtime import generator
from bayesgen.statistics import (
    BERNOULLI,
    BETA,
    GAMMA,
    MULTINOMIAL,
    POISSON,
    Cells,
    ColumnwiseDensity,
    Likelihood,
    RowDensity,
    Sums,
    filled_matrix,
    flatten_rows,
    log_factorial,
    log_rising,
    namespace,
    refuse_missing,
    row_sums,
    sum_log_rising,
    sum_log_rising_of_cells,
)
from bayesgen.typing import Array, ArrayOrNumber, Bool, Float, Int, Real, Shaped

from .base import Family, Key, ParameterTables, default_family
from .dirichlet import DirichletFamily, dirichlet_form
from .forms import Form, Tables, register_form
from .hyperparameters import (
    ANONYMOUS,
    Hyperparameter,
    Names,
    Pooling,
    Scale,
    Stated,
    Traits,
    as_number,
    broadcast,
    check_counted,
    check_mode,
    check_positive,
)
from .special import sample_beta, sample_gamma


@record
class BetaBernoulli(Family):
    """Binary columns with a beta prior on the probability of a one.

    Generative story::

        probs ~ Beta(a, b)
        x     ~ Bernoulli(probs)

    Args:
        a: pseudo-count of ones, > 0.
        b: pseudo-count of zeros, > 0.

    Source: Gelman et al., Bayesian Data Analysis (3rd ed.), section 2.4.

    >>> posterior = BetaBernoulli(1, 1).update([1] * 9 + [0])
    >>> float(posterior.mean()["probs"])
    0.8333333333333334
    """

    a: Hyperparameter
    b: Hyperparameter
    kind = BINARY
    traits = Traits(sparse=True)
    likelihood = BERNOULLI

    def __init__(self, a: Stated = 1.0, b: Stated = 1.0) -> None:
        check_positive("BetaBernoulli", a=a, b=b)
        fill(self, a=as_number(a), b=as_number(b))

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D)."""
        shape = scale.batch_shape
        return self.replace(**broadcast("BetaBernoulli", shape, a=self.a, b=self.b), batch_shape=shape)

    def posterior(self, summary: Sums) -> Self:
        ones, zeros = summary.totals
        return self.replace(a=self.a + ones, b=self.b + zeros, batch_shape=np.shape(self.a + ones))

    # Tables of two probabilities take seven times as long of many columns: NumPy is slow along an axis of length 2.

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        ones, zeros = summary.totals
        return log_rising(self.a, ones) + log_rising(self.b, zeros) - log_rising(self.a + self.b, ones + zeros)

    def mean(self) -> ParameterTables:
        """a / (a + b)."""
        self.require_numbers("mean")
        return {"probs": self.a / (self.a + self.b)}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """(a - 1) / (a + b - 2), where a, b >= 1 and not both are 1."""
        self.require_numbers("mode")
        check_mode(
            names,
            (self.a < 1) | (self.b < 1) | ((self.a == 1) & (self.b == 1)),
            "a Beta(a, b) with a < 1 or b < 1 is unbounded, Beta(1, 1) is flat.",
            f"Give a and b of at least 1, one of them above 1, or use {names.averaging}.",
        )
        ones, zeros = self.a - 1, self.b - 1
        return {"probs": ones / (ones + zeros)}  # of a + b - 2 rounding may leave less than of a - 1

    def variance(self) -> ParameterTables:
        """a b / ((a + b)^2 (a + b + 1))."""
        self.require_numbers("variance")
        total = self.a + self.b
        return {"probs": self.a * self.b / (total**2 * (total + 1))}

    def quantile(self, prob: float) -> ParameterTables:
        self.require_numbers("quantile")
        return {"probs": betaincinv(self.a, self.b, prob)}

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        ones, zeros = summary.totals
        check_counted(names, ones + zeros == 0)
        return {"probs": ones / (ones + zeros)}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        self.require_numbers("sample")
        return {"probs": sample_beta(generator(key), self.a, self.b, shape)}

    def predictive(self) -> dist.Distribution:
        """Bernoulli with the mean probability, by its log odds, which resolve probabilities near 0 and near 1."""
        self.require_numbers("predictive")
        xp = namespace(self.a, self.b)
        return dist.Bernoulli(logits=xp.log(self.a) - xp.log(self.b))

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_probs`, (K, D)."""
        prior = dist.Beta(self.a, self.b).expand(self.batch_shape).to_event(len(self.batch_shape))
        return {"probs": numpyro.sample(f"{name}_probs", prior)}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.Bernoulli(probs=parameters["probs"][labels]).to_event(1)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        """Log probabilities of ones and zeros."""
        probs = parameters["probs"]
        xp = namespace(probs)
        with np.errstate(divide="ignore"):
            return {"log_one": xp.log(probs), "log_zero": xp.log1p(-probs)}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        self.require_numbers("log_prior")
        probs = parameters["probs"]
        logs = xlogy(self.a - 1, probs) + xlog1py(self.b - 1, -probs) - betaln(self.a, self.b)
        return float(np.sum(logs))

    def row_predictive(self) -> RowDensity:
        """Bernoulli with the mean probability, whose logs come from the counts and so are exact near 1."""
        xp = namespace(self.a, self.b)
        log_total = xp.log(self.a + self.b)
        return BERNOULLI.density({"log_one": xp.log(self.a) - log_total, "log_zero": xp.log(self.b) - log_total})

    def tilted(self, parameters: Mapping[str, np.ndarray], slopes: Float[np.ndarray, "K D"]) -> ParameterTables | None:
        return {"probs": expit(logit(parameters["probs"]) + slopes)}

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"probs": ("class", "feature")}


class PreciseGammaPoisson(dist.GammaPoisson):
    """NumPyro's gamma-Poisson with log probabilities to all digits; NumPyro's are accurate to 1e-6 only."""

    def log_prob(self, value: Array) -> Array:
        shape, rate = jnp.asarray(self.concentration), self.rate
        ratio = log_rising(shape, value) - jax_gammaln(value + 1.0)
        return ratio - shape * jnp.log1p(1.0 / rate) - value * jnp.log1p(rate)


@record
class NegativeBinomialDensity(ColumnwiseDensity):
    """Columns of counts, Poisson with a gamma rate."""

    concentration: Float[Array, "K D"]
    rate: Float[Array, "K D"]

    def log_prob(self, values: Cells, observed: Bool[Array, "n D"] | None = None) -> Float[Array, "n K"]:
        rows, observed = filled_matrix(values, observed, 0.0)
        shape, rate = flatten_rows(self.concentration), flatten_rows(self.rate)
        xp = namespace(rows, shape)
        constants = -shape * xp.log1p(1 / rate)
        constant = constants.sum(-1) if observed is None else observed.astype(float) @ constants.T
        counts = sum_log_rising(rows, shape) - rows @ xp.log1p(rate).T
        return constant + counts - log_factorial(rows).sum(-1)[:, None]

    def expected(self, values: Cells, observed: Bool[np.ndarray, "n ..."]) -> Float[np.ndarray, "#n #K m"]:
        return np.asarray(self.concentration / self.rate)[None]

    def sample(
        self,
        values: Cells,
        observed: Bool[np.ndarray, "n ..."],
        classes: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Shaped[np.ndarray, "n m"]:
        return rng.poisson(rng.gamma(self.concentration[classes]) / self.rate[classes]).astype(float)


@record
class GammaPoisson(Family):
    """Columns of counts with a gamma prior on the rate.

    Generative story::

        rate ~ Gamma(shape, rate)
        x    ~ Poisson(rate)

    Args:
        shape: shape of the gamma distribution, > 0.
        rate: its rate, > 0; None resolves to 1/m, with m the training column's mean (1 where m = 0).

    Source: Gelman et al., Bayesian Data Analysis (3rd ed.), section 2.6.

    >>> posterior = GammaPoisson(shape=2, rate=1).update([3, 0, 4])
    >>> float(posterior.mean()["rate"])
    2.25
    """

    shape: Hyperparameter
    rate: Hyperparameter
    kind = COUNT
    traits = Traits(scaled=True)
    likelihood = POISSON

    def __init__(self, shape: Stated = 1.0, rate: Stated = None) -> None:
        check_positive("GammaPoisson", shape=shape, rate=rate)
        fill(self, shape=as_number(shape), rate=as_number(rate))

    @property
    def defaults(self) -> Mapping[str, str]:
        return {"rate": "1 / means of the columns"}

    def resolve(self, scale: Scale) -> Self:
        """Broadcast to (K, D); a missing rate becomes 1/m."""
        rate = self.rate
        if rate is None:
            rate = 1.0 / namespace(scale.mean).where(scale.mean > 0, scale.mean, 1.0)
        shape = scale.batch_shape
        return self.replace(**broadcast("GammaPoisson", shape, shape=self.shape, rate=rate), batch_shape=shape)

    def posterior(self, summary: Sums) -> Self:
        shape = self.shape + summary.totals[0]
        rate = self.rate + summary.cell_counts
        rate = namespace(rate).broadcast_to(rate, shape.shape)
        return self.replace(shape=shape, rate=rate, batch_shape=shape.shape)

    def _log_evidence(self, summary: Sums) -> Float[ArrayOrNumber, "..."]:
        total = summary.totals[0]
        rows = summary.cell_counts
        xp = namespace(rows, self.rate)
        rates = self.shape * xp.log1p(rows / self.rate) + total * xp.log(self.rate + rows)
        return log_rising(self.shape, total) - rates + summary.log_base

    def mean(self) -> ParameterTables:
        """shape / rate."""
        self.require_numbers("mean")
        return {"rate": self.shape / self.rate}

    def mode(self, names: Names = ANONYMOUS) -> ParameterTables:
        """(shape - 1) / rate, where shape >= 1."""
        self.require_numbers("mode")
        check_mode(
            names,
            self.shape < 1,
            "a gamma distribution with shape below 1 is unbounded at 0.",
            f"Give a shape of at least 1, or use {names.averaging}.",
        )
        return {"rate": (self.shape - 1) / self.rate}

    def variance(self) -> ParameterTables:
        """shape / rate^2."""
        self.require_numbers("variance")
        return {"rate": self.shape / self.rate**2}

    def quantile(self, prob: float) -> ParameterTables:
        self.require_numbers("quantile")
        return {"rate": gammaincinv(self.shape, prob) / self.rate}

    def maximum_likelihood(self, summary: Sums, names: Names = ANONYMOUS) -> ParameterTables:
        """Mean counts."""
        count = namespace(summary.count).broadcast_to(summary.cell_counts, summary.totals[0].shape)
        check_counted(names, count == 0)
        return {"rate": summary.totals[0] / count}

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> ParameterTables:
        self.require_numbers("sample")
        return {"rate": sample_gamma(generator(key), self.shape, self.rate, shape)}

    def predictive(self) -> dist.Distribution:
        self.require_numbers("predictive")
        return PreciseGammaPoisson(self.shape, self.rate)

    def sample_sites(self, name: str) -> ParameterTables:
        """Sample `{name}_rate`, (K, D)."""
        prior = dist.Gamma(self.shape, self.rate).expand(self.batch_shape).to_event(len(self.batch_shape))
        return {"rate": numpyro.sample(f"{name}_rate", prior)}

    def site_distribution(self, parameters: Mapping[str, Array], labels: Int[Array, "*n"]) -> dist.Distribution:
        return dist.Poisson(parameters["rate"][labels]).to_event(1)

    def likelihood_parameters(self, parameters: Mapping[str, Array]) -> ParameterTables:
        rate = parameters["rate"]
        with np.errstate(divide="ignore"):
            return {"rate": rate, "log_rate": namespace(rate).log(rate)}

    def log_prior(self, parameters: Mapping[str, Array]) -> float:
        self.require_numbers("log_prior")
        rate = parameters["rate"]
        constant = self.shape * np.log(self.rate) - gammaln(self.shape)
        return float(np.sum(xlogy(self.shape - 1, rate) - self.rate * rate + constant))

    def row_predictive(self) -> RowDensity:
        return NegativeBinomialDensity(self.shape, self.rate)

    def tilted(self, parameters: Mapping[str, np.ndarray], slopes: Float[np.ndarray, "K D"]) -> ParameterTables | None:
        return {"rate": parameters["rate"] * np.exp(slopes)}

    def parameter_axes(self) -> dict[str, tuple[str, ...]]:
        return {"rate": ("class", "feature")}


@record
class DirichletMultinomialDensity(RowDensity):
    """Vectors of counts, multinomial with Dirichlet probabilities. Of sparse rows only the nonzero cells cost."""

    concentration: Float[Array, "K V"]

    @functools.cached_property
    def _starts_and_logs(self) -> tuple[Float[np.ndarray, "K V"], Float[np.ndarray, "K V"]]:
        """Concentrations and their logs, as products with sparse rows take them."""
        starts = np.asfortranarray(self.concentration)
        return starts, np.log(starts)

    def log_prob(self, values: Cells, observed: Bool[Array, "n V"] | None = None) -> Float[Array, "n K"]:
        if observed is not None:
            refuse_missing("a Dirichlet-multinomial distribution")
        if hasattr(values, "tocsr"):
            cell_terms = sum_log_rising_of_cells(values.tocsr(), *self._starts_and_logs, by_factorials=True)
            return cell_terms + self._length_terms(row_sums(values))
        words = sum_log_rising(values, self.concentration)
        return words + self._length_terms(values.sum(-1)) - log_factorial(values).sum(-1)[:, None]

    @functools.cached_property
    def _totals(self) -> Float[Array, "K 1"]:
        return self.concentration.sum(-1, keepdims=True)

    def _length_terms(self, lengths: Real[Array, " n"]) -> Float[Array, "n K"]:
        """The terms that depend on the length of a row alone."""
        return log_factorial(lengths)[:, None] - sum_log_rising(lengths[:, None], self._totals)


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


def _form_of_columns(
    family: Any, likelihood: Likelihood, parameter: str, prior: Likelihood, arguments: Sequence[str], table: Any
) -> Form:
    """The form of a family with one parameter a class and column, which is made of the two arguments of its prior."""

    def with_arguments(by_parameter: Mapping[str, Tables], parameters: Tables, pooling: Pooling) -> Any:
        first, second = (by_parameter[parameter][name] for name in arguments)
        return family(first, second).replace(batch_shape=first.shape)

    return Form(
        family, lambda other: other == likelihood, {parameter: prior}, lambda p: {parameter: table(p)}, with_arguments
    )


BETA_ARGUMENTS, GAMMA_ARGUMENTS = ("concentration1", "concentration0"), ("concentration", "rate")
register_form(_form_of_columns(BetaBernoulli, BERNOULLI, "probs", BETA, BETA_ARGUMENTS, lambda p: np.exp(p["log_one"])))
register_form(_form_of_columns(GammaPoisson, POISSON, "rate", GAMMA, GAMMA_ARGUMENTS, lambda p: np.asarray(p["rate"])))
register_form(dirichlet_form(DirichletMultinomial, lambda likelihood: likelihood == MULTINOMIAL, is_vector=True))
default_family.register(Binary, lambda kind, is_sparse: BetaBernoulli())
# the counts of a sparse matrix share the total of a row
default_family.register(Count, lambda kind, is_sparse: DirichletMultinomial() if is_sparse else GammaPoisson())
