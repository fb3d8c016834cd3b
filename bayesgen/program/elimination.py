"""Latents integrated out of a log density in closed form, stage by stage.

A log density of some latents f(a, b, ...) is a function of their values by name. A `Stage` integrates some of them out,
given the others: f'(b) = log of the integral of exp f(a, b) over a. What is left is a log density again, of which the
next stage integrates others out. No stage knows priors or likelihoods: it takes the numbers of the conditional
distribution of its latents from derivatives of f,

- joint normal latents from the gradient and the Hessian, which is constant where f is quadratic in them (`Normals`);
- tables whose entries are independent, with densities theta^a exp(-b theta^p), theta^a (1 - theta)^b, Dirichlet and
  Wishart, from the gradients at two points (`Tables`).

Where f has no such form, the conditional distribution is another one: `Stage.misfit` compares both at some values.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.scipy.linalg import cho_solve, solve_triangular

from bayesgen.records import record, static
from bayesgen.typing import Array, Float

from .random_numbers import RandomNumbers
from .structure import Arrays, by_name

LogDensityOfValues: TypeAlias = Callable[[Arrays], Float[Array, ""]]
Remainder: TypeAlias = Callable[["Stage", LogDensityOfValues], LogDensityOfValues]
AnyValue = TypeVar("AnyValue")
EMPTY: Arrays = {}


class LatentDistribution(abc.ABC, Generic[AnyValue]):
    """The distribution of a latent, or of several by name, given others."""

    @abc.abstractmethod
    def log_prob(self, value: AnyValue, /) -> Float[Array, ""]:
        """Log density."""

    @abc.abstractmethod
    def sample(self, random: RandomNumbers) -> AnyValue:
        """One draw, or several along a first axis."""

    @abc.abstractmethod
    def about(self, numbers: AnyValue, /) -> AnyValue:
        """A value in the bulk of the distribution, made of standard normal numbers of its shape."""

    @abc.abstractmethod
    def mean(self) -> AnyValue:
        """The mean; of a Cholesky factor that of the matrix."""

    @abc.abstractmethod
    def mode(self) -> AnyValue:
        """The joint mode in the coordinates of the sites; NaN where the density has none inside its support."""

    @abc.abstractmethod
    def variance(self) -> AnyValue:
        """Variances of entries; NaN without a closed form."""

    @abc.abstractmethod
    def quantile(self, prob: float) -> AnyValue:
        """Quantiles of entries; NaN without a closed form. By SciPy."""


class StageDistribution(LatentDistribution[Arrays]):
    """The distribution of a stage's latents, given others, and the integral of the density that it was made from."""

    log_integral: Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Stage(abc.ABC):
    """Latents that are integrated out together. Hashable.

    Attributes:
        latents: (latent, shape of its value, and what else its distribution depends on).
    """

    latents: tuple[Any, ...]

    @property
    @abc.abstractmethod
    def families(self) -> dict[str, str]:
        """Latent -> the name of its distribution given others."""

    @property
    def value_shapes(self) -> dict[str, tuple[int, ...]]:
        """Latent -> the shape of its value."""
        return {name: shape for name, shape, *_ in self.latents}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the latents."""
        return tuple(self.value_shapes)

    def only(self, names: Collection[str]) -> Self:
        """The stage with these of its latents alone."""
        pairs = zip(self.names, self.latents, strict=True)
        return dataclasses.replace(self, latents=tuple(latent for name, latent in pairs if name in names))

    @abc.abstractmethod
    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> StageDistribution:
        """The distribution of the stage's latents given others, if the log density has the form of the stage."""

    def log_mean(self, log_factor: LogDensityOfValues, conditional: Any, others: Arrays) -> Float[Array, ""]:
        """Log of the mean of exp(log_factor), which has the form of the stage, under a distribution of its latents."""
        return self.conditional(lambda values: conditional.log_prob(values) + log_factor(values), others).log_integral

    def misfit(self, log_density: LogDensityOfValues, values: Arrays, conditional: Any) -> Float[Array, ""]:
        """Relative difference between the log density at values and that of the form of the stage. Traceable.

        Args:
            log_density: of all latents that no earlier stage has.
            values: of these latents.
            conditional: the distribution of the stage's latents, given those of the others.
        """
        terms = jnp.stack([log_density(values), -conditional.log_integral, -conditional.log_prob(values)])
        return jnp.abs(terms.sum()) / (1 + jnp.abs(terms).sum())


