"""Running a program at arbitrary values, to see what its sites are."""

import itertools

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from bayesgen.distributions import SequenceDistribution, innermost
from bayesgen.typing import Array, Float, PRNGKeyArray, Shaped

from .base import Arrays, Program
from .messages import Message, Trace, base_support, samples
from .tracing import sites_of


def run(
    program: Program,
    size: int,
    covariates: Arrays | None = None,
    key: PRNGKeyArray | None = None,
    spread: float | Float[Array, ""] = 1.0,
) -> Trace:
    """The sites of a program at arbitrary values, their supports noted. Traceable by JAX.

    Args:
        program: what is run.
        size: number of rows.
        covariates: those of the rows; ones where they are not given.
        key: of the random numbers.
        spread: how far values are from their means, see `arbitrary_value`.
    """
    places = itertools.count()
    covariates = program.example_covariates(size) if covariates is None else covariates
    key = jax.random.key(0) if key is None else key

    def choose(message: Message) -> Shaped[Array, "..."]:
        return arbitrary_value(message["fn"], jax.random.fold_in(key, next(places)), spread)

    trace = sites_of(program.unchanged_function, size, covariates, key, choose)
    for message in samples(trace).values():
        message["support"] = message["fn"].support  # which may have to be computed, here and not after tracing
    return trace


def run_abstractly(program: Program, size: int) -> Trace:
    """The sites of a program with nothing computed: only their names, shapes and supports mean something."""
    traces: list[Trace] = []
    columns = program.covariate_columns
    rows = {name: jax.ShapeDtypeStruct((size, *column.row_shape), column.dtype) for name, column in columns.items()}
    jax.eval_shape(lambda covariates: traces.append(run(program, size, covariates)), rows)
    return traces[0]


def arbitrary_value(
    distribution: dist.Distribution, key: PRNGKeyArray, spread: float | Float[Array, ""] = 1.0
) -> Shaped[Array, "..."]:
    """A value in the support of a distribution, at random about its mean, where that is known: it costs no sampler.

    Args:
        distribution: of a site.
        key: of the random numbers.
        spread: how far from there, in standard deviations; in those of unconstrained values where they are not known.
            Beyond 1, all values are just so far, on either side by chance; a negative spread changes the sides.
    """
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape)
    support, leaf = distribution.support, innermost(distribution)
    if isinstance(leaf, SequenceDistribution) and not leaf.of_symbols:
        support = leaf.step_support
    if support.is_discrete:
        return jax.random.bernoulli(key, 0.5, shape).astype(jnp.int32)
    transform = biject_to(support)
    free = jax.random.normal(key, transform.inverse_shape(shape))
    free = jnp.where(jnp.abs(spread) > 1, jnp.sign(free), free)
    if base_support(support) is not constraints.real:
        return transform(jnp.sign(spread) * jnp.sqrt(jnp.abs(spread)) * free)
    center, scale = _center_and_scale(distribution)
    return center + spread * scale * free


def _center_and_scale(distribution: dist.Distribution) -> tuple[float | Array, float | Array]:
    """Mean and standard deviation of a distribution, 0 and 1 where they are not known or do not exist."""
    try:
        mean, scale = jnp.asarray(distribution.mean), jnp.sqrt(distribution.variance)
    except NotImplementedError:
        return 0.0, 1.0
    known = jnp.isfinite(mean) & jnp.isfinite(scale)
    return jnp.where(known, mean, 0.0), jnp.where(known, scale, 1.0)
