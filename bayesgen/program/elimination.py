"""Latents integrated out of a log density in closed form, stage by stage.

A log density of some latents f(a, b, ...) is a function of their values by name. A `Stage` integrates some of them out,
given the others: f'(b) = log of the integral of exp f(a, b) over a. What is left is a log density again, of which the
next stage integrates others out. No stage knows priors or likelihoods: it takes the numbers of the conditional
distribution of its latents from derivatives of f,

- joint normal latents from the gradient and the Hessian, which is constant where f is quadratic in them (`Normals`);
- tables whose entries are independent, with densities theta^a exp(-b theta^p), theta^a (1 - theta)^b, Dirichlet and
  Wishart, from the gradients at two points (`Tables`).

Where f has no such form, the conditional distribution is another one: `Stage.holds` compares both at some values.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import scipy.stats
from jax.scipy.linalg import cho_solve, solve_triangular

from bayesgen.records import record, static
from bayesgen.typing import Array, Float, PRNGKeyArray

from .structure import Arrays

LogDensityOfValues: TypeAlias = Callable[[Arrays], Float[Array, ""]]
Values: TypeAlias = dict[str, Array]

FAR = 1e30  # a point so far out, or so near zero, that one of two terms of a slope has all its digits


class Conditional(abc.ABC):
    """The distribution of some latents, given others, and the integral of the density that it was made from."""

    log_integral: Float[Array, ""]

    @abc.abstractmethod
    def log_prob(self, values: Arrays) -> Float[Array, ""]:
        """Log density of the latents."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Values:
        """One draw of each latent."""

    @abc.abstractmethod
    def mean(self) -> Values:
        """Means; of Cholesky factors that of the matrix."""

    @abc.abstractmethod
    def mode(self) -> Values:
        """The joint mode in the coordinates of the sites; NaN where the density has none inside its support."""

    @abc.abstractmethod
    def variance(self) -> Values:
        """Variances of entries; NaN without a closed form."""

    @abc.abstractmethod
    def quantile(self, prob: float) -> Values:
        """Quantiles of entries; NaN without a closed form. By SciPy."""


class Stage(abc.ABC):
    """Latents that are integrated out together. Hashable."""

    @property
    @abc.abstractmethod
    def families(self) -> dict[str, str]:
        """Latent -> the name of its distribution given others."""

    @property
    def names(self) -> tuple[str, ...]:
        """The latents."""
        return tuple(self.families)

    @abc.abstractmethod
    def only(self, names: Collection[str]) -> "Stage":
        """The stage with these of its latents alone."""

    @abc.abstractmethod
    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> Conditional:
        """The distribution of the stage's latents given others, if the log density has the form of the stage."""

    def misfit(self, log_density: LogDensityOfValues, values: Arrays) -> Float[Array, ""]:
        """Relative difference between the log density at values and that of the form of the stage. Traceable."""
        own = {name: values[name] for name in self.names}
        conditional = self.conditional(log_density, {k: v for k, v in values.items() if k not in own})
        terms = jnp.stack([log_density(values), -conditional.log_integral, -conditional.log_prob(own)])
        return jnp.abs(terms.sum()) / (1 + jnp.abs(terms).sum())


