"""`LogDensity` classes of a program given data, and where searches for their modes start."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from bayesgen.data import Rows
from bayesgen.distributions import innermost
from bayesgen.log_density import LogDensity
from bayesgen.records import record, static
from bayesgen.runtime import OwnedJit, as_key, generator
from bayesgen.statistics import SufficientStatistics
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Seed

from .arbitrary import arbitrary_numbers, center_and_scale, run
from .conventions import Message, base_support
from .density import density_work, log_likelihood, parameter_log_density, parameter_log_prior, unconstrained_log_density
from .evaluation import Evaluation, evaluate_classes, unconstrain
from .generative import GenerativeProgram
from .joint import log_joint_of
from .structure import Program, Structure

STARTS_NEAR_ORIGIN, PRIOR_STARTS = 2, 8  # numbers of starts
FAST_TO_COMPILE = {"xla_backend_optimization_level": 0}  # for functions that run once a fit, for milliseconds


def dispersed_starts(program: Program, seed: Seed, num_draws: int = PRIOR_STARTS) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it and points about the means of the prior.

    Points that know of the prior reach modes that climbs from the origin do not. Inside float64.
    """
    rng = generator(as_key(seed))
    points = [_about_prior_means(program, arbitrary_numbers(rng), rng.integers(2**31)) for _ in range(num_draws)]
    return dispersed(np.stack(points), rng)


def dispersed(
    points: Float[np.ndarray, "points D"], key: PRNGKeyArray | np.random.Generator
) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it, and points that know of a prior."""
    rng = generator(key)
    around = rng.normal(size=(STARTS_NEAR_ORIGIN, points.shape[1]))
    # a value may round to the end of its support, where unconstrained coordinates are infinite
    points = np.where(np.isfinite(points), points, rng.normal(size=points.shape))
    return np.concatenate([np.zeros((1, points.shape[1])), around, points])


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def _about_prior_means(program: Program, numbers: Float[Array, " numbers"], seed: Int[Array, ""]) -> Float[Array, " D"]:
    """Latents at random distances from their prior means, in NumPyro's unconstrained coordinates.

    Searches stretch some of these coordinates, which hardly moves points about a mean.
    """
    sites = run(program, program.num_classes, numbers=numbers)
    points = (_start_of(sites[name], seed + index) for index, name in enumerate(program.latents))
    return jnp.concatenate([jnp.ravel(point) for point in points])


def _start_of(site: Message, seed: Int[Array, ""]) -> Float[Array, "..."]:
    """An unconstrained value about the mean of a latent site; a draw from a mixture, whose mean may be far from modes.

    Samplers take seconds to compile, so that only mixtures are drawn from.
    """
    distribution, transform = site["fn"], biject_to(site["support"])
    if isinstance(innermost(distribution), dist.MixtureSameFamily | dist.MixtureGeneral):
        return transform.inv(distribution.sample(jax.random.key(seed)))
    free = transform.inv(site["value"])  # about the mean already where it is any real number
    if base_support(site["support"]) is constraints.real:
        return free
    mean, _ = center_and_scale(distribution)
    center = transform.inv(jnp.broadcast_to(mean, jnp.shape(site["value"])))
    return free + jnp.where(jnp.isfinite(center), center, 0.0)


class LatentsDensity(LogDensity):
    """A log density of a program's latents. The vector holds their unconstrained values, site after site.

    Attributes:
        program: the bound program.
    """

    program: GenerativeProgram

    @property
    def dimension(self) -> int:
        return sum(math.prod(shape) for _, shape in self.program.structure.latents)

    def constrain(self, vector: Float[Array, " D"]) -> dict[str, Array]:
        """Latents and deterministic sites by name."""
        return _constrain(self.program, vector)

    def name_of(self, index: int) -> str:
        """The latent site of a coordinate."""
        for name, shape in self.program.structure.latents:
            index -= math.prod(shape)
            if index < 0:
                return name
        raise IndexError(index)

    @property
    def blocks(self) -> tuple[Int[np.ndarray, "_ _"], ...]:
        """One block a class, of the entries of sites whose first axis is the class; other entries are blocks of one."""
        num_classes, start = self.program.num_classes, 0
        by_class, others = [], []
        for _, shape in self.program.structure.latents:
            entries = np.arange(start, start + math.prod(shape))
            start += len(entries)
            if shape and shape[0] == num_classes and num_classes > 1:
                by_class.append(entries.reshape(num_classes, -1))
            else:
                others.append(entries)
        classes = (np.concatenate(by_class, axis=1),) if by_class else ()
        return (*classes, np.concatenate(others)[:, None]) if others else classes

    @property
    def owner(self) -> Any:
        return self.program.owner


class ProgramDensity(LatentsDensity):
    """A log density of a program's latents given the statistics of data.

    Attributes:
        program: the bound program.
        statistics: the data.
        hard: whether rows without labels count by their most probable class alone.
    """

    statistics: SufficientStatistics
    hard: bool = False

    @property
    def cost(self) -> float:
        """One multiplication for each number of the data, times K for rows."""
        return density_work(self.program, self.statistics)

    @property
    def loops_over_rows(self) -> bool:
        """Whether some sites have no sufficient statistic, or some rows no label."""
        return self.statistics.rows is not None or self.statistics.unlabelled is not None

    @property
    def has_symmetries(self) -> bool:
        """Whether classes may be swapped, because no row has a label, or the hidden states of a site."""
        if any(likelihood.has_symmetries for _, likelihood in self.program.plan.compressed):
            return True
        return self.statistics.unlabelled is not None and not np.any(self.statistics.class_weights)


@record
class PosteriorDensity(ProgramDensity):
    """Log posterior density of the unconstrained latents, Jacobian included: what NUTS samples from."""

    program: GenerativeProgram
    statistics: SufficientStatistics

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log joint density of latents and data."""
        return _posterior_log_density(self.program, vector, self.statistics)