@record
class Solution:
    """What stages integrate out.

    Attributes:
        log_integral: of the density.
        conditionals: the distribution of each stage's latents, at the mean of those of later stages, the last first.
        mean: of the latents.
        variance: of their entries; NaN without a closed form.
        misfit: the largest relative difference from the forms of the stages, at values about the bulk.
        shift: by which log density the means of a stage are less probable at such values of later stages, given which
            they are others; 0 where means depend on no other latent.
    """

    log_integral: Float[Array, ""]
    conditionals: list["StageDistribution"]
    mean: dict[str, Array]
    variance: dict[str, Array]
    misfit: Float[Array, ""]
    shift: Float[Array, ""]


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
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Latent that is integrated out -> the shape of its value."""
        return {name: shape for stage in self.stages for name, shape in stage.value_shapes.items()}

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
        return self._densities(log_density, _marginal)[-1](rest)

    def misfit(self, log_density: LogDensityOfValues, values: Arrays) -> Float[Array, ""]:
        """The largest misfit of a stage, at values of all latents. Traceable."""
        misfits: list[Float[Array, ""]] = [jnp.zeros(())]
        for stage, marginal in self._backward(self._densities(log_density, _marginal))[::-1]:
            others = {name: value for name, value in values.items() if name not in stage.names}
            misfits.append(stage.misfit(marginal, values, stage.conditional(marginal, others)))
            values = others
        return jnp.stack(misfits).max()

    def solution(self, log_density: LogDensityOfValues, rest: Arrays, numbers: Arrays) -> Solution:
        """What the stages integrate out, proven at values that are made of standard normal numbers. Traceable."""
        at_means, moved, misfits, shifts = dict(rest), dict(rest), [], []
        conditionals: list[StageDistribution] = []
        for stage, marginal in self._backward(self._densities(log_density, _marginal)):
            conditional = stage.conditional(marginal, at_means)
            near = stage.conditional(marginal, moved) if conditionals else conditional
            mean = conditional.mean()
            shifts.append(near.log_prob(near.mean()) - near.log_prob(mean))
            moved |= near.about(numbers)
            misfits.append(stage.misfit(marginal, moved, near))
            at_means |= mean
            conditionals.append(conditional)
        if not conditionals:
            return Solution(log_density(rest), [], {}, {}, jnp.zeros(()), jnp.zeros(()))
        last, *inner = conditionals
        mean = {name: at_means[name] for name in self.names}
        given_others = {name: jnp.nan * mean[name] for conditional in inner for name in conditional.mean()}
        misfit, shift = jnp.stack(misfits).max(), jnp.abs(jnp.stack(shifts)).max()
        return Solution(last.log_integral, conditionals, mean, {**last.variance(), **given_others}, misfit, shift)

    def sample(
        self, log_density: LogDensityOfValues, rest: Arrays, random: RandomNumbers, of_last: Arrays = EMPTY
    ) -> Arrays:
        """One draw of the latents that are integrated out, given the rest. Traceable.

        Args:
            log_density: of all latents.
            rest: the others.
            random: random numbers.
            of_last: a draw of the latents of the last stage, if it is known.
        """
        values = {**rest, **of_last}
        for stage, marginal in self._backward(self._densities(log_density, _marginal)):
            if not values.keys() >= set(stage.names):
                values |= stage.conditional(marginal, values).sample(random)
        return {name: values[name] for name in self.names}

    def mode(self, log_density: LogDensityOfValues, rest: Arrays) -> Arrays:
        """The joint mode of the latents that are integrated out, given the rest. Traceable."""
        values = dict(rest)
        for stage, profile in self._backward(self._densities(log_density, _profile)):
            values |= stage.conditional(profile, values).mode()
        return {name: values[name] for name in self.names}

    def _densities(self, log_density: LogDensityOfValues, left: Remainder) -> list[LogDensityOfValues]:
        """The log density, and what is left of it after each stage."""
        densities = [log_density]
        for stage in self.stages:
            densities.append(left(stage, densities[-1]))
        return densities

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
        latents: (latent, shape of its value).
    """

    latents: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def families(self) -> dict[str, str]:
        return dict.fromkeys(self.names, "normal")

    @property
    def dimension(self) -> int:
        """The number of entries of all latents."""
        return sum(math.prod(shape) for _, shape in self.latents)

    def conditional(self, log_density: LogDensityOfValues, others: Arrays) -> "JointNormal":
        def at_vector(vector: Float[Array, " D"]) -> Float[Array, ""]:
            return log_density({**others, **by_name(self.latents, vector)})

        slope, tangent = jax.linearize(jax.grad(at_vector), jnp.zeros(self.dimension))
        factor = jnp.linalg.cholesky(-jax.vmap(tangent)(jnp.eye(self.dimension)))
        # as good as the mean but for rounding, which a second step mends; whatever it is, the integral is the same
        near = jax.lax.stop_gradient(cho_solve((factor, True), slope))
        level, slope = jax.value_and_grad(at_vector)(near)
        step = cho_solve((factor, True), slope)
        constant = 0.5 * self.dimension * math.log(2 * math.pi) - jnp.log(jnp.diagonal(factor)).sum()
        return JointNormal(self.latents, near + step, factor, level + 0.5 * slope @ step + constant)


@record
class JointNormal(StageDistribution):
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

    def sample(self, random: RandomNumbers) -> Arrays:
        return self._at(random.normal(self.location.shape))

    def _at(self, numbers: Float[Array, "*draws D"]) -> Arrays:
        deviations = solve_triangular(self.precision_factor.T, numbers.T, lower=False).T
        return by_name(self.shapes, self.location + deviations)

    def about(self, numbers: Arrays) -> Arrays:
        return self._at(jnp.concatenate([jnp.ravel(numbers[name]) for name, _ in self.shapes]))

    def mean(self) -> Arrays:
        return by_name(self.shapes, self.location)

    def mode(self) -> Arrays:
        return self.mean()

    def variance(self) -> Arrays:
        inverse = solve_triangular(self.precision_factor, jnp.eye(len(self.location)), lower=True)
        return by_name(self.shapes, (inverse**2).sum(0))

    def quantile(self, prob: float) -> Arrays:
        deviations = {name: np.sqrt(value) for name, value in self.variance().items()}
        return {name: mean + scipy.stats.norm.ppf(prob) * deviations[name] for name, mean in self.mean().items()}