@dataclasses.dataclass(frozen=True)
class Elimination:
    """Stages that integrate latents out, one after another: those of the last are conditional on none of the others.

    Attributes:
        stages: the stages.
    """

    stages: tuple[Stage, ...]

    @property
    def families(self) -> dict[str, str]:
        """Latent that is integrated out -> the name of its distribution given later ones."""
        return {name: family for stage in self.stages for name, family in stage.families.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The latents that are integrated out."""
        return tuple(self.families)

    @property
    def num_normals(self) -> int:
        """The number of entries of jointly normal latents, the size of their precision matrix."""
        return sum(stage.dimension for stage in self.stages if isinstance(stage, Normals))

    def only(self, names: Collection[str]) -> "Elimination":
        """The elimination of these latents alone."""
        stages = (stage.only(names) for stage in self.stages)
        return Elimination(tuple(stage for stage in stages if stage.names))

    def log_integral(self, log_density: LogDensityOfValues, rest: Arrays) -> Float[Array, ""]:
        """The log density of the remaining latents. Traceable."""
        return self._marginals(log_density)[-1](rest)

    def misfit(self, log_density: LogDensityOfValues, values: Arrays) -> Float[Array, ""]:
        """The largest misfit of a stage, at values of all latents. Traceable."""
        misfits: list[Float[Array, ""]] = [jnp.zeros(())]
        for stage, marginal in self._backward(self._marginals(log_density))[::-1]:
            misfits.append(stage.misfit(marginal, values))
            values = {name: value for name, value in values.items() if name not in stage.names}
        return jnp.stack(misfits).max()

    def conditionals(self, log_density: LogDensityOfValues, rest: Arrays) -> list[Conditional]:
        """The distribution of each stage's latents, at the mean of those of later stages, the last stage first."""
        values, conditionals = dict(rest), []
        for stage, marginal in self._backward(self._marginals(log_density)):
            conditionals.append(stage.conditional(marginal, values))
            values |= conditionals[-1].mean()
        return conditionals

    def sample(self, log_density: LogDensityOfValues, rest: Arrays, key: PRNGKeyArray) -> Values:
        """One draw of the latents that are integrated out, given the rest. Traceable."""
        values = dict(rest)
        for stage, marginal in self._backward(self._marginals(log_density)):
            key, stage_key = jax.random.split(key)
            values |= stage.conditional(marginal, values).sample(stage_key)
        return {name: values[name] for name in self.names}

    def mode(self, log_density: LogDensityOfValues, rest: Arrays) -> Values:
        """The joint mode of the latents that are integrated out, given the rest. Traceable."""
        values, profiles = dict(rest), [log_density]
        for stage in self.stages:
            profiles.append(_profile(stage, profiles[-1]))
        for stage, profile in self._backward(profiles):
            values |= stage.conditional(profile, values).mode()
        return {name: values[name] for name in self.names}

    def _marginals(self, log_density: LogDensityOfValues) -> list[LogDensityOfValues]:
        """The log density, and what each stage leaves of it."""
        marginals = [log_density]
        for stage in self.stages:
            marginals.append(_marginal(stage, marginals[-1]))
        return marginals

    def _backward(self, densities: Sequence[LogDensityOfValues]) -> list[tuple[Stage, LogDensityOfValues]]:
        return list(zip(reversed(self.stages), reversed(densities[:-1]), strict=True))


def _marginal(stage: Stage, log_density: LogDensityOfValues) -> LogDensityOfValues:
    return lambda others: stage.conditional(log_density, others).log_integral


def _profile(stage: Stage, log_density: LogDensityOfValues) -> LogDensityOfValues:
    """The log density at the mode of the stage's latents given the others."""
    return lambda others: log_density({**others, **stage.conditional(log_density, others).mode()})


# --- joint normal latents --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Normals(Stage):
    """Real latents in which the log density is quadratic.

    Attributes:
        shapes: (latent, shape of its value).
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def families(self) -> dict[str, str]:
        return {name: "normal" for name, _ in self.shapes}

    @property
    def dimension(self) -> int:
        """The number of entries of all latents."""
        return sum(math.prod(shape) for _, shape in self.shapes)

    def only(self, names: Collection[str]) -> "Normals":
        return Normals(tuple(shape for shape in self.shapes if shape[0] in names))

    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> "JointNormal":
        def of_vector(vector: Float[Array, " D"]) -> Float[Array, ""]:
            return log_density({**others, **by_name(self.shapes, vector)})

        factor = jnp.linalg.cholesky(-jax.hessian(of_vector)(jnp.zeros(self.dimension)))
        near = jnp.zeros(self.dimension)
        for _ in range(2):  # the second step mends the rounding of the first, which may be a long one
            near = near + cho_solve((factor, True), jax.grad(of_vector)(near))
        # a square is completed at any constant point, so that no derivative needs those of the steps
        near = jax.lax.stop_gradient(near)
        log_density_near, slope = jax.value_and_grad(of_vector)(near)
        scaled = solve_triangular(factor, slope, lower=True)
        constant = 0.5 * self.dimension * math.log(2 * math.pi) - jnp.log(jnp.diagonal(factor)).sum()
        log_integral = log_density_near + 0.5 * scaled @ scaled + constant
        mean = near + solve_triangular(factor.T, scaled, lower=False)
        return JointNormal(self.shapes, mean, factor, log_integral)


@record
class JointNormal(Conditional):
    """Jointly normal latents.

    Attributes:
        shapes: (latent, shape of its value).
        location: their means, entry after entry.
        precision_factor: Cholesky factor of their precision matrix.
        log_integral: of the density that it was made from.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...] = static()
    location: Float[Array, " D"]
    precision_factor: Float[Array, "D D"]
    log_integral: Float[Array, ""]

    def log_prob(self, values: Arrays) -> Float[Array, ""]:
        vector = jnp.concatenate([jnp.ravel(values[name]) for name, _ in self.shapes])
        scaled = self.precision_factor.T @ (vector - self.location)
        constant = jnp.log(jnp.diagonal(self.precision_factor)).sum() - 0.5 * len(vector) * math.log(2 * math.pi)
        return constant - 0.5 * scaled @ scaled

    def sample(self, key: PRNGKeyArray) -> Values:
        noise = jax.random.normal(key, self.location.shape)
        return self._by_name(self.location + solve_triangular(self.precision_factor.T, noise, lower=False))

    def mean(self) -> Values:
        return self._by_name(self.location)

    def mode(self) -> Values:
        return self.mean()

    def variance(self) -> Values:
        inverse = solve_triangular(self.precision_factor, jnp.eye(len(self.location)), lower=True)
        return self._by_name((inverse**2).sum(0))

    def quantile(self, prob: float) -> Values:
        deviations = {name: np.sqrt(value) for name, value in self.variance().items()}
        return {name: mean + scipy.stats.norm.ppf(prob) * deviations[name] for name, mean in self.mean().items()}

    def _by_name(self, vector: Float[Array, " D"]) -> Values:
        return by_name(self.shapes, vector)