@record
class ParameterDensity(ProgramDensity):
    """Log density of the parameters, in the coordinates that are reported: what MAP and MLE maximise.

    Attributes:
        prior: whether the log prior density is added to the log-likelihood.
    """

    program: GenerativeProgram
    statistics: SufficientStatistics
    hard: bool = static(default=False)
    prior: bool = static(default=True)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """Log joint density of parameters and data, or the log-likelihood alone."""
        free = unravel(self.program.structure, vector)
        return parameter_log_density(self.program, free, self.statistics, self.prior, self.hard)


@OwnedJit  # so that samplers, which call it several times, trace it once
def _posterior_log_density(
    program: GenerativeProgram, vector: Float[Array, " D"], statistics: SufficientStatistics
) -> Float[Array, ""]:
    return unconstrained_log_density(program, unravel(program.structure, vector), statistics)


@OwnedJit
def _constrain(program: GenerativeProgram, vector: Float[Array, " D"]) -> dict[str, Array]:
    evaluation = evaluate_classes(program, unravel(program.structure, vector), unconstrained=True)
    return {**evaluation.deterministics, **evaluation.latents}


def unravel(structure: Structure, vector: Float[Array, " D"]) -> dict[str, Array]:
    """Unconstrained values by site, from the vector that holds them one after another."""
    values, start = {}, 0
    for name, shape in structure.latents:
        size = math.prod(shape)
        values[name] = vector[start : start + size].reshape(shape)
        start += size
    return values


def free_vector(program: GenerativeProgram, latents: dict[str, Array]) -> Float[np.ndarray, " D"]:
    """The unconstrained vector of latents. Inside float64."""
    free = _unconstrain(program, latents)
    return np.concatenate([np.ravel(free[name]) for name in program.latents])


_unconstrain = OwnedJit(unconstrain)


