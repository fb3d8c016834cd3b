"""Programs run at arbitrary values of their sites, which no sampler draws: nothing is compiled for them.

Studies of programs run them so, and searches for modes, and chains, start at such values.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from bayesgen.runtime import OwnedJit, Traced, as_key, generator
from bayesgen.statistics import SequenceDistribution, innermost
from bayesgen.typing import Array, Float, Int, PRNGKeyArray, Seed, Shaped

from .messages import Message, Trace, base_support, is_drawn, sample_sites
from .structure import Arrays, Program
from .tracing import sites_of

NUMBERS_OF_A_RUN = 16_381  # for one run; where values need more, the same numbers come again


def arbitrary_numbers(random: int | np.random.Generator) -> Float[np.ndarray, " numbers"]:
    """Standard normal numbers for the arbitrary values of one run.

    NumPy draws them: compiling a random number generator of JAX takes longer than compiling all else of a run.
    """
    return np.random.default_rng(random).normal(size=NUMBERS_OF_A_RUN)


class _Supply:
    """Numbers that are handed out in turn."""

    def __init__(self, numbers: Float[Array, " numbers"]) -> None:
        self._numbers, self._used = numbers, 0

    def take(self, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """The next numbers, in this shape."""
        first, size = self._used, math.prod(shape)
        self._used = (first + size) % len(self._numbers)
        if first + size <= len(self._numbers):
            return jnp.reshape(self._numbers[first : first + size], shape)
        return jnp.resize(jnp.roll(self._numbers, -first), shape)


def arbitrary_sites(
    function: Callable[..., object],
    size: int,
    covariates: Arrays,
    numbers: Float[Array, " numbers"],
    spread: float | Float[Array, ""] = 1.0,
) -> Trace:
    """The sites of a function that is run at `size` rows and at arbitrary values of what it does not observe."""
    supply = _Supply(jnp.asarray(numbers))  # made by JAX: traced where the run is

    def choose(message: Message) -> Shaped[Array, "..."]:
        return _arbitrary_value(message["fn"], supply, spread)

    return sites_of(function, size, covariates, jax.random.key(0, impl="unsafe_rbg"), choose)


def arbitrary_trace(
    program: Program,
    size: int,
    covariates: Arrays,
    numbers: Float[Array, " numbers"],
    spread: float | Float[Array, ""] = 1.0,
) -> Trace:
    """The sites of a program at arbitrary values, with their supports. Traceable by JAX.

    Args:
        program: the program.
        size: number of rows.
        covariates: of the rows.
        numbers: standard normal numbers, which arbitrary values are made of.
        spread: how far values are from their means, see `arbitrary_value`.
    """
    trace = arbitrary_sites(program.function_as_made, size, covariates, numbers, spread)
    for message in sample_sites(trace).values():
        message["support"] = message["fn"].support  # may be computed on access, so not after tracing
    return trace


def run_abstractly(program: Program, size: int) -> tuple[Trace, Traced]:
    """The sites of a program without values: names, shapes and supports alone are meaningful; and the run, traced.

    Its arguments are numbers, spread and covariates, as in `arbitrary_trace`; its results the values of unobserved
    sites.
    """
    traces: list[Trace] = []

    def values(
        numbers: Float[Array, " numbers"], spread: Float[Array, ""], covariates: Arrays
    ) -> dict[str, Shaped[Array, "..."]]:
        traces.append(arbitrary_trace(program, size, covariates, numbers, spread))
        return {name: message["value"] for name, message in sample_sites(traces[0]).items() if is_drawn(message)}

    columns, real = program.covariate_columns, jnp.result_type(float)
    rows = {name: jax.ShapeDtypeStruct((size, *column.row_shape), column.dtype) for name, column in columns.items()}
    numbers, spread = (jax.ShapeDtypeStruct(shape, real) for shape in ((NUMBERS_OF_A_RUN,), ()))
    traced = Traced.of(values, numbers, spread, rows)
    return traces[0], traced


def _arbitrary_value(
    distribution: dist.Distribution, supply: _Supply, spread: float | Float[Array, ""]
) -> Shaped[Array, "..."]:
    """A value in the support of a distribution, about its mean if that is known, without compiling a sampler.

    Args:
        distribution: of a site.
        supply: of standard normal numbers.
        spread: distance from the mean in standard deviations, or in units of unconstrained values where these are not
            known. Beyond 1 all values are at this distance, on a random side; a negative spread swaps the sides.
    """
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape)
    support, leaf = distribution.support, innermost(distribution)
    if isinstance(leaf, SequenceDistribution) and not leaf.of_symbols:
        support = leaf.step_support
    if support.is_discrete:
        return (supply.take(shape) > 0).astype(jnp.int32)
    if isinstance(base_support(support), type(constraints.sphere)):  # which is the image of no space of real numbers
        vectors = supply.take(shape)
        return vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    transform = biject_to(support)
    free = supply.take(transform.inverse_shape(shape))
    free = jnp.where(jnp.abs(spread) > 1, jnp.sign(free), free)
    if base_support(support) is not constraints.real:
        return transform(jnp.sign(spread) * jnp.sqrt(jnp.abs(spread)) * free)
    center, scale = center_and_scale(distribution)
    return center + spread * scale * free


def center_and_scale(distribution: dist.Distribution) -> tuple[float | Array, float | Array]:
    """Mean and standard deviation of a distribution; 0 and 1 where they do not exist."""
    try:
        mean, scale = jnp.asarray(distribution.mean), jnp.sqrt(distribution.variance)
    except (NotImplementedError, ZeroDivisionError):  # the latter of Python's numbers, where a moment is infinite
        return 0.0, 1.0
    exist = jnp.isfinite(mean) & jnp.isfinite(scale)
    return jnp.where(exist, mean, 0.0), jnp.where(exist, scale, 1.0)


STARTS_NEAR_ORIGIN, PRIOR_STARTS = 2, 8  # numbers of starts


def dispersed_starts(program: Program, seed: Seed, num_draws: int = PRIOR_STARTS) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it and points about the means of the prior.

    Points that know of the prior reach modes that climbs from the origin do not. Inside float64.
    """
    rng = generator(as_key(seed))
    numbers, seeds = zip(*[(arbitrary_numbers(rng), rng.integers(2**31)) for _ in range(num_draws)], strict=True)
    return dispersed(_about_prior_means.by_numpy(program, np.stack(numbers), np.stack(seeds)), rng)