def by_name(shapes: Sequence[tuple[str, tuple[int, ...]]], vector: Float[Array, " D"]) -> Values:
    """Latent -> its value, from the vector that holds all entries."""
    values: Values = {}
    start = 0
    for name, shape in shapes:
        stop = start + math.prod(shape)
        values[name], start = jnp.reshape(vector[start:stop], shape), stop
    return values


# --- tables with independent entries --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tables(Stage):
    """Latents whose entries (probabilities, rates, variances, vectors or matrices of them) are independent.

    Attributes:
        forms: (latent, shape of its value, the form of its density).
    """

    forms: tuple[tuple[str, tuple[int, ...], "TableForm"], ...]

    @property
    def families(self) -> dict[str, str]:
        return {name: form.family for name, _, form in self.forms}

    def only(self, names: Collection[str]) -> "Tables":
        return Tables(tuple(form for form in self.forms if form[0] in names))

    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> "IndependentTables":
        points = [{name: form.points(shape)[index] for name, shape, form in self.forms} for index in range(2)]

        def at_coordinates(coordinates: Values) -> Float[Array, ""]:
            values = {name: form.value(coordinates[name]) for name, _, form in self.forms}
            jacobian = sum(form.log_jacobian(values[name]) for name, _, form in self.forms)
            return log_density({**others, **values}) + jacobian

        slopes = [jax.grad(at_coordinates)(point) for point in points]
        tables = {
            name: form.table(*((point[name], slope[name]) for point, slope in zip(points, slopes, strict=True)))
            for name, _, form in self.forms
        }
        center = {name: table.center() for name, table in tables.items()}
        log_integral = log_density({**others, **center}) - sum(t.log_prob(center[name]) for name, t in tables.items())
        return IndependentTables(tables, log_integral)


@record
class IndependentTables(Conditional):
    """Independent tables of several latents.

    Attributes:
        tables: latent -> the distribution of its value.
        log_integral: of the density that it was made from.
    """

    tables: dict[str, "Table"]
    log_integral: Float[Array, ""]

    def log_prob(self, values: Arrays) -> Float[Array, ""]:
        return sum((table.log_prob(values[name]) for name, table in self.tables.items()), start=jnp.zeros(()))

    def sample(self, key: PRNGKeyArray) -> Values:
        keys = jax.random.split(key, len(self.tables))
        return {name: table.sample(k) for k, (name, table) in zip(keys, self.tables.items(), strict=True)}

    def mean(self) -> Values:
        return {name: table.mean() for name, table in self.tables.items()}

    def mode(self) -> Values:
        return {name: table.mode() for name, table in self.tables.items()}

    def variance(self) -> Values:
        return {name: table.variance() for name, table in self.tables.items()}

    def quantile(self, prob: float) -> Values:
        return {name: table.quantile(prob) for name, table in self.tables.items()}


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
    def table(self, first: PointAndSlope, second: PointAndSlope) -> "Table":
        """The distribution of the latent, from the slopes of its log density at both points."""


