"""`Tables`: latents with independent entries, a stage of `Elimination`, and the forms of their densities."""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import numpyro.distributions as dist
import scipy.stats

from bayesgen.records import copied, record, static
from bayesgen.statistics import log_rising
from bayesgen.typing import Array, Float

from .density import DensityAtSites
from .elimination import LatentDistribution, LogDensityOfValues, Stage, StageDistribution
from .random_numbers import RandomNumbers
from .structure import Arrays

FAR = 1e30  # a point so far out, or so near zero, that one of two terms of a slope has all its digits
SMALL_PROB = 2.0**-40  # such a probability; a whole power, which leaves one less it without rounding


@dataclasses.dataclass(frozen=True)
class Tables(Stage):
    """Latents whose entries (probabilities, rates, variances, vectors or matrices of them) are independent.

    Attributes:
        latents: (latent, shape of its value, the form of its density).
    """

    latents: tuple[tuple[str, tuple[int, ...], "TableForm"], ...]

    @property
    def families(self) -> dict[str, str]:
        return {name: form.family for name, _, form in self.latents}

    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> "IndependentTables":
        return self._product(*self._priors(log_density, others), others)

    def log_mean(self, log_factor: LogDensityOfValues, conditional: Any, others: Arrays) -> Float[Array, ""]:
        return self._product(conditional.tables, log_factor, others).log_integral

    def _product(self, priors: dict[str, Any], log_rest: LogDensityOfValues, others: Arrays) -> "IndependentTables":
        """The distribution by priors, tables of some of the latents, and the rest of the log density."""
        points = {name: jnp.stack(form.points(shape)) for name, shape, form in self.latents}

        def at_coordinates(coordinates: Arrays) -> Float[Array, ""]:
            values = {name: form.value(coordinates[name]) for name, _, form in self.latents}
            jacobian = sum(form.log_jacobian(values[name]) for name, _, form in self.latents)
            return log_rest({**others, **values}) + jacobian

        slopes = jax.vmap(jax.grad(at_coordinates))(points)
        factors = {name: form.table(*zip(points[name], slopes[name], strict=True)) for name, _, form in self.latents}
        tables = factors | {name: prior.updated(factors[name]) for name, prior in priors.items()}
        center = jax.lax.stop_gradient({name: table.center() for name, table in tables.items()})
        log_integral = _log_integral(log_rest, {**others, **center}, priors, factors)
        return IndependentTables(tables, log_integral, priors, factors)

    def misfit(self, log_density: LogDensityOfValues, values: Arrays, conditional: Any) -> Float[Array, ""]:
        """The integral by the values in place of the center: the terms of large priors, which have few digits, are out
        of the comparison."""
        others = {name: value for name, value in values.items() if name not in self.names}
        _, log_rest = self._priors(log_density, others)
        by_values = _log_integral(log_rest, values, conditional.priors, conditional.factors)
        difference = jnp.abs(by_values - conditional.log_integral)
        return difference / (1 + jnp.abs(log_rest(values)) + jnp.abs(conditional.log_integral))

    def _priors(self, log_density: LogDensityOfValues, others: Arrays) -> tuple[dict[str, Any], LogDensityOfValues]:
        """The priors whose parameters are known, and the log density without them."""
        if not isinstance(log_density, DensityAtSites):
            return {}, log_density
        at = log_density.priors({**others, **{n: form.value(form.points(shape)[0]) for n, shape, form in self.latents}})
        priors = {n: _PRIORS[type(at[n]), f](at[n]) for n, _, f in self.latents if (type(at.get(n)), f) in _PRIORS}
        return priors, lambda values: log_density(values, tuple(priors))