def dispersed(
    points: Float[np.ndarray, "points D"], key: PRNGKeyArray | np.random.Generator
) -> Float[np.ndarray, "starts D"]:
    """The origin of the unconstrained space, points around it, and points that know of a prior."""
    rng = generator(key)
    around = rng.normal(size=(STARTS_NEAR_ORIGIN, points.shape[1]))
    # a value may round to the end of its support, where unconstrained coordinates are infinite
    points = np.where(np.isfinite(points), points, rng.normal(size=points.shape))
    return np.concatenate([np.zeros((1, points.shape[1])), around, points])


@OwnedJit
def _about_prior_means(
    program: Program, numbers: Float[Array, "points numbers"], seeds: Int[Array, " points"]
) -> Float[Array, "points D"]:
    """Latents at random distances from their prior means, in NumPyro's unconstrained coordinates.

    Searches stretch some of these coordinates, which hardly moves points about a mean.
    """
    size, covariates = program.num_classes, program.example_covariates(program.num_classes)

    def point(numbers: Float[Array, " numbers"], seed: Int[Array, ""]) -> Float[Array, " D"]:
        sites = arbitrary_trace(program, size, covariates, numbers)
        points = (_start_of(sites[name], seed + index) for index, (name, _) in enumerate(program.structure.latents))
        return jnp.concatenate([jnp.ravel(point) for point in points])

    return jax.vmap(point)(numbers, seeds)


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