# Conditional log-likelihoods of labels given attributes: what discriminative training maximises.
#
# log p(y | x, Q) is computed as -log(1 + sum over the other classes k of p(x, k | Q) / p(x, y | Q)), which keeps the
# digits of the value and its gradient where p(y | x, Q) is near 1.

GRADIENT_CHUNK_CELLS = 1 << 18  # rows x classes x columns of a chunk, which stays in the cache
LOG_OF_ZERO = -1e30  # finite, so that its gradient is zero and not NaN
ROWS_AT_ONCE = 64  # of a batch of Jacobians


class DensityByRow(LatentsDensity):
    """A log density that is a sum over rows.

    Attributes:
        program: the bound program, with classes.
        rows: the rows with weights, padded by rows of weight zero.
    """

    rows: Rows

    @property
    def cost(self) -> float:
        """One multiplication for each cell and class."""
        return rows_work(self.program, self.rows)

    @property
    def loops_over_rows(self) -> bool:
        return True


@record
class ConditionalDensity(DensityByRow):
    """Log density of the labels of rows given their attributes, with or without the prior of the parameters.

    Attributes:
        program: the bound program, with classes.
        rows: the labelled rows with weights, padded by rows of weight zero.
        prior: whether the log prior density is added, in the coordinates that are reported.
    """

    program: GenerativeProgram
    rows: Rows
    prior: bool = static(default=False)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """sum_i w_i log p(y_i | x_i, Q), and log p(Q)."""
        evaluation = evaluation_at(self.program, vector, self.rows)
        total = log_likelihood_of_labels(self.program, evaluation, self.rows)
        return total + parameter_log_prior(self.program, evaluation) if self.prior else total


@record
class AttributesDensity(DensityByRow):
    """Log density of the attributes of rows, labels marginalised.

    Attributes:
        program: the bound program.
        rows: the rows with weights, padded by rows of weight zero.
    """

    program: GenerativeProgram
    rows: Rows

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """sum_i w_i log p(x_i | Q)."""
        return log_likelihood_of_attributes(self.program, evaluation_at(self.program, vector, self.rows), self.rows)


def rows_work(program: GenerativeProgram, rows: Rows) -> float:
    """Rough number of multiplications of one evaluation: one for each cell of the rows and class."""
    return float(program.num_classes * sum(np.size(leaf) for leaf in jax.tree.leaves(rows)))


def evaluation_at(program: GenerativeProgram, vector: Float[Array, " D"], rows: Rows) -> Evaluation:
    """The program run at its classes, at unconstrained latents."""
    return evaluate_classes(program, unravel(program.structure, vector), rows.covariates, unconstrained=True)


def log_likelihood_of_labels(program: GenerativeProgram, evaluation: Evaluation, rows: Rows) -> Float[Array, ""]:
    """sum_i w_i log p(y_i | x_i) at an evaluated program."""

    def of_chunk(chunk: Rows) -> Float[Array, " n"]:
        return -jax.nn.softplus(logsumexp(log_odds_of_others(program, evaluation, chunk), axis=1))

    return weighted_sum(of_chunk, rows, program.num_classes)


def log_likelihood_of_attributes(program: GenerativeProgram, evaluation: Evaluation, rows: Rows) -> Float[Array, ""]:
    """sum_i w_i log p(x_i) at an evaluated program, whatever the labels."""

    def of_chunk(chunk: Rows) -> Float[Array, " n"]:
        return logsumexp(log_joint_of(program, evaluation, chunk), axis=1)

    return weighted_sum(of_chunk, rows, program.num_classes)


def log_odds_of_others(program: GenerativeProgram, evaluation: Evaluation, rows: Rows) -> Float[Array, "n K"]:
    """log p(x, k) - log p(x, y) of each class k; `LOG_OF_ZERO` for the row's label y and where p(x, k) = 0."""
    table = log_joint_of(program, evaluation, rows)
    of_labels = jnp.take_along_axis(table, rows.codes[:, None], axis=1)
    log_odds = table - of_labels
    is_out = (rows.codes[:, None] == jnp.arange(program.num_classes)) | jnp.isneginf(log_odds)
    return jnp.where(is_out, LOG_OF_ZERO, log_odds)