@record
class IndependentTables(StageDistribution):
    """Independent tables of several latents.

    Attributes:
        tables: latent -> the distribution of its value.
        log_integral: of the density that it was made from.
        priors: those whose parameters are known.
        factors: tables of what they are multiplied by, and of latents without such a prior.
    """

    tables: dict[str, "TableDistribution"]
    log_integral: Float[Array, ""]
    priors: dict[str, "TableDistribution"]
    factors: dict[str, "TableDistribution"]

    def log_prob(self, values: Arrays) -> Float[Array, ""]:
        return sum((table.log_prob(values[name]) for name, table in self.tables.items()), start=jnp.zeros(()))

    def sample(self, random: RandomNumbers) -> Arrays:
        return {name: table.sample(random) for name, table in self.tables.items()}

    def about(self, numbers: Arrays) -> Arrays:
        return {name: table.about(numbers[name]) for name, table in self.tables.items()}

    def mean(self) -> Arrays:
        return {name: table.mean() for name, table in self.tables.items()}

    def mode(self) -> Arrays:
        return {name: table.mode() for name, table in self.tables.items()}

    def variance(self) -> Arrays:
        return {name: table.variance() for name, table in self.tables.items()}

    def quantile(self, prob: float) -> Arrays:
        return {name: table.quantile(prob) for name, table in self.tables.items()}


def _log_integral(
    log_rest: LogDensityOfValues, values: Arrays, priors: Mapping[str, Any], factors: Mapping[str, "TableDistribution"]
) -> Float[Array, ""]:
    """The log integral of a product of tables, from its value where the latents have any values."""
    log_integrals = (
        priors[name].log_evidence(factor, values[name]) if name in priors else -factor.log_prob(values[name])
        for name, factor in factors.items()
    )
    return log_rest(values) + sum(log_integrals)


PointAndSlope: TypeAlias = tuple[Array, Array]


