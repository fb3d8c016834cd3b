"""Programs run at arbitrary values: their sites, and what does not depend on the latents."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import biject_to
from numpyro.ops.provenance import eval_provenance

from bayesgen.data import Rows
from bayesgen.distributions import SequenceDistribution, innermost
from bayesgen.errors import ModelError
from bayesgen.runtime import OwnedJit, over_chunks
from bayesgen.typing import Array, Float, Int, Shaped

from .conventions import Message, Trace, base_support, samples
from .evaluation import Evaluation, evaluate
from .structure import Arrays, Program, Supports
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


def run(
    program: Program,
    size: int,
    covariates: Arrays | None = None,
    numbers: Float[Array, " numbers"] | None = None,
    spread: float | Float[Array, ""] = 1.0,
) -> Trace:
    """The sites of a program at arbitrary values, with their supports. Traceable by JAX.

    Args:
        program: the program.
        size: number of rows.
        covariates: of the rows; ones by default.
        numbers: standard normal numbers, which arbitrary values are made of; ones by default.
        spread: how far values are from their means, see `arbitrary_value`.
    """
    covariates = program.example_covariates(size) if covariates is None else covariates
    supply = _Supply(jnp.ones(1) if numbers is None else numbers)  # made by JAX: traced where the run is

    def choose(message: Message) -> Shaped[Array, "..."]:
        return _arbitrary_value(message["fn"], supply, spread)

    trace = sites_of(program.unchanged_function, size, covariates, jax.random.key(0, impl="unsafe_rbg"), choose)
    for message in samples(trace).values():
        message["support"] = message["fn"].support  # may be computed on access, so not after tracing
    return trace


def run_abstractly(program: Program, size: int) -> Trace:
    """The sites of a program without computing values: names, shapes and supports alone are meaningful."""
    traces: list[Trace] = []
    columns = program.covariate_columns
    rows = {name: jax.ShapeDtypeStruct((size, *column.row_shape), column.dtype) for name, column in columns.items()}
    jax.eval_shape(lambda covariates: traces.append(run(program, size, covariates)), rows)
    return traces[0]


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
    except NotImplementedError:
        return 0.0, 1.0
    known = jnp.isfinite(mean) & jnp.isfinite(scale)
    return jnp.where(known, mean, 0.0), jnp.where(known, scale, 1.0)


# Properties of rows that do not depend on latents: supports, and parameters of base measures.

SUPPORT_CHUNK_ROWS = 4096  # of every call: one compilation for any number of rows
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
    """Latent site -> support of one event."""
    with jax.enable_x64(True):
        trace = run_abstractly(program, 2)
    return {name: base_support(trace[name]["support"]) for name in program.latents}


def find_response_support(program: Program) -> Constraint:
    """The support of a continuous label.

    Raises:
        ModelError: a support that differs between rows, or depends on latents.
    """
    assert program.response_site is not None
    with jax.enable_x64(True):
        support = base_support(run_abstractly(program, 2)[program.response_site]["support"])
    if any(np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in jax.tree.leaves(support)):
        raise ModelError(
            f"The support of the label {program.response_site!r} is not the same for all rows: let its bounds be "
            "numbers."
        )
    return support


def find_supports(program: Program) -> Supports:
    """The `Supports` of a program, without those that depend on a latent."""
    with jax.enable_x64(True):
        trace = run_abstractly(program, 2)
        supports = {name: base_support(trace[name]["support"]) for name in program.attributes}
        sequences = {name for name, site in program.structure.attributes if site.steps is not None}
        fixed = {name: support for name, support in supports.items() if _is_fixed(support, name in sequences)}
        others = [name for name, site in program.structure.attributes if site.discrete and name not in fixed]
        inputs = _inputs_of_supports(program, trace, others) if others else {}
    by_row = tuple(name for name in others if "latents" not in inputs[name])
    return Supports(fixed, by_row, tuple(name for name in by_row if "codes" in inputs[name]))


def _inputs_of_supports(program: Program, trace: Trace, names: list[str]) -> dict[str, frozenset[str]]:
    """Site -> which of "latents" and "codes" its support depends on."""
    covariates = program.example_covariates(2)

    def bounds(latents: Arrays, codes: Int[Array, " n"]) -> dict[str, list[Array]]:
        evaluation = evaluate(program, latents, codes, None, covariates)
        leaves = {name: jax.tree.leaves(base_support(evaluation.sites[name]["fn"].support)) for name in names}
        return jax.tree.map(jnp.asarray, leaves)

    latents = {name: jnp.zeros(jnp.shape(trace[name]["value"])) for name in program.latents}
    flows = eval_provenance(bounds, latents=latents, codes=jnp.zeros(2, int))
    return {name: frozenset().union(*of_bounds) for name, of_bounds in flows.items()}


def _is_fixed(support: Constraint, of_sequences: bool) -> bool:
    bounds = jax.tree.leaves(support)
    return (of_sequences or isinstance(support, FIXED_SUPPORTS)) and not any(
        np.ndim(bound) or isinstance(bound, jax.core.Tracer) for bound in bounds
    )


def measure_parameters(program: Program, rows: Rows) -> dict[str, dict[str, np.ndarray]]:
    """Site -> parameters of its base measure, rows first, for the compressed sites that have any."""
    needed = {other for _, others in program.plan.dependences for other in others}
    values = {name: rows.values[name] for name in rows.values if name in needed}
    arrays = rows.codes, rows.covariates, values
    return _over_chunks(functools.partial(_measure_parameters, program), arrays, rows.num_rows)


@OwnedJit
def _measure_parameters(
    program: Program, codes_covariates_and_values: tuple[Int[Array, " n"], Arrays, Arrays]
) -> dict[str, dict[str, Array]]:
    evaluation = _at_any_latents(program, *codes_covariates_and_values)
    measure = {name: evaluation.compressed(name).measure for name, _ in program.plan.compressed}
    return {name: parameters for name, parameters in measure.items() if parameters}


def supports_by_row(program: Program, rows: Rows, codes: Int[Array, " n"]) -> dict[str, Constraint]:
    """Site -> support, its bounds with the rows first, for the sites whose support differs between rows."""
    supports = functools.partial(_supports_by_row, program, names=program.supports.by_row)
    return _over_chunks(supports, (codes, rows.values, rows.covariates), rows.num_rows)


@functools.partial(OwnedJit, static_argnames="names")
def _supports_by_row(
    program: Program, arrays: tuple[Int[Array, " n"], Arrays, Arrays], *, names: tuple[str, ...]
) -> dict[str, Constraint]:
    codes, values, covariates = arrays
    evaluation = _at_any_latents(program, codes, covariates, values)
    return {name: _support(evaluation, program, name) for name in names}


def _support(evaluation: Evaluation, program: Program, name: str) -> Constraint:
    distribution, site = evaluation.sites[name]["fn"], program.structure.attribute[name]
    support = base_support(distribution.support)
    shape = distribution.shape()
    shape = shape[: len(shape) - support.event_dim]
    return jax.tree.map(lambda bound: jnp.moveaxis(jnp.broadcast_to(bound, shape), site.position, 0), support)


def _at_any_latents(
    program: Program, codes: Int[Array, " n"], covariates: Arrays, values: Arrays | None = None
) -> Evaluation:
    """The program run at rows and arbitrary latents, for values that do not depend on latents."""
    two_rows = {name: covariate[:1].repeat(2, 0) for name, covariate in covariates.items()}
    trace = run(program, 2, two_rows)
    latents = {name: trace[name]["value"] for name in program.latents}
    return evaluate(program, latents, codes, values, covariates)


def _over_chunks(function: Callable[[Any], Any], arrays: Any, num_rows: int) -> Any:
    with jax.enable_x64(True):
        return over_chunks(function, arrays, num_rows, SUPPORT_CHUNK_ROWS, one_size=True)