def weighted_sum(of_chunk: Callable[[Rows], Float[Array, " n"]], rows: Rows, num_classes: int) -> Float[Array, ""]:
    """Weighted sum of a function of rows, chunk by chunk; the backward pass computes each chunk again."""
    numbers_per_row = num_classes * max(math.prod(np.shape(values)[1:]) for values in rows.values.values())
    most = 1 << max(GRADIENT_CHUNK_CELLS // max(numbers_per_row, 1), 1).bit_length() - 1
    size = math.gcd(rows.num_rows, most) if rows.num_rows > most else rows.num_rows
    chunks = jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, size, *jnp.shape(leaf)[1:])), rows)

    @jax.checkpoint
    def add(total: Float[Array, ""], chunk: Rows) -> tuple[Float[Array, ""], None]:
        weights = chunk.frequencies
        return total + jnp.where(weights > 0, weights * of_chunk(chunk), 0.0).sum(), None

    return jax.lax.scan(add, jnp.zeros(()), chunks)[0]


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def slopes_of_log_odds(program: GenerativeProgram, vector: Float[Array, " D"], rows: Rows) -> Float[Array, "n K D"]:
    """Jacobian of log p(x, k) - log p(x, y) for each row and class k; zero for the label y.

    Along directions in its null space p(y | x) does not change.
    """

    def of_row(row: Rows) -> Float[Array, "K D"]:
        one_row = jax.tree.map(lambda leaf: leaf[None], row)
        return jax.jacrev(lambda point: _against_labels(program, point, one_row)[0])(vector)

    return jax.lax.map(of_row, rows, batch_size=ROWS_AT_ONCE)


@functools.partial(OwnedJit, compiler_options=FAST_TO_COMPILE)
def slope_along(
    program: GenerativeProgram, vector: Float[Array, " D"], direction: Float[Array, " D"], rows: Rows
) -> Float[Array, "n K"]:
    """The directional derivatives of log p(x, k) - log p(x, y) along one direction."""
    return jax.jvp(lambda point: _against_labels(program, point, rows), (vector,), (direction,))[1]


def _against_labels(program: GenerativeProgram, vector: Float[Array, " D"], rows: Rows) -> Float[Array, "n K"]:
    """log p(x, k) - log p(x, y) of rows with label y."""
    table = log_joint_of(program, evaluation_at(program, vector, rows), rows)
    return table - jnp.take_along_axis(table, rows.codes[:, None], axis=1)


@record
class ResponseDensity(LatentsDensity):
    """Log density of a continuous label given the attributes, with or without the prior of the parameters.

    Attributes:
        program: the bound program.
        statistics: of the rows.
        without: of the same rows without their label.
        prior: whether the log prior density is added, in the coordinates that are reported.
    """

    program: GenerativeProgram
    statistics: SufficientStatistics
    without: SufficientStatistics
    prior: bool = static(default=False)

    def __call__(self, vector: Float[Array, " D"]) -> Float[Array, ""]:
        """log p(x, y | Q) - log p(x | Q), and log p(Q)."""
        free = unravel(self.program.structure, vector)
        evaluation = evaluate_classes(self.program, free, self.statistics.covariates, unconstrained=True)
        of_both, of_attributes = (
            log_likelihood(self.program, evaluation, statistics) for statistics in (self.statistics, self.without)
        )
        total = of_both - of_attributes
        return total + parameter_log_prior(self.program, evaluation) if self.prior else total

    @property
    def cost(self) -> float:
        return density_work(self.program, self.statistics) + density_work(self.program, self.without)

    @property
    def loops_over_rows(self) -> bool:
        """Whether some sites have no sufficient statistic."""
        return self.statistics.rows is not None