class TableForm(abc.ABC):
    """The form of the density of a latent: that of its entries, in coordinates in which it is linear in two features.

    Hashable.

    Attributes:
        power: p, where the log density is a + b log c + d c^p of a factor c; 0 where it is not.
    """

    power: int = 0

    @property
    @abc.abstractmethod
    def family(self) -> str:
        """The name of the distribution."""

    @abc.abstractmethod
    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Two values of the coordinates, at which slopes tell the numbers of the density."""

    def value(self, coordinates: Array) -> Array:
        """The value of the latent at coordinates; they are the value itself but for matrices."""
        return coordinates

    def log_jacobian(self, value: Array) -> Float[Array, ""] | float:
        """Log |d value / d coordinates|."""
        return 0.0

    @abc.abstractmethod
    def table(self, first: PointAndSlope, second: PointAndSlope) -> "TableDistribution":
        """The distribution of the latent, from the slopes of its log density at both points."""


class TableDistribution(LatentDistribution[Array]):
    """The distribution of a latent with independent entries.

    Priors have two methods more, so that large parameters keep their digits: `updated` with a factor, a table of the
    same form, and `log_evidence`, the log of the mean of this factor scaled to 1 at a value.
    """

    def center(self) -> Array:
        """A value in the bulk of the distribution."""
        return self.about(jnp.zeros(()))


@dataclasses.dataclass(frozen=True)
class PowerForm(TableForm):
    """theta^a exp(-b theta^power): gamma (1), inverse gamma (-1), and square roots of both (2, -2)."""

    power: int

    @property
    def family(self) -> str:
        return {1: "gamma", -1: "inverse gamma", 2: "root of a gamma", -2: "root of an inverse gamma"}[self.power]

    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        small = FAR ** (-1 / self.power)  # where theta^power is nearly zero, and where it is large
        return jnp.full(shape, small), jnp.full(shape, 1 / small)

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "PowerTable":
        exponent, rate = first[0] * first[1], -second[1] * second[0] ** (1 - self.power) / self.power
        return PowerTable((exponent + 1) / self.power, rate, self.power)


@record
class PowerTable(TableDistribution):
    """Entries whose power has a gamma distribution.

    Attributes:
        shape, rate: the parameters of the gamma distribution of the powers.
        power: 1 for a gamma distribution, -1 for an inverse gamma one.
    """

    shape: Float[Array, "*shape"]
    rate: Float[Array, "*shape"]
    power: int = static()

    @property
    def exponent(self) -> Float[Array, "*shape"]:
        """The exponent a of the density theta^a exp(-rate theta^power)."""
        return self.power * self.shape - 1

    def updated(self, factor: "PowerTable") -> "PowerTable":
        return copied(self, shape=self.shape + (factor.shape - 1 / self.power), rate=self.rate + factor.rate)

    def log_evidence(self, factor: "PowerTable", value: Array) -> Float[Array, ""]:
        added, power, rate = factor.shape - 1 / self.power, value**self.power, self.rate + factor.rate
        log_ratio = _log_rising(self.shape, added) - self.shape * jnp.log1p(factor.rate / self.rate)
        return (log_ratio - added * jnp.log(rate * power) + factor.rate * power).sum()

    def log_prob(self, value: Array) -> Float[Array, ""]:
        constant = math.log(abs(self.power)) + self.shape * jnp.log(self.rate) - log_gamma(self.shape)
        return (constant + self.exponent * jnp.log(value) - self.rate * value**self.power).sum()

    def sample(self, random: RandomNumbers) -> Array:
        return jnp.exp((random.log_gamma(self.shape) - jnp.log(self.rate)) / self.power)

    def about(self, numbers: Array) -> Array:
        return (self.shape / self.rate * jnp.exp(numbers / jnp.sqrt(self.shape + 1))) ** (1 / self.power)

    def mean(self) -> Array:
        return self._moment(1)

    def mode(self) -> Array:
        at_zero = jnp.where(self.exponent == 0, 0.0, jnp.nan) if self.power > 0 else jnp.nan
        inside = (self.exponent / (self.rate * self.power)) ** (1 / self.power)
        return jnp.where(self.exponent * self.power > 0, inside, at_zero)

    def variance(self) -> Array:
        square = self._moment(2)
        return jnp.where(jnp.isinf(square), jnp.inf, square - self._moment(1) ** 2)

    def quantile(self, prob: float) -> Array:
        share = prob if self.power > 0 else 1 - prob
        return (scipy.stats.gamma.ppf(share, self.shape) / self.rate) ** (1 / self.power)

    def _moment(self, order: int) -> Array:
        """E theta^order; infinite where it does not exist."""
        moved = self.shape + order / self.power
        ratio = jnp.exp(special.gammaln(moved) - special.gammaln(self.shape))
        return jnp.where(moved > 0, ratio * self.rate ** (-order / self.power), jnp.inf)


@dataclasses.dataclass(frozen=True)
class BetaForm(TableForm):
    """theta^a (1 - theta)^b."""

    family = "beta"

    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        return jnp.full(shape, SMALL_PROB), jnp.full(shape, 1 - SMALL_PROB)

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "DirichletTable":
        """Slopes are a / theta - b / (1 - theta)."""
        left, right, odds = SMALL_PROB * first[1], -SMALL_PROB * second[1], SMALL_PROB / (1 - SMALL_PROB)
        return DirichletTable(jnp.stack([left + odds * right, right + odds * left], -1) / (1 - odds**2) + 1, True)


@dataclasses.dataclass(frozen=True)
class DirichletForm(TableForm):
    """A product of powers of probabilities that sum to one."""

    family = "Dirichlet"

    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        first, second = (jnp.where(jnp.arange(shape[-1]) == index, 1.0, SMALL_PROB) for index in (0, 1))
        return jnp.broadcast_to(first, shape), jnp.broadcast_to(second, shape)

    def value(self, coordinates: Array) -> Array:
        return coordinates / coordinates.sum(-1, keepdims=True)

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "DirichletTable":
        """Slopes are exponent / coordinate - (sum of exponents) / (sum of coordinates)."""
        # each where its own probability is nearly zero
        near = jnp.where(jnp.arange(first[0].shape[-1]) == 0, second[0] * second[1], first[0] * first[1])
        return DirichletTable(near + SMALL_PROB / (1 - SMALL_PROB) * near.sum(-1, keepdims=True) + 1, False)


@record
class DirichletTable(TableDistribution):
    """Probabilities: beta distributions of the first of two, or Dirichlet distributions of vectors.

    Attributes:
        concentration: of the vectors, along the last axis.
        is_binary: whether the latent holds the first of two probabilities.
    """

    concentration: Float[Array, "*shape k"]
    is_binary: bool = static()

    def updated(self, factor: "DirichletTable") -> "DirichletTable":
        return copied(self, concentration=self.concentration + (factor.concentration - 1))

    def log_evidence(self, factor: "DirichletTable", value: Array) -> Float[Array, ""]:
        counts, concentration = factor.concentration - 1, self.concentration
        by_entry = _log_rising(concentration, counts) - special.xlogy(counts, factor._probs(value))
        return (by_entry.sum(-1) - _log_rising(concentration.sum(-1), counts.sum(-1))).sum()

    def log_prob(self, value: Array) -> Float[Array, ""]:
        probs, concentration = self._probs(value), self.concentration
        constant = log_gamma(concentration.sum(-1)) - log_gamma(concentration).sum(-1)
        return (constant + special.xlogy(concentration - 1, probs).sum(-1)).sum()

    def sample(self, random: RandomNumbers) -> Array:
        return self._shown(jax.nn.softmax(random.log_gamma(self.concentration), axis=-1))

    def about(self, numbers: Array) -> Array:
        numbers = jnp.stack([numbers, -numbers], -1) if self.is_binary else numbers
        weights = self.concentration * jnp.exp(numbers / jnp.sqrt(self.concentration + 1))
        return self._shown(weights / weights.sum(-1, keepdims=True))

    def mean(self) -> Array:
        return self._shown(self.concentration / self.concentration.sum(-1, keepdims=True))

    def mode(self) -> Array:
        exponents = self.concentration - 1
        inside = exponents / exponents.sum(-1, keepdims=True)
        return self._shown(jnp.where((exponents >= 0).all(-1, keepdims=True), inside, jnp.nan))

    def variance(self) -> Array:
        total = self.concentration.sum(-1, keepdims=True)
        mean = self.concentration / total
        return self._shown(mean * (1 - mean) / (total + 1))

    def quantile(self, prob: float) -> Array:
        alpha = np.asarray(self.concentration)
        return self._shown(scipy.stats.beta.ppf(prob, alpha, alpha.sum(-1, keepdims=True) - alpha))

    def _probs(self, value: Array) -> Array:
        return jnp.stack([value, 1 - value], -1) if self.is_binary else value

    def _shown(self, probs: Array) -> Array:
        return probs[..., 0] if self.is_binary else probs


_PRIORS: dict[tuple[type[dist.Distribution], TableForm], Callable[[Any], Any]] = {
    (dist.Gamma, PowerForm(1)): lambda prior: PowerTable(prior.concentration, prior.rate, 1),
    (dist.InverseGamma, PowerForm(-1)): lambda prior: PowerTable(prior.concentration, prior.rate, -1),
    (dist.Beta, BetaForm()): lambda prior: DirichletTable(
        jnp.stack(jnp.broadcast_arrays(prior.concentration1, prior.concentration0), -1), True
    ),
    (dist.Dirichlet, DirichletForm()): lambda prior: DirichletTable(prior.concentration, False),
}


def log_gamma(shape: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logarithm of the gamma function; NaN where the integral that it is does not exist."""
    return jnp.where(shape > 0, special.gammaln(shape), jnp.nan)


def _log_rising(start: Float[Array, "*#shape"], step: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log gamma(start + step) - log gamma(start) of steps of either sign; NaN as `log_gamma`."""
    return jax.lax.cond((step < 0).any(), _log_rising_or_falling, _log_rising_upwards, start, step)


def _log_rising_upwards(start: Float[Array, "*#shape"], step: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """As nearly all steps are: terms of the start alone are computed once for all entries that share it."""
    return jnp.where(start > 0, log_rising(jnp.where(start > 0, start, 1.0), jnp.maximum(step, 0.0)), jnp.nan)


def _log_rising_or_falling(start: Float[Array, "*#shape"], step: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    least, sign = jnp.minimum(start, start + step), jnp.where(step < 0, -1.0, 1.0)
    return jnp.where(least > 0, sign * log_rising(jnp.where(least > 0, least, 1.0), sign * step), jnp.nan)