class Table(abc.ABC):
    """The distribution of a latent with independent entries; methods are those of `Conditional`."""

    @abc.abstractmethod
    def log_prob(self, value: Array) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Array: ...

    @abc.abstractmethod
    def center(self) -> Array:
        """A value in the bulk of the distribution."""

    @abc.abstractmethod
    def mean(self) -> Array: ...

    @abc.abstractmethod
    def mode(self) -> Array: ...

    @abc.abstractmethod
    def variance(self) -> Array: ...

    @abc.abstractmethod
    def quantile(self, prob: float) -> Array: ...


def log_gamma_draws(key: PRNGKeyArray, shape: Float[Array, "*entries"]) -> Float[Array, "*entries"]:
    """Logarithms of independent draws from gamma distributions of these shapes and rate 1; NaN where one is negative.

    All entries are proposed together until each is accepted: `jax.random.loggamma`, which takes them one after another,
    takes 2.5 times the time.

    Source: Marsaglia and Tsang (2000), A simple method for generating gamma variables.
    """
    center = jnp.where(shape < 1, shape + 1, shape) - 1 / 3

    def propose(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        key, accepted, logs = state
        key, normal_key, uniform_key = jax.random.split(key, 3)
        noise = jax.random.normal(normal_key, shape.shape)
        cube = (1 + noise / jnp.sqrt(9 * center)) ** 3
        log_cube = jnp.log(jnp.where(cube > 0, cube, 1.0))
        bound = 0.5 * noise**2 + center * (1 - cube + log_cube)
        is_new = ~accepted & (cube > 0) & (jnp.log(jax.random.uniform(uniform_key, shape.shape)) < bound)
        return key, accepted | is_new, jnp.where(is_new, jnp.log(center) + log_cube, logs)

    key, power_key = jax.random.split(key)
    start = key, ~(shape > 0), jnp.full(shape.shape, jnp.nan)
    _, _, logs = jax.lax.while_loop(lambda state: ~state[1].all(), propose, start)
    powers = jnp.log1p(-jax.random.uniform(power_key, shape.shape)) / shape
    return logs + jnp.where(shape < 1, powers, 0.0)


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
        exponent = first[0] * first[1]
        return PowerTable(exponent, -second[1] * second[0] ** (1 - self.power) / self.power, self.power)


@record
class PowerTable(Table):
    """Entries whose power has a gamma distribution.

    Attributes:
        exponent, rate: a and b of theta^a exp(-b theta^power).
        power: 1 for a gamma distribution, -1 for an inverse gamma one.
    """

    exponent: Float[Array, "*shape"]
    rate: Float[Array, "*shape"]
    power: int = static()

    @property
    def shape(self) -> Float[Array, "*shape"]:
        """The shape parameter of the gamma distribution of the powers."""
        return (self.exponent + 1) / self.power

    def log_prob(self, value: Array) -> Float[Array, ""]:
        log_gamma = _log_gamma(self.shape)
        constant = math.log(abs(self.power)) + self.shape * jnp.log(self.rate) - log_gamma
        return (constant + self.exponent * jnp.log(value) - self.rate * value**self.power).sum()

    def sample(self, key: PRNGKeyArray) -> Array:
        return jnp.exp((log_gamma_draws(key, self.shape) - jnp.log(self.rate)) / self.power)

    def center(self) -> Array:
        return (self.shape / self.rate) ** (1 / self.power)

    def mean(self) -> Array:
        return self._moment(1)

    def mode(self) -> Array:
        at_zero = 0.0 if self.power > 0 else jnp.nan
        inside = (self.exponent / (self.rate * self.power)) ** (1 / self.power)
        return jnp.where(self.exponent * self.power > 0, inside, at_zero)

    def variance(self) -> Array:
        return self._moment(2) - self._moment(1) ** 2

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
        return jnp.full(shape, 0.25), jnp.full(shape, 0.75)

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "DirichletTable":
        """Slopes are a / theta - b / (1 - theta)."""
        exponents = [(3 * first[1] - second[1]) * 3 / 32, (first[1] - 3 * second[1]) * 3 / 32]
        return DirichletTable(jnp.stack(exponents, -1) + 1, True)


@dataclasses.dataclass(frozen=True)
class DirichletForm(TableForm):
    """A product of powers of probabilities that sum to one."""

    family = "Dirichlet"

    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        odd = 1.0 + jnp.arange(shape[-1]) % 2
        return jnp.ones(shape), jnp.broadcast_to(odd, shape)

    def value(self, coordinates: Array) -> Array:
        return coordinates / coordinates.sum(-1, keepdims=True)

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "DirichletTable":
        """Slopes are exponent / coordinate - (sum of exponents) / (sum of coordinates)."""
        (_, slope), (point, moved) = first, second
        size = point.shape[-1]
        by_total = 1 / (size * point) - 1 / point.sum(-1, keepdims=True)
        squares = (by_total**2).sum(-1, keepdims=True)
        total = (by_total * (moved - slope / point)).sum(-1, keepdims=True) / jnp.where(squares > 0, squares, 1.0)
        return DirichletTable(slope + total / size + 1, False)


@record
class DirichletTable(Table):
    """Probabilities: beta distributions of the first of two, or Dirichlet distributions of vectors.

    Attributes:
        concentration: of the vectors, along the last axis.
        is_binary: whether the latent holds the first of two probabilities.
    """

    concentration: Float[Array, "*shape k"]
    is_binary: bool = static()

    def log_prob(self, value: Array) -> Float[Array, ""]:
        probs = jnp.stack([value, 1 - value], -1) if self.is_binary else value
        concentration = self.concentration
        constant = _log_gamma(concentration.sum(-1)) - _log_gamma(concentration).sum(-1)
        return (constant + special.xlogy(concentration - 1, probs).sum(-1)).sum()

    def sample(self, key: PRNGKeyArray) -> Array:
        return self._shown(jax.nn.softmax(log_gamma_draws(key, self.concentration), axis=-1))

    def center(self) -> Array:
        return self.mean()

    def mean(self) -> Array:
        return self._shown(self.concentration / self.concentration.sum(-1, keepdims=True))

    def mode(self) -> Array:
        exponents = self.concentration - 1
        inside = exponents / exponents.sum(-1, keepdims=True)
        return self._shown(jnp.where((exponents >= 0).all(-1, keepdims=True), inside, jnp.nan))

    def variance(self) -> Array:
        total, mean = self.concentration.sum(-1, keepdims=True), self.concentration
        mean = mean / total
        return self._shown(mean * (1 - mean) / (total + 1))

    def quantile(self, prob: float) -> Array:
        concentration = np.asarray(self.concentration)
        return self._shown(
            scipy.stats.beta.ppf(prob, concentration, concentration.sum(-1, keepdims=True) - concentration)
        )

    def _shown(self, probs: Array) -> Array:
        return probs[..., 0] if self.is_binary else probs


@dataclasses.dataclass(frozen=True)
class WishartForm(TableForm):
    """Matrices whose precision has a Wishart distribution; coordinates are the precision.

    Attributes:
        inverse: whether the latent is the covariance, the inverse of the precision.
        factor: whether it is the lower Cholesky factor.
    """

    inverse: bool
    factor: bool

    @property
    def family(self) -> str:
        family = "inverse Wishart" if self.inverse else "Wishart"
        return f"factor of {family}" if self.factor else family

    @property
    def power(self) -> int:  # type: ignore[override]
        return (-1 if self.inverse else 1) * (2 if self.factor else 1)

    def points(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        unit = jnp.broadcast_to(jnp.eye(shape[-1]), shape)
        return unit / FAR, unit * FAR

    def value(self, coordinates: Array) -> Array:
        matrix = _inverse(coordinates) if self.inverse else coordinates
        return jnp.linalg.cholesky(matrix) if self.factor else matrix

    def precision(self, value: Array) -> Array:
        """The inverse of `value`."""
        matrix = value @ jnp.swapaxes(value, -1, -2) if self.factor else value
        return _inverse(matrix) if self.inverse else matrix

    def log_jacobian(self, value: Array) -> Float[Array, ""]:
        size = value.shape[-1]
        total = jnp.zeros(())
        if self.factor:
            logs = jnp.log(jnp.diagonal(value, axis1=-2, axis2=-1))
            total -= (size * math.log(2) + (logs * (size - jnp.arange(size))).sum(-1)).sum()
            log_determinant = 2 * logs.sum(-1)
        else:
            log_determinant = _log_determinant(value)
        return total + (size + 1) * log_determinant.sum() if self.inverse else total

    def table(self, first: PointAndSlope, second: PointAndSlope) -> "WishartTable":
        size = first[0].shape[-1]
        exponent = (jnp.trace(first[1], axis1=-2, axis2=-1) / size) / FAR
        return WishartTable(2 * exponent + size + 1, -second[1] - jnp.swapaxes(second[1], -1, -2), self)


@record
class WishartTable(Table):
    """Matrices whose precision has a Wishart distribution.

    Attributes:
        df: degrees of freedom.
        scale: of the inverse Wishart distribution of the covariances, the sum of squares.
        form: of the latent.
    """

    df: Float[Array, "*shape"]
    scale: Float[Array, "*shape D D"]
    form: WishartForm = static()

    @property
    def size(self) -> int:
        return self.scale.shape[-1]

    def log_prob(self, value: Array) -> Float[Array, ""]:
        precision, half = self.form.precision(value), 0.5 * self.df
        log_scale, log_precision = map(_log_determinant, (self.scale, precision))
        log_gamma: Array = _log_gamma(half[..., None] - 0.5 * jnp.arange(self.size)).sum(-1)
        log_gamma = log_gamma + 0.25 * self.size * (self.size - 1) * math.log(math.pi)
        constant = half * (log_scale - self.size * math.log(2)) - log_gamma
        trace = jnp.einsum("...ij,...ji->...", self.scale, precision)
        by_precision = constant + (half - 0.5 * (self.size + 1)) * log_precision - 0.5 * trace
        return by_precision.sum() - self.form.log_jacobian(value)

    def sample(self, key: PRNGKeyArray) -> Array:
        normal_key, gamma_key = jax.random.split(key)
        shape = (*self.df.shape, self.size)
        halves = jnp.broadcast_to(0.5 * (self.df[..., None] - jnp.arange(self.size)), shape)
        squares = 2 * jnp.exp(log_gamma_draws(gamma_key, halves))
        bartlett = jnp.tril(jax.random.normal(normal_key, self.scale.shape), -1) + jnp.sqrt(squares)[
            ..., None
        ] * jnp.eye(self.size)
        factor = jnp.linalg.cholesky(_inverse(self.scale)) @ bartlett
        return self.form.value(factor @ jnp.swapaxes(factor, -1, -2))

    def center(self) -> Array:
        return self.form.value(self.df[..., None, None] * _inverse(self.scale))

    def mean(self) -> Array:
        if not self.form.inverse:
            return self.center()
        spare = (self.df - self.size - 1)[..., None, None]
        covariance = jnp.where(spare > 0, self.scale / jnp.where(spare > 0, spare, 1.0), jnp.inf)
        return jnp.linalg.cholesky(covariance) if self.form.factor else covariance

    def mode(self) -> Array:
        inverse, factor = self.form.inverse, self.form.factor
        exponents = self.df[..., None] + (1 if inverse else -1) * (1 + jnp.arange(self.size))  # of a factor's diagonal
        if not factor:  # of a matrix
            exponents = jnp.broadcast_to(self.df[..., None] + (1 if inverse else -1) * (1 + self.size), exponents.shape)
        roots = jnp.where(exponents > 0, exponents, jnp.nan) ** (-0.5 if inverse else 0.5)
        lower = jnp.linalg.cholesky(self.scale if inverse else _inverse(self.scale)) * roots[..., None, :]
        return lower if factor else lower @ jnp.swapaxes(lower, -1, -2)

    def variance(self) -> Array:
        return jnp.full(self.scale.shape, jnp.nan)

    def quantile(self, prob: float) -> Array:
        return jnp.full(self.scale.shape, jnp.nan)


def _inverse(matrix: Float[Array, "*shape D D"]) -> Float[Array, "*shape D D"]:
    """The inverse of a positive definite matrix."""
    half = solve_triangular(
        jnp.linalg.cholesky(matrix), jnp.broadcast_to(jnp.eye(matrix.shape[-1]), matrix.shape), lower=True
    )
    return jnp.swapaxes(half, -1, -2) @ half


def _log_determinant(matrix: Float[Array, "*shape D D"]) -> Float[Array, "*shape"]:
    """Log determinant of a positive definite matrix."""
    return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix), axis1=-2, axis2=-1)).sum(-1)


def _log_gamma(shape: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logarithm of the gamma function; NaN where the integral that it is does not exist."""
    return jnp.where(shape > 0, special.gammaln(shape), jnp.nan)
