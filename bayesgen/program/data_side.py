"""What a program says of rows whatever its latents: the values that they can take, and parameters of base measures."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.ops.provenance import eval_provenance

from bayesgen.runtime import OwnedJit, over_chunks
from bayesgen.typing import Array, Int

from .arbitrary import run, run_abstractly
from .base import Arrays, Program
from .evaluation import evaluate
from .messages import Trace, base_support
from .structure import Supports

CHUNK_ROWS = 4096  # at once, and no fewer: one compilation for any number of rows
FIXED_SUPPORTS = (
    type(constraints.boolean),
    type(constraints.nonnegative_integer),
    type(constraints.positive),
    type(constraints.nonnegative),
    type(constraints.unit_interval),
    type(constraints.simplex),
    type(constraints.integer_interval(0, 1)),
)


def find_latent_supports(program: Program) -> dict[str, Constraint]:
    """The supports of the latent sites, those of one event where there are several."""
    with jax.enable_x64(True):
        trace = run_abstractly(program.function, 2, program.example_covariates(2))
    return {name: base_support(trace[name]["support"]) for name in program.latents}


def find_supports(program: Program) -> Supports:
    """The `Supports` of a program. A support that depends on a latent is in none of them."""
    with jax.enable_x64(True):
        trace = run_abstractly(program.function, 2, program.example_covariates(2))
        supports = {name: base_support(trace[name]["support"]) for name, _ in program.structure.attributes}
        fixed = {name: support for name, support in supports.items() if _is_fixed(support)}
        others = [name for name, site in program.structure.attributes if site.discrete and name not in fixed]
        inputs = _inputs_of_supports(program, trace, others) if others else {}
    by_row = tuple(name for name in others if "latents" not in inputs[name])
    return Supports(fixed, by_row, tuple(name for name in by_row if "codes" in inputs[name]))


def _inputs_of_supports(program: Program, trace: Trace, names: list[str]) -> dict[str, frozenset[str]]:
    """For each of these sites, which of "latents" and "codes" enter the support."""
    covariates = program.example_covariates(2)

    def bounds(latents: Arrays, codes: Int[Array, " n"]) -> dict[str, list[Array]]:
        evaluation = evaluate(program, latents, codes, None, covariates)
        leaves = {name: jax.tree.leaves(base_support(evaluation.sites[name]["fn"].support)) for name in names}
        return jax.tree.map(jnp.asarray, leaves)

    latents = {name: jnp.zeros(jnp.shape(trace[name]["value"])) for name in program.latents}
    flows = eval_provenance(bounds, latents=latents, codes=jnp.zeros(2, int))
    return {name: frozenset().union(*of_bounds) for name, of_bounds in flows.items()}


def _is_fixed(support: Constraint) -> bool:
    bounds = jax.tree.leaves(support)
    return isinstance(support, FIXED_SUPPORTS) and not any(
        np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds
    )


@OwnedJit
def inert_parameters(program, codes, covariates):
    """Parameters of the base measures, row by row, for the sites that have any: site -> name -> (n, ...)."""
    evaluation = _at_any_latents(program, codes, covariates, None)
    read = {name: evaluation.compressed(name) for name, _ in program.plan.compressed}
    return {name: one.inert for name, one in read.items() if one.inert}


@functools.partial(OwnedJit, static_argnames="names")
def supports_by_row(program, codes, covariates, attributes, *, names):
    """Supports of the sites where they differ between rows: site -> constraint with bounds (n, *extra)."""
    evaluation = _at_any_latents(program, codes, covariates, attributes)
    supports = {}
    for name in names:
        distribution, site = evaluation.sites[name]["fn"], program.structure.attribute[name]
        support = base_support(distribution.support)
        shape = distribution.shape()
        shape = shape[: len(shape) - support.event_dim]
        supports[name] = jax.tree.map(
            lambda bound, shape=shape, site=site: jnp.moveaxis(jnp.broadcast_to(bound, shape), site.position, 0),
            support,
        )
    return supports


def _at_any_latents(program, codes, covariates, attributes):
    """The program run at rows, for what does not depend on the latents."""
    trace = run(program.function, 2, {name: value[:1].repeat(2, 0) for name, value in covariates.items()})
    latents = {name: trace[name]["value"] for name in program.latents}
    return evaluate(program, latents, codes, attributes, covariates)


def by_chunks(function: Callable[..., Any], program: Any, *rows: Any) -> Any:
    """function(program, *rows) of arrays with the rows first, compiled once."""
    with jax.enable_x64(True):
        return over_chunks(lambda part: function(program, *part), rows, len(rows[0]), CHUNK_ROWS, one_size=True)
