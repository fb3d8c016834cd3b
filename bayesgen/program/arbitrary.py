"""Running a program at arbitrary values, to see what its sites are."""

import itertools

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from .messages import base_support
from .tracing import sites_of


def arbitrary_value(site, key, spread=1.0):
    """A value in the support of a site, at random about its mean, where that is known: it costs no sampler.

    Args:
        spread: how far from there, in standard deviations; in those of unconstrained values where they are not known.
            Beyond 1, all values are just so far, on either side by chance; a negative spread changes the sides.
    """
    fn = site["fn"]
    shape = tuple(fn.batch_shape) + tuple(fn.event_shape)
    if fn.support.is_discrete:
        return jax.random.bernoulli(key, 0.5, shape).astype(jnp.int32)
    transform = biject_to(fn.support)
    free = jax.random.normal(key, transform.inverse_shape(shape))
    free = jnp.where(jnp.abs(spread) > 1, jnp.sign(free), free)
    if base_support(fn.support) is not constraints.real:
        return transform(jnp.sign(spread) * jnp.sqrt(jnp.abs(spread)) * free)
    center, scale = _center_and_scale(fn)
    return center + spread * scale * free


def _center_and_scale(fn):
    """Mean and standard deviation of a distribution, 0 and 1 where they are not known or do not exist."""
    try:
        mean, scale = jnp.asarray(fn.mean), jnp.sqrt(fn.variance)
    except NotImplementedError:
        return 0.0, 1.0
    known = jnp.isfinite(mean) & jnp.isfinite(scale)
    return jnp.where(known, mean, 0.0), jnp.where(known, scale, 1.0)


def run(function, size, covariates=None, key=None, spread=1.0):
    """Trace a program once, with arbitrary values at its sites, and note their supports. Traceable by JAX."""
    keys = itertools.count()
    key = jax.random.key(0) if key is None else key

    def choose(site):
        free = site["type"] == "sample" and not site["is_observed"]
        return arbitrary_value(site, jax.random.fold_in(key, next(keys)), spread) if free else None

    program = handlers.substitute(handlers.seed(function, key), substitute_fn=choose)
    trace = sites_of(program, size, covariates or {})
    for site in trace.values():
        if site["type"] == "sample":
            site["support"] = site["fn"].support  # which may have to be computed, here and not after tracing
    return trace


def run_abstractly(function, size, covariates):
    """Trace a program without computing anything: only shapes and names of the trace mean something."""
    traces = []
    jax.eval_shape(lambda given: traces.append(run(function, size, given)), covariates)
    return traces[0]
